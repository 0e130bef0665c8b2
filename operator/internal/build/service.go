package build

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/naeel/sless/operator/internal/build/archive"
	"github.com/naeel/sless/operator/internal/build/dial"
	"github.com/naeel/sless/operator/internal/build/install"
	"github.com/naeel/sless/operator/internal/build/registry"
	"github.com/naeel/sless/operator/internal/build/source"
	"github.com/naeel/sless/operator/internal/config"
)

// Service is the Builder that works in this process and in Jobs. What it knows is in memory only: the next process
// finds what was built in the registry and what is being installed in the build namespace.
type Service struct {
	steps  steps
	jobs   jobs
	events *notifier
	// follower looks at the sources of what is built.
	follower *follower
	// fetches bounds what goes on in this process, installs the Jobs.
	fetches, jobPlaces *queue
	// keepUnused is how long a dependency image stays that nobody needs.
	keepUnused time.Duration
	noDelete   sync.Once // says that the registry deletes nothing

	ctx  context.Context // ends all work
	stop context.CancelFunc
	all  sync.WaitGroup // every goroutine

	mu       sync.Mutex // guards all below, and what is said to be guarded in work and installation
	works    map[Owner]*work
	installs map[string]*installation // by key
	retained map[Owner]*retention     // what Retain was told, until new work begins
	pruning  map[Owner]chan struct{}  // those whose images are being deleted; closed when that has ended
}

// steps is what a build does in this process.
type steps interface {
	checkRegistry(ctx context.Context) error
	attempt(ctx context.Context, request Request, report func(Step)) (outcome, error)
	forget(ctx context.Context, owner Owner, last bool) error
	release(ctx context.Context, spec install.Spec) error
	tidy(ctx context.Context) error
	revision(ctx context.Context, request Request) (string, error)
	// What there is in a namespace's repository. digest gives "" for a tag that is not there.
	tags(ctx context.Context, namespace string) ([]string, error)
	digest(ctx context.Context, namespace, tag string) (string, error)
	remove(ctx context.Context, namespace, tag string) error
}

// jobs is what a build does in the cluster.
type jobs interface {
	Ensure(ctx context.Context, spec install.Spec) error
	Observe(ctx context.Context, key string, now time.Time) (install.Progress, error)
	Delete(ctx context.Context, key string) error
	List(ctx context.Context) ([]install.Left, error)
}

// New returns a Service for the platform's registry, object store and build namespace.
func New(kind Kind, cfg config.Config, client kubernetes.Interface) (*Service, error) {
	guard, err := dial.NewGuard(cfg.Network)
	if err != nil {
		return nil, err
	}
	images, err := registry.New(cfg.Registry, guard)
	if err != nil {
		return nil, err
	}
	if err := images.CheckAccount(); err != nil {
		return nil, err
	}
	sources, err := source.New(cfg, guard)
	if err != nil {
		return nil, err
	}
	local := &pipeline{
		config:   cfg,
		limits:   archive.Limits{Files: cfg.Build.MaxFiles, Bytes: cfg.Build.MaxUnpackedBytes},
		sources:  sources,
		registry: images,
		maker:    newMaker(kind, cfg, images, sources.S3),
	}
	return newService(local, install.NewRunner(client, cfg, sources.S3), cfg.Build), nil
}

func newService(local steps, remote jobs, cfg config.Build) *Service {
	s := &Service{
		steps: local, jobs: remote, events: newNotifier(), keepUnused: time.Duration(cfg.KeepUnusedSeconds) * time.Second,
		fetches:   newQueue(cfg.MaxConcurrent, cfg.MaxConcurrentPerNamespace),
		jobPlaces: newQueue(cfg.MaxConcurrent, cfg.MaxConcurrentPerNamespace),
		works:     map[Owner]*work{}, installs: map[string]*installation{}, retained: map[Owner]*retention{}, pruning: map[Owner]chan struct{}{},
	}
	s.follower = newFollower(local.revision, s.events.notify)
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Start implements the manager's Runnable: it works until ctx ends, and ends with an error when the registry is not fit. Jobs that run
// then go on running, for the next process to find.
func (s *Service) Start(ctx context.Context) error {
	defer s.end()
	s.all.Go(func() { s.events.run(s.ctx.Done()) })
	s.all.Go(s.sweep)
	s.all.Go(func() { s.follower.run(s.ctx, &s.all) })
	s.all.Go(s.tellPlaces)
	s.all.Go(s.prune)
	for {
		err := s.steps.checkRegistry(ctx)
		if errors.Is(err, registry.ErrAnonymousPush) {
			return err
		}
		if err == nil || ctx.Err() != nil {
			break
		}
		logger().Info("The registry can't be asked for its rights yet; builds wait", "cause", err.Error())
		sleep(ctx, checkEvery)
	}
	<-ctx.Done()
	return nil
}

// end waits for all work to have stopped. No work starts once it holds mu.
func (s *Service) end() {
	s.mu.Lock()
	s.stop()
	s.mu.Unlock()
	s.all.Wait()
}

// NeedLeaderElection says that one replica of the operator builds.
func (s *Service) NeedLeaderElection() bool { return true }

const (
	checkEvery = 5 * time.Second
	// sweepEvery is how often Jobs that nobody asks for are looked for. One that is found twice in a row goes.
	sweepEvery = time.Minute
	// tidySweeps is how many sweeps pass between two looks for what was stored for Jobs and left.
	tidySweeps = 30
	// cleanUpFor is how long taking something away may take.
	cleanUpFor = 30 * time.Second
	// farewell is how long it may take when the process is told to go.
	farewell = 10 * time.Second
)

// Events implements Builder.
func (s *Service) Events() <-chan Owner { return s.events.out }

// Ensure implements Builder.
func (s *Service) Ensure(_ context.Context, request Request) State {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := request.workKey()
	if request.Revision == "" {
		s.follower.forget(request.Owner) // until this is built
	}
	current := s.works[request.Owner]
	if current == nil || current.key != key || current.state.Phase == Failed && !reflect.DeepEqual(current.request, request) {
		// What is not in the key, as credentials are, may be what it failed for.
		current = s.start(request.Owner, key, func(w *work) { s.run(w) })
		current.ticket = s.fetches.join(request.Owner.Namespace)
		current.state = State{Phase: Building, Step: Queued, Position: current.ticket.position(), Started: time.Now()}
	}
	if current.state.Phase != Done {
		current.request = request // what is not in the key may be new
	}
	return current.state
}

// Follow implements Builder.
func (s *Service) Follow(request Request, revision string) (newer string) {
	newer = s.follower.follow(request, revision)
	if newer == "" {
		s.endWork(request.Owner)
	}
	return newer
}

// Forget implements Builder.
func (s *Service) Forget(owner Owner) {
	s.follower.forget(owner)
	s.endWork(owner)
}

func (s *Service) endWork(owner Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if current := s.works[owner]; current != nil && current.key != removal {
		current.cancel()
		current.key = forgotten
		if isClosed(current.done) {
			delete(s.works, owner)
		}
	}
}

// Remove implements Builder.
func (s *Service) Remove(owner Owner, last bool) {
	s.follower.forget(owner)
	s.mu.Lock()
	defer s.mu.Unlock()
	if current := s.works[owner]; current != nil && current.key == removal {
		return
	}
	s.start(owner, removal, func(w *work) { s.remove(w, last) })
}

// Keys of works that make no image.
const (
	removal   = "removal"
	forgotten = "forgotten"
)

// start replaces the owner's work by a new one, which begins when the old one has ended. The caller holds mu.
func (s *Service) start(owner Owner, key string, run func(*work)) *work {
	previous := s.works[owner]
	w := &work{owner: owner, key: key, done: make(chan struct{})}
	life := s.ctx
	if key == removal {
		life = context.WithoutCancel(life) // see remove
	}
	w.ctx, w.cancel = context.WithCancel(life)
	s.works[owner] = w
	delete(s.retained, owner) // what is pushed now was not asked about
	pruned := s.pruning[owner]
	if previous != nil {
		previous.cancel()
	}
	if s.ctx.Err() != nil { // the process ends
		close(w.done)
		return w
	}
	s.all.Go(func() {
		defer s.ended(w)
		if previous != nil {
			<-previous.done
		}
		if pruned != nil {
			<-pruned
		}
		if w.ctx.Err() == nil {
			run(w)
		}
	})
	return w
}

// ended lets go of a work; one that made an image is kept for Ensure to tell.
func (s *Service) ended(w *work) {
	w.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.ticket != nil {
		w.ticket.leave()
		w.ticket = nil
	}
	close(w.done)
	if s.works[w.owner] == w && (w.key == removal || w.key == forgotten) {
		delete(s.works, w.owner)
	}
}

// remove deletes a function's images, trying for a while: a registry that is away longer keeps them. A process that is told to go brings it to
// its end, unless that takes long: the Function is gone, and the next process does not hear of it.
func (s *Service) remove(w *work, last bool) {
	const attempts = 8
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, func() { time.AfterFunc(farewell, cancel) })()
	for n := range attempts {
		once, done := context.WithTimeout(ctx, cleanUpFor)
		err := s.steps.forget(once, w.owner, last && s.alone(w))
		done()
		if err == nil || s.keepsAll(err) {
			return
		}
		if !sleep(ctx, backoff(n, time.Second, time.Minute)) {
			return
		}
	}
	logger().Info("The images of a deleted function stay in the registry: it did not answer", "namespace", w.owner.Namespace, "function", w.owner.Name)
}

// alone says whether nobody else in the namespace has work under way that dependency images may be needed for.
func (s *Service) alone(w *work) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for owner := range s.works {
		if owner.Namespace == w.owner.Namespace && owner != w.owner {
			return false
		}
	}
	return true
}

// sweep deletes Jobs that an earlier process left and nobody asks for any more.
func (s *Service) sweep() {
	suspects := map[string]bool{}
	for n := 0; sleep(s.ctx, sweepEvery); n++ {
		if n%tidySweeps == 0 {
			if err := s.steps.tidy(s.ctx); err != nil {
				logger().V(1).Info("What earlier builds stored can't be tidied", "cause", err.Error())
			}
		}
		left, err := s.jobs.List(s.ctx)
		if err != nil {
			continue // the next sweep is soon
		}
		unknown := map[string]bool{}
		for _, job := range left {
			if s.installing(job.Key) {
				continue
			}
			unknown[job.Key] = true
			if suspects[job.Key] {
				s.discard(install.Spec{Key: job.Key, Namespace: job.Namespace})
			}
		}
		suspects = unknown
	}
}

func (s *Service) installing(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.installs[key] != nil
}

// discard takes away a Job and what was made for it.
func (s *Service) discard(spec install.Spec) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), cleanUpFor)
	defer cancel()
	if err := s.jobs.Delete(ctx, spec.Key); err != nil {
		logger().Error(err, "The build Job stays until its time is over", "key", spec.Key)
	}
	s.release(spec)
}

// release takes away what was stored for a Job.
func (s *Service) release(spec install.Spec) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), cleanUpFor)
	defer cancel()
	if err := s.steps.release(ctx, spec); err != nil && !s.keepsAll(err) {
		logger().Info("What was stored for a build Job stays", "namespace", spec.Namespace, "key", spec.Key, "cause", err.Error())
	}
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// sleep waits, and says whether it was to the end.
func sleep(ctx context.Context, duration time.Duration) bool {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// backoff returns the n-th pause, doubling from first to most.
func backoff(n int, first, most time.Duration) time.Duration {
	pause := first
	for range n {
		if pause *= 2; pause >= most {
			return most
		}
	}
	return min(pause, most)
}

var _ Builder = (*Service)(nil)

func logger() logr.Logger { return log.Log.WithName("build") }
