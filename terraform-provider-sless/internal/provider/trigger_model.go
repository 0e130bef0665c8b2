package provider

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"
	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/naeel/sless/api/rest"
)

// triggerAttributes are what a trigger is, as resource and as data.
type triggerAttributes struct {
	object
	Function            types.String         `tfsdk:"function"`
	Type                types.String         `tfsdk:"type"`
	Enabled             types.Bool           `tfsdk:"enabled"`
	Methods             types.Set            `tfsdk:"methods"`
	Payload             types.String         `tfsdk:"payload"`
	Schedule            types.String         `tfsdk:"schedule"`
	TimeZone            types.String         `tfsdk:"time_zone"`
	EventJSON           jsontypes.Normalized `tfsdk:"event_json"`
	ConcurrencyPolicy   types.String         `tfsdk:"concurrency_policy"`
	StartingDeadlineSec types.Int64          `tfsdk:"starting_deadline_sec"`
	URL                 types.String         `tfsdk:"url"`
	LastRunAt           types.String         `tfsdk:"last_run_at"`
	NextRunAt           types.String         `tfsdk:"next_run_at"`
}

// triggerModel is a sless_trigger.
type triggerModel struct {
	triggerAttributes
	managed
}

var triggerFields = attributes("name", "function", "type", "enabled", "methods", "payload", "schedule", "time_zone", "event_json", "concurrency_policy", "starting_deadline_sec")

func triggerSchema(ctx context.Context) schema.Schema {
	replaces := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	made := schema.Schema{
		MarkdownDescription: "Fires a function: by HTTP from outside (`type = \"http\"`, which gives it a URL) or on a schedule (`type = \"cron\"`).",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Required: true, Validators: []validator.String{objectName()}, PlanModifiers: replaces,
				MarkdownDescription: "Name: at most 63 lower-case letters, digits and hyphens. A change makes the trigger anew.",
			},
			"function": schema.StringAttribute{Required: true, Validators: []validator.String{functionName()}, MarkdownDescription: "Name of the function, in the same namespace."},
			"type": schema.StringAttribute{
				Required: true, Validators: []validator.String{stringvalidator.OneOf(rest.TriggerHTTP, rest.TriggerCron)}, PlanModifiers: replaces,
				MarkdownDescription: "`http` or `cron`. A change makes the trigger anew.",
			},
			"enabled": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(true),
				MarkdownDescription: "Whether it fires. Default `true`. When every trigger of a function is disabled, its pods are gone and cost nothing.",
			},
			"phase":       phaseAttribute("`Pending`, `Ready`, `Disabled` or `Failed`"),
			"url":         schema.StringAttribute{Computed: true, MarkdownDescription: "http: the public address. Null while the trigger is disabled."},
			"last_run_at": schema.StringAttribute{Computed: true, MarkdownDescription: "cron: the last time that was due."},
			"next_run_at": schema.StringAttribute{Computed: true, MarkdownDescription: "cron: the next time."},
		},
		Blocks: map[string]schema.Block{"timeouts": timeouts.Block(ctx, timeouts.Opts{
			Create: true, Update: true, Delete: true,
			CreateDescription: "How long creating waits for the trigger to work. Default `5m`.",
			UpdateDescription: "How long a change waits. Default `5m`.",
			DeleteDescription: "How long deleting waits. Default `5m`.",
		})},
	}
	for name, attribute := range triggerSettings() {
		made.Attributes[name] = attribute
	}
	return made
}

func triggerSettings() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"methods": schema.SetAttribute{
			Optional: true, ElementType: types.StringType,
			Validators: []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(
				stringvalidator.OneOf("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"))},
			MarkdownDescription: "http: the methods let through; others are answered 405. Default: all.",
		},
		"payload": schema.StringAttribute{
			Optional: true, Computed: true, Validators: []validator.String{stringvalidator.OneOf("request", "body")},
			MarkdownDescription: "http: what the handler gets: `request` (default), the whole request as an event, or `body`, its JSON body alone.",
		},
		"schedule": schema.StringAttribute{
			Optional: true, Validators: []validator.String{schedule()},
			MarkdownDescription: "cron: five fields (minute, hour, day of month, month, day of week), for example `*/5 * * * *`, or `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly`, `@annually`.",
		},
		"time_zone": schema.StringAttribute{
			Optional: true, Computed: true, Validators: []validator.String{timeZone()},
			MarkdownDescription: "cron: an IANA time zone, for example `Europe/Berlin`. Default `UTC`.",
		},
		"event_json": schema.StringAttribute{
			Optional: true, CustomType: jsontypes.NormalizedType{}, Validators: []validator.String{event()},
			MarkdownDescription: "cron: the event as JSON, at most 96 KiB. Default `{}`.",
		},
		"concurrency_policy": schema.StringAttribute{
			Optional: true, Computed: true, Validators: []validator.String{stringvalidator.OneOf("Forbid", "Allow", "Replace")},
			MarkdownDescription: "cron: what happens when the last run has not ended: `Forbid` (default) leaves the new one out, `Allow` runs both, `Replace` ends the old one.",
		},
		"starting_deadline_sec": schema.Int64Attribute{
			Optional: true, Computed: true, Validators: []validator.Int64{int64validator.Between(1, 86400)},
			MarkdownDescription: "cron: how late a missed time may still run, in seconds. Default 60.",
		},
	}
}

func (m *triggerModel) cronOnly() map[string]bool {
	return map[string]bool{
		"schedule": m.Schedule.IsNull(), "time_zone": m.TimeZone.IsNull(), "event_json": m.EventJSON.IsNull(),
		"concurrency_policy": m.ConcurrencyPolicy.IsNull(), "starting_deadline_sec": m.StartingDeadlineSec.IsNull(),
	}
}

func (m *triggerModel) httpOnly() map[string]bool {
	return map[string]bool{"methods": m.Methods.IsNull(), "payload": m.Payload.IsNull()}
}

// setDefaults plans what the configuration leaves out.
func (m *triggerModel) setDefaults(config *triggerModel) {
	if m.Type.IsUnknown() {
		return
	}
	payload, zone, policy, deadline := types.StringNull(), types.StringNull(), types.StringNull(), types.Int64Null()
	if m.Type.ValueString() == rest.TriggerCron {
		zone, policy, deadline = types.StringValue("UTC"), types.StringValue("Forbid"), types.Int64Value(60)
	} else {
		payload = types.StringValue("request")
	}
	for _, setting := range []struct{ planned, config, fallback *types.String }{
		{&m.Payload, &config.Payload, &payload}, {&m.TimeZone, &config.TimeZone, &zone}, {&m.ConcurrencyPolicy, &config.ConcurrencyPolicy, &policy},
	} {
		if setting.config.IsNull() {
			*setting.planned = *setting.fallback
		}
	}
	if config.StartingDeadlineSec.IsNull() {
		m.StartingDeadlineSec = deadline
	}
}

// foresee plans defaults, which depend on the type, and leaves what the platform says as it is while nothing changes.
func (m *triggerModel) foresee(_ context.Context, config, state *triggerModel, _ *diag.Diagnostics) {
	m.setDefaults(config)
	if state != nil {
		m.EventJSON = plannedEvent(m.EventJSON, state.EventJSON)
		if len(m.patch(state)) == 0 && state.Phase.ValueString() != rest.TriggerFailed {
			m.Phase, m.URL, m.LastRunAt, m.NextRunAt = state.Phase, state.URL, state.LastRunAt, state.NextRunAt
			return
		}
	}
	m.Phase, m.URL, m.LastRunAt, m.NextRunAt = types.StringUnknown(), types.StringUnknown(), types.StringUnknown(), types.StringUnknown()
	if m.Type.ValueString() == rest.TriggerHTTP {
		m.LastRunAt, m.NextRunAt = types.StringNull(), types.StringNull()
	} else if m.Type.ValueString() == rest.TriggerCron {
		m.URL = types.StringNull()
	}
}

func (m *triggerModel) keepPlanned(plan *triggerModel) {
	m.Phase, m.URL = known(m.Phase, plan.Phase), known(m.URL, plan.URL)
	m.LastRunAt, m.NextRunAt = known(m.LastRunAt, plan.LastRunAt), known(m.NextRunAt, plan.NextRunAt)
}

// check holds that each type has its own attributes.
func (m *triggerModel) check(diags *diag.Diagnostics) {
	if m.Type.IsUnknown() {
		return
	}
	foreign := m.cronOnly()
	if m.Type.ValueString() == rest.TriggerCron {
		foreign = m.httpOnly()
		if m.Schedule.IsNull() {
			diags.AddAttributeError(path.Root("schedule"), "The schedule is missing", "A trigger of type cron needs a schedule, for example \"*/5 * * * *\".")
		}
	}
	for name, isNull := range foreign {
		if !isNull {
			diags.AddAttributeError(path.Root(name), "Not for this type", "A trigger of type "+m.Type.ValueString()+" has no "+name+".")
		}
	}
}

func (m *triggerModel) wire() rest.Trigger {
	return rest.Trigger{
		Name: m.Name.ValueString(), Function: m.Function.ValueString(), Type: m.Type.ValueString(), Enabled: m.Enabled.ValueBoolPointer(),
		Methods: m.methods(), Payload: m.Payload.ValueString(), Schedule: m.Schedule.ValueString(), TimeZone: m.TimeZone.ValueString(),
		EventJSON: m.EventJSON.ValueString(), ConcurrencyPolicy: m.ConcurrencyPolicy.ValueString(), StartingDeadlineSec: small(m.StartingDeadlineSec),
	}
}

func (m *triggerModel) methods() []string {
	var all []string
	for _, element := range m.Methods.Elements() {
		if method, ok := element.(types.String); ok {
			all = append(all, method.ValueString())
		}
	}
	slices.Sort(all)
	return all
}

func (m *triggerModel) patch(state *triggerModel) map[string]any {
	patch, wire := changes{}, m.wire()
	patch.set("function", m.Function, state.Function, wire.Function)
	patch.set("enabled", m.Enabled, state.Enabled, wire.Enabled)
	patch.set("methods", m.Methods, state.Methods, wire.Methods)
	patch.set("payload", m.Payload, state.Payload, m.Payload.ValueStringPointer())
	patch.set("schedule", m.Schedule, state.Schedule, m.Schedule.ValueStringPointer())
	patch.set("time_zone", m.TimeZone, state.TimeZone, m.TimeZone.ValueStringPointer())
	patch.set("event_json", m.EventJSON, state.EventJSON, m.EventJSON.ValueStringPointer())
	patch.set("concurrency_policy", m.ConcurrencyPolicy, state.ConcurrencyPolicy, m.ConcurrencyPolicy.ValueStringPointer())
	patch.set("starting_deadline_sec", m.StartingDeadlineSec, state.StartingDeadlineSec, m.StartingDeadlineSec.ValueInt64Pointer())
	return patch
}

func (m *triggerAttributes) refresh(trigger *rest.Trigger) {
	m.refreshName(trigger.Namespace, trigger.Name)
	m.Function, m.Type = types.StringValue(trigger.Function), types.StringValue(trigger.Type)
	m.Enabled = types.BoolValue(trigger.Enabled == nil || *trigger.Enabled)
	m.Methods = types.SetNull(types.StringType)
	if len(trigger.Methods) > 0 {
		methods := make([]attr.Value, len(trigger.Methods))
		for i, method := range trigger.Methods {
			methods[i] = types.StringValue(method)
		}
		m.Methods = types.SetValueMust(types.StringType, methods)
	}
	m.Payload, m.TimeZone, m.ConcurrencyPolicy, m.StartingDeadlineSec = types.StringNull(), types.StringNull(), types.StringNull(), types.Int64Null()
	if trigger.Type == rest.TriggerCron {
		m.TimeZone, m.ConcurrencyPolicy = orText(trigger.TimeZone, "UTC"), orText(trigger.ConcurrencyPolicy, "Forbid")
		m.StartingDeadlineSec = orElse(integer(trigger.StartingDeadlineSec), 60)
	} else {
		m.Payload = orText(trigger.Payload, "request")
	}
	m.Schedule, m.EventJSON = text(trigger.Schedule), eventValue(trigger.EventJSON, m.EventJSON)
	m.refreshFacts(trigger)
}

// eventValue is null for the event that none stands for, unless it was written before.
func eventValue(json string, before jsontypes.Normalized) jsontypes.Normalized {
	if json == "" || (json == "{}" && before.IsNull()) {
		return jsontypes.NewNormalizedNull()
	}
	return jsontypes.NewNormalizedValue(json)
}

// plannedEvent is what was written before when the JSON says the same.
func plannedEvent(planned, before jsontypes.Normalized) jsontypes.Normalized {
	if planned.IsNull() || planned.IsUnknown() || before.IsNull() {
		return planned
	}
	if same, diags := planned.StringSemanticEquals(context.Background(), before); same && !diags.HasError() {
		return before
	}
	return planned
}

func (m *triggerAttributes) refreshFacts(trigger *rest.Trigger) {
	status := trigger.Status
	if status == nil {
		status = &rest.TriggerStatus{}
	}
	m.Phase, m.URL = text(status.Phase), text(status.URL)
	m.LastRunAt, m.NextRunAt = moment(status.LastRunAt), moment(status.NextRunAt)
}
