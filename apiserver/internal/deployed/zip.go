package deployed

import (
	"archive/tar"
	"archive/zip"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// folder is where an image has the code; see runtimes/CONTRACT.md.
const folder = "function/code/"

// WriteZip writes the code as a zip archive, file by file: the same code always gives the same bytes. After an error, which may come when
// part of it has been written, the archive is not complete.
func (c *Code) WriteZip(w io.Writer) error {
	out := zip.NewWriter(w)
	// Speed before size: the caller waits.
	out.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestSpeed) })
	files := tar.NewReader(c.layer)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read code: %w", err)
		}
		path, inside := strings.CutPrefix(header.Name, folder)
		if !inside || path == "" {
			continue // a folder on the way there
		}
		if err := add(out, path, header, files); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	// What follows the last file is read too: only at its end is it known that the layer is what its digest says.
	if _, err := io.Copy(io.Discard, c.layer); err != nil {
		return fmt.Errorf("read code: %w", err)
	}
	return out.Close()
}

func add(out *zip.Writer, path string, from *tar.Header, content io.Reader) error {
	entry := &zip.FileHeader{Name: path, Method: zip.Deflate}
	switch from.Typeflag {
	case tar.TypeDir:
		entry.Method = zip.Store
		entry.SetMode(fs.ModeDir | 0o755)
	case tar.TypeSymlink:
		entry.Method = zip.Store
		entry.SetMode(fs.ModeSymlink | 0o777)
		content = strings.NewReader(from.Linkname)
	case tar.TypeReg:
		entry.SetMode(fs.FileMode(from.Mode).Perm())
	default:
		return nil // the builder makes none
	}
	writer, err := out.CreateHeader(entry)
	if err != nil || from.Typeflag == tar.TypeDir {
		return err
	}
	_, err = io.Copy(writer, content)
	return err
}
