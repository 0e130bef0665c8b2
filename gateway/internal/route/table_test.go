package route

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/gateway/internal/backend"
	"github.com/naeel/sless/gateway/internal/metrics"
)

func TestTable(t *testing.T) {
	table := NewTable("Fn.Example.org.")
	a, b := &Route{Namespace: "ns", Name: "a"}, &Route{Namespace: "ns", Name: "b"}
	table.Put(a)
	table.Put(b)
	if table.Lookup("ns/a") != a || table.Lookup("ns/b") != b || table.Lookup("ns/c") != nil || table.Len() != 2 || len(table.All()) != 2 {
		t.Error("not what was put")
	}
	host := names.IngressHost("ns", "a", "fn.example.org")
	if got, under := table.LookupHost(host); got != a || !under {
		t.Errorf("host %s leads to %v", host, got)
	}
	again := &Route{Namespace: "ns", Name: "a"}
	table.Put(again)
	if table.Lookup("ns/a") != again || table.Len() != 2 {
		t.Error("not replaced")
	}
	table.Remove(again)
	if got, under := table.LookupHost(host); table.Lookup("ns/a") != nil || got != nil || !under || table.Len() != 1 {
		t.Error("not removed")
	}
	if _, under := NewTable("").LookupHost(host); under {
		t.Error("a table without a domain knows hosts")
	}
}

// TestReadersDuringChanges is for the race detector, and holds that a reader sees a route for as long as it is in the table.
func TestReadersDuringChanges(t *testing.T) {
	table := NewTable("")
	kept := &Route{Namespace: "ns", Name: "kept"}
	table.Put(kept)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if table.Lookup("ns/kept") != kept {
					t.Error("lost")
					return
				}
			}
		})
	}
	for i := range 2000 {
		r := &Route{Namespace: "ns", Name: fmt.Sprint("f", i)}
		table.Put(r)
		table.Remove(r)
	}
	close(done)
	readers.Wait()
}

// silent is an asker that nobody asks.
var silent backend.Asker

// TestMemory holds that a route costs little, and that filling a table is not quadratic.
func TestMemory(t *testing.T) {
	const routes, most = 10_000, 5 << 10
	table := NewTable("fn.example.org")
	counters := metrics.New(table.Len, func() int { return 0 })
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	for i := range routes {
		name := fmt.Sprint("function-", i)
		r := &Route{Namespace: "namespace", Name: name, Pool: backend.NewPool(silent, 10, backend.NewRoom(1000)), Meter: counters.Meter("namespace", name)}
		r.SetSpec(&Spec{Access: Open})
		table.Put(r)
	}
	took := time.Since(began)
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := int(after.HeapAlloc-before.HeapAlloc) / routes
	t.Logf("%d bytes each, %s in all", each, took)
	if each > most {
		t.Errorf("a route costs %d bytes, more than %d", each, most)
	}
	if took > time.Minute {
		t.Errorf("%d routes took %s", routes, took)
	}
	runtime.KeepAlive(table)
}

func BenchmarkLookup(b *testing.B) {
	for _, routes := range []int{1, 1000, 10_000} {
		b.Run(fmt.Sprint(routes), func(b *testing.B) {
			table := NewTable("")
			paths := make([]string, routes)
			for i := range routes {
				name := fmt.Sprint("function-", i)
				table.Put(&Route{Namespace: "namespace", Name: name})
				paths[i] = "/fn/namespace/" + name + "/some/path"
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				path, ok := ParsePath(paths[i%routes])
				if !ok || table.Lookup(path.Key) == nil {
					b.Fatal("not found")
				}
			}
		})
	}
}
