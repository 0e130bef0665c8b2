package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// exportImages writes the images that were pushed into dist/images, from where one can push them to any registry under the same digests.
func exportImages(ctx context.Context, a *app) error {
	maker, err := a.imageMaker()
	if err != nil {
		return err
	}
	names := append([]string{"kaniko"}, programs...)
	for _, entry := range catalogue {
		names = append(names, "runtime-"+entry.runtime)
	}
	for _, name := range names {
		image, err := maker.registry.Pull(ctx, maker.store.Record.Image(name))
		if err != nil {
			return fmt.Errorf("pull %s: %w", name, err)
		}
		dir := filepath.Join(a.place.Repo, "dist", "images", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		written, err := layout.Write(dir, empty.Index)
		if err != nil {
			return err
		}
		if err := written.AppendImage(image); err != nil {
			return fmt.Errorf("write %s: %w", dir, err)
		}
		a.progress.Say("      %s", dir)
	}
	return nil
}
