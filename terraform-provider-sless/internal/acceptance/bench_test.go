//go:build acceptance

package acceptance

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkPlan plans 200 functions of which none has changed. They are off, because a plan needs no pods.
func BenchmarkPlan(b *testing.B) {
	w := newWorkspace(b)
	w.code("one")
	w.write("main.tf", `
resource "sless_function" "many" {
  count      = 200
  name       = "many-${count.index}"
  runtime    = "python3.11"
  source_dir = "src"
  replicas   = 0
}
`)
	w.apply("-parallelism=10")
	cpu := 0.0
	for b.Loop() {
		command := w.command(context.Background(), "plan", "-parallelism=10", "-detailed-exitcode")
		if out, err := command.CombinedOutput(); err != nil {
			b.Fatalf("%v:\n%s", err, out)
		}
		cpu += (command.ProcessState.UserTime() + command.ProcessState.SystemTime()).Seconds()
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/plan")
	b.ReportMetric(cpu/float64(b.N), "cpu-s/plan")
}

// BenchmarkCodeChange applies a change of code, and measures how long the apply goes on after the first answer of the new code.
func BenchmarkCodeChange(b *testing.B) {
	w := newWorkspace(b)
	w.code("0")
	w.write("main.tf", hello()+"resource \"sless_trigger\" \"hello\" {\n  name = \"hello\"\n  function = sless_function.hello.name\n  type = \"http\"\n}\n")
	w.apply()
	url, _ := w.attributes("sless_trigger.hello")["url"].(string)
	after, longest := time.Duration(0), time.Duration(0)
	version := 0
	for b.Loop() {
		version++
		w.code(strconv.Itoa(version))
		serves := make(chan time.Time, 1)
		go func(want string) {
			for deadline := time.Now().Add(applyPatience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
				if answerHas(url, want) {
					serves <- time.Now()
					return
				}
			}
			serves <- time.Time{}
		}(fmt.Sprintf("%q", strconv.Itoa(version)))
		w.apply()
		ended := time.Now()
		if served := <-serves; served.IsZero() {
			b.Fatalf("version %d is not served after the apply", version)
		} else {
			after += ended.Sub(served)
			longest = max(longest, ended.Sub(served))
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/apply")
	b.ReportMetric(after.Seconds()/float64(b.N), "s/after-serving")
	b.ReportMetric(longest.Seconds(), "s-at-most")
}

func answerHas(url, want string) bool {
	response, err := http.Get(url)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return err == nil && strings.Contains(string(body), want)
}
