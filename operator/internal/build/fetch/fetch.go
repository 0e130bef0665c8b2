// Package fetch is the step of a build Job that brings the files of a source into a volume.
package fetch

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"github.com/naeel/sless/operator/internal/build/dial"
)

const (
	attempts = 5
	// attemptFor is how long one attempt may take.
	attemptFor = 10 * time.Minute
)

// Usage is what Run's arguments mean.
const Usage = "fetch ADDRESS-FILE SHA256 FOLDER [CA-FILE]"

// Run unpacks into FOLDER the tar.gz at the address that ADDRESS-FILE has. The address has a signature in it, so no message repeats it.
// The result is the exit code of a process.
func Run(args []string, messages io.Writer) int {
	if len(args) < 3 || len(args) > 4 {
		fmt.Fprintln(messages, "usage: operator "+Usage)
		return 2
	}
	caFile := ""
	if len(args) == 4 {
		caFile = args[3]
	}
	for n := 1; ; n++ {
		err := fetch(args[0], args[1], args[2], caFile)
		if err == nil {
			return 0
		}
		fmt.Fprintf(messages, "sless fetch: %v\n", err)
		if n == attempts {
			return 1
		}
		time.Sleep(time.Duration(n) * time.Second)
	}
}

func fetch(addressFile, want, folder, caFile string) error {
	address, err := os.ReadFile(addressFile)
	if err != nil {
		return err
	}
	transport, err := dial.Trusted(caFile)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), attemptFor)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSpace(string(address)), nil)
	if err != nil {
		return errors.New("the address of the build's files is no URL")
	}
	response, err := transport.RoundTrip(request) // a redirection is not followed
	if err != nil {
		return fmt.Errorf("read the build's files from %s: %w", request.URL.Host, withoutURL(err))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("read the build's files from %s: status %d", request.URL.Host, response.StatusCode)
	}
	digest := sha256.New()
	body := io.TeeReader(response.Body, digest)
	if err := unpack(body, folder); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		return fmt.Errorf("read the build's files: %w", withoutURL(err))
	}
	if got := hex.EncodeToString(digest.Sum(nil)); got != want {
		return fmt.Errorf("the build's files have SHA-256 %s, not %s", got, want)
	}
	return nil
}

// withoutURL leaves out of an error the address that was asked.
func withoutURL(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	return err
}

// unpack replaces what is in the folder. The tar was written by the operator, but nothing outside the folder is opened whatever it is.
func unpack(compressed io.Reader, folder string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := root.RemoveAll(e.Name()); err != nil {
			return err
		}
	}
	plain, err := gzip.NewReader(compressed)
	if err != nil {
		return fmt.Errorf("unpack the build's files: %w", err)
	}
	for reader := tar.NewReader(plain); ; {
		header, err := reader.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = write(root, header, reader)
		}
		if err != nil {
			return fmt.Errorf("unpack the build's files: %w", err)
		}
	}
}

func write(root *os.Root, header *tar.Header, content io.Reader) error {
	name, mode := path.Clean(header.Name), header.FileInfo().Mode().Perm()
	switch header.Typeflag {
	case tar.TypeDir:
		if err := root.Mkdir(name, mode); err != nil {
			return err
		}
		return root.Chmod(name, mode) // whatever the umask
	case tar.TypeSymlink:
		return root.Symlink(header.Linkname, name)
	case tar.TypeReg:
		return writeFile(root, name, mode, header.ModTime, content)
	}
	return fmt.Errorf("%q is neither file, folder nor symbolic link", header.Name)
}

func writeFile(root *os.Root, name string, mode fs.FileMode, modified time.Time, content io.Reader) error {
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := root.Chmod(name, mode); err != nil {
		return err
	}
	return root.Chtimes(name, modified, modified)
}
