// Package images makes container images out of files, without a daemon, and keeps and pushes them.
package images

import (
	"archive/tar"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/compression"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// caBundle is where programs and people on this machine find the authorities it trusts.
const caBundle = "/etc/ssl/certs/ca-certificates.crt"

// File is one file of an image; exactly one of Data, Source and Link is set, or none for a folder.
type File struct {
	Path   string // absolute, in the image
	Data   []byte
	Source string // a file on this machine
	Link   string // target of a symbolic link
	Mode   int64  // 0: 0644, for a folder 0755
}

// CABundle puts this machine's certificate authorities at the place where programs look for them.
func CABundle() File { return File{Path: caBundle, Source: caBundle} }

// Program is an image of nothing but one static program and the certificate authorities.
func Program(source, target string, more ...File) (v1.Image, error) {
	files := append([]File{{Path: target, Source: source, Mode: 0o755}, CABundle()}, more...)
	return FromFiles(files, v1.Config{Entrypoint: []string{target}})
}

// FromFiles makes an image of one layer that depends on the files alone: the same files give the same digest.
func FromFiles(files []File, config v1.Config) (v1.Image, error) {
	layer, err := layerOf(func(w io.Writer) error { return writeFiles(w, files) })
	if err != nil {
		return nil, err
	}
	return FromLayer(layer, config)
}

// FromTar makes an image of one layer out of a tar file.
func FromTar(file string, config v1.Config) (v1.Image, error) {
	layer, err := tarball.LayerFromFile(file, tarball.WithCompression(compression.GZip), tarball.WithCompressionLevel(fastGzip),
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	return FromLayer(layer, config)
}

// fastGzip: the images go no further than this machine, time matters more than size.
const fastGzip = 1

// FromLayer makes an image of one layer.
func FromLayer(layer v1.Layer, config v1.Config) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.ConfigFile(base, &v1.ConfigFile{
		Architecture: runtime.GOARCH,
		OS:           "linux",
		Config:       config,
		RootFS:       v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(image, layer)
}

// AddFiles puts a layer of files on top of an image.
func AddFiles(image v1.Image, files []File) (v1.Image, error) {
	layer, err := layerOf(func(w io.Writer) error { return writeFiles(w, files) })
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(image, layer)
}

func layerOf(write func(io.Writer) error) (v1.Layer, error) {
	open := func() (io.ReadCloser, error) {
		reader, writer := io.Pipe()
		go func() { writer.CloseWithError(write(writer)) }()
		return reader, nil
	}
	return tarball.LayerFromOpener(open, tarball.WithCompressionLevel(fastGzip), tarball.WithMediaType(types.OCILayer))
}

func writeFiles(w io.Writer, files []File) error {
	out := tar.NewWriter(w)
	folders := map[string]bool{"/": true}
	for _, file := range files {
		if err := writeFolders(out, folders, path.Dir(file.Path)); err != nil {
			return err
		}
		if err := writeFile(out, file); err != nil {
			return fmt.Errorf("add %s: %w", file.Path, err)
		}
	}
	return out.Close()
}

func writeFolders(out *tar.Writer, done map[string]bool, dir string) error {
	if done[dir] {
		return nil
	}
	if err := writeFolders(out, done, path.Dir(dir)); err != nil {
		return err
	}
	done[dir] = true
	return out.WriteHeader(header(dir[1:]+"/", tar.TypeDir, 0o755, 0))
}

func writeFile(out *tar.Writer, file File) error {
	inImage := file.Path[1:]
	mode := file.Mode
	switch {
	case file.Link != "":
		head := header(inImage, tar.TypeSymlink, 0o777, 0)
		head.Linkname = file.Link
		return out.WriteHeader(head)
	case file.Source != "":
		source, err := os.Open(file.Source)
		if err != nil {
			return err
		}
		defer source.Close()
		info, err := source.Stat()
		if err != nil {
			return err
		}
		if err := out.WriteHeader(header(inImage, tar.TypeReg, or(mode, 0o644), info.Size())); err != nil {
			return err
		}
		_, err = io.Copy(out, source)
		return err
	case file.Data != nil:
		if err := out.WriteHeader(header(inImage, tar.TypeReg, or(mode, 0o644), int64(len(file.Data)))); err != nil {
			return err
		}
		_, err := out.Write(file.Data)
		return err
	default:
		return out.WriteHeader(header(inImage+"/", tar.TypeDir, or(mode, 0o755), 0))
	}
}

// epoch is the time of every file: a real one would change the digest.
var epoch = time.Unix(0, 0)

func header(name string, kind byte, mode, size int64) *tar.Header {
	return &tar.Header{Name: name, Typeflag: kind, Mode: mode, Size: size, ModTime: epoch, Format: tar.FormatPAX}
}

func or(mode, fallback int64) int64 {
	if mode == 0 {
		return fallback
	}
	return mode
}

// WriteTar writes an image to a file that containerd can import under the given name.
func WriteTar(file, imageName string, image v1.Image) error {
	tag, err := name.NewTag(imageName)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(file, tag, image)
}
