package images

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// Cache keeps images in a folder by the hash of what they are made from.
type Cache struct{ Dir string }

// Get gives the image kept under the key, making and keeping it first if need be.
func (c Cache) Get(key string, make func() (v1.Image, error)) (v1.Image, error) {
	dir := filepath.Join(c.Dir, key)
	if image, err := load(dir); err == nil {
		now := time.Now()
		return image, os.Chtimes(dir, now, now) // in use: not the first to go
	}
	image, err := make()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, err
	}
	aside, err := os.MkdirTemp(c.Dir, ".new-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(aside)
	written, err := layout.Write(aside, empty.Index)
	if err != nil {
		return nil, err
	}
	if err := written.AppendImage(image); err != nil {
		return nil, fmt.Errorf("keep image %s: %w", key, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.Rename(aside, dir); err != nil {
		return nil, err
	}
	return load(dir)
}

// Has tells whether the key's image is kept.
func (c Cache) Has(key string) bool {
	_, err := load(filepath.Join(c.Dir, key))
	return err == nil
}

// kept is how many states of one image stay in the cache.
const kept = 3

// prune removes all but the newest images kept under the name; its keys are the name, a dash and 16 hexadecimal digits.
func (c Cache) prune(name string) {
	const hash = "-????????????????"
	dirs, _ := filepath.Glob(filepath.Join(c.Dir, name+hash))
	age := func(dir string) time.Time {
		info, err := os.Stat(dir)
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	slices.SortFunc(dirs, func(a, b string) int { return age(b).Compare(age(a)) })
	for i, dir := range dirs {
		if i >= kept {
			_ = os.RemoveAll(dir)
		}
	}
}

func load(dir string) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, errors.New("not one image in " + dir)
	}
	return index.Image(manifest.Manifests[0].Digest)
}
