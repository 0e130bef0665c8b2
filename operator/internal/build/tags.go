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

// Tags of a tenant's repository. A function may be called "deps" or "src", and one function's name may begin with another's: the
// length of the key, which has no hyphen, tells them apart.
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
	return names.Hash(keyVersion, request.NamespaceUID, request.Runtime.Image, scope, hex.EncodeToString(digest.Sum(nil)), cfg.PipIndexURL, cfg.NPMRegistry)[:dependencyKeyLen], nil
}

// functionTag is the tag of a function's image. dependencies is the key of its dependency image, if it has one.
func functionTag(request Request, dependencies, sourceDigest string) string {
	key := names.Hash(keyVersion, request.NamespaceUID, request.Runtime.Image, dependencies, sourceDigest)[:buildKeyLen]
	return request.Owner.Name + "-" + key
}

// tagOf says whether a tag is that of an image of the function.
func tagOf(tag, function string) bool {
	key, found := strings.CutPrefix(tag, function+"-")
	return found && isKey(key, buildKeyLen)
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
