package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/naeel/sless/api/rest"
)

const (
	// buildMargin is how much longer than a build the provider waits.
	buildMargin  = 2 * time.Minute
	deletePeriod = 5 * time.Minute
)

type functionResource struct{ platform *platform }

func newFunctionResource() resource.Resource { return &functionResource{} }

// Metadata implements resource.Resource.
func (r *functionResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_function"
}

// IdentitySchema implements resource.ResourceWithIdentity.
func (r *functionResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = identitySchema()
}

// Configure implements resource.ResourceWithConfigure.
func (r *functionResource) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	r.platform = configured(req.ProviderData)
}

// ImportState implements resource.ResourceWithImportState.
func (r *functionResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	importState(ctx, req, resp)
}

// sourceKey is where the private state has the key of the archive that the provider has uploaded.
const sourceKey = "source"

func keyOf(source *rest.Source) []byte {
	key := ""
	if source != nil && source.S3 != nil {
		key = source.S3.Key
	}
	encoded, _ := json.Marshal(key) // a string always encodes
	return encoded
}

// Create implements resource.Resource. The state is written as soon as the function exists, without the hash of code that is not
// deployed yet.
func (r *functionResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan, config functionModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() || !r.platform.demand(&resp.Diagnostics) {
		return
	}
	namespace, name := plan.Namespace.ValueString(), plan.Name.ValueString()
	source, mark, diags := config.source(ctx, r.platform.client, namespace, plan.CodeHash)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	plan.CodeHash = mark
	wire := plan.wire()
	wire.Source = source
	if !config.SecretEnvWO.IsNull() {
		wire.SecretEnv = texts(config.SecretEnvWO)
	}
	functions := r.platform.client.Functions(namespace)
	created, err := createOnce(ctx, functions, name, wire, func(present *rest.Function) bool { return sameFunction(&wire, present) })
	if err != nil {
		addError(&resp.Diagnostics, "Function "+namespace+"/"+name+" can't be made", err, functionFields)
		if rest.IsAlreadyExists(err) {
			resp.Diagnostics.AddWarning("The function exists", "To take it over: terraform import ADDRESS "+namespace+"/"+name)
		}
		return
	}
	unfinished := plan
	unfinished.refreshFacts(&created.Object)
	unfinished.Replicas = orElse(integer(created.Object.Replicas), 1)
	resp.Diagnostics.Append(resp.State.Set(ctx, &unfinished)...)
	resp.Diagnostics.Append(setIdentity(ctx, resp.Identity, plan.Namespace, plan.Name)...)
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, sourceKey, keyOf(source))...)
	wait, diags := plan.Timeouts.Create(ctx, plan.patience())
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	seen := r.await(ctx, &created.Object, wait, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		unfinished.refreshFacts(seen)
	} else {
		unfinished = plan
		unfinished.finish(&plan, seen)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &unfinished)...)
}

// sameFunction says whether a function that exists is what was asked for.
func sameFunction(asked, present *rest.Function) bool {
	return asked.CodeHash == present.CodeHash && asked.Runtime == present.Runtime && reflect.DeepEqual(asked.Source, present.Source) &&
		len(asked.Env) == len(present.Env) && len(asked.SecretEnv) == len(present.SecretKeys)
}

// patience is how long to wait for a build and what comes after it.
func (m *functionModel) patience() time.Duration {
	return time.Duration(m.BuildTimeoutSec.ValueInt64())*time.Second + buildMargin
}

// finish takes the platform's facts over where the plan left them open; one that has changed since shows at the next refresh.
func (m *functionModel) finish(plan *functionModel, seen *rest.Function) {
	m.refreshFacts(seen)
	for _, fact := range []struct{ value, planned *types.String }{
		{&m.CodeHash, &plan.CodeHash}, {&m.Image, &plan.Image}, {&m.CodeSHA256, &plan.CodeSHA256}, {&m.LastBuiltAt, &plan.LastBuiltAt},
		{&m.Phase, &plan.Phase}, {&m.URL, &plan.URL},
	} {
		if !fact.planned.IsUnknown() {
			*fact.value = *fact.planned
		}
	}
	if m.Replicas.IsUnknown() {
		m.Replicas = orElse(integer(seen.Replicas), 1)
	}
}

// Read implements resource.Resource.
func (r *functionResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state functionModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.platform.ready() {
		return
	}
	stored, err := r.platform.client.Functions(state.Namespace.ValueString()).Get(ctx, state.Name.ValueString())
	if rest.IsNotFound(err) {
		resp.State.RemoveResource(ctx)
		resp.Diagnostics.Append(setIdentity(ctx, resp.Identity, state.Namespace, state.Name)...)
		return
	}
	if err != nil {
		addError(&resp.Diagnostics, "Function "+state.Namespace.ValueString()+"/"+state.Name.ValueString()+" can't be read", err, nil)
		return
	}
	state.refresh(&stored.Object)
	uploaded, diags := req.Private.GetKey(ctx, sourceKey)
	resp.Diagnostics.Append(diags...)
	if state.uploads() && len(uploaded) > 0 && string(uploaded) != string(keyOf(stored.Object.Source)) {
		state.CodeHash = types.StringNull() // somebody else's code is there, whatever its mark says
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
	resp.Diagnostics.Append(setIdentity(ctx, resp.Identity, state.Namespace, state.Name)...)
}

// Update implements resource.Resource. When the new code does not come to serve, the state has the hash of the code that does.
func (r *functionResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state, config functionModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() || !r.platform.demand(&resp.Diagnostics) {
		return
	}
	patch, source := r.patch(ctx, &plan, &state, &config, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	written, err := r.write(ctx, &state, patch)
	if err != nil {
		addError(&resp.Diagnostics, "Function "+plan.ID.ValueString()+" can't be changed", err, functionFields)
		return
	}
	if source != nil {
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, sourceKey, keyOf(source))...)
	}
	wait, diags := plan.Timeouts.Update(ctx, plan.patience())
	resp.Diagnostics.Append(diags...)
	seen := written
	if len(patch) > 0 || state.Phase.ValueString() == rest.FunctionFailed {
		seen = r.await(ctx, written, wait, &resp.Diagnostics)
	}
	after := plan
	if resp.Diagnostics.HasError() {
		after.refreshFacts(seen)
	} else {
		after.finish(&plan, seen)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &after)...)
	resp.Diagnostics.Append(setIdentity(ctx, resp.Identity, plan.Namespace, plan.Name)...)
}

func (r *functionResource) write(ctx context.Context, state *functionModel, patch map[string]any) (*rest.Function, error) {
	ctx, cancel := settled(ctx)
	defer cancel()
	functions := r.platform.client.Functions(state.Namespace.ValueString())
	if len(patch) == 0 {
		stored, err := functions.Get(ctx, state.Name.ValueString(), rest.Fresh())
		return &stored.Object, err
	}
	stored, err := functions.Patch(ctx, state.Name.ValueString(), patch)
	return &stored.Object, err
}

// Delete implements resource.Resource.
func (r *functionResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state functionModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.platform.demand(&resp.Diagnostics) {
		return
	}
	wait, diags := state.Timeouts.Delete(ctx, deletePeriod)
	resp.Diagnostics.Append(diags...)
	remove(ctx, r.platform.client.Functions(state.Namespace.ValueString()), state.Name.ValueString(), "Function "+state.ID.ValueString(), wait, &resp.Diagnostics)
}

// remove deletes an object and waits until it is gone.
func remove[T any](ctx context.Context, resource rest.Resource[T], name, what string, wait time.Duration, diags *diag.Diagnostics) {
	err := resource.Delete(ctx, name)
	if err == nil {
		err = awaitGone(ctx, resource, name, wait)
	}
	if err != nil && !rest.IsNotFound(err) {
		addError(diags, what+" can't be deleted", err, nil)
	}
}

// await looks at a function until this generation of it serves, and returns what it saw last.
func (r *functionResource) await(ctx context.Context, written *rest.Function, wait time.Duration, diags *diag.Diagnostics) *rest.Function {
	functions := r.platform.client.Functions(written.Namespace)
	seen, started := written, time.Now()
	failed := false
	err := poll(ctx, wait, func(ctx context.Context) (progress, error) {
		stored, err := functions.Get(ctx, written.Name, rest.Fresh())
		switch {
		case rest.IsNotFound(err) && seen == written && time.Since(started) < absentFor:
			return near, nil
		case rest.IsNotFound(err):
			return far, errDeleted
		case err != nil:
			return far, err
		case stored.Object.UID != written.UID:
			return far, errDeleted
		}
		seen = &stored.Object
		var state progress
		state, failed = functionProgress(written, seen)
		return state, nil
	})
	what := "Function " + written.Namespace + "/" + written.Name
	switch {
	case failed:
		diags.AddError(what+" does not serve: "+seen.Status.Reason, failureOf(seen.Status))
	case err != nil:
		waitError(diags, what+" does not serve yet", err, lastSeen(seen.Status))
	}
	return seen
}

// functionProgress says how far the generation that was written, or a later one, has come.
func functionProgress(written, seen *rest.Function) (state progress, failed bool) {
	status := seen.Status
	if status == nil || status.ObservedGeneration < written.Generation || status.ObservedGeneration < seen.Generation {
		return near, false
	}
	switch status.Phase {
	case rest.FunctionReady:
		if status.CodeHash == seen.CodeHash {
			return done, false
		}
		return near, false
	case rest.FunctionFailed:
		return done, true
	case rest.FunctionDeploying:
		return near, false
	}
	return far, false
}

func lastSeen(status *rest.FunctionStatus) string {
	if status == nil {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", status.Phase, status.Reason, status.Message))
}

// failureOf is the platform's message with the last lines of the build's log.
func failureOf(status *rest.FunctionStatus) string {
	message := status.Message
	if status.Build == nil || status.Build.LogTail == "" {
		return message
	}
	lines := strings.Split(strings.TrimRight(status.Build.LogTail, "\n"), "\n")
	const most = 20
	return message + "\n\nThe end of the build's log:\n" + strings.Join(lines[max(0, len(lines)-most):], "\n")
}
