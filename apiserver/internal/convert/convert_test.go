package convert

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/api/v1alpha1"
)

// full is a Function with everything that can be written.
func full() *v1alpha1.Function {
	return &v1alpha1.Function{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "hello", Labels: map[string]string{"a": "b"},
			Annotations: map[string]string{SecretEnvAnnotation: `{"TOKEN":"digest"}`, v1alpha1.RestartedAtAnnotation: "now", "other": "kept"},
		},
		Spec: v1alpha1.FunctionSpec{
			Runtime: "python3.11", Entrypoint: "a.b", CodeHash: "h", TimeoutSeconds: 5, Concurrency: new(int32(3)), Replicas: new(int32(0)),
			// Nothing here knows that only one may be set.
			Source: v1alpha1.Source{
				Inline: map[string]v1alpha1.InlineFile{"a.py": "x"}, Image: "i",
				S3:   &v1alpha1.S3Source{Key: "k", Bucket: "b", Endpoint: "e", Region: "r", VersionID: "v", SHA256: "s", SecretName: "n", PollIntervalSeconds: 60},
				HTTP: &v1alpha1.HTTPSource{URL: "u", SHA256: "s"},
				Git:  &v1alpha1.GitSource{URL: "u", Ref: "r", Path: "p", SecretName: "n"},
			},
			Build: v1alpha1.Build{TimeoutSeconds: 100, SecretName: "index"},
			Env: []v1alpha1.EnvVar{
				{Name: "FROM_CONFIG", ValueFrom: &v1alpha1.EnvVarSource{ConfigMapKeyRef: &v1alpha1.KeyRef{Name: "c", Key: "k", Optional: true}}},
				{Name: "FROM_SECRET", ValueFrom: &v1alpha1.EnvVarSource{SecretKeyRef: &v1alpha1.KeyRef{Name: "s", Key: "k"}}},
				{Name: "PLAIN", Value: "x"},
				{Name: "TOKEN", ValueFrom: &v1alpha1.EnvVarSource{SecretKeyRef: &v1alpha1.KeyRef{Name: "hello-env-12345678", Key: "TOKEN"}}},
			},
			Resources: &v1alpha1.Resources{
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("0.1G"), corev1.ResourceCPU: resource.MustParse("500m")},
				Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
			},
		},
	}
}

// unset are the paths, by JSON names, of what is zero in a value.
func unset(value reflect.Value, path string) []string {
	if value.Kind() == reflect.Pointer && !value.IsNil() && value.Elem().Kind() == reflect.Struct && value.Elem().NumField() > 0 {
		value = value.Elem()
	}
	if value.IsZero() {
		return []string{path}
	}
	if value.Kind() != reflect.Struct || value.Type() == reflect.TypeFor[metav1.Time]() || value.Type() == reflect.TypeFor[time.Time]() {
		return nil
	}
	var found []string
	for field, inner := range value.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		found = append(found, unset(inner, strings.TrimSuffix(path+"."+name, "."))...)
	}
	return found
}

func TestFunctionThereAndBackIsTheSame(t *testing.T) {
	was := full()
	if missing := unset(reflect.ValueOf(was.Spec), "spec"); len(missing) > 0 {
		t.Errorf("the test does not try %v", missing)
	}
	wire := Function(was)
	if diff := cmp.Diff([]string{"TOKEN"}, wire.SecretKeys); diff != "" || wire.SecretEnv != nil {
		t.Errorf("secret_env: %s", diff)
	}
	if *wire.MemoryMB != 96 || *wire.CPU != 0.5 || *wire.RequestMB != 64 || wire.RequestCPU != nil {
		t.Errorf("resources %+v", wire)
	}
	wire.SecretEnv = map[string]string{"TOKEN": "any"} // as the writer fills in what is there
	now := was.DeepCopy()
	ApplyFunction(&wire, now)
	if diff := cmp.Diff(was, now); diff != "" {
		t.Error(diff)
	}
}

func TestEveryFieldOfTheStatusIsShown(t *testing.T) {
	now := metav1.Now()
	fn := &v1alpha1.Function{Status: v1alpha1.FunctionStatus{
		Phase: "Failed", ObservedGeneration: 1, CodeHash: "h", SourceDigest: "d", SourceRevision: "r", Image: "i", RuntimeVersion: "v", LastBuiltAt: &now,
		Build: &v1alpha1.BuildStatus{Step: "Queued", Position: 2, StartedAt: &now, LogTail: "l"}, Replicas: 1, ReadyReplicas: 1, URL: "u",
		Conditions: []metav1.Condition{{Type: "Ready", Status: "False", Reason: "R", Message: "m", ObservedGeneration: 1, LastTransitionTime: now}},
	}}
	wire := Function(fn)
	if missing := unset(reflect.ValueOf(wire.Status), "status"); len(missing) > 0 {
		t.Errorf("not shown: %v", missing)
	}
}

func TestApplyFunctionClearsWhatIsAbsent(t *testing.T) {
	fn := full()
	ApplyFunction(&rest.Function{}, fn)
	want := &v1alpha1.Function{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "hello", Annotations: map[string]string{"other": "kept"},
	}}
	if diff := cmp.Diff(want, fn); diff != "" {
		t.Error(diff)
	}
}

func TestTriggerAndJobThereAndBack(t *testing.T) {
	for name, was := range map[string]*v1alpha1.Trigger{
		"http": {Spec: v1alpha1.TriggerSpec{
			FunctionRef: v1alpha1.FunctionRef{Name: "f"}, Type: v1alpha1.TriggerHTTP, Enabled: new(false),
			HTTP: &v1alpha1.HTTPTrigger{Methods: []string{"GET"}, Payload: v1alpha1.PayloadBody},
		}},
		"cron": {Spec: v1alpha1.TriggerSpec{
			FunctionRef: v1alpha1.FunctionRef{Name: "f"}, Type: v1alpha1.TriggerCron, Enabled: new(true),
			Cron: &v1alpha1.CronTrigger{Schedule: "@daily", TimeZone: "UTC", EventJSON: "{}", ConcurrencyPolicy: "Allow", StartingDeadlineSeconds: 9},
		}},
	} {
		now := &v1alpha1.Trigger{}
		wire := Trigger(was)
		ApplyTrigger(&wire, now)
		if diff := cmp.Diff(was, now); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	was := &v1alpha1.FunctionJob{Spec: v1alpha1.FunctionJobSpec{
		FunctionRef: v1alpha1.FunctionRef{Name: "f"}, EventJSON: "1", RunID: 1 << 52, TimeoutSeconds: 9, BackoffLimit: 2, TTLSecondsAfterFinished: new(int32(0)),
	}}
	now := &v1alpha1.FunctionJob{}
	wire := Job(was)
	ApplyJob(&wire, now)
	if diff := cmp.Diff(was, now); diff != "" {
		t.Error(diff)
	}
}

func TestLocation(t *testing.T) {
	at := FunctionLocation(full())
	for field, want := range map[string]string{
		"metadata.name": "body.name", "spec.timeoutSeconds": "body.timeout_sec", "spec.source": "body.source", "spec.source.s3.key": "body.source.s3.key",
		"spec.source.s3.versionID": "body.source.s3.version_id", "spec.source.inline[a.py]": "body.source.inline[a.py]", "spec.resources.limits.memory": "body.memory_mb",
		"spec.env[2]": "body.env.PLAIN", "spec.env[2].value": "body.env.PLAIN", "spec.env[3].name": "body.secret_env.TOKEN", "spec.env[0].valueFrom": "body.env_from.FROM_CONFIG",
		"spec.env[1].valueFrom.secretKeyRef.name": "body.env_from.FROM_SECRET.secret_name", "spec.env[9].name": "body.env", "spec.env": "body.env",
		"spec": "body", "<nil>": "body", "": "body", "spec.cron.timeZone": "body.time_zone", "spec.functionRef.name": "body.function",
	} {
		if got := at(field); got != want {
			t.Errorf("%s: got %s, want %s", field, got, want)
		}
	}
}

// TestEveryFieldHasALocation holds that an error of the cluster about any field leads to a field that the wire has.
func TestEveryFieldHasALocation(t *testing.T) {
	for _, kind := range []struct{ spec, wire reflect.Type }{
		{reflect.TypeFor[v1alpha1.FunctionSpec](), reflect.TypeFor[rest.Function]()},
		{reflect.TypeFor[v1alpha1.TriggerSpec](), reflect.TypeFor[rest.Trigger]()},
		{reflect.TypeFor[v1alpha1.FunctionJobSpec](), reflect.TypeFor[rest.Job]()},
	} {
		known := paths(kind.wire, "body")
		for _, field := range paths(kind.spec, "spec") {
			if strings.HasPrefix(field, "spec.env") || slices.Contains([]string{"spec.build", "spec.resources", "spec.resources.limits", "spec.resources.requests", "spec.http", "spec.cron"}, field) {
				continue // FunctionLocation's, or a group that the wire has not
			}
			if at := Location(field); !slices.Contains(known, at) {
				t.Errorf("%s leads to %s, which the wire has not", field, at)
			}
		}
	}
}

// paths are those of all fields of a type, by JSON names.
func paths(of reflect.Type, path string) []string {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || of == reflect.TypeFor[time.Time]() {
		return nil
	}
	var found []string
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" {
			found = append(found, path+"."+name)
			name = "." + name
		}
		found = append(found, paths(field.Type, path+name)...)
	}
	return found
}

// FuzzFunction holds that whatever a cluster may store is shown and written back unchanged where the wire has a word for it.
func FuzzFunction(f *testing.F) {
	seed, err := json.Marshal(full())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(seed))
	f.Add(`{"spec":{"resources":{"limits":{"memory":"9223372036854775807","cpu":"1n"},"requests":{"memory":"-1"}}}}`)
	f.Add(`{"spec":{"env":[{"name":"A"},{"name":"A","valueFrom":{}}],"source":{"inline":{}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		fn := &v1alpha1.Function{}
		if json.Unmarshal([]byte(text), fn) != nil {
			return
		}
		first := Function(fn)
		again := fn.DeepCopy()
		ApplyFunction(&first, again)
		if first.Source == nil || len(first.EnvFrom) > 0 || len(first.SecretKeys) > 0 {
			return // empty references and lost values are not kept
		}
		if diff := cmp.Diff(first, Function(again)); diff != "" {
			t.Error(diff)
		}
	})
}
