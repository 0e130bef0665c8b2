package function

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/tenant"
)

// scope is what one pass over a Function has seen and done. The status is computed from it, at the end.
type scope struct {
	function  *v1alpha1.Function
	namespace *corev1.Namespace // the user's
	now       time.Time

	triggers triggers
	// image is the image of the source that the spec names; nil while there is none.
	image *image
	// builder says how far the image is, when the Builder was asked.
	builder *build.State
	// tenant is the namespace of the children, once it is there.
	tenant string
	// envSecret has the environment; envKnown says that it is made, or not needed.
	envSecret  string
	envKnown   bool
	envFollows bool
	// deployment is the Deployment as of this pass, nil when there is none. It has the template of this spec if deployed is set, and that
	// of an earlier version otherwise.
	deployment *appsv1.Deployment
	deployed   bool
	revision   string
	rollout    rollout
	routing    Routing
	// obstacle is what keeps the pass from going on to serve what the spec asks for, and obstacleAgain how soon to look again.
	obstacle      *fault.Error
	obstacleAgain time.Duration
	// collectAgain is how soon to look for old environments.
	collectAgain time.Duration
	// built says that the image is of what the spec says, on whatever image of its runtime; catalogue is the one that the catalogue names,
	// and paused that nobody is to be brought to it.
	built     bool
	catalogue string
	paused    bool
	// podsWait says that the Deployment would get other pods although the tenant has changed nothing, and that it is not its turn.
	podsWait bool
	// upgradeStep is how far the build on the catalogue's image is.
	upgradeStep string
	// upgradeAgain is how soon to go on with an upgrade.
	upgradeAgain time.Duration
	// followAgain is how soon to tell the Builder what was built, so that it follows the source.
	followAgain time.Duration
}

// image is what a source was made into.
type image struct {
	reference, sourceDigest string
}

// triggers sums up the Triggers of a Function.
type triggers struct {
	any, enabled, enabledHTTP bool
}

func newScope(function *v1alpha1.Function, namespace *corev1.Namespace, now time.Time) *scope {
	return &scope{function: function, namespace: namespace, now: now}
}

func (s *scope) key() client.ObjectKey { return client.ObjectKeyFromObject(s.function) }

func (s *scope) allowed() bool { return tenant.Check(s.function.Namespace) == nil }

// tenantName is where the children are, whether the namespace is there or not.
func (s *scope) tenantName() string { return names.FunctionNamespace(s.function.Namespace) }

// stop notes what is in the way, if nothing is yet: the first obstacle is the one to mend first.
func (s *scope) stop(obstacle *fault.Error, again time.Duration) {
	if s.obstacle == nil {
		s.obstacle, s.obstacleAgain = obstacle, again
	}
}

// deployable says that nothing was in the way so far, so that the version that the spec asks for can be deployed.
func (s *scope) deployable() bool {
	return s.obstacle == nil && s.image != nil && s.tenant != "" && s.envKnown
}

// disabled says that the Function has Triggers and that none of them is enabled.
func (s *scope) disabled() bool { return s.triggers.any && !s.triggers.enabled }

// replicas is how many pods shall run.
func (s *scope) replicas() int32 {
	switch {
	case s.disabled():
		return 0
	case s.function.Spec.Replicas == nil:
		return 1
	}
	return *s.function.Spec.Replicas
}

// available is how many pods of any version answer.
func (s *scope) available() int32 {
	if s.deployment == nil {
		return 0
	}
	return s.deployment.Status.AvailableReplicas
}

// oldServes says that pods of an earlier version answer.
func (s *scope) oldServes() bool {
	if s.available() == 0 {
		return false
	}
	return !s.deployed || s.deployment.Status.Replicas > s.deployment.Status.UpdatedReplicas
}

// observeTriggers sums up the Triggers that name the Function. One that is being deleted is gone.
func observeTriggers(list []v1alpha1.Trigger) triggers {
	found := triggers{}
	for i := range list {
		trigger := &list[i]
		if !trigger.DeletionTimestamp.IsZero() {
			continue
		}
		found.any = true
		if trigger.IsEnabled() {
			found.enabled = true
			found.enabledHTTP = found.enabledHTTP || trigger.Spec.Type == v1alpha1.TriggerHTTP
		}
	}
	return found
}

// Intervals after which a pass comes again.
const (
	// followEvery is how often values from Secrets and ConfigMaps are read again; it leaves room for a queue before 60 s have passed.
	followEvery = 45 * time.Second
	// buildEvery is a net under the Builder's events.
	buildEvery = 30 * time.Second
	// rolloutEvery is how often pods of a roll-out are looked at: no watch tells of them.
	rolloutEvery = 2 * time.Second
	// tenantEvery is how often a namespace that is being deleted is looked at, as a net under the watch.
	tenantEvery = 2 * time.Second
)

// again is how soon to come again; 0 is when something changes.
func (s *scope) again() (after time.Duration) {
	sooner := func(d time.Duration) {
		if d > 0 && (after == 0 || d < after) {
			after = d
		}
	}
	sooner(s.obstacleAgain)
	sooner(s.collectAgain)
	sooner(s.upgradeAgain)
	sooner(s.followAgain)
	if s.envFollows {
		sooner(followEvery)
	}
	if s.deployed && s.obstacle == nil {
		sooner(s.rollout.again())
		if s.rollout.complete {
			sooner(s.routing.Again)
		}
	}
	return after
}
