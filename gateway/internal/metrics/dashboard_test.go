package metrics

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naeel/sless/ledger"
)

// dashboard is what of config/grafana/gateway.json names metrics.
type dashboard struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
	Templating struct {
		List []struct {
			Name  string
			Query any
		}
	}
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "grafana", "gateway.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// exported returns the labels of every metric that a gateway exports which has done everything once.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	m := New(func() int { return 1 }, func() int { return 1 })
	m.Ledger(func() ledger.Stats { return ledger.Stats{} })
	meter := m.Meter("ns", "f")
	meter.Begin()
	meter.End(503, 1, 1, time.Second, "no_endpoint")
	meter.Ejected()
	meter.Waited(time.Second)
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string][]string{}
	for _, family := range families {
		all := []string{"job", "instance"} // Prometheus adds these
		for _, label := range family.Metric[0].Label {
			all = append(all, label.GetName())
		}
		if family.Metric[0].Histogram != nil {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				labels[family.GetName()+suffix] = append(all, "le")
			}
			continue
		}
		labels[family.GetName()] = all
	}
	return labels
}

var (
	metricName = regexp.MustCompile(`\b(?:sless|process|go)_\w+`)
	labelNames = regexp.MustCompile(`\bby \(([^)]*)\)|(\w+) *=~?"|label_values\([^,]*, (\w+)\)`)
)

// TestDashboard holds that each query of the dashboard names metrics that the gateway exports, with labels that they have, and that none of the
// gateway's own is missing on it.
func TestDashboard(t *testing.T) {
	metrics := exported(t)
	shown := map[string]bool{}
	check := func(where, expr string) {
		names := metricName.FindAllString(expr, -1)
		if len(names) == 0 {
			t.Errorf("%s: no metric in %q", where, expr)
		}
		var used []string
		for _, match := range labelNames.FindAllStringSubmatch(expr, -1) {
			for _, group := range match[1:] {
				used = append(used, strings.FieldsFunc(group, func(r rune) bool { return r == ',' || r == ' ' })...)
			}
		}
		for _, name := range names {
			labels, known := metrics[name]
			if !known {
				t.Errorf("%s: the gateway does not export %s", where, name)
				continue
			}
			shown[name] = true
			for _, label := range used {
				if !slices.Contains(labels, label) {
					t.Errorf("%s: %s has no label %s", where, name, label)
				}
			}
		}
	}
	d := readDashboard(t)
	for _, panel := range d.Panels {
		if len(panel.Targets) == 0 {
			t.Errorf("%s: no query", panel.Title)
		}
		for _, target := range panel.Targets {
			check(panel.Title, target.Expr)
		}
	}
	for _, variable := range d.Templating.List {
		if query, ok := variable.Query.(map[string]any); ok {
			check("variable "+variable.Name, query["query"].(string))
		}
	}
	for name := range metrics {
		if strings.HasPrefix(name, "sless_") && !shown[name] && !strings.HasSuffix(name, "_sum") && !strings.HasSuffix(name, "_count") {
			t.Errorf("%s is on no panel", name)
		}
	}
}
