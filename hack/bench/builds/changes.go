package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/hack/internal/builder"
)

// What is measured.
const (
	appendCode = "new code, --builder=append"
	appendDeps = "new code with dependencies, --builder=append"
	kanikoCode = "new code, --builder=kaniko"
	kanikoDeps = "new code with dependencies, --builder=kaniko"
	plainImage = "another image, plain Deployment"
	otherImage = "another image, Function with source.image"
)

// program is the files of a function that answers with a mark.
type program func(mark string) map[string]string

func code(mark string) map[string]string {
	return map[string]string{"handler.py": fmt.Sprintf("def handle(event, context):\n    return {'statusCode': 200, 'body': %q}\n", mark)}
}

func codeWithDependencies(mark string) map[string]string {
	files := code(mark)
	files["handler.py"] = "import idna\n" + files["handler.py"]
	files["requirements.txt"] = "idna==3.10\n"
	return files
}

// measureChanges makes each change in turn, round by round, with one builder and then with the other.
func (w *world) measureChanges(ctx context.Context, rounds int, r *report) error {
	if err := builder.Use(ctx, w.kube, "append"); err != nil {
		return err
	}
	defer func() { // also when the run is stopped
		if err := builder.Use(context.WithoutCancel(ctx), w.kube, ""); err != nil {
			fmt.Println("bench: the operator keeps its flags:", err)
		}
	}()
	jobs, err := w.countJobs(ctx)
	if err != nil {
		return err
	}
	images, err := w.prepare(ctx)
	if err != nil {
		return err
	}
	prepared := time.Now()
	r.firstJobs = int(jobs.Load())
	mark := 0
	next := func() string { mark++; return fmt.Sprintf("change %d", mark) }
	for round := range rounds {
		fmt.Printf("round %d of %d\n", round+1, rounds)
		before := jobs.Load()
		for _, measure := range []func() error{
			func() error { return w.changeCode(ctx, r, appendCode, "code", code, next()) },
			func() error { return w.changePlain(ctx, r, images, round) },
			func() error { return w.changeCode(ctx, r, appendDeps, "deps", codeWithDependencies, next()) },
			func() error { return w.changeImage(ctx, r, images, round) },
		} {
			if err := measure(); err != nil {
				return err
			}
		}
		r.changeJobs += int(jobs.Load() - before)
		if err := w.roundOfKaniko(ctx, r, next); err != nil {
			return err
		}
	}
	r.waited, err = w.countUnscheduled(ctx, prepared)
	return err
}

// countUnscheduled counts the pods that found no room on any node at first: what was measured meanwhile is not worth much.
func (w *world) countUnscheduled(ctx context.Context, since time.Time) (int, error) {
	pods := map[string]bool{}
	for _, namespace := range []string{names.FunctionNamespace(w.namespace), w.plain, names.BuildNamespace} {
		events := &corev1.EventList{}
		if err := w.kube.List(ctx, events, client.InNamespace(namespace)); err != nil {
			return 0, err
		}
		for _, event := range events.Items {
			if event.Reason == "FailedScheduling" && event.CreationTimestamp.After(since) {
				pods[event.InvolvedObject.Name] = true
			}
		}
	}
	return len(pods), nil
}

func (w *world) roundOfKaniko(ctx context.Context, r *report, next func() string) error {
	for _, step := range []func() error{
		func() error { return builder.Use(ctx, w.kube, "kaniko") },
		func() error { return w.awake(ctx) },
		func() error { return w.changeCode(ctx, r, kanikoCode, "code", code, next()) },
		func() error { return w.changeCode(ctx, r, kanikoDeps, "deps", codeWithDependencies, next()) },
		func() error { return builder.Use(ctx, w.kube, "append") },
		func() error { return w.awake(ctx) },
		// One that does not count: the operator that was just started looks at all functions there are, and must not be measured at that.
		func() error { return w.changeCode(ctx, newReport(0), appendCode, "code", code, next()) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// awake waits until the operator that was just started works: it must take the lease and read what there is.
func (w *world) awake(ctx context.Context) error {
	function := &v1alpha1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "image"}}
	if _, err := w.patch(ctx, function, fmt.Sprintf(`{"spec":{"codeHash":"%d"}}`, time.Now().UnixNano())); err != nil {
		return err
	}
	_, err := w.ready(ctx, "image")
	return err
}

func (w *world) changeCode(ctx context.Context, r *report, what, name string, files program, mark string) error {
	text, err := json.Marshal(files(mark))
	if err != nil {
		return err
	}
	function := &v1alpha1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	began, err := w.patch(ctx, function, fmt.Sprintf(`{"spec":{"source":{"inline":%s}}}`, text))
	if err != nil {
		return err
	}
	took, err := w.served(ctx, w.url(name), mark, began)
	if err != nil {
		return err
	}
	r.add(what, took)
	_, err = w.ready(ctx, name)
	return err
}

// image is one that exists in the registry and on the node, and what it answers.
type image struct{ reference, mark string }

func (w *world) changeImage(ctx context.Context, r *report, images [2]image, round int) error {
	to := images[(round+1)%2]
	function := &v1alpha1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "image"}}
	began, err := w.patch(ctx, function, fmt.Sprintf(`{"spec":{"source":{"image":%q}}}`, to.reference))
	if err != nil {
		return err
	}
	took, err := w.served(ctx, w.url("image"), to.mark, began)
	if err != nil {
		return err
	}
	r.add(otherImage, took)
	_, err = w.ready(ctx, "image")
	return err
}

func (w *world) changePlain(ctx context.Context, r *report, images [2]image, round int) error {
	to := images[(round+1)%2]
	service := &corev1.Service{}
	if err := w.kube.Get(ctx, client.ObjectKey{Namespace: w.plain, Name: "plain"}, service); err != nil {
		return err
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.plain, Name: "plain"}}
	if err := w.kube.Get(ctx, client.ObjectKeyFromObject(deployment), deployment); err != nil {
		return err
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	container.Image = to.reference
	text, err := json.Marshal(container)
	if err != nil {
		return err
	}
	body := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[%s]}}}}`, text)
	began, err := w.patch(ctx, deployment, body)
	if err != nil {
		return err
	}
	took, err := w.served(ctx, "http://"+net.JoinHostPort(service.Spec.ClusterIP, "8080")+"/", to.mark, began)
	if err != nil {
		return err
	}
	r.add(plainImage, took)
	return w.settled(ctx, w.plain, "plain")
}

// countJobs counts the build Jobs that are made for this run's tenant.
func (w *world) countJobs(ctx context.Context) (*atomic.Int64, error) {
	jobs, err := w.kube.Watch(ctx, &batchv1.JobList{}, client.InNamespace(names.BuildNamespace), client.MatchingLabels{names.NamespaceLabel: w.namespace})
	if err != nil {
		return nil, err
	}
	count := &atomic.Int64{}
	go func() {
		for event := range jobs.ResultChan() {
			if event.Type == watch.Added {
				count.Add(1)
			}
		}
	}()
	return count, nil
}

// prepare makes the functions, two images, and a Deployment that runs such an image as a function's does, apart from sless.
func (w *world) prepare(ctx context.Context) (images [2]image, err error) {
	for name, files := range map[string]program{"code": code, "deps": codeWithDependencies, "one": code, "two": code} {
		if err := w.create(ctx, name, v1alpha1.Source{Inline: inline(files(name))}); err != nil {
			return images, err
		}
	}
	for i, name := range []string{"one", "two"} {
		function, err := w.ready(ctx, name)
		if err != nil {
			return images, err
		}
		images[i] = image{function.Status.Image, name}
	}
	if err := w.create(ctx, "image", v1alpha1.Source{Image: images[0].reference}); err != nil {
		return images, err
	}
	for _, name := range []string{"code", "deps", "image"} {
		if _, err := w.ready(ctx, name); err != nil {
			return images, err
		}
	}
	return images, w.createPlain(ctx)
}

func inline(files map[string]string) map[string]v1alpha1.InlineFile {
	typed := map[string]v1alpha1.InlineFile{}
	for name, text := range files {
		typed[name] = v1alpha1.InlineFile(text)
	}
	return typed
}

func (w *world) create(ctx context.Context, name string, source v1alpha1.Source) error {
	at := metav1.ObjectMeta{Namespace: w.namespace, Name: name}
	// A request so small that a node which is nearly full takes the pods.
	small := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	spec := v1alpha1.FunctionSpec{Runtime: "python3.11", Source: source, Resources: &v1alpha1.Resources{Requests: small}}
	if source.Image != "" {
		spec.Runtime = ""
	}
	if err := w.kube.Create(ctx, &v1alpha1.Function{ObjectMeta: at, Spec: spec}); err != nil {
		return err
	}
	return w.kube.Create(ctx, &v1alpha1.Trigger{ObjectMeta: at, Spec: v1alpha1.TriggerSpec{Type: v1alpha1.TriggerHTTP, FunctionRef: v1alpha1.FunctionRef{Name: name}}})
}

func (w *world) createPlain(ctx context.Context) error {
	running := names.FunctionNamespace(w.namespace)
	like := &appsv1.Deployment{}
	if err := w.kube.Get(ctx, client.ObjectKey{Namespace: running, Name: "one"}, like); err != nil {
		return err
	}
	labels := map[string]string{"app": "plain"}
	at := metav1.ObjectMeta{Namespace: w.plain, Name: "plain", Labels: labels}
	template := like.Spec.Template
	template.ObjectMeta = metav1.ObjectMeta{Labels: labels}
	for _, reference := range template.Spec.ImagePullSecrets {
		secret := &corev1.Secret{}
		if err := w.kube.Get(ctx, client.ObjectKey{Namespace: running, Name: reference.Name}, secret); err != nil {
			return err
		}
		copied := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.plain, Name: reference.Name}, Type: secret.Type, Data: maps.Clone(secret.Data)}
		if err := w.kube.Create(ctx, copied); err != nil {
			return err
		}
	}
	spec := appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template, Strategy: like.Spec.Strategy}
	port := corev1.ServicePort{Port: names.Port, TargetPort: intstr.FromInt32(names.Port)}
	if err := w.kube.Create(ctx, &corev1.Service{ObjectMeta: at, Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{port}}}); err != nil {
		return err
	}
	if err := w.kube.Create(ctx, &appsv1.Deployment{ObjectMeta: at, Spec: spec}); err != nil {
		return err
	}
	return w.settled(ctx, w.plain, "plain")
}
