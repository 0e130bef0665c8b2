package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/naeel/sless/hack/cluster/internal/binaries"
	"github.com/naeel/sless/hack/cluster/internal/images"
	"github.com/naeel/sless/hack/cluster/internal/mounts"
	"github.com/naeel/sless/hack/cluster/internal/runtimes"
)

// imageTag is the version that sless's own images carry.
const imageTag = "v0.1.0"

const caBundle = "/etc/ssl/certs/ca-certificates.crt"

// programs are the modules that become images of sless.
var programs = []string{"operator", "gateway", "apiserver"}

// catalogue is the runtimes and the languages they speak.
var catalogue = []struct{ runtime, language string }{{"python3.11", "python"}, {"nodejs20", "node"}}

// imageMaker is one run of the images command.
type imageMaker struct {
	*app
	registry registry
	store    images.Store
}

func buildImages(ctx context.Context, a *app) error {
	maker, err := a.imageMaker()
	if err != nil {
		return err
	}
	for _, name := range programs {
		if err := maker.program(ctx, name); err != nil {
			return err
		}
	}
	kaniko, err := maker.kaniko(ctx)
	if err != nil {
		return err
	}
	// One after the other, for one build may use all of a small machine; the failure of one says nothing about the next.
	var failures []error
	for _, entry := range catalogue {
		failures = append(failures, maker.runtime(ctx, entry.runtime, kaniko))
	}
	return errors.Join(failures...)
}

func (a *app) imageMaker() (imageMaker, error) {
	r, err := a.registry()
	if err != nil {
		return imageMaker{}, err
	}
	record, err := images.OpenRecord(a.recordFile())
	if err != nil {
		return imageMaker{}, err
	}
	return imageMaker{app: a, registry: r, store: images.Store{Registry: r.Registry, Cache: a.cache, Record: record}}, nil
}

func (a *app) recordFile() string { return a.place.In("images.json") }

// ensure makes and pushes the item if the registry has not got it as it should be.
func (m imageMaker) ensure(ctx context.Context, item images.Item, log string) error {
	current, err := m.store.Current(ctx, item)
	if err != nil {
		return fmt.Errorf("ask the registry for %s: %w", item.Name, err)
	}
	if current {
		return nil
	}
	return m.progress.Step("image "+item.Name, log, func() error { return m.store.Ensure(ctx, item) })
}

func (m imageMaker) program(ctx context.Context, name string) error {
	program := images.GoProgram{Repo: m.place.Repo, Name: name, Log: m.place.Log("image-" + name), Temp: m.place.In("build")}
	if !program.Exists() {
		m.progress.Say("      no image %s: %s has no program yet", name, name)
		return nil
	}
	inputs, err := program.Inputs(runtime.Version())
	if err != nil {
		return err
	}
	return m.ensure(ctx, images.Item{Name: name, Tag: imageTag, Inputs: inputs, Make: program.Make}, program.Log)
}

func (m imageMaker) kaniko(ctx context.Context) (v1.Image, error) {
	executor, err := m.builder.Build(ctx, binaries.Kaniko)
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(caBundle)
	if err != nil {
		return nil, err
	}
	inputs, err := images.Inputs("", nil, filepath.Base(executor), string(ca))
	if err != nil {
		return nil, err
	}
	item := images.Item{Name: "kaniko", Tag: binaries.KanikoVersion, Inputs: inputs, Make: func(context.Context) (v1.Image, error) {
		return images.Kaniko(executor)
	}}
	if err := m.ensure(ctx, item, ""); err != nil {
		return nil, err
	}
	return m.cache.Get(item.Key(), func() (v1.Image, error) { return item.Make(ctx) })
}

// base is the image that a runtime's Dockerfile starts from.
func (a *app) base(name string) (images.Item, error) {
	inputs, err := images.BaseInputs()
	if err != nil {
		return images.Item{}, err
	}
	temp := filepath.Join(a.place.In("build"), "base-"+name)
	base := images.Base{Log: a.place.Log("image-base-" + name), Temp: temp}
	make := base.Node
	if name == "python3.11" {
		make = base.Python
	}
	return images.Item{Name: "base-" + name, Tag: imageTag, Inputs: inputs, Make: make}, nil
}

// warmBases makes the base images that runtime images are yet to be built on, in the background.
func (a *app) warmBases(ctx context.Context) (wait func() error) {
	var builds []func() error
	for _, entry := range catalogue {
		item, err := a.runtimeItem(entry.runtime)
		if err != nil || a.cache.Has(item.Key()) {
			continue // an error comes again where the item is used
		}
		builds = append(builds, func() error { return a.warmBase(ctx, entry.runtime) })
	}
	done := make(chan error, 1)
	go func() { done <- inParallel(len(builds), builds) }()
	return func() error { return <-done }
}

func (a *app) warmBase(ctx context.Context, name string) error {
	item, err := a.base(name)
	if err != nil {
		return err
	}
	if a.cache.Has(item.Key()) {
		return nil
	}
	temp := filepath.Join(a.place.In("build"), "base-"+name)
	defer func() {
		// Never through a mount that is still there.
		if mounted, err := mounts.Below(temp); err == nil && len(mounted) == 0 {
			_ = os.RemoveAll(temp)
		}
	}()
	return a.progress.Step("base image for "+name+" from Debian packages", a.place.Log("image-base-"+name), func() error {
		_, err := a.cache.Get(item.Key(), func() (v1.Image, error) { return item.Make(ctx) })
		return err
	})
}

// runtimeItem is a runtime's image without the way to make it.
func (a *app) runtimeItem(name string) (images.Item, error) {
	base, err := a.base(name)
	if err != nil {
		return images.Item{}, err
	}
	inputs, err := images.Inputs(a.place.Repo, []string{filepath.Join("runtimes", name)}, base.Inputs)
	return images.Item{Name: "runtime-" + name, Tag: imageTag, Inputs: inputs}, err
}

func (m imageMaker) runtime(ctx context.Context, name string, kaniko v1.Image) error {
	if !runtimes.Exists(m.place.Repo, name) {
		m.progress.Say("      no image runtime-%s: runtimes/%s has no Dockerfile yet", name, name)
		return nil
	}
	item, err := m.runtimeItem(name)
	if err != nil {
		return err
	}
	item.Make = func(ctx context.Context) (v1.Image, error) { return m.buildRuntime(ctx, name, item, kaniko) }
	return m.ensure(ctx, item, m.place.Log(item.Name))
}

func (m imageMaker) buildRuntime(ctx context.Context, name string, item images.Item, kaniko v1.Image) (v1.Image, error) {
	base, err := m.base(name)
	if err != nil {
		return nil, err
	}
	if err := m.warmBase(ctx, name); err != nil {
		return nil, err
	}
	if err := m.store.Ensure(ctx, base); err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(caBundle)
	if err != nil {
		return nil, err
	}
	builder := runtimes.Builder{
		Repo: m.place.Repo, Registry: m.registry.Registry, DockerConfig: m.registry.push, CA: ca, Args: buildArgs(ctx),
		Kubectl: m.kubectl, LogFor: m.place.Log,
	}
	return builder.Make(ctx, runtimes.Build{
		Runtime: name, Name: item.Name, Tag: item.Tag, Base: m.store.Record.Image(base.Name), Kaniko: kaniko, Inputs: item.Inputs,
	})
}

// buildArgs tells a Dockerfile where packages come from, as this machine is set up.
func buildArgs(ctx context.Context) map[string]string {
	const ca = "/kaniko/ca/ca.crt"
	args := map[string]string{"PIP_CERT": ca, "NODE_EXTRA_CA_CERTS": ca}
	if url := pipIndex(ctx); url != "" {
		args["PIP_INDEX_URL"] = url
	}
	if url := npmRegistry(ctx); url != "" {
		args["NPM_CONFIG_REGISTRY"] = url
	}
	return args
}

// pipIndex is the Python index that this machine is set up for; empty: pip's own default.
func pipIndex(ctx context.Context) string {
	if url := os.Getenv("PIP_INDEX_URL"); url != "" {
		return url
	}
	for _, pip := range [][]string{{"pip"}, {"pip3"}, {"python3", "-m", "pip"}} {
		// pip fails when the setting is absent, so failure says nothing.
		out, err := exec.CommandContext(ctx, pip[0], append(pip[1:], "config", "get", "global.index-url")...).Output()
		if err == nil {
			return strings.TrimSpace(string(out))
		}
	}
	return ""
}

// npmRegistry is the npm registry that this machine is set up for; empty: npm's own default.
func npmRegistry(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "npm", "config", "get", "registry").Output()
	if err != nil {
		return os.Getenv("NPM_CONFIG_REGISTRY")
	}
	return strings.TrimSpace(string(out))
}
