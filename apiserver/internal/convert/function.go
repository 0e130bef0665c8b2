// Package convert translates between the wire types and the custom resources, both ways. It is pure, and what a wire type has no
// word for stays as it is in the resource.
package convert

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/api/v1alpha1"
)

// SecretEnvAnnotation on a Function says which of its variables are those of secret_env: a JSON object of their names, each with a keyed
// digest of the value, by which an unchanged value is known without reading it.
const SecretEnvAnnotation = "sless.io/secret-env"

// SecretVar is where the value of a variable of secret_env is.
type SecretVar struct {
	// Secret is the Secret that has it under the variable's name.
	Secret string
	// Digest stands for the value.
	Digest string
}

// SecretEnv returns the variables of secret_env.
func SecretEnv(fn *v1alpha1.Function) map[string]SecretVar {
	var digests map[string]string
	if json.Unmarshal([]byte(fn.Annotations[SecretEnvAnnotation]), &digests) != nil {
		return nil // absent, or somebody else's
	}
	found := map[string]SecretVar{}
	for _, env := range fn.Spec.Env {
		digest, ok := digests[env.Name]
		if !ok || env.ValueFrom == nil || env.ValueFrom.SecretKeyRef == nil {
			continue
		}
		if ref := env.ValueFrom.SecretKeyRef; ref.Key == env.Name && !ref.Optional {
			found[env.Name] = SecretVar{ref.Name, digest}
		}
	}
	return found
}

// Function returns fn as the API shows it. Values of secret_env are not in it.
func Function(fn *v1alpha1.Function) rest.Function {
	spec := &fn.Spec
	wire := rest.Function{
		Name: fn.Name, Labels: fn.Labels, Namespace: fn.Namespace, UID: string(fn.UID), Generation: fn.Generation, CreatedAt: timeOf(fn.CreationTimestamp),
		Runtime: spec.Runtime, Entrypoint: spec.Entrypoint, Source: source(&spec.Source), CodeHash: spec.CodeHash,
		TimeoutSec: positive(spec.TimeoutSeconds), BuildSec: positive(spec.Build.TimeoutSeconds), BuildSecret: spec.Build.SecretName, Concurrency: spec.Concurrency, Replicas: spec.Replicas,
		RestartedAt: fn.Annotations[v1alpha1.RestartedAtAnnotation],
		Status:      functionStatus(&fn.Status),
	}
	secret := SecretEnv(fn)
	for _, env := range spec.Env {
		_, isSecret := secret[env.Name]
		switch {
		case isSecret:
			wire.SecretKeys = append(wire.SecretKeys, env.Name)
		case env.ValueFrom != nil:
			put(&wire.EnvFrom, env.Name, envRef(env.ValueFrom))
		default:
			put(&wire.Env, env.Name, env.Value)
		}
	}
	slices.Sort(wire.SecretKeys)
	if resources := spec.Resources; resources != nil {
		wire.MemoryMB, wire.CPU = memory(resources.Limits), cpu(resources.Limits)
		wire.RequestMB, wire.RequestCPU = memory(resources.Requests), cpu(resources.Requests)
	}
	return wire
}

// ApplyFunction writes what wire says into fn. Of secret_env it takes the names of variables that fn has already; for others see
// [SetSecretEnv]. Name and namespace are the caller's.
func ApplyFunction(wire *rest.Function, fn *v1alpha1.Function) {
	spec := &fn.Spec
	kept := SecretEnv(fn)
	maps.DeleteFunc(kept, func(name string, _ SecretVar) bool { _, named := wire.SecretEnv[name]; return !named })
	fn.Labels = wire.Labels
	setAnnotation(&fn.ObjectMeta, v1alpha1.RestartedAtAnnotation, wire.RestartedAt)
	spec.Runtime, spec.Entrypoint, spec.CodeHash = wire.Runtime, wire.Entrypoint, wire.CodeHash
	spec.TimeoutSeconds, spec.Build.TimeoutSeconds = value(wire.TimeoutSec), value(wire.BuildSec)
	spec.Build.SecretName = wire.BuildSecret
	spec.Concurrency, spec.Replicas = wire.Concurrency, wire.Replicas
	applySource(wire.Source, &spec.Source)
	applyResources(wire, spec)
	SetSecretEnv(wire, fn, kept)
}

// SetSecretEnv writes the environment that wire says into fn, with these variables of secret_env.
func SetSecretEnv(wire *rest.Function, fn *v1alpha1.Function, secret map[string]SecretVar) {
	digests := map[string]string{}
	for name, at := range secret {
		digests[name] = at.Digest
	}
	annotation := ""
	if len(digests) > 0 {
		encoded, _ := json.Marshal(digests) // strings always encode
		annotation = string(encoded)
	}
	setAnnotation(&fn.ObjectMeta, SecretEnvAnnotation, annotation)
	fn.Spec.Env = envVars(wire, secret)
}

// envVars merges the three kinds of variables, in the order of their names.
func envVars(wire *rest.Function, secret map[string]SecretVar) []v1alpha1.EnvVar {
	var all []v1alpha1.EnvVar
	for name, value := range wire.Env {
		all = append(all, v1alpha1.EnvVar{Name: name, Value: value})
	}
	for name, ref := range wire.EnvFrom {
		from := &v1alpha1.EnvVarSource{}
		if ref.SecretName != "" {
			from.SecretKeyRef = &v1alpha1.KeyRef{Name: ref.SecretName, Key: ref.Key, Optional: ref.Optional}
		}
		if ref.ConfigMapName != "" {
			from.ConfigMapKeyRef = &v1alpha1.KeyRef{Name: ref.ConfigMapName, Key: ref.Key, Optional: ref.Optional}
		}
		all = append(all, v1alpha1.EnvVar{Name: name, ValueFrom: from})
	}
	for name, at := range secret {
		ref := &v1alpha1.KeyRef{Name: at.Secret, Key: name}
		all = append(all, v1alpha1.EnvVar{Name: name, ValueFrom: &v1alpha1.EnvVarSource{SecretKeyRef: ref}})
	}
	slices.SortStableFunc(all, func(a, b v1alpha1.EnvVar) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Clashes returns the variables that are in more than one of env, env_from and secret_env.
func Clashes(wire *rest.Function) []rest.FieldError {
	var clashes []rest.FieldError
	clash := func(field, name string) {
		clashes = append(clashes, rest.FieldError{Location: "body." + field + "." + name, Message: "the variable is set in another place of the function too"})
	}
	for _, name := range slices.Sorted(maps.Keys(wire.EnvFrom)) {
		if _, plain := wire.Env[name]; plain {
			clash("env_from", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wire.SecretEnv)) {
		_, plain := wire.Env[name]
		if _, ref := wire.EnvFrom[name]; plain || ref {
			clash("secret_env", name)
		}
	}
	return clashes
}

func source(from *v1alpha1.Source) *rest.Source {
	wire := &rest.Source{Image: from.Image}
	for name, text := range from.Inline {
		put(&wire.Inline, name, string(text))
	}
	if s3 := from.S3; s3 != nil {
		wire.S3 = &rest.S3Source{
			Key: s3.Key, Bucket: s3.Bucket, Endpoint: s3.Endpoint, Region: s3.Region, VersionID: s3.VersionID, SHA256: s3.SHA256,
			SecretName: s3.SecretName, PollSec: positive(s3.PollIntervalSeconds),
		}
	}
	if http := from.HTTP; http != nil {
		wire.HTTP = &rest.HTTPSource{URL: http.URL, SHA256: http.SHA256}
	}
	if git := from.Git; git != nil {
		wire.Git = &rest.GitSource{URL: git.URL, Ref: git.Ref, Path: git.Path, SecretName: git.SecretName}
	}
	return wire
}

func applySource(wire *rest.Source, to *v1alpha1.Source) {
	*to = v1alpha1.Source{}
	if wire == nil {
		return
	}
	for name, text := range wire.Inline {
		put(&to.Inline, name, v1alpha1.InlineFile(text))
	}
	to.Image = wire.Image
	if s3 := wire.S3; s3 != nil {
		to.S3 = &v1alpha1.S3Source{
			Key: s3.Key, Bucket: s3.Bucket, Endpoint: s3.Endpoint, Region: s3.Region, VersionID: s3.VersionID, SHA256: s3.SHA256,
			SecretName: s3.SecretName, PollIntervalSeconds: value(s3.PollSec),
		}
	}
	if http := wire.HTTP; http != nil {
		to.HTTP = &v1alpha1.HTTPSource{URL: http.URL, SHA256: http.SHA256}
	}
	if git := wire.Git; git != nil {
		to.Git = &v1alpha1.GitSource{URL: git.URL, Ref: git.Ref, Path: git.Path, SecretName: git.SecretName}
	}
}

func envRef(from *v1alpha1.EnvVarSource) rest.EnvRef {
	if ref := from.SecretKeyRef; ref != nil {
		return rest.EnvRef{SecretName: ref.Name, Key: ref.Key, Optional: ref.Optional}
	}
	if ref := from.ConfigMapKeyRef; ref != nil {
		return rest.EnvRef{ConfigMapName: ref.Name, Key: ref.Key, Optional: ref.Optional}
	}
	return rest.EnvRef{}
}

const mebibyte = 1 << 20

// memory is the quantity in MiB, rounded up.
func memory(list corev1.ResourceList) *int64 {
	quantity, ok := list[corev1.ResourceMemory]
	if !ok {
		return nil
	}
	bytes := quantity.Value()
	mib := bytes / mebibyte
	if bytes%mebibyte > 0 {
		mib++
	}
	return &mib
}

// cpu is the quantity in cores, rounded up to thousandths.
func cpu(list corev1.ResourceList) *float64 {
	quantity, ok := list[corev1.ResourceCPU]
	if !ok {
		return nil
	}
	cores := float64(quantity.MilliValue()) / 1000
	return &cores
}

func applyResources(wire *rest.Function, spec *v1alpha1.FunctionSpec) {
	resources := spec.Resources
	if resources == nil {
		resources = &v1alpha1.Resources{}
	}
	applyQuantities(&resources.Limits, wire.MemoryMB, wire.CPU)
	applyQuantities(&resources.Requests, wire.RequestMB, wire.RequestCPU)
	if len(resources.Limits) == 0 && len(resources.Requests) == 0 {
		resources = nil
	}
	spec.Resources = resources
}

// applyQuantities leaves a quantity alone that the wire shows as the same number, so that 0.1G stays 0.1G.
func applyQuantities(list *corev1.ResourceList, mib *int64, cores *float64) {
	if was := memory(*list); mib == nil {
		delete(*list, corev1.ResourceMemory)
	} else if was == nil || *was != *mib {
		put((*map[corev1.ResourceName]resource.Quantity)(list), corev1.ResourceMemory, *resource.NewQuantity(*mib*mebibyte, resource.BinarySI))
	}
	if was := cpu(*list); cores == nil {
		delete(*list, corev1.ResourceCPU)
	} else if was == nil || *was != *cores {
		put((*map[corev1.ResourceName]resource.Quantity)(list), corev1.ResourceCPU, *resource.NewMilliQuantity(int64(math.Round(*cores*1000)), resource.DecimalSI))
	}
	if len(*list) == 0 {
		*list = nil
	}
}

func functionStatus(status *v1alpha1.FunctionStatus) *rest.FunctionStatus {
	wire := &rest.FunctionStatus{
		Status:   common(string(status.Phase), status.ObservedGeneration, status.Conditions),
		CodeHash: status.CodeHash, CodeSHA256: status.SourceDigest, SourceRevision: status.SourceRevision, Image: status.Image, RuntimeVersion: status.RuntimeVersion,
		LastBuiltAt: timeOfPointer(status.LastBuiltAt), Replicas: status.Replicas, ReadyReplicas: status.ReadyReplicas, URL: status.URL,
	}
	if build := status.Build; build != nil {
		wire.Build = &rest.BuildStatus{Step: build.Step, Position: build.Position, StartedAt: timeOfPointer(build.StartedAt), LogTail: build.LogTail}
	}
	return wire
}

func setAnnotation(meta *metav1.ObjectMeta, name, value string) {
	if value == "" {
		delete(meta.Annotations, name)
		return
	}
	put(&meta.Annotations, name, value)
}

func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

func positive[T int32 | int64](number T) *T {
	if number == 0 {
		return nil
	}
	return &number
}

func value[T any](pointer *T) T {
	if pointer == nil {
		var zero T
		return zero
	}
	return *pointer
}

func timeOf(at metav1.Time) *time.Time { return timeOfPointer(&at) }

func timeOfPointer(at *metav1.Time) *time.Time {
	if at == nil || at.IsZero() {
		return nil
	}
	utc := at.UTC()
	return &utc
}
