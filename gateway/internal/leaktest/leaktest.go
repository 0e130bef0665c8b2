// Package leaktest finds goroutines that tests leave behind.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines that have been told to end may take. goleak itself waits for less than half a second, which a busy machine
// takes now and then.
const patience = time.Minute

// Main runs the tests of a package, and fails when they leave goroutines.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// Verify fails a test when there are goroutines apart from those that options leave out.
func Verify(t testing.TB, options ...goleak.Option) {
	t.Helper()
	if err := find(options...); err != nil {
		t.Error(err)
	}
}

func find(options ...goleak.Option) (err error) {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if err = goleak.Find(options...); err == nil {
			return nil
		}
	}
	return err
}
