// Package source fetches code from where a tenant keeps it into files on disk: archives from an object store or an address, and trees
// of Git repositories.
package source

import (
	"github.com/naeel/sless/operator/internal/build/dial"
	"github.com/naeel/sless/operator/internal/config"
)

// Sources fetches from every kind of place.
type Sources struct {
	S3   *S3
	HTTP *HTTP
	Git  *Git
}

// New returns the Sources of a platform.
func New(cfg config.Config, guard *dial.Guard) (*Sources, error) {
	files := spool{dir: cfg.Build.SpoolDir, maxBytes: cfg.Build.MaxArchiveBytes}
	objects, err := newS3(cfg.ObjectStore, guard, files)
	if err != nil {
		return nil, err
	}
	// A pack has folders as well as files, and commits where the one that is wanted must be looked for.
	const objectsPerFile = 5
	trees := newGit(guard, cfg.Build.SpoolDir, gitLimits{
		network: cfg.Build.MaxArchiveBytes, objects: objectsPerFile * cfg.Build.MaxFiles, unpacked: cfg.Build.MaxUnpackedBytes,
	})
	return &Sources{S3: objects, HTTP: newHTTP(guard, files), Git: trees}, nil
}
