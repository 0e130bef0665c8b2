package build

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/naeel/sless/operator/internal/build/install"
	"github.com/naeel/sless/operator/internal/build/registry"
)

// retention is which images of a function must stay in the registry.
type retention struct {
	images []string
	inUse  InUse
	done   bool // all others were looked at
	again  bool // some of them were in use
}

// InUse says which images, by digest, anybody uses. An error keeps all.
type InUse func(context.Context) ([]string, error)

const (
	// pruneEvery is how often it is looked whether there is anything to delete.
	pruneEvery = 5 * time.Second
	// pruneAgain is how soon a registry that did not answer is asked again.
	pruneAgain = time.Minute
	// lookEvery is the longest time between two looks at what nobody needs.
	lookEvery = time.Hour
)

// Retain implements Builder.
func (s *Service) Retain(owner Owner, images []string, inUse InUse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.works[owner]; w != nil && w.key != forgotten && !isClosed(w.done) {
		return // the caller comes again when it has ended
	}
	if known := s.retained[owner]; known == nil || !slices.Equal(known.images, images) {
		s.retained[owner] = &retention{images: images, inUse: inUse}
	}
}

// tenantImages is what is remembered of a namespace's repository between two looks at it.
type tenantImages struct {
	next    time.Time            // when to look again although nothing was retained anew
	unused  map[string]time.Time // tags that nobody needs, and since when
	failing bool
}

// prune deletes images that need not stay, one namespace after the other, until the registry says that it deletes nothing.
func (s *Service) prune() {
	tenants := map[string]*tenantImages{}
	for sleep(s.ctx, pruneEvery) {
		now := time.Now()
		for namespace, news := range s.retaining() {
			tenant := tenants[namespace]
			if tenant == nil {
				tenant = &tenantImages{}
				tenants[namespace] = tenant
			}
			if now.Before(tenant.next) && (!news || tenant.failing) {
				continue
			}
			tenant.next = now.Add(min(max(s.keepUnused/10, pruneEvery), lookEvery))
			err := s.pruneNamespace(namespace, tenant, now)
			if s.keepsAll(err) {
				return
			}
			if err != nil && !tenant.failing && s.ctx.Err() == nil {
				logger().Info("Old images stay until the registry answers", "namespace", namespace, "cause", err.Error())
			}
			tenant.failing = err != nil
			if tenant.failing {
				tenant.next = now.Add(pruneAgain)
			}
		}
	}
}

// keepsAll says whether the registry deletes nothing, and tells so once.
func (s *Service) keepsAll(err error) bool {
	if !errors.Is(err, registry.ErrNoDelete) {
		return false
	}
	s.noDelete.Do(func() {
		logger().Info("The registry deletes no images: those of old versions and of deleted functions stay in it. Enable deletion in the registry, and start the operator again")
	})
	return true
}

// retaining lists the namespaces that images are retained in, and whether there is anything new about each.
func (s *Service) retaining() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	namespaces := map[string]bool{}
	for owner, retained := range s.retained {
		namespaces[owner.Namespace] = namespaces[owner.Namespace] || !retained.done
	}
	return namespaces
}

// pruneNamespace deletes what need not stay of one namespace.
func (s *Service) pruneNamespace(namespace string, tenant *tenantImages, now time.Time) error {
	ctx, cancel := context.WithTimeout(s.ctx, cleanUpFor)
	defer cancel()
	tags, err := s.steps.tags(ctx, namespace)
	if err != nil {
		return err
	}
	gone := map[string]bool{}
	for _, owner := range s.unpruned(namespace) {
		if err := s.pruneFunction(ctx, owner, tags, gone); err != nil {
			return err
		}
	}
	tags = slices.DeleteFunc(tags, func(tag string) bool { return gone[tag] })
	return s.dropUnused(ctx, namespace, tags, tenant, now)
}

func (s *Service) unpruned(namespace string) []Owner {
	s.mu.Lock()
	defer s.mu.Unlock()
	var owners []Owner
	for owner, retained := range s.retained {
		if owner.Namespace == namespace && (!retained.done || retained.again) {
			owners = append(owners, owner)
		}
	}
	return owners
}

// pruneFunction deletes those of a function's images that need not stay, and notes their tags.
func (s *Service) pruneFunction(ctx context.Context, owner Owner, tags []string, gone map[string]bool) error {
	retained, release := s.claim(owner)
	if retained == nil {
		return nil
	}
	defer release()
	own := slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return !tagOf(tag, owner.Name) })
	again := false
	if len(own) > len(retained.images) {
		used, err := retained.inUse(ctx)
		if err != nil {
			return err
		}
		for _, tag := range own {
			digest, err := s.steps.digest(ctx, owner.Namespace, tag)
			switch {
			case err != nil:
				return err
			case digest == "" || anyIs(retained.images, digest):
				continue
			case anyIs(used, digest):
				again = true
				continue
			}
			if err := s.steps.remove(ctx, owner.Namespace, tag); err != nil {
				return err
			}
			gone[tag] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	retained.done, retained.again = true, again
	return nil
}

// claim keeps new work for the owner from beginning until release, and returns what must stay: nil when there is such work already. So
// no image is deleted between being pushed, or found again, and being in the list of those that must stay.
func (s *Service) claim(owner Owner) (retained *retention, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.works[owner]; s.retained[owner] == nil || (w != nil && !isClosed(w.done)) {
		return nil, nil
	}
	done := make(chan struct{})
	s.pruning[owner] = done
	return s.retained[owner], func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.pruning, owner)
		close(done)
	}
}

// anyIs says whether one of the references is to the digest.
func anyIs(references []string, digest string) bool {
	return slices.ContainsFunc(references, func(reference string) bool { return strings.HasSuffix(reference, "@"+digest) })
}

// dropUnused deletes what functions share, dependency images and what an install step has left, when nobody has needed it for a while.
// As long as anything is built in the namespace, nothing goes: it may have been found, to be built upon, a moment ago.
func (s *Service) dropUnused(ctx context.Context, namespace string, tags []string, tenant *tenantImages, now time.Time) error {
	needed, busy := s.needs(namespace)
	for _, tag := range tags {
		needed[dependenciesOf(tag)] = true
	}
	before := tenant.unused
	tenant.unused = map[string]time.Time{}
	for _, tag := range tags {
		if needed[tag] || !dependencyTag(tag) {
			continue
		}
		since, known := before[tag]
		if !known {
			since = now
		}
		tenant.unused[tag] = since
		switch {
		case now.Sub(since) < s.keepUnused:
			continue
		case busy:
			tenant.next = now.Add(pruneAgain)
			continue
		}
		if err := s.steps.remove(ctx, namespace, tag); err != nil {
			return err
		}
		delete(tenant.unused, tag)
	}
	return nil
}

// needs says which shared tags the work under way in a namespace needs, and whether any part of it is in this process now.
func (s *Service) needs(namespace string) (needed map[string]bool, busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	needed = map[string]bool{}
	need := func(spec install.Spec) {
		tag := spec.Destination[strings.LastIndex(spec.Destination, ":")+1:]
		needed[tag], needed[installerPrefix+spec.Key], needed[dependenciesOf(tag)] = true, true, true
	}
	for _, shared := range s.installs {
		need(shared.spec)
	}
	for owner, w := range s.works {
		if owner.Namespace == namespace && w.shared != nil {
			need(w.shared.spec)
		}
	}
	return needed, s.fetches.holds(namespace)
}
