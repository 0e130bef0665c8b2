package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/pprof"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build"
	"github.com/naeel/sless/operator/internal/config"
	"github.com/naeel/sless/operator/internal/env"
	"github.com/naeel/sless/operator/internal/function"
	"github.com/naeel/sless/operator/internal/functionjob"
	"github.com/naeel/sless/operator/internal/tenant"
	"github.com/naeel/sless/operator/internal/trigger"
)

const (
	lease            = "sless-operator"
	gatewayAdminPort = "9090"
	// shutdown is how long runs and passes under way may take when the operator is told to go; its pod has 30 s.
	shutdown = 20 * time.Second
)

// run makes the manager with everything in it and runs it until ctx ends.
func run(ctx context.Context, o options) error {
	cfg, err := config.Load(o.configFile)
	if err != nil {
		return err
	}
	if o.cluster == nil {
		if o.cluster, err = ctrl.GetConfig(); err != nil {
			return fmt.Errorf("find the cluster: %w", err)
		}
	}
	o.cluster.QPS = -1 // the API server's own fairness is the limit
	mgr, err := newManager(o)
	if err != nil {
		return err
	}
	if err := addControllers(mgr, cfg, o.builder); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func newManager(o options) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register kinds: %w", err)
		}
	}
	mgr, err := ctrl.NewManager(o.cluster, ctrl.Options{
		Scheme:                        scheme,
		Cache:                         cacheOptions(),
		Client:                        clientOptions(),
		Metrics:                       server.Options{BindAddress: o.metricsAddress, ExtraHandlers: profiles()},
		HealthProbeBindAddress:        o.healthAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              lease,
		LeaderElectionNamespace:       names.SystemNamespace,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       new(shutdown),
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	for _, add := range []func(string, healthz.Checker) error{mgr.AddHealthzCheck, mgr.AddReadyzCheck} {
		if err := add("ping", healthz.Ping); err != nil {
			return nil, fmt.Errorf("add health check: %w", err)
		}
	}
	return mgr, nil
}

// profiles are what go tool pprof reads, beside the metrics, as the gateway has them.
func profiles() map[string]http.Handler {
	return map[string]http.Handler{
		"/debug/pprof/":        http.HandlerFunc(pprof.Index),
		"/debug/pprof/profile": http.HandlerFunc(pprof.Profile),
		"/debug/pprof/trace":   http.HandlerFunc(pprof.Trace),
	}
}

// cacheOptions keeps the caches to what is sless's own: children by their label, and of sless-system by its name.
func cacheOptions() cache.Options {
	own := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{names.ManagedByLabel: names.ManagedBy})}
	applied := own
	applied.Transform = keepOwnFields
	home := cache.ByObject{Namespaces: map[string]cache.Config{names.SystemNamespace: {}}}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.Deployment{}:         applied,
			&corev1.Service{}:            applied,
			&batchv1.Job{}:               own,
			&discoveryv1.EndpointSlice{}: home,
			&networkingv1.Ingress{}:      home,
		},
	}
}

// keepOwnFields strips the managed fields of all others: what is compared with what sless applied needs sless's.
func keepOwnFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil { // otherwise it says that an object is gone
		accessor.SetManagedFields(slices.DeleteFunc(accessor.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
			return entry.Manager != names.ManagedBy
		}))
	}
	return object, nil
}

// clientOptions keeps from the caches what the operator may not list and watch everywhere.
func clientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{
		DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Pod{}, &appsv1.ReplicaSet{}},
	}}
}

func addControllers(mgr ctrl.Manager, cfg *config.Config, kind build.Kind) error {
	clientset, err := kubernetes.NewForConfig(mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	builder, err := build.New(kind, *cfg, clientset)
	if err != nil {
		return fmt.Errorf("make the builder: %w", err)
	}
	tenants := &tenant.Tenants{Client: mgr.GetClient(), PullConfigFile: cfg.Registry.PullConfigFile, Network: cfg.Network, Limits: cfg.Tenants}
	environments := &env.Store{Client: mgr.GetClient(), Reader: mgr.GetAPIReader()}
	gateways := &function.GatewayPods{Client: mgr.GetClient(), HTTP: directClient(), AdminPort: gatewayAdminPort}
	records, err := newRecords(cfg.Ledger)
	if err != nil {
		return err
	}
	for _, runnable := range []manager.Runnable{builder, tenants, gateways, records, keeperOf(cfg.Ledger)} {
		if err := mgr.Add(runnable); err != nil {
			return fmt.Errorf("add %T: %w", runnable, err)
		}
	}
	for _, controller := range []interface{ SetupWithManager(ctrl.Manager) error }{
		&function.Reconciler{
			Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Config: cfg, Builder: builder, Tenants: tenants, Env: environments,
			Gateways: gateways,
			Recorder: mgr.GetEventRecorder("sless-operator"),
		},
		&trigger.Reconciler{Client: mgr.GetClient(), Config: cfg},
		&functionjob.Reconciler{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Config: cfg, Tenants: tenants, Env: environments, Ledger: records},
	} {
		if err := controller.SetupWithManager(mgr); err != nil {
			return fmt.Errorf("set up %T: %w", controller, err)
		}
	}
	return nil
}

// directClient calls pods by their address, whatever proxy the environment names for the rest of the world.
func directClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute}}
}
