package main

import (
	"os"
	"testing"
)

// TestQuicken holds that the SDK's trace is off exactly when nobody has asked for a log.
func TestQuicken(t *testing.T) {
	for name, test := range map[string]struct {
		set  map[string]string
		want string
	}{
		"nobody asks":       {nil, "off"},
		"all logs":          {map[string]string{"TF_LOG": "DEBUG"}, ""},
		"the provider's":    {map[string]string{"TF_LOG_PROVIDER": "TRACE"}, ""},
		"the SDK's, itself": {map[string]string{"TF_LOG_SDK_PROTO": "TRACE"}, "TRACE"},
	} {
		for _, variable := range []string{"TF_LOG", "TF_LOG_PROVIDER", "TF_LOG_SDK", "TF_LOG_SDK_FRAMEWORK", "TF_LOG_SDK_PROTO"} {
			t.Setenv(variable, "") // so that it is put back
			os.Unsetenv(variable)
		}
		for variable, value := range test.set {
			os.Setenv(variable, value)
		}
		if quicken(); os.Getenv("TF_LOG_SDK_PROTO") != test.want {
			t.Errorf("%s: TF_LOG_SDK_PROTO is %q, want %q", name, os.Getenv("TF_LOG_SDK_PROTO"), test.want)
		}
	}
}
