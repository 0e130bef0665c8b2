// Command docs writes the provider's reference pages, one for each thing that the schema has, and puts the examples in. Run it in
// the provider's folder:
//
//	go run ./internal/docs
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("out", "docs", "folder to write to")
	examples := flag.String("examples", "examples", "folder with the examples")
	flag.Parse()
	made, err := pages(context.Background(), *examples)
	if err != nil {
		log.Fatal(err)
	}
	for name, text := range made {
		name = filepath.Join(*out, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
