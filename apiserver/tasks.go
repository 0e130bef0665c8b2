package main

import (
	"context"
	"sync"
	"time"
)

// tasks runs what is to be done a while after a request, or at the latest when the service ends.
type tasks struct {
	ending  chan struct{}
	running sync.WaitGroup
}

func newTasks() *tasks { return &tasks{ending: make(chan struct{})} }

// taskTimeout bounds one task.
const taskTimeout = 10 * time.Second

func (t *tasks) later(after time.Duration, task func(context.Context)) {
	t.running.Go(func() {
		timer := time.NewTimer(after)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-t.ending:
		}
		ctx, cancel := context.WithTimeout(context.Background(), taskTimeout)
		defer cancel()
		task(ctx)
	})
}

// finish runs what is left now, and returns when it has ended or ctx has. No request may be running any more.
func (t *tasks) finish(ctx context.Context) {
	close(t.ending)
	done := make(chan struct{})
	go func() {
		t.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
