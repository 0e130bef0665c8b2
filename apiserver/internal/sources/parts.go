package sources

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"
)

const (
	// partSize is how much of an upload is in memory, a few times over; S3 takes no smaller parts.
	partSize = 5 << 20
	// partsAtOnce is how many parts of an upload are on their way together.
	partsAtOnce = 3
)

// putParts stores a body in parts, of which the next comes in while others go out. A single request is not good enough: some stores keep what
// they got of one that broke off. When it fails nothing is left, because no part is cut off on its way: S3 lets a store keep one that it still
// takes in while the upload is aborted, and minio-go's PutObject cuts them off as soon as the body fails.
func (s *Store) putParts(ctx context.Context, key string, body io.Reader) error {
	core := minio.Core{Client: s.client}
	id, err := core.NewMultipartUpload(ctx, s.bucket, key, minio.PutObjectOptions{
		ContentType: archiveType, UserMetadata: map[string]string{"X-Amz-Checksum-Algorithm": minio.ChecksumCRC32C.String()},
	})
	if err != nil {
		return err
	}
	parts, err := s.sendParts(ctx, key, id, body)
	if err == nil {
		_, err = core.CompleteMultipartUpload(ctx, s.bucket, key, id, parts, minio.PutObjectOptions{})
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(ctx, storeTimeout)
		defer cancel()
		_ = core.AbortMultipartUpload(ctx, s.bucket, key, id) // the collector does it later
	}
	return err
}

// sendParts sends a body's parts, and waits for those that are under way however it ends.
func (s *Store) sendParts(ctx context.Context, key, id string, body io.Reader) ([]minio.CompletePart, error) {
	sending, well := errgroup.WithContext(ctx)
	buffers := make(chan []byte, partsAtOnce)
	for range partsAtOnce {
		buffers <- make([]byte, partSize)
	}
	var sent []*minio.CompletePart
	var broken error
	for well.Err() == nil && broken == nil {
		buffer := <-buffers
		n, err := io.ReadFull(body, buffer)
		if errors.Is(err, io.ErrUnexpectedEOF) { // by ReadFull for a last part, or by a body that broke off
			_, err = body.Read(make([]byte, 1))
		}
		if broken = err; n == 0 || err != nil && !errors.Is(err, io.EOF) {
			break
		}
		part := &minio.CompletePart{PartNumber: len(sent) + 1}
		sent = append(sent, part)
		sending.Go(func() error {
			defer func() { buffers <- buffer }()
			return s.sendPart(ctx, key, id, part, buffer[:n])
		})
	}
	if err := sending.Wait(); err != nil {
		return nil, err
	}
	if !errors.Is(broken, io.EOF) {
		return nil, broken
	}
	parts := make([]minio.CompletePart, len(sent))
	for i, part := range sent {
		parts[i] = *part
	}
	return parts, nil
}

// sendPart sends one part with its checksum, which the store compares, and notes what the store calls it.
func (s *Store) sendPart(ctx context.Context, key, id string, part *minio.CompletePart, data []byte) error {
	hash := minio.ChecksumCRC32C.Hasher()
	_, _ = hash.Write(data) // it never fails
	part.ChecksumCRC32C = base64.StdEncoding.EncodeToString(hash.Sum(nil))
	stored, err := minio.Core{Client: s.client}.PutObjectPart(ctx, s.bucket, key, id, part.PartNumber, bytes.NewReader(data), int64(len(data)), minio.PutObjectPartOptions{
		CustomHeader: http.Header{http.CanonicalHeaderKey(minio.ChecksumCRC32C.Key()): {part.ChecksumCRC32C}}, DisableContentSha256: true,
	})
	part.ETag = stored.ETag
	return err
}
