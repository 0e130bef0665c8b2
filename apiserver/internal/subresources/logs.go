package subresources

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/apiserver/internal/problem"
	"github.com/naeel/sless/apiserver/internal/request"
	"github.com/naeel/sless/apiserver/internal/resources"
)

const (
	// defaultTail is how many lines of each replica a log begins with.
	defaultTail = 1000
	// maxPods bounds how many pods are read at a time for one caller.
	maxPods = 100
	// newPods is how often a log that is followed looks for pods that are new.
	newPods = 2 * time.Second
)

type logsInput struct {
	resources.Named
	Follow bool  `query:"follow" doc:"Go on with what is written from now, also by replicas that are yet to come."`
	Tail   int64 `query:"tail" minimum:"1" maximum:"100000" doc:"Begin with so many of the last lines of each replica. Default 1000."`
	Since  int64 `query:"since" minimum:"1" maximum:"31536000" doc:"Leave out what is older, in seconds."`
	Build  bool  `query:"build" doc:"The log of the last build instead of that of the replicas."`

	RequestID string `query:"request_id" pattern:"^[!#-\\[\\]-~]{1,128}$" doc:"Only the lines that were printed for this request, of all that the replicas still have; tail counts these. For a run of a job of this function its uid, a hyphen and its run_id; for all of its runs the uid. Not with build."`
}

func (h *Handlers) getLogs(ctx context.Context, in *logsInput) (*huma.StreamResponse, error) {
	fn, err := h.function(ctx, in.Named)
	if err != nil {
		return nil, err
	}
	if in.Build && in.RequestID != "" {
		return nil, problem.Invalid(rest.FieldError{Location: "query.request_id", Message: "a build has no request: leave out one of build and request_id"})
	}
	reading := &reading{handlers: h, options: in, seen: map[types.UID]bool{}, where: whereReplicas(fn)}
	if in.Build {
		reading.where = whereBuild(fn)
	}
	first, err := reading.pods(ctx)
	if err != nil {
		request.From(ctx).Log.ErrorContext(ctx, "logs", "error", err)
		return nil, problem.New(http.StatusServiceUnavailable, rest.CodeLogsUnavailable, "the cluster can't say which pods there are; try again").RetryAfter(2 * time.Second)
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		_, w := humago.Unwrap(ctx)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		reading.out = &lines{writer: w, control: http.NewResponseController(w)}
		reading.run(ctx.Context(), fn, first)
	}}, nil
}

// where is where pods are whose log belongs to a function.
type where struct {
	namespace string
	selector  labels.Set
	none      bool
}

func whereReplicas(fn *v1alpha1.Function) where {
	return where{namespace: names.FunctionNamespace(fn.Namespace), selector: names.Selector("Function", fn.Namespace, fn.Name)}
}

// whereBuild looks for the namespace too: a status that names another tenant's Job shows nothing of it.
func whereBuild(fn *v1alpha1.Function) where {
	build := fn.Status.Build
	if build == nil || build.JobName == "" {
		return where{none: true}
	}
	return where{namespace: names.BuildNamespace, selector: labels.Set{
		"batch.kubernetes.io/job-name": build.JobName, names.NamespaceLabel: fn.Namespace, names.ManagedByLabel: names.ManagedBy,
	}}
}

// reading is one answer with the logs of several pods.
type reading struct {
	handlers *Handlers
	options  *logsInput
	where    where
	out      *lines
	seen     map[types.UID]bool // the pods that are read; only touched by the goroutine of run
	readers  sync.WaitGroup
}

func (r *reading) pods(ctx context.Context) ([]corev1.Pod, error) {
	if r.where.none {
		return nil, nil
	}
	list, err := r.handlers.Kube.CoreV1().Pods(r.where.namespace).List(ctx, metav1.ListOptions{LabelSelector: r.where.selector.String(), Limit: maxPods})
	if apierrors.IsForbidden(err) && r.noPodsYet(ctx) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	jobs, err := r.podsOfJob(ctx)
	return append(list.Items, jobs...), err
}

// boundAfter is how long after it has made a namespace the operator has bound the right to read pods in it, which it does before it
// makes any.
const boundAfter = time.Minute

// noPodsYet says whether there is no right to read pods because the namespace with it is not there, or not yet, or not any more.
func (r *reading) noPodsYet(ctx context.Context) bool {
	namespace, err := r.handlers.Kube.CoreV1().Namespaces().Get(ctx, r.where.namespace, metav1.GetOptions{})
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	return namespace.DeletionTimestamp != nil || time.Since(namespace.CreationTimestamp.Time) < boundAfter
}

// run writes until all pods have ended, or when it follows, until the caller or the server goes.
func (r *reading) run(ctx context.Context, fn *v1alpha1.Function, pods []corev1.Pod) {
	ctx, cancel := context.WithCancel(ctx)
	defer r.readers.Wait()
	defer cancel()
	if r.options.Build && len(pods) == 0 {
		if build := fn.Status.Build; build != nil && build.LogTail != "" {
			r.out.write("", []byte(build.LogTail))
			return
		}
		r.out.note("no build log: nothing was installed, or its pod is gone")
	}
	if len(pods) == maxPods {
		r.out.note(fmt.Sprintf("there are more pods; these are %d of them", maxPods))
	}
	r.read(ctx, pods)
	if !r.options.Follow {
		r.readers.Wait()
		return
	}
	r.out.flush()
	ticker := time.NewTicker(newPods)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-request.From(ctx).Draining:
			r.out.note("the server is going down; ask again for what comes")
			return
		case <-ticker.C:
			if pods, err := r.pods(ctx); err == nil { // the next tick asks again
				r.read(ctx, pods)
			}
		}
	}
}

// read begins to read the pods that are new.
func (r *reading) read(ctx context.Context, pods []corev1.Pod) {
	for _, pod := range pods {
		if r.seen[pod.UID] {
			continue
		}
		r.seen[pod.UID] = true
		r.readers.Go(func() {
			for _, container := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
				source := source{pod.Namespace, pod.Name, container.Name, pod.Name, linesOf(pod, r.options.RequestID)}
				if len(pod.Spec.InitContainers) > 0 {
					source.shown += "/" + container.Name
				}
				if r.options.RequestID != "" && hasStartedAgain(pod) {
					r.readPrevious(ctx, source)
				}
				r.readContainer(ctx, source)
			}
		})
	}
}

// source is one container's log.
type source struct {
	namespace, pod, container, shown string
	wanted                           filter
}

// readContainer writes the log of a container: what there is, or when it follows, until the container will not run again.
func (r *reading) readContainer(ctx context.Context, from source) {
	var since *metav1.Time
	for {
		err := r.readOnce(ctx, from, since)
		if ctx.Err() != nil {
			return
		}
		if !r.options.Follow {
			if err != nil {
				request.From(ctx).Log.InfoContext(ctx, "log not read", "namespace", from.namespace, "pod", from.pod, "error", err)
				r.out.note("the log of " + from.shown + " can't be read, or broke off")
			}
			return
		}
		if err == nil {
			since = new(metav1.Now()) // it ended; another start of the container goes on from here
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(newPods):
		}
		pod, err := r.handlers.Kube.CoreV1().Pods(from.namespace).Get(ctx, from.pod, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && hasEnded(pod, from.container) {
			return
		}
	}
}

// hasEnded says whether a container will not run again.
func hasEnded(pod *corev1.Pod, container string) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return true
	}
	for _, status := range pod.Status.InitContainerStatuses {
		if status.Name == container && status.State.Terminated != nil {
			return true
		}
	}
	return false
}

func (r *reading) readOnce(ctx context.Context, from source, since *metav1.Time) error {
	options := &corev1.PodLogOptions{Container: from.container, Follow: r.options.Follow, TailLines: new(int64(defaultTail)), SinceTime: since}
	if r.options.Tail > 0 {
		options.TailLines = new(r.options.Tail)
	}
	if r.options.Since > 0 && since == nil {
		options.SinceSeconds = new(r.options.Since)
	}
	if from.wanted != nil {
		return r.readRequest(ctx, from, options)
	}
	lines, err := r.stream(ctx, from, options, func(part []byte, _ bool) { r.out.write(from.shown, part) })
	if lines >= defaultTail && r.options.Tail == 0 && !r.options.Follow {
		r.out.note(fmt.Sprintf("%s: these are the last %d lines; tail=N shows more, if there are more", from.shown, defaultTail))
	}
	return err
}

// stream hands the parts of the lines of a log to write, and returns how many lines there were.
func (r *reading) stream(ctx context.Context, from source, options *corev1.PodLogOptions, write func(part []byte, begins bool)) (int, error) {
	stream, err := r.handlers.Kube.CoreV1().Pods(from.namespace).GetLogs(from.pod, options).Stream(ctx)
	if err != nil {
		return 0, err
	}
	defer stream.Close()
	return r.out.copy(stream, write)
}

// lines writes whole lines of several sources.
type lines struct {
	mu      sync.Mutex // guards writer
	writer  io.Writer
	control *http.ResponseController
}

// longLine is how long a line may be; a longer one comes in parts, each a line.
const longLine = 256 << 10

// copy hands each line of a log to write, a long one in parts of which the first begins it, and returns how many lines there were.
func (l *lines) copy(log io.Reader, write func(part []byte, begins bool)) (lines int, err error) {
	reader := bufio.NewReaderSize(log, longLine)
	begins := true
	for {
		part, err := reader.ReadSlice('\n')
		if len(part) > 0 {
			write(part, begins)
		}
		begins = !errors.Is(err, bufio.ErrBufferFull)
		if begins && len(part) > 0 {
			lines++
		}
		if reader.Buffered() == 0 {
			l.flush()
		}
		switch {
		case errors.Is(err, io.EOF):
			return lines, nil
		case err != nil && begins:
			return lines, err
		}
	}
}

func (l *lines) write(name string, line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if name != "" {
		_, _ = io.WriteString(l.writer, name+" ") // a caller that is gone ends the context
	}
	_, _ = l.writer.Write(line)
	if line[len(line)-1] != '\n' {
		_, _ = io.WriteString(l.writer, "\n")
	}
}

// note writes a line of the server's own.
func (l *lines) note(text string) {
	l.write("---", []byte(text+"\n"))
	l.flush()
}

func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.control.Flush() // the same
}
