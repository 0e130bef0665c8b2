package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Trigger fires a Function of its namespace: by HTTP from outside, or on a schedule.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=trg,categories={sless}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Function",type=string,JSONPath=`.spec.functionRef.name`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Enabled",type=boolean,JSONPath=`.spec.enabled`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.cron.schedule`
// +kubebuilder:printcolumn:name="Last",type=date,JSONPath=`.status.lastScheduleTime`
// +kubebuilder:printcolumn:name="Result",type=string,JSONPath=`.status.history[0].result`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Next",type=string,priority=1,JSONPath=`.status.nextScheduleTime`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",message="metadata.name must be a DNS label: at most 63 lower-case letters, digits and hyphens, not starting or ending with a hyphen (for example every-night)"
type Trigger struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what fires what.
	// +required
	Spec TriggerSpec `json:"spec"`
	// status is what has fired; sless writes it.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status TriggerStatus `json:"status,omitempty"`
}

// TriggerSpec says what fires which Function.
//
// +kubebuilder:validation:XValidation:rule="self.type == 'cron' ? has(self.cron) && !has(self.http) : !has(self.cron)",message="exactly the block that type names may be set: cron for type cron (required), http for type http (optional)"
type TriggerSpec struct {
	// functionRef names the Function, in the same namespace. It may be made later.
	// +required
	FunctionRef FunctionRef `json:"functionRef"`
	// enabled says whether the Trigger fires. Default true. When every Trigger of a Function is disabled, its pods are gone;
	// enabling one brings them back with the same URL.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
	// type is http or cron, and can't be changed.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="type can't be changed; delete the Trigger and make another"
	Type TriggerType `json:"type"`
	// http says what is let through; only with type http.
	// +optional
	HTTP *HTTPTrigger `json:"http,omitempty"`
	// cron is the schedule; required with type cron.
	// +optional
	Cron *CronTrigger `json:"cron,omitempty"`
}

// FunctionRef names a Function of the same namespace.
type FunctionRef struct {
	// name is the Function's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
}

// TriggerType is how a Trigger fires.
//
// +kubebuilder:validation:Enum=http;cron
type TriggerType string

// The types of Trigger.
const (
	TriggerHTTP TriggerType = "http"
	TriggerCron TriggerType = "cron"
)

// HTTPTrigger says which requests reach the Function and in which shape.
type HTTPTrigger struct {
	// methods are the methods let through; others are answered 405. Absent means all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=9
	// +kubebuilder:validation:items:Enum=GET;HEAD;POST;PUT;PATCH;DELETE;OPTIONS;CONNECT;TRACE
	Methods []string `json:"methods,omitempty"`
	// payload is what the handler gets: request (default) is the whole HTTP request as an event; body is the JSON body
	// alone, as a schedule or a job would send it.
	// +optional
	// +kubebuilder:default=request
	Payload Payload `json:"payload,omitempty"`
}

// Payload is the shape of an HTTP event.
//
// +kubebuilder:validation:Enum=request;body
type Payload string

// The shapes of an HTTP event.
const (
	PayloadRequest Payload = "request"
	PayloadBody    Payload = "body"
)

// CronTrigger is a schedule and what to do when it is due.
type CronTrigger struct {
	// schedule is five fields (minute, hour, day of month, month, day of week) or @hourly, @daily, @midnight, @weekly,
	// @monthly, @yearly, @annually. A field is *, a number, a range (1-5), a list (1,3) or any of these with a step (*/5); months and
	// days of week may be names (JAN, MON), and Sunday is 0. When both day fields are given, a day that matches either counts. Seconds,
	// @every, @reboot and a zone inside the schedule are refused.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.startsWith('@') ? self in ['@hourly', '@daily', '@midnight', '@weekly', '@monthly', '@yearly', '@annually'] : self.matches('^ *[^ ]+( +[^ ]+){4} *$')",message="schedule must have five fields (minute hour day-of-month month day-of-week, for example */5 * * * *) or be one of @hourly @daily @midnight @weekly @monthly @yearly @annually"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^ *[^ ]+( +[^ ]+){4} *$') || self.matches('^ *([*]|[0-5]?[0-9](-[0-5]?[0-9])?)(/0?[1-9][0-9]?)?(,([*]|[0-5]?[0-9](-[0-5]?[0-9])?)(/0?[1-9][0-9]?)?)* ')",message="the minute (first field) must be * or 0 to 59, a range, a list, or a step of at least 1, for example */5"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^ *[^ ]+( +[^ ]+){4} *$') || self.matches('^ *[^ ]+ +([*]|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/0?[1-9][0-9]?)?(,([*]|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/0?[1-9][0-9]?)?)* ')",message="the hour (second field) must be * or 0 to 23, a range, a list, or a step of at least 1, for example 8-18"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^ *[^ ]+( +[^ ]+){4} *$') || self.matches('^ *([^ ]+ +){2}([*?]|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/0?[1-9][0-9]?)?(,([*?]|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/0?[1-9][0-9]?)?)* ')",message="the day of month (third field) must be * or 1 to 31, a range, a list, or a step of at least 1, for example 1,15"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^ *[^ ]+( +[^ ]+){4} *$') || self.matches('^ *([^ ]+ +){3}([*]|(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))(-(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)))?)(/0?[1-9][0-9]?)?(,([*]|(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))(-(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)))?)(/0?[1-9][0-9]?)?)* ')",message="the month (fourth field) must be * or 1 to 12 or JAN to DEC, a range, a list, or a step of at least 1, for example 1-6"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^ *[^ ]+( +[^ ]+){4} *$') || self.matches('^ *([^ ]+ +){4}([*?]|([0-6]|(?i:sun|mon|tue|wed|thu|fri|sat))(-([0-6]|(?i:sun|mon|tue|wed|thu|fri|sat)))?)(/0?[1-9][0-9]?)?(,([*?]|([0-6]|(?i:sun|mon|tue|wed|thu|fri|sat))(-([0-6]|(?i:sun|mon|tue|wed|thu|fri|sat)))?)(/0?[1-9][0-9]?)?)* *$')",message="the day of week (fifth field) must be * or 0 (Sunday) to 6 or SUN to SAT, a range, a list, or a step of at least 1, for example MON-FRI"
	Schedule string `json:"schedule"`
	// timeZone is an IANA name such as Europe/Berlin. Default UTC. On the day on which the clock goes forward, a schedule that names
	// its hours fires once at the first moment after the gap in place of what falls into it, and one with * in the hour field just goes
	// on. On the day on which it goes back, a schedule with * in the minute or hour field goes on through both hours, and one that names
	// both fires the first time only.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_+/-]+$`
	// +kubebuilder:validation:XValidation:rule="self != 'Local'",message="timeZone must be an IANA name such as Europe/Berlin"
	TimeZone string `json:"timeZone,omitempty"`
	// eventJSON is the event as JSON, at most 96 KiB. Default {}. Text that is no JSON leaves the Trigger with reason InvalidEvent.
	// +optional
	// +kubebuilder:validation:MaxLength=98304
	// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 98304",message="eventJSON must not be larger than 96 KiB"
	EventJSON string `json:"eventJSON,omitempty"`
	// concurrencyPolicy says what happens when the last run has not ended: Forbid (default) refuses the new one and says so in
	// the history, Allow runs both (up to ten at a time), Replace ends the old one.
	// +optional
	// +kubebuilder:default=Forbid
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`
	// startingDeadlineSeconds is how late a missed tick may still run, once. Default 60; older ones are recorded as Missed.
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	StartingDeadlineSeconds int32 `json:"startingDeadlineSeconds,omitempty"`
}

// ConcurrencyPolicy says what to do with a tick while the last run goes on.
//
// +kubebuilder:validation:Enum=Allow;Forbid;Replace
type ConcurrencyPolicy string

// The concurrency policies.
const (
	AllowConcurrent   ConcurrencyPolicy = "Allow"
	ForbidConcurrent  ConcurrencyPolicy = "Forbid"
	ReplaceConcurrent ConcurrencyPolicy = "Replace"
)

// TriggerPhase is a one-word summary of a Trigger's condition.
//
// +kubebuilder:validation:Enum=Pending;Ready;Disabled;Failed
type TriggerPhase string

// The phases of a Trigger.
const (
	TriggerPending  TriggerPhase = "Pending"
	TriggerReady    TriggerPhase = "Ready"
	TriggerDisabled TriggerPhase = "Disabled"
	TriggerFailed   TriggerPhase = "Failed"
)

// RunResult is how a firing ended.
//
// +kubebuilder:validation:Enum=Running;Succeeded;Failed;Refused;Missed;Replaced;Unknown
type RunResult string

// The results of a firing.
const (
	// RunRunning is a run that has not ended.
	RunRunning RunResult = "Running"
	// RunSucceeded is a run that the handler answered.
	RunSucceeded RunResult = "Succeeded"
	// RunFailed is a run that ended with an error or a time-out.
	RunFailed RunResult = "Failed"
	// RunRefused is a tick that did not run because the last run went on (Forbid) or the Function could take no call.
	RunRefused RunResult = "Refused"
	// RunMissed is a tick that was noticed later than startingDeadlineSeconds.
	RunMissed RunResult = "Missed"
	// RunReplaced is a run that was ended by a later tick (Replace).
	RunReplaced RunResult = "Replaced"
	// RunUnknown is a run whose outcome was not recorded because the operator ended meanwhile. It is never fired again.
	RunUnknown RunResult = "Unknown"
)

// TriggerRun is one tick of the schedule and what came of it.
type TriggerRun struct {
	// id is the request id of the call, made from the Trigger's UID and the tick; it is in the function's log.
	// +required
	// +kubebuilder:validation:MaxLength=128
	ID string `json:"id"`
	// scheduledAt is the tick.
	// +required
	ScheduledAt metav1.Time `json:"scheduledAt"`
	// startedAt is when the call was made.
	// +optional
	StartedAt *metav1.MicroTime `json:"startedAt,omitempty"`
	// durationMilliseconds is how long the call took.
	// +optional
	DurationMilliseconds *int64 `json:"durationMilliseconds,omitempty"`
	// result is how it ended.
	// +required
	Result RunResult `json:"result"`
	// message says why it did not succeed.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// ActiveSchedule is a schedule and since when it has been in force.
type ActiveSchedule struct {
	// schedule is spec.cron.schedule.
	// +required
	// +kubebuilder:validation:MaxLength=128
	Schedule string `json:"schedule"`
	// timeZone is spec.cron.timeZone.
	// +required
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone"`
	// since is when it was made, changed or enabled, as far as sless has seen it. Ticks up to then never run.
	// +required
	Since metav1.Time `json:"since"`
}

// TriggerStatus is where a Trigger leads and what it has fired.
type TriggerStatus struct {
	// phase is a summary of the condition: Pending, Ready, Disabled or Failed.
	// +optional
	Phase TriggerPhase `json:"phase,omitempty"`
	// observedGeneration is the generation of the spec that this status speaks of; -1 before sless has looked at the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions is Ready, and Stalled while that is False.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// url is the public address, set only while it works.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	URL string `json:"url,omitempty"`
	// activeSchedule is the schedule in force; absent while none is.
	// +optional
	ActiveSchedule *ActiveSchedule `json:"activeSchedule,omitempty"`
	// lastScheduleTime is the last tick that was dealt with: run, refused or missed.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// nextScheduleTime is the next tick.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`
	// history is the last 10 ticks, the newest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	History []TriggerRun `json:"history,omitempty"`
}

// TriggerList is a list of Triggers.
//
// +kubebuilder:object:root=true
type TriggerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the Triggers.
	Items []Trigger `json:"items"`
}

// IsEnabled says whether the Trigger fires: enabled is true or absent, and it is not being deleted.
func (t *Trigger) IsEnabled() bool {
	return (t.Spec.Enabled == nil || *t.Spec.Enabled) && t.DeletionTimestamp.IsZero()
}
