package route

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParsePath(t *testing.T) {
	for raw, want := range map[string]Path{
		"/fn/ns/f":                  {"ns/f", "/fn/ns/f", "/"},
		"/fn/ns/f/":                 {"ns/f", "/fn/ns/f", "/"},
		"/fn/ns/f/x/y":              {"ns/f", "/fn/ns/f", "/x/y"},
		"/fn/ns/f//":                {"ns/f", "/fn/ns/f", "//"},
		"/fn/ns/f//x":               {"ns/f", "/fn/ns/f", "//x"},
		"/fn/ns/f/../../other/g":    {"ns/f", "/fn/ns/f", "/../../other/g"},
		"/fn/ns/f/a%2Fb%20c":        {"ns/f", "/fn/ns/f", "/a%2Fb%20c"},
		"/fn/ns/f/%5fsless/invoke":  {"ns/f", "/fn/ns/f", "/%5fsless/invoke"},
		"/fn/ns/f/_sless/invoke":    {"ns/f", "/fn/ns/f", "/_sless/invoke"},
		"/fn/ns/f%2Fx":              {"ns/f%2Fx", "/fn/ns/f%2Fx", "/"},
		"/fn/../f":                  {"../f", "/fn/../f", "/"},
		"/fn/ns/f/fn/ns/g":          {"ns/f", "/fn/ns/f", "/fn/ns/g"},
		"/fn/ns/f/http://x/y;z=|\"": {"ns/f", "/fn/ns/f", "/http://x/y;z=|\""},
	} {
		got, ok := ParsePath(raw)
		if diff := cmp.Diff(want, got); diff != "" || !ok {
			t.Errorf("ParsePath(%q) is %v (-want +got):\n%s", raw, ok, diff)
		}
	}
	for _, raw := range []string{"", "/", "*", "/fn", "/fn/", "/fn/ns", "/fn/ns/", "/fn//f", "/fn//", "/fn/ns//x", "//fn/ns/f", "/Fn/ns/f", "/%66n/ns/f", "/./fn/ns/f"} {
		if got, ok := ParsePath(raw); ok {
			t.Errorf("ParsePath(%q) matches as %v", raw, got)
		}
	}
}

func TestRawPath(t *testing.T) {
	for target, want := range map[string]string{
		"/a?b":                 "/a",
		"/a%2Fb/..//c?x=/?y":   "/a%2Fb/..//c",
		"http://h/a?b":         "/a",
		"http://h:80":          "/",
		"http://h?x":           "/",
		"*":                    "*",
		"example.org:443":      "example.org:443",
		"/fn/ns/f/http://h/x":  "/fn/ns/f/http://h/x",
		"/fn/ns/f?u=http://h/": "/fn/ns/f",
	} {
		if got := RawPath(target); got != want {
			t.Errorf("RawPath(%q) = %q, want %q", target, got, want)
		}
	}
}

func TestIsReserved(t *testing.T) {
	for rest, want := range map[string]bool{
		"/_sless":           true,
		"/_sless/":          true,
		"/_sless/invoke":    true,
		"/_sless//":         true,
		"/_sless/../x":      true,
		"/_slessx":          false,
		"/%5fsless/invoke":  false,
		"/%5Fsless/invoke":  false,
		"/_SLESS/invoke":    false,
		"//_sless/invoke":   false,
		"/./_sless/invoke":  false,
		"/x/../_sless/":     false,
		"/_sless%2Finvoke":  false,
		"/_sless\\invoke":   false,
		"/_sless;x/invoke":  false,
		"/\\_sless/invoke":  false,
		"/fn/ns/f/_sless/x": false,
	} {
		if got := IsReserved(rest); got != want {
			t.Errorf("IsReserved(%q) = %v", rest, got)
		}
	}
}

// FuzzParsePath holds that taking a path apart loses, adds and changes no byte, and that a request target which net/http accepts gives a
// path with no query.
func FuzzParsePath(f *testing.F) {
	for _, seed := range []string{"/fn/a/b", "/fn/a/b/", "/fn/a/b//../%2F?x=1", "http://h/fn/a/b/c", "*", "/fn/a/b/_sless/x", "/fn/a/b/%5fsless"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, target string) {
		raw := RawPath(target)
		if strings.Contains(raw, "?") && !strings.Contains(target, "://") {
			t.Fatalf("RawPath(%q) = %q has a query", target, raw)
		}
		path, ok := ParsePath(raw)
		if !ok {
			return
		}
		namespace, function, _ := strings.Cut(path.Key, "/")
		if namespace == "" || function == "" || strings.Contains(function, "/") || path.Prefix != "/fn/"+path.Key {
			t.Fatalf("ParsePath(%q) = %+v", raw, path)
		}
		if joined := path.Prefix + path.Rest; joined != raw && !(path.Rest == "/" && path.Prefix == raw) {
			t.Fatalf("ParsePath(%q) = %+v, joined %q", raw, path, joined)
		}
		if !strings.HasPrefix(path.Rest, "/") {
			t.Fatalf("rest %q of %q has no slash", path.Rest, raw)
		}
		// What a runtime would take for its own prefix must be what is kept out.
		taken := path.Rest == "/_sless" || strings.HasPrefix(path.Rest, "/_sless/")
		if IsReserved(path.Rest) != taken {
			t.Fatalf("IsReserved(%q) = %v", path.Rest, !taken)
		}
		if request, err := http.NewRequest(http.MethodGet, "http://pod"+path.Rest, nil); err == nil && request.URL.Host != "pod" {
			t.Fatalf("rest %q changes the host to %q", path.Rest, request.URL.Host)
		}
	})
}
