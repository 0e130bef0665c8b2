package build

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/operator/internal/build/fault"
	"github.com/naeel/sless/operator/internal/build/install"
	"github.com/naeel/sless/operator/internal/build/layout"
	"github.com/naeel/sless/operator/internal/build/source"
)

// Builder builds images for functions. Its methods return at once; [Service] is the implementation.
//
// A Builder has at most one piece of work for an Owner: the one of the Owner's last Request.
type Builder interface {
	// Ensure says how far the image for the request is, and starts or restarts the work when none is under way. A request with
	// another Key than the owner's last one replaces it, and work that nobody needs then is cancelled. While the state is not
	// Done, the caller calls Ensure again on every event of the owner; RetryAt needs no timer of the caller's.
	Ensure(ctx context.Context, request Request) State
	// Follow says that the image for the request exists, made from the source at that revision (of Result.Revision). Work for the
	// owner ends, and a source that asks to be polled is looked at from then on, in the background. When it is at another revision
	// there is an event, and Follow returns that: the caller sets Request.Revision to it and calls Ensure. A source that can't be
	// looked at is as it was.
	Follow(request Request, revision string) (newer string)
	// Forget says that nobody needs an image for the owner any more. It cancels the work; the Job and everything that belongs
	// to it goes with the last owner that needs it. It is harmless for an owner that has none.
	Forget(owner Owner)
	// Remove is Forget for a function that is being deleted: its images are taken out of the registry too, in the background and
	// as well as the registry allows, so that no finalizer ever waits for it. last says that the namespace has no other
	// function; then the dependency images go as well.
	Remove(owner Owner, last bool)
	// Retain says which images, by digest, of a function that serves must stay in the registry. Its others are deleted in the
	// background, except what inUse names, and so are dependency images that nobody in the namespace has needed for a while. What was
	// said holds until work begins for the owner.
	Retain(owner Owner, images []string, inUse InUse)
	// Events has the owner of each piece of work whose state has moved. Several moves may give one event.
	Events() <-chan Owner
}

// Owner is the function that an image is for.
type Owner struct {
	Namespace string
	Name      string
}

// Request says what image a function needs. Every field but TimeoutSeconds and credentials is an input of the image.
type Request struct {
	Owner Owner
	// NamespaceUID keeps a namespace that was made again under an old name from inheriting anything.
	NamespaceUID string
	// Runtime is what the code runs on. Not used with Source.Image.
	Runtime Runtime
	// Entrypoint is the module's path, a dot and the function's name.
	Entrypoint string
	Source     Source
	// CodeHash is the user's opaque mark; a new value reads the source again.
	CodeHash string
	// Revision is what Follow returned: the source is read again because it is there. It is not in the Key: the same inputs are asked
	// for, and what is read may be newer still.
	Revision string
	// Index is the tenant's own credentials for package indexes; nil for none.
	Index *Index
	// TimeoutSeconds is how long fetching, installing and pushing may take together, waiting for a turn aside.
	TimeoutSeconds int32
}

// Index is a Secret with credentials for package indexes. Its files are no input of the image: it opens an index, and the manifests say what
// is installed.
type Index struct {
	// SecretName is the Secret's name. What is built with one Secret does not wait for, nor fail with, what is built with another.
	SecretName string
	Files      install.Index
}

// Runtime is an entry of the runtime catalogue.
type Runtime struct {
	// Image is the runtime's image, by digest.
	Image string
	// Language is the entry's language, which says how entrypoints and manifests are called.
	Language layout.Language
}

// Source is where code comes from. Exactly one field is set.
type Source struct {
	// Inline is file names and their text.
	Inline map[string]string
	S3     *S3Source
	HTTP   *HTTPSource
	Git    *GitSource
	// Image is an image built elsewhere, by tag or digest.
	Image string
}

// S3Source is a zip archive in a bucket.
type S3Source struct {
	// Key is the object's key: without Credentials below the tenant's own folder of the platform's bucket.
	Key string
	// Bucket, Endpoint and Region are the platform's when empty; they are only looked at together with Credentials.
	Bucket, Endpoint, Region string
	// VersionID is the object's version; empty is the latest.
	VersionID string
	// SHA256 is the expected digest of the archive in hex; empty is not checked.
	SHA256 string
	// PollInterval is how often the object is looked at once it is built; 0 is never. A version does not change.
	PollInterval time.Duration
	// Credentials are the tenant's own. Nil stands for the platform's, which read the tenant's own folder only.
	Credentials *S3Credentials
}

// Fixed says that what the source names has the same bytes for ever.
func (s Source) Fixed() bool {
	switch {
	case s.S3 != nil:
		return s.S3.VersionID != "" || s.S3.SHA256 != ""
	case s.Git != nil:
		return source.IsCommit(s.Git.Ref)
	}
	return s.Inline != nil || s.HTTP != nil || strings.Contains(s.Image, "@sha256:")
}

// HTTPSource is a zip archive at an address.
type HTTPSource struct {
	// URL is the address, http or https.
	URL string
	// SHA256 is the expected digest of the archive in hex.
	SHA256 string
}

// GitSource is a folder of a Git repository.
type GitSource struct {
	// URL is the repository's address, http or https.
	URL string
	// Ref is a branch, a tag, a full reference or a commit.
	Ref string
	// Path is the folder; empty is the root.
	Path string
	// Credentials are the tenant's own. Nil is none.
	Credentials *GitCredentials
}

// GitCredentials open a private repository.
type GitCredentials struct {
	Username string
	Password string
}

// S3Credentials open a tenant's own bucket.
type S3Credentials struct {
	AccessKeyID     string
	SecretAccessKey string
}

// Key stands for everything that decides about the image, so that two requests with one key have one result. Credentials and
// TimeoutSeconds are left out: other ones may let a build succeed, never give another image.
func (r Request) Key() string {
	parts := []string{"1", r.NamespaceUID, r.Owner.Namespace, r.Owner.Name, r.Runtime.Image, string(r.Runtime.Language), r.Entrypoint, r.CodeHash, r.Source.Image}
	if s3 := r.Source.S3; s3 != nil {
		own := "platform"
		if s3.Credentials != nil {
			own = "tenant"
		}
		parts = append(parts, "s3", own, s3.Endpoint, s3.Region, s3.Bucket, s3.Key, s3.VersionID, s3.SHA256)
	}
	if http := r.Source.HTTP; http != nil {
		parts = append(parts, "http", http.URL, http.SHA256)
	}
	if git := r.Source.Git; git != nil {
		parts = append(parts, "git", git.URL, git.Ref, git.Path)
	}
	if r.Source.Inline != nil {
		files, _ := json.Marshal(r.Source.Inline) // strings always encode, and maps are sorted
		parts = append(parts, "inline", string(files))
	}
	return names.Hash(parts...)[:32]
}

// pollInterval is how often to look at the source once it is built; 0 is never.
func (r Request) pollInterval() time.Duration {
	if s3 := r.Source.S3; s3 != nil && s3.VersionID == "" {
		return s3.PollInterval
	}
	return 0
}

// workKey is the Key of a work: another wished revision is other work of the same inputs.
func (r Request) workKey() string {
	if r.Revision == "" {
		return r.Key()
	}
	return names.Hash(r.Key(), r.Revision)
}

// Phase says in what case a State is.
type Phase string

// The phases of a State.
const (
	// Building is work under way or waiting: for a turn, or for a cause in Error to pass.
	Building Phase = "Building"
	// Done is an image that exists: Result has it.
	Done Phase = "Done"
	// Failed is an Error that waits for a change by somebody. The Builder tries again slowly, so that a cause mended elsewhere
	// heals, and keeps this phase until an attempt ends otherwise.
	Failed Phase = "Failed"
)

// Step is what work in phase Building does.
type Step string

// The steps.
const (
	Queued     Step = "Queued"
	Fetching   Step = "Fetching"
	Installing Step = "Installing"
	Pushing    Step = "Pushing"
)

// State is how far an image is.
type State struct {
	Phase Phase
	// Step is what is being done, in phase Building.
	Step Step
	// Position is the place in the queue in step Queued; 1 is next.
	Position int
	// Started is when the work began.
	Started time.Time
	// JobName is the Job that installs the dependencies or makes the image, while there is one.
	JobName string
	// Result is set in phase Done.
	Result *Result
	// Error is set in phase Failed, and in phase Building when the last attempt met a trouble that is expected to pass.
	Error *fault.Error
	// RetryAt is when the next attempt begins, when Error is set.
	RetryAt time.Time
}

// Result is an image that exists.
type Result struct {
	// Image is the image by digest.
	Image string
	// SourceDigest is the digest of the code, the same for the same files whatever they came in. With Source.Image it is the
	// image's own.
	SourceDigest string
	// Revision is what the source was read at: the ETag of s3, the commit of git, and empty for others.
	Revision string
	// Size is how many bytes the image takes in the registry. Zero with Source.Image.
	Size int64
	// BuiltAt is when the image was found or made.
	BuiltAt time.Time
}
