package problem

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/naeel/sless/api/rest"
)

func TestRuleLeavesTheValueOut(t *testing.T) {
	const secret = `hunter2 ": body should`
	path := field.NewPath("spec", "env")
	for want, err := range map[string]*field.Error{
		"should match '^a$'":                       field.Invalid(path, secret, "spec.env in body should match '^a$'"),
		"should be at most 5":                      field.Invalid(path, 7, "spec.env in body should be at most 5"),
		"at most 63: or so":                        field.Invalid(path, field.OmitValueType{}, "at most 63: or so"),
		"is not valid":                             field.Invalid(path, map[string]string{"A": secret}, "of this kind"),
		`must be one of the supported values: "a"`: field.NotSupported(path, secret, []string{"a"}),
		"is there twice":                           field.Duplicate(path, secret),
		"required value: say it":                   field.Required(path, "say it"),
		"too long: may not be more than 3 bytes":   field.TooLong(path, secret, 3),
		"forbidden: never":                         field.Forbidden(path, "never"),
	} {
		if got := rule(err.ErrorBody()); got != want || strings.Contains(got, "hunter2") {
			t.Errorf("%s: got %q, want %q", err.ErrorBody(), got, want)
		}
	}
}

func TestFromKubernetesKeepsWhatItDoesNotKnow(t *testing.T) {
	resource := schema.GroupResource{Group: "sless.io", Resource: "functions"}
	object := Object{Kind: "function", Namespace: "shop", Name: "hello"}
	denied := apierrors.NewForbidden(resource, "hello", nil)
	if _, ok := From(FromKubernetes(denied, object)); ok {
		t.Error("a right that the apiserver itself lacks is the caller's fault")
	}
	for code, err := range map[string]error{
		rest.CodeContinueExpired:       apierrors.NewResourceExpired("too old"),
		rest.CodeKubernetesUnavailable: apierrors.NewServerTimeout(resource, "get", 1),
	} {
		if p, ok := From(FromKubernetes(err, object)); !ok || p.Code != code {
			t.Errorf("%v: got %v", err, p)
		}
	}
	p, ok := From(FromKubernetes(apierrors.NewConflict(resource, "hello", nil), object))
	if !ok || p.Code != rest.CodeConflict || p.GetHeaders().Get("Retry-After") != "1" {
		t.Errorf("got %v %v", p, p.GetHeaders())
	}
}
