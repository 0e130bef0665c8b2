package provider

import (
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/naeel/sless/api/rest"
)

// jobView is a job as data.
type jobView struct {
	ID              types.String `tfsdk:"id"`
	Name            types.String `tfsdk:"name"`
	Namespace       types.String `tfsdk:"namespace"`
	Function        types.String `tfsdk:"function"`
	EventJSON       types.String `tfsdk:"event_json"`
	RunID           types.Int64  `tfsdk:"run_id"`
	TimeoutSec      types.Int64  `tfsdk:"timeout_sec"`
	BackoffLimit    types.Int64  `tfsdk:"backoff_limit"`
	TTLSec          types.Int64  `tfsdk:"ttl_sec_after_finished"`
	Phase           types.String `tfsdk:"phase"`
	Result          types.String `tfsdk:"result"`
	ResultTruncated types.Bool   `tfsdk:"result_truncated"`
	ExitCode        types.Int64  `tfsdk:"exit_code"`
	Message         types.String `tfsdk:"message"`
	StartedAt       types.String `tfsdk:"started_at"`
	CompletedAt     types.String `tfsdk:"completed_at"`
}

func jobViewAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"function":               computedText("Name of the function."),
		"event_json":             computedText("The event as JSON."),
		"run_id":                 computedNumber("The run that is asked for."),
		"timeout_sec":            computedNumber("How long a run may take, in seconds."),
		"backoff_limit":          computedNumber("How often a failed run is tried again."),
		"ttl_sec_after_finished": computedNumber("How long the run's pod stays after the end, in seconds."),
		"phase":                  computedText("`Pending`, `Running`, `Succeeded`, `Failed` or `Skipped`."),
		"result":                 computedText("What the handler returned, as JSON."),
		"result_truncated":       schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the result was longer and is cut."},
		"exit_code":              computedNumber("Exit code of the handler's process."),
		"message":                computedText("Why the run failed, or what it waits for."),
		"started_at":             computedText("When the run was started."),
		"completed_at":           computedText("When it ended."),
	}
}

func viewJob(job *rest.Job) jobView {
	var model jobModel
	model.refresh(job)
	return jobView{
		ID: model.ID, Name: model.Name, Namespace: model.Namespace, Function: model.Function, EventJSON: text(job.EventJSON), RunID: model.RunID,
		TimeoutSec: model.TimeoutSec, BackoffLimit: model.BackoffLimit, TTLSec: model.TTLSec, Phase: model.Phase, Result: model.Result,
		ResultTruncated: model.ResultTruncated, ExitCode: model.ExitCode, Message: model.Message, StartedAt: model.StartedAt, CompletedAt: model.CompletedAt,
	}
}

func newJobDataSource() datasource.DataSource {
	return &objectDataSource[rest.Job, jobView]{kind: "job", description: "A job and its last run.", attributes: jobViewAttributes, list: (*rest.Client).Jobs, view: viewJob}
}

func newJobsDataSource() datasource.DataSource {
	return &listDataSource[rest.Job, jobView]{kind: "job", attributes: jobViewAttributes, list: (*rest.Client).Jobs, view: viewJob}
}
