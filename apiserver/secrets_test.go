package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/apiserver/internal/resources"
)

// dying is a connection to the cluster that is lost, for good, at the write of a Function: for the cluster it is as if the apiserver had
// been killed there.
type dying struct {
	next http.RoundTripper
	// late lets the write through before.
	late bool
	dead *atomic.Bool
}

func (d dying) RoundTrip(request *http.Request) (*http.Response, error) {
	write := (request.Method == http.MethodPost || request.Method == http.MethodPut) && strings.Contains(request.URL.Path, "/functions") && request.URL.Query().Get("dryRun") == ""
	if write && !d.late || d.dead.Load() {
		d.dead.Store(true)
		return nil, errors.New("killed")
	}
	response, err := d.next.RoundTrip(request)
	if write {
		d.dead.Store(true)
	}
	return response, err
}

// startDying starts an apiserver that lives until it writes a Function.
func startDying(t *testing.T, late bool) *instance {
	t.Helper()
	settings, err := around.settings(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	kube := asAPIServer()
	dead := &atomic.Bool{}
	kube.Wrap(func(next http.RoundTripper) http.RoundTripper { return dying{next, late, dead} })
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	own, err := startOn(ctx, kube, settings, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return own
}

// secretsIn are the Secrets of a tenant that are of the type for secret_env.
func secretsIn(t *testing.T, tenant *tenant) []corev1.Secret {
	t.Helper()
	all := &corev1.SecretList{}
	if err := cluster.client.List(t.Context(), all, client.InNamespace(tenant.namespace)); err != nil {
		t.Fatal(err)
	}
	var ours []corev1.Secret
	for _, secret := range all.Items {
		if secret.Type == resources.EnvSecretType {
			ours = append(ours, secret)
		}
	}
	return ours
}

// notesOf are the Leases that speak of Secrets of a tenant.
func notesOf(t *testing.T, tenant *tenant) int {
	t.Helper()
	notes := &coordinationv1.LeaseList{}
	if err := cluster.client.List(t.Context(), notes, client.InNamespace(names.SystemNamespace), client.MatchingLabels{names.NamespaceLabel: tenant.namespace}); err != nil {
		t.Fatal(err)
	}
	return len(notes.Items)
}

func sweep(t *testing.T, after time.Duration) {
	t.Helper()
	if err := shared.service.secrets.Sweep(t.Context(), time.Now().Add(after)); err != nil {
		t.Fatal(err)
	}
}

func TestARequestThatIsCutOffLeavesNoSecret(t *testing.T) {
	tenant := newTenant(t)
	ctx := t.Context()
	kept := hello("kept")
	kept.SecretEnv = map[string]string{"TOKEN": "kept"}
	must[rest.Stored[rest.Function]](t)(tenant.Functions(tenant.namespace).Create(ctx, kept))
	if notes := notesOf(t, tenant); notes > 0 {
		t.Errorf("%d notes of a request that has ended", notes)
	}
	lost := hello("lost")
	lost.SecretEnv = map[string]string{"TOKEN": "s3cr3t"}
	dying := clientOf(t, startDying(t, false), rest.Config{Token: tenant.token}).Functions(tenant.namespace)
	if _, err := dying.Create(ctx, lost); err == nil {
		t.Fatal("it did not die")
	}
	changing := clientOf(t, startDying(t, false), rest.Config{Token: tenant.token}).Functions(tenant.namespace)
	if _, err := changing.Patch(ctx, "kept", map[string]any{"secret_env": map[string]any{"TOKEN": "n3w"}}); err == nil {
		t.Fatal("it did not die")
	}
	if found := len(secretsIn(t, tenant)); found != 3 {
		t.Fatalf("there are %d Secrets, and the test tries nothing", found)
	}
	sweep(t, 10*time.Minute)
	if found := len(secretsIn(t, tenant)); found != 3 {
		t.Errorf("%d Secrets of 3 are left while their requests may go on", found)
	}
	sweep(t, 20*time.Minute)
	left := secretsIn(t, tenant)
	if len(left) != 1 || string(left[0].Data["TOKEN"]) != "kept" {
		t.Errorf("left: %v", left)
	}
	if notes := notesOf(t, tenant); notes > 0 {
		t.Errorf("%d notes are left", notes)
	}
}

func TestARequestThatIsCutOffLateLeavesASecretWithItsOwner(t *testing.T) {
	tenant := newTenant(t)
	fn := hello("hello")
	fn.SecretEnv = map[string]string{"TOKEN": "s3cr3t"}
	dying := clientOf(t, startDying(t, true), rest.Config{Token: tenant.token}).Functions(tenant.namespace)
	_, _ = dying.Create(t.Context(), fn) // whether the answer still came is no matter
	if secret := secretOf(t, tenant, "TOKEN"); len(secret.OwnerReferences) > 0 {
		t.Fatal("it has an owner, and the test tries nothing")
	}
	sweep(t, 20*time.Minute)
	secret := secretOf(t, tenant, "TOKEN")
	if len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].Name != "hello" || string(secret.Data["TOKEN"]) != "s3cr3t" {
		t.Errorf("got %+v", secret)
	}
	if notes := notesOf(t, tenant); notes > 0 {
		t.Errorf("%d notes are left", notes)
	}
}
