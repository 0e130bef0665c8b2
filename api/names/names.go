// Package names gives every child object its name, labels and port: pure functions that operator, gateway and tests share.
package names

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Namespaces of the platform.
const (
	// SystemNamespace holds operator, apiserver and gateway.
	SystemNamespace = "sless-system"
	// BuildNamespace holds build Jobs only.
	BuildNamespace = "sless-build"
	// FunctionNamespacePrefix begins the name of every namespace in which functions run.
	FunctionNamespacePrefix = "sless-fn-"
)

// Labels on every child, naming its owner, which lives in another namespace.
const (
	KindLabel      = "sless.io/kind"
	NamespaceLabel = "sless.io/namespace"
	NameLabel      = "sless.io/name"
	UIDLabel       = "sless.io/uid"
	// RevisionLabel is on the pods of a Function, for the version that they are of, and on its Service, for the one that is wanted.
	RevisionLabel  = "sless.io/revision"
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of ManagedByLabel, and the field manager of server-side applies.
	ManagedBy = "sless"
	// Finalizer removes children that owner references can't reach.
	Finalizer = "sless.io/cleanup"
)

// Ports and header names that operator, gateway and runtimes agree on.
const (
	// Port is where a function listens, in its pod and on its Service.
	Port = 8080
	// PortName is that port's name.
	PortName = "http"
	// RevisionHeader is on every answer of /_sless/health and says which version of a function a pod is.
	RevisionHeader = "Sless-Revision"
	// ProtocolHeader, on the answers of /_sless/health, is H2C when the pod wants its calls in HTTP/2 without TLS.
	ProtocolHeader = "Sless-Protocol"
	H2C            = "h2c"
	// PayloadHeader, set by the gateway, tells the runtime the shape of the event.
	PayloadHeader = "Sless-Payload"
	// OverloadHeader marks a 503 with which a runtime refused a call before the handler saw it.
	OverloadHeader = "Sless-Overload"
	// TriggerHeader, set by the operator on its calls of the gateway's internal listener, names the cron Trigger. Pods never get it.
	TriggerHeader = "Sless-Trigger"
	// HealthPath answers 200 once the handler is loaded.
	HealthPath = "/_sless/health"
	// InvokePath calls the handler with the body's JSON as the event.
	InvokePath = "/_sless/invoke"
	// GatewayAudience is the audience of the token with which operator and apiserver call the gateway's internal listener.
	GatewayAudience = "sless-gateway"
)

const maxLabel = 63

// cut returns name if it is at most max characters long, else its beginning, a hyphen and eight characters of a hash of all of
// it. max must be at least 10.
func cut(name string, max int) string {
	if len(name) <= max {
		return name
	}
	return strings.TrimRight(name[:max-9], "-.") + "-" + Hash(name)[:8]
}

// Hash returns the SHA-256, in hex, of the parts, so that two different lists of parts never give the same text.
func Hash(parts ...string) string {
	encoded, _ := json.Marshal(parts) // a []string always encodes
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}

// FunctionNamespace returns the namespace in which the functions of a user's namespace run.
func FunctionNamespace(namespace string) string {
	return cut(FunctionNamespacePrefix+namespace, maxLabel)
}

// Child returns the name of an object made for name: name, a hyphen and suffix, at most 63 characters. A name that is cut keeps
// its suffix and gets a hash, so that two different names never give one.
func Child(name, suffix string) string {
	return cut(name, maxLabel-len(suffix)-1) + "-" + suffix
}

// Selector returns the labels by which the pods of one owner are selected.
func Selector(kind, namespace, name string) map[string]string {
	return map[string]string{KindLabel: kind, NamespaceLabel: namespace, NameLabel: name}
}

// Labels returns all labels of a child of the owner.
func Labels(kind, namespace, name string, uid types.UID) map[string]string {
	labels := Selector(kind, namespace, name)
	labels[UIDLabel] = string(uid)
	labels[ManagedByLabel] = ManagedBy
	return labels
}

// Owner returns the kind, namespace and name of the owner that a child's labels name, and false when they name none.
func Owner(labels map[string]string) (kind string, owner types.NamespacedName, ok bool) {
	kind = labels[KindLabel]
	owner = types.NamespacedName{Namespace: labels[NamespaceLabel], Name: labels[NameLabel]}
	return kind, owner, kind != "" && owner.Namespace != "" && owner.Name != ""
}

// RunID returns the request id of a run of a FunctionJob: its UID, a hyphen and the run's number.
func RunID(uid types.UID, run int64) string {
	return string(uid) + "-" + strconv.FormatInt(run, 10)
}

// JobUID returns the UID in the request id of a run, or all of an id that has no number.
func JobUID(id string) string {
	if len(id) > uidLength && id[uidLength] == '-' {
		return id[:uidLength]
	}
	return id
}

// uidLength is how long the UIDs are that Kubernetes makes.
const uidLength = 36

// IngressHost returns the host under domain of one function: {function}-{namespace}-{hash}.{domain}, its first label at most 63
// characters long.
func IngressHost(namespace, name, domain string) string {
	hash := Hash(namespace, name)[:8]
	readable := name + "-" + namespace
	if limit := maxLabel - 9; len(readable) > limit {
		readable = strings.TrimRight(readable[:limit], "-")
	}
	return readable + "-" + hash + "." + domain
}

// FunctionPath returns the public path of a function.
func FunctionPath(namespace, name string) string {
	return "/fn/" + namespace + "/" + name
}
