package rest

import "time"

// Function is code that sless builds and runs.
type Function struct {
	Name        string            `json:"name,omitempty" doc:"At most 63 lower-case letters, digits and hyphens; starts with a letter, ends with a letter or digit. Can't be changed." example:"resize-image"`
	Labels      map[string]string `json:"labels,omitzero" doc:"Kubernetes labels. Left alone by a PUT without it."`
	Runtime     string            `json:"runtime,omitempty" doc:"A name in the platform's catalogue. Required unless source.image is set." example:"python3.11"`
	Entrypoint  string            `json:"entrypoint,omitempty" doc:"Path of the module, a dot, the function. Default handler.handle." example:"handler.handle"`
	Source      *Source           `json:"source,omitempty" doc:"Where the code comes from. Required."`
	CodeHash    string            `json:"code_hash,omitempty" doc:"Your own opaque mark of the code. A new value means: read the source again."`
	Env         map[string]string `json:"env,omitzero" doc:"Variables of the handler's environment."`
	EnvFrom     map[string]EnvRef `json:"env_from,omitzero" doc:"Variables, by name, whose value is a key of a Secret or ConfigMap of the namespace."`
	SecretEnv   map[string]string `json:"secret_env,omitzero" writeOnly:"true" doc:"Variables whose values are kept in a Secret of sless's own and are never given back. Left alone by a PUT without it; {} removes them."`
	MemoryMB    *int64            `json:"memory_mb,omitempty" minimum:"1" maximum:"16777216" doc:"Memory limit of a replica in MiB. Absent: the platform's default."`
	CPU         *float64          `json:"cpu,omitempty" minimum:"0.001" maximum:"4096" doc:"CPU limit of a replica in cores. Absent: the platform's default." example:"0.5"`
	RequestMB   *int64            `json:"memory_request_mb,omitempty" minimum:"1" maximum:"16777216" doc:"Memory guaranteed to a replica in MiB. Absent: equal to the limit."`
	RequestCPU  *float64          `json:"cpu_request,omitempty" minimum:"0.001" maximum:"4096" doc:"CPU guaranteed to a replica in cores. Absent: a share of the limit."`
	TimeoutSec  *int32            `json:"timeout_sec,omitempty" minimum:"1" doc:"How long a call may take, in seconds. Default 60, at most 3600."`
	Concurrency *int32            `json:"concurrency,omitempty" doc:"How many calls one replica runs at a time. Absent: no limit."`
	Replicas    *int32            `json:"replicas,omitempty" doc:"How many pods run. Absent in a new function means 1, and 0 means off. Left alone by a PUT without it, so that an autoscaler's figure stands."`
	BuildSec    *int32            `json:"build_timeout_sec,omitempty" minimum:"1" doc:"How long a build may take, in seconds. Default 300, 10 to 3600."`
	BuildSecret string            `json:"build_secret_name,omitempty" doc:"A Secret of the namespace with pip.conf, netrc or npmrc for the namespace's own package index. Only the step that installs dependencies sees it."`
	RestartedAt string            `json:"restarted_at,omitempty" doc:"Any text. A new value restarts the pods. Left alone by a PUT without it."`

	Namespace  string          `json:"namespace,omitempty" readOnly:"true" doc:"The namespace."`
	UID        string          `json:"uid,omitempty" readOnly:"true" doc:"Different for each function that ever had the name."`
	Generation int64           `json:"generation,omitempty" readOnly:"true" doc:"Counts changes of what can be written."`
	CreatedAt  *time.Time      `json:"created_at,omitempty" readOnly:"true" doc:"When it was made."`
	SecretKeys []string        `json:"secret_env_keys,omitempty" readOnly:"true" doc:"The names of secret_env."`
	Status     *FunctionStatus `json:"status,omitempty" readOnly:"true" doc:"What was built and what runs."`
}

// Source is where code comes from. Exactly one field is set.
type Source struct {
	Inline map[string]string `json:"inline,omitempty" doc:"File names and their text, at most 96 KiB together."`
	S3     *S3Source         `json:"s3,omitempty" doc:"A zip archive in an S3 bucket, or one uploaded to this server."`
	HTTP   *HTTPSource       `json:"http,omitempty" doc:"A zip archive at an address."`
	Git    *GitSource        `json:"git,omitempty" doc:"A folder of a Git repository."`
	Image  string            `json:"image,omitempty" doc:"An image built elsewhere that keeps the runtime contract."`
}

// S3Source is a zip archive in an S3 bucket.
type S3Source struct {
	Key        string `json:"key" doc:"The object's name. Without secret_name it is what an upload to …/sources answered."`
	Bucket     string `json:"bucket,omitempty" doc:"The bucket; needs secret_name. Absent: the platform's."`
	Endpoint   string `json:"endpoint,omitempty" doc:"URL of another object store; needs secret_name."`
	Region     string `json:"region,omitempty" doc:"The bucket's region. Default us-east-1."`
	VersionID  string `json:"version_id,omitempty" doc:"The object's version. Absent: the latest when the source is read."`
	SHA256     string `json:"sha256,omitempty" doc:"Expected SHA-256 of the archive in hex."`
	SecretName string `json:"secret_name,omitempty" doc:"A Secret of the namespace with accessKeyID and secretAccessKey."`
	PollSec    *int32 `json:"poll_interval_sec,omitempty" minimum:"1" doc:"How often to look for another object under the key, in seconds, 10 to 86400. Absent: never."`
}

// HTTPSource is a zip archive at an address.
type HTTPSource struct {
	URL    string `json:"url" doc:"The address, http or https, without user or password."`
	SHA256 string `json:"sha256" doc:"SHA-256 of the archive in hex."`
}

// GitSource is a folder of a Git repository.
type GitSource struct {
	URL        string `json:"url" doc:"The repository's address, http or https, without user or password."`
	Ref        string `json:"ref" doc:"A branch, a tag, a full reference, or a commit as 40 hex digits."`
	Path       string `json:"path,omitempty" doc:"The folder with the code. Absent: the root."`
	SecretName string `json:"secret_name,omitempty" doc:"A Secret of the namespace with username and password."`
}

// EnvRef is a key of a Secret or ConfigMap. Exactly one of SecretName and ConfigMapName is set.
type EnvRef struct {
	SecretName    string `json:"secret_name,omitempty" doc:"The Secret's name."`
	ConfigMapName string `json:"config_map_name,omitempty" doc:"The ConfigMap's name."`
	Key           string `json:"key" doc:"The key in it."`
	Optional      bool   `json:"optional,omitempty" doc:"Leave the variable out when the object or key does not exist. Default false: the function waits."`
}

// The phases of a Function.
const (
	FunctionPending   = "Pending"
	FunctionBuilding  = "Building"
	FunctionDeploying = "Deploying"
	FunctionReady     = "Ready"
	FunctionFailed    = "Failed"
)

// FunctionStatus is what was built and what runs.
type FunctionStatus struct {
	Status
	CodeHash       string       `json:"code_hash,omitempty" doc:"code_hash of the code that is deployed."`
	CodeSHA256     string       `json:"code_sha256,omitempty" doc:"Digest of the files that are deployed, the same whatever they came in."`
	SourceRevision string       `json:"source_revision,omitempty" doc:"What the source was read at: the commit of git, the ETag of s3."`
	Image          string       `json:"image,omitempty" doc:"The image, by digest."`
	RuntimeVersion string       `json:"runtime_version,omitempty" doc:"The runtime image that it was built on, by digest."`
	LastBuiltAt    *time.Time   `json:"last_built_at,omitempty" doc:"When the image was made."`
	Build          *BuildStatus `json:"build,omitempty" doc:"The build under way, or the last one."`
	Replicas       int32        `json:"replicas" doc:"How many pods exist."`
	ReadyReplicas  int32        `json:"ready_replicas" doc:"How many pods of the current version answer."`
	URL            string       `json:"url,omitempty" doc:"Where an enabled http trigger makes the function reachable."`
}

// BuildStatus is one build.
type BuildStatus struct {
	Step      string     `json:"step,omitempty" doc:"Queued, Fetching, Installing, Pushing, Done or Failed."`
	Position  int32      `json:"position,omitempty" doc:"Its place in the queue in step Queued; 1 is next."`
	StartedAt *time.Time `json:"started_at,omitempty" doc:"When it began."`
	LogTail   string     `json:"log_tail,omitempty" doc:"The end of the log of a build that failed."`
}

// Status is what the statuses of all kinds have.
type Status struct {
	Phase              string      `json:"phase,omitempty" doc:"One word for the conditions."`
	Ready              string      `json:"ready,omitempty" doc:"The condition Ready: True, False, or Unknown while something is in progress."`
	Reason             string      `json:"reason,omitempty" doc:"Why, as one word."`
	Message            string      `json:"message,omitempty" doc:"Why, for people."`
	ObservedGeneration int64       `json:"observed_generation,omitempty" doc:"The generation that this status speaks of."`
	Conditions         []Condition `json:"conditions,omitempty" doc:"All conditions."`
}

// Condition is one Kubernetes condition.
type Condition struct {
	Type               string     `json:"type" doc:"Its name."`
	Status             string     `json:"status" doc:"True, False or Unknown."`
	Reason             string     `json:"reason,omitempty" doc:"Why, as one word."`
	Message            string     `json:"message,omitempty" doc:"Why, for people."`
	ObservedGeneration int64      `json:"observed_generation,omitempty" doc:"The generation that it speaks of."`
	LastTransitionTime *time.Time `json:"last_transition_time,omitempty" doc:"When status last changed."`
}
