package provider

import (
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/naeel/sless/api/rest"
)

// triggerView is a trigger as data.
type triggerView struct {
	ID                  types.String `tfsdk:"id"`
	Name                types.String `tfsdk:"name"`
	Namespace           types.String `tfsdk:"namespace"`
	Function            types.String `tfsdk:"function"`
	Type                types.String `tfsdk:"type"`
	Enabled             types.Bool   `tfsdk:"enabled"`
	Methods             types.Set    `tfsdk:"methods"`
	Payload             types.String `tfsdk:"payload"`
	Schedule            types.String `tfsdk:"schedule"`
	TimeZone            types.String `tfsdk:"time_zone"`
	EventJSON           types.String `tfsdk:"event_json"`
	ConcurrencyPolicy   types.String `tfsdk:"concurrency_policy"`
	StartingDeadlineSec types.Int64  `tfsdk:"starting_deadline_sec"`
	Phase               types.String `tfsdk:"phase"`
	Message             types.String `tfsdk:"message"`
	URL                 types.String `tfsdk:"url"`
	LastRunAt           types.String `tfsdk:"last_run_at"`
	NextRunAt           types.String `tfsdk:"next_run_at"`
}

func triggerViewAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"function":              computedText("Name of the function."),
		"type":                  computedText("`http` or `cron`."),
		"enabled":               schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether it fires."},
		"methods":               schema.SetAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "http: the methods let through; null for all."},
		"payload":               computedText("http: `request` or `body`."),
		"schedule":              computedText("cron: the schedule."),
		"time_zone":             computedText("cron: the time zone."),
		"event_json":            computedText("cron: the event as JSON."),
		"concurrency_policy":    computedText("cron: `Forbid`, `Allow` or `Replace`."),
		"starting_deadline_sec": computedNumber("cron: how late a missed time may still run, in seconds."),
		"phase":                 computedText("`Pending`, `Ready`, `Disabled` or `Failed`."),
		"message":               computedText("Why, for people."),
		"url":                   computedText("http: the public address."),
		"last_run_at":           computedText("cron: the last time that was due."),
		"next_run_at":           computedText("cron: the next time."),
	}
}

func viewTrigger(trigger *rest.Trigger) triggerView {
	var model triggerModel
	model.refresh(trigger)
	view := triggerView{
		ID: model.ID, Name: model.Name, Namespace: model.Namespace, Function: model.Function, Type: model.Type, Enabled: model.Enabled, Methods: model.Methods,
		Payload: model.Payload, Schedule: model.Schedule, TimeZone: model.TimeZone, EventJSON: text(trigger.EventJSON), ConcurrencyPolicy: model.ConcurrencyPolicy,
		StartingDeadlineSec: model.StartingDeadlineSec, Phase: model.Phase, URL: model.URL, LastRunAt: model.LastRunAt, NextRunAt: model.NextRunAt,
	}
	if trigger.Status != nil {
		view.Message = text(trigger.Status.Message)
	}
	return view
}

func newTriggerDataSource() datasource.DataSource {
	return &objectDataSource[rest.Trigger, triggerView]{
		kind: "trigger", description: "A trigger.", attributes: triggerViewAttributes, list: (*rest.Client).Triggers, view: viewTrigger,
	}
}

func newTriggersDataSource() datasource.DataSource {
	return &listDataSource[rest.Trigger, triggerView]{kind: "trigger", attributes: triggerViewAttributes, list: (*rest.Client).Triggers, view: viewTrigger}
}
