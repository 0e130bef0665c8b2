package main

import "context"

func up(ctx context.Context, a *app) error {
	for _, step := range []func(context.Context, *app) error{start, buildImages, installSless, samples} {
		if err := step(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

func installSless(ctx context.Context, a *app) error { return nil }
func samples(ctx context.Context, a *app) error      { return nil }
