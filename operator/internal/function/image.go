package function

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/build/install"
	"github.com/naeel/sless/operator/internal/build/layout"
	"github.com/naeel/sless/operator/internal/config"
	"github.com/naeel/sless/operator/internal/reconcile"
)

// Keys of the Secrets that source.s3.secretName and source.git.secretName name.
const (
	accessKeyID     = "accessKeyID"
	secretAccessKey = "secretAccessKey"
	username        = corev1.BasicAuthUsernameKey
	password        = corev1.BasicAuthPasswordKey
)

// reconcileImage finds or asks for the image of the source that the spec names.
func (r *Reconciler) reconcileImage(ctx context.Context, s *scope) error {
	request, problem := buildRequest(s.function, string(s.namespace.UID), r.Config)
	if problem != nil {
		r.Builder.Forget(request.Owner)
		s.stop(problem, reconcile.Recheck)
		return nil
	}
	status, key := &s.function.Status, sourceKey(s.function, request)
	if status.BuildKey != key {
		s.recall(request, key)
	}
	if status.Image != "" && status.BuildKey == key {
		// Status remembers what the source was made into.
		s.image = &image{reference: status.Image, sourceDigest: status.SourceDigest}
		return r.reconcileUpgrade(ctx, s, request)
	}
	problem, err := r.addCredentials(ctx, s.function, &request)
	if err != nil {
		return err
	}
	if problem != nil {
		r.Builder.Forget(request.Owner)
		s.stop(problem, followEvery)
		return nil
	}
	state := r.Builder.Ensure(ctx, request)
	s.builder = &state
	s.takeState(request)
	return nil
}

// sourceKey is the key of a request with the runtime's name in the place of its image: another one is the tenant's own change.
func sourceKey(function *v1alpha1.Function, request build.Request) string {
	if request.Runtime.Image != "" {
		request.Runtime.Image = function.Spec.Runtime
	}
	return request.Key()
}

// keepImage has the image looked for, and made again when it is lost, if a node could not pull it. Otherwise it ends work for a spec that
// is not wanted any more, and reads a source again that has changed where it is, if the spec asks for that. The same source gives the
// same image: the pods find it when it is there, and nothing else changes.
func (r *Reconciler) keepImage(ctx context.Context, s *scope, request build.Request) error {
	_, doubtful := r.doubts.Load(s.key())
	if !doubtful && !polls(request) {
		r.Builder.Follow(request, s.function.Status.SourceRevision)
		return nil
	}
	problem, err := r.addCredentials(ctx, s.function, &request)
	if err != nil || problem != nil {
		return err
	}
	if doubtful {
		if status := &s.function.Status; s.image.reference == status.Image {
			request.Runtime.Image = status.RuntimeVersion
		}
		pinSource(&request, s.function.Status.SourceRevision)
		r.Builder.Ensure(ctx, request)
		return nil
	}
	if request.Revision = r.Builder.Follow(request, s.function.Status.SourceRevision); request.Revision != "" {
		state := r.Builder.Ensure(ctx, request)
		s.builder = &state
		s.takeState(request)
	}
	return nil
}

// pinSource has a request read what was read before: where a branch of git is by now is nobody's wish yet.
func pinSource(request *build.Request, revision string) {
	if git := request.Source.Git; git != nil && revision != "" {
		git.Ref = revision
	}
}

// polls says whether the Builder is to look at the source when it is built.
func polls(request build.Request) bool {
	return request.Source.S3 != nil && request.Source.S3.PollInterval > 0
}

// takeState says what the Builder's state means for this pass, and remembers in status what an image was made of.
func (s *scope) takeState(request build.Request) {
	state, status := s.builder, &s.function.Status
	switch state.Phase {
	case build.Done:
		s.image, s.built = &image{reference: state.Result.Image, sourceDigest: state.Result.SourceDigest}, false
		if polls(request) {
			s.followAgain = catchUp
		}
		if key := sourceKey(s.function, request); status.Image != state.Result.Image || status.BuildKey != key { // otherwise the same was read again
			status.LastBuiltAt = new(metav1.NewTime(state.Result.BuiltAt).Rfc3339Copy())
		}
		status.Image, status.SourceDigest = state.Result.Image, state.Result.SourceDigest
		status.BuildKey, status.RuntimeVersion = sourceKey(s.function, request), request.Runtime.Image
		status.SourceRevision = state.Result.Revision
		status.RuntimeHeld, status.Upgrade = "", nil
	case build.Failed:
		s.image, s.built = nil, false // what was built goes on, but is not what is asked for
		s.stop(state.Error, reconcile.Recheck)
	case build.Building:
		if s.image != nil {
			return // what was built serves, and is what the spec asks for until there is news
		}
		if state.Error != nil {
			s.stop(fault.Transient(state.Error.Reason, "%s; sless tries again", state.Error.Message), buildEvery)
			return
		}
		s.stop(fault.Transient(v1alpha1.ReasonBuilding, "%s", describeStep(state)), buildEvery)
	}
}

func describeStep(state *build.State) string {
	switch state.Step {
	case build.Queued:
		if state.Position > 0 {
			return fmt.Sprintf("the build waits for its turn (place %d)", state.Position)
		}
		return "the build waits for its turn"
	case build.Installing:
		return fmt.Sprintf("the build installs dependencies (Job %s)", state.JobName)
	case build.Pushing:
		if state.JobName != "" {
			return fmt.Sprintf("the build makes and pushes the image (Job %s)", state.JobName)
		}
		return "the build pushes the image"
	}
	return "the build reads the source"
}

// buildRequest says what image a Function needs. It is the request without the tenant's credentials, which has the same key.
func buildRequest(function *v1alpha1.Function, namespaceUID string, cfg *config.Config) (build.Request, *fault.Error) {
	spec := &function.Spec
	request := build.Request{
		Owner:          build.Owner{Namespace: function.Namespace, Name: function.Name},
		NamespaceUID:   namespaceUID,
		Entrypoint:     spec.Entrypoint,
		CodeHash:       spec.CodeHash,
		TimeoutSeconds: spec.Build.TimeoutSeconds,
		Source:         build.Source{Image: spec.Source.Image},
	}
	if request.TimeoutSeconds == 0 {
		request.TimeoutSeconds = 300
	}
	if spec.Source.Image != "" {
		// The entrypoint is read when the code is loaded, not when the image is looked up.
		request.Entrypoint = ""
		return request, nil
	}
	runtime, ok := cfg.Runtime(spec.Runtime)
	if !ok {
		return request, fault.Terminal(v1alpha1.ReasonUnknownRuntime, "runtime %q is not in the catalogue; use one of %s", spec.Runtime, cfg.RuntimeNames())
	}
	request.Runtime = build.Runtime{Image: runtime.Image, Language: layout.Language(runtime.Language)}
	if files := spec.Source.Inline; files != nil {
		request.Source.Inline = make(map[string]string, len(files))
		for name, text := range files {
			request.Source.Inline[name] = string(text)
		}
	}
	if s3 := spec.Source.S3; s3 != nil {
		request.Source.S3 = &build.S3Source{
			Key: s3.Key, Bucket: s3.Bucket, Endpoint: s3.Endpoint, Region: s3.Region, VersionID: s3.VersionID, SHA256: s3.SHA256,
			PollInterval: time.Duration(s3.PollIntervalSeconds) * time.Second,
		}
		if s3.SecretName != "" {
			request.Source.S3.Credentials = &build.S3Credentials{}
		}
	}
	if http := spec.Source.HTTP; http != nil {
		request.Source.HTTP = &build.HTTPSource{URL: http.URL, SHA256: http.SHA256}
	}
	if git := spec.Source.Git; git != nil {
		request.Source.Git = &build.GitSource{URL: git.URL, Ref: git.Ref, Path: git.Path}
		if git.SecretName != "" {
			request.Source.Git.Credentials = &build.GitCredentials{}
		}
	}
	return request, nil
}

// addCredentials reads the tenant's own credentials, for package indexes and for the source.
func (r *Reconciler) addCredentials(ctx context.Context, function *v1alpha1.Function, request *build.Request) (*fault.Error, error) {
	if problem, err := r.addIndex(ctx, function, request); problem != nil || err != nil {
		return problem, err
	}
	from := function.Spec.Source
	switch {
	case request.Source.S3 != nil && request.Source.S3.Credentials != nil:
		data, problem, err := r.readSecret(ctx, function, "source.s3.secretName", from.S3.SecretName, accessKeyID, secretAccessKey)
		if problem != nil || err != nil {
			return problem, err
		}
		request.Source.S3.Credentials = &build.S3Credentials{AccessKeyID: string(data[accessKeyID]), SecretAccessKey: string(data[secretAccessKey])}
	case request.Source.Git != nil && request.Source.Git.Credentials != nil:
		data, problem, err := r.readSecret(ctx, function, "source.git.secretName", from.Git.SecretName, username, password)
		if problem != nil || err != nil {
			return problem, err
		}
		request.Source.Git.Credentials = &build.GitCredentials{Username: string(data[username]), Password: string(data[password])}
	}
	return nil, nil
}

// readSecret reads a Secret that a field of the spec names, all of whose keys must be there.
func (r *Reconciler) readSecret(ctx context.Context, function *v1alpha1.Function, field, name string, keys ...string) (map[string][]byte, *fault.Error, error) {
	key := client.ObjectKey{Namespace: function.Namespace, Name: name}
	data, err := r.getSecret(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	if data == nil {
		return nil, fault.Terminal(v1alpha1.ReasonSourceNotFound, "Secret %s, which %s names, does not exist; make it with the keys %s", key, field, strings.Join(keys, " and ")), nil
	}
	for _, name := range keys {
		if len(data[name]) == 0 {
			return nil, fault.Terminal(v1alpha1.ReasonSourceNotFound, "Secret %s, which %s names, has no key %s; add it", key, field, name), nil
		}
	}
	return data, nil, nil
}

// getSecret returns what is in a Secret; nil when there is none.
func (r *Reconciler) getSecret(ctx context.Context, key client.ObjectKey) (map[string][]byte, error) {
	var secret corev1.Secret
	err := r.Reader.Get(ctx, key, &secret)
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get Secret %s: %w", key, err)
	}
	if secret.Data == nil {
		return map[string][]byte{}, nil
	}
	return secret.Data, nil
}

// largestIndexFile bounds what is copied into the Secret of a Job.
const largestIndexFile = 64 << 10

// addIndex reads the Secret that build.secretName names.
func (r *Reconciler) addIndex(ctx context.Context, function *v1alpha1.Function, request *build.Request) (*fault.Error, error) {
	name := function.Spec.Build.SecretName
	if name == "" || request.Source.Image != "" {
		return nil, nil
	}
	key := client.ObjectKey{Namespace: function.Namespace, Name: name}
	data, err := r.getSecret(ctx, key)
	if err != nil {
		return nil, err
	}
	files := install.Index{}
	for _, file := range install.IndexFiles {
		if len(data[file]) > largestIndexFile {
			return fault.Terminal(v1alpha1.ReasonBuildSecretNotFound, "key %s of Secret %s, which build.secretName names, has more than %d KiB; keep only what the index needs", file, key, largestIndexFile>>10), nil
		}
		if len(data[file]) > 0 {
			files[file] = data[file]
		}
	}
	wanted := strings.Join(install.IndexFiles, ", ")
	switch {
	case data == nil:
		return fault.Terminal(v1alpha1.ReasonBuildSecretNotFound, "Secret %s, which build.secretName names, does not exist; make it with one or more of the keys %s", key, wanted), nil
	case len(files) == 0:
		return fault.Terminal(v1alpha1.ReasonBuildSecretNotFound, "Secret %s, which build.secretName names, has none of the keys %s; add one", key, wanted), nil
	}
	request.Index = &build.Index{SecretName: name, Files: files}
	return nil, nil
}
