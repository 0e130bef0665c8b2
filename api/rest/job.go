package rest

import "time"

// Job runs a Function once for each new RunID, in a pod of its own, and keeps the result.
type Job struct {
	Name         string            `json:"name,omitempty" doc:"At most 63 lower-case letters, digits and hyphens. Can't be changed. Absent in a POST: made from the function's name." example:"migrate"`
	Labels       map[string]string `json:"labels,omitzero" doc:"Kubernetes labels. Left alone by a PUT without it."`
	Function     string            `json:"function,omitempty" doc:"The function's name. Required."`
	EventJSON    string            `json:"event_json,omitempty" doc:"The event as JSON text, at most 96 KiB. Default {}."`
	RunID        int64             `json:"run_id,omitempty" doc:"Runs the job when it is greater than that of the last run. 0 (default) runs nothing."`
	TimeoutSec   *int32            `json:"timeout_sec,omitempty" minimum:"1" doc:"How long a run may take, all attempts together, in seconds. Default 300."`
	BackoffLimit int32             `json:"backoff_limit,omitempty" doc:"How often a failed run is tried again. Default 0."`
	TTLSec       *int32            `json:"ttl_sec_after_finished,omitempty" doc:"How long the run's pod stays after the end, for its log, in seconds. Default 3600."`

	Namespace  string     `json:"namespace,omitempty" readOnly:"true" doc:"The namespace."`
	UID        string     `json:"uid,omitempty" readOnly:"true" doc:"Different for each job that ever had the name."`
	Generation int64      `json:"generation,omitempty" readOnly:"true" doc:"Counts changes of what can be written."`
	CreatedAt  *time.Time `json:"created_at,omitempty" readOnly:"true" doc:"When it was made."`
	Status     *JobStatus `json:"status,omitempty" readOnly:"true" doc:"How the last run went."`
}

// The phases of a Job.
const (
	JobPending   = "Pending"
	JobRunning   = "Running"
	JobSucceeded = "Succeeded"
	JobFailed    = "Failed"
	JobSkipped   = "Skipped"
)

// JobStatus is the last run. Its Message says why the run failed or what it waits for.
type JobStatus struct {
	Status
	RunID           int64      `json:"run_id" doc:"run_id of the last run that was started."`
	Image           string     `json:"image,omitempty" doc:"The image that the run uses, by digest."`
	StartedAt       *time.Time `json:"started_at,omitempty" doc:"When the run was started."`
	CompletedAt     *time.Time `json:"completed_at,omitempty" doc:"When it ended."`
	ExitCode        *int32     `json:"exit_code,omitempty" doc:"The handler process's exit code."`
	Result          string     `json:"result,omitempty" doc:"The handler's answer as JSON, at most 3 KiB."`
	ResultTruncated bool       `json:"result_truncated,omitempty" doc:"The result was longer and is cut."`
}

// SourceUpload is what an upload of an archive answers.
type SourceUpload struct {
	Key    string `json:"key" doc:"For source.s3.key. An archive that no function names is removed after 24 hours."`
	SHA256 string `json:"sha256" doc:"SHA-256 of the archive in hex."`
	Size   int64  `json:"size" doc:"Bytes."`
}

// List is one page of a list.
type List[T any] struct {
	Items    []T    `json:"items" doc:"This page, in the order of names."`
	Continue string `json:"continue,omitempty" doc:"Set when there is more: give it as continue to get the next page."`
}
