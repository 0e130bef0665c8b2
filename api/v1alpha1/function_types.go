package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Function is code that sless builds into an image and keeps running, to be called by Triggers, FunctionJobs and REST.
//
// A Function alone is reachable from inside the cluster only; an enabled http Trigger gives it a public URL.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=fn,categories={sless}
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Runtime",type=string,JSONPath=`.spec.runtime`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Upgrade",type=string,priority=1,JSONPath=`.status.upgrade.state`
// +kubebuilder:printcolumn:name="Runtime image",type=string,priority=1,JSONPath=`.status.runtimeVersion`
// +kubebuilder:printcolumn:name="Image",type=string,priority=1,JSONPath=`.status.image`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",message="metadata.name must be a DNS label of RFC 1035: at most 63 lower-case letters, digits and hyphens, starting with a letter and not ending with a hyphen (for example resize-image)"
type Function struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what should run.
	// +required
	Spec FunctionSpec `json:"spec"`
	// status is what was built and what runs; sless writes it.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status FunctionStatus `json:"status,omitempty"`
}

// FunctionSpec says what code runs, with what, and how much of it.
//
// +kubebuilder:validation:XValidation:rule="has(self.runtime) || has(self.source.image)",message="runtime is required unless source.image is set"
type FunctionSpec struct {
	// runtime is the name of a runtime in the platform's catalogue, for example python3.11 or nodejs20. Required unless
	// source.image is set. A name that the catalogue lacks leaves the Function with reason UnknownRuntime.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Runtime string `json:"runtime,omitempty"`

	// entrypoint is the module's path, a dot and the function's name: handler.handle is the function handle in handler.py
	// or handler.js, and pkg.sub.main the function main in pkg/sub.py. Default handler.handle.
	// +optional
	// +kubebuilder:default="handler.handle"
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)+$`
	Entrypoint string `json:"entrypoint,omitempty"`

	// source is where the code comes from; exactly one of its fields is set.
	// +required
	Source Source `json:"source"`

	// codeHash is the user's own opaque mark of the code. A new value means: read the source again. sless compares it and
	// gives it back in status once the bytes it stands for are deployed, and never computes or checks it.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	CodeHash string `json:"codeHash,omitempty"`

	// env is the environment of the handler. A change restarts the pods and builds nothing. A value from a Secret or
	// ConfigMap of the same namespace is followed: a change there is noticed within 60 seconds.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Env []EnvVar `json:"env,omitempty"`

	// build says how the image is built.
	// +optional
	Build Build `json:"build,omitempty,omitzero"`

	// resources is what one replica may use. Absent values are the platform's defaults. Only cpu and memory are known;
	// requests that are not given equal the limits for memory and are a share of the limit for cpu.
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// timeoutSeconds is how long a call may take before it is answered 504 and its worker ended. Default 60.
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// concurrency is how many calls one replica runs at a time; an excess call waits or is answered 429. Absent means no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Concurrency *int32 `json:"concurrency,omitempty"`

	// replicas is how many pods run. Absent means 1, and 0 means off: nothing runs and calls are answered 503. It is also
	// what kubectl scale and autoscalers write.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Replicas *int32 `json:"replicas,omitempty"`
}

// Source is where code comes from. Exactly one field is set.
//
// +kubebuilder:validation:XValidation:rule="[has(self.inline), has(self.s3), has(self.http), has(self.git), has(self.image)].filter(x, x).size() == 1",message="exactly one of inline, s3, http, git and image must be set"
type Source struct {
	// inline is file names and their text, at most 96 KiB together. Names are relative paths with forward slashes.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(name, size(name) <= 256 && name.matches('^[A-Za-z0-9_.@+-]+(/[A-Za-z0-9_.@+-]+)*$') && !name.split('/').exists(part, part == '.' || part == '..'))",message="file names must be relative paths of letters, digits and _ . @ + - without . or .. parts, at most 256 characters (for example lib/util.py)"
	// +kubebuilder:validation:XValidation:rule="self.map(name, size(bytes(self[name]))).sum() <= 98304",message="the files together must not be larger than 96 KiB; put more code into an archive (source.s3)"
	Inline map[string]InlineFile `json:"inline,omitempty"`

	// s3 is a zip archive in an S3 bucket.
	// +optional
	S3 *S3Source `json:"s3,omitempty"`

	// http is a zip archive at an address.
	// +optional
	HTTP *HTTPSource `json:"http,omitempty"`

	// git is a folder of a Git repository.
	// +optional
	Git *GitSource `json:"git,omitempty"`

	// image is an image built elsewhere, as registry/name@sha256:… or with a tag that is resolved when the source is
	// read. It must keep the runtime contract.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][a-zA-Z0-9._:/@-]*$`
	Image string `json:"image,omitempty"`
}

// InlineFile is the text of one file.
//
// +kubebuilder:validation:MaxLength=98304
type InlineFile string

// S3Source is a zip archive in an S3 bucket.
//
// +kubebuilder:validation:XValidation:rule="!has(self.bucket) || has(self.secretName)",message="bucket needs secretName: the platform's own credentials read the platform's bucket only"
// +kubebuilder:validation:XValidation:rule="!has(self.endpoint) || has(self.secretName)",message="endpoint needs secretName: the platform's own credentials are for its own object store only"
type S3Source struct {
	// key is the object's name. Without secretName it is relative to this tenant's own folder in the platform's bucket.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.split('/').exists(part, part == '.' || part == '..')",message="key must not start with a slash or have . or .. parts"
	Key string `json:"key"`
	// bucket is the bucket's name; needs secretName. Absent means the platform's bucket.
	// +optional
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	Bucket string `json:"bucket,omitempty"`
	// endpoint is the URL of another object store; needs secretName. Absent means the platform's.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^https?://[^/?#@]+/?$`
	Endpoint string `json:"endpoint,omitempty"`
	// region is the bucket's region. Default us-east-1.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Region string `json:"region,omitempty"`
	// versionID is the object's version. Absent means the latest at the time the source is read.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	VersionID string `json:"versionID,omitempty"`
	// sha256 is the expected SHA-256 of the archive in hex; other bytes are refused with reason SourceInvalid.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	SHA256 string `json:"sha256,omitempty"`
	// secretName names a Secret of the same namespace with accessKeyID and secretAccessKey.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`
	// pollIntervalSeconds is how often the object is looked at; another ETag than that of the code that serves means: read it
	// again. Absent means never: then only a change of the spec reads it. Not useful with versionID.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	PollIntervalSeconds int32 `json:"pollIntervalSeconds,omitempty"`
}

// HTTPSource is a zip archive at an address. Redirects are followed; an address that is not public is refused with reason
// SourceInvalid unless the platform allows it.
type HTTPSource struct {
	// url is the address: http or https, without user or password.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https?://[^/?#@\s]+(/[^\s#]*)?$`
	URL string `json:"url"`
	// sha256 is the SHA-256 of the archive in hex; other bytes are refused with reason SourceInvalid. It is required: an address can
	// be anybody's.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	SHA256 string `json:"sha256"`
}

// GitSource is a folder of a Git repository that is read by http or https.
type GitSource struct {
	// url is the repository's address: http or https, without user or password.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https?://[^/?#@\s]+/[^\s?#]+$`
	URL string `json:"url"`
	// ref is a branch, a tag, a full reference such as refs/heads/main, or a commit as 40 hex digits. A branch or tag is resolved when
	// the source is read; status.sourceRevision has the commit. A tag goes before a branch of the same name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_][A-Za-z0-9_./+@-]*$`
	Ref string `json:"ref"`
	// path is the folder with the code, relative to the repository's root. Absent means the root.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.split('/').exists(part, part == '.' || part == '..')",message="path must not start with a slash or have . or .. parts"
	Path string `json:"path,omitempty"`
	// secretName names a Secret of the same namespace with username and password (a token is a password; of type
	// kubernetes.io/basic-auth, or any other with these keys).
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`
}

// EnvVar is one variable of the handler's environment.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.value) && has(self.valueFrom))",message="value and valueFrom can't both be set"
// +kubebuilder:validation:XValidation:rule="!self.name.startsWith('SLESS_') && self.name != 'PORT'",message="names starting with SLESS_, and PORT, are sless's own"
type EnvVar struct {
	// name is the variable's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_.-]*$`
	Name string `json:"name"`
	// value is its text. Absent, with no valueFrom, means empty.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Value string `json:"value,omitempty"`
	// valueFrom takes the text from a Secret or ConfigMap of the same namespace.
	// +optional
	ValueFrom *EnvVarSource `json:"valueFrom,omitempty"`
}

// EnvVarSource is a key of a Secret or ConfigMap. Exactly one field is set.
//
// +kubebuilder:validation:XValidation:rule="has(self.secretKeyRef) != has(self.configMapKeyRef)",message="exactly one of secretKeyRef and configMapKeyRef must be set"
type EnvVarSource struct {
	// secretKeyRef is a key of a Secret.
	// +optional
	SecretKeyRef *KeyRef `json:"secretKeyRef,omitempty"`
	// configMapKeyRef is a key of a ConfigMap.
	// +optional
	ConfigMapKeyRef *KeyRef `json:"configMapKeyRef,omitempty"`
}

// KeyRef names a key of an object of the same namespace.
type KeyRef struct {
	// name is the object's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// key is the key in it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
	// optional says that the variable is left out when the object or key does not exist. Default false: the Function waits
	// with reason EnvNotFound.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// Build says how an image is built.
type Build struct {
	// timeoutSeconds is how long a build may take, waiting for its turn aside. Default 300.
	// +optional
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=3600
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
	// secretName names a Secret of the same namespace with credentials for the tenant's own package index: the keys pip.conf, netrc
	// and npmrc, each optional, are such files. Only the step that installs dependencies sees them, and no image, log or status does.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`
}

// Resources are a replica's requests and limits.
type Resources struct {
	// limits is the most a replica may use: cpu and memory, for example {cpu: 500m, memory: 256Mi}.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(name, name == 'cpu' || name == 'memory')",message="only cpu and memory can be limited"
	// +kubebuilder:validation:MaxProperties=2
	Limits corev1.ResourceList `json:"limits,omitempty"`
	// requests is what a replica is guaranteed: cpu and memory.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(name, name == 'cpu' || name == 'memory')",message="only cpu and memory can be requested"
	// +kubebuilder:validation:MaxProperties=2
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

// FunctionPhase is a one-word summary of a Function's conditions, for people and Terraform.
//
// +kubebuilder:validation:Enum=Pending;Building;Deploying;Ready;Failed
type FunctionPhase string

// The phases of a Function.
const (
	FunctionPending   FunctionPhase = "Pending"
	FunctionBuilding  FunctionPhase = "Building"
	FunctionDeploying FunctionPhase = "Deploying"
	FunctionReady     FunctionPhase = "Ready"
	FunctionFailed    FunctionPhase = "Failed"
)

// FunctionStatus is what sless has built and what runs.
type FunctionStatus struct {
	// phase is a summary of the conditions: Pending, Building, Deploying, Ready or Failed.
	// +optional
	Phase FunctionPhase `json:"phase,omitempty"`
	// observedGeneration is the generation of the spec that this status speaks of; -1 before sless has looked at the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions are Ready, Built and Available, and Stalled while Ready is False.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// codeHash is spec.codeHash as of the code that is deployed.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	CodeHash string `json:"codeHash,omitempty"`
	// sourceDigest is the digest of the code that the image has.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	SourceDigest string `json:"sourceDigest,omitempty"`
	// sourceRevision is what the source was read at: the commit of git, the ETag of s3. Empty for other sources.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	SourceRevision string `json:"sourceRevision,omitempty"`
	// image is the image that is or will be deployed, by digest.
	// +optional
	// +kubebuilder:validation:MaxLength=768
	Image string `json:"image,omitempty"`
	// buildKey stands for what the spec says of the image: source, codeHash, entrypoint and the runtime's name. Another key means another
	// build; a new image of the same runtime does not change it.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	BuildKey string `json:"buildKey,omitempty"`
	// runtimeVersion is the runtime image, by digest, that the image was built on.
	// +optional
	// +kubebuilder:validation:MaxLength=768
	RuntimeVersion string `json:"runtimeVersion,omitempty"`
	// lastBuiltAt is when the image was made.
	// +optional
	LastBuiltAt *metav1.Time `json:"lastBuiltAt,omitempty"`
	// build is the build under way, or the last one.
	// +optional
	Build *BuildStatus `json:"build,omitempty"`
	// images are the images that the Function used last, newest first, which the registry keeps: going back to the source of one
	// of them builds nothing.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Images []UsedImage `json:"images,omitempty"`
	// runtimeHeld is a runtime image, by digest, to which the Function could not be brought, so that it stays on runtimeVersion; upgrade
	// says why. A change of the source, of codeHash or of anything else that makes its pods, or another runtime image, tries again.
	// +optional
	// +kubebuilder:validation:MaxLength=768
	RuntimeHeld string `json:"runtimeHeld,omitempty"`
	// upgrade is set while the Function is not on the runtime image that the catalogue names, or not on the pods that this version of
	// sless makes, although its spec has not changed.
	// +optional
	Upgrade *UpgradeStatus `json:"upgrade,omitempty"`
	// replicas is how many pods exist.
	// +optional
	Replicas int32 `json:"replicas"`
	// readyReplicas is how many pods of the current version answer.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// selector is the label selector of the pods, for autoscalers.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Selector string `json:"selector,omitempty"`
	// url is where an enabled http Trigger makes the Function reachable.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	URL string `json:"url,omitempty"`
}

// UpgradeState is a one-word summary of an upgrade, for people.
//
// +kubebuilder:validation:Enum=Waiting;Paused;Upgrading;Held
type UpgradeState string

// The states of an upgrade.
const (
	// UpgradeWaiting is a Function that waits for its turn.
	UpgradeWaiting UpgradeState = "Waiting"
	// UpgradePaused is one that gets no turn, because upgrades of runtimes are paused.
	UpgradePaused UpgradeState = "Paused"
	// Upgrading is one that is being built on the new runtime image or rolled out.
	Upgrading UpgradeState = "Upgrading"
	// UpgradeHeld is one that could not be brought to the new runtime image and stays on the old one.
	UpgradeHeld UpgradeState = "Held"
)

// UpgradeStatus is a Function's way to another runtime image, or to the pods that another version of sless makes.
type UpgradeStatus struct {
	// state is a summary: Waiting, Paused, Upgrading or Held.
	// +optional
	State UpgradeState `json:"state,omitempty"`
	// startedAt is since when the Function has one of the places for Functions that are upgraded at a time.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// runtimeVersion is the runtime image, by digest, that it has the place for.
	// +optional
	// +kubebuilder:validation:MaxLength=768
	RuntimeVersion string `json:"runtimeVersion,omitempty"`
	// image is the image on that runtime, by digest, once it is built.
	// +optional
	// +kubebuilder:validation:MaxLength=768
	Image string `json:"image,omitempty"`
	// message is why the Function is held.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// UsedImage is an image that a Function used, with what status said of it then.
type UsedImage struct {
	// image is the image, by digest.
	// +required
	// +kubebuilder:validation:MaxLength=768
	Image string `json:"image"`
	// sourceDigest is the digest of the code that it has.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	SourceDigest string `json:"sourceDigest,omitempty"`
	// sourceRevision is what the source was read at.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	SourceRevision string `json:"sourceRevision,omitempty"`
	// buildKey stands for everything it was built from.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	BuildKey string `json:"buildKey,omitempty"`
	// runtimeVersion is the runtime image, by digest, that it was built on.
	// +optional
	// +kubebuilder:validation:MaxLength=768
	RuntimeVersion string `json:"runtimeVersion,omitempty"`
}

// BuildStatus is one build.
type BuildStatus struct {
	// step is what the build does or did last: Queued, Fetching, Installing, Pushing, Done or Failed.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Step string `json:"step,omitempty"`
	// position is the build's place in the queue in step Queued; 1 is next.
	// +optional
	Position int32 `json:"position,omitempty"`
	// jobName is the Job in the build namespace that installs dependencies or makes the image, while there is one.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	JobName string `json:"jobName,omitempty"`
	// startedAt is when it began.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// logTail is the end of the log of a build that failed, at most 8 KiB, without secrets.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	LogTail string `json:"logTail,omitempty"`
}

// FunctionList is a list of Functions.
//
// +kubebuilder:object:root=true
type FunctionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the Functions.
	Items []Function `json:"items"`
}
