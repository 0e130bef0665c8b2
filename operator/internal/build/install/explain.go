package install

import (
	"regexp"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/fault"
)

var (
	diskIsFull = regexp.MustCompile(`(?i)no space left on device|ENOSPC|disk quota exceeded`)
	// What kaniko and the library under it say of a registry, in the last lines of their log.
	registryRefuses = regexp.MustCompile(`UNAUTHORIZED|DENIED|FORBIDDEN|401 Unauthorized|403 Forbidden|unexpected status code (401|403)`)
	registryIsAway  = regexp.MustCompile(`dial tcp|connection (refused|reset)|no such host|i/o timeout|TLS handshake|x509:|unexpected EOF|TOOMANYREQUESTS|unexpected status code (429|5\d\d)|5\d\d (Internal Server Error|Bad Gateway|Service Unavailable|Gateway Timeout)|context deadline exceeded`)
)

// explainLog finds a more exact reason in the log of the step that failed. Only an exit code that says nothing is explained so: what the
// kubelet says is never overruled by a text.
func (o observation) explainLog(known *fault.Error, step, log string) *fault.Error {
	switch {
	case known.Reason != v1alpha1.ReasonDependenciesFailed && known.Reason != v1alpha1.ReasonBuildFailed:
		return known
	case (step == installStep || step == kanikoStep) && diskIsFull.MatchString(log):
		return outOfDisk(o.volume)
	case step != kanikoStep: // the rest is about the registry, of which only our own program may speak
		return known
	case registryRefuses.MatchString(log):
		return fault.Terminal(v1alpha1.ReasonRegistryDenied, "the registry refuses the build's credentials or the image; the platform's operator must correct them, and the log says what was refused")
	case registryIsAway.MatchString(log):
		return fault.Transient(v1alpha1.ReasonRegistryUnavailable, "the build can't reach the registry; the log says why, and the build runs again")
	}
	return known
}
