package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/naeel/sless/ledger"
	"github.com/naeel/sless/operator/internal/config"
)

// records writes into the ledger. It runs on every replica, so that it ends after the controllers: their last records are written too.
type records struct{ *ledger.Writer }

// Start writes until ctx ends.
func (r records) Start(ctx context.Context) error {
	r.Run(ctx)
	return nil
}

// NeedLeaderElection says that it does not.
func (r records) NeedLeaderElection() bool { return false }

// newRecords makes the writer and its metrics.
func newRecords(c config.Ledger) (records, error) {
	// Jobs are few.
	const capacity = 4096
	r := records{ledger.NewWriter(ledger.WriterOptions{DSNFile: c.DSNFile, Capacity: capacity, Log: ledgerLog()})}
	counter := func(result string, count func(ledger.Stats) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "sless_ledger_records_total",
			Help: "Records of what ran, written to the ledger or dropped.", ConstLabels: prometheus.Labels{"result": result}},
			func() float64 { return float64(count(r.Stats())) })
	}
	for _, collector := range []prometheus.Collector{
		counter("written", func(s ledger.Stats) uint64 { return s.Written }),
		counter("dropped", func(s ledger.Stats) uint64 { return s.Dropped }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sless_ledger_queue", Help: "Records that wait to be written."},
			func() float64 { return float64(r.Stats().Queue) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sless_ledger_up", Help: "1 while the ledger can be written to; 0 also without one."},
			func() float64 {
				if r.Stats().Up {
					return 1
				}
				return 0
			}),
	} {
		if err := metrics.Registry.Register(collector); err != nil {
			return r, fmt.Errorf("register the ledger's metrics: %w", err)
		}
	}
	return r, nil
}

// keeperOf returns what makes the ledger's tables, on the replica that leads.
func keeperOf(c config.Ledger) manager.Runnable {
	keeper := &ledger.Keeper{DSNFile: c.OwnerDSNFile, RetentionDays: c.RetentionDays, Log: ledgerLog()}
	return manager.RunnableFunc(func(ctx context.Context) error {
		keeper.Run(ctx)
		return nil
	})
}

func ledgerLog() *slog.Logger { return slog.New(logr.ToSlogHandler(ctrl.Log.WithName("ledger"))) }
