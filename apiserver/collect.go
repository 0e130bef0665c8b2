package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"

	"github.com/naeel/sless/api/v1alpha1"
)

const (
	// collectEvery is how often what nobody needs is looked for, give or take a half, so that replicas don't all do it at once.
	collectEvery   = time.Hour
	collectTimeout = 10 * time.Minute
)

// collect removes archives that no function names, and Secrets of requests that were cut off, until ctx ends.
func (s *Service) collect(ctx context.Context) error {
	for {
		timer := time.NewTimer(collectEvery/2 + rand.N(collectEvery))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		s.collectOnce(ctx)
	}
}

func (s *Service) collectOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	removed, err := s.archives.Collect(ctx, s.references)
	if err != nil {
		s.server.Log.ErrorContext(ctx, "collect archives", "error", err) // the next round tries again
	}
	if removed > 0 {
		s.server.Log.InfoContext(ctx, "archives removed that no function names", "count", removed)
	}
	if err := s.secrets.Sweep(ctx, time.Now()); err != nil {
		s.server.Log.ErrorContext(ctx, "sweep Secrets", "error", err) // the same
	}
}

// references reads from the cluster, page by page, which uploaded archives functions name.
func (s *Service) references(ctx context.Context) (map[string]map[string]bool, error) {
	tenants := map[string]string{}
	err := s.pages(ctx, func() client.ObjectList { return &corev1.NamespaceList{} }, func(list client.ObjectList) {
		for _, namespace := range list.(*corev1.NamespaceList).Items {
			tenants[namespace.Name] = string(namespace.UID)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	named := map[string]map[string]bool{}
	err = s.pages(ctx, func() client.ObjectList { return &v1alpha1.FunctionList{} }, func(list client.ObjectList) {
		for _, fn := range list.(*v1alpha1.FunctionList).Items {
			if s3 := fn.Spec.Source.S3; s3 != nil && s3.SecretName == "" {
				tenant := tenants[fn.Namespace]
				if named[tenant] == nil {
					named[tenant] = map[string]bool{}
				}
				named[tenant][s3.Key] = true
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list Functions: %w", err)
	}
	return named, nil
}

// pages lists everything of a kind, some at a time.
func (s *Service) pages(ctx context.Context, create func() client.ObjectList, take func(client.ObjectList)) error {
	options := &client.ListOptions{Limit: 200}
	for {
		list := create()
		if err := s.store.List(ctx, list, options); err != nil {
			return err
		}
		take(list)
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}
