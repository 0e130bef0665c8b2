package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/operator/internal/build/fault"
)

// references are those of a server that may matter for one wish.
type references struct {
	named map[string]plumbing.Hash // by full name
	// heads are some branches, the default one first, to look for a commit below.
	heads        []plumbing.Hash
	capabilities []string
}

const mostHeads = 64

// fullNames are the references that a short name may mean, the first one first.
func fullNames(ref string) []string {
	if ref == "HEAD" || strings.HasPrefix(ref, "refs/") {
		return []string{ref}
	}
	return []string{"refs/tags/" + ref, "refs/heads/" + ref, "refs/" + ref}
}

// peeled is the suffix under which a server names the commit that an annotated tag is of.
const peeled = "^{}"

// readReferences reads a server's references and keeps what may matter.
func readReferences(answer io.Reader, ref string) (*references, error) {
	kept := &references{named: map[string]plumbing.Hash{}}
	names := fullNames(ref)
	lines := pktline.NewScanner(answer)
	begun, first := false, true
	for lines.Scan() {
		line := bytes.TrimSuffix(lines.Bytes(), []byte("\n"))
		switch {
		case !begun && (bytes.HasPrefix(line, []byte("#")) || len(line) == 0):
			continue // the service's name, and the end of that part
		case len(line) == 0:
			return kept, nil
		}
		begun = true
		line, capabilities, _ := bytes.Cut(line, []byte("\x00"))
		if first {
			first = false
			kept.capabilities = strings.Fields(string(capabilities))
			if kept.can("object-format=sha256") {
				return nil, fault.Terminal(v1alpha1.ReasonSourceInvalid, "the repository names its objects by SHA-256, which sless does not read; use one of SHA-1, or put the code into an archive")
			}
		}
		hash, name, found := bytes.Cut(line, []byte(" "))
		if !found || !IsCommit(string(hash)) {
			return nil, errProtocol
		}
		kept.keep(string(name), plumbing.NewHash(string(hash)), names)
	}
	switch {
	case lines.Err() != nil:
		return nil, lines.Err()
	case begun:
		return nil, io.ErrUnexpectedEOF
	}
	return kept, nil // an empty repository
}

func (r *references) keep(name string, hash plumbing.Hash, names []string) {
	if slices.Contains(names, strings.TrimSuffix(name, peeled)) {
		r.named[name] = hash
	}
	if (name == "HEAD" || strings.HasPrefix(name, "refs/heads/")) && len(r.heads) < mostHeads && !slices.Contains(r.heads, hash) {
		r.heads = append(r.heads, hash)
	}
}

func (r *references) can(capability string) bool { return slices.Contains(r.capabilities, capability) }

// resolve returns what a reference is at. A commit is itself, whatever there is.
func (r *references) resolve(ref string) (plumbing.Hash, bool) {
	if IsCommit(ref) {
		return plumbing.NewHash(ref), true
	}
	for _, name := range fullNames(ref) {
		for _, spelled := range []string{name + peeled, name} {
			if hash, found := r.named[spelled]; found {
				return hash, true
			}
		}
	}
	return plumbing.ZeroHash, false
}

// ask returns the request for commits, and whether the answer will say where history is cut off.
func (r *references) ask(wants []plumbing.Hash, depth int) (body string, shallow bool) {
	var b bytes.Buffer
	lines := pktline.NewEncoder(&b)
	var errs []error
	for i, want := range wants {
		if i > 0 {
			errs = append(errs, lines.Encodef("want %s\n", want))
			continue
		}
		// multi_ack_detailed has no use for us, but some servers talk to nobody without.
		capabilities := "agent=sless"
		for _, capability := range []string{"multi_ack_detailed", "side-band-64k", "ofs-delta", "no-progress"} {
			if r.can(capability) {
				capabilities += " " + capability
			}
		}
		errs = append(errs, lines.Encodef("want %s %s\n", want, capabilities))
	}
	if shallow = r.can("shallow"); shallow {
		errs = append(errs, lines.Encodef("deepen %d\n", depth))
	}
	errs = append(errs, lines.Flush(), lines.EncodeString("done\n"))
	if err := errors.Join(errs...); err != nil {
		panic(fmt.Sprintf("a buffer can't be written: %v", err))
	}
	return b.String(), shallow
}
