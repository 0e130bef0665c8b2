package route

import "strings"

// publicPrefix begins every public path.
const publicPrefix = "/fn/"

// reserved is the part of a function's path space that belongs to the platform.
const reserved = "/_sless"

// Path is a request's path taken apart. All of its strings are parts of the raw path: nothing is decoded or cleaned.
type Path struct {
	// Key is namespace/function.
	Key string
	// Prefix is /fn/namespace/function.
	Prefix string
	// Rest is what the function sees; at least a slash.
	Rest string
}

// RawPath returns the path of a request target as it was sent, without the query. A target in absolute form loses its scheme and
// authority; one that is no path (* or an authority) is returned as it is, and matches no route.
func RawPath(target string) string {
	if i := strings.IndexByte(target, '?'); i >= 0 {
		target = target[:i]
	}
	if strings.HasPrefix(target, "/") {
		return target
	}
	scheme := strings.Index(target, "://")
	if scheme < 0 {
		return target
	}
	target = target[scheme+3:]
	slash := strings.IndexByte(target, '/')
	if slash < 0 {
		return "/"
	}
	return target[slash:]
}

// ParsePath takes a raw path of the form /fn/{namespace}/{function}[/rest…] apart; ok is false for any other.
//
// Names are compared as they were sent: an encoded letter in one of them matches no route, so that there is one spelling of every
// address.
func ParsePath(raw string) (path Path, ok bool) {
	names, found := strings.CutPrefix(raw, publicPrefix)
	if !found {
		return Path{}, false
	}
	slash := strings.IndexByte(names, '/')
	if slash <= 0 {
		return Path{}, false
	}
	function := names[slash+1:]
	end := strings.IndexByte(function, '/')
	if end < 0 {
		end = len(function)
	}
	if end == 0 {
		return Path{}, false
	}
	key := names[:slash+1+end]
	path = Path{Key: key, Prefix: raw[:len(publicPrefix)+len(key)], Rest: function[end:]}
	if path.Rest == "" {
		path.Rest = "/"
	}
	return path, true
}

// IsReserved says whether a function's path is one that only the platform may call. Runtimes match the raw path, so only the literal
// prefix counts: /%5fsless/ is an ordinary path of the function.
func IsReserved(rest string) bool {
	after, found := strings.CutPrefix(rest, reserved)
	return found && (after == "" || after[0] == '/')
}
