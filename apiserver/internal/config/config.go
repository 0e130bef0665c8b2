// Package config reads the apiserver's sections of the platform's configuration file. Sections of other programs are passed over.
package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Config is what the apiserver reads of the file.
type Config struct {
	// ObjectStore is where uploaded archives are put.
	ObjectStore ObjectStore `json:"objectStore"`
	// Registry is where the code of what serves is read from. Without a host, code can't be downloaded.
	Registry Registry `json:"registry,omitempty"`
	// Gateway is how functions are invoked.
	Gateway Gateway `json:"gateway,omitempty"`
	// Build has the limit on archives, which the operator shares.
	Build Build `json:"build,omitempty"`
	// Ledger is where records of what ran are read from.
	Ledger Ledger `json:"ledger,omitempty"`
	// APIServer is for the apiserver alone.
	APIServer APIServer `json:"apiserver,omitempty"`
}

// ObjectStore is the S3 bucket that holds tenants' archives.
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
	// CredentialsDir holds the files accessKeyID and secretAccessKey. Read anew when they change. Default /etc/sless/object-store.
	CredentialsDir string `json:"credentialsDir,omitempty"`
}

// Registry is the platform's container registry, of which the operator has a section with more.
type Registry struct {
	// Host is the registry's host, and port if it has one.
	Host string `json:"host,omitempty"`
	// Repository is a template of a tenant's repository below the host. {namespace} is replaced. Default sless-{namespace}.
	Repository string `json:"repository,omitempty"`
	// Insecure speaks plain HTTP. Default false.
	Insecure bool `json:"insecure,omitempty"`
	// CAFile is a PEM bundle to trust besides the system's.
	CAFile string `json:"caFile,omitempty"`
	// PullConfigFile is a Docker config.json with pull credentials. Read anew for each download. Default /etc/sless/registry-pull/config.json,
	// if there is a Host.
	PullConfigFile string `json:"pullConfigFile,omitempty"`
}

// Gateway is how the apiserver calls the gateway.
type Gateway struct {
	// InternalURL is its internal listener. Default http://gateway-internal.sless-system.svc:8082.
	InternalURL string `json:"internalURL,omitempty"`
	// TokenFile is a projected service-account token of audience sless-gateway. Default /var/run/secrets/sless/gateway/token.
	TokenFile string `json:"tokenFile,omitempty"`
}

// Ledger is the database with a record of each run.
type Ledger struct {
	// DSNFile has a connection string of PostgreSQL, postgres://user:password@host:5432/database, of a role that may read. Read anew for each
	// connection. Without the file there are no records to read. Default /etc/sless-ledger/dsn.
	DSNFile string `json:"dsnFile,omitempty"`
}

// Build has the limit on archives.
type Build struct {
	// MaxArchiveBytes is the largest archive. Default 256 MiB.
	MaxArchiveBytes int64 `json:"maxArchiveBytes,omitempty"`
}

// APIServer is the section of the apiserver alone. Every field may be absent.
type APIServer struct {
	Auth   Auth   `json:"auth,omitempty"`
	Limits Limits `json:"limits,omitempty"`
	TLS    TLS    `json:"tls,omitempty"`
	// TrustedProxies are address ranges of what stands before the apiserver and says by X-Forwarded-For who calls. Absent: nobody is believed.
	TrustedProxies []netip.Prefix `json:"trustedProxies,omitempty"`
}

// TLS makes the public listener speak HTTPS. Both files are read anew when they change.
type TLS struct {
	// CertFile is a PEM file with the certificate and its chain. Absent: plain HTTP.
	CertFile string `json:"certFile,omitempty"`
	// KeyFile is a PEM file with the certificate's key.
	KeyFile string `json:"keyFile,omitempty"`
}

// Limits bound what one caller can take.
type Limits struct {
	// RequestsPerSecond is the rate of one identity, over all connections to one replica. Default 1000.
	RequestsPerSecond float64 `json:"requestsPerSecond,omitempty"`
	// Burst is how many requests of one identity may come at once. Default 2000.
	Burst int `json:"burst,omitempty"`
	// Uploads is how many archives one replica takes at a time, and how many it gives. Default 8.
	Uploads int `json:"uploads,omitempty"`
	// BodyIdleSeconds is how long the next part of a body may take. Default 30.
	BodyIdleSeconds int `json:"bodyIdleSeconds,omitempty"`
	// DrainSeconds is how long requests in flight may go on after SIGTERM. Default 30.
	DrainSeconds int `json:"drainSeconds,omitempty"`
	// SourceTTLHours is how long an archive that no function names is kept. Default 24.
	SourceTTLHours int `json:"sourceTTLHours,omitempty"`
}

// Auth is the chain of authenticators. Absent, only Kubernetes tokens are good.
type Auth struct {
	// OIDC are issuers of JWTs.
	OIDC []OIDC `json:"oidc,omitempty"`
	// Introspection are endpoints of RFC 7662 for opaque tokens.
	Introspection []Introspection `json:"introspection,omitempty"`
	// UserInfo are endpoints that answer who a token's owner is.
	UserInfo []UserInfo `json:"userInfo,omitempty"`
	// StaticTokensFile is a YAML file of hashed tokens. Read anew when it changes.
	StaticTokensFile string `json:"staticTokensFile,omitempty"`
	// Kubernetes is for service-account tokens.
	Kubernetes Kubernetes `json:"kubernetes,omitempty"`
	// BadTokensPerMinute is how many tokens that turn out not to be good one address can have looked up. Default 30.
	BadTokensPerMinute float64 `json:"badTokensPerMinute,omitempty"`
	// CacheSeconds is how long a good token is not asked about again, and so how long a revoked one stays good. Default 30, at most 300.
	CacheSeconds int `json:"cacheSeconds,omitempty"`
}

// Kubernetes is the authenticator of Kubernetes tokens by TokenReview.
type Kubernetes struct {
	// Disabled turns it off.
	Disabled bool `json:"disabled,omitempty"`
	// Audiences are those a token must be for, one of them. Absent: the Kubernetes API server's own.
	Audiences []string `json:"audiences,omitempty"`
}

// Claims say which claims of an answer name the user, and what the names are prefixed with.
type Claims struct {
	// UsernameClaim names the user. Default sub.
	UsernameClaim string `json:"usernameClaim,omitempty"`
	// GroupsClaim lists the user's groups. Absent: none.
	GroupsClaim string `json:"groupsClaim,omitempty"`
	// Prefix is put before the user's name and each group, so that no two authenticators give one name. Required.
	Prefix string `json:"prefix"`
}

// OIDC is one issuer.
type OIDC struct {
	Claims `json:",inline"`
	// Issuer is its URL, equal to the claim iss.
	Issuer string `json:"issuer"`
	// Audiences are those a token must be for, one of them.
	Audiences []string `json:"audiences"`
	// CAFile is a PEM bundle to trust besides the system's.
	CAFile string `json:"caFile,omitempty"`
}

// Introspection is one endpoint of RFC 7662.
type Introspection struct {
	Claims `json:",inline"`
	// URL is its address.
	URL string `json:"url"`
	// ClientIDFile is a file with the name that sless shows itself by.
	ClientIDFile string `json:"clientIDFile,omitempty"`
	// ClientSecretFile is a file with the password that goes with it.
	ClientSecretFile string `json:"clientSecretFile,omitempty"`
	// Audiences are those a token must be for, one of them. Absent: any, which is only right when the endpoint knows no other services' tokens.
	Audiences []string `json:"audiences,omitempty"`
	// CAFile is a PEM bundle to trust besides the system's.
	CAFile string `json:"caFile,omitempty"`
}

// UserInfo is one endpoint that is shown the token as a bearer token and answers 200 with JSON claims, or 401 or 403.
type UserInfo struct {
	Claims `json:",inline"`
	// URL is its address.
	URL string `json:"url"`
	// CAFile is a PEM bundle to trust besides the system's.
	CAFile string `json:"caFile,omitempty"`
}

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

// Parse reads, defaults and validates a configuration. Unknown fields of the section apiserver are refused.
func Parse(text []byte) (*Config, error) {
	config := &Config{}
	if err := yaml.Unmarshal(text, config); err != nil {
		return nil, err
	}
	var own struct {
		APIServer any `json:"apiserver"`
	}
	if err := yaml.Unmarshal(text, &own); err != nil {
		return nil, err
	}
	section, err := yaml.Marshal(own.APIServer)
	if err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalStrict(section, &config.APIServer); err != nil {
		return nil, fmt.Errorf("apiserver: %w", err)
	}
	config.setDefaults()
	return config, config.validate()
}

func (c *Config) setDefaults() {
	setDefault(&c.ObjectStore.Region, "us-east-1")
	setDefault(&c.ObjectStore.CredentialsDir, "/etc/sless/object-store")
	setDefault(&c.Registry.Repository, "sless-{namespace}")
	if c.Registry.Host != "" {
		setDefault(&c.Registry.PullConfigFile, "/etc/sless/registry-pull/config.json")
	}
	setDefault(&c.Gateway.InternalURL, "http://gateway-internal.sless-system.svc:8082")
	setDefault(&c.Gateway.TokenFile, "/var/run/secrets/sless/gateway/token")
	setDefault(&c.Ledger.DSNFile, "/etc/sless-ledger/dsn")
	setDefault(&c.Build.MaxArchiveBytes, 256<<20)
	limits := &c.APIServer.Limits
	setDefault(&limits.RequestsPerSecond, 1000)
	setDefault(&limits.Burst, 2000)
	setDefault(&limits.Uploads, 8)
	setDefault(&limits.BodyIdleSeconds, 30)
	setDefault(&limits.DrainSeconds, 30)
	setDefault(&limits.SourceTTLHours, 24)
	auth := &c.APIServer.Auth
	setDefault(&auth.CacheSeconds, 30)
	setDefault(&auth.BadTokensPerMinute, 30)
	for _, claims := range auth.claims() {
		setDefault(&claims.UsernameClaim, "sub")
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// claims returns the Claims of all authenticators by their place in the file.
func (a *Auth) claims() map[string]*Claims {
	all := map[string]*Claims{}
	for i := range a.OIDC {
		all[fmt.Sprintf("oidc[%d]", i)] = &a.OIDC[i].Claims
	}
	for i := range a.Introspection {
		all[fmt.Sprintf("introspection[%d]", i)] = &a.Introspection[i].Claims
	}
	for i := range a.UserInfo {
		all[fmt.Sprintf("userInfo[%d]", i)] = &a.UserInfo[i].Claims
	}
	return all
}

// validate names every wrong field at once.
func (c *Config) validate() error {
	var problems problems
	wrong := problems.add
	for field, value := range map[string]string{"objectStore.endpoint": c.ObjectStore.Endpoint, "objectStore.bucket": c.ObjectStore.Bucket} {
		if value == "" {
			wrong(field, "is required")
		}
	}
	if c.ObjectStore.Endpoint != "" && !isURL(c.ObjectStore.Endpoint) {
		wrong("objectStore.endpoint", "must be an http or https URL")
	}
	if !isURL(c.Gateway.InternalURL) {
		wrong("gateway.internalURL", "must be an http or https URL")
	}
	if tls := c.APIServer.TLS; (tls.CertFile == "") != (tls.KeyFile == "") {
		wrong("apiserver.tls", "needs both certFile and keyFile, or neither")
	}
	limits := c.APIServer.Limits
	if limits.RequestsPerSecond < 0 || limits.Burst < 0 || limits.Uploads < 0 || limits.BodyIdleSeconds < 0 || limits.DrainSeconds < 0 || limits.SourceTTLHours < 0 {
		wrong("apiserver.limits", "must not be negative")
	}
	c.APIServer.Auth.validate(func(field, rule string) { wrong("apiserver.auth."+field, rule) })
	return problems.err()
}

func (a *Auth) validate(wrong func(field, rule string)) {
	if a.CacheSeconds < 0 || a.CacheSeconds > 300 {
		wrong("cacheSeconds", "must be 1 to 300")
	}
	if a.BadTokensPerMinute < 1 {
		wrong("badTokensPerMinute", "must be 1 or more")
	}
	taken := []string{"static:"} // what the static tokens have
	for field, claims := range a.claims() {
		switch {
		case claims.Prefix == "":
			wrong(field+".prefix", "is required, for example corp:")
		case strings.HasPrefix(claims.Prefix, "system:"):
			wrong(field+".prefix", "must not begin with system:")
		case slices.ContainsFunc(taken, func(other string) bool {
			return strings.HasPrefix(other, claims.Prefix) || strings.HasPrefix(claims.Prefix, other)
		}):
			wrong(field+".prefix", "begins like another authenticator's; two of them could give one name")
		}
		taken = append(taken, claims.Prefix)
	}
	for i, issuer := range a.OIDC {
		if !isURL(issuer.Issuer) {
			wrong(fmt.Sprintf("oidc[%d].issuer", i), "must be an http or https URL")
		}
		if len(issuer.Audiences) == 0 {
			wrong(fmt.Sprintf("oidc[%d].audiences", i), "must have an entry, or tokens for other services would be good here")
		}
	}
	for i, endpoint := range a.Introspection {
		if !isURL(endpoint.URL) {
			wrong(fmt.Sprintf("introspection[%d].url", i), "must be an http or https URL")
		}
		if (endpoint.ClientIDFile == "") != (endpoint.ClientSecretFile == "") {
			wrong(fmt.Sprintf("introspection[%d]", i), "needs both clientIDFile and clientSecretFile, or neither")
		}
	}
	for i, endpoint := range a.UserInfo {
		if !isURL(endpoint.URL) {
			wrong(fmt.Sprintf("userInfo[%d].url", i), "must be an http or https URL")
		}
	}
}

func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}
