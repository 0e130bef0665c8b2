package function

import (
	"cmp"
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build"
)

// An upgrade is a change of a Function's pods that its tenant did not ask for: the catalogue names another image for its runtime, or
// another version of sless makes other pods. It waits for one of few places, is built and rolled out as any version is, and the place is
// free again. status.upgrade remembers the place, and status.image and runtimeVersion stay those before until the pods of the new ones
// answer, so that every pass, of whatever process, knows where to go on and what to go back to.

// upgradeState says where a Function is on its way to the image that the catalogue names for its runtime; "" is there. It must have been
// built of what its spec says.
func upgradeState(status *v1alpha1.FunctionStatus, catalogue string, paused bool) v1alpha1.UpgradeState {
	place := placeOf(status)
	switch {
	case status.RuntimeVersion == catalogue:
		return ""
	case status.RuntimeHeld == catalogue:
		return v1alpha1.UpgradeHeld
	case place != nil && place.RuntimeVersion == catalogue:
		return v1alpha1.Upgrading
	case paused:
		return v1alpha1.UpgradePaused
	case place != nil && place.RuntimeVersion != status.RuntimeVersion:
		return v1alpha1.Upgrading // to an image that the catalogue has replaced meanwhile
	}
	return v1alpha1.UpgradeWaiting
}

// placeOf returns the upgrade of a Function that has a place, and nil of others.
func placeOf(status *v1alpha1.FunctionStatus) *v1alpha1.UpgradeStatus {
	if status.Upgrade == nil || status.Upgrade.StartedAt == nil {
		return nil
	}
	return status.Upgrade
}

func (s *scope) place() *v1alpha1.UpgradeStatus { return placeOf(&s.function.Status) }

// upgradeState is that of the Function in this pass; for people, one that waits with its pods alone waits, too.
func (s *scope) upgradeState() v1alpha1.UpgradeState {
	state := upgradeState(&s.function.Status, s.catalogue, s.paused)
	switch {
	case !s.built:
		return ""
	case s.podsWait && s.settled():
		return v1alpha1.UpgradeWaiting
	case state == v1alpha1.UpgradeHeld:
		return state
	case s.place() != nil:
		return v1alpha1.Upgrading
	case state == v1alpha1.UpgradeWaiting && !s.settled():
		return "" // what goes on, or is wrong, comes first
	}
	return state
}

// settled says that what the spec asks for serves, on whatever runtime image.
func (s *scope) settled() bool {
	return s.obstacle == nil && s.deployed && s.rollout.complete && s.routing.Complete
}

// steady says that an upgrade is under way and that as many pods answer as before: all of them are what the spec asks for.
func (s *scope) steady() bool {
	return s.place() != nil && s.obstacle == nil && s.deployed && s.available() >= s.replicas()
}

// mayReplace says that the place is for the pods of this pass's image.
func (s *scope) mayReplace() bool {
	place := s.place()
	return place != nil && place.Image == s.image.reference
}

// reconcileUpgrade finds out on which runtime image the code shall run, which was built on one before. request is on the catalogue's.
func (r *Reconciler) reconcileUpgrade(ctx context.Context, s *scope, request build.Request) error {
	status := &s.function.Status
	s.built, s.catalogue, s.paused = true, request.Runtime.Image, r.Config.RuntimeUpgrade.Paused
	if status.RuntimeHeld != s.catalogue {
		s.unhold()
	}
	place := s.place()
	if upgradeState(status, s.catalogue, s.paused) != v1alpha1.Upgrading {
		if place != nil {
			place.RuntimeVersion, place.Image = status.RuntimeVersion, status.Image
		}
		return r.keepImage(ctx, s, request)
	}
	if place.RuntimeVersion != s.catalogue {
		place.RuntimeVersion, place.Image = s.catalogue, ""
	}
	if place.Image != "" {
		s.image.reference = place.Image
		return r.keepImage(ctx, s, request)
	}
	pinSource(&request, status.SourceRevision)
	problem, err := r.addCredentials(ctx, s.function, &request)
	if err != nil {
		return err
	}
	if problem != nil {
		r.Builder.Forget(request.Owner)
		s.hold(problem.Message)
		return nil
	}
	state := r.Builder.Ensure(ctx, request)
	s.builder = &state
	if state.Phase == build.Done && state.Result.SourceDigest != status.SourceDigest && polls(request) {
		s.takeState(request) // the tenant asked for what is there by now
		return nil
	}
	s.takeUpgrade(request, &state)
	if s.place().RuntimeVersion != s.catalogue { // it did not go well
		r.Builder.Forget(request.Owner)
	}
	return nil
}

// takeUpgrade says what the state of a build on the new runtime image means. One that meets trouble which passes goes on.
func (s *scope) takeUpgrade(request build.Request, state *build.State) {
	status := &s.function.Status
	switch state.Phase {
	case build.Failed:
		s.hold(state.Error.Message)
	case build.Done:
		if state.Result.SourceDigest != status.SourceDigest && !request.Source.Fixed() {
			s.hold("the source has other code by now than the code that runs, which nobody asked for; change codeHash to have it built")
			return
		}
		status.Upgrade.Image = state.Result.Image
		status.LastBuiltAt = new(metav1.NewTime(state.Result.BuiltAt).Rfc3339Copy())
		s.image.reference = state.Result.Image
	case build.Building:
		s.upgradeAgain = buildEvery
		s.upgradeStep = describeStep(state)
		if state.Error != nil {
			s.upgradeStep = state.Error.Message + "; sless tries again"
		}
	}
}

// hold ends the way to a new runtime image. The place is kept until the pods are back on the old one.
func (s *scope) hold(why string) {
	status := &s.function.Status
	status.RuntimeHeld = s.catalogue
	status.Upgrade.Message = cut(cmp.Or(why, "no reason was given"))
	status.Upgrade.RuntimeVersion, status.Upgrade.Image = status.RuntimeVersion, status.Image
	s.image.reference = status.Image
	s.upgradeAgain = catchUp
}

// cut shortens a message to what an Event or a status takes.
func cut(message string) string {
	if len(message) > longestNote {
		message = message[:longestNote] + "…"
	}
	return strings.ToValidUTF8(message, "")
}

func (s *scope) unhold() {
	status := &s.function.Status
	status.RuntimeHeld = ""
	if status.Upgrade != nil {
		status.Upgrade.Message = ""
	}
}

// leave gives the place up, or the wish for one, with the image that came of it.
func (r *Reconciler) leave(s *scope) {
	status := &s.function.Status
	r.pace.leave(s.key())
	if status.Upgrade != nil {
		status.Upgrade = &v1alpha1.UpgradeStatus{Message: status.Upgrade.Message}
	}
	if s.built {
		s.image.reference = status.Image
	}
}

// settleUpgrade takes a place when it is the Function's turn, and gives it up at the end, one way or the other. What the place is for
// begins with the next pass, when the status has it, so that no process ever forgets it.
func (r *Reconciler) settleUpgrade(_ context.Context, s *scope) error {
	place := s.place()
	switch {
	case !s.built:
		r.leave(s)
	case place == nil:
		r.takePlace(s)
	case s.obstacle != nil && s.obstacle.Terminal:
		r.leave(s)
	case place.Image == "" || !s.deployed:
		// It is being built, or something passes.
	case s.settled() && !s.podsWait:
		s.function.Status.Image, s.function.Status.RuntimeVersion = place.Image, place.RuntimeVersion
		r.leave(s)
	case s.rollout.unplaced:
		// The cluster is full, which says nothing about the image.
	case s.rollout.overdue && s.rollout.problem.Reason != v1alpha1.ReasonImagePullFailed:
		if place.RuntimeVersion != s.function.Status.RuntimeVersion {
			s.hold(s.rollout.problem.Message)
		} else {
			r.leave(s)
		}
	}
	return nil
}

func (r *Reconciler) takePlace(s *scope) {
	status := &s.function.Status
	if s.upgradeState() != v1alpha1.UpgradeWaiting {
		r.pace.leave(s.key())
		return
	}
	if !r.pace.may(s.key()) {
		return
	}
	if status.Upgrade == nil {
		status.Upgrade = &v1alpha1.UpgradeStatus{}
	}
	status.Upgrade.StartedAt = new(metav1.NewTime(s.now).Rfc3339Copy())
	status.Upgrade.RuntimeVersion, status.Upgrade.Image = status.RuntimeVersion, status.Image
	if upgradeState(status, s.catalogue, s.paused) == v1alpha1.UpgradeWaiting {
		status.Upgrade.RuntimeVersion, status.Upgrade.Image = s.catalogue, ""
	}
	s.upgradeAgain = catchUp
}

// setUpgrade tells of the upgrade in status. What a pass that did not come so far does not know of stays.
func setUpgrade(s *scope) {
	status := &s.function.Status
	state := s.upgradeState()
	if status.Upgrade == nil {
		status.Upgrade = &v1alpha1.UpgradeStatus{}
	}
	status.Upgrade.State = state
	if *status.Upgrade == (v1alpha1.UpgradeStatus{}) {
		status.Upgrade = nil
	}
}

// upgradeNote is what the Ready condition says of an upgrade, after what it says of the version that serves.
func upgradeNote(s *scope) string {
	status := &s.function.Status
	runtime := s.function.Spec.Runtime
	onNew := s.catalogue == status.RuntimeVersion
	if s.built && !onNew && status.RuntimeHeld == s.catalogue {
		return "; it stays on an earlier image of runtime " + runtime + ", because it could not be brought to the new one: " + status.Upgrade.Message
	}
	switch s.upgradeState() {
	case v1alpha1.UpgradePaused:
		return "; it stays on an earlier image of runtime " + runtime + " while upgrades are paused"
	case v1alpha1.UpgradeWaiting:
		if onNew {
			return "; its pods wait for their turn to be replaced by those that this version of sless makes"
		}
		return "; it waits for its turn to be brought to the new image of runtime " + runtime
	case v1alpha1.Upgrading:
		step := s.upgradeStep
		switch {
		case step != "":
		case s.rollout.problem != nil:
			step = s.rollout.problem.Message
		case !s.rollout.complete:
			step = s.rollout.message
		default:
			step = s.routing.Message
		}
		if step != "" {
			step = ": " + step
		}
		if onNew || s.place().RuntimeVersion == status.RuntimeVersion {
			return "; its pods are being replaced by those that this version of sless makes" + step
		}
		return "; it is being brought to the new image of runtime " + runtime + step
	}
	return ""
}
