package provider

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/naeel/sless/api/rest"
)

func newJobResource() resource.Resource {
	return &objectResource[rest.Job, jobModel, *jobModel]{
		kind: jobs, schema: jobSchema, fields: jobFields, create: createJob, await: awaitJob, runsOnce: true,
		same: func(asked, present *rest.Job) bool {
			return asked.Function == present.Function && asked.EventJSON == present.EventJSON && asked.RunID == present.RunID
		},
		patience: func(m *jobModel) time.Duration { return time.Duration(m.WaitTimeoutSec.ValueInt64()) * time.Second },
	}
}

// createJob makes a job, once however often it has to be asked for.
func createJob(ctx context.Context, jobs rest.Resource[rest.Job], wire rest.Job) (rest.Stored[rest.Job], error) {
	ctx, cancel := uncut(ctx)
	defer cancel()
	return jobs.Create(ctx, wire, rest.IdempotencyKey(rand.Text()))
}

func awaitJob(ctx context.Context, client *rest.Client, plan *jobModel, written *rest.Job, wait time.Duration, diags *diag.Diagnostics) *rest.Job {
	if wait <= 0 || written.RunID == 0 {
		return written
	}
	return awaitRun(ctx, client, written, wait, plan.FailOnError.ValueBool(), diags)
}

// awaitRun looks at a job until its run has ended, and returns what it saw last. A failure is an error or a warning.
func awaitRun(ctx context.Context, client *rest.Client, created *rest.Job, wait time.Duration, strict bool, diags *diag.Diagnostics) *rest.Job {
	seen, err := jobs.follow(ctx, client, created, wait, func(seen *rest.Job) progress { return runProgress(created, seen.Status) })
	complain := diags.AddWarning
	if strict || ctx.Err() != nil || err == errDeleted {
		complain = diags.AddError
	}
	switch {
	case err != nil:
		complain(jobs.unended(err, seen))
	case seen.Status.Phase == rest.JobFailed:
		complain(jobs.what(seen.Namespace, seen.Name)+" failed", seen.Status.Message)
	}
	return seen
}

func runProgress(created *rest.Job, status *rest.JobStatus) progress {
	switch status.Phase {
	case rest.JobSucceeded, rest.JobFailed:
		if status.RunID == created.RunID || status.RunID == 0 { // 0: it failed before it could start
			return done
		}
	case rest.JobSkipped:
		return done
	}
	return near
}
