package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"
	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
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

// jobAttributes are what a job is, as resource and as data.
type jobAttributes struct {
	object
	Function        types.String         `tfsdk:"function"`
	EventJSON       jsontypes.Normalized `tfsdk:"event_json"`
	RunID           types.Int64          `tfsdk:"run_id"`
	TimeoutSec      types.Int64          `tfsdk:"timeout_sec"`
	BackoffLimit    types.Int64          `tfsdk:"backoff_limit"`
	TTLSec          types.Int64          `tfsdk:"ttl_sec_after_finished"`
	Result          types.String         `tfsdk:"result"`
	ResultTruncated types.Bool           `tfsdk:"result_truncated"`
	ExitCode        types.Int64          `tfsdk:"exit_code"`
	Message         types.String         `tfsdk:"message"`
	StartedAt       types.String         `tfsdk:"started_at"`
	CompletedAt     types.String         `tfsdk:"completed_at"`
}

// jobModel is a sless_job.
type jobModel struct {
	jobAttributes
	managed
	WaitTimeoutSec types.Int64 `tfsdk:"wait_timeout_sec"`
	FailOnError    types.Bool  `tfsdk:"fail_on_error"`
}

var jobFields = attributes("name", "function", "event_json", "run_id", "timeout_sec", "backoff_limit", "ttl_sec_after_finished")

func jobSchema(ctx context.Context) schema.Schema {
	made := schema.Schema{
		MarkdownDescription: "Runs a function once, in a pod of its own, and keeps the result. Another `run_id` runs it again.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Required: true, Validators: []validator.String{objectName()}, PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				MarkdownDescription: "Name: at most 63 lower-case letters, digits and hyphens. A change makes the job anew.",
			},
			"function": schema.StringAttribute{Required: true, Validators: []validator.String{functionName()}, MarkdownDescription: "Name of the function, in the same namespace. A change takes effect with the next `run_id`."},
			"event_json": schema.StringAttribute{
				Optional: true, CustomType: jsontypes.NormalizedType{}, Validators: []validator.String{event()},
				MarkdownDescription: "The event as JSON, at most 96 KiB. Default `{}`. A change takes effect with the next `run_id`.",
			},
			"run_id": schema.Int64Attribute{
				Optional: true, Computed: true, Default: int64default.StaticInt64(0), Validators: []validator.Int64{int64validator.Between(0, 9007199254740991)},
				PlanModifiers:       []planmodifier.Int64{int64planmodifier.RequiresReplace()},
				MarkdownDescription: "Any number above 0 runs the job; another one replaces it and runs it again. 0 (default) runs nothing.",
			},
			"phase":            phaseAttribute("`Pending`, `Running`, `Succeeded`, `Failed` or `Skipped`"),
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
		made.Attributes[name] = attribute
	}
	return made
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

// check implements model: no attribute depends on another.
func (m *jobModel) check(*diag.Diagnostics) {}

func (m *jobModel) patch(state *jobModel) map[string]any {
	patch, wire := changes{}, m.wire()
	patch.set("function", m.Function, state.Function, wire.Function)
	patch.set("event_json", m.EventJSON, state.EventJSON, m.EventJSON.ValueStringPointer())
	patch.set("timeout_sec", m.TimeoutSec, state.TimeoutSec, wire.TimeoutSec)
	patch.set("backoff_limit", m.BackoffLimit, state.BackoffLimit, wire.BackoffLimit)
	patch.set("ttl_sec_after_finished", m.TTLSec, state.TTLSec, wire.TTLSec)
	return patch
}

func (m *jobModel) refresh(job *rest.Job) {
	m.jobAttributes.refresh(job)
	m.WaitTimeoutSec = orElse(m.WaitTimeoutSec, 300) // absent after an import
	if m.FailOnError.IsNull() {
		m.FailOnError = types.BoolValue(true)
	}
}

func (m *jobAttributes) refresh(job *rest.Job) {
	m.refreshName(job.Namespace, job.Name)
	m.Function, m.RunID = types.StringValue(job.Function), types.Int64Value(job.RunID)
	m.EventJSON = eventValue(job.EventJSON, m.EventJSON)
	m.TimeoutSec, m.TTLSec = orElse(integer(job.TimeoutSec), 300), orElse(integer(job.TTLSec), 3600)
	m.BackoffLimit = types.Int64Value(int64(job.BackoffLimit))
	m.refreshFacts(job)
}

func (m *jobAttributes) refreshFacts(job *rest.Job) {
	status := job.Status
	if status == nil {
		status = &rest.JobStatus{}
	}
	m.Phase, m.Result, m.Message = text(status.Phase), text(status.Result), text(status.Message)
	m.ResultTruncated, m.ExitCode = types.BoolValue(status.ResultTruncated), integer(status.ExitCode)
	m.StartedAt, m.CompletedAt = moment(status.StartedAt), moment(status.CompletedAt)
	if job.RunID == 0 && (m.Phase.IsNull() || status.Phase == rest.JobPending) {
		m.Phase = types.StringValue(rest.JobSkipped) // the platform says so sooner or later; nothing is worth waiting for
	}
}

// foresee leaves what the platform says as it is while nothing changes.
func (m *jobModel) foresee(_ context.Context, _, state *jobModel, _ *diag.Diagnostics) {
	if state != nil {
		m.EventJSON = plannedEvent(m.EventJSON, state.EventJSON)
		if len(m.patch(state)) == 0 && m.RunID.Equal(state.RunID) {
			m.keepFacts(&state.jobAttributes)
			return
		}
	}
	unknown := types.StringUnknown()
	m.Phase, m.Result, m.Message, m.StartedAt, m.CompletedAt = unknown, unknown, unknown, unknown, unknown
	m.ResultTruncated, m.ExitCode = types.BoolUnknown(), types.Int64Unknown()
}

func (m *jobAttributes) keepFacts(of *jobAttributes) {
	m.Phase, m.Result, m.Message, m.ResultTruncated = of.Phase, of.Result, of.Message, of.ResultTruncated
	m.ExitCode, m.StartedAt, m.CompletedAt = of.ExitCode, of.StartedAt, of.CompletedAt
}

// keepPlanned implements model: all facts are unknown in a plan that changes anything.
func (m *jobModel) keepPlanned(*jobModel) {}
