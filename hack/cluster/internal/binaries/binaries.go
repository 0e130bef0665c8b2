// Package binaries builds the programs of the local cluster from Go modules, once for each state of what they are built from.
package binaries

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/naeel/sless/hack/cluster/internal/plan"
	"github.com/naeel/sless/hack/cluster/internal/progress"
)

const kubernetesVersion = "v1.37.2"

// KanikoVersion is the version of the image builder.
const KanikoVersion = "v1.27.5"

// Program is something to build.
type Program struct {
	Name    string
	Dir     string // folder of a module in this repository; empty for somebody else's module
	Module  string // path@version of somebody else's module
	Package string // in the module
	LDFlags string
	Expect  string // how long a first build takes, for the person who waits
}

// The programs.
var (
	Kube = Program{
		Name: "kube", Dir: "hack/cluster/kube", Package: ".",
		LDFlags: "-X k8s.io/component-base/version.gitVersion=" + kubernetesVersion,
		Expect:  "6 to 10 min on 2 cores",
	}
	Pause      = Program{Name: "pause", Dir: "hack/cluster", Package: "./pause", Expect: "seconds"}
	CoreDNS    = Program{Name: "coredns", Module: "github.com/coredns/coredns@v1.15.0", Package: ".", Expect: "2 min"}
	KubeRouter = Program{Name: "kube-router", Module: "github.com/cloudnativelabs/kube-router/v2@v2.1.0", Package: "./cmd/kube-router", Expect: "2 min"}
	Registry   = Program{Name: "registry", Module: "github.com/distribution/distribution/v3@v3.1.2", Package: "./cmd/registry", Expect: "1 to 2 min"}
	S3         = Program{Name: "versitygw", Module: "github.com/versity/versitygw@v1.8.0", Package: "./cmd/versitygw", Expect: "1 min"}
	Kaniko     = Program{Name: "kaniko", Module: "github.com/osscontainertools/kaniko@" + KanikoVersion, Package: "./cmd/executor", Expect: "2 min"}
	Skipper    = Program{Name: "skipper", Module: "github.com/zalando/skipper@v0.23.0", Package: "./cmd/skipper", Expect: "2 min"}
	Tofu       = Program{Name: "tofu", Module: "github.com/opentofu/opentofu@v1.12.6", Package: "./cmd/tofu", Expect: "3 min"}
	ArgoCD     = Program{Name: "argocd", Module: "github.com/argoproj/argo-cd/v3@v3.2.5", Package: "./cmd", Expect: "5 min"}
	Kustomize  = Program{Name: "kustomize", Module: "sigs.k8s.io/kustomize/kustomize/v5@v5.7.1", Package: ".", Expect: "1 min"}
)

// KubeNames are the names that the kube binary answers to.
var KubeNames = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"}

// Builder builds into the cache folder.
type Builder struct {
	Place    plan.Place
	Progress *progress.Printer
}

// Build gives the path of the program, building it if this state of its inputs was never built.
func (b Builder) Build(ctx context.Context, program Program) (string, error) {
	hash, err := b.hash(program)
	if err != nil {
		return "", fmt.Errorf("hash the inputs of %s: %w", program.Name, err)
	}
	path := filepath.Join(b.Place.Cache, "bin", program.Name+"-"+hash)
	if isFile(path) {
		return path, nil
	}
	unlock, err := lock(path + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if isFile(path) {
		return path, nil
	}
	log := b.Place.Log("build-" + program.Name)
	what := fmt.Sprintf("build %s (the first time: %s)", program.Name, program.Expect)
	return path, b.Progress.Step(what, log, func() error { return b.build(ctx, program, path, log) })
}

// Kube builds Kubernetes and links its programs into .dev/bin, which is also what envtest wants.
func (b Builder) Kube(ctx context.Context) error {
	path, err := b.Build(ctx, Kube)
	if err != nil {
		return err
	}
	for _, name := range KubeNames {
		if err := b.link(path, name); err != nil {
			return err
		}
	}
	return nil
}

// Link builds the program and links it into .dev/bin.
func (b Builder) Link(ctx context.Context, program Program) error {
	path, err := b.Build(ctx, program)
	if err != nil {
		return err
	}
	return b.link(path, program.Name)
}

func (b Builder) link(path, name string) error {
	link := b.Place.Bin(name)
	if target, err := os.Readlink(link); err == nil && target == path {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	// Made aside and renamed, so that nobody finds the link missing.
	aside := fmt.Sprintf("%s.%d", link, os.Getpid())
	if err := os.Symlink(path, aside); err != nil {
		return err
	}
	return os.Rename(aside, link)
}

func (b Builder) build(ctx context.Context, program Program, path, log string) error {
	for _, dir := range []string{filepath.Dir(path), filepath.Dir(log)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	output, err := os.Create(log)
	if err != nil {
		return err
	}
	defer output.Close()
	dir := filepath.Join(b.Place.Repo, program.Dir)
	if program.Module != "" {
		if dir, err = unpack(ctx, program.Module); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	aside := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(aside)
	cmd := exec.CommandContext(ctx, "go", "build", "-mod=mod", "-trimpath", "-buildvcs=false",
		"-ldflags", strings.TrimSpace("-s -w "+program.LDFlags), "-o", aside, program.Package)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build: %w", err)
	}
	return os.Rename(aside, path)
}

// unpack copies a module to a folder of its own, so that its own go.sum and replaces bind the build. Replaces by a path can't
// work outside the module's repository and go.
func unpack(ctx context.Context, module string) (string, error) {
	downloaded, err := Download(ctx, module)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "sless-build-*")
	if err != nil {
		return "", err
	}
	if err := copyModule(dir, downloaded); err != nil {
		os.RemoveAll(dir)
		return "", fmt.Errorf("copy %s: %w", module, err)
	}
	return dir, nil
}

// Download gives the folder in which Go keeps the module, path@version.
func Download(ctx context.Context, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Dir = os.TempDir()
	cmd.Stderr = os.Stderr
	data, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("download %s: %w", module, err)
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(data, &downloaded); err != nil {
		return "", err
	}
	return downloaded.Dir, nil
}

func copyModule(to, from string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if entry.IsDir() {
			if rel == "vendor" {
				return filepath.SkipDir
			}
			return os.MkdirAll(target, 0o755)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if rel == "go.mod" {
			data = dropLocalReplaces(data)
		}
		return os.WriteFile(target, data, 0o644)
	})
}

func dropLocalReplaces(mod []byte) []byte {
	var kept []string
	for line := range strings.SplitSeq(string(mod), "\n") {
		_, target, replaces := strings.Cut(line, "=>")
		target = strings.TrimSpace(target)
		if replaces && (strings.HasPrefix(target, ".") || strings.HasPrefix(target, "/")) {
			continue
		}
		kept = append(kept, line)
	}
	return []byte(strings.Join(kept, "\n"))
}

func (b Builder) hash(program Program) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOARCH, program.Module, program.Package, program.LDFlags)
	if program.Module == "" {
		// A main package of this kind is one folder beside its module's files.
		module := filepath.Join(b.Place.Repo, program.Dir)
		files, err := filepath.Glob(filepath.Join(module, program.Package, "*.go"))
		if err != nil {
			return "", err
		}
		if program.Package == "." {
			files = append(files, filepath.Join(module, "go.mod"), filepath.Join(module, "go.sum"))
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			fmt.Fprintln(sum, filepath.Base(file), len(data))
			sum.Write(data)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// lock waits for an exclusive lock, so that two work trees never build the same thing at once.
func lock(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { file.Close() }, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
