package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/naeel/sless/api/rest"
)

const deletePeriod = 5 * time.Minute

// model is the attributes of a resource of a kind.
type model[T, M any] interface {
	*M
	common() *object
	limits() timeouts.Value
	// check is the rules between the attributes of a configuration.
	check(diags *diag.Diagnostics)
	// foresee plans what the configuration leaves open; state is nil for a new object. What stays known does not change, and an unknown
	// phase means that there is something to wait for.
	foresee(ctx context.Context, config, state *M, diags *diag.Diagnostics)
	// wire is what the API is told to make it.
	wire() T
	// patch is the merge patch that makes of a state what was planned.
	patch(state *M) map[string]any
	// refresh takes over what the API shows, in the form that it had before where there are several.
	refresh(*T)
	// refreshFacts takes over what the platform has made of it.
	refreshFacts(*T)
	// keepPlanned takes back what the plan had promised; what has changed since shows at the next refresh.
	keepPlanned(plan *M)
}

// objectResource is the resource of a kind: what all kinds do in the same way.
type objectResource[T, M any, P model[T, M]] struct {
	kind[T]
	platform *platform
	schema   func(context.Context) schema.Schema
	// fields says where in the schema a field of the API is.
	fields map[string]path.Path
	// prepare does what comes before a write, such as an upload; state is nil for a new object. nil: nothing.
	prepare func(ctx context.Context, client *rest.Client, plan, config, state *M, diags *diag.Diagnostics)
	// create makes the object, once.
	create func(context.Context, rest.Resource[T], T) (rest.Stored[T], error)
	// same says whether an object that exists is what was asked for.
	same func(asked, present *T) bool
	// patience is how long to wait when the configuration does not say.
	patience func(*M) time.Duration
	// await waits for what was written to work, and returns what it saw last. It does not wait for no time.
	await func(ctx context.Context, client *rest.Client, plan *M, written *T, wait time.Duration, diags *diag.Diagnostics) *T
	// runsOnce says that a change of what exists has no end to wait for.
	runsOnce bool
	// remember is what to keep beside the state after a write, and recall compares that with what is there. nil: nothing.
	remember func(*M) []byte
	recall   func(*M, *T, []byte)
}

// memory is where the private state has what remember says.
const memory = "source"

type privateState interface {
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

// Metadata implements resource.Resource.
func (r *objectResource[T, M, P]) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + r.name
}

// IdentitySchema implements resource.ResourceWithIdentity.
func (r *objectResource[T, M, P]) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = identitySchema()
}

// Schema implements resource.Resource.
func (r *objectResource[T, M, P]) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.schema(ctx)
	resp.Schema.Attributes["id"] = idAttribute()
	resp.Schema.Attributes["namespace"] = namespaceAttribute()
}

// Configure implements resource.ResourceWithConfigure.
func (r *objectResource[T, M, P]) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	r.platform = configured(req.ProviderData)
}

// ImportState implements resource.ResourceWithImportState.
func (r *objectResource[T, M, P]) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	importState(ctx, req, resp)
}

// ValidateConfig implements resource.ResourceWithValidateConfig.
func (r *objectResource[T, M, P]) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var config M
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if !resp.Diagnostics.HasError() {
		P(&config).check(&resp.Diagnostics)
	}
}

// ModifyPlan implements resource.ResourceWithModifyPlan. A plan shows as unknown what changes, and nothing more.
func (r *objectResource[T, M, P]) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return // being destroyed: that needs nothing of what planning looks at
	}
	var plan, config M
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	var state *M
	before := types.StringNull()
	if !req.State.Raw.IsNull() {
		state = new(M)
		resp.Diagnostics.Append(req.State.Get(ctx, state)...)
		before = P(state).common().Namespace
	}
	if resp.Diagnostics.HasError() {
		return
	}
	planned, replace := P(&plan).common(), false
	if planned.Namespace, replace = planNamespace(r.platform, P(&config).common().Namespace, before); replace {
		resp.RequiresReplace = append(resp.RequiresReplace, path.Root("namespace"))
	}
	planned.ID = joinID(planned.Namespace, planned.Name)
	P(&plan).foresee(ctx, &config, state, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &plan)...)
}

// Create implements resource.Resource. The state is written as soon as the object exists, with nothing in it that is not so yet: an
// interrupted apply leaves no object that Terraform does not know.
func (r *objectResource[T, M, P]) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan, config M
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() || !r.platform.demand(&resp.Diagnostics) || !r.prepared(ctx, &plan, &config, nil, &resp.Diagnostics) {
		return
	}
	of := P(&plan).common().identity
	namespace, name := of.Namespace.ValueString(), of.Name.ValueString()
	created, err := r.begin(ctx, of, P(&plan).wire())
	if err != nil {
		addError(&resp.Diagnostics, r.what(namespace, name)+" can't be made", err, r.fields)
		if rest.IsAlreadyExists(err) {
			resp.Diagnostics.AddWarning("The "+r.name+" exists", "To take it over: terraform import ADDRESS "+namespace+"/"+name)
		}
		return
	}
	begun := plan
	P(&begun).refreshFacts(&created.Object)
	resp.Diagnostics.Append(resp.State.Set(ctx, &begun)...)
	resp.Diagnostics.Append(setIdentity(ctx, resp.Identity, of)...)
	r.keep(ctx, resp.Private, &plan, &resp.Diagnostics)
	wait, diags := P(&plan).limits().Create(ctx, r.patience(&plan))
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	after := r.settled(ctx, &plan, &created.Object, wait, &resp.Diagnostics)
	r.finished(ctx, of)
	resp.Diagnostics.Append(resp.State.Set(ctx, after)...)
}

// unfinished is a label of objects whose creation Terraform does not know to have ended.
const unfinished = "terraform.sless.io/unfinished"

// begin creates an object. One that an apply left unfinished when it was killed, so that no state knows it, is taken over.
func (r *objectResource[T, M, P]) begin(ctx context.Context, of identity, wire T) (rest.Stored[T], error) {
	objects, name := r.list(r.platform.client, of.Namespace.ValueString()), of.Name.ValueString()
	*r.labels(&wire) = map[string]string{unfinished: "true"}
	created, err := r.create(ctx, objects, wire)
	if !rest.IsAlreadyExists(err) {
		return created, err
	}
	present, getErr := objects.Get(ctx, name, rest.Fresh())
	if getErr != nil || (*r.labels(&present.Object))[unfinished] == "" || (r.runsOnce && !r.same(&wire, &present.Object)) {
		return created, err
	}
	ctx, cancel := uncut(ctx)
	defer cancel()
	return objects.Replace(ctx, name, wire, rest.IfMatch(present.ETag))
}

// finished takes the label off again. Should that fail, nothing is wrong but that a later create may take the object over.
func (r *objectResource[T, M, P]) finished(ctx context.Context, of identity) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, _ = r.list(r.platform.client, of.Namespace.ValueString()).Patch(ctx, of.Name.ValueString(), map[string]any{"labels": map[string]any{unfinished: nil}})
}

func (r *objectResource[T, M, P]) prepared(ctx context.Context, plan, config, state *M, diags *diag.Diagnostics) bool {
	if r.prepare != nil {
		r.prepare(ctx, r.platform.client, plan, config, state, diags)
	}
	return !diags.HasError()
}

// keep writes to the private state what is to be remembered.
func (r *objectResource[T, M, P]) keep(ctx context.Context, private privateState, plan *M, diags *diag.Diagnostics) {
	if r.remember == nil {
		return
	}
	if remembered := r.remember(plan); remembered != nil {
		diags.Append(private.SetKey(ctx, memory, remembered)...)
	}
}

// settled is the state after a write: when that has come through, all of the plan, else what has.
func (r *objectResource[T, M, P]) settled(ctx context.Context, plan *M, written *T, wait time.Duration, diags *diag.Diagnostics) *M {
	after := *plan
	P(&after).refreshFacts(r.await(ctx, r.platform.client, plan, written, wait, diags))
	if !diags.HasError() {
		P(&after).keepPlanned(plan)
	}
	return &after
}

// Read implements resource.Resource.
func (r *objectResource[T, M, P]) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state M
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.platform.ready() {
		return
	}
	of := P(&state).common().identity
	namespace, name := of.Namespace.ValueString(), of.Name.ValueString()
	stored, err := r.list(r.platform.client, namespace).Get(ctx, name)
	switch {
	case rest.IsNotFound(err):
		resp.State.RemoveResource(ctx)
	case err != nil:
		addError(&resp.Diagnostics, r.what(namespace, name)+" can't be read", err, nil)
		return
	default:
		P(&state).refresh(&stored.Object)
		if r.recall != nil {
			remembered, diags := req.Private.GetKey(ctx, memory)
			resp.Diagnostics.Append(diags...)
			r.recall(&state, &stored.Object, remembered)
		}
		resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
	}
	resp.Diagnostics.Append(setIdentity(ctx, resp.Identity, of)...)
}

// Update implements resource.Resource. When a change does not come through, the state has what is there instead.
func (r *objectResource[T, M, P]) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state, config M
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() || !r.platform.demand(&resp.Diagnostics) || !r.prepared(ctx, &plan, &config, &state, &resp.Diagnostics) {
		return
	}
	after, of, patch := &plan, P(&plan).common().identity, P(&plan).patch(&state)
	if len(patch) > 0 || P(&plan).common().Phase.IsUnknown() {
		written, err := r.write(ctx, of, patch)
		if err != nil {
			addError(&resp.Diagnostics, r.what(of.Namespace.ValueString(), of.Name.ValueString())+" can't be changed", err, r.fields)
			return
		}
		r.keep(ctx, resp.Private, &plan, &resp.Diagnostics)
		wait, diags := P(&plan).limits().Update(ctx, r.patience(&plan))
		resp.Diagnostics.Append(diags...)
		if r.runsOnce {
			wait = 0
		}
		after = r.settled(ctx, &plan, written, wait, &resp.Diagnostics)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, after)...)
	resp.Diagnostics.Append(setIdentity(ctx, resp.Identity, of)...)
}

func (r *objectResource[T, M, P]) write(ctx context.Context, of identity, patch map[string]any) (*T, error) {
	ctx, cancel := uncut(ctx)
	defer cancel()
	objects := r.list(r.platform.client, of.Namespace.ValueString())
	if len(patch) == 0 {
		stored, err := objects.Get(ctx, of.Name.ValueString(), rest.Fresh())
		return &stored.Object, err
	}
	stored, err := objects.Patch(ctx, of.Name.ValueString(), patch)
	return &stored.Object, err
}

// Delete implements resource.Resource.
func (r *objectResource[T, M, P]) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state M
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.platform.demand(&resp.Diagnostics) {
		return
	}
	wait, diags := P(&state).limits().Delete(ctx, deletePeriod)
	resp.Diagnostics.Append(diags...)
	r.remove(ctx, r.platform.client, P(&state).common().identity, wait, &resp.Diagnostics)
}
