package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/naeel/sless/gateway/internal/route"
)

// series returns the value of every series of the gateway's own, by name and labels.
func (s *stack) series() map[string]float64 {
	s.Helper()
	families, err := s.metrics.Gatherer().Gather()
	if err != nil {
		s.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "sless_gateway_") {
			continue
		}
		for _, metric := range family.GetMetric() {
			found[family.GetName()+labels(metric)] = value(metric)
		}
	}
	return found
}

func labels(metric *dto.Metric) string {
	var all []string
	for _, label := range metric.GetLabel() {
		all = append(all, label.GetName()+"="+label.GetValue())
	}
	return "{" + strings.Join(all, ",") + "}"
}

func value(metric *dto.Metric) float64 {
	switch {
	case metric.Counter != nil:
		return metric.Counter.GetValue()
	case metric.Gauge != nil:
		return metric.Gauge.GetValue()
	}
	return float64(metric.Histogram.GetSampleCount())
}

func TestSeriesAreBounded(t *testing.T) {
	s := newStack(t, "", nil)
	s.function("f", open(), s.pod(echoBody))
	s.function("never-called", open())
	noise := func(round int) {
		for i := range 50 {
			tag := fmt.Sprintf("%d-%d", round, i)
			s.get("/fn/ns/f/" + tag + "?" + tag)
			s.get("/fn/ns/g" + tag)
			s.get("/fn/n" + tag + "/f")
			s.get("/" + tag)
			request := s.request("M"+tag, "/fn/ns/f", nil)
			request.Host = "host" + tag
			s.call(request)
		}
	}
	noise(1)
	eventually(t, "all are counted", func() bool {
		return s.series()["sless_gateway_requests_total{code_class=2xx,function=f,namespace=ns}"] == 100
	})
	before := s.series()
	noise(2)
	eventually(t, "all are counted", func() bool {
		return s.series()["sless_gateway_requests_total{code_class=2xx,function=f,namespace=ns}"] == 200
	})
	after := s.series()
	check(t, "series", len(before), len(after))
	check(t, "in flight", 0.0, after["sless_gateway_requests_in_flight{function=f,namespace=ns}"])
	for name := range after {
		if strings.Contains(name, "never-called") {
			t.Errorf("a function that nobody called has %s", name)
		}
	}
}

func TestMetersOfAFunctionThatGoes(t *testing.T) {
	s := newStack(t, "", nil)
	began, release := make(chan struct{}), make(chan struct{})
	r := s.function("f", &route.Spec{Access: route.Open, Methods: []string{"GET"}, Timeout: soon}, s.pod(func(http.ResponseWriter, *http.Request) {
		close(began)
		<-release
	}))
	s.call(s.request(http.MethodPost, "/fn/ns/f", nil))
	eventually(t, "it is counted", func() bool {
		return s.series()["sless_gateway_refusals_total{code=method_not_allowed,function=f,namespace=ns}"] == 1
	})
	request := s.request(http.MethodGet, "/fn/ns/f", nil)
	answered := make(chan answer, 1)
	go func() { answered <- s.call(request) }()
	receive(t, "it begins", began)
	s.table.Remove(r)
	r.Meter.Forget()
	close(release)
	check(t, "what runs is not disturbed", 200, receive(t, "an answer", answered).status)
	s.gateway.Wait()
	for name := range s.series() {
		if strings.Contains(name, "function=f") {
			t.Errorf("left: %s", name)
		}
	}
}

// TestWaitsAreCounted holds that calls of a function that starts are measured, and those that no pod came for as well.
func TestWaitsAreCounted(t *testing.T) {
	s := newStack(t, "", func(o *Options) { o.WaitTimeout = 200 * time.Millisecond })
	waited := func(name string) float64 {
		return s.series()["sless_gateway_wait_duration_seconds{function="+name+",namespace=ns}"]
	}
	starts := s.function("starts", &route.Spec{Access: route.Open, Timeout: soon})
	p := s.pod(echoBody)
	answered := make(chan answer, 1)
	request := s.request(http.MethodGet, "/fn/ns/starts", nil)
	go func() { answered <- s.call(request) }()
	eventually(t, "it waits", func() bool { _, waiting := starts.Pool.Load(); return waiting == 1 })
	starts.Pool.SetTargets(targetsOf(p), "")
	check(t, "status", 200, receive(t, "an answer", answered).status)
	check(t, "waits of what has started", 1.0, waited("starts"))
	s.get("/fn/ns/starts")
	check(t, "waits when a pod is there", 1.0, waited("starts"))

	s.function("never", open())
	check(t, "code", "no_endpoint", s.get("/fn/ns/never").code(t))
	check(t, "waits in vain", 1.0, waited("never"))
	check(t, "refusals", 1.0, s.series()["sless_gateway_refusals_total{code=no_endpoint,function=never,namespace=ns}"])
}

func TestAccessLog(t *testing.T) {
	s := newStack(t, "", nil)
	s.function("f", open(), s.pod(echoBody))
	request := s.request(http.MethodPost, "/fn/ns/f/p%2Fq?query=secret", strings.NewReader("secret body"))
	request.Header.Set("Authorization", "secret header")
	got := s.call(request)
	eventually(t, "a line", func() bool { return strings.Count(s.log.String(), "\n") == 1 })
	s.get("/none?secret")
	eventually(t, "another line", func() bool { return strings.Count(s.log.String(), "\n") == 2 })
	if strings.Contains(s.log.String(), "secret") {
		t.Errorf("a secret in %s", s.log)
	}
	first, second, _ := strings.Cut(s.log.String(), "\n")
	var line map[string]any
	if err := json.Unmarshal([]byte(first), &line); err != nil {
		t.Fatal(err)
	}
	if seconds, ok := line["seconds"].(float64); !ok || seconds <= 0 {
		t.Errorf("seconds %v", line["seconds"])
	}
	delete(line, "seconds")
	delete(line, "time")
	check(t, "line", map[string]any{
		"level": "INFO", "msg": "request", "request_id": got.header.Get("X-Request-Id"), "method": "POST", "path": "/fn/ns/f/p%2Fq", "status": 200.0,
		"bytes": 11.0, "client": "127.0.0.1", "code": "",
	}, line)
	if !strings.Contains(second, `"status":404`) || !strings.Contains(second, `"code":"no_route"`) {
		t.Errorf("second line %s", second)
	}
}

func TestLogErrorsOnly(t *testing.T) {
	s := newStack(t, "", func(o *Options) { o.LogRequests = LogErrors })
	s.function("f", open(), s.pod(echoBody))
	s.get("/fn/ns/f")
	s.get("/none")
	eventually(t, "one line", func() bool { return strings.Contains(s.log.String(), "no_route") })
	check(t, "lines", 1, strings.Count(s.log.String(), "\n"))
}
