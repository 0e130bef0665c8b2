// Package config reads the platform's configuration: one YAML file, whose every field is named here with its unit and default.
package config

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// Config is the whole file.
type Config struct {
	// ExternalURL is where the gateway's public listener is reached, without a trailing slash: https://functions.example.org. A function's URL
	// is then a path below it. Absent: its host below the domain.
	ExternalURL string `json:"externalURL,omitempty"`
	// Domain is the domain under which every function with an http Trigger gets a host and an Ingress. Absent: none does.
	Domain string `json:"domain,omitempty"`
	// Ingress is for those Ingresses.
	Ingress Ingress `json:"ingress,omitempty"`
	// Runtimes is the catalogue.
	Runtimes []Runtime `json:"runtimes"`
	// Registry is where images are pushed.
	Registry Registry `json:"registry"`
	// ObjectStore is where archives are.
	ObjectStore ObjectStore `json:"objectStore"`
	// Build bounds builds.
	Build Build `json:"build,omitempty"`
	// RuntimeUpgrade paces how functions come to the catalogue's new runtime images.
	RuntimeUpgrade RuntimeUpgrade `json:"runtimeUpgrade,omitempty"`
	// Function has the defaults and bounds of function pods.
	Function Function `json:"function,omitempty"`
	// Tenants bounds what one user's namespace may have.
	Tenants Tenants `json:"tenants,omitempty"`
	// Network says which addresses that a tenant names may be called.
	Network Network `json:"network,omitempty"`
	// Gateway is how the operator calls the gateway.
	Gateway Gateway `json:"gateway,omitempty"`
	// Ledger is where what ran is recorded.
	Ledger Ledger `json:"ledger,omitempty"`
	// APIServer is the section of the apiserver, which reads the same file; the operator passes it over.
	APIServer json.RawMessage `json:"apiserver,omitempty"`
}

// Ingress is the shape of a function's Ingress.
type Ingress struct {
	// ClassName is the ingressClassName. Absent: the cluster's default class.
	ClassName string `json:"className,omitempty"`
	// TLSSecretName names a wildcard certificate's Secret in sless-system. Absent: plain HTTP.
	TLSSecretName string `json:"tlsSecretName,omitempty"`
}

// Runtime is one entry of the catalogue.
type Runtime struct {
	// Name is what Function.spec.runtime says.
	Name string `json:"name"`
	// Language is python or node; it says which files an entrypoint and a dependency manifest may be.
	Language string `json:"language"`
	// Image is the runtime image by digest.
	Image string `json:"image"`
}

// Registry is where images are pushed and pulled.
type Registry struct {
	// Host is the registry's host, and port if it has one, as the operator and the nodes know it.
	Host string `json:"host"`
	// Repository is a template of a tenant's repository below the host. {namespace} is replaced. Default sless-{namespace}.
	Repository string `json:"repository,omitempty"`
	// Insecure speaks plain HTTP. Default false.
	Insecure bool `json:"insecure,omitempty"`
	// CAFile is a PEM bundle to trust besides the system's.
	CAFile string `json:"caFile,omitempty"`
	// PushConfigFile is a Docker config.json with push credentials. Read anew for each build; of a build Job only kaniko is given it.
	// Default /etc/sless/registry-push/config.json.
	PushConfigFile string `json:"pushConfigFile,omitempty"`
	// PullConfigFile is a Docker config.json with pull credentials; it is copied into every sless-fn-* namespace.
	// Default /etc/sless/registry-pull/config.json.
	PullConfigFile string `json:"pullConfigFile,omitempty"`
	// AllowAnonymousPush accepts a registry that takes pushes without credentials. Default false: such a registry is refused at start.
	AllowAnonymousPush bool `json:"allowAnonymousPush,omitempty"`
}

// ObjectStore is an S3 bucket that holds tenants' archives.
type ObjectStore struct {
	// Endpoint is its URL: https://s3.example.org.
	Endpoint string `json:"endpoint"`
	// Region is the bucket's region. Default us-east-1.
	Region string `json:"region,omitempty"`
	// Bucket is the platform's bucket.
	Bucket string `json:"bucket"`
	// VirtualHost addresses the bucket as a host name instead of a path. Default false.
	VirtualHost bool `json:"virtualHost,omitempty"`
	// CAFile is a PEM bundle to trust besides the system's.
	CAFile string `json:"caFile,omitempty"`
	// CredentialsDir holds the files accessKeyID and secretAccessKey. Read anew for each build. Default /etc/sless/object-store.
	CredentialsDir string `json:"credentialsDir,omitempty"`
}

// Build bounds builds.
type Build struct {
	// KanikoImage is the image whose /kaniko/executor builds dependency images, by digest.
	KanikoImage string `json:"kanikoImage"`
	// CheckImage is the image that checks an install step's output: the operator's own, by digest.
	CheckImage string `json:"checkImage"`
	// PipIndexURL is the Python index. Absent: pip's default.
	PipIndexURL string `json:"pipIndexURL,omitempty"`
	// NPMRegistry is the npm registry. Absent: npm's default.
	NPMRegistry string `json:"npmRegistry,omitempty"`
	// CAConfigMapName names a ConfigMap in sless-build whose ca.crt install steps trust. Absent: the runtime image's own bundle.
	CAConfigMapName string `json:"caConfigMapName,omitempty"`
	// MaxConcurrent is how many builds run at a time. Default 4.
	MaxConcurrent int `json:"maxConcurrent,omitempty"`
	// MaxConcurrentPerNamespace is how many of them are for one namespace. Default half of MaxConcurrent, at least 1.
	MaxConcurrentPerNamespace int `json:"maxConcurrentPerNamespace,omitempty"`
	// MaxArchiveBytes is the largest archive. Default 256 MiB.
	MaxArchiveBytes int64 `json:"maxArchiveBytes,omitempty"`
	// MaxUnpackedBytes is the largest sum of files in an archive. Default 1 GiB.
	MaxUnpackedBytes int64 `json:"maxUnpackedBytes,omitempty"`
	// MaxFiles is the largest number of entries in an archive. Default 20000.
	MaxFiles int `json:"maxFiles,omitempty"`
	// Memory is the memory limit of an install step and of kaniko. Default 2Gi.
	Memory string `json:"memory,omitempty"`
	// CPU is the CPU limit of the same. Absent: none.
	CPU string `json:"cpu,omitempty"`
	// VolumeSize is the most an install step may write. Default 4Gi.
	VolumeSize string `json:"volumeSize,omitempty"`
	// KeepImages is how many images a function used last stay in the registry, the one that serves counted. Default 5, at most 50.
	KeepImages int `json:"keepImages,omitempty"`
	// KeepUnusedSeconds is how long a dependency image that no kept image needs stays. Default 86400.
	KeepUnusedSeconds int64 `json:"keepUnusedSeconds,omitempty"`
	// SpoolDir is where archives are kept while they are read. Default the system's temporary directory.
	SpoolDir string `json:"spoolDir,omitempty"`
}

// RuntimeUpgrade paces how functions come to the catalogue's new runtime images. What a tenant changes is built on the new image at once.
type RuntimeUpgrade struct {
	// Paused keeps functions on the runtime images that they have. Default false.
	Paused bool `json:"paused,omitempty"`
	// MaxConcurrent is how many functions are upgraded at a time. Default 5.
	MaxConcurrent int `json:"maxConcurrent,omitempty"`
}

// Function has the defaults and bounds of function pods.
type Function struct {
	// Memory is the memory limit of a replica that names none. Default 256Mi.
	Memory string `json:"memory,omitempty"`
	// CPU is the CPU limit of a replica that names none. Default 1.
	CPU string `json:"cpu,omitempty"`
	// CPURequest is the CPU request of a replica that names none. Default 50m.
	CPURequest string `json:"cpuRequest,omitempty"`
	// TmpSize is the size limit of /tmp. Default 512Mi.
	TmpSize string `json:"tmpSize,omitempty"`
	// ProgressDeadlineSeconds is how long pods of a new version may take to become ready. Default 120.
	ProgressDeadlineSeconds int32 `json:"progressDeadlineSeconds,omitempty"`
}

// Tenants bounds what one user's namespace may have.
type Tenants struct {
	// MaxFunctions is how many Functions a namespace may have; what is deployed already stays. Default 0, which is no limit.
	MaxFunctions int `json:"maxFunctions,omitempty"`
	// ResourceQuota bounds the pods of a namespace's functions and jobs, unless a quota of the namespace itself does. Absent: none.
	ResourceQuota *corev1.ResourceQuotaSpec `json:"resourceQuota,omitempty"`
	// LimitRange bounds each of these pods, unless a range of the namespace itself does. Absent: none.
	LimitRange *corev1.LimitRangeSpec `json:"limitRange,omitempty"`
}

// Network says which addresses that a tenant names may be called from the operator. Loopback, link-local, private and the cluster's own
// addresses may not, unless they are allowed here.
type Network struct {
	// AllowedHosts are host names that may resolve to any address.
	AllowedHosts []string `json:"allowedHosts,omitempty"`
	// AllowedCIDRs are address ranges that may be called.
	AllowedCIDRs []string `json:"allowedCIDRs,omitempty"`
	// DeniedCIDRs are address ranges that may not be called although they are public or allowed: the platform's own, such as those of
	// nodes. A host in AllowedHosts may be called there all the same.
	DeniedCIDRs []string `json:"deniedCIDRs,omitempty"`
	// CAFile is a PEM bundle to trust besides the system's at addresses that a tenant names: sources by http, git and s3, and images.
	CAFile string `json:"caFile,omitempty"`
}

// Gateway is how the operator calls the gateway.
type Gateway struct {
	// InternalURL is its internal listener. Default http://gateway-internal.sless-system.svc:8082.
	InternalURL string `json:"internalURL,omitempty"`
	// TokenFile is a projected service-account token of audience sless-gateway. Default /var/run/secrets/sless/gateway/token.
	TokenFile string `json:"tokenFile,omitempty"`
}

// Ledger is a PostgreSQL with a record of each run. Without the files there is none.
type Ledger struct {
	// DSNFile has a connection string, postgres://user:password@host:5432/database, of a role that may insert. Read anew for each connection.
	// Default /etc/sless-ledger/dsn.
	DSNFile string `json:"dsnFile,omitempty"`
	// OwnerDSNFile has a connection string of a role that may make tables. Read anew for each use. Default /etc/sless-ledger-owner/dsn.
	OwnerDSNFile string `json:"ownerDSNFile,omitempty"`
	// RetentionDays is how many days records are kept. Default 30.
	RetentionDays int `json:"retentionDays,omitempty"`
}

// maxKeepImages is how many images the status of a Function has room for.
const maxKeepImages = 50

// Load reads, defaults and validates the file at path, and looks whether the files that it names are there.
func Load(path string) (*Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	config, err := Parse(text)
	if err == nil {
		err = config.checkFiles()
	}
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	return config, nil
}

// Parse reads, defaults and validates a configuration. Unknown fields are refused.
func Parse(text []byte) (*Config, error) {
	config := &Config{}
	if err := yaml.UnmarshalStrict(text, config); err != nil {
		return nil, err
	}
	config.setDefaults()
	return config, config.validate()
}

func (c *Config) setDefaults() {
	c.ExternalURL = strings.TrimRight(c.ExternalURL, "/")
	setDefault(&c.Registry.Repository, "sless-{namespace}")
	setDefault(&c.Registry.PushConfigFile, "/etc/sless/registry-push/config.json")
	setDefault(&c.Registry.PullConfigFile, "/etc/sless/registry-pull/config.json")
	setDefault(&c.ObjectStore.CredentialsDir, "/etc/sless/object-store")
	setDefault(&c.ObjectStore.Region, "us-east-1")
	setDefault(&c.Build.MaxConcurrent, 4)
	setDefault(&c.Build.MaxConcurrentPerNamespace, max(1, c.Build.MaxConcurrent/2))
	setDefault(&c.Build.MaxArchiveBytes, 256<<20)
	setDefault(&c.Build.MaxUnpackedBytes, 1<<30)
	setDefault(&c.Build.MaxFiles, 20000)
	setDefault(&c.Build.Memory, "2Gi")
	setDefault(&c.Build.VolumeSize, "4Gi")
	setDefault(&c.Build.KeepImages, 5)
	setDefault(&c.Build.KeepUnusedSeconds, 86400)
	setDefault(&c.RuntimeUpgrade.MaxConcurrent, 5)
	setDefault(&c.Build.SpoolDir, os.TempDir())
	setDefault(&c.Function.Memory, "256Mi")
	setDefault(&c.Function.CPU, "1")
	setDefault(&c.Function.CPURequest, "50m")
	setDefault(&c.Function.TmpSize, "512Mi")
	setDefault(&c.Function.ProgressDeadlineSeconds, 120)
	setDefault(&c.Ledger.DSNFile, "/etc/sless-ledger/dsn")
	setDefault(&c.Ledger.OwnerDSNFile, "/etc/sless-ledger-owner/dsn")
	setDefault(&c.Ledger.RetentionDays, 30)
	setDefault(&c.Gateway.InternalURL, "http://gateway-internal.sless-system.svc:8082")
	setDefault(&c.Gateway.TokenFile, "/var/run/secrets/sless/gateway/token")
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate names every wrong field at once.
func (c *Config) validate() error {
	var problems problems
	wrong := problems.add
	if c.ExternalURL == "" && c.Domain == "" {
		wrong("externalURL", "is required, as the address at which the gateway is reached; or domain, for a host of each function's own")
	}
	if c.ExternalURL != "" && !isURL(c.ExternalURL) {
		wrong("externalURL", "must be an http or https URL such as https://functions.example.org")
	}
	if c.Domain != "" && len(validation.IsDNS1123Subdomain(c.Domain)) > 0 {
		wrong("domain", "must be a domain such as functions.example.org")
	}
	if len(c.Runtimes) == 0 {
		wrong("runtimes", "must have an entry")
	}
	for i, runtime := range c.Runtimes {
		field := fmt.Sprintf("runtimes[%d]", i)
		if runtime.Name == "" {
			wrong(field+".name", "is required")
		}
		if runtime.Language != "python" && runtime.Language != "node" {
			wrong(field+".language", "must be python or node")
		}
		if !strings.Contains(runtime.Image, "@sha256:") {
			wrong(field+".image", "must name the image by digest, as registry/name@sha256:…")
		}
	}
	for field, value := range map[string]string{
		"registry.host": c.Registry.Host, "objectStore.endpoint": c.ObjectStore.Endpoint, "objectStore.bucket": c.ObjectStore.Bucket,
		"build.kanikoImage": c.Build.KanikoImage, "build.checkImage": c.Build.CheckImage,
	} {
		if value == "" {
			wrong(field, "is required")
		}
	}
	if strings.Contains(c.Registry.Host, "/") {
		wrong("registry.host", "must be a host and a port if it has one, such as registry.example.org; the path goes into registry.repository")
	}
	if c.ObjectStore.Endpoint != "" && !isURL(c.ObjectStore.Endpoint) {
		wrong("objectStore.endpoint", "must be an http or https URL such as https://s3.example.org")
	}
	if !strings.Contains(c.Registry.Repository, "{namespace}") {
		wrong("registry.repository", "must contain {namespace}, or tenants would share a repository")
	}
	for field, value := range map[string]string{
		"build.memory": c.Build.Memory, "build.cpu": c.Build.CPU, "build.volumeSize": c.Build.VolumeSize, "function.memory": c.Function.Memory,
		"function.cpu": c.Function.CPU, "function.cpuRequest": c.Function.CPURequest, "function.tmpSize": c.Function.TmpSize,
	} {
		if _, err := resource.ParseQuantity(value); value != "" && err != nil {
			wrong(field, "must be a quantity such as 512Mi or 500m")
		}
	}
	c.Build.validate(wrong)
	if c.Tenants.MaxFunctions < 0 {
		wrong("tenants.maxFunctions", "must be at least 0, which is no limit")
	}
	if c.Ledger.RetentionDays < 1 {
		wrong("ledger.retentionDays", "must be at least 1")
	}
	for field, ranges := range map[string][]string{"allowedCIDRs": c.Network.AllowedCIDRs, "deniedCIDRs": c.Network.DeniedCIDRs} {
		for i, cidr := range ranges {
			if _, err := netip.ParsePrefix(cidr); err != nil {
				wrong(fmt.Sprintf("network.%s[%d]", field, i), "must be an address range such as 10.0.0.0/8")
			}
		}
	}
	return problems.err()
}

func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") && u.RawQuery == ""
}

func (b *Build) validate(wrong func(field, rule string)) {
	for field, value := range map[string]int64{
		"build.maxConcurrent": int64(b.MaxConcurrent), "build.maxConcurrentPerNamespace": int64(b.MaxConcurrentPerNamespace),
		"build.keepImages": int64(b.KeepImages), "build.keepUnusedSeconds": b.KeepUnusedSeconds,
	} {
		if value < 1 {
			wrong(field, "must be at least 1")
		}
	}
	if b.KeepImages > maxKeepImages {
		wrong("build.keepImages", fmt.Sprintf("must be at most %d", maxKeepImages))
	}
}

// Runtime returns the catalogue's entry of that name, and false when there is none.
func (c *Config) Runtime(name string) (Runtime, bool) {
	for _, runtime := range c.Runtimes {
		if runtime.Name == name {
			return runtime, true
		}
	}
	return Runtime{}, false
}

// RuntimeNames lists the catalogue, for messages.
func (c *Config) RuntimeNames() string {
	names := make([]string, len(c.Runtimes))
	for i, runtime := range c.Runtimes {
		names[i] = runtime.Name
	}
	return strings.Join(names, ", ")
}
