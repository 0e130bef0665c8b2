package main

import (
	"context"
	"errors"
)

// up goes all the way from nothing to sample functions that answer. What is there already stays as it is.
func up(ctx context.Context, a *app) error {
	if a.external {
		return inOrder(ctx, a, start, buildImages, installSless, samples)
	}
	if err := a.node.InstallPackages(ctx); err != nil {
		return err
	}
	// Mostly downloads, beside what is mostly compilation.
	awaitBases := a.warmBases(ctx)
	if err := errors.Join(a.buildPrograms(ctx), awaitBases()); err != nil {
		return err
	}
	if err := a.startAll(ctx); err != nil {
		return err
	}
	return inOrder(ctx, a, buildImages, installSless, samples)
}

func inOrder(ctx context.Context, a *app, steps ...func(context.Context, *app) error) error {
	for _, step := range steps {
		if err := step(ctx, a); err != nil {
			return err
		}
	}
	return nil
}
