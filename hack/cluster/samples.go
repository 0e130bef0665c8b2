package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// sampleNamespace is where the sample functions live.
const sampleNamespace = "default"

// sampleNames are the functions that up shows, as folders of config/samples.
var sampleNames = []string{"hello", "hello-node", "hello-deps"}

// samples applies the sample functions, waits for them and calls each.
func samples(ctx context.Context, a *app) error {
	var manifests strings.Builder
	for _, name := range sampleNames {
		data, err := os.ReadFile(filepath.Join(a.place.Repo, "config", "samples", name, "function.yaml"))
		if err != nil {
			return err
		}
		fmt.Fprintf(&manifests, "%s\n---\n", data)
	}
	_, err := a.kubectl.RunInput(ctx, manifests.String(), "-n", sampleNamespace, "apply", "--server-side", "--force-conflicts", "--field-manager=sless-cluster", "-f", "-")
	if err != nil {
		return err
	}
	answers := make([]string, len(sampleNames))
	for i, name := range sampleNames {
		err := a.progress.Step("function "+name+" is Ready and answers", "", func() error {
			answers[i], err = a.callSample(ctx, name)
			return err
		})
		if err != nil {
			return err
		}
	}
	a.sayWhatNext(answers)
	return nil
}

const (
	sampleTimeout = 5 * time.Minute
	// failedFor is how long a function may say that it failed before it is believed: one that failed with an older sless is tried again
	// when there is a newer one.
	failedFor = time.Minute
)

func (a *app) callSample(ctx context.Context, name string) (string, error) {
	if err := a.awaitReady(ctx, name); err != nil {
		conditions, _ := a.kubectl.Run(ctx, "-n", sampleNamespace, "get", "function", name, "-o",
			`jsonpath={range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\n"}{end}{.status.build.logTail}`)
		return "", fmt.Errorf("%w\n%s\nsee also: kubectl -n sless-system logs deployment/operator", err, conditions)
	}
	return get(ctx, sampleURL(name))
}

func (a *app) awaitReady(ctx context.Context, name string) error {
	const path = `jsonpath={.metadata.generation} {.status.phase} {range .status.conditions[?(@.type=="Ready")]}{.status} {.observedGeneration}{end}`
	begin := time.Now()
	lastFine := begin
	for {
		out, err := a.kubectl.Run(ctx, "-n", sampleNamespace, "get", "function", name, "-o", path)
		if err != nil {
			return err
		}
		state := strings.Fields(out) // generation, phase, Ready's status, Ready's generation
		if len(state) == 4 && state[2] == "True" && state[3] == state[0] {
			return nil
		}
		if len(state) < 2 || state[1] != "Failed" {
			lastFine = time.Now()
		}
		if time.Since(lastFine) > failedFor {
			return errors.New("it failed")
		}
		if time.Since(begin) > sampleTimeout {
			return errors.New("it is not Ready in time")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(300 * time.Millisecond):
		}
	}
}

func sampleURL(name string) string {
	return fmt.Sprintf("http://127.0.0.1:%s/fn/%s/%s", gatewayPort(), sampleNamespace, name)
}

// get tries for a short while: the local port may be slower than the function.
func get(ctx context.Context, url string) (string, error) {
	var last error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		var body string
		if body, last = getOnce(ctx, url); last == nil {
			return body, nil
		}
	}
	return "", last
}

func getOnce(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("GET %s: %s: %s", url, response.Status, body)
	}
	return strings.TrimSpace(string(body)), nil
}

func (a *app) sayWhatNext(answers []string) {
	a.progress.Say("")
	for i, name := range sampleNames {
		a.progress.Say("%s\n    %s", sampleURL(name), answers[i])
	}
	kubeconfig := a.kubectl.Kubeconfig
	if rel, err := filepath.Rel(a.place.Repo, kubeconfig); err == nil && !strings.HasPrefix(rel, "..") {
		kubeconfig = rel
	}
	a.progress.Say(`
sless runs. What to try next:
    export KUBECONFIG=%s
    kubectl get functions                     (no kubectl? %s)
    curl '%s?name=you'
    kubectl explain function.spec
    kubectl edit function hello               change the code, then curl again
    make test                                 test everything
    make down                                 end the cluster`, kubeconfig, a.kubectl.Program, sampleURL("hello"))
}
