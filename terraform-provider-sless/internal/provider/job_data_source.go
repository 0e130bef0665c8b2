package provider

import (
	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"

	"github.com/naeel/sless/api/rest"
)

func jobViewAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"function":               computedText("Name of the function."),
		"event_json":             computedEvent("The event as JSON."),
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

func viewJob(job *rest.Job) (view jobAttributes) {
	view.refresh(job)
	view.EventJSON = jsontypes.Normalized{StringValue: text(job.EventJSON)}
	return view
}

func newJobDataSource() datasource.DataSource {
	return &objectDataSource[rest.Job, jobAttributes]{kind: jobs, description: "A job and its last run.", attributes: jobViewAttributes, view: viewJob}
}

func newJobsDataSource() datasource.DataSource {
	return &listDataSource[rest.Job, jobAttributes]{kind: jobs, attributes: jobViewAttributes, view: viewJob}
}
