package function

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/config"
)

var update = flag.Bool("update", false, "write the golden files")

// testConfig is a configuration with its defaults.
func testConfig(t *testing.T) *config.Config {
	t.Helper()
	cfg, err := config.Parse([]byte(`
externalURL: https://functions.example.org
runtimes:
- {name: python3.11, language: python, image: "registry.example.org/python@sha256:aa"}
- {name: nodejs20, language: node, image: "registry.example.org/node@sha256:bb"}
registry: {host: registry.example.org, pushConfigFile: a, pullConfigFile: b}
objectStore: {endpoint: "https://s3.example.org", bucket: sless, credentialsDir: d}
build: {kanikoImage: k, checkImage: o}
`))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// testFunction is a small Function as the API server gives it, changed by each of the changes.
func testFunction(changes ...func(*v1alpha1.Function)) *v1alpha1.Function {
	function := &v1alpha1.Function{
		ObjectMeta: metav1.ObjectMeta{Name: "hello", Namespace: "shop", UID: "uid-1", Generation: 3},
		Spec: v1alpha1.FunctionSpec{
			Runtime: "python3.11", Entrypoint: "handler.handle", TimeoutSeconds: 60, CodeHash: "mark-2",
			Source: v1alpha1.Source{Inline: map[string]v1alpha1.InlineFile{"handler.py": "def handle(event): return 1"}},
			Build:  v1alpha1.Build{TimeoutSeconds: 300},
		},
	}
	for _, change := range changes {
		change(function)
	}
	return function
}

// testScope is the scope of a pass that may deploy.
func testScope(function *v1alpha1.Function) *scope {
	s := newScope(function, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: function.Namespace, UID: "uid-ns"}}, time.Unix(1700000000, 0))
	s.image = &image{reference: "registry.example.org/sless-shop@sha256:cc", sourceDigest: "sha256:dd"}
	s.tenant = s.tenantName()
	s.envKnown = true
	return s
}

func large(function *v1alpha1.Function) {
	function.Spec.Replicas = new(int32(3))
	function.Spec.Concurrency = new(int32(7))
	function.Spec.TimeoutSeconds = 3600
	function.Spec.Entrypoint = "pkg.sub.main"
	function.Spec.Resources = &v1alpha1.Resources{
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")},
		Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
	}
	function.Annotations = map[string]string{v1alpha1.RestartedAtAnnotation: "2026-01-02T15:04:05Z"}
}

func TestBuildGolden(t *testing.T) {
	for name, s := range map[string]*scope{
		"small": testScope(testFunction()),
		"large": func() *scope {
			s := testScope(testFunction(large))
			s.envSecret = "hello-env-0123456789abcdef"
			return s
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			deployment, revision := buildDeployment(s, testConfig(t))
			golden(t, name+"-deployment.yaml", deployment)
			s.revision = revision
			golden(t, name+"-service.yaml", buildService(s))
		})
	}
}

func golden(t *testing.T, name string, object any) {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	got, err := yaml.JSONToYAML(text)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got); run with -update when that is meant:\n%s", name, diff)
	}
}

// What makes another version, and so new pods, and what must not.
func TestRevision(t *testing.T) {
	cfg := testConfig(t)
	_, base := buildDeployment(testScope(testFunction()), cfg)
	for name, test := range map[string]struct {
		change func(*scope)
		same   bool
	}{
		"replicas":      {func(s *scope) { s.function.Spec.Replicas = new(int32(9)) }, true},
		"disabled":      {func(s *scope) { s.triggers = triggers{any: true} }, true},
		"code hash":     {func(s *scope) { s.function.Spec.CodeHash = "other" }, true},
		"build timeout": {func(s *scope) { s.function.Spec.Build.TimeoutSeconds = 99 }, true},
		"generation":    {func(s *scope) { s.function.Generation++ }, true},
		"annotation":    {func(s *scope) { s.function.Annotations = map[string]string{"x": "y"} }, true},
		"image":         {func(s *scope) { s.image.reference += "0" }, false},
		"environment":   {func(s *scope) { s.envSecret = "hello-env-1" }, false},
		"timeout":       {func(s *scope) { s.function.Spec.TimeoutSeconds = 61 }, false},
		"concurrency":   {func(s *scope) { s.function.Spec.Concurrency = new(int32(1)) }, false},
		"entrypoint":    {func(s *scope) { s.function.Spec.Entrypoint = "handler.other" }, false},
		"memory": {func(s *scope) {
			s.function.Spec.Resources = &v1alpha1.Resources{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
		}, false},
		"restart": {func(s *scope) {
			s.function.Annotations = map[string]string{v1alpha1.RestartedAtAnnotation: "now"}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := testScope(testFunction())
			test.change(s)
			deployment, revision := buildDeployment(s, cfg)
			if (revision == base) != test.same {
				t.Errorf("revision %s, was %s: want the same %v", revision, base, test.same)
			}
			if got := deployment.Spec.Template.Labels[revisionLabel]; got != revision {
				t.Errorf("label %q, want %q", got, revision)
			}
		})
	}
}

func TestBuildRequest(t *testing.T) {
	cfg := testConfig(t)
	base, problem := buildRequest(testFunction(), "uid-ns", cfg)
	if problem != nil {
		t.Fatal(problem)
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.Function)
		same   bool
	}{
		"env":         {func(f *v1alpha1.Function) { f.Spec.Env = []v1alpha1.EnvVar{{Name: "A", Value: "b"}} }, true},
		"replicas":    {func(f *v1alpha1.Function) { f.Spec.Replicas = new(int32(5)) }, true},
		"timeout":     {func(f *v1alpha1.Function) { f.Spec.TimeoutSeconds = 5 }, true},
		"concurrency": {func(f *v1alpha1.Function) { f.Spec.Concurrency = new(int32(5)) }, true},
		"resources":   {func(f *v1alpha1.Function) { f.Spec.Resources = &v1alpha1.Resources{} }, true},
		"code":        {func(f *v1alpha1.Function) { f.Spec.Source.Inline["handler.py"] = "x" }, false},
		"runtime":     {func(f *v1alpha1.Function) { f.Spec.Runtime = "nodejs20" }, false},
		"code hash":   {func(f *v1alpha1.Function) { f.Spec.CodeHash = "mark-3" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			request, problem := buildRequest(testFunction(test.change), "uid-ns", cfg)
			if problem != nil {
				t.Fatal(problem)
			}
			if same := request.Key() == base.Key(); same != test.same {
				t.Errorf("key is the same: %v, want %v", same, test.same)
			}
		})
	}
	_, problem = buildRequest(testFunction(func(f *v1alpha1.Function) { f.Spec.Runtime = "cobol" }), "uid-ns", cfg)
	if problem == nil || problem.Reason != v1alpha1.ReasonUnknownRuntime || problem.Message != `runtime "cobol" is not in the catalogue; use one of python3.11, nodejs20` {
		t.Errorf("got %v", problem)
	}
	request, problem := buildRequest(testFunction(func(f *v1alpha1.Function) {
		f.Spec.Runtime, f.Spec.Source = "", v1alpha1.Source{Image: "registry.example.org/own:v1"}
	}), "uid-ns", cfg)
	if problem != nil || request.Source.Image != "registry.example.org/own:v1" || request.Runtime.Image != "" {
		t.Errorf("image: got %+v, %v", request, problem)
	}
}
