package problem

import (
	"context"
	"errors"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/rest"
)

// Object is what a request was about, for messages.
type Object struct {
	// Kind is the word for it in the API: function, trigger or job.
	Kind, Namespace, Name string
	// Location translates the path of a field of the resource (spec.timeoutSeconds) to where the request has it
	// (body.timeout_sec).
	Location func(field string) string
}

// FromKubernetes translates an error of the Kubernetes API server. An error that it can't translate is returned unchanged.
func FromKubernetes(err error, object Object) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*Problem](err); ok {
		return err
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return fromTransport(err)
	}
	switch {
	case apierrors.IsNotFound(err):
		if details := status.Status().Details; details != nil && details.Kind == "namespaces" {
			return New(http.StatusNotFound, rest.CodeNamespaceNotFound, "namespace %s does not exist", object.Namespace)
		}
		return New(http.StatusNotFound, rest.CodeNotFound, "there is no %s %s in namespace %s", object.Kind, object.Name, object.Namespace)
	case apierrors.IsAlreadyExists(err):
		return New(http.StatusConflict, rest.CodeAlreadyExists, "%s %s exists in namespace %s", object.Kind, object.Name, object.Namespace)
	case apierrors.IsConflict(err):
		return New(http.StatusConflict, rest.CodeConflict, "%s %s is being changed by others; try again", object.Kind, object.Name).RetryAfter(time.Second)
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return New(http.StatusGone, rest.CodeContinueExpired, "the list has changed too much since its first page; start it again without continue")
	case apierrors.IsInvalid(err):
		return invalid(status.Status(), object)
	case apierrors.IsRequestEntityTooLargeError(err):
		return New(http.StatusRequestEntityTooLarge, rest.CodeBodyTooLarge, "the %s is larger than the cluster stores", object.Kind)
	case apierrors.HasStatusCause(err, "NamespaceTerminating"):
		return New(http.StatusConflict, rest.CodeNamespaceTerminating, "namespace %s is being deleted", object.Namespace)
	case apierrors.IsForbidden(err) && strings.Contains(status.Status().Message, "exceeded quota"):
		return New(http.StatusForbidden, rest.CodeQuotaExceeded, "a quota of namespace %s is used up", object.Namespace)
	case apierrors.IsForbidden(err) && strings.Contains(status.Status().Message, "denied request"):
		return refused(status.Status())
	case apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err), apierrors.IsServiceUnavailable(err):
		return unavailable()
	}
	return err
}

// fromTransport translates an error that came from no API server at all.
func fromTransport(err error) error {
	if _, ok := errors.AsType[net.Error](err); ok || errors.Is(err, context.DeadlineExceeded) {
		return unavailable()
	}
	return err
}

func unavailable() *Problem {
	return New(http.StatusServiceUnavailable, rest.CodeKubernetesUnavailable, "the cluster does not answer; try again").RetryAfter(2 * time.Second)
}

// refused is what an admission policy says.
func refused(status metav1.Status) *Problem {
	_, reason, found := strings.Cut(status.Message, "denied request: ")
	if !found {
		reason = "a policy of the cluster"
	}
	return New(http.StatusUnprocessableEntity, rest.CodeRefusedByPolicy, "refused: %s", reason)
}

// invalid takes the fields and rules from the causes.
func invalid(status metav1.Status, object Object) *Problem {
	if strings.Contains(status.Message, "denied request") {
		return refused(status)
	}
	var fields []rest.FieldError
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			field := fieldError(cause, object.Location)
			if !slices.Contains(fields, field) && !strings.HasPrefix(field.Message, unchecked) {
				fields = append(fields, field)
			}
		}
	}
	if len(fields) == 0 {
		fields = []rest.FieldError{{Location: "body", Message: "is not valid"}}
	}
	return Invalid(fields...)
}

// unchecked begins a cause that only says that there may be more.
const unchecked = "some validation rules were not checked"

// fieldError says where and what. A rule of the whole object that begins with a field is that field's.
func fieldError(cause metav1.StatusCause, locate func(string) string) rest.FieldError {
	if locate == nil {
		locate = func(string) string { return "body" }
	}
	found := rest.FieldError{Location: locate(cause.Field), Message: rule(cause.Message)}
	if first, rest, ok := strings.Cut(found.Message, " "); ok && found.Location == "body" && locate(first) != "body" {
		found.Location, found.Message = locate(first), rest
	}
	return found
}

// kinds are the beginnings of causes after which the value stands, unless a rule of the API's own has broken.
var kinds = regexp.MustCompile(`^(Invalid value|Unsupported value|Duplicate value|Not found): `)

// plain is a value that is not quoted.
var plain = regexp.MustCompile(`^(-?[0-9][0-9.e+-]*|true|false|null|<nil>)(: |$)`)

// inBody is how rules of the schema speak of the field.
var inBody = regexp.MustCompile(`^\S+ in body (should|must)`)

// rule returns a cause's message without the value, which may be secret.
func rule(message string) string {
	kind := kinds.FindString(message)
	text := message[len(kind):]
	switch quoted, err := strconv.QuotedPrefix(text); {
	case kind == "":
		return lower(message)
	case err == nil:
		text = strings.TrimPrefix(text[len(quoted):], ": ")
	case strings.ContainsAny(text[:min(1, len(text))], "{[\"`"):
		return "is not valid" // where the value ends can't be told
	default:
		text = text[len(plain.FindString(text)):]
	}
	switch {
	case strings.HasPrefix(kind, "Unsupported"):
		return "must be one of the " + text
	case text == "" && strings.HasPrefix(kind, "Duplicate"):
		return "is there twice"
	case text == "":
		return "is not valid"
	}
	return inBody.ReplaceAllString(text, "$1")
}

func lower(text string) string {
	if text == "" {
		return "is not valid"
	}
	return strings.ToLower(text[:1]) + text[1:]
}
