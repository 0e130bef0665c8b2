package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"
	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/naeel/sless/api/rest"
)

// jobModel is a sless_job.
type jobModel struct {
	ID              types.String         `tfsdk:"id"`
	Name            types.String         `tfsdk:"name"`
	Namespace       types.String         `tfsdk:"namespace"`
	Function        types.String         `tfsdk:"function"`
	EventJSON       jsontypes.Normalized `tfsdk:"event_json"`
	RunID           types.Int64          `tfsdk:"run_id"`
	TimeoutSec      types.Int64          `tfsdk:"timeout_sec"`
	BackoffLimit    types.Int64          `tfsdk:"backoff_limit"`
	TTLSec          types.Int64          `tfsdk:"ttl_sec_after_finished"`
	WaitTimeoutSec  types.Int64          `tfsdk:"wait_timeout_sec"`
	FailOnError     types.Bool           `tfsdk:"fail_on_error"`
	Phase           types.String         `tfsdk:"phase"`
	Result          types.String         `tfsdk:"result"`
	ResultTruncated types.Bool           `tfsdk:"result_truncated"`
	ExitCode        types.Int64          `tfsdk:"exit_code"`
	Message         types.String         `tfsdk:"message"`
	StartedAt       types.String         `tfsdk:"started_at"`
	CompletedAt     types.String         `tfsdk:"completed_at"`
	Timeouts        timeouts.Value       `tfsdk:"timeouts"`
}

var jobFields = attributes("name", "function", "event_json", "run_id", "timeout_sec", "backoff_limit", "ttl_sec_after_finished")

// Schema implements resource.Resource.
func (r *jobResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Runs a function once, in a pod of its own, and keeps the result. Another `run_id` runs it again.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Required: true, Validators: []validator.String{objectName()}, PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				MarkdownDescription: "Name: at most 63 lower-case letters, digits and hyphens. A change makes the job anew.",
			},
			"namespace": namespaceAttribute(),
			"function":  schema.StringAttribute{Required: true, Validators: []validator.String{functionName()}, MarkdownDescription: "Name of the function, in the same namespace. A change takes effect with the next `run_id`."},
			"event_json": schema.StringAttribute{
				Optional: true, CustomType: jsontypes.NormalizedType{}, Validators: []validator.String{event()},
				MarkdownDescription: "The event as JSON, at most 96 KiB. Default `{}`. A change takes effect with the next `run_id`.",
			},
			"run_id": schema.Int64Attribute{
				Optional: true, Computed: true, Default: int64default.StaticInt64(0), Validators: []validator.Int64{int64validator.Between(0, 9007199254740991)},
				PlanModifiers:       []planmodifier.Int64{int64planmodifier.RequiresReplace()},
				MarkdownDescription: "Any number above 0 runs the job; another one replaces it and runs it again. 0 (default) runs nothing.",
			},
			"id": idAttribute(), "phase": phaseAttribute("`Pending`, `Running`, `Succeeded`, `Failed` or `Skipped`"),
			"result":           schema.StringAttribute{Computed: true, MarkdownDescription: "What the handler returned, as JSON, at most 3 KiB."},
			"result_truncated": schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the result was longer and is cut."},
			"exit_code":        schema.Int64Attribute{Computed: true, MarkdownDescription: "Exit code of the handler's process."},
			"message":          schema.StringAttribute{Computed: true, MarkdownDescription: "Why the run failed, or what it waits for."},
			"started_at":       schema.StringAttribute{Computed: true, MarkdownDescription: "When the run was started."},
			"completed_at":     schema.StringAttribute{Computed: true, MarkdownDescription: "When it ended."},
		},
		Blocks: map[string]schema.Block{"timeouts": timeouts.Block(ctx, timeouts.Opts{
			Delete: true, DeleteDescription: "How long deleting waits. Default `5m`. For the run itself see `wait_timeout_sec`.",
		})},
	}
	for name, attribute := range jobSettings() {
		resp.Schema.Attributes[name] = attribute
	}
}

func jobSettings() map[string]schema.Attribute {
	number := func(fallback, least, most int64, description string) schema.Int64Attribute {
		return schema.Int64Attribute{
			Optional: true, Computed: true, Default: int64default.StaticInt64(fallback), Validators: []validator.Int64{int64validator.Between(least, most)},
			MarkdownDescription: description,
		}
	}
	return map[string]schema.Attribute{
		"timeout_sec":            number(300, 1, 86400, "How long a run may take, all attempts together, in seconds. Default 300."),
		"backoff_limit":          number(0, 0, 10, "How often a failed run is tried again. Default 0."),
		"ttl_sec_after_finished": number(3600, 0, 604800, "How long the run's pod stays after the end, for its log, in seconds. Default 3600. The result stays."),
		"wait_timeout_sec":       number(300, 0, 86400, "How long to wait for the end of the run, in seconds. Default 300. 0 does not wait."),
		"fail_on_error": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(true),
			MarkdownDescription: "Whether a run that fails, or has not ended in `wait_timeout_sec`, is an error (default), after which the next apply runs it again; `false` makes it a warning.",
		},
	}
}

func (m *jobModel) wire() rest.Job {
	return rest.Job{
		Name: m.Name.ValueString(), Function: m.Function.ValueString(), EventJSON: m.EventJSON.ValueString(), RunID: m.RunID.ValueInt64(),
		TimeoutSec: small(m.TimeoutSec), BackoffLimit: int32(m.BackoffLimit.ValueInt64()), TTLSec: small(m.TTLSec),
	}
}

// patch is the merge patch that makes of a state what was planned.
func (m *jobModel) patch(state *jobModel) map[string]any {
	patch := map[string]any{}
	set := func(name string, planned, before attr.Value, value any) {
		if !planned.Equal(before) {
			patch[name] = value
		}
	}
	wire := m.wire()
	set("function", m.Function, state.Function, wire.Function)
	set("event_json", m.EventJSON, state.EventJSON, m.EventJSON.ValueStringPointer())
	set("timeout_sec", m.TimeoutSec, state.TimeoutSec, wire.TimeoutSec)
	set("backoff_limit", m.BackoffLimit, state.BackoffLimit, wire.BackoffLimit)
	set("ttl_sec_after_finished", m.TTLSec, state.TTLSec, wire.TTLSec)
	return patch
}

// refresh takes over what the API shows.
func (m *jobModel) refresh(job *rest.Job) {
	m.ID = types.StringValue(job.Namespace + "/" + job.Name)
	m.Name, m.Namespace, m.Function = types.StringValue(job.Name), types.StringValue(job.Namespace), types.StringValue(job.Function)
	m.EventJSON, m.RunID = eventValue(job.EventJSON, m.EventJSON), types.Int64Value(job.RunID)
	m.TimeoutSec, m.TTLSec = orElse(integer(job.TimeoutSec), 300), orElse(integer(job.TTLSec), 3600)
	m.BackoffLimit = types.Int64Value(int64(job.BackoffLimit))
	m.WaitTimeoutSec = orElse(m.WaitTimeoutSec, 300) // absent after an import
	if m.FailOnError.IsNull() {
		m.FailOnError = types.BoolValue(true)
	}
	m.refreshFacts(job)
}

func (m *jobModel) refreshFacts(job *rest.Job) {
	status := job.Status
	if status == nil {
		status = &rest.JobStatus{}
	}
	m.Phase, m.Result, m.Message = text(status.Phase), text(status.Result), text(status.Message)
	m.ResultTruncated, m.ExitCode = types.BoolValue(status.ResultTruncated), integer(status.ExitCode)
	m.StartedAt, m.CompletedAt = moment(status.StartedAt), moment(status.CompletedAt)
}

// planFacts leaves what the platform says as it is while nothing changes.
func (m *jobModel) planFacts(state *jobModel) {
	if state != nil {
		m.EventJSON = plannedEvent(m.EventJSON, state.EventJSON)
	}
	if state != nil && len(m.patch(state)) == 0 && m.RunID.Equal(state.RunID) {
		m.Phase, m.Result, m.Message, m.ResultTruncated = state.Phase, state.Result, state.Message, state.ResultTruncated
		m.ExitCode, m.StartedAt, m.CompletedAt = state.ExitCode, state.StartedAt, state.CompletedAt
		return
	}
	unknown := types.StringUnknown()
	m.Phase, m.Result, m.Message, m.StartedAt, m.CompletedAt = unknown, unknown, unknown, unknown, unknown
	m.ResultTruncated, m.ExitCode = types.BoolUnknown(), types.Int64Unknown()
}
