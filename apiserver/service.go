package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	kuberest "k8s.io/client-go/rest"

	"github.com/naeel/sless/apiserver/internal/auth"
	"github.com/naeel/sless/apiserver/internal/authz"
	"github.com/naeel/sless/apiserver/internal/config"
	"github.com/naeel/sless/apiserver/internal/deployed"
	"github.com/naeel/sless/apiserver/internal/invocations"
	"github.com/naeel/sless/apiserver/internal/resources"
	"github.com/naeel/sless/apiserver/internal/server"
	"github.com/naeel/sless/apiserver/internal/sources"
	"github.com/naeel/sless/apiserver/internal/store"
	"github.com/naeel/sless/apiserver/internal/subresources"
	"github.com/naeel/sless/ledger"
)

// goneDelay is how long requests are still taken after SIGTERM, until no Service sends any more: a node changes its rules once a second, and later
// when it is busy.
const goneDelay = 5 * time.Second

// Service is the apiserver, put together.
type Service struct {
	server   *server.Server
	api      huma.API
	store    *store.Store
	tasks    *tasks
	archives *sources.Store
	secrets  *resources.Secrets
	ledger   *ledger.Reader
	limits   config.Limits
}

// NewService puts the apiserver together for the cluster of kube.
func NewService(kube *kuberest.Config, settings *config.Config, log *slog.Logger) (*Service, error) {
	kube = kuberest.CopyConfig(kube)
	kube.QPS, kube.Burst = 500, 1000 // the API server's own fairness is the limit
	kube.UserAgent = "sless-apiserver"
	client, err := kubernetes.NewForConfig(kube)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	objects, err := store.New(kube)
	if err != nil {
		return nil, err
	}
	authenticator, err := auth.New(settings.APIServer.Auth, client.AuthenticationV1().TokenReviews())
	if err != nil {
		return nil, fmt.Errorf("authentication: %w", err)
	}
	s := &Service{store: objects, tasks: newTasks(), limits: settings.APIServer.Limits}
	s.server = server.New(settings.APIServer, authenticator, objects.Synced, log)
	authorize := server.Authorize(authz.New(client.AuthorizationV1().SubjectAccessReviews()))
	s.api = server.NewAPI(s.server.Mux, authorize)
	if err := s.register(client, settings, authorize, log); err != nil {
		return nil, err
	}
	return s, server.ServeDocs(s.server.Mux, s.api)
}

// register adds all operations.
func (s *Service) register(client kubernetes.Interface, settings *config.Config, authorize resources.Authorize, log *slog.Logger) error {
	archives, err := sources.New(settings.ObjectStore, time.Duration(s.limits.SourceTTLHours)*time.Hour)
	if err != nil {
		return err
	}
	gateway, err := subresources.NewGateway(settings.Gateway, server.WriteProblem, log)
	if err != nil {
		return err
	}
	registry, err := deployed.New(settings.Registry)
	if err != nil {
		return err
	}
	s.archives = archives
	receiver := sources.NewReceiver(archives, s.store.Tenant, settings.Build.MaxArchiveBytes, s.limits.Uploads)
	key, err := sources.DeriveKey(settings.ObjectStore, "digests of secret_env")
	if err != nil {
		return err
	}
	s.secrets = &resources.Secrets{Store: s.store, Key: key, Later: s.tasks.later}
	resources.Register(s.api, s.store, authorize, receiver.Receive, s.secrets)
	sources.Register(s.api, receiver)
	below := &subresources.Handlers{
		Store: s.store, Kube: client, Registry: registry, Gateway: gateway,
		Downloads: make(chan struct{}, s.limits.Uploads), WriteIdle: time.Duration(s.limits.BodyIdleSeconds) * time.Second,
	}
	below.Register(s.api)
	s.ledger = ledger.NewReader(settings.Ledger.DSNFile)
	(&invocations.Handlers{Ledger: s.ledger, Tenant: s.store.Tenant}).Register(s.api)
	return nil
}

// Run serves until ctx ends, and then until requests in flight have been answered.
func (s *Service) Run(ctx context.Context, public, admin string) error {
	publicListener, err := net.Listen("tcp", public)
	if err != nil {
		return err
	}
	adminListener, err := net.Listen("tcp", admin)
	if err != nil {
		return err
	}
	return s.Serve(ctx, publicListener, adminListener)
}

// Serve is Run with listeners that are open.
func (s *Service) Serve(ctx context.Context, public, admin net.Listener) error {
	api, err := s.server.HTTP(s.server.Public())
	if err != nil {
		return err
	}
	health := &http.Server{Handler: s.server.Admin(), ReadHeaderTimeout: 5 * time.Second}
	// What serves requests outlives ctx, so that those in flight are answered.
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return ended(s.store.Start(working), "cache") })
	group.Go(func() error { return ended(server.Serve(api, public), "public listener") })
	group.Go(func() error { return ended(s.collect(working), "collector") })
	group.Go(func() error { return ended(health.Serve(admin), "admin listener") })
	group.Go(func() error {
		defer stop()
		<-ctx.Done()
		s.server.Drain()
		time.Sleep(goneDelay)
		end, cancel := context.WithTimeout(working, time.Duration(s.limits.DrainSeconds)*time.Second)
		defer cancel()
		err := api.Shutdown(end)
		if errors.Is(err, context.DeadlineExceeded) {
			err = api.Close()
		}
		s.tasks.finish(end)
		s.ledger.Close()
		return errors.Join(err, health.Close())
	})
	return group.Wait()
}

// ended says what is wrong when a part of the service ends: nothing when it was told to.
func ended(err error, part string) error {
	if err == nil || errors.Is(err, http.ErrServerClosed) || errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("%s: %w", part, err)
}
