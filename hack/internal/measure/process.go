// Package measure is what the benchmarks share: programs whose time and memory are measured, and pages that tables are put into.
package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a program that was started, and all that it started itself: they share a process group.
type Process struct {
	// Name is what errors call it.
	Name string
	// Admin is the address of its metrics and profiles, if it has one; who starts it sets it.
	Admin string

	cmd *exec.Cmd
	log bytes.Buffer
}

// Build builds commands of this repository into a folder, each under the name of its own folder.
func Build(ctx context.Context, into string, commands ...string) error {
	for _, command := range commands {
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(into, filepath.Base(command)), command).CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w: %s", command, err, out)
		}
	}
	return nil
}

// Start starts a program. name is what errors call it.
func Start(name, program string, args ...string) (*Process, error) {
	p := &Process{Name: name, cmd: exec.Command(program, args...)}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stderr = &p.log
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// Stop kills it.
func (p *Process) Stop() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	_ = p.cmd.Wait()
}

// Reachable waits until something listens at an address.
func (p *Process) Reachable(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen at %s: %w: %s", p.Name, address, err, &p.log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ticksPerSecond is the unit of the times in /proc, the same on every Linux that Go runs on.
const ticksPerSecond = 100

// CPU returns how much processor time the group has had so far, in user and kernel mode.
func (p *Process) CPU() (time.Duration, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	var ticks int64
	group := strconv.Itoa(p.cmd.Process.Pid)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		if err != nil {
			return 0, err
		}
		// The second field, in parentheses, may hold anything. After it come state, parent, group, …, and as the 14th and 15th the times.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) < 13 || fields[2] != group {
			continue
		}
		for _, field := range fields[11:13] {
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", file, err)
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

// Memory returns the resident memory of the first process, in bytes.
func (p *Process) Memory() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no VmRSS of %s", p.Name)
}

// FreeAddress returns an address on the loopback at which nothing listens.
func FreeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
