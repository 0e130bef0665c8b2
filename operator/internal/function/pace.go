package function

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
)

// turnEvery is how often places for upgrades are given away.
const turnEvery = time.Second

// pace keeps a new version of sless, of a runtime or of the configuration from replacing the pods of all Functions at once. What a
// tenant changes is never held up. Who has a place is in the status of Functions; here is only what the cache may not show yet.
type pace struct {
	mu      sync.Mutex
	granted map[client.ObjectKey]bool // guarded by mu: who may take a place
	given   map[string]int            // guarded by mu: how many turns a namespace had since nobody waited
}

// may says whether it is a Function's turn.
func (p *pace) may(key client.ObjectKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.granted[key]
}

// leave says that a Function needs no place, or no more.
func (p *pace) leave(key client.ObjectKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.granted, key)
}

// givesTurns says that somebody has a turn that the cache does not show yet.
func (p *pace) givesTurns() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.granted) > 0
}

// turns gives free places away, and returns whose turn it is: those who have not taken their place yet, too.
func (p *pace) turns(functions []v1alpha1.Function, places int) []client.ObjectKey {
	p.mu.Lock()
	defer p.mu.Unlock()
	var waiting []client.ObjectKey
	for i := range functions {
		function := &functions[i]
		key := client.ObjectKeyFromObject(function)
		switch {
		case !function.DeletionTimestamp.IsZero():
		case placeOf(&function.Status) != nil:
			places--
			delete(p.granted, key)
		case waits(&function.Status) && !p.granted[key]:
			waiting = append(waiting, key)
		}
	}
	if len(waiting) == 0 || p.granted == nil {
		p.given = map[string]int{}
	}
	if p.granted == nil {
		p.granted = map[client.ObjectKey]bool{}
	}
	for _, key := range pick(waiting, p.given, places-len(p.granted)) {
		p.granted[key] = true
		p.given[key.Namespace]++
	}
	return slices.Collect(maps.Keys(p.granted))
}

// waits says that a Function waits for its turn. One that was held waits again when somebody takes the mark away by hand.
func waits(status *v1alpha1.FunctionStatus) bool {
	upgrade := status.Upgrade
	return upgrade != nil && (upgrade.State == v1alpha1.UpgradeWaiting || (upgrade.State == v1alpha1.UpgradeHeld && status.RuntimeHeld == ""))
}

// pick chooses for free places: the namespaces in turn, so that one with many Functions holds up nobody else's first, and by name in each.
// given says how many turns a namespace has had.
func pick(waiting []client.ObjectKey, given map[string]int, places int) []client.ObjectKey {
	type ranked struct {
		client.ObjectKey
		turn int
	}
	slices.SortFunc(waiting, func(a, b client.ObjectKey) int { return cmp.Compare(a.Name, b.Name) })
	before := map[string]int{}
	line := make([]ranked, len(waiting))
	for i, key := range waiting {
		line[i] = ranked{key, given[key.Namespace] + before[key.Namespace]}
		before[key.Namespace]++
	}
	slices.SortFunc(line, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.Namespace, b.Namespace))
	})
	var chosen []client.ObjectKey
	for _, one := range line[:max(0, min(places, len(line)))] {
		chosen = append(chosen, one.ObjectKey)
	}
	return chosen
}

// news says whether any Function has changed since it was asked last. There is some at first.
type news struct{ old atomic.Bool }

func (n *news) came() { n.old.Store(false) }

func (n *news) any() bool { return !n.old.Swap(true) }

// giveTurns puts Functions whose turn it is into the queue, and counts all for the metrics.
func (r *Reconciler) giveTurns(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	go func() {
		ticker := time.NewTicker(turnEvery)
		defer ticker.Stop()
		for begun := false; ; {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			if begun && !r.news.any() && !r.pace.givesTurns() {
				continue // looking at ten thousand Functions every second for nothing is what an operator at rest would do most
			}
			var list v1alpha1.FunctionList
			if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil { // only looked at
				ctrl.LoggerFrom(ctx).Error(err, "list Functions to give turns")
				continue
			}
			if !begun {
				begun = queue.Len() == 0 // all have had their first pass, or are in it, so that the line is whole at the next tick
				continue
			}
			for _, key := range r.pace.turns(list.Items, r.Config.RuntimeUpgrade.MaxConcurrent) {
				queue.Add(ctrl.Request{NamespacedName: key})
			}
			count(list.Items, r.Config)
		}
	}()
	return nil
}
