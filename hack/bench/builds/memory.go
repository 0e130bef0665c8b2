package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/api/v1alpha1"
)

const (
	sources    = 10
	sourceSize = 50 << 20
	sampleFor  = 50 * time.Millisecond
)

// measureMemory has the operator build from ten sources of 50 MB at once, with nothing to run, and notes how much memory it takes.
func (w *world) measureMemory(ctx context.Context, r *report) error {
	clientset, err := kubernetes.NewForConfig(w.config)
	if err != nil {
		return err
	}
	keys, err := w.uploadSources(ctx, clientset)
	if err != nil {
		return err
	}
	sampling, stop := context.WithCancel(ctx)
	defer stop()
	peak := make(chan int64, 1)
	if r.memoryBefore, err = w.operatorMemory(ctx, clientset); err != nil {
		return err
	}
	go func() { peak <- w.peakMemory(sampling, clientset) }()
	began := time.Now()
	for i, key := range keys {
		at := metav1.ObjectMeta{Namespace: w.namespace, Name: fmt.Sprintf("large%d", i)}
		spec := v1alpha1.FunctionSpec{Runtime: "python3.11", Replicas: new(int32(0)), Source: v1alpha1.Source{S3: &v1alpha1.S3Source{Key: key}}}
		if err := w.kube.Create(ctx, &v1alpha1.Function{ObjectMeta: at, Spec: spec}); err != nil {
			return err
		}
	}
	for i := range keys {
		if _, err := w.ready(ctx, fmt.Sprintf("large%d", i)); err != nil {
			return err
		}
	}
	r.memoryTook = time.Since(began)
	stop()
	r.memoryPeak = <-peak
	return nil
}

// uploadSources uploads by REST, as users do, archives of bytes that no compression makes smaller.
func (w *world) uploadSources(ctx context.Context, clientset kubernetes.Interface) ([]string, error) {
	api, err := w.restClient(ctx, clientset)
	if err != nil {
		return nil, err
	}
	defer api.Close()
	var keys []string
	for range sources {
		content, err := source()
		if err != nil {
			return nil, err
		}
		err = until(ctx, "upload a source", time.Second, func(ctx context.Context) error { // the account's rights may take a moment
			uploaded, err := api.Upload(ctx, w.namespace, bytes.NewReader(content))
			if err == nil {
				keys = append(keys, uploaded.Key)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return keys, nil
}

func source() ([]byte, error) {
	buffer := &bytes.Buffer{}
	archive := zip.NewWriter(buffer)
	for name, content := range map[string]io.Reader{"handler.py": strings.NewReader(code("x")["handler.py"]), "model.bin": io.LimitReader(rand.Reader, sourceSize)} {
		file, err := archive.Create(name)
		if err != nil {
			return nil, err
		}
		if _, err := io.Copy(file, content); err != nil {
			return nil, err
		}
	}
	err := archive.Close()
	return buffer.Bytes(), err
}

// restClient calls the apiserver as a program that may deploy in this run's namespace.
func (w *world) restClient(ctx context.Context, clientset kubernetes.Interface) (*rest.Client, error) {
	at := metav1.ObjectMeta{Namespace: w.namespace, Name: "bench"}
	if err := w.kube.Create(ctx, &corev1.ServiceAccount{ObjectMeta: at}); err != nil {
		return nil, err
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: at, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "sless-deployer"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: at.Namespace, Name: at.Name}},
	}
	if err := w.kube.Create(ctx, binding); err != nil {
		return nil, err
	}
	token, err := clientset.CoreV1().ServiceAccounts(w.namespace).CreateToken(ctx, at.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return rest.NewClient(rest.Config{Endpoint: address("SLESS_APISERVER_URL", "SLESS_APISERVER_PORT", "8081"), Token: token.Status.Token})
}

// peakMemory is the most that the operator took at any sample.
func (w *world) peakMemory(ctx context.Context, clientset kubernetes.Interface) (most int64) {
	for ctx.Err() == nil {
		if now, err := w.operatorMemory(ctx, clientset); err == nil {
			most = max(most, now)
		}
		time.Sleep(sampleFor)
	}
	return most
}

// operatorMemory is the resident memory of the operator that takes most: the one that works.
func (w *world) operatorMemory(ctx context.Context, clientset kubernetes.Interface) (most int64, err error) {
	pods := &corev1.PodList{}
	if err := w.kube.List(ctx, pods, client.InNamespace(names.SystemNamespace), client.MatchingLabels{"app.kubernetes.io/name": "operator"}); err != nil {
		return 0, err
	}
	for _, pod := range pods.Items {
		text, err := clientset.CoreV1().Pods(pod.Namespace).ProxyGet("http", pod.Name, "9090", "/metrics", nil).DoRaw(ctx)
		if err != nil {
			return 0, fmt.Errorf("read the operator's metrics: %w", err)
		}
		for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
			if value, found := strings.CutPrefix(lines.Text(), "process_resident_memory_bytes "); found {
				bytes, err := strconv.ParseFloat(value, 64)
				if err != nil {
					return 0, err
				}
				most = max(most, int64(bytes))
			}
		}
	}
	return most, nil
}
