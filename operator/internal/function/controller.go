// Package function brings Functions about: it has their image built, runs it as a Deployment behind a Service, and says in status
// how far that is.
package function

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build"
	"github.com/naeel/sless/operator/internal/config"
	"github.com/naeel/sless/operator/internal/env"
	"github.com/naeel/sless/operator/internal/reconcile"
)

// catchUp is how long the cache may take to see what has happened already.
const catchUp = 50 * time.Millisecond

// Kind is the kind in the labels of a Function's children.
const Kind = "Function"

// Reconciler reconciles Functions. All fields are required.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Reader reads past the cache what the operator may not list and watch everywhere.
	Reader   client.Reader
	Config   *config.Config
	Builder  build.Builder
	Tenants  Tenants
	Env      *env.Store
	Gateways Gateways
	Recorder events.EventRecorder

	pace    pace
	news    news
	written reconcile.Written
	// doubts are Functions whose image a node could not pull, although it was built: it may be lost.
	doubts sync.Map
}

// Tenants keeps the namespaces in which functions run.
type Tenants interface {
	// Ensure makes the one for a user's namespace and returns its name.
	Ensure(ctx context.Context, namespace string) (string, error)
	// Release removes it when nobody needs it any more.
	Release(ctx context.Context, namespace string) error
}

// Gateways knows where the ready gateways send a function's calls.
type Gateways interface {
	// Routing says whether every ready gateway sends the calls of a function to pods of the revision and to no others.
	Routing(ctx context.Context, function client.ObjectKey, revision string) Routing
}

// Routing is what the gateways answer.
type Routing struct {
	// Complete says that all of them do.
	Complete bool
	// Message says which does not, and why.
	Message string
	// Again is how soon to ask again, when it is not complete.
	Again time.Duration
	// Early says that nobody could be asked yet, because this process has just started: nothing is known, and nothing to be said.
	Early bool
}

// The rights that the controller needs everywhere. What it needs in the namespaces it made is in the ClusterRole tenant.Role:
// list, create, patch and delete on Deployments, Services and Secrets, and list and delete on ReplicaSets and Pods.
//
// +kubebuilder:rbac:groups=sless.io,resources=functions,verbs=list;watch;patch
// +kubebuilder:rbac:groups=sless.io,resources=functions/status,verbs=patch
// +kubebuilder:rbac:groups=sless.io,resources=triggers,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=secrets;configmaps,verbs=get
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=services,verbs=list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,namespace=sless-system,resources=endpointslices,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile brings one Function a step further and says in its status where it is.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	function := &v1alpha1.Function{}
	if err := r.Client.Get(ctx, request.NamespacedName, function); err != nil {
		if apierrors.IsNotFound(err) {
			r.written.Forget(request.NamespacedName)
			return ctrl.Result{}, r.forgotten(ctx, request.NamespacedName)
		}
		return ctrl.Result{}, fmt.Errorf("get Function %s: %w", request, err)
	}
	if r.written.Behind(function) {
		return ctrl.Result{RequeueAfter: catchUp}, nil
	}
	if !function.DeletionTimestamp.IsZero() {
		return unlessConflict(ctrl.Result{}, r.finalize(ctx, function))
	}
	namespace := &corev1.Namespace{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: request.Namespace}, namespace); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{RequeueAfter: catchUp}, nil // made a moment ago together with the Function, or gone with it
		}
		return ctrl.Result{}, fmt.Errorf("get Namespace %s: %w", request.Namespace, err)
	}
	if !namespace.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // the Function is deleted in a moment
	}
	return unlessConflict(r.pass(ctx, newScope(function, namespace, time.Now())))
}

// unlessConflict comes again for an object that was older than the API server's, or that another worker has just made. That is no error:
// the cache catches up.
func unlessConflict(result ctrl.Result, err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return ctrl.Result{RequeueAfter: catchUp}, nil
	}
	return result, err
}

// pass runs the phases and writes the status that follows from what they saw, also when one of them failed.
func (r *Reconciler) pass(ctx context.Context, s *scope) (ctrl.Result, error) {
	if err := r.addFinalizer(ctx, s); err != nil {
		return ctrl.Result{}, err
	}
	before := s.function.DeepCopy()
	err := reconcile.Run(ctx, s,
		r.observe,
		r.reconcileImage,
		r.reconcileTenant,
		r.reconcileEnv,
		r.reconcileDeployment,
		r.reconcileService,
		r.observeRollout,
		r.observeRouting,
		r.settleUpgrade,
		r.retainImages,
		r.collectEnv,
	)
	if s.routing.Early {
		return ctrl.Result{RequeueAfter: s.routing.Again}, err
	}
	setStatus(s, r.Config)
	if patchErr := reconcile.PatchStatus(ctx, r.Client, s.function, before); patchErr != nil {
		if apierrors.IsNotFound(patchErr) {
			return ctrl.Result{}, nil // deleted under the pass
		}
		return ctrl.Result{}, fmt.Errorf("patch status of Function %s: %w", s.key(), patchErr)
	}
	r.written.Note(s.function)
	r.record(s.function, before)
	if err != nil {
		return ctrl.Result{}, err
	}
	return reconcile.After(s.again()), nil
}

func (r *Reconciler) addFinalizer(ctx context.Context, s *scope) error {
	if !s.allowed() || controllerutil.ContainsFinalizer(s.function, names.Finalizer) {
		return nil
	}
	before := s.function.DeepCopy()
	controllerutil.AddFinalizer(s.function, names.Finalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, s.function, patch, client.FieldOwner(names.ManagedBy)); err != nil {
		return fmt.Errorf("add finalizer to Function %s: %w", s.key(), err)
	}
	return nil
}
