package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/config"
)

var defaults = config.Function{Memory: "256Mi", CPU: "1", CPURequest: "50m", TmpSize: "512Mi"}

func list(cpu, memory string) corev1.ResourceList {
	found := corev1.ResourceList{}
	for name, value := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
		if value != "" {
			found[name] = resource.MustParse(value)
		}
	}
	return found
}

// Every pod has all four, whatever the spec gives.
func TestResources(t *testing.T) {
	for name, test := range map[string]struct {
		asked            *v1alpha1.Resources
		limits, requests corev1.ResourceList
	}{
		"none":             {nil, list("1", "256Mi"), list("50m", "256Mi")},
		"limits":           {&v1alpha1.Resources{Limits: list("2", "1Gi")}, list("2", "1Gi"), list("100m", "1Gi")},
		"small limit":      {&v1alpha1.Resources{Limits: list("10m", "")}, list("10m", "256Mi"), list("1m", "256Mi")},
		"both":             {&v1alpha1.Resources{Limits: list("2", "1Gi"), Requests: list("1", "512Mi")}, list("2", "1Gi"), list("1", "512Mi")},
		"large request":    {&v1alpha1.Resources{Requests: list("3", "1Gi")}, list("3", "1Gi"), list("3", "1Gi")},
		"zero is absent":   {&v1alpha1.Resources{Limits: list("0", "0"), Requests: list("0", "0")}, list("1", "256Mi"), list("50m", "256Mi")},
		"huge":             {&v1alpha1.Resources{Limits: list("9E", "9E")}, list("9E", "9E"), list("", "9E")},
		"request too high": {&v1alpha1.Resources{Limits: list("1", "64Mi"), Requests: list("2", "128Mi")}, list("1", "64Mi"), list("2", "128Mi")},
	} {
		t.Run(name, func(t *testing.T) {
			pod := Pod{Function: &v1alpha1.Function{Spec: v1alpha1.FunctionSpec{Resources: test.asked}}, Defaults: defaults}
			got := pod.Base().Containers[0].Resources
			for what, pair := range map[string][2]corev1.ResourceList{"limit": {*got.Limits, test.limits}, "request": {*got.Requests, test.requests}} {
				for _, resourceName := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
					got, want := pair[0][resourceName], pair[1][resourceName]
					if name == "huge" && what == "request" && resourceName == corev1.ResourceCPU {
						if got.Sign() <= 0 {
							t.Errorf("a huge limit gives the request %s", got.String())
						}
						continue
					}
					if got.Cmp(want) != 0 {
						t.Errorf("%s of %s is %s, want %s", what, resourceName, got.String(), want.String())
					}
				}
			}
		})
	}
}

func environment(pod Pod) map[string]string {
	found := map[string]string{}
	for _, variable := range pod.Base().Containers[0].Env {
		found[*variable.Name] = *variable.Value
	}
	return found
}

func TestEnvironment(t *testing.T) {
	bare := Pod{Function: &v1alpha1.Function{}, Defaults: defaults}
	if got := environment(bare); got["SLESS_ENTRYPOINT"] != "handler.handle" || got["SLESS_TIMEOUT_SECONDS"] != "60" || got["PORT"] != "8080" {
		t.Errorf("got %v", got)
	}
	for _, name := range []string{"SLESS_CONCURRENCY", "SLESS_REVISION"} {
		if value, ok := environment(bare)[name]; ok {
			t.Errorf("%s is %q, want none", name, value)
		}
	}
	full := bare
	full.Function = &v1alpha1.Function{Spec: v1alpha1.FunctionSpec{Concurrency: new(int32(3)), TimeoutSeconds: 5, Entrypoint: "a.b"}}
	full.Revision = "r"
	if got := environment(full); got["SLESS_CONCURRENCY"] != "3" || got["SLESS_TIMEOUT_SECONDS"] != "5" || got["SLESS_ENTRYPOINT"] != "a.b" || got["SLESS_REVISION"] != "r" {
		t.Errorf("got %v", got)
	}
}

// A stopping pod outlives any call that it may have.
func TestGraceIsLongerThanTheTimeout(t *testing.T) {
	for _, timeout := range []int32{1, 60, 3600} {
		pod := Pod{Function: &v1alpha1.Function{Spec: v1alpha1.FunctionSpec{TimeoutSeconds: timeout}}, Defaults: defaults}.Serve()
		if grace := *pod.TerminationGracePeriodSeconds; grace <= int64(timeout)+preStopSeconds {
			t.Errorf("grace of %d s for a time-out of %d s", grace, timeout)
		}
	}
}
