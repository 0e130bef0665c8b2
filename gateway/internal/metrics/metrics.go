// Package metrics counts what the gateway does. Labels are bounded: only functions that exist have series of their own, only classes of
// status and known codes are values.
package metrics

import (
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/naeel/sless/ledger"
)

// classes are the values of the label code_class, by the first digit of the status.
var classes = [...]string{"other", "1xx", "2xx", "3xx", "4xx", "5xx"}

// buckets are the upper bounds of the histogram of durations, in seconds.
var buckets = [...]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60}

// Metrics is all of the gateway's metrics.
type Metrics struct {
	registry *prometheus.Registry
	refusals *prometheus.CounterVec
	ejected  *prometheus.CounterVec
	waiting  *prometheus.HistogramVec
	synced   prometheus.Gauge
	unknown  *Meter
	// called are the Meters that have counted something.
	called sync.Map
}

// What each Meter counts by itself.
var (
	function     = []string{"namespace", "function"}
	requestsDesc = prometheus.NewDesc("sless_gateway_requests_total",
		"Requests answered, by class of status. Requests that lead to no function have empty labels.", append(function[:2:2], "code_class"), nil)
	secondsDesc = prometheus.NewDesc("sless_gateway_request_duration_seconds",
		"Time from a request's head to the end of its answer, streams and WebSockets included.", function, nil)
	receivedDesc = prometheus.NewDesc("sless_gateway_request_bytes_total", "Bytes of requests' bodies, as far as they were read.", function, nil)
	bytesDesc    = prometheus.NewDesc("sless_gateway_response_bytes_total", "Bytes of answers' bodies.", function, nil)
	inFlightDesc = prometheus.NewDesc("sless_gateway_requests_in_flight", "Requests that are being answered or wait.", function, nil)
)

// New returns metrics in a registry of their own. routes says how many routes there are, and waiting how many requests wait, when they are
// asked.
func New(routes, waiting func() int) *Metrics {
	and := func(label string) []string { return append(function[:2:2], label) }
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sless_gateway_refusals_total",
			Help: "Requests that the gateway answered itself, by problem code, and those whose caller went away (client_gone)."}, and("code")),
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
	m.registry.MustRegister(m, m.refusals, m.ejected, m.waiting, m.synced, count, queued,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.unknown = m.Meter("", "")
	return m
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{requestsDesc, secondsDesc, receivedDesc, bytesDesc, inFlightDesc} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.called.Range(func(key, _ any) bool {
		key.(*Meter).collect(to)
		return true
	})
}

// Gatherer returns the registry, for the page that shows it.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// SetSynced says that the route table is complete.
func (m *Metrics) SetSynced() { m.synced.Set(1) }

// Ledger adds what the writer of the ledger counts.
func (m *Metrics) Ledger(stats func() ledger.Stats) {
	records := func(result string, count func(ledger.Stats) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "sless_ledger_records_total",
			Help: "Records of what ran, written to the ledger or dropped.", ConstLabels: prometheus.Labels{"result": result}},
			func() float64 { return float64(count(stats())) })
	}
	m.registry.MustRegister(
		records("written", func(s ledger.Stats) uint64 { return s.Written }),
		records("dropped", func(s ledger.Stats) uint64 { return s.Dropped }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sless_ledger_queue", Help: "Records that wait to be written."},
			func() float64 { return float64(stats().Queue) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sless_ledger_up", Help: "1 while the ledger can be written to; 0 also without one."},
			func() float64 {
				if stats().Up {
					return 1
				}
				return 0
			}),
	)
}

// Unknown counts requests that lead to no function.
func (m *Metrics) Unknown() *Meter { return m.unknown }

// Meter returns the counters of one function. Its series come into being with its first request: a function that nobody calls has none.
func (m *Metrics) Meter(namespace, function string) *Meter {
	return &Meter{metrics: m, namespace: namespace, function: function}
}

// Meter counts the requests of one function. What every request changes lies side by side: with many functions it is in no cache, and each
// place more costs as much as all the counting.
type Meter struct {
	metrics             *Metrics
	namespace, function string

	called atomic.Bool
	// gone says that the function is: what ends after that is no longer counted, or it would bring the series back.
	gone     atomic.Bool
	inFlight atomic.Int64
	received atomic.Int64
	bytes    atomic.Int64
	took     atomic.Int64 // nanoseconds, in all
	classes  [len(classes)]atomic.Uint64
	// durations counts requests by the bucket that they belong to; the last is for those beyond.
	durations [len(buckets) + 1]atomic.Uint64
}

// Begin counts a request in.
func (m *Meter) Begin() {
	m.inFlight.Add(1)
	if !m.called.Load() && !m.gone.Load() && m.called.CompareAndSwap(false, true) {
		m.metrics.called.Store(m, nil)
		if m.gone.Load() { // Forget may have come between
			m.metrics.called.Delete(m)
		}
	}
}

// End counts a request out: its status, the bytes of its body and of its answer, how long it took, and the code when the gateway answered itself.
func (m *Meter) End(status int, received, bytes int64, took time.Duration, code string) {
	m.inFlight.Add(-1)
	if m.gone.Load() {
		return
	}
	if received > 0 {
		m.received.Add(received)
	}
	m.bytes.Add(bytes)
	m.took.Add(int64(took))
	m.durations[sort.SearchFloat64s(buckets[:], took.Seconds())].Add(1)
	class := 0
	if digit := status / 100; digit > 0 && digit < len(classes) {
		class = digit
	}
	m.classes[class].Add(1)
	if code != "" {
		m.metrics.refusals.WithLabelValues(m.namespace, m.function, code).Inc()
	}
}

func (m *Meter) collect(to chan<- prometheus.Metric) {
	send := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, kind, value, append([]string{m.namespace, m.function}, labels...)...)
	}
	for i, class := range classes {
		if n := m.classes[i].Load(); n > 0 {
			send(requestsDesc, prometheus.CounterValue, float64(n), class)
		}
	}
	send(receivedDesc, prometheus.CounterValue, float64(m.received.Load()))
	send(bytesDesc, prometheus.CounterValue, float64(m.bytes.Load()))
	send(inFlightDesc, prometheus.GaugeValue, float64(m.inFlight.Load()))
	cumulative := make(map[float64]uint64, len(buckets))
	count := uint64(0)
	for i, bound := range buckets {
		count += m.durations[i].Load()
		cumulative[bound] = count
	}
	count += m.durations[len(buckets)].Load()
	seconds := time.Duration(m.took.Load()).Seconds()
	to <- prometheus.MustNewConstHistogram(secondsDesc, count, seconds, cumulative, m.namespace, m.function)
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
	m.metrics.called.Delete(m)
	labels := prometheus.Labels{"namespace": m.namespace, "function": m.function}
	m.metrics.refusals.DeletePartialMatch(labels)
	m.metrics.ejected.DeletePartialMatch(labels)
	m.metrics.waiting.DeletePartialMatch(labels)
}
