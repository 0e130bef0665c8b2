package provider

import (
	"context"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/naeel/sless/api/rest"
)

const (
	// triggerPatience covers a function that is built in the same apply.
	triggerPatience = 5 * time.Minute
	// mendable is how long a trigger may say that its function is absent or another trigger in the way: other parts of the same apply
	// may be about to mend that.
	mendable = 30 * time.Second
)

type triggerResource struct{ platform *platform }

func newTriggerResource() resource.Resource { return &triggerResource{} }

// Metadata implements resource.Resource.
func (r *triggerResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_trigger"
}

// IdentitySchema implements resource.ResourceWithIdentity.
func (r *triggerResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = identitySchema()
}

// Configure implements resource.ResourceWithConfigure.
func (r *triggerResource) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	r.platform = configured(req.ProviderData)
}

// ImportState implements resource.ResourceWithImportState.
func (r *triggerResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	importState(ctx, req, resp)
}

// ValidateConfig implements resource.ResourceWithValidateConfig: each type has its own attributes.
func (r *triggerResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var config triggerModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() || config.Type.IsUnknown() {
		return
	}
	foreign := config.cronOnly()
	if config.Type.ValueString() == rest.TriggerCron {
		foreign = config.httpOnly()
		if config.Schedule.IsNull() {
			resp.Diagnostics.AddAttributeError(path.Root("schedule"), "The schedule is missing", "A trigger of type cron needs a schedule, for example \"*/5 * * * *\".")
		}
	}
	for name, isNull := range foreign {
		if !isNull {
			resp.Diagnostics.AddAttributeError(path.Root(name), "Not for this type", "A trigger of type "+config.Type.ValueString()+" has no "+name+".")
		}
	}
}

// ModifyPlan implements resource.ResourceWithModifyPlan: defaults depend on the type.
func (r *triggerResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return
	}
	var plan, config triggerModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	var state *triggerModel
	if !req.State.Raw.IsNull() {
		state = &triggerModel{}
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
	plan.setDefaults(&config)
	plan.planFacts(state)
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &plan)...)
}

// Create implements resource.Resource.
func (r *triggerResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan triggerModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.platform.demand(&resp.Diagnostics) {
		return
	}
	namespace, name, wire := plan.Namespace.ValueString(), plan.Name.ValueString(), plan.wire()
	created, err := createOnce(ctx, r.platform.client.Triggers(namespace), name, wire, func(present *rest.Trigger) bool {
		return present.Function == wire.Function && present.Type == wire.Type && present.Schedule == wire.Schedule
	})
	if err != nil {
		addError(&resp.Diagnostics, "Trigger "+namespace+"/"+name+" can't be made", err, triggerFields)
		return
	}
	unfinished := plan
	unfinished.refreshFacts(&created.Object)
	resp.Diagnostics.Append(resp.State.Set(ctx, &unfinished)...)
	resp.Diagnostics.Append(setIdentity(ctx, resp.Identity, plan.Namespace, plan.Name)...)
	wait, diags := plan.Timeouts.Create(ctx, triggerPatience)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	plan.refreshFacts(r.await(ctx, &created.Object, wait, &resp.Diagnostics))
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
}

// Read implements resource.Resource.
func (r *triggerResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state triggerModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.platform.ready() {
		return
	}
	stored, err := r.platform.client.Triggers(state.Namespace.ValueString()).Get(ctx, state.Name.ValueString())
	if rest.IsNotFound(err) {
		resp.State.RemoveResource(ctx)
		resp.Diagnostics.Append(setIdentity(ctx, resp.Identity, state.Namespace, state.Name)...)
		return
	}
	if err != nil {
		addError(&resp.Diagnostics, "Trigger "+state.Namespace.ValueString()+"/"+state.Name.ValueString()+" can't be read", err, nil)
		return
	}
	state.refresh(&stored.Object)
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
	resp.Diagnostics.Append(setIdentity(ctx, resp.Identity, state.Namespace, state.Name)...)
}

// Update implements resource.Resource.
func (r *triggerResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state triggerModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.platform.demand(&resp.Diagnostics) {
		return
	}
	written, err := r.write(ctx, &state, plan.patch(&state))
	if err != nil {
		addError(&resp.Diagnostics, "Trigger "+plan.ID.ValueString()+" can't be changed", err, triggerFields)
		return
	}
	wait, diags := plan.Timeouts.Update(ctx, triggerPatience)
	resp.Diagnostics.Append(diags...)
	seen := r.await(ctx, written, wait, &resp.Diagnostics)
	after := plan
	after.refreshFacts(seen)
	if !resp.Diagnostics.HasError() {
		after.keepPlanned(&plan)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &after)...)
	resp.Diagnostics.Append(setIdentity(ctx, resp.Identity, plan.Namespace, plan.Name)...)
}

func (r *triggerResource) write(ctx context.Context, state *triggerModel, patch map[string]any) (*rest.Trigger, error) {
	ctx, cancel := settled(ctx)
	defer cancel()
	triggers := r.platform.client.Triggers(state.Namespace.ValueString())
	if len(patch) == 0 {
		stored, err := triggers.Get(ctx, state.Name.ValueString(), rest.Fresh())
		return &stored.Object, err
	}
	stored, err := triggers.Patch(ctx, state.Name.ValueString(), patch)
	return &stored.Object, err
}

// Delete implements resource.Resource.
func (r *triggerResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state triggerModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.platform.demand(&resp.Diagnostics) {
		return
	}
	wait, diags := state.Timeouts.Delete(ctx, deletePeriod)
	resp.Diagnostics.Append(diags...)
	remove(ctx, r.platform.client.Triggers(state.Namespace.ValueString()), state.Name.ValueString(), "Trigger "+state.ID.ValueString(), wait, &resp.Diagnostics)
}

// await looks at a trigger until it works or is disabled, and returns what it saw last.
func (r *triggerResource) await(ctx context.Context, written *rest.Trigger, wait time.Duration, diags *diag.Diagnostics) *rest.Trigger {
	triggers := r.platform.client.Triggers(written.Namespace)
	seen, started, failed := written, time.Now(), false
	err := poll(ctx, wait, func(ctx context.Context) (progress, error) {
		stored, err := triggers.Get(ctx, written.Name, rest.Fresh())
		switch {
		case rest.IsNotFound(err) && seen == written && time.Since(started) < absentFor:
			return near, nil
		case rest.IsNotFound(err):
			return far, errDeleted
		case err != nil:
			return far, err
		}
		seen = &stored.Object
		status := seen.Status
		switch {
		case status == nil || status.ObservedGeneration < seen.Generation || status.ObservedGeneration < written.Generation:
			return near, nil
		case status.Phase == rest.TriggerReady && status.Reason == serving && seen.Type == rest.TriggerHTTP && status.URL == "":
			return near, nil // the address comes a moment later
		case status.Phase == rest.TriggerReady || status.Phase == rest.TriggerDisabled:
			return done, nil
		case status.Phase == rest.TriggerFailed && !(othersMend[status.Reason] && time.Since(started) < mendable):
			failed = true
			return done, nil
		case status.Phase == rest.TriggerFailed:
			return near, nil
		}
		return far, nil
	})
	what := "Trigger " + written.Namespace + "/" + written.Name
	switch {
	case failed:
		diags.AddError(what+" does not fire: "+seen.Status.Reason, seen.Status.Message)
	case err != nil:
		waitError(diags, what+" does not fire yet", err, strings.TrimSpace(triggerSeen(seen)))
	}
	return seen
}

// serving is the reason of a trigger whose calls reach pods.
const serving = "Ready"

// othersMend are the reasons that another part of the same apply may mend.
var othersMend = map[string]bool{"FunctionNotFound": true, "FunctionFailed": true, "Conflict": true}

func triggerSeen(trigger *rest.Trigger) string {
	if trigger.Status == nil {
		return ""
	}
	return trigger.Status.Phase + " " + trigger.Status.Reason + " " + trigger.Status.Message
}
