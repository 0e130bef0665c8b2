package provider

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/naeel/sless/api/rest"
)

type jobResource struct{ platform *platform }

func newJobResource() resource.Resource { return &jobResource{} }

// Metadata implements resource.Resource.
func (r *jobResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_job"
}

// IdentitySchema implements resource.ResourceWithIdentity.
func (r *jobResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = identitySchema()
}

// Configure implements resource.ResourceWithConfigure.
func (r *jobResource) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	r.platform = configured(req.ProviderData)
}

// ImportState implements resource.ResourceWithImportState.
func (r *jobResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	importState(ctx, req, resp)
}

// ModifyPlan implements resource.ResourceWithModifyPlan.
func (r *jobResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return
	}
	var plan, config jobModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	var state *jobModel
	if !req.State.Raw.IsNull() {
		state = &jobModel{}
		resp.Diagnostics.Append(req.State.Get(ctx, state)...)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	before := types.StringNull()
	if state != nil {
		before = state.Namespace
	}
	var replace bool
	if plan.Namespace, replace = planNamespace(r.platform, config.Namespace, before); replace {
		resp.RequiresReplace = append(resp.RequiresReplace, path.Root("namespace"))
	}
	plan.ID = joinID(plan.Namespace, plan.Name)
	plan.planFacts(state)
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &plan)...)
}

// Create implements resource.Resource.
func (r *jobResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan jobModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.platform.demand(&resp.Diagnostics) {
		return
	}
	created, err := r.create(ctx, plan.Namespace.ValueString(), plan.wire())
	if err != nil {
		addError(&resp.Diagnostics, "Job "+plan.ID.ValueString()+" can't be made", err, jobFields)
		return
	}
	unfinished := plan
	unfinished.refreshFacts(created)
	resp.Diagnostics.Append(resp.State.Set(ctx, &unfinished)...)
	resp.Diagnostics.Append(setIdentity(ctx, resp.Identity, plan.Namespace, plan.Name)...)
	if resp.Diagnostics.HasError() {
		return
	}
	seen := created
	if wait := time.Duration(plan.WaitTimeoutSec.ValueInt64()) * time.Second; wait > 0 && plan.RunID.ValueInt64() > 0 {
		seen = awaitRun(ctx, r.platform.client, created, wait, plan.FailOnError.ValueBool(), &resp.Diagnostics)
	}
	plan.refreshFacts(seen)
	if plan.RunID.ValueInt64() == 0 {
		plan.Phase = types.StringValue(rest.JobSkipped) // the platform will say so too; nothing is worth waiting for
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
}

// create makes a job, once however often it has to be asked for.
func (r *jobResource) create(ctx context.Context, namespace string, wire rest.Job) (*rest.Job, error) {
	ctx, cancel := settled(ctx)
	defer cancel()
	stored, err := r.platform.client.Jobs(namespace).Create(ctx, wire, rest.IdempotencyKey(rand.Text()))
	return &stored.Object, err
}

// Read implements resource.Resource.
func (r *jobResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state jobModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.platform.ready() {
		return
	}
	stored, err := r.platform.client.Jobs(state.Namespace.ValueString()).Get(ctx, state.Name.ValueString())
	if rest.IsNotFound(err) {
		resp.State.RemoveResource(ctx)
		resp.Diagnostics.Append(setIdentity(ctx, resp.Identity, state.Namespace, state.Name)...)
		return
	}
	if err != nil {
		addError(&resp.Diagnostics, "Job "+state.Namespace.ValueString()+"/"+state.Name.ValueString()+" can't be read", err, nil)
		return
	}
	state.refresh(&stored.Object)
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
	resp.Diagnostics.Append(setIdentity(ctx, resp.Identity, state.Namespace, state.Name)...)
}

// Update implements resource.Resource. It never runs anything: another run_id makes another job.
func (r *jobResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state jobModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.platform.demand(&resp.Diagnostics) {
		return
	}
	after := plan
	if patch := plan.patch(&state); len(patch) > 0 {
		written, cancel := settled(ctx)
		defer cancel()
		stored, err := r.platform.client.Jobs(plan.Namespace.ValueString()).Patch(written, plan.Name.ValueString(), patch)
		if err != nil {
			addError(&resp.Diagnostics, "Job "+plan.ID.ValueString()+" can't be changed", err, jobFields)
			return
		}
		after.refreshFacts(&stored.Object)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &after)...)
	resp.Diagnostics.Append(setIdentity(ctx, resp.Identity, plan.Namespace, plan.Name)...)
}

// Delete implements resource.Resource.
func (r *jobResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state jobModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.platform.demand(&resp.Diagnostics) {
		return
	}
	wait, diags := state.Timeouts.Delete(ctx, deletePeriod)
	resp.Diagnostics.Append(diags...)
	remove(ctx, r.platform.client.Jobs(state.Namespace.ValueString()), state.Name.ValueString(), "Job "+state.ID.ValueString(), wait, &resp.Diagnostics)
}

// awaitRun looks at a job until its run has ended, and returns what it saw last. A failure is an error or a warning.
func awaitRun(ctx context.Context, client *rest.Client, created *rest.Job, wait time.Duration, strict bool, diags *diag.Diagnostics) *rest.Job {
	jobs := client.Jobs(created.Namespace)
	seen, started := created, time.Now()
	err := poll(ctx, wait, func(ctx context.Context) (progress, error) {
		stored, err := jobs.Get(ctx, created.Name, rest.Fresh())
		switch {
		case rest.IsNotFound(err) && seen == created && time.Since(started) < absentFor:
			return near, nil
		case rest.IsNotFound(err):
			return far, errDeleted
		case err != nil:
			return far, err
		}
		seen = &stored.Object
		return runProgress(created, seen), nil
	})
	what := "Job " + created.Namespace + "/" + created.Name
	complain := diags.AddWarning
	if strict || ctx.Err() != nil || err == errDeleted {
		complain = diags.AddError
	}
	switch {
	case err != nil:
		var one diag.Diagnostics
		waitError(&one, what+" has not ended", err, jobSeen(seen))
		complain(one[0].Summary(), one[0].Detail())
	case seen.Status.Phase == rest.JobFailed:
		complain(what+" failed", seen.Status.Message)
	}
	return seen
}

func runProgress(created, seen *rest.Job) progress {
	status := seen.Status
	if status == nil || status.ObservedGeneration < created.Generation {
		return near
	}
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

func jobSeen(job *rest.Job) string {
	if job.Status == nil {
		return ""
	}
	return job.Status.Phase + " " + job.Status.Message
}
