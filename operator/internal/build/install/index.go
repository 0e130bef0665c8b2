package install

import (
	"cmp"
	"encoding/base64"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Index is a tenant's own settings and credentials for package indexes: files by the names in IndexFiles.
type Index map[string][]byte

// The files of an Index.
const (
	pipConf = "pip.conf"
	netrc   = "netrc"
	npmrc   = "npmrc"
)

// IndexFiles are the names that files of an Index have.
var IndexFiles = []string{netrc, npmrc, pipConf}

const (
	indexVolume = "index"
	indexPath   = "/etc/sless-index"
	// secretsFile is a key of the Job's Secret: what of the Index is secret, one value on a line.
	secretsFile = "secrets"
	// shortestSecret is the shortest value that is hidden: less is no secret, and would hide half the log.
	shortestSecret = 4
)

// buildIndexVolume shows the install step the Index, which the Job's Secret has beside other keys.
func buildIndexVolume(spec Spec) corev1.Volume {
	items := []corev1.KeyToPath{{Key: secretsFile, Path: secretsFile}}
	for _, name := range slices.Sorted(maps.Keys(spec.Index)) {
		items = append(items, corev1.KeyToPath{Key: name, Path: name})
	}
	return corev1.Volume{Name: indexVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: JobName(spec.Key), Items: items}}}
}

// env names the files to pip and npm.
func (x Index) env() []corev1.EnvVar {
	variables := []corev1.EnvVar{{Name: "SLESS_SECRETS_FILE", Value: indexPath + "/" + secretsFile}}
	for _, named := range [][2]string{{netrc, "NETRC"}, {npmrc, "NPM_CONFIG_USERCONFIG"}, {pipConf, "PIP_CONFIG_FILE"}} {
		if _, ok := x[named[0]]; ok {
			variables = append(variables, corev1.EnvVar{Name: named[1], Value: indexPath + "/" + named[0]})
		}
	}
	return variables
}

var (
	pipIndex    = regexp.MustCompile(`(?mi)^\s*index[-_]url\s*[=:]`)
	npmRegistry = regexp.MustCompile(`(?m)^\s*registry\s*=`)
)

// ownIndex and ownRegistry say whether the tenant names an index of its own. The platform's would win, for it comes as a variable.
func (x Index) ownIndex() bool    { return pipIndex.Match(x[pipConf]) }
func (x Index) ownRegistry() bool { return npmRegistry.Match(x[npmrc]) }

var (
	inAddress = regexp.MustCompile(`://([^/\s@'"]+)@`)
	npmSecret = regexp.MustCompile(`(?m)^\s*(?:\S*:)?(_authToken|_auth|_password)\s*=\s*(.*?)\s*$`)
)

// secrets returns the values that no log may have: passwords and tokens, in every form in which tools write them.
func (x Index) secrets() []string {
	found := map[string]bool{}
	note := func(user, password string) {
		for _, form := range []string{password, url.QueryEscape(password), url.PathEscape(password), base64.StdEncoding.EncodeToString([]byte(user + ":" + password)), base64.StdEncoding.EncodeToString([]byte(password))} {
			found[form] = len(password) >= shortestSecret
		}
	}
	for _, text := range x {
		for _, match := range inAddress.FindAllSubmatch(text, -1) {
			user, password, pair := strings.Cut(string(match[1]), ":")
			found[password] = len(password) >= shortestSecret
			if !pair { // a token alone
				user, password = "", user
			}
			note(unescape(user), unescape(password))
		}
	}
	for _, match := range npmSecret.FindAllSubmatch(x[npmrc], -1) {
		value := strings.Trim(string(match[2]), `"'`)
		note("", value)
		if decoded, err := base64.StdEncoding.DecodeString(value); err == nil && string(match[1]) != "_authToken" {
			user, password, pair := strings.Cut(string(decoded), ":")
			if !pair || string(match[1]) == "_password" {
				user, password = "", string(decoded)
			}
			note(user, password)
		}
	}
	for _, login := range netrcLogins(string(x[netrc])) {
		note(login.user, login.password)
		if slices.Contains([]string{"", "x-oauth-basic", "oauth2"}, login.password) { // then the user is the token
			note("", login.user)
		}
	}
	var values []string
	for value, secret := range found {
		if secret && value != "" && !strings.ContainsAny(value, "\r\n") {
			values = append(values, value)
		}
	}
	// The longest first: one may be a part of another.
	slices.SortFunc(values, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return values
}

type login struct{ user, password string }

func netrcLogins(text string) []login {
	var logins []login
	words := strings.Fields(text)
	for i := 0; i < len(words); i++ {
		next := ""
		if i+1 < len(words) {
			next = strings.Trim(words[i+1], `"`)
		}
		switch words[i] {
		case "machine", "default":
			logins = append(logins, login{})
		case "login", "password", "account":
			if len(logins) == 0 {
				logins = append(logins, login{})
			}
			last := &logins[len(logins)-1]
			if words[i] == "login" {
				last.user = next
			}
			if words[i] == "password" {
				last.password = next
			}
			i++
		}
	}
	return logins
}

func unescape(text string) string {
	if plain, err := url.PathUnescape(text); err == nil {
		return plain
	}
	return text
}
