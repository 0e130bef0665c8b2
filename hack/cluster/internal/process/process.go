// Package process runs programs that outlive the one who started them, and finds and ends them later.
//
// A record names the process by its id, its start time and the machine's boot, so that an id which was given to a stranger
// meanwhile is never signalled.
package process

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	defaultGrace = 10 * time.Second
	poll         = 20 * time.Millisecond
)

// Spec says how to run a program.
type Spec struct {
	Name    string
	Args    []string // Args[0] is the program
	Env     []string // added to the caller's environment
	Log     string
	Version string // anything else whose change asks for a restart, such as the hash of a configuration file
}

// Set is a folder of records.
type Set struct {
	Dir   string
	Grace time.Duration // how long a program may take to end when asked; 0: ten seconds
}

type record struct {
	PID   int
	Start string // field 22 of /proc/PID/stat: ticks since boot
	Boot  string
	Hash  string
}

// Ensure makes the program run as the spec says: a running one is left alone, one with another spec is replaced. It tells whether
// it started anything.
func (s Set) Ensure(spec Spec) (started bool, err error) {
	hash := spec.hash()
	if rec, ok := s.read(spec.Name); ok && rec.alive() {
		if rec.Hash == hash {
			return false, nil
		}
		if err := s.Stop(spec.Name); err != nil {
			return false, err
		}
	}
	return true, s.start(spec, hash)
}

func (s Set) start(spec Spec, hash string) error {
	if err := os.MkdirAll(filepath.Dir(spec.Log), 0o755); err != nil {
		return err
	}
	if err := os.Rename(spec.Log, spec.Log+".old"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	log, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(spec.Args[0], spec.Args[1:]...)
	cmd.Env = append(os.Environ(), spec.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", spec.Name, err)
	}
	rec := record{PID: cmd.Process.Pid, Boot: bootID(), Hash: hash}
	rec.Start, _ = startTime(rec.PID)
	// Reap it should it end while we still run; afterwards it belongs to init.
	go func() { _ = cmd.Wait() }()
	return s.write(spec.Name, rec)
}

// Alive tells whether the named program runs.
func (s Set) Alive(name string) bool {
	rec, ok := s.read(name)
	return ok && rec.alive()
}

// PID is the id of the named program, or 0 when it does not run.
func (s Set) PID(name string) int {
	if rec, ok := s.read(name); ok && rec.alive() {
		return rec.PID
	}
	return 0
}

// Names lists all records, also of programs that have ended.
func (s Set) Names() ([]string, error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), ".json"); ok {
			names = append(names, name)
		}
	}
	return names, nil
}

// Stop asks the program to end, kills it if it does not, and forgets it. One that does not run is no error.
func (s Set) Stop(name string) error { return s.end(name, syscall.SIGTERM, syscall.SIGKILL) }

// Kill ends the program at once and forgets it.
func (s Set) Kill(name string) error { return s.end(name, syscall.SIGKILL) }

func (s Set) end(name string, signals ...syscall.Signal) error {
	rec, ok := s.read(name)
	if ok && rec.alive() {
		if err := rec.end(signals, cmp.Or(s.Grace, defaultGrace)); err != nil {
			return fmt.Errorf("stop %s (process %d): %w", name, rec.PID, err)
		}
	}
	if err := os.Remove(s.path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (r record) end(signals []syscall.Signal, grace time.Duration) error {
	for _, signal := range signals {
		if err := syscall.Kill(r.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		for deadline := time.Now().Add(grace); time.Now().Before(deadline); time.Sleep(poll) {
			if !r.alive() {
				return nil
			}
		}
	}
	return errors.New("it does not end")
}

func (s Set) path(name string) string { return filepath.Join(s.Dir, name+".json") }

func (s Set) read(name string) (record, bool) {
	data, err := os.ReadFile(s.path(name))
	if err != nil {
		return record{}, false
	}
	var rec record
	if err := json.Unmarshal(data, &rec); err != nil {
		return record{}, false
	}
	return rec, true
}

func (s Set) write(name string, rec record) error {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	data, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	return os.WriteFile(s.path(name), data, 0o644)
}

func (r record) alive() bool {
	if r.PID <= 1 || r.Boot != bootID() {
		return false
	}
	start, running := startTime(r.PID)
	return running && start == r.Start
}

func (s Spec) hash() string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings only
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// startTime reads when a process began; a zombie counts as ended.
func startTime(pid int) (ticks string, running bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false
	}
	return parseStat(string(data))
}

// parseStat takes the state and start time from a stat line. The command in it stands in parentheses and may hold anything, so
// counting begins after the last one.
func parseStat(line string) (ticks string, running bool) {
	const startField = 22
	_, rest, ok := cutLast(line, ") ")
	if !ok {
		return "", false
	}
	fields := strings.Fields(rest)
	if len(fields) <= startField-3 || fields[0] == "Z" || fields[0] == "X" {
		return "", false
	}
	return fields[startField-3], true
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
