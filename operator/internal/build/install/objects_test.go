package install

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/operator/internal/config"
)

var update = flag.Bool("update", false, "write the golden files anew")

var plain = config.Config{
	Registry: config.Registry{Host: "registry.example.org"},
	Build:    config.Build{KanikoImage: "registry.example.org/kaniko@sha256:1", CheckImage: "registry.example.org/operator@sha256:2", Memory: "2Gi", VolumeSize: "4Gi"},
}

// closed is the configuration of a closed network.
var closed = config.Config{
	Registry:    config.Registry{Host: "registry:5000", Insecure: true, CAFile: "ca.crt"},
	ObjectStore: config.ObjectStore{CAFile: "store.crt"},
	Build: config.Build{
		KanikoImage: "registry:5000/kaniko@sha256:1", CheckImage: "registry:5000/operator@sha256:2", Memory: "128Mi", CPU: "50m", VolumeSize: "1Gi",
		PipIndexURL: "https://pip.example.org/simple", NPMRegistry: "https://npm.example.org/", CAConfigMapName: "build-ca",
	},
}

var testSpec = Spec{
	Key: "0123456789abcdef0123456789abcdef", Namespace: "default", Base: "registry.example.org/python@sha256:3",
	Installer: "registry.example.org/sless-default@sha256:4", Destination: "registry.example.org/sless-default:deps-0123456789abcdef0123456789abcdef",
	Labels: map[string]string{"io.sless.tag": "deps-0123456789abcdef0123456789abcdef", "io.sless.namespace-uid": `u"id`}, TimeoutSeconds: 300,
}

// The Jobs of the builder that has kaniko make all images: dependencies from manifests that it fetches, and code.
var (
	fetchingSpec = specWith("registry.example.org/python@sha256:3")
	codeSpec     = specWith("")
)

func specWith(installer string) Spec {
	spec := testSpec
	spec.Installer, spec.Parcel = installer, &Parcel{Object: "builds/0123456789abcdef.tar.gz", SHA256: "5"}
	return spec
}

func indexSpec() Spec {
	spec := testSpec
	spec.Index, spec.Wanted = testIndex, []string{"built/dist/handler.js"}
	return spec
}

func TestObjects(t *testing.T) {
	const pem = "-----BEGIN CERTIFICATE-----\n"
	golden(t, "job.yaml", buildJob(testSpec, plain))
	golden(t, "job-closed-network.yaml", buildJob(testSpec, closed))
	golden(t, "job-index.yaml", buildJob(indexSpec(), closed))
	golden(t, "job-fetching.yaml", buildJob(fetchingSpec, closed))
	golden(t, "job-code.yaml", buildJob(codeSpec, closed))
	golden(t, "recipe.yaml", buildRecipe(testSpec, trust{}))
	golden(t, "recipe-closed-network.yaml", buildRecipe(testSpec, trust{registry: pem, store: "unused"}))
	golden(t, "recipe-code.yaml", buildRecipe(codeSpec, trust{store: pem}))
}

func golden(t *testing.T, file string, object any) {
	t.Helper()
	got, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (run with -update if this is meant): %s", file, diff)
	}
}

// What runs the tenant's choice of code meets no credential, and what meets a credential runs nothing of the tenant's.
func TestWhoMeetsCredentials(t *testing.T) {
	for _, job := range []*batchv1.Job{buildJob(testSpec, plain), buildJob(testSpec, closed), buildJob(fetchingSpec, closed), buildJob(codeSpec, closed)} {
		pod := job.Spec.Template.Spec
		if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
			t.Error("the pod has a token")
		}
		for _, container := range append(pod.InitContainers, pod.Containers...) {
			for _, mount := range container.VolumeMounts {
				if mount.Name == "push" && container.Name != kanikoStep {
					t.Errorf("%s mounts the push credentials", container.Name)
				}
				if mount.Name == parcelVolume && container.Name != fetchStep {
					t.Errorf("%s mounts the parcel's address", container.Name)
				}
				if mount.Name == filesVolume && container.Name != fetchStep && !mount.ReadOnly {
					t.Errorf("%s may write to the files", container.Name)
				}
				if mount.Name == depsVolume && container.Name == kanikoStep && !mount.ReadOnly {
					t.Error("kaniko may write to the dependencies")
				}
			}
			if root := container.SecurityContext.RunAsNonRoot; container.Name != kanikoStep && (root == nil || !*root) {
				t.Errorf("%s may run as root", container.Name)
			}
			if container.Image == testSpec.Installer && container.Name != installStep {
				t.Errorf("%s runs the tenant's image", container.Name)
			}
		}
		for _, volume := range pod.Volumes {
			if volume.Secret != nil && volume.Name != "push" && volume.Name != parcelVolume {
				t.Errorf("volume %s is a Secret", volume.Name)
			}
			if volume.Projected != nil {
				t.Errorf("volume %s is projected", volume.Name)
			}
		}
	}
}

func TestRequestsAreWithinLimits(t *testing.T) {
	resources := buildResources(closed)
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request, limit := resources.Requests[name], resources.Limits[name]
		if request.Cmp(limit) > 0 {
			t.Errorf("%s: request %s, limit %s", name, request.String(), limit.String())
		}
	}
}
