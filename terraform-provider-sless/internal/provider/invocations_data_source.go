package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/naeel/sless/api/rest"
)

// invocationsDataSource reads what ran in a namespace.
type invocationsDataSource struct{ platform *platform }

func newInvocationsDataSource() datasource.DataSource { return &invocationsDataSource{} }

type invocationsModel struct {
	Namespace   types.String     `tfsdk:"namespace"`
	Function    types.String     `tfsdk:"function"`
	Trigger     types.String     `tfsdk:"trigger"`
	Job         types.String     `tfsdk:"job"`
	Kind        types.String     `tfsdk:"kind"`
	Status      types.String     `tfsdk:"status"`
	From        types.String     `tfsdk:"from"`
	To          types.String     `tfsdk:"to"`
	Limit       types.Int64      `tfsdk:"limit"`
	Invocations []invocationView `tfsdk:"invocations"`
}

type invocationView struct {
	ID         string  `tfsdk:"id"`
	Function   string  `tfsdk:"function"`
	Kind       string  `tfsdk:"kind"`
	Trigger    string  `tfsdk:"trigger"`
	Job        string  `tfsdk:"job"`
	StartedAt  string  `tfsdk:"started_at"`
	Status     int     `tfsdk:"status"`
	Code       string  `tfsdk:"code"`
	DurationMS float64 `tfsdk:"duration_ms"`
	QueuedMS   float64 `tfsdk:"queued_ms"`
	StartingMS float64 `tfsdk:"starting_ms"`
	HandlerMS  float64 `tfsdk:"handler_ms"`
	Image      string  `tfsdk:"image"`
	CodeHash   string  `tfsdk:"code_hash"`
	Pod        string  `tfsdk:"pod"`
}

// Metadata implements datasource.DataSource.
func (d *invocationsDataSource) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_invocations"
}

// Schema implements datasource.DataSource.
func (d *invocationsDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	filter := func(description string) schema.StringAttribute {
		return schema.StringAttribute{Optional: true, MarkdownDescription: description}
	}
	milliseconds := func(description string) schema.Float64Attribute {
		return schema.Float64Attribute{Computed: true, MarkdownDescription: description}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "What ran in a namespace, when and how it ended, the newest first: requests, cron runs, job runs and calls, refused ones too. " +
			"An installation that keeps no records answers `ledger_off`.",
		Attributes: map[string]schema.Attribute{
			"namespace": schema.StringAttribute{Optional: true, Computed: true, MarkdownDescription: "Namespace. Default: the provider's."},
			"function":  filter("Only those of this function."),
			"trigger":   filter("Only those by this trigger."),
			"job":       filter("Only those of this job."),
			"kind":      filter("Only those that ran for this: `http`, `cron`, `job` or `invoke`."),
			"status":    filter("Only those with this status: a number, or a class such as `5xx`."),
			"from":      filter("Only those that began then or later, for example `2026-01-02T15:04:05Z`."),
			"to":        filter("Only those that began before."),
			"limit":     schema.Int64Attribute{Optional: true, MarkdownDescription: "At most so many, up to 1000. Default 100."},
			"invocations": schema.ListNestedAttribute{Computed: true, MarkdownDescription: "What ran.", NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"id":          computedText("The request id, by which the log is found; of a job its uid, a hyphen and the `run_id`."),
				"function":    computedText("Name of the function."),
				"kind":        computedText("`http`, `cron`, `job` or `invoke`."),
				"trigger":     computedText("Name of the trigger; empty for none."),
				"job":         computedText("Name of the job; empty for none."),
				"started_at":  computedText("When it began."),
				"status":      computedNumber("The HTTP status; of a job 200, 500, 504 when it took too long, 0 when that is not known."),
				"code":        computedText("Why sless itself refused or ended it; empty when the answer is the function's own."),
				"duration_ms": milliseconds("All of it, in milliseconds."),
				"queued_ms":   milliseconds("Of that, waiting to be let in."),
				"starting_ms": milliseconds("Of that, waiting for a pod."),
				"handler_ms":  milliseconds("Of that, in the function."),
				"image":       computedText("Digest of the image that ran."),
				"code_hash":   computedText("`code_hash` of the function then."),
				"pod":         computedText("The pod that ran it."),
			}}},
		},
	}
}

// Configure implements datasource.DataSourceWithConfigure.
func (d *invocationsDataSource) Configure(_ context.Context, req datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	d.platform = configured(req.ProviderData)
}

// Read implements datasource.DataSource.
func (d *invocationsDataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var model invocationsModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	filter := rest.InvocationFilter{
		Function: model.Function.ValueString(), Trigger: model.Trigger.ValueString(), Job: model.Job.ValueString(), Kind: model.Kind.ValueString(),
		Status: model.Status.ValueString(), From: timeOf(model.From, "from", &resp.Diagnostics), To: timeOf(model.To, "to", &resp.Diagnostics),
		Limit: int(model.Limit.ValueInt64()),
	}
	if !model.Limit.IsNull() && filter.Limit == 0 {
		resp.Diagnostics.AddAttributeError(path.Root("limit"), "The limit is 0", "Give a number from 1 to 1000, or leave it out for 100.")
	}
	if resp.Diagnostics.HasError() || !d.platform.demand(&resp.Diagnostics) {
		return
	}
	in := d.platform.in(model.Namespace)
	page, err := d.platform.client.Invocations(ctx, in, filter)
	if err != nil {
		addError(&resp.Diagnostics, "What ran in "+in+" can't be read", err, attributes("function", "trigger", "job", "kind", "status", "from", "to", "limit"))
		return
	}
	model.Namespace, model.Invocations = types.StringValue(in), make([]invocationView, len(page.Items))
	for i, item := range page.Items {
		model.Invocations[i] = invocationView{
			item.ID, item.Function, item.Kind, item.Trigger, item.Job, item.StartedAt.Format(time.RFC3339Nano), item.Status, item.Code,
			item.DurationMS, item.QueuedMS, item.StartingMS, item.HandlerMS, item.Image, item.CodeHash, item.Pod,
		}
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

func timeOf(value types.String, attribute string, diags *diag.Diagnostics) time.Time {
	if value.IsNull() {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, value.ValueString())
	if err != nil {
		diags.AddAttributeError(path.Root(attribute), "That is no time", "Write it like 2026-01-02T15:04:05Z (RFC 3339).")
	}
	return t
}
