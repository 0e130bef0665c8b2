package build

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/operator/internal/build/archive"
	"github.com/naeel/sless/operator/internal/build/layout"
	"github.com/naeel/sless/operator/internal/config"
)

// Tags of a tenant's repository: function-buildKey or function-buildKey-dependencyKey, deps-dependencyKey, src-dependencyKey. A function
// may be called "deps" or "src", and one function's name may begin with another's: the lengths of the keys, which have no hyphen, tell
// them apart.
const (
	dependencyPrefix = "deps-"
	installerPrefix  = "src-"
	dependencyKeyLen = 32
	buildKeyLen      = 20
	// keyVersion changes when sless makes another image of the same inputs.
	keyVersion = "1"
)

// dependencyKey stands for everything that decides about a dependency image.
func dependencyKey(request Request, manifest *layout.Manifest, manifests *archive.Tree, cfg config.Build) (string, error) {
	digest := sha256.New()
	if err := manifests.WriteTar(digest, ""); err != nil {
		return "", err
	}
	scope := "manifests"
	if manifest.AllCode {
		scope = "all code"
	}
	if manifest.Build {
		scope += " for " + request.Entrypoint // the Job looks for its file
	}
	return names.Hash(keyVersion, request.NamespaceUID, request.Runtime.Image, scope, hex.EncodeToString(digest.Sum(nil)), cfg.PipIndexURL, cfg.NPMRegistry)[:dependencyKeyLen], nil
}

// functionTag is the tag of a function's image. dependencies is the key of its dependency image, if it has one.
func functionTag(request Request, dependencies, sourceDigest string) string {
	key := names.Hash(keyVersion, request.NamespaceUID, request.Runtime.Image, dependencies, sourceDigest)[:buildKeyLen]
	if dependencies != "" {
		key += "-" + dependencies // so that the list of tags says which dependency images are needed
	}
	return request.Owner.Name + "-" + key
}

// tagOf says whether a tag is that of an image of the function.
func tagOf(tag, function string) bool {
	keys, found := strings.CutPrefix(tag, function+"-")
	key, dependencies, shared := strings.Cut(keys, "-")
	return found && isKey(key, buildKeyLen) && (!shared || isKey(dependencies, dependencyKeyLen))
}

// dependenciesOf returns the tag of the dependency image that the function's image of a tag was made on, and "" when it needs none.
func dependenciesOf(tag string) string {
	parts := strings.Split(tag, "-")
	if n := len(parts); n > 2 && isKey(parts[n-1], dependencyKeyLen) && isKey(parts[n-2], buildKeyLen) {
		return dependencyPrefix + parts[n-1]
	}
	return ""
}

// dependencyTag says whether a tag is that of a dependency image or of an install step's.
func dependencyTag(tag string) bool {
	for _, prefix := range []string{dependencyPrefix, installerPrefix} {
		if key, found := strings.CutPrefix(tag, prefix); found && isKey(key, dependencyKeyLen) {
			return true
		}
	}
	return false
}

func isKey(text string, length int) bool {
	return len(text) == length && strings.Trim(text, "0123456789abcdef") == ""
}
