package proxy

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/naeel/sless/ledger"
	"github.com/naeel/sless/ledger/ledgertest"
)

// recorded lets a gateway on a wire write into a ledger that runs until the test ends.
func recorded(t testing.TB, gateway *Gateway, server *ledgertest.Server) {
	t.Helper()
	known := *gateway.Table.Lookup("ns/f").Spec()
	known.NamespaceUID, known.Trigger, known.Image, known.CodeHash = "11111111-1111-4111-8111-111111111111", "web", "sha256:12", "v1"
	gateway.Table.Lookup("ns/f").SetSpec(&known)
	gateway.Ledger = ledger.NewWriter(ledger.WriterOptions{DSNFile: server.File(t, ledgertest.Writer)})
	gateway.LedgerCaller = ledger.CallerNetwork
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		gateway.Ledger.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
}

func emptyLedger(t testing.TB) *ledgertest.Server {
	t.Helper()
	server := ledgertest.Start(t)
	if err := ledger.Prepare(context.Background(), server.File(t, ledgertest.Owner), 30, time.Now()); err != nil {
		t.Fatal(err)
	}
	return server
}

// TestARecordAllocatesNothing compares the allocations of a request with a ledger and without.
func TestARecordAllocatesNothing(t *testing.T) {
	gateway, _ := onWire(t, &wire{})
	request := httptest.NewRequest(http.MethodGet, "/fn/ns/f/some/path?q=1", nil)
	caller, handler := &nowhere{header: http.Header{}}, gateway.Public()
	count := func() float64 {
		return testing.AllocsPerRun(500, func() {
			clear(caller.header)
			handler.ServeHTTP(caller, request)
		})
	}
	off := count()
	spec := *gateway.Table.Lookup("ns/f").Spec()
	spec.NamespaceUID = "11111111-1111-4111-8111-111111111111"
	gateway.Table.Lookup("ns/f").SetSpec(&spec)
	// Nothing writes meanwhile, which would allocate beside.
	gateway.Ledger = ledger.NewWriter(ledger.WriterOptions{DSNFile: ledgertest.WriteDSN(t, t.TempDir()+"/dsn", "postgres://127.0.0.1:1/none")})
	gateway.LedgerCaller = ledger.CallerNetwork
	if on := count(); on > off {
		t.Errorf("%v allocations with a ledger, %v without", on, off)
	}
	if gateway.Ledger.Stats().Queue == 0 {
		t.Error("nothing was recorded")
	}
}

// BenchmarkLedger is a request on a wire without a ledger and with one that is written to; cpu-µs/op is the whole process's, the writing included.
func BenchmarkLedger(b *testing.B) {
	server := emptyLedger(b)
	for _, mode := range []string{"off", "on"} {
		b.Run(mode, func(b *testing.B) {
			gateway, _ := onWire(b, &wire{})
			if mode == "on" {
				recorded(b, gateway, server)
			}
			request := httptest.NewRequest(http.MethodGet, "/fn/ns/f/some/path?q=1", nil)
			caller, handler := &nowhere{header: http.Header{}}, gateway.Public()
			b.ReportAllocs()
			before := cpu(b)
			for b.Loop() {
				clear(caller.header)
				handler.ServeHTTP(caller, request)
			}
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-µs/op")
		})
	}
}
