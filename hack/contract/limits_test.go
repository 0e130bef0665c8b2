package contract

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func TestConcurrencyIsEnforced(t *testing.T) {
	eachKit(t, []string{"SLESS_CONCURRENCY=2", "SLESS_TIMEOUT_SECONDS=600"}, func(t *testing.T, s *server) {
		var waiting []<-chan answer
		var all []signs
		for range 2 {
			signs := newSigns(t)
			waiting, all = append(waiting, s.later(t, request{do: "wait", args: signs.args()})), append(all, signs)
			signs.await(t, "started")
		}
		for range 10 {
			refused := s.send(t, request{method: "POST", do: "raw", body: strings.NewReader("x")})
			refused.wantProblem(t, http.StatusServiceUnavailable, "overloaded")
			if refused.header.Get("Sless-Overload") != "true" {
				t.Error("the refusal is not marked")
			}
		}
		// The limit is for the handler; health is asked all the same.
		if health := s.send(t, request{target: "/_sless/health"}); health.status != http.StatusOK {
			t.Errorf("health at the limit: %d", health.status)
		}
		for i, signs := range all {
			signs.release(t)
			take(t, waiting[i]).wantBody(t, 200, "released")
		}
		s.send(t, value("number")).wantBody(t, 200, "42")
	})
}

// However many come, no more than the limit are inside the handler.
func TestConcurrencyUnderPressure(t *testing.T) {
	eachKit(t, []string{"SLESS_CONCURRENCY=1", "SLESS_TIMEOUT_SECONDS=600"}, func(t *testing.T, s *server) {
		signs := newSigns(t)
		signs.release(t) // wait ends after its first look
		var done sync.WaitGroup
		for range 8 {
			done.Go(func() {
				for range 10 {
					response, err := s.open(t, request{do: "wait", args: signs.args()})
					if err != nil {
						t.Error(err)
						return
					}
					response.Body.Close()
					if response.StatusCode != 200 && response.Header.Get("Sless-Overload") != "true" {
						t.Errorf("status %d", response.StatusCode)
					}
				}
			})
		}
		done.Wait()
		s.send(t, request{do: "peak"}).wantBody(t, 200, "1")
	})
}

func TestNoLimit(t *testing.T) {
	eachKit(t, []string{"SLESS_CONCURRENCY=0", "SLESS_TIMEOUT_SECONDS=600"}, func(t *testing.T, s *server) {
		var waiting []<-chan answer
		var all []signs
		for range 20 {
			signs := newSigns(t)
			waiting, all = append(waiting, s.later(t, request{do: "wait", args: signs.args()})), append(all, signs)
		}
		for _, signs := range all {
			signs.await(t, "started")
		}
		for i, signs := range all {
			signs.release(t)
			take(t, waiting[i]).wantBody(t, 200, "released")
		}
	})
}

func TestCallerGoneCancels(t *testing.T) {
	eachKit(t, []string{"SLESS_CONCURRENCY=1", "SLESS_TIMEOUT_SECONDS=600"}, func(t *testing.T, s *server) {
		before := s.send(t, request{do: "state"}).json(t)
		for _, do := range []string{"wait", "events"} {
			signs := newSigns(t)
			ctx, cancel := context.WithCancel(t.Context())
			going := s.later(t, request{do: do, args: signs.args(), ctx: ctx})
			if do == "wait" {
				signs.await(t, "started")
			} else {
				signs.await(t, "between")
			}
			cancel()
			<-going
			if do == "wait" {
				signs.await(t, "cancelled")
			} else {
				signs.await(t, "closed")
			}
			eventually(t, "the place is free", func() bool { return s.send(t, value("number")).status == 200 })
		}
		after := s.send(t, request{do: "state"}).json(t)
		if before["pid"] != after["pid"] {
			t.Error("a caller that went away cost the worker its life")
		}
	})
}

func TestTimeout(t *testing.T) {
	eachKit(t, []string{"SLESS_TIMEOUT_SECONDS=4"}, func(t *testing.T, s *server) {
		before := s.send(t, request{do: "state"}).json(t)
		hang := newSigns(t)
		hanging := s.later(t, request{do: "hang", args: hang.args(), header: http.Header{"X-Request-Id": {"id-of-the-hang"}}})
		pids := strings.Fields(hang.await(t, "started"))
		take(t, hanging).wantProblem(t, http.StatusGatewayTimeout, "function_timeout")
		for _, pid := range pids {
			eventually(t, "process "+pid+" is gone", func() bool { return !alive(pid) })
		}
		var after map[string]any
		eventually(t, "a new worker answers", func() bool {
			after = s.send(t, request{do: "state"}).json(t)
			return after["calls"] == 1.0
		})
		if after["pid"] == before["pid"] {
			t.Errorf("the worker was %v and is %v", before, after)
		}
		eventually(t, "what was printed before is in the log", func() bool {
			return strings.Contains(s.log(t), "about to hang")
		})
	})
}

// The neighbours of a call past its time go on and end as if nothing had been.
func TestTimeoutSparesNeighbours(t *testing.T) {
	eachKit(t, []string{"SLESS_TIMEOUT_SECONDS=8"}, func(t *testing.T, s *server) {
		// A stream's clock starts anew with each part, so this neighbour outlives any fixed time.
		neighbour, stall := newSigns(t), newSigns(t)
		streaming := s.later(t, request{do: "events", args: neighbour.args()})
		neighbour.await(t, "between")
		stalling := s.later(t, request{do: "stall", args: stall.args()})
		// It is broken off after its first part, by its own time-out.
		if a, ok := <-stalling; ok {
			t.Fatalf("a stream that stalled ended as if it were complete: %d %q", a.status, a.body)
		}
		eventually(t, "a new worker answers", func() bool { return s.send(t, request{do: "state"}).json(t)["calls"] == 1.0 })
		if neighbour.has("closed") {
			t.Fatal("the neighbour was ended")
		}
		neighbour.release(t)
		take(t, streaming).wantBody(t, 200, "data: 1\n\ndata: 2\n\n")
	})
}

func TestTimeoutFreesThePlace(t *testing.T) {
	eachKit(t, []string{"SLESS_TIMEOUT_SECONDS=2", "SLESS_CONCURRENCY=1"}, func(t *testing.T, s *server) {
		for range 2 {
			signs := newSigns(t)
			s.send(t, request{do: "hang", args: signs.args()}).wantProblem(t, http.StatusGatewayTimeout, "function_timeout")
			// The next worker may not be there within a call's time; the place is.
			eventually(t, "the next call is answered", func() bool {
				a := s.send(t, value("number"))
				if a.header.Get("Sless-Error") == "overloaded" {
					t.Fatal("the call past its time keeps its place")
				}
				return a.status == http.StatusOK
			})
		}
		eventually(t, "one worker is left", func() bool { return len(s.workers(t)) == 1 })
	})
}

func TestCrash(t *testing.T) {
	eachKit(t, nil, func(t *testing.T, s *server) {
		for range 2 {
			detail := s.send(t, request{do: "exit"}).wantProblem(t, http.StatusBadGateway, "function_crashed")
			if !strings.Contains(detail, "exit code 3") {
				t.Errorf("detail %q does not say how it ended", detail)
			}
			s.send(t, value("number")).wantBody(t, 200, "42")
		}
	})
}

// alive says whether a process is there and no zombie.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// workers returns the worker processes of a server: those that belong to it by their environment.
func (s *server) workers(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry.Name()); err != nil || !alive(entry.Name()) {
			continue
		}
		environ, err := os.ReadFile("/proc/" + entry.Name() + "/environ")
		if err == nil && strings.Contains(string(environ), "SLESS_WORKER_ID=") && strings.Contains(string(environ), "SLESS_TERMINATION_LOG="+s.termination+"\x00") {
			found = append(found, entry.Name())
		}
	}
	return found
}

func TestHandlerLogsReachTheOutput(t *testing.T) {
	eachKit(t, nil, func(t *testing.T, s *server) {
		const size = 3 << 20
		a := s.send(t, request{do: "print", args: url.Values{"size": {fmt.Sprint(size)}}})
		if a.status != http.StatusNoContent {
			t.Fatalf("status %d %s", a.status, a.body)
		}
		line := strings.Repeat("x", size)
		eventually(t, "a long line is whole on stdout and on stderr, and text without a line end came too", func() bool {
			log := s.log(t)
			return strings.Count(log, line) == 2 && strings.Contains(log, "no newline at the end")
		})
		s.send(t, request{do: "lines", args: url.Values{"count": {"50000"}}, header: http.Header{"X-Request-Id": {"many"}}})
		var want strings.Builder
		for i := range 50000 {
			fmt.Fprintln(&want, "[many] line", i)
		}
		eventually(t, "many lines came whole and in order", func() bool { return strings.Contains(s.log(t), want.String()) })
	})
}

// What callers send and what the environment holds never shows in a log that the handler did not write.
func TestNothingIsLoggedByItself(t *testing.T) {
	eachKit(t, []string{"PASSWORD=hunter2"}, func(t *testing.T, s *server) {
		s.send(t, request{method: "POST", target: "/?token=hunter3", header: http.Header{"Authorization": {"hunter4"}}, body: strings.NewReader("hunter5")})
		s.invoke(t, `{"do":"raise","x":"hunter6"}`)
		s.invoke(t, `{"hunter7`)
		s.signal(t, os.Interrupt)
		s.exit(t)
		if log := s.log(t); strings.Contains(log, "hunter") {
			t.Errorf("the log has what it must not have:\n%s", log)
		}
	})
}
