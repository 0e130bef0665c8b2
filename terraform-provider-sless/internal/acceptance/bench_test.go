//go:build acceptance

package acceptance

import (
	"context"
	"testing"
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
