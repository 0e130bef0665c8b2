package source

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/fault"
)

// spool is where archives are kept while they are read, and how large one may be.
type spool struct {
	dir      string
	maxBytes int64
}

var errTooLarge = errors.New("more bytes than are allowed")

// take writes a body of at most maxBytes to a file without a name, and returns it with its size and SHA-256. declared is the size that
// the sender names; it is not relied on.
func (s spool) take(body io.Reader, declared int64) (file *os.File, size int64, sum string, err error) {
	if declared > s.maxBytes {
		return nil, 0, "", errTooLarge
	}
	if file, err = Spool(s.dir); err != nil {
		return nil, 0, "", err
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	digest := sha256.New()
	size, err = io.Copy(io.MultiWriter(file, digest), io.LimitReader(body, s.maxBytes+1))
	if err != nil {
		return nil, 0, "", unlessDisk(err)
	}
	if size > s.maxBytes {
		return nil, 0, "", errTooLarge
	}
	return file, size, hex.EncodeToString(digest.Sum(nil)), nil
}

// unlessDisk tells the platform's own disk from what is wrong with the other side.
func unlessDisk(err error) error {
	if _, onDisk := errors.AsType[*os.PathError](err); onDisk {
		return fault.Transient(v1alpha1.ReasonBuildFailed, "the platform's disk for sources can't be written: %v", err)
	}
	return err
}

func (s spool) tooLarge(name string) error {
	return fault.Terminal(v1alpha1.ReasonSourceTooLarge, "%s is larger than %d bytes; leave out what the function does not need", name, s.maxBytes)
}

func otherBytes(name, sum, field, want string) error {
	return fault.Terminal(v1alpha1.ReasonSourceInvalid, "%s has SHA-256 %s, and %s says %s; upload the right archive, or correct the field", name, sum, field, want)
}

// Spool returns a new file below dir that has no name any more: closing it frees the disk, and so does the end of the process.
func Spool(dir string) (*os.File, error) {
	file, err := os.CreateTemp(dir, "sless-source-")
	if err != nil {
		return nil, unlessDisk(err)
	}
	if err := os.Remove(file.Name()); err != nil {
		file.Close()
		return nil, fmt.Errorf("unlink spool file: %w", err)
	}
	return file, nil
}
