// Package functionjob brings FunctionJobs about: it runs each new runID once, as a Kubernetes Job, and keeps the result.
//
// Which run was started last is a fact in status. A run is started only after a look past the cache, at the FunctionJob and at its
// Kubernetes Jobs, and what a crash left between the Job and the status is taken up by its labels; so a runID runs once, whoever leads. The
// Kubernetes Job gets its time to live only after the status has the result.
package functionjob

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/ledger"
	"github.com/naeel/sless/operator/internal/config"
	"github.com/naeel/sless/operator/internal/env"
	"github.com/naeel/sless/operator/internal/reconcile"
)

const (
	// retryConflict is after how long a pass comes again whose object was older than the API server's.
	retryConflict = 50 * time.Millisecond
	// pollEvery is how often a run is looked at, as a net under the watch.
	pollEvery = 5 * time.Second
)

// Reconciler reconciles FunctionJobs.
type Reconciler struct {
	// Client reads from a cache and writes. Required.
	Client client.Client
	// Reader reads past the cache. Required.
	Reader client.Reader
	// Config has the defaults of pods. Required.
	Config *config.Config
	// Tenants keeps the namespaces in which jobs run. Required.
	Tenants Tenants
	// Env keeps the Secrets of environments. Required.
	Env Environments
	// Ledger gets a record of every run that ends. Default: nobody does.
	Ledger Ledger
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Tenants keeps the namespaces in which functions run.
type Tenants interface {
	// Ensure makes the one for a user's namespace and returns its name.
	Ensure(ctx context.Context, namespace string) (string, error)
	// Release removes it when nobody needs it any more.
	Release(ctx context.Context, namespace string) error
}

// Environments keeps the Secrets that have the environments of Functions.
type Environments interface {
	// Ensure makes the Secret of a Function's environment in a tenant's namespace and returns its name, empty when it needs none.
	Ensure(ctx context.Context, function *v1alpha1.Function, tenant string) (string, env.Environment, error)
}

// Ledger keeps records of what ran.
type Ledger interface {
	// On says whether records are kept.
	On() bool
	// Write takes a copy, and waits for nobody.
	Write(*ledger.Record)
}

// The rights that the controller needs everywhere. What it needs in the namespaces it made is in the ClusterRole of tenants: get, list,
// create, patch and delete on Jobs and Secrets, and list on Pods.
//
// +kubebuilder:rbac:groups=sless.io,resources=functionjobs,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=sless.io,resources=functionjobs/status,verbs=patch
// +kubebuilder:rbac:groups=sless.io,resources=functions,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=list;watch

// Reconcile brings one FunctionJob a step further.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	job := &v1alpha1.FunctionJob{}
	if err := r.Client.Get(ctx, request.NamespacedName, job); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{}, r.Tenants.Release(ctx, request.Namespace)
		}
		return ctrl.Result{}, fmt.Errorf("get FunctionJob %s: %w", request, err)
	}
	s := &scope{now: metav1.NewTime(r.now()).Rfc3339Copy(), job: job, before: job.DeepCopy()}
	if !job.DeletionTimestamp.IsZero() {
		return result(s, r.finalize(ctx, s))
	}
	return result(s, r.pass(ctx, s))
}

// pass runs the phases and writes the status once, also when one of them failed.
func (r *Reconciler) pass(ctx context.Context, s *scope) error {
	err := reconcile.Run(ctx, s,
		r.observe,
		r.followRun,
		r.expireRun,
		r.awaitFunction,
		r.startRun,
	)
	setStatus(s)
	if patchErr := reconcile.PatchStatus(ctx, r.Client, s.job, s.before); patchErr != nil {
		return fmt.Errorf("patch status of FunctionJob %s: %w", s.key(), patchErr)
	}
	r.record(ctx, s)
	return err
}

// result says when to come again.
func result(s *scope, err error) (ctrl.Result, error) {
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: retryConflict}, nil
	case apierrors.IsNotFound(err):
		return ctrl.Result{RequeueAfter: retryConflict}, nil // deleted under the pass, or its namespace was
	case err != nil:
		return ctrl.Result{}, err
	}
	return reconcile.After(s.again), nil
}

func (r *Reconciler) now() time.Time {
	if r.Now == nil {
		return time.Now()
	}
	return r.Now()
}
