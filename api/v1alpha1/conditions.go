package v1alpha1

// Condition types. Every condition carries the generation it was computed for.
const (
	// Ready is on all three kinds: True when what the spec asks for is what serves (or, for a FunctionJob, when its run
	// has ended well), Unknown while something is in progress, False when only a change can help.
	Ready = "Ready"
	// Stalled is on all three kinds while Ready is False, with the same reason and message, and absent otherwise: tools that follow
	// kstatus, such as Flux, take an object for failed by this alone, and for in progress by any other Ready than True.
	Stalled = "Stalled"
	// Built is on a Function: the image of the source that the spec names exists.
	Built = "Built"
	// Available is on a Function: as many replicas as asked for answer.
	Available = "Available"
)

// Reasons in progress (status Unknown).
const (
	// ReasonPending says that the controller has not come to it yet, or that something it waits for is absent.
	ReasonPending = "Pending"
	// ReasonBuilding says that the source is being fetched, installed or pushed.
	ReasonBuilding = "Building"
	// ReasonDeploying says that the pods of the new version are starting.
	ReasonDeploying = "Deploying"
	// ReasonRouting says that the pods are ready and not every gateway routes to them yet.
	ReasonRouting = "Routing"
	// ReasonRegistryUnavailable says that the registry does not answer; the build goes on when it does.
	ReasonRegistryUnavailable = "RegistryUnavailable"
	// ReasonObjectStoreUnavailable says that the object store does not answer; the build goes on when it does.
	ReasonObjectStoreUnavailable = "ObjectStoreUnavailable"
	// ReasonSourceUnavailable says that the server that has the source does not answer, or says that it can't; the build goes on when it does.
	ReasonSourceUnavailable = "SourceUnavailable"
	// ReasonFunctionNotReady says that a Trigger or FunctionJob waits for its Function.
	ReasonFunctionNotReady = "FunctionNotReady"
	// ReasonRunning says that a run is under way.
	ReasonRunning = "Running"
)

// Reasons of success (status True).
const (
	// ReasonReady says that all is as asked for.
	ReasonReady = "Ready"
	// ReasonBuilt says that the image exists.
	ReasonBuilt = "Built"
	// ReasonScaledToZero says that nothing runs because spec.replicas is 0.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonDisabled says that nothing runs because every Trigger is disabled, or, on a Trigger, that it is disabled.
	ReasonDisabled = "Disabled"
	// ReasonSucceeded says that the run ended well.
	ReasonSucceeded = "Succeeded"
	// ReasonSkipped says that a FunctionJob with runID 0 runs nothing.
	ReasonSkipped = "Skipped"
)

// Reasons that wait for a change by somebody (status False). They are rechecked slowly, so that a cause mended elsewhere heals.
const (
	// ReasonUnknownRuntime says that spec.runtime is not in the catalogue.
	ReasonUnknownRuntime = "UnknownRuntime"
	// ReasonSourceNotFound says that no object, image or address of the source's name exists or may be read.
	ReasonSourceNotFound = "SourceNotFound"
	// ReasonSourceInvalid says that the source is no archive sless accepts, or that the entrypoint is not in it.
	ReasonSourceInvalid = "SourceInvalid"
	// ReasonSourceTooLarge says that the source is over a limit of size or number of files.
	ReasonSourceTooLarge = "SourceTooLarge"
	// ReasonImageNotAllowed says that the image named is not the tenant's to run.
	ReasonImageNotAllowed = "ImageNotAllowed"
	// ReasonBuildSecretNotFound says that the Secret of spec.build.secretName does not exist, or has none of the files it may have.
	ReasonBuildSecretNotFound = "BuildSecretNotFound"
	// ReasonDependenciesFailed says that the install step ended with an error.
	ReasonDependenciesFailed = "DependenciesFailed"
	// ReasonBuildTimeout says that the build took longer than spec.build.timeoutSeconds.
	ReasonBuildTimeout = "BuildTimeout"
	// ReasonBuildOutOfMemory says that the build needed more memory than it is given.
	ReasonBuildOutOfMemory = "BuildOutOfMemory"
	// ReasonBuildOutOfDisk says that the build wrote more than it may.
	ReasonBuildOutOfDisk = "BuildOutOfDisk"
	// ReasonBuildFailed says that the build failed otherwise.
	ReasonBuildFailed = "BuildFailed"
	// ReasonRegistryDenied says that the registry refuses sless's credentials.
	ReasonRegistryDenied = "RegistryDenied"
	// ReasonEnvNotFound says that a Secret, ConfigMap or key that env names does not exist.
	ReasonEnvNotFound = "EnvNotFound"
	// ReasonEnvInvalid says that a value of env can't be the environment of a process; the message names the variable.
	ReasonEnvInvalid = "EnvInvalid"
	// ReasonSpecRefused says that the API server refuses the pods that the spec describes, for example requests above limits.
	ReasonSpecRefused = "SpecRefused"
	// ReasonCrashed says that the pods of the new version end by themselves; the message has their last words.
	ReasonCrashed = "Crashed"
	// ReasonImagePullFailed says that the node can't pull the image.
	ReasonImagePullFailed = "ImagePullFailed"
	// ReasonQuotaExceeded says that a quota or an admission policy refuses the pods.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonProgressDeadlineExceeded says that the new version's pods did not become ready in time.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonNotAllowed says that the namespace may have no Functions.
	ReasonNotAllowed = "NotAllowed"
	// ReasonFunctionNotFound says that the Function named does not exist.
	ReasonFunctionNotFound = "FunctionNotFound"
	// ReasonFunctionFailed says that the Function named can't be built or does not start.
	ReasonFunctionFailed = "FunctionFailed"
	// ReasonInvalidSchedule says that the schedule or time zone can't be understood.
	ReasonInvalidSchedule = "InvalidSchedule"
	// ReasonConflict says that an older enabled http Trigger serves the Function; the message names it.
	ReasonConflict = "Conflict"
	// ReasonInvalidEvent says that the event is not JSON.
	ReasonInvalidEvent = "InvalidEvent"
	// ReasonNoAddress says that the platform has neither an external URL nor a domain, so that no URL can be given.
	ReasonNoAddress = "NoAddress"
	// ReasonFailed says that the run ended with an error.
	ReasonFailed = "Failed"
	// ReasonTimeout says that the run was stopped at its time limit.
	ReasonTimeout = "Timeout"
	// ReasonFunctionDeleted says that the Function of a FunctionJob was deleted before or while it ran.
	ReasonFunctionDeleted = "FunctionDeleted"
)

// RestartedAtAnnotation on a Function restarts its pods when its value changes (see kubectl rollout restart).
const RestartedAtAnnotation = "sless.io/restartedAt"
