package e2e

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
)

// A function that gets twenty times what it may answer refuses the rest and says when to come again, and answers as ever afterwards. Its
// neighbour notices nothing.
func TestOverloadPasses(t *testing.T) {
	t.Parallel()
	const (
		limit    = 2
		takes    = time.Second
		lasts    = time.Minute
		recovers = 30 * time.Second // those who wait go after the five of timeoutSeconds; without that it took a quarter of an hour
		every    = takes / (20 * limit)
	)
	namespace := newNamespace(t)
	slow := "import time\ndef handle(event):\n    time.sleep(1)\n    return 'fine'\n"
	apply(t, namespace, python("busy", slow, "concurrency: 2", "timeoutSeconds: 5")+httpTrigger("busy")+"---\n"+python("calm", slow)+httpTrigger("calm"))
	for _, name := range []string{"busy", "calm"} {
		waitFunction(t, namespace, name, "True", v1alpha1.ReasonReady)
	}
	neighbour := send(t, namespace, "calm", 5, request{"GET", "", "", "fine"})

	var (
		all    sync.WaitGroup
		mu     sync.Mutex
		counts = map[int]int{}
	)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for end := time.Now().Add(lasts); time.Now().Before(end); <-ticker.C {
		all.Go(func() {
			status, again := overload(t, gateway+names.FunctionPath(namespace, "busy"))
			mu.Lock()
			defer mu.Unlock()
			counts[status]++
			if status != http.StatusOK && again == "" {
				t.Errorf("%d does not say when to come again", status)
			}
		})
	}
	began := time.Now()
	eventually(t, "a single call is answered", func() error {
		_, err := call(t, "GET", namespace, "busy", "", "")
		return err
	})
	took := time.Since(began)
	neighbour.end()
	all.Wait()
	t.Logf("twenty times the limit for %s: answers by status %v; a single call after it took %s; the neighbour had %d calls, the slowest %s",
		lasts, counts, took.Round(time.Millisecond), neighbour.sent, neighbour.slowest.Round(time.Millisecond))
	if got := mustCall(t, "GET", namespace, "busy", "", "", http.StatusOK); took > recovers || got.body != "fine" {
		t.Errorf("after %s: %q", took, got.body)
	}
	for status := range counts {
		if status != http.StatusOK && status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
			t.Errorf("%d was answered", status)
		}
	}
	if counts[http.StatusOK] == 0 || len(counts) < 2 {
		t.Errorf("answers by status %v: it was not overloaded, or answered nobody", counts)
	}
	if len(neighbour.failures) > 0 {
		t.Errorf("the neighbour: %d of %d calls failed: %.3q", len(neighbour.failures), neighbour.sent, neighbour.failures)
	}
	var pods corev1.PodList
	if err := kube.List(t.Context(), &pods, client.InNamespace(names.FunctionNamespace(namespace)), client.MatchingLabels(names.Selector("Function", namespace, "busy"))); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 1 || pods.Items[0].Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("%d pods, or one that was started again: %+v", len(pods.Items), pods.Items)
	}
}

// overload makes one call and returns its status and Retry-After.
func overload(t *testing.T, url string) (status int, again string) {
	caller := http.Client{Timeout: time.Minute}
	response, err := caller.Get(url)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Header.Get("Retry-After")
}
