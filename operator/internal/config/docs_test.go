package config

import (
	"os"
	"strings"
	"testing"
)

// TestFileOfTheInstall holds that config/default/config.yaml asks for what is missing and for nothing else.
func TestFileOfTheInstall(t *testing.T) {
	text, err := os.ReadFile("../../../config/default/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Parse(text)
	if err == nil {
		t.Fatal("the file is accepted as it is")
	}
	for problem := range strings.Lines(err.Error()) {
		if !strings.Contains(problem, "is required") && !strings.HasPrefix(problem, "runtimes[") {
			t.Errorf("the file is wrong: %s", problem)
		}
	}
	config, err := Parse([]byte(strings.NewReplacer(`externalURL: ""`, `externalURL: "https://functions.example.org"`, `host: ""`, `host: "registry.example.org"`,
		`endpoint: ""`, `endpoint: "https://s3.example.org"`, `bucket: ""`, `bucket: "sless"`, `mage: ""`, `mage: "registry.example.org/i@sha256:0"`).Replace(string(text))))
	if err != nil {
		t.Fatal(err)
	}
	if len(config.Runtimes) != 2 {
		t.Errorf("got the runtimes %s", config.RuntimeNames())
	}
}

// The configuration that the README writes is one that the operator takes.
func TestConfigurationOfTheREADME(t *testing.T) {
	page, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(page), "production/config.yaml <<EOF\n")
	text, _, _ := strings.Cut(after, "\nEOF\n")
	if !found {
		t.Fatal("README.md writes no production/config.yaml")
	}
	text = os.Expand(text, func(name string) string {
		switch {
		case name == "REGISTRY_INSECURE":
			return "false"
		case strings.HasSuffix(name, "_IMAGE"):
			return "registry.example.org/sless/image@sha256:" + strings.Repeat("0", 64)
		case strings.HasSuffix(name, "_URL") || name == "S3_ENDPOINT":
			return "https://given.example.org"
		}
		return "given.example.org"
	})
	if _, err := Parse([]byte(text)); err != nil {
		t.Errorf("%v:\n%s", err, text)
	}
}
