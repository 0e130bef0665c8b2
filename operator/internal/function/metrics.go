package function

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/config"
)

// current is the state of a Function that is on the catalogue's image of its runtime.
const current = "current"

// functionsByState is bounded by the catalogue; a Function that was never built, or on no runtime of the catalogue, is not in it.
var functionsByState = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "sless_functions",
	Help: "Functions that were built, by their runtime's name and by where they are on their way to the runtime image of the catalogue: current, waiting, paused, upgrading or held.",
}, []string{"runtime", "state"})

func init() { metrics.Registry.MustRegister(functionsByState) }

// count sets the gauges.
func count(functions []v1alpha1.Function, cfg *config.Config) {
	type labels struct{ runtime, state string }
	counts := map[labels]int{}
	for i := range cfg.Runtimes {
		for _, state := range []v1alpha1.UpgradeState{current, v1alpha1.UpgradeWaiting, v1alpha1.UpgradePaused, v1alpha1.Upgrading, v1alpha1.UpgradeHeld} {
			counts[labels{cfg.Runtimes[i].Name, strings.ToLower(string(state))}] = 0
		}
	}
	for i := range functions {
		status := &functions[i].Status
		runtime, known := cfg.Runtime(functions[i].Spec.Runtime)
		if !known || status.RuntimeVersion == "" || functions[i].Spec.Source.Image != "" {
			continue
		}
		state := string(upgradeState(status, runtime.Image, cfg.RuntimeUpgrade.Paused))
		if state == "" {
			state = current
		}
		counts[labels{runtime.Name, strings.ToLower(state)}]++
	}
	for label, n := range counts {
		functionsByState.WithLabelValues(label.runtime, label.state).Set(float64(n))
	}
}
