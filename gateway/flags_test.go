package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFlags(t *testing.T) {
	o, err := parse([]string{"-trusted-proxies", "10.1.2.3/8, fd00::/8", "-access-log", "errors"})
	if err != nil {
		t.Fatal(err)
	}
	if got := o.trustedProxies.String(); got != "10.0.0.0/8,fd00::/8" {
		t.Errorf("trusted proxies %s", got)
	}
}

// Every setting that is wrong is named.
func TestFlagsNameWhatIsWrong(t *testing.T) {
	for args, want := range map[string]string{
		"argument":                        `unexpected argument "argument"`,
		"-unknown":                        "-unknown",
		"-config absent":                  "configuration absent: open absent",
		"-domain https://a.example.org":   "domain is",
		"-tls-cert-file a":                "-tls-cert-file and -tls-key-file go together",
		"-trusted-proxies 10.0.0.1":       `"10.0.0.1" is no address range`,
		"-access-log some":                "-access-log is",
		"-max-body-bytes 0":               "-max-body-bytes",
		"-max-header-bytes 0":             "-max-header-bytes",
		"-max-waiting -1":                 "-max-waiting",
		"-max-waiting-total -1":           "-max-waiting-total",
		"-header-timeout 0s":              "-header-timeout must be greater than 0",
		"-body-timeout 0s":                "-body-timeout must be greater than 0",
		"-idle-timeout 0s":                "-idle-timeout must be greater than 0",
		"-wait-timeout 0s":                "-wait-timeout must be greater than 0",
		"-drain-timeout 0s":               "-drain-timeout must be greater than 0",
		"-drain-delay soon":               "-drain-delay",
		"-kubeconfig absent -config none": "configuration none",
	} {
		if _, err := parse(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
}

// The domain is the one of the file that the operator makes Ingresses by, unless the command line has another.
func TestDomainOfTheConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	for _, test := range []struct{ text, flag, want, problem string }{
		{"domain: a.example.org\nregistry: {host: r}", "", "a.example.org", ""},
		{"domain: a.example.org", "b.example.org", "b.example.org", ""},
		{"externalURL: https://a.example.org", "", "", ""},
		{"domain: https://a.example.org", "", "", "domain is"},
		{"domain: [a.example.org]", "", "", "domain"},
	} {
		if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		o, err := parse([]string{"-config", file, "-domain", test.flag})
		switch {
		case test.problem != "":
			if err == nil || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%s: got %v, want %q", test.text, err, test.problem)
			}
		case err != nil:
			t.Errorf("%s: %v", test.text, err)
		case o.domain != test.want:
			t.Errorf("%s and flag %q: domain %q, want %q", test.text, test.flag, o.domain, test.want)
		}
	}
}
