package contract

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen: long, since a slow machine is no fault of a runtime.
const patience = 2 * time.Minute

// runtime is one runtime, started from its sources.
type runtime struct {
	name   string
	ending string // of a file of code
	env    []string
}

// start is the program of the image's entry point.
func (r *runtime) start() string { return filepath.Join(sources, r.name, "sless", "start") }

// install is the program of the image's install step.
func (r *runtime) install() string { return filepath.Join(sources, r.name, "sless", "install") }

// kit is the code of the test function of this runtime, with an entrypoint in it.
func (r *runtime) kit(t *testing.T, entrypoint string) function {
	t.Helper()
	file := "kit" + r.ending
	text, err := os.ReadFile(filepath.Join("testdata", r.name, file))
	if err != nil {
		t.Fatal(err)
	}
	return function{entrypoint: entrypoint, files: map[string]string{"code/" + file: string(text)}}
}

// function is code for a runtime; the names of files are below SLESS_ROOT.
type function struct {
	entrypoint string
	files      map[string]string
}

var (
	sources  string // the directory runtimes/
	runtimes []*runtime
)

func TestMain(m *testing.M) {
	sources, _ = filepath.Abs("../../runtimes")
	vendor, err := exec.Command("make", "--silent", "--no-print-directory", "-C", sources, "vendor").Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "make -C runtimes vendor:", err, stderrOf(err))
		os.Exit(1)
	}
	runtimes = []*runtime{
		{name: "python3.11", ending: ".py", env: []string{"SLESS_VENDOR=" + strings.TrimSpace(string(vendor))}},
		{name: "nodejs20", ending: ".mjs"},
	}
	os.Exit(m.Run())
}

func stderrOf(err error) string {
	if exit, ok := err.(*exec.ExitError); ok {
		return string(exit.Stderr)
	}
	return ""
}

// eachRuntime runs a test once for every runtime.
func eachRuntime(t *testing.T, test func(t *testing.T, r *runtime)) {
	t.Parallel()
	for _, r := range runtimes {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			test(t, r)
		})
	}
}

// eachKit runs a test against the kit of every runtime, served; python's once with a sync handler and once with an async one.
func eachKit(t *testing.T, env []string, test func(t *testing.T, s *server)) {
	t.Parallel()
	for _, r := range runtimes {
		for _, entrypoint := range []string{"kit.handle", "kit.handle_async"} {
			if entrypoint != "kit.handle" && r.name != "python3.11" {
				continue // node calls both alike
			}
			t.Run(r.name+"/"+entrypoint, func(t *testing.T) {
				t.Parallel()
				test(t, r.serve(t, r.kit(t, entrypoint), env...))
			})
		}
	}
}

// process is a runtime at work.
type process struct {
	cmd         *exec.Cmd
	dir         string
	output      string // file with stdout and stderr
	termination string // file of the termination log
	done        chan struct{}
	code        int // valid once done is closed
}

// launch starts a runtime on a function with more environment.
func (r *runtime) launch(t *testing.T, f function, env ...string) *process {
	t.Helper()
	dir := t.TempDir()
	writeFiles(t, filepath.Join(dir, "root"), f.files)
	if err := os.MkdirAll(filepath.Join(dir, "root", "code"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := &process{
		dir:         dir,
		output:      filepath.Join(dir, "output"),
		termination: filepath.Join(dir, "termination"),
		done:        make(chan struct{}),
	}
	output, err := os.Create(p.output)
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	p.cmd = exec.Command(r.start())
	p.cmd.Dir = filepath.Join(dir, "root", "code")
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Env = append(baseEnv(r), "SLESS_ROOT="+filepath.Join(dir, "root"), "SLESS_TERMINATION_LOG="+p.termination)
	if f.entrypoint != "" {
		p.cmd.Env = append(p.cmd.Env, "SLESS_ENTRYPOINT="+f.entrypoint)
	}
	p.cmd.Env = append(p.cmd.Env, env...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the code says it
		p.code = p.cmd.ProcessState.ExitCode()
		close(p.done)
	}()
	t.Cleanup(func() { p.end(t) })
	return p
}

func baseEnv(r *runtime) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/tmp", "LANG=C.UTF-8",
		"SLESS_REVISION=rev-1", "SLESS_NAMESPACE=space", "SLESS_FUNCTION=fn",
		"SLESS_DRAIN_SECONDS=0", // most tests end a server that nobody uses
	}
	return append(env, r.env...)
}

// end stops the process as the kubelet would and shows its output when the test failed.
func (p *process) end(t *testing.T) {
	select {
	case <-p.done:
	default:
		p.signal(t, syscall.SIGTERM)
		select {
		case <-p.done:
		case <-time.After(patience):
			t.Error("the runtime did not end after SIGTERM")
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
			<-p.done
		}
	}
	if t.Failed() {
		text := p.log(t)
		t.Logf("output of the runtime:\n%s", text[max(0, len(text)-8<<10):])
	}
}

func (p *process) signal(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Error(err)
	}
}

// exit waits for the process to end by itself and returns its code.
func (p *process) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatal("the runtime did not end")
	}
	return p.code
}

// log returns what the process has written so far.
func (p *process) log(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(p.output)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// lastWords returns the termination log.
func (p *process) lastWords(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(p.termination)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 4096 {
		t.Errorf("the termination log has %d bytes, the kubelet keeps 4096", len(text))
	}
	return bytes.Clone(text)
}

// server is a process that serves.
type server struct {
	*process
	address string
}

// serve starts a runtime and waits until it is healthy.
func (r *runtime) serve(t *testing.T, f function, env ...string) *server {
	t.Helper()
	s := r.begin(t, f, env...)
	eventually(t, "the function is healthy", func() bool {
		select {
		case <-s.done:
			t.Fatalf("the runtime ended with %d", s.code)
		default:
		}
		response, err := http.Get(s.url("/_sless/health"))
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return s
}

// begin starts a runtime as a server and waits for nothing.
func (r *runtime) begin(t *testing.T, f function, env ...string) *server {
	t.Helper()
	port := freePort(t)
	p := r.launch(t, f, append([]string{fmt.Sprint("PORT=", port)}, env...)...)
	return &server{process: p, address: fmt.Sprint("127.0.0.1:", port)}
}

func (s *server) url(path string) string { return "http://" + s.address + path }

var (
	portsMu  sync.Mutex // guards nextPort
	nextPort = 18000 + os.Getpid()%4000
)

// freePort returns a port below those that the kernel gives to connections, so that no connection takes it meanwhile.
func freePort(t *testing.T) int {
	t.Helper()
	portsMu.Lock()
	defer portsMu.Unlock()
	for range 2000 {
		nextPort++
		listener, err := net.Listen("tcp", fmt.Sprint(":", nextPort))
		if err == nil {
			listener.Close()
			return nextPort
		}
	}
	t.Fatal("no free port")
	return 0
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain until %s", patience, what)
		}
	}
}

// writeFiles writes files below a directory.
func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
