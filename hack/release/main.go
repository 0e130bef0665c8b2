// Command release makes what a release ships.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/naeel/sless/hack/release/chart"
	"github.com/naeel/sless/hack/release/provider"
)

const usage = `usage: release chart ROOT FOLDER      write the Helm chart into FOLDER, from config in the repository ROOT
       release dist ROOT REGISTRY FOLDER
                                      add manifests, chart, Terraform provider, SBOMs and checksums to the images in FOLDER/images
`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 3 && args[0] == "chart" {
		return writeChart(args[1], args[2])
	}
	if len(args) == 4 && args[0] == "dist" {
		return writeDist(args[1], args[2], args[3], provider.Platforms)
	}
	return fmt.Errorf("unknown command\n%s", usage)
}

func writeChart(root, folder string) error {
	files, err := chart.Files(root)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
