package progress

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestStepTellsHowLongItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		err := New(&out).Step("build", "", func() error { time.Sleep(25 * time.Second); return nil })
		if err != nil {
			t.Fatal(err)
		}
		const want = "  ..  build\n  ..  build: 10 s so far\n  ..  build: 20 s so far\n  ok  build (25 s)\n"
		if out.String() != want {
			t.Errorf("got:\n%s", &out)
		}
	})
}

func TestAFailedStepNamesItsLogAndItsLastLines(t *testing.T) {
	log := filepath.Join(t.TempDir(), "build.log")
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	if err := os.WriteFile(log, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("exit status 1")
	err := New(&bytes.Buffer{}).Step("build", log, func() error { return cause })
	if !errors.Is(err, cause) {
		t.Errorf("the cause is lost: %v", err)
	}
	message := err.Error()
	for _, want := range []string{"build: exit status 1", "read the log: " + log, "line 99", "line 85"} {
		if !strings.Contains(message, want) {
			t.Errorf("no %q in:\n%s", want, message)
		}
	}
	if strings.Contains(message, "line 84") {
		t.Errorf("more than the last lines:\n%s", message)
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1234 * time.Millisecond: "1.2 s", 42 * time.Second: "42 s", 125 * time.Second: "2 min 05 s",
	} {
		if got := seconds(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}
