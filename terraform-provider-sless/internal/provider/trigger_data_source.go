package provider

import (
	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/naeel/sless/api/rest"
)

// triggerView is a trigger as data.
type triggerView struct {
	triggerAttributes
	Message types.String `tfsdk:"message"`
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
		"event_json":            computedEvent("cron: the event as JSON."),
		"concurrency_policy":    computedText("cron: `Forbid`, `Allow` or `Replace`."),
		"starting_deadline_sec": computedNumber("cron: how late a missed time may still run, in seconds."),
		"phase":                 computedText("`Pending`, `Ready`, `Disabled` or `Failed`."),
		"message":               computedText("Why, for people."),
		"url":                   computedText("http: the public address."),
		"last_run_at":           computedText("cron: the last time that was due."),
		"next_run_at":           computedText("cron: the next time."),
	}
}

func viewTrigger(trigger *rest.Trigger) (view triggerView) {
	view.refresh(trigger)
	view.EventJSON = jsontypes.Normalized{StringValue: text(trigger.EventJSON)}
	if trigger.Status != nil {
		view.Message = text(trigger.Status.Message)
	}
	return view
}

func newTriggerDataSource() datasource.DataSource {
	return &objectDataSource[rest.Trigger, triggerView]{
		kind: triggers, description: "A trigger.", attributes: triggerViewAttributes, view: viewTrigger,
	}
}

func newTriggersDataSource() datasource.DataSource {
	return &listDataSource[rest.Trigger, triggerView]{kind: triggers, attributes: triggerViewAttributes, view: viewTrigger}
}
