// Package runtimes builds the runtime images from their Dockerfiles, by kaniko in the cluster, as any user with a registry would.
package runtimes

import (
	"context"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/naeel/sless/hack/cluster/internal/images"
	"github.com/naeel/sless/hack/cluster/internal/kubectl"
	"github.com/naeel/sless/hack/cluster/internal/plan"
)

const (
	buildTimeout = 15 * time.Minute
	poll         = time.Second
)

//go:embed job.yaml
var jobTemplate string

// Builder builds runtime images.
type Builder struct {
	Repo         string
	Registry     images.Registry
	DockerConfig []byte // config.json with the right to push
	CA           []byte // certificate authorities for the build's own downloads
	Args         map[string]string
	Kubectl      kubectl.Client
	LogFor       func(name string) string
}

// Build is one runtime image to build.
type Build struct {
	Runtime string   // folder below runtimes/
	Name    string   // of the image
	Tag     string   // of the image
	Base    string   // image by digest
	Kaniko  v1.Image // what builds
	Inputs  string   // hash of it all, for names
}

// Exists tells whether the runtime has a Dockerfile.
func Exists(repo, runtime string) bool {
	_, err := os.Stat(filepath.Join(repo, "runtimes", runtime, "Dockerfile"))
	return err == nil
}

// Make builds the image and reads it back from the registry.
func (b Builder) Make(ctx context.Context, build Build) (v1.Image, error) {
	builder, err := b.pushContext(ctx, build)
	if err != nil {
		return nil, err
	}
	destination := b.Registry.Prefix + "/" + build.Name + ":" + build.Tag
	job := "build-" + strings.ReplaceAll(build.Runtime, ".", "-") + "-" + build.Inputs[:8]
	manifest, err := b.render(build, job, builder, destination)
	if err != nil {
		return nil, err
	}
	if err := b.runJob(ctx, job, manifest, b.LogFor(build.Name)); err != nil {
		return nil, err
	}
	return b.Registry.Pull(ctx, destination)
}

// pushContext puts the Dockerfile's folder into a layer on top of kaniko itself. A cluster that can pull images can so be given any
// context, with no volume or store to share.
func (b Builder) pushContext(ctx context.Context, build Build) (string, error) {
	files, err := contextFiles(filepath.Join(b.Repo, "runtimes", build.Runtime))
	if err != nil {
		return "", err
	}
	image, err := images.AddFiles(build.Kaniko, files)
	if err != nil {
		return "", err
	}
	return b.Registry.Push(ctx, "build-context", build.Runtime, image)
}

var ignored = []string{"node_modules", "__pycache__", "tests", "test"}

func contextFiles(dir string) ([]images.File, error) {
	var files []images.File
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && file != dir && slices.Contains(ignored, entry.Name()) {
			return filepath.SkipDir
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if info.Mode().Perm()&0o111 != 0 {
			mode = 0o755
		}
		files = append(files, images.File{Path: path.Join("/kaniko/buildcontext", rel), Source: file, Mode: mode})
		return nil
	})
	return files, err
}

func (b Builder) render(build Build, job, builder, destination string) (string, error) {
	args := []string{
		"--context=dir:///kaniko/buildcontext", "--dockerfile=Dockerfile", "--destination=" + destination,
		"--build-arg=BASE=" + build.Base, "--single-snapshot", "--log-format=text", "--push-retry=3", "--image-download-retry=3",
	}
	if b.Registry.Insecure {
		args = append(args, "--insecure", "--insecure-pull")
	}
	for name, value := range b.Args {
		args = append(args, "--build-arg="+name+"="+value)
	}
	slices.Sort(args)
	parsed, err := template.New("job").Parse(jobTemplate)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = parsed.Execute(&out, map[string]any{
		"Namespace": plan.DevNamespace, "Job": job, "Image": builder, "Args": args,
		"DockerConfig": base64.StdEncoding.EncodeToString(b.DockerConfig),
		"CA":           base64.StdEncoding.EncodeToString(b.CA),
	})
	return out.String(), err
}

func (b Builder) runJob(ctx context.Context, job, manifest, log string) error {
	const namespace = plan.DevNamespace
	if _, err := b.Kubectl.Run(ctx, "-n", namespace, "delete", "job", job, "--ignore-not-found", "--wait"); err != nil {
		return err
	}
	if err := b.Kubectl.Apply(ctx, manifest); err != nil {
		return err
	}
	failure := b.awaitJob(ctx, job)
	logs, err := b.Kubectl.Run(ctx, "-n", namespace, "logs", "job/"+job, "--tail=-1")
	if err != nil {
		logs += err.Error()
	}
	if failure != nil {
		events, _ := b.Kubectl.Run(ctx, "-n", namespace, "get", "events", "--sort-by=.lastTimestamp")
		logs = events + "\n" + logs
	}
	if err := os.WriteFile(log, []byte(logs), 0o644); err != nil {
		return err
	}
	if failure != nil {
		return failure
	}
	_, err = b.Kubectl.Run(ctx, "-n", namespace, "delete", "job", job, "--wait=false")
	return err
}

func (b Builder) awaitJob(ctx context.Context, job string) error {
	const path = `{range .status.conditions[?(@.status=="True")]}{.type} {end}`
	for deadline := time.Now().Add(buildTimeout); time.Now().Before(deadline); {
		conditions, err := b.Kubectl.Run(ctx, "-n", plan.DevNamespace, "get", "job", job, "-o", "jsonpath="+path)
		if err != nil {
			return err
		}
		for condition := range strings.FieldsSeq(conditions) {
			switch condition {
			case "Complete":
				return nil
			case "Failed":
				return fmt.Errorf("the build Job %s/%s failed", plan.DevNamespace, job)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(poll):
		}
	}
	return errors.New("the build Job takes too long")
}
