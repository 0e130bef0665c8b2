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
