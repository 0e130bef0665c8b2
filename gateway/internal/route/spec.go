package route

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/naeel/sless/api/v1alpha1"
)

// Access says whether a function is reachable from outside.
type Access int

// The kinds of access.
const (
	// Closed: no http Trigger names the function.
	Closed Access = iota
	// Disabled: there are http Triggers, and none is enabled.
	Disabled
	// Open: an enabled http Trigger names the function.
	Open
)

// defaultTimeout is that of a Function that was stored without one.
const defaultTimeout = 60 * time.Second

// Spec is what a Function and its Triggers say about its traffic. It never changes; a change makes another.
type Spec struct {
	Access Access
	// NamespaceUID tells the namespace from one that had the name before it; empty while that is not known.
	NamespaceUID string
	// Trigger is the one that decides: of the enabled http Triggers, or when none is, of the disabled ones.
	Trigger string
	// Image is the digest of the image that serves, CodeHash the user's own mark of its source.
	Image, CodeHash string
	// Methods are those let through; none means all.
	Methods []string
	// Allow lists them for the header of that name.
	Allow string
	// PayloadBody says that the request's body alone is the event.
	PayloadBody bool
	// Off says that every Trigger (at least one) is disabled, so that nothing runs.
	Off bool
	// ScaledToZero says that the Function asks for no replicas.
	ScaledToZero bool
	// Hopeless says that only a change of the Function will bring an endpoint, so that waiting for one is no use.
	Hopeless bool
	// Timeout is how long the function may take to begin its answer, and how long it may be silent after that.
	Timeout time.Duration
	// Concurrency is how many calls one replica may have; 0 is no limit.
	Concurrency int
}

// Allows says whether a method is let through.
func (s *Spec) Allows(method string) bool {
	return len(s.Methods) == 0 || slices.Contains(s.Methods, method)
}

// Compile makes the Spec of a Function and the Triggers that name it. Of several enabled http Triggers the oldest decides, then the name.
func Compile(function *v1alpha1.Function, triggers []*v1alpha1.Trigger) *Spec {
	spec := &Spec{
		Off:          len(triggers) > 0,
		ScaledToZero: function.Spec.Replicas != nil && *function.Spec.Replicas == 0,
		Hopeless: function.Status.Phase == v1alpha1.FunctionFailed &&
			function.Status.ObservedGeneration == function.Generation,
		Timeout:  defaultTimeout,
		CodeHash: function.Status.CodeHash,
	}
	_, spec.Image, _ = strings.Cut(function.Status.Image, "@")
	if seconds := function.Spec.TimeoutSeconds; seconds > 0 {
		spec.Timeout = time.Duration(seconds) * time.Second
	}
	if limit := function.Spec.Concurrency; limit != nil {
		spec.Concurrency = int(*limit)
	}
	var decisive, disabled *v1alpha1.Trigger
	for _, trigger := range triggers {
		if trigger.IsEnabled() {
			spec.Off = false
		}
		if trigger.Spec.Type != v1alpha1.TriggerHTTP {
			continue
		}
		if !trigger.IsEnabled() {
			spec.Access = max(spec.Access, Disabled)
			if disabled == nil || older(trigger, disabled) < 0 {
				disabled = trigger
			}
			continue
		}
		if decisive == nil || older(trigger, decisive) < 0 {
			decisive = trigger
		}
	}
	switch {
	case decisive != nil:
		spec.Access, spec.Trigger = Open, decisive.Name
		spec.setHTTP(decisive.Spec.HTTP)
	case disabled != nil:
		spec.Trigger = disabled.Name
	}
	return spec
}

func (s *Spec) setHTTP(http *v1alpha1.HTTPTrigger) {
	if http == nil {
		return
	}
	s.Methods = http.Methods
	s.Allow = strings.Join(http.Methods, ", ")
	s.PayloadBody = http.Payload == v1alpha1.PayloadBody
}

// older orders Triggers by age, then by name.
func older(a, b *v1alpha1.Trigger) int {
	return cmp.Or(a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}
