package provider

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/naeel/sless/api/rest"
)

// runJobAction runs a function as a job. Versions of Terraform before 1.14 don't know actions.
type runJobAction struct{ platform *platform }

func newRunJobAction() action.Action { return &runJobAction{} }

type runJobModel struct {
	Function       types.String         `tfsdk:"function"`
	Namespace      types.String         `tfsdk:"namespace"`
	EventJSON      jsontypes.Normalized `tfsdk:"event_json"`
	TimeoutSec     types.Int64          `tfsdk:"timeout_sec"`
	WaitTimeoutSec types.Int64          `tfsdk:"wait_timeout_sec"`
}

// Metadata implements action.Action.
func (a *runJobAction) Metadata(_ context.Context, req action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_run_job"
}

// Schema implements action.Action.
func (a *runJobAction) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Runs a function once as a job, waits for its end and removes the job. Needs Terraform 1.14.",
		Attributes:          calledAttributes(),
	}
	resp.Schema.Attributes["timeout_sec"] = schema.Int64Attribute{
		Optional: true, Validators: []validator.Int64{int64validator.Between(1, 86400)}, MarkdownDescription: "How long the run may take, in seconds. Default 300.",
	}
	resp.Schema.Attributes["wait_timeout_sec"] = schema.Int64Attribute{
		Optional: true, Validators: []validator.Int64{int64validator.Between(1, 86400)}, MarkdownDescription: "How long to wait for the end, in seconds. Default 300.",
	}
}

// Configure implements action.ActionWithConfigure.
func (a *runJobAction) Configure(_ context.Context, req action.ConfigureRequest, _ *action.ConfigureResponse) {
	a.platform = configured(req.ProviderData)
}

// Invoke implements action.Action. The job stays when its run has not ended well, for its log.
func (a *runJobAction) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var model runJobModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() || !a.platform.demand(&resp.Diagnostics) {
		return
	}
	namespace, function := a.platform.in(model.Namespace), model.Function.ValueString()
	jobs := a.platform.client.Jobs(namespace)
	wire := rest.Job{Function: function, EventJSON: model.EventJSON.ValueString(), RunID: 1, TimeoutSec: small(model.TimeoutSec)}
	created, err := jobs.Create(ctx, wire, rest.IdempotencyKey(rand.Text()))
	if err != nil {
		addError(&resp.Diagnostics, "A job of function "+namespace+"/"+function+" can't be made", err, jobFields)
		return
	}
	resp.SendProgress(action.InvokeProgressEvent{Message: "job " + namespace + "/" + created.Object.Name + " runs"})
	wait := time.Duration(orElse(model.WaitTimeoutSec, 300).ValueInt64()) * time.Second
	seen := awaitRun(ctx, a.platform.client, &created.Object, wait, true, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.SendProgress(action.InvokeProgressEvent{Message: "job " + namespace + "/" + created.Object.Name + " returned " + shown([]byte(seen.Status.Result))})
	if err := jobs.Delete(ctx, created.Object.Name); err != nil && !rest.IsNotFound(err) {
		resp.Diagnostics.AddWarning("The job stays", "Job "+namespace+"/"+created.Object.Name+" could not be deleted: "+err.Error())
	}
}
