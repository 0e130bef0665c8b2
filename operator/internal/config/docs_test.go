package config

import (
	"os"
	"strings"
	"testing"
)

// TestExampleOfTheInstallPage holds that the configuration which the page shows is one.
func TestExampleOfTheInstallPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```yaml\n# config.yaml\n")
	example, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("the page has no config.yaml")
	}
	config, err := Parse([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	if len(config.Runtimes) != 2 {
		t.Errorf("got the runtimes %s", config.RuntimeNames())
	}
}
