package rest

import "time"

// Trigger fires a Function by HTTP from outside, or on a schedule.
type Trigger struct {
	Name                string            `json:"name,omitempty" doc:"At most 63 lower-case letters, digits and hyphens. Can't be changed." example:"every-night"`
	Labels              map[string]string `json:"labels,omitzero" doc:"Kubernetes labels. Left alone by a PUT without it."`
	Function            string            `json:"function,omitempty" doc:"The function's name. It may be made later. Required."`
	Type                string            `json:"type,omitempty" doc:"http or cron. Required; can't be changed."`
	Enabled             *bool             `json:"enabled,omitempty" doc:"Whether it fires. Default true."`
	Methods             []string          `json:"methods,omitempty" doc:"http: the methods let through. Absent: all."`
	Payload             string            `json:"payload,omitempty" doc:"http: what the handler gets: request (default), the whole request as an event, or body, its JSON body alone."`
	Schedule            string            `json:"schedule,omitempty" doc:"cron: five fields, or @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually." example:"*/5 * * * *"`
	TimeZone            string            `json:"time_zone,omitempty" doc:"cron: an IANA name. Default UTC." example:"Europe/Berlin"`
	EventJSON           string            `json:"event_json,omitempty" doc:"cron: the event as JSON text, at most 96 KiB. Default {}."`
	ConcurrencyPolicy   string            `json:"concurrency_policy,omitempty" doc:"cron: Forbid (default), Allow or Replace, when the last run has not ended."`
	StartingDeadlineSec *int32            `json:"starting_deadline_sec,omitempty" minimum:"1" doc:"cron: how late a missed tick may still run, in seconds. Default 60."`

	Namespace  string         `json:"namespace,omitempty" readOnly:"true" doc:"The namespace."`
	UID        string         `json:"uid,omitempty" readOnly:"true" doc:"Different for each trigger that ever had the name."`
	Generation int64          `json:"generation,omitempty" readOnly:"true" doc:"Counts changes of what can be written."`
	CreatedAt  *time.Time     `json:"created_at,omitempty" readOnly:"true" doc:"When it was made."`
	Status     *TriggerStatus `json:"status,omitempty" readOnly:"true" doc:"Where it leads and what it has fired."`
}

// The types of a Trigger.
const (
	TriggerHTTP = "http"
	TriggerCron = "cron"
)

// The phases of a Trigger.
const (
	TriggerPending  = "Pending"
	TriggerReady    = "Ready"
	TriggerDisabled = "Disabled"
	TriggerFailed   = "Failed"
)

// TriggerStatus is where a Trigger leads and what it has fired.
type TriggerStatus struct {
	Status
	URL       string       `json:"url,omitempty" doc:"The public address, set only while it works."`
	LastRunAt *time.Time   `json:"last_run_at,omitempty" doc:"The last tick that was dealt with."`
	NextRunAt *time.Time   `json:"next_run_at,omitempty" doc:"The next tick."`
	History   []TriggerRun `json:"history,omitempty" doc:"The last 10 ticks, the newest first."`
}

// TriggerRun is one tick of a schedule and what came of it.
type TriggerRun struct {
	ID          string     `json:"id" doc:"Request id of the call; it is in the function's log."`
	ScheduledAt time.Time  `json:"scheduled_at" doc:"The tick."`
	StartedAt   *time.Time `json:"started_at,omitempty" doc:"When the call was made."`
	DurationMS  *int64     `json:"duration_ms,omitempty" doc:"How long it took, in milliseconds."`
	Result      string     `json:"result" doc:"Running, Succeeded, Failed, Refused, Missed, Replaced or Unknown."`
	Message     string     `json:"message,omitempty" doc:"Why it did not succeed."`
}
