package images

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/naeel/sless/hack/cluster/internal/mounts"
)

// suite is the Debian release that has the Python of the runtime's name.
const suite = "bookworm"

// Versions of what the node base adds; npm packages both.
const (
	nodeVersion = "20.20.2"
	npmVersion  = "10.9.9"
)

// Base makes the images that the runtimes' Dockerfiles start from, out of Debian packages: what python:3.11-slim and node:20-slim are
// elsewhere.
type Base struct {
	Log  string // file for the output of the programs
	Temp string // folder for big files
}

// Python has Python 3.11 and pip.
func (b Base) Python(ctx context.Context) (v1.Image, error) {
	return b.make(ctx, []string{"python3", "python3-pip", "ca-certificates"}, func(string) error { return nil })
}

// Node has Node.js 20 and npm.
func (b Base) Node(ctx context.Context) (v1.Image, error) {
	return b.make(ctx, []string{"ca-certificates"}, func(root string) error { return b.addNode(ctx, root) })
}

// BaseInputs is the hash of what the base images are made from. Debian's own fixes are not in it: empty the cache to get them.
func BaseInputs() (string, error) {
	return Inputs("", nil, suite, nodeVersion, npmVersion, runtime.GOARCH, strings.Join(unneeded, " "))
}

func (b Base) make(ctx context.Context, packages []string, finish func(root string) error) (v1.Image, error) {
	if err := os.MkdirAll(b.Temp, 0o755); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(b.Temp, "base-*")
	if err != nil {
		return nil, err
	}
	defer discard(work)
	root := filepath.Join(work, "root")
	mirror, err := mirror(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.run(ctx, "", "debootstrap", "--variant=minbase", "--include="+strings.Join(packages, ","), suite, root, mirror); err != nil {
		return nil, err
	}
	if err := finish(root); err != nil {
		return nil, err
	}
	if err := strip(root); err != nil {
		return nil, err
	}
	// Not into work: the layer is read from the file after this returns, until the caller has kept it.
	file, err := os.CreateTemp(b.Temp, "base-*.tar")
	if err != nil {
		return nil, err
	}
	file.Close()
	if err := b.run(ctx, "", "tar", "--create", "--numeric-owner", "--sort=name", "--one-file-system",
		"--directory="+root, "--file="+file.Name(), "."); err != nil {
		return nil, err
	}
	return FromTar(file.Name(), v1.Config{
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"},
		Cmd: []string{"/bin/sh"},
	})
}

// discard deletes a folder in which debootstrap may have left /proc and /sys mounted when it was cut short.
func discard(work string) {
	if mounts.Detach(work) == nil {
		_ = os.RemoveAll(work)
	}
}

// unneeded is what a base image has no use for; the packages' copyright files stay.
var unneeded = []string{
	"var/cache/apt/*", "var/lib/apt/lists/*", "var/log/*", "var/cache/debconf/*-old", "usr/share/man/*", "usr/share/locale/*",
	"usr/share/info/*", "usr/share/doc/*/changelog*", "usr/share/doc/*/NEWS*", "usr/share/doc/*/README*", "dev/*", "etc/apt/sources.list", "debootstrap",
}

func strip(root string) error {
	for _, pattern := range unneeded {
		matches, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return err
		}
		for _, match := range matches {
			if err := os.RemoveAll(match); err != nil {
				return err
			}
		}
	}
	return nil
}

// addNode installs Node.js and npm from their npm packages.
func (b Base) addNode(ctx context.Context, root string) error {
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	if arch == "" {
		return errors.New("no Node.js package for " + runtime.GOARCH)
	}
	local := filepath.Join(root, "usr", "local")
	npm := filepath.Join(local, "lib", "node_modules", "npm")
	if err := os.MkdirAll(npm, 0o755); err != nil {
		return err
	}
	node, err := b.npmPackage(ctx, fmt.Sprintf("node-linux-%s@%s", arch, nodeVersion))
	if err != nil {
		return err
	}
	if err := b.run(ctx, "", "tar", "--extract", "--gzip", "--no-same-owner", "--file="+node, "--directory="+local, "--strip-components=1", "package/bin/node"); err != nil {
		return err
	}
	archive, err := b.npmPackage(ctx, "npm@"+npmVersion)
	if err != nil {
		return err
	}
	if err := b.run(ctx, "", "tar", "--extract", "--gzip", "--no-same-owner", "--file="+archive, "--directory="+npm, "--strip-components=1"); err != nil {
		return err
	}
	for _, name := range []string{"npm", "npx"} {
		if err := os.Symlink("../lib/node_modules/npm/bin/"+name+"-cli.js", filepath.Join(local, "bin", name)); err != nil {
			return err
		}
	}
	return nil
}

// npmPackage downloads a package from the npm registry that this machine is set up for.
func (b Base) npmPackage(ctx context.Context, name string) (string, error) {
	dir := filepath.Join(b.Temp, "npm")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return "", errors.New("the node image needs npm on this machine to fetch Node.js: apt-get install npm")
	}
	if err := b.run(ctx, dir, "npm", "pack", "--silent", name); err != nil {
		return "", err
	}
	return filepath.Join(dir, strings.Replace(name, "@", "-", 1)+".tgz"), nil
}

func (b Base) run(ctx context.Context, dir, program string, args ...string) error {
	if err := os.MkdirAll(filepath.Dir(b.Log), 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(b.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	fmt.Fprintf(log, "+ %s %s\n", program, strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = log, log
	// What is cut short ends with all its children, or they would go on writing to what is deleted.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	return nil
}

// mirror is where this machine's apt gets Debian from.
func mirror(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI) $(COMPONENT) $(CODENAME) $(ORIGIN)", "Created-By: Packages").Output()
	if err != nil {
		return "", fmt.Errorf("apt-get indextargets: %w", err)
	}
	return pickMirror(strings.NewReader(string(out)))
}

// pickMirror takes the first main archive of Debian, of the wanted suite if there is one: a mirror that carries another release carries
// this one too.
func pickMirror(targets io.Reader) (string, error) {
	found := ""
	lines := bufio.NewScanner(targets)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 4 || fields[1] != "main" || fields[3] != "Debian" || strings.Contains(fields[2], "-") {
			continue
		}
		if fields[2] == suite {
			return fields[0], nil
		}
		if found == "" {
			found = fields[0]
		}
	}
	if found == "" {
		return "", errors.New("apt's sources on this machine name no Debian archive, which the base images are made from (try: apt-get update)")
	}
	return found, nil
}
