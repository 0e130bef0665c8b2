package process

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	tests := map[string]struct {
		line    string
		ticks   string
		running bool
	}{
		"usual":             {"12 (sleep) S 1 12 12 0 -1 4194304 90 0 0 0 0 0 0 0 20 0 1 0 4711 5 6", "4711", true},
		"name with a catch": {"12 (a) S 1) R 1 12 12 0 -1 4194304 90 0 0 0 0 0 0 0 20 0 1 0 4711 5 6", "4711", true},
		"zombie":            {"12 (sleep) Z 1 12 12 0 -1 4194304 90 0 0 0 0 0 0 0 20 0 1 0 4711 5 6", "", false},
		"nothing":           {"", "", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ticks, running := parseStat(test.line)
			if ticks != test.ticks || running != test.running {
				t.Errorf("got %q %v, want %q %v", ticks, running, test.ticks, test.running)
			}
		})
	}
}

func TestEnsureStartsOnceAndReplacesWhatChanged(t *testing.T) {
	dir := t.TempDir()
	set := Set{Dir: filepath.Join(dir, "records")}
	t.Cleanup(func() { _ = set.Kill("sleeper") })
	spec := Spec{Name: "sleeper", Args: []string{"sleep", "1000"}, Log: filepath.Join(dir, "log")}

	ensure := func(want bool) int {
		t.Helper()
		started, err := set.Ensure(spec)
		if err != nil {
			t.Fatal(err)
		}
		if started != want {
			t.Fatalf("started: got %v, want %v", started, want)
		}
		return set.PID("sleeper")
	}
	first := ensure(true)
	if again := ensure(false); again != first || again == 0 {
		t.Fatalf("the same spec gave process %d after %d", again, first)
	}
	spec.Version = "2"
	if other := ensure(true); other == first || other == 0 {
		t.Fatalf("another spec kept process %d", other)
	}
	if names, err := set.Names(); err != nil || len(names) != 1 {
		t.Fatalf("names: %q, %v", names, err)
	}
	if err := set.Stop("sleeper"); err != nil {
		t.Fatal(err)
	}
	if set.Alive("sleeper") {
		t.Fatal("alive after Stop")
	}
	if err := set.Stop("sleeper"); err != nil {
		t.Fatalf("stop what does not run: %v", err)
	}
}

func TestARecordOfAnotherProcessIsNotAlive(t *testing.T) {
	set := Set{Dir: t.TempDir()}
	rec := record{PID: os.Getpid(), Start: "1", Boot: bootID()}
	if err := set.write("stranger", rec); err != nil {
		t.Fatal(err)
	}
	if set.Alive("stranger") {
		t.Error("a process with the same id but another start is taken for ours")
	}
	if err := set.Stop("stranger"); err != nil {
		t.Error(err)
	}
}

func TestStopKillsWhatDoesNotListen(t *testing.T) {
	dir := t.TempDir()
	set := Set{Dir: dir, Grace: 200 * time.Millisecond}
	ready := filepath.Join(dir, "ready")
	spec := Spec{Name: "deaf", Args: []string{"sh", "-c", "trap '' TERM; touch " + ready + "; while :; do sleep 1; done"}, Log: filepath.Join(dir, "log")}
	if _, err := set.Ensure(spec); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(poll) {
		if _, err := os.Stat(ready); err == nil {
			break
		}
	}
	if err := set.Stop("deaf"); err != nil {
		t.Fatal(err)
	}
	if set.Alive("deaf") {
		t.Error("still alive")
	}
}
