package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/naeel/sless/api/rest"
)

const (
	// triggerPatience covers a function that is built in the same apply.
	triggerPatience = 5 * time.Minute
	// mendable is how long a trigger may say that its function is absent or another trigger in the way: other parts of the same apply
	// may be about to mend that.
	mendable = 30 * time.Second
)

func newTriggerResource() resource.Resource {
	return &objectResource[rest.Trigger, triggerModel, *triggerModel]{
		kind: triggers, schema: triggerSchema, fields: triggerFields, await: awaitTrigger,
		create: func(ctx context.Context, triggers rest.Resource[rest.Trigger], wire rest.Trigger) (rest.Stored[rest.Trigger], error) {
			return createOnce(ctx, triggers, wire.Name, wire, sameTrigger)
		},
		same:     sameTrigger,
		patience: func(*triggerModel) time.Duration { return triggerPatience },
	}
}

func sameTrigger(asked, present *rest.Trigger) bool {
	return asked.Function == present.Function && asked.Type == present.Type && asked.Schedule == present.Schedule
}

// awaitTrigger waits until a trigger works or is disabled.
func awaitTrigger(ctx context.Context, client *rest.Client, _ *triggerModel, written *rest.Trigger, wait time.Duration, diags *diag.Diagnostics) *rest.Trigger {
	started := time.Now()
	seen, err := triggers.follow(ctx, client, written, wait, func(seen *rest.Trigger) progress { return triggerProgress(seen, time.Since(started)) })
	switch {
	case err != nil:
		diags.AddError(triggers.unended(err, seen))
	case seen.Status.Phase == rest.TriggerFailed:
		diags.AddError(triggers.what(seen.Namespace, seen.Name)+" does not fire: "+seen.Status.Reason, seen.Status.Message)
	}
	return seen
}

// serving is the reason of a trigger whose calls reach pods.
const serving = "Ready"

// othersMend are the reasons that another part of the same apply may mend.
var othersMend = map[string]bool{"FunctionNotFound": true, "FunctionFailed": true, "Conflict": true}

func triggerProgress(seen *rest.Trigger, waited time.Duration) progress {
	status := seen.Status
	switch {
	case status.Phase == rest.TriggerReady && status.Reason == serving && seen.Type == rest.TriggerHTTP && status.URL == "":
		return near // the address comes a moment later
	case status.Phase == rest.TriggerReady || status.Phase == rest.TriggerDisabled:
		return done
	case status.Phase == rest.TriggerFailed && othersMend[status.Reason] && waited < mendable:
		return near
	case status.Phase == rest.TriggerFailed:
		return done
	}
	return far
}
