package source

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/dial"
	"github.com/naeel/sless/operator/internal/build/fault"
)

// Repository names a folder of a Git repository.
type Repository struct {
	// URL is the repository's address, http or https.
	URL string
	// Ref is a branch, a tag, a full reference or a commit.
	Ref string
	// Path is the folder; empty is the root.
	Path string
	// Username and Password are the tenant's own; they are sent to the URL's own origin only. Empty sends none.
	Username, Password string
}

// Git fetches trees of repositories by Git's smart HTTP protocol. It speaks the small part of it that fetches one commit, and stores
// objects itself: a library's fetch keeps whole objects, and all of a server's references, in memory, and here the server is a stranger.
type Git struct {
	transport http.RoundTripper
	spoolDir  string
	limits    gitLimits
}

// gitLimits bound what a server may send.
type gitLimits struct {
	network  int64 // bytes of an answer
	objects  int
	unpacked int64 // bytes of all objects
}

func newGit(guard *dial.Guard, spoolDir string, limits gitLimits) *Git {
	return &Git{transport: guard.Transport(), spoolDir: spoolDir, limits: limits}
}

// fallbackDepth is how far below the branches a commit is looked for on a server that gives none by its name.
const fallbackDepth = 1000

// Fetch returns the folder's tree at the reference, which is in a file without a name until the Checkout is closed.
func (g *Git) Fetch(ctx context.Context, repository Repository) (*Checkout, error) {
	remote := &remote{Git: g, repository: repository}
	advertised, err := remote.references(ctx)
	if err != nil {
		return nil, err
	}
	wanted, found := advertised.resolve(repository.Ref)
	if !found {
		return nil, fault.Terminal(v1alpha1.ReasonSourceNotFound, "%s has no branch or tag %q; push it, or correct source.git.ref", remote.name(), repository.Ref)
	}
	checkout, err := remote.fetch(ctx, advertised, []plumbing.Hash{wanted}, 1)
	if _, refused := errors.AsType[*pktline.ErrorLine](err); refused && IsCommit(repository.Ref) && len(advertised.heads) > 0 {
		// The server gives commits only that a reference names: look below those.
		checkout, err = remote.fetch(ctx, advertised, advertised.heads, fallbackDepth)
	}
	if err != nil {
		return nil, remote.explain(ctx, err)
	}
	if err := checkout.enter(wanted, repository); err != nil {
		checkout.Close()
		return nil, remote.explain(ctx, err)
	}
	return checkout, nil
}

// remote is a repository that is being talked to.
type remote struct {
	*Git
	repository Repository
	base       *url.URL // where it is after redirects
}

func (r *remote) name() string {
	address, err := url.Parse(r.repository.URL)
	if err != nil {
		return "the repository"
	}
	return "the repository at " + display(address)
}

// references reads what the server has. Of maybe a million references it keeps the few that may matter.
func (r *remote) references(ctx context.Context) (*references, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(r.repository.URL, "/")+"/info/refs?service=git-upload-pack", nil)
	if err != nil {
		return nil, fault.Terminal(v1alpha1.ReasonSourceInvalid, "source.git.url is no URL; write it as https://example.org/team/code.git")
	}
	origin := request.URL
	r.authorize(request, origin)
	client := &http.Client{Transport: r.transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if next.URL.Scheme == "http" && via[len(via)-1].URL.Scheme == "https" {
			return errRedirect("it redirects from https to http")
		}
		if !sameOrigin(next.URL, origin) {
			next.Header.Del("Authorization")
		}
		return checkRedirect(next, via)
	}}
	response, err := client.Do(request)
	if err != nil {
		return nil, r.explain(ctx, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, r.explainStatus(response)
	}
	if response.Header.Get("Content-Type") != "application/x-git-upload-pack-advertisement" {
		return nil, fault.Terminal(v1alpha1.ReasonSourceNotFound, "%s is none that speaks Git's smart HTTP protocol; correct source.git.url", r.name())
	}
	base, found := strings.CutSuffix(response.Request.URL.Path, "/info/refs")
	if !found {
		return nil, fault.Terminal(v1alpha1.ReasonSourceInvalid, "%s redirects to %s, which is no repository; name the address that it is at", r.name(), display(response.Request.URL))
	}
	r.base = &url.URL{Scheme: response.Request.URL.Scheme, Host: response.Request.URL.Host, Path: base + "/git-upload-pack"}
	advertised, err := readReferences(bufio.NewReader(&limited{reader: response.Body, left: r.limits.network}), r.repository.Ref)
	if err != nil {
		return nil, r.explain(ctx, err)
	}
	return advertised, nil
}

// authorize adds the credentials to a request that goes where the tenant said.
func (r *remote) authorize(request *http.Request, origin *url.URL) {
	if r.repository.Password != "" && sameOrigin(request.URL, origin) {
		request.SetBasicAuth(r.repository.Username, r.repository.Password)
	}
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }

// fetch asks for commits and what they need, and unpacks the answer. A depth of 1 is the commits alone.
func (r *remote) fetch(ctx context.Context, advertised *references, wants []plumbing.Hash, depth int) (*Checkout, error) {
	body, shallow := advertised.ask(wants, depth)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.base.String(), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-git-upload-pack-request")
	request.Header.Set("Accept", "application/x-git-upload-pack-result")
	if origin, err := url.Parse(r.repository.URL); err == nil {
		r.authorize(request, origin)
	}
	client := &http.Client{Transport: r.transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, r.explainStatus(response)
	}
	answer := bufio.NewReader(&limited{reader: response.Body, left: r.limits.network})
	if err := skipNegotiation(answer, shallow); err != nil {
		return nil, err
	}
	var pack io.Reader = answer
	if advertised.can("side-band-64k") {
		pack = sideband.NewDemuxer(sideband.Sideband64k, answer)
	}
	objects, err := newObjects(r.spoolDir, r.limits)
	if err != nil {
		return nil, err
	}
	if err := objects.unpack(ctx, pack); err != nil {
		objects.file.Close()
		return nil, err
	}
	return &Checkout{objects: objects}, nil
}

// skipNegotiation reads an answer up to the pack: where history is cut off, and that the server knows of nothing that we have.
func skipNegotiation(answer io.Reader, shallow bool) error {
	lines := pktline.NewScanner(answer)
	for lines.Scan() {
		line := string(lines.Bytes())
		switch {
		case shallow && line == "":
			shallow = false
		case shallow && (strings.HasPrefix(line, "shallow ") || strings.HasPrefix(line, "unshallow ")):
		case !shallow && strings.HasPrefix(line, "NAK"):
			return nil
		default:
			return errProtocol
		}
	}
	if lines.Err() != nil {
		return lines.Err()
	}
	return io.ErrUnexpectedEOF
}

// errProtocol is an answer that Git's protocol does not have.
var errProtocol = errors.New("the server's answer is not Git's protocol")

var commitPattern = regexp.MustCompile(`^[0-9a-f]{40}$`)

// IsCommit says whether a reference is a commit's own name.
func IsCommit(ref string) bool { return commitPattern.MatchString(ref) }

// limited is a reader that ends with an error when there is more than was allowed.
type limited struct {
	reader io.Reader
	left   int64
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.reader.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// explain says what it means that a repository could not be read.
func (r *remote) explain(ctx context.Context, err error) error {
	if errors.Is(err, errTooLarge) {
		return fault.Terminal(v1alpha1.ReasonSourceTooLarge, "%s is larger at %q than is allowed: %d bytes packed, %d bytes unpacked or %d objects; put the function into a smaller repository, or its code into an archive",
			r.name(), r.repository.Ref, r.limits.network, r.limits.unpacked, r.limits.objects)
	}
	if line, ok := errors.AsType[*pktline.ErrorLine](err); ok {
		if IsCommit(r.repository.Ref) {
			return r.noCommit()
		}
		return fault.Transient(v1alpha1.ReasonSourceUnavailable, "read %s: the server says %.200q", r.name(), line.Text)
	}
	return explainCall(ctx, r.name(), "source.git.url", unlessDisk(err))
}

func (r *remote) noCommit() error {
	return fault.Terminal(v1alpha1.ReasonSourceNotFound, "%s gives no commit %s; push it, correct source.git.ref, or name a branch or tag that it is at", r.name(), r.repository.Ref)
}

func (r *remote) explainStatus(response *http.Response) error {
	code := response.StatusCode
	status := fmt.Sprintf("%d %s", code, http.StatusText(code))
	switch {
	case (code == http.StatusUnauthorized || code == http.StatusForbidden) && r.repository.Password != "":
		return fault.Terminal(v1alpha1.ReasonSourceNotFound, "%s does not exist, or the server refuses the credentials for it (%s); correct source.git.url, or the Secret that source.git.secretName names", r.name(), status)
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return fault.Terminal(v1alpha1.ReasonSourceNotFound, "%s does not exist or is private (%s); correct source.git.url, or name a Secret with username and password in source.git.secretName", r.name(), status)
	}
	return explainStatus(r.name(), "source.git.url", response)
}
