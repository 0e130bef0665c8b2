package functionjob

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/config"
)

var update = flag.Bool("update", false, "write the golden files")

var defaults = config.Function{Memory: "256Mi", CPU: "1", CPURequest: "50m", TmpSize: "512Mi"}

func someParts() parts {
	return parts{
		job: &v1alpha1.FunctionJob{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "migrate", UID: "job-uid"},
			Spec: v1alpha1.FunctionJobSpec{FunctionRef: v1alpha1.FunctionRef{Name: "f"}, RunID: 7, EventJSON: `{"password": "swordfish"}`,
				TimeoutSeconds: 7200, BackoffLimit: 2, TTLSecondsAfterFinished: new(int32(0))},
		},
		function: &v1alpha1.Function{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "f", UID: "function-uid"},
			Spec:       v1alpha1.FunctionSpec{Runtime: "python3.11", Entrypoint: "main.run", TimeoutSeconds: 10, Concurrency: new(int32(4))},
			Status:     v1alpha1.FunctionStatus{Image: "registry/f@sha256:0123"},
		},
		namespace: "sless-fn-ns", envSecret: "f-env-1", eventSecret: "migrate-event", defaults: defaults,
	}
}

func TestJobIsGolden(t *testing.T) {
	bare := someParts()
	bare.envSecret = ""
	bare.job.Spec = v1alpha1.FunctionJobSpec{RunID: 9007199254740991, TimeoutSeconds: 300}
	for name, p := range map[string]parts{"job-full": someParts(), "job-bare": bare} {
		job, err := buildJob(p)
		if err != nil {
			t.Fatal(err)
		}
		got, err := yaml.Marshal(job)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name+".yaml")
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
		if strings.Contains(string(got), "swordfish") {
			t.Error("the event is in the Job")
		}
		if runIDOf(job) != p.job.Spec.RunID {
			t.Errorf("run %d reads as %d", p.job.Spec.RunID, runIDOf(job))
		}
	}
}

func TestTimeToLive(t *testing.T) {
	p := someParts()
	for seconds, want := range map[*int32]int32{nil: 3600, new(int32(0)): 0, new(int32(604800)): 604800} {
		p.job.Spec.TTLSecondsAfterFinished = seconds
		job, err := buildJob(p)
		if err != nil {
			t.Fatal(err)
		}
		if job.Spec.TTLSecondsAfterFinished != nil {
			t.Error("the Job could go before its result is recorded")
		}
		if got := timeToLive(job); got != want {
			t.Errorf("stays %d s, want %d", got, want)
		}
	}
}

// Two jobs, two runs and two events never share a name, however long.
func TestNamesOfRunsDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"a", strings.Repeat("a", 63), strings.Repeat("a", 62) + "b"} {
		for _, uid := range []types.UID{"1", "2"} {
			for _, run := range []int64{1, 12, 9007199254740991} {
				p := someParts()
				p.job.Name, p.job.UID, p.job.Spec.RunID = name, uid, run
				job, err := buildJob(p)
				if err != nil {
					t.Fatal(err)
				}
				first := buildEvent(p.job, "ns").Name
				p.job.Spec.EventJSON = "[]"
				for _, child := range []string{job.Name, first, buildEvent(p.job, "ns").Name} {
					if len(child) > 63 || seen[child] != "" {
						t.Errorf("%q has %d characters, and is of %q too", child, len(child), seen[child])
					}
					seen[child] = name
				}
			}
		}
	}
}

func TestEventIsImmutableAndWhole(t *testing.T) {
	job := someParts().job
	secret := buildEvent(job, "sless-fn-ns")
	if !*secret.Immutable || string(secret.Data["event.json"]) != job.Spec.EventJSON {
		t.Errorf("the Secret is %+v", secret)
	}
	job.Spec.EventJSON = ""
	if got := string(buildEvent(job, "sless-fn-ns").Data["event.json"]); got != "{}" {
		t.Errorf("no event is given as %q", got)
	}
}
