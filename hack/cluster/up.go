package main

import "context"

// up goes all the way from nothing to sample functions that answer. What is there already stays as it is.
func up(ctx context.Context, a *app) error {
	for _, step := range []func(context.Context, *app) error{start, buildImages, installSless, samples} {
		if err := step(ctx, a); err != nil {
			return err
		}
	}
	return nil
}
