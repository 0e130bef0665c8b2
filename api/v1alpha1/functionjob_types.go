package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// FunctionJob runs a Function once for each new runID, in a pod of its own, and keeps the result.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=fnjob,categories={sless}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Function",type=string,JSONPath=`.spec.functionRef.name`
// +kubebuilder:printcolumn:name="Run",type=integer,JSONPath=`.status.runID`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Exit",type=integer,JSONPath=`.status.exitCode`
// +kubebuilder:printcolumn:name="Started",type=date,JSONPath=`.status.startTime`
// +kubebuilder:printcolumn:name="Completed",type=date,JSONPath=`.status.completionTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Result",type=string,priority=1,JSONPath=`.status.result`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",message="metadata.name must be a DNS label: at most 63 lower-case letters, digits and hyphens, not starting or ending with a hyphen (for example migrate)"
type FunctionJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what runs.
	// +required
	Spec FunctionJobSpec `json:"spec"`
	// status is how the last run went; sless writes it.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status FunctionJobStatus `json:"status,omitempty"`
}

// FunctionJobSpec says what to run. A run keeps the spec and the image it started with; a change takes effect with the next runID.
type FunctionJobSpec struct {
	// functionRef names the Function, in the same namespace. The job waits until it is built.
	// +required
	FunctionRef FunctionRef `json:"functionRef"`
	// eventJSON is the event as JSON, at most 96 KiB. Default {}. Text that is no JSON leaves the job with reason InvalidEvent.
	// +optional
	// +kubebuilder:validation:MaxLength=98304
	// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 98304",message="eventJSON must not be larger than 96 KiB"
	EventJSON string `json:"eventJSON,omitempty"`
	// runID runs the job when it is greater than that of the last run. 0 (default) runs nothing; the same or a smaller number
	// never runs again.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	RunID int64 `json:"runID,omitempty"`
	// timeoutSeconds is how long a run may take, all its attempts together. Default 300.
	// +optional
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
	// backoffLimit is how often a failed run is tried again. Default 0.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	BackoffLimit int32 `json:"backoffLimit,omitempty"`
	// ttlSecondsAfterFinished is how long the run's pod and Kubernetes Job stay after the end, for their logs. The result stays
	// in status. Default 3600.
	// +optional
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=604800
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// FunctionJobPhase is a one-word summary of a FunctionJob's condition.
//
// +kubebuilder:validation:Enum=Pending;Running;Succeeded;Failed;Skipped
type FunctionJobPhase string

// The phases of a FunctionJob.
const (
	FunctionJobPending   FunctionJobPhase = "Pending"
	FunctionJobRunning   FunctionJobPhase = "Running"
	FunctionJobSucceeded FunctionJobPhase = "Succeeded"
	FunctionJobFailed    FunctionJobPhase = "Failed"
	FunctionJobSkipped   FunctionJobPhase = "Skipped"
)

// WaitingRun is a run that waits for its Function.
type WaitingRun struct {
	// runID is the run's.
	// +required
	RunID int64 `json:"runID"`
	// functionUID is the UID of the Function that it waits for. When that is deleted, the run fails.
	// +required
	// +kubebuilder:validation:MaxLength=64
	FunctionUID string `json:"functionUID"`
}

// FunctionJobStatus is the last run.
type FunctionJobStatus struct {
	// phase is a summary of the condition: Pending, Running, Succeeded, Failed or Skipped.
	// +optional
	Phase FunctionJobPhase `json:"phase,omitempty"`
	// observedGeneration is the generation of the spec that this status speaks of; -1 before sless has looked at the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions is Ready: True when the run succeeded or nothing is to run, False when it failed; and Stalled while it is False.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// waitsFor is the run that waits for its Function to be built, while one does.
	// +optional
	WaitsFor *WaitingRun `json:"waitsFor,omitempty"`
	// runID is that of the last run that was started, or that failed because its Function was deleted before.
	// +optional
	RunID int64 `json:"runID,omitempty"`
	// functionUID is the UID of the Function that the run runs.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	FunctionUID string `json:"functionUID,omitempty"`
	// jobName is the Kubernetes Job of the run.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	JobName string `json:"jobName,omitempty"`
	// image is the image that the run uses, by digest.
	// +optional
	// +kubebuilder:validation:MaxLength=768
	Image string `json:"image,omitempty"`
	// startTime is when the run was started.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when it ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// endReason says in one word how the run ended: Succeeded, Failed, Timeout, FunctionDeleted; absent while it has not.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	EndReason string `json:"endReason,omitempty"`
	// exitCode is the handler process's exit code.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`
	// result is the handler's answer as JSON, at most 3 KiB.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Result string `json:"result,omitempty"`
	// resultTruncated says that the result was longer and is cut.
	// +optional
	ResultTruncated bool `json:"resultTruncated,omitempty"`
	// message says why the run failed or what it waits for.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// FunctionJobList is a list of FunctionJobs.
//
// +kubebuilder:object:root=true
type FunctionJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the FunctionJobs.
	Items []FunctionJob `json:"items"`
}
