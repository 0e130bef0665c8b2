// Package progress tells a person at a terminal what is going on, for how long, and where to look when it fails.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	every     = 10 * time.Second
	tailLines = 15
)

// Printer writes progress lines; it is safe for several steps at once.
type Printer struct {
	mu  sync.Mutex
	out io.Writer
}

// New makes a printer on out.
func New(out io.Writer) *Printer { return &Printer{out: out} }

// Say prints one line.
func (p *Printer) Say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// Step runs f and reports its start, every ten seconds that it takes, and its end. When it fails, the error names the log
// file (if there is one) and carries its last lines.
func (p *Printer) Step(what, log string, f func() error) error {
	start := time.Now()
	done := make(chan struct{})
	var ticking sync.WaitGroup
	ticking.Go(func() { p.tick(what, start, done) })
	err := f()
	close(done)
	ticking.Wait()
	if err != nil {
		return &StepError{What: what, Log: log, Tail: tail(log), Err: err}
	}
	p.Say("  ok  %s (%s)", what, seconds(time.Since(start)))
	return nil
}

func (p *Printer) tick(what string, start time.Time, done <-chan struct{}) {
	first := time.After(time.Second)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-first:
			p.Say("  ..  %s", what)
		case <-ticker.C:
			p.Say("  ..  %s: %s so far", what, seconds(time.Since(start)))
		}
	}
}

func seconds(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	if d < 2*time.Minute {
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
}

// StepError is a failed step with the log to read.
type StepError struct {
	What string
	Log  string
	Tail string
	Err  error
}

// Error names the step, the cause, the log file and its last lines.
func (e *StepError) Error() string {
	text := fmt.Sprintf("%s: %v", e.What, e.Err)
	if e.Log != "" {
		text += "\nread the log: " + e.Log
	}
	if e.Tail != "" {
		text += "\nits last lines:\n" + e.Tail
	}
	return text
}

// Unwrap gives the cause.
func (e *StepError) Unwrap() error { return e.Err }

// tail gives the last lines of a log, or nothing when it can't be read.
func tail(path string) string {
	if path == "" {
		return ""
	}
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	const most = 16 << 10
	if info, err := file.Stat(); err == nil && info.Size() > most {
		if _, err := file.Seek(-most, io.SeekEnd); err != nil {
			return ""
		}
	}
	data, err := io.ReadAll(io.LimitReader(file, most))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	return "    " + strings.Join(lines, "\n    ")
}
