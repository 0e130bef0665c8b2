package measure

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Get reads what the admin address has at a path.
func (p *Process) Get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Admin+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %s", p.Name, path, strings.ToLower(response.Status))
	}
	return io.ReadAll(response.Body)
}

// Metrics are what a program counts, by name.
type Metrics map[string]*dto.MetricFamily

// Metrics asks the program for them.
func (p *Process) Metrics(ctx context.Context) (Metrics, error) {
	text, err := p.Get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(text))
}

// Sum adds up a metric, or, with a label, those of its series that have it.
func (m Metrics) Sum(name, label, value string) (sum float64) {
	for _, metric := range m[name].GetMetric() {
		is := label == ""
		for _, pair := range metric.GetLabel() {
			is = is || pair.GetName() == label && pair.GetValue() == value
		}
		if is {
			sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return sum
}

// Weight is the memory of a program, in bytes: what is resident, and what of its heap is alive after a collection.
type Weight struct{ Resident, Live int64 }

// Weigh has the program collect its garbage and returns what is left.
func (p *Process) Weigh(ctx context.Context) (Weight, error) {
	const live = "go_memstats_heap_alloc_bytes"
	if _, err := p.Get(ctx, "/debug/pprof/heap?gc=1"); err != nil {
		return Weight{}, err
	}
	metrics, err := p.Metrics(ctx)
	if err != nil {
		return Weight{}, err
	}
	if metrics[live] == nil {
		return Weight{}, fmt.Errorf("%s has no metric %s", p.Name, live)
	}
	resident, err := p.Memory()
	return Weight{Resident: resident, Live: int64(metrics.Sum(live, "", ""))}, err
}
