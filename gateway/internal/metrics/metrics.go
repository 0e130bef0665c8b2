// Package metrics counts what the gateway does. Labels are bounded: only functions that exist have series of their own, only classes of
// status and known codes are values.
package metrics

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// classes are the values of the label code_class, by the first digit of the status.
var classes = [...]string{"other", "1xx", "2xx", "3xx", "4xx", "5xx"}

// Metrics is all of the gateway's metrics.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	bytes    *prometheus.CounterVec
	refusals *prometheus.CounterVec
	inFlight *prometheus.GaugeVec
	ejected  *prometheus.CounterVec
	waiting  *prometheus.HistogramVec
	synced   prometheus.Gauge
	unknown  *Meter
}

// New returns metrics in a registry of their own. routes says how many routes there are, and waiting how many requests wait, when they are
// asked.
func New(routes, waiting func() int) *Metrics {
	function := []string{"namespace", "function"}
	and := func(label string) []string { return []string{"namespace", "function", label} }
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sless_gateway_requests_total",
			Help: "Requests answered, by class of status. Requests that lead to no function have empty labels."}, and("code_class")),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sless_gateway_request_duration_seconds",
			Help:    "Time from a request's head to the end of its answer, streams and WebSockets included.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60}}, function),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sless_gateway_response_bytes_total",
			Help: "Bytes of answers' bodies."}, function),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sless_gateway_refusals_total",
			Help: "Requests that the gateway answered itself, by problem code, and those whose caller went away (client_gone)."}, and("code")),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sless_gateway_requests_in_flight",
			Help: "Requests that are being answered or wait."}, function),
		ejected: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sless_gateway_endpoint_ejections_total",
			Help: "Pods taken out of the choice because no connection could be made."}, function),
		waiting: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sless_gateway_wait_duration_seconds",
			Help:    "Time that requests waited for a free pod; requests that did not wait are not in it.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}}, function),
		synced: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sless_gateway_synced",
			Help: "1 once the route table is complete."}),
	}
	count := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sless_gateway_routes", Help: "Functions in the route table."},
		func() float64 { return float64(routes()) })
	queued := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sless_gateway_requests_waiting",
		Help: "Requests of all functions that wait for a free pod."}, func() float64 { return float64(waiting()) })
	m.registry.MustRegister(m.requests, m.seconds, m.bytes, m.refusals, m.inFlight, m.ejected, m.waiting, m.synced, count, queued,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.unknown = m.Meter("", "")
	return m
}

// Gatherer returns the registry, for the page that shows it.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// SetSynced says that the route table is complete.
func (m *Metrics) SetSynced() { m.synced.Set(1) }

// Unknown counts requests that lead to no function.
func (m *Metrics) Unknown() *Meter { return m.unknown }

// Meter returns the counters of one function. They come into being with its first request: a function that nobody calls has no series.
func (m *Metrics) Meter(namespace, function string) *Meter {
	return &Meter{metrics: m, namespace: namespace, function: function}
}

// Meter counts the requests of one function.
type Meter struct {
	metrics             *Metrics
	namespace, function string

	once   sync.Once
	series *series
	called atomic.Bool
	// gone says that the function is: what ends after that is no longer counted, or it would bring the series back.
	gone atomic.Bool
}

type series struct {
	classes  [len(classes)]atomic.Pointer[prometheus.Counter]
	seconds  prometheus.Observer
	bytes    prometheus.Counter
	inFlight prometheus.Gauge
}

func (m *Meter) get() *series {
	m.once.Do(func() {
		m.series = &series{
			seconds:  m.metrics.seconds.WithLabelValues(m.namespace, m.function),
			bytes:    m.metrics.bytes.WithLabelValues(m.namespace, m.function),
			inFlight: m.metrics.inFlight.WithLabelValues(m.namespace, m.function),
		}
		m.called.Store(true)
	})
	return m.series
}

// Begin counts a request in.
func (m *Meter) Begin() { m.get().inFlight.Inc() }

// End counts a request out: its status, the bytes of its answer, how long it took, and the code when the gateway answered itself.
func (m *Meter) End(status int, bytes int64, took time.Duration, code string) {
	s := m.get()
	s.inFlight.Dec()
	if m.gone.Load() {
		return
	}
	s.bytes.Add(float64(bytes))
	s.seconds.Observe(took.Seconds())
	m.class(s, status).Inc()
	if code != "" {
		m.metrics.refusals.WithLabelValues(m.namespace, m.function, code).Inc()
	}
}

func (m *Meter) class(s *series, status int) prometheus.Counter {
	class := 0
	if digit := status / 100; digit > 0 && digit < len(classes) {
		class = digit
	}
	counter := s.classes[class].Load()
	if counter == nil {
		made := m.metrics.requests.WithLabelValues(m.namespace, m.function, classes[class])
		counter = &made
		s.classes[class].Store(counter)
	}
	return *counter
}

// Ejected counts an endpoint to which no connection could be made.
func (m *Meter) Ejected() {
	if !m.gone.Load() {
		m.metrics.ejected.WithLabelValues(m.namespace, m.function).Inc()
	}
}

// Waited counts a wait for a free endpoint.
func (m *Meter) Waited(took time.Duration) {
	if !m.gone.Load() {
		m.metrics.waiting.WithLabelValues(m.namespace, m.function).Observe(took.Seconds())
	}
}

// Forget removes the series of a function that is gone.
func (m *Meter) Forget() {
	m.gone.Store(true)
	if !m.called.Load() {
		return
	}
	labels := prometheus.Labels{"namespace": m.namespace, "function": m.function}
	for _, vec := range []interface {
		DeletePartialMatch(labels prometheus.Labels) int
	}{m.metrics.requests, m.metrics.seconds, m.metrics.bytes, m.metrics.refusals, m.metrics.inFlight, m.metrics.ejected, m.metrics.waiting} {
		vec.DeletePartialMatch(labels)
	}
}
