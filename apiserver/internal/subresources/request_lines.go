package subresources

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/naeel/sless/api/names"
)

// filter says by its beginning whether a line is wanted.
type filter func(line []byte) bool

// linesOf returns the filter for the lines of a request in a pod; nil for all of them, when none is asked for.
func linesOf(pod corev1.Pod, requestID string) filter {
	if requestID == "" {
		return nil
	}
	if pod.Labels[names.KindLabel] == "FunctionJob" {
		return func([]byte) bool { return true } // it is there for this run alone: why it could not even load is of interest too
	}
	// How the runtimes mark a line: see "The request's id" in runtimes/CONTRACT.md.
	text, json := []byte("["+requestID+"] "), []byte(`{"sless_request_id":"`+requestID+`",`)
	return func(line []byte) bool { return bytes.HasPrefix(line, text) || bytes.HasPrefix(line, json) }
}

var jobOrRun = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(-[0-9]{1,19})?$`)

// podsOfJob returns the pods of a job of the function, when the id is one of a job or of one of its runs.
func (r *reading) podsOfJob(ctx context.Context) ([]corev1.Pod, error) {
	id := r.options.RequestID
	if !jobOrRun.MatchString(id) {
		return nil, nil
	}
	job := names.JobUID(id)
	selector := labels.Set{names.KindLabel: "FunctionJob", names.NamespaceLabel: r.options.Namespace, names.UIDLabel: job}
	list, err := r.handlers.Kube.CoreV1().Pods(r.where.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String(), Limit: maxPods})
	if err != nil {
		return nil, fmt.Errorf("list pods of the job: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool {
		// Who may read the log of one function may not read that of all.
		return !hasEnv(pod, "SLESS_FUNCTION", r.options.Name) || (id != job && !hasEnv(pod, "SLESS_REQUEST_ID", id))
	}), nil
}

// hasEnv says whether a container of a pod has a variable with this value.
func hasEnv(pod corev1.Pod, name, value string) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(container corev1.Container) bool {
		return slices.Contains(container.Env, corev1.EnvVar{Name: name, Value: value})
	})
}

// hasStartedAgain says whether a pod has the log of an earlier start of its container.
func hasStartedAgain(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(status corev1.ContainerStatus) bool { return status.RestartCount > 0 })
}

// readPrevious writes what the container's start before this one has printed for the request, if that is still there.
func (r *reading) readPrevious(ctx context.Context, from source) {
	_ = r.copyWanted(ctx, from, &corev1.PodLogOptions{Container: from.container, Previous: true}, &last{most: int(r.options.Tail)}) // mostly it is gone
}

// readRequest writes the lines of a request: the last ones of those that are there, and then what comes.
func (r *reading) readRequest(ctx context.Context, from source, options *corev1.PodLogOptions) error {
	options.TailLines = nil // tail is of the lines that are wanted
	if r.options.Tail == 0 || !r.options.Follow {
		return r.copyWanted(ctx, from, options, &last{most: int(r.options.Tail)})
	}
	// Where the log that is there ends can't be seen in a log that is followed. So it is read once to its end, and then followed from the
	// time of its last line, which is asked for to the second and known to the nanosecond.
	kept, options := &last{most: int(r.options.Tail), since: &time.Time{}}, options.DeepCopy()
	options.Timestamps, options.Follow = true, false
	if err := r.copyWanted(ctx, from, options, kept); err != nil {
		return err
	}
	options.Follow = true
	if !kept.since.IsZero() {
		options.SinceSeconds, options.SinceTime = nil, &metav1.Time{Time: *kept.since}
	}
	return r.copyWanted(ctx, from, options, &last{since: kept.since})
}

// copyWanted writes the lines of a log that are wanted, the last ones of them.
func (r *reading) copyWanted(ctx context.Context, from source, options *corev1.PodLogOptions, kept *last) error {
	wanted := false
	_, err := r.stream(ctx, from, options, func(part []byte, begins bool) {
		if begins {
			isNew := true
			if part, isNew = kept.cutTime(part); isNew {
				wanted = from.wanted(part)
			} else {
				wanted = false
			}
		}
		switch {
		case !wanted:
		case kept.most == 0:
			r.out.write(from.shown, part)
		default:
			kept.add(part)
		}
	})
	for _, part := range kept.parts {
		r.out.write(from.shown, part)
	}
	r.out.flush()
	return err
}

// mostKept bounds the bytes that are kept of the lines of one container.
const mostKept = 4 << 20

// last keeps the last lines.
type last struct {
	most  int // how many; 0: they are not kept but written
	parts [][]byte
	size  int
	// since is the time of the newest line; when it is set, lines begin with their time, and those that are not newer are left out.
	since *time.Time
}

func (l *last) add(part []byte) {
	l.parts = append(l.parts, bytes.Clone(part))
	l.size += len(part)
	for len(l.parts) > l.most || l.size > mostKept {
		l.size -= len(l.parts[0])
		l.parts = l.parts[1:]
	}
}

// cutTime returns a line without its time, and whether it is newer than all before.
func (l *last) cutTime(line []byte) ([]byte, bool) {
	if l.since == nil {
		return line, true
	}
	stamp, rest, _ := bytes.Cut(line, []byte(" "))
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil || !at.After(*l.since) {
		return rest, false
	}
	*l.since = at
	return rest, true
}
