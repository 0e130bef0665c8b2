package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Entry is one pushed image.
type Entry struct {
	Image  string `json:"image"`  // by digest
	Inputs string `json:"inputs"` // hash of what it was made from
}

// Record is the file that says which images were pushed, by name.
type Record struct {
	path string

	mu      sync.Mutex // guards entries and the file
	entries map[string]Entry
}

// OpenRecord reads the file, which need not exist yet.
func OpenRecord(path string) (*Record, error) {
	r := &Record{path: path, entries: map[string]Entry{}}
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &r.entries); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return r, nil
}

// Image is the reference by digest of the named image, or empty.
func (r *Record) Image(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entries[name].Image
}

func (r *Record) entry(name string) (Entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	entry, ok := r.entries[name]
	return entry, ok
}

func (r *Record) set(name string, entry Entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries[name] = entry
	data, err := json.MarshalIndent(r.entries, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(r.path), 0o755); err != nil {
		return err
	}
	aside := r.path + ".new"
	if err := os.WriteFile(aside, append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(aside, r.path)
}

// Item is an image to have in the registry.
type Item struct {
	Name   string // in the record, the registry and the cache
	Tag    string
	Inputs string // hash of everything that Make depends on
	Make   func(ctx context.Context) (v1.Image, error)
}

// Key names this state of the image in the cache.
func (i Item) Key() string { return i.Name + "-" + i.Inputs }

// Store makes, keeps, pushes and records images.
type Store struct {
	Registry Registry
	Cache    Cache
	Record   *Record
}

// Current tells whether the registry has the item as its inputs are now.
func (s Store) Current(ctx context.Context, item Item) (bool, error) {
	entry, ok := s.Record.entry(item.Name)
	if !ok || entry.Inputs != item.Inputs {
		return false, nil
	}
	return s.Registry.Has(ctx, entry.Image)
}

// Ensure brings the item into the registry, from the cache if it was made before, and records it.
func (s Store) Ensure(ctx context.Context, item Item) error {
	image, err := s.Cache.Get(item.Key(), func() (v1.Image, error) { return item.Make(ctx) })
	if err != nil {
		return err
	}
	reference, err := s.Registry.Push(ctx, item.Name, item.Tag, image)
	if err != nil {
		return err
	}
	s.Cache.prune(item.Name)
	return s.Record.set(item.Name, Entry{Image: reference, Inputs: item.Inputs})
}
