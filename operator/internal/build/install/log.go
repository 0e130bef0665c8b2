package install

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	tailLines = 40
	// tailBytes is the most of a log that goes into a status.
	tailBytes = 8 << 10
	// cutMark is the first line of a tail that is not the whole log.
	cutMark = "[what came before is left out]\n"
	// readBytes is the most that is read to find that.
	readBytes = 256 << 10
)

// logTail returns the end of a container's log without secrets, or the container's last message when there is no log any more.
func (r *Runner) logTail(ctx context.Context, pod *corev1.Pod, container string) string {
	if pod == nil {
		return ""
	}
	options := &corev1.PodLogOptions{Container: container, TailLines: new(int64(tailLines + 1)), LimitBytes: new(int64(readBytes))}
	stream, err := r.client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	if err != nil {
		return ""
	}
	defer stream.Close()
	text, _ := io.ReadAll(io.LimitReader(stream, readBytes)) // half a log is better than none
	if len(text) == readBytes {
		text = text[:bytes.LastIndexByte(text, '\n')+1] // half a secret would not be known
	}
	secrets, err := r.secrets(ctx, pod)
	if err != nil {
		return "(the log is not shown: the values that it must not have can't be read)"
	}
	return Tail(string(text), secrets...)
}

// secrets returns the tenant's own secrets that the pod was given.
func (r *Runner) secrets(ctx context.Context, pod *corev1.Pod) ([]string, error) {
	for _, volume := range pod.Spec.Volumes {
		if volume.Name != indexVolume {
			continue
		}
		given, err := r.client.CoreV1().Secrets(pod.Namespace).Get(ctx, volume.Secret.SecretName, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return strings.Split(string(given.Data[secretsFile]), "\n"), nil
	}
	return nil, nil
}

var secretPatterns = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s@'"]+@`), `${1}***@`},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}`), `${1} ***`},
	{regexp.MustCompile(`(?i)([a-z0-9_.-]*(?:token|passw(?:or)?d|secret|api_?key|access_?key|credentials?|_auth)s?(?:_[a-z0-9_]*)?["']?\s*[=:]\s*["']?)[^\s"',;&=][^\s"',;&]*`), `${1}***`},
	{regexp.MustCompile(`\b(npm_[A-Za-z0-9]{4}|pypi-|ghp_|glpat-|AKIA)[A-Za-z0-9-]{16,}`), `${1}***`},
}

var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[a-zA-Z]`)

// Tail returns the last lines of a log as a status may have them: at most 8 KiB, with a mark when there is more, no terminal codes, none of
// the secrets, the longest of which come first, and nothing that looks like one.
func Tail(text string, secrets ...string) string {
	text = escapes.ReplaceAllString(strings.ToValidUTF8(text, "�"), "")
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	for _, secret := range secretPatterns {
		text = secret.pattern.ReplaceAllString(text, secret.with)
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	tail := strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
	if len(lines) <= tailLines && len(tail) <= tailBytes {
		return tail
	}
	if most := tailBytes - len(cutMark); len(tail) > most {
		tail = strings.ToValidUTF8(tail[len(tail)-most:], "")
	}
	return cutMark + tail
}
