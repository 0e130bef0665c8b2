package sources

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

// References says which keys, as Functions name them, each tenant's functions name now.
type References func(context.Context) (map[string]map[string]bool, error)

// Collect removes archives that are older than the store's time to live and that no function names, and what is left of uploads that did
// not end. Replicas may do it at the same time.
func (s *Store) Collect(ctx context.Context, references References) (removed int, err error) {
	old, err := s.old(ctx)
	if err != nil {
		return 0, err
	}
	// Asked after the listing: what was named meanwhile is kept.
	named, err := references(ctx)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, key := range old {
		tenant, rest, _ := strings.Cut(strings.TrimPrefix(key, root), "/")
		if named[tenant][rest] {
			continue
		}
		// Uploaded once more since the listing, it is young.
		if info, err := s.stat(ctx, key); err != nil || time.Since(info.LastModified) < s.ttl {
			if err != nil && !isAbsent(err) {
				errs = append(errs, err)
			}
			continue
		}
		if err := s.remove(ctx, key); err != nil {
			errs = append(errs, err)
			continue
		}
		removed++
	}
	return removed, errors.Join(append(errs, s.abort(ctx))...)
}

// old lists the objects that uploads have made and that are old enough to go.
func (s *Store) old(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // or an early return would leave the listing running
	var old []string
	for found := range s.client.ListObjects(ctx, s.bucket, minio.ListObjectsOptions{Prefix: root, Recursive: true}) {
		if found.Err != nil {
			return nil, fmt.Errorf("list archives: %w", found.Err)
		}
		_, rest, _ := strings.Cut(strings.TrimPrefix(found.Key, root), "/")
		ours := strings.HasPrefix(rest, keyPrefix) || strings.HasPrefix(rest, uploadPrefix)
		if ours && time.Since(found.LastModified) > s.ttl {
			old = append(old, found.Key)
		}
	}
	return old, nil
}

// abort ends uploads in parts that nobody goes on with.
func (s *Store) abort(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var errs []error
	for found := range s.client.ListIncompleteUploads(ctx, s.bucket, root, true) {
		if code := minio.ToErrorResponse(found.Err).Code; code == minio.NoSuchUpload || code == minio.NotImplemented {
			continue // how some stores say that there are none
		}
		if found.Err != nil {
			return errors.Join(append(errs, fmt.Errorf("list uploads: %w", found.Err))...)
		}
		if time.Since(found.Initiated) > s.ttl {
			errs = append(errs, s.client.RemoveIncompleteUpload(ctx, s.bucket, found.Key))
		}
	}
	return errors.Join(errs...)
}
