package backend

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/gateway/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var errRefused = errors.New("connection refused")

// pods answers for pods by address. An address that is not there refuses.
type pods struct {
	mu      sync.Mutex
	answers map[string]Answer
	asked   map[string]int
}

func newPods() *pods { return &pods{answers: map[string]Answer{}, asked: map[string]int{}} }

func (p *pods) Ask(ctx context.Context, address string) (Answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[address]++
	answer, ok := p.answers[address]
	if !ok {
		return Answer{}, errRefused
	}
	return answer, ctx.Err()
}

func (p *pods) set(address string, answer Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[address] = answer
}

func (p *pods) count(address string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[address]
}

func ready(address string) Target {
	return Target{Address: address, UID: "uid-" + address, Ready: true, Serving: true}
}

func starting(address string) Target { return Target{Address: address, UID: "uid-" + address} }

func terminating(address string) Target {
	return Target{Address: address, UID: "uid-" + address, Serving: true, Terminating: true}
}

// chosen returns the addresses that n requests at the same time get, counted.
func chosen(t *testing.T, p *Pool, n int) map[string]int {
	t.Helper()
	count := map[string]int{}
	var held []*Endpoint
	for range n {
		e, err := p.Try(nil)
		if err != nil {
			count[err.Error()]++
			continue
		}
		held = append(held, e)
		count[e.Address]++
	}
	for _, e := range held {
		p.Release(e)
	}
	return count
}

func check(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestStartingPodIsUsedAsSoonAsItAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := newPods()
		p := NewPool(pods, 10, NewRoom(1000))
		defer p.Close()
		p.SetTargets([]Target{starting("a")}, "")
		began := time.Now()
		go func() {
			time.Sleep(700 * time.Millisecond)
			pods.set("a", Answer{Healthy: true, Revision: "r1"})
		}()
		e, err := p.Wait(t.Context(), began.Add(10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); e.Address != "a" || waited > 750*time.Millisecond {
			t.Errorf("got %s after %s", e.Address, waited)
		}
		p.Release(e)
		check(t, "revisions", map[string]int{"r1": 1}, p.Revisions())
		asked := pods.count("a")
		time.Sleep(time.Minute)
		check(t, "asked after all is known", asked, pods.count("a"))
	})
}

func TestAskingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := newPods()
		p := NewPool(pods, 10, NewRoom(1000))
		defer p.Close()
		p.SetTargets([]Target{starting("a")}, "")
		time.Sleep(askFor + time.Minute)
		asked := pods.count("a")
		time.Sleep(time.Hour)
		check(t, "asked", asked, pods.count("a"))
		if most := int(askQuickly/askInterval + askFor/askSlowInterval); asked > most {
			t.Errorf("asked %d times", asked)
		}
		pods.set("a", Answer{Healthy: true, Revision: "r1"})
		p.SetTargets([]Target{ready("a")}, "")
		synctest.Wait()
		check(t, "revisions once the kubelet says ready", map[string]int{"r1": 1}, p.Revisions())
	})
}

func TestReadyPodIsAskedForItsRevisionOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := newPods()
		pods.set("silent", Answer{Healthy: true})
		p := NewPool(pods, 10, NewRoom(1000))
		defer p.Close()
		p.SetTargets([]Target{ready("silent"), ready("late")}, "")
		check(t, "usable before anything is known", 20, func() (sum int) {
			for _, n := range chosen(t, p, 20) {
				sum += n
			}
			return sum
		}())
		time.Sleep(time.Second)
		check(t, "asked one that has no revision", 1, pods.count("silent"))
		pods.set("late", Answer{Healthy: false, Revision: "r1"}) // even an unhealthy answer has it
		time.Sleep(time.Second)
		check(t, "revisions", map[string]int{"": 1, "r1": 1}, p.Revisions())
	})
}

func TestNewestRevisionFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := newPods()
		p := NewPool(pods, 10, NewRoom(1000))
		defer p.Close()
		pods.set("old1", Answer{Healthy: true, Revision: "r1"})
		pods.set("old2", Answer{Healthy: true, Revision: "r1"})
		p.SetTargets([]Target{ready("old1"), ready("old2")}, "")
		synctest.Wait()

		p.SetTargets([]Target{ready("old1"), ready("old2"), starting("new")}, "")
		time.Sleep(time.Second)
		check(t, "while the new pod starts", 0, chosen(t, p, 20)["new"])

		pods.set("new", Answer{Healthy: true, Revision: "r2"})
		time.Sleep(time.Second)
		check(t, "once it answers", map[string]int{"new": 20}, chosen(t, p, 20))

		// A pod of the old revision that is made again is still of the old one.
		pods.set("old3", Answer{Healthy: true, Revision: "r1"})
		p.SetTargets([]Target{ready("old1"), ready("old3"), ready("new")}, "")
		synctest.Wait()
		check(t, "with a late old pod", map[string]int{"new": 20}, chosen(t, p, 20))

		// Beyond the limit of the new one the old ones help.
		p.SetLimit(1)
		check(t, "at the limit", map[string]int{"new": 1, "old1": 1, "old3": 1, ErrBusy.Error(): 1}, chosen(t, p, 4))
		p.SetLimit(0)

		// A roll-back: the first revision is the newest again once it has been gone.
		p.SetTargets([]Target{ready("new")}, "")
		pods.set("back", Answer{Healthy: true, Revision: "r1"})
		p.SetTargets([]Target{ready("new"), starting("back")}, "")
		synctest.Wait()
		check(t, "after the roll-back", map[string]int{"back": 20}, chosen(t, p, 20))
	})
}

// Which revision is the newest is for the operator to say: during a roll-out that is taken back midway the pods of both are there, and what
// appeared last is what nobody wants any more.
func TestWantedRevisionFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := newPods()
		pods.set("old", Answer{Healthy: true, Revision: "r1"})
		pods.set("new", Answer{Healthy: true, Revision: "r2"})
		p := NewPool(pods, 10, NewRoom(1000))
		defer p.Close()
		p.SetTargets([]Target{ready("old")}, "r1")
		synctest.Wait()
		p.SetTargets([]Target{ready("old"), ready("new")}, "r2")
		synctest.Wait()
		check(t, "as the roll-out goes", map[string]int{"new": 20}, chosen(t, p, 20))
		p.SetTargets([]Target{ready("old"), ready("new")}, "r1")
		check(t, "taken back", map[string]int{"old": 20}, chosen(t, p, 20))
		p.SetTargets([]Target{ready("old"), ready("new")}, "r3")
		check(t, "before the first pod of another is there", map[string]int{"new": 20}, chosen(t, p, 20))
		p.SetTargets([]Target{ready("old"), ready("new")}, "")
		check(t, "unsaid", map[string]int{"new": 20}, chosen(t, p, 20))
	})
}

func TestTerminatingPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := newPods()
		pods.set("a", Answer{Healthy: true, Revision: "r1"})
		pods.set("b", Answer{Healthy: true, Revision: "r1"})
		p := NewPool(pods, 10, NewRoom(1000))
		defer p.Close()
		p.SetTargets([]Target{ready("a"), terminating("b")}, "")
		synctest.Wait()
		check(t, "beside another", map[string]int{"a": 10}, chosen(t, p, 10))
		check(t, "not counted", map[string]int{"r1": 1}, p.Revisions())
		check(t, "not asked", 0, pods.count("b"))
		p.SetTargets([]Target{terminating("b")}, "")
		check(t, "when no other is there", map[string]int{"b": 10}, chosen(t, p, 10))
		p.SetTargets([]Target{{Address: "b", UID: "uid-b", Terminating: true}}, "")
		check(t, "when it does not serve any more", map[string]int{ErrNone.Error(): 1}, chosen(t, p, 1))
	})
}

func TestEjectedPodReturnsWhenItAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := newPods()
		pods.set("a", Answer{Healthy: true, Revision: "r1"})
		pods.set("b", Answer{Healthy: true, Revision: "r1"})
		p := NewPool(pods, 10, NewRoom(1000))
		defer p.Close()
		p.SetTargets([]Target{ready("a"), ready("b")}, "")
		synctest.Wait()
		e, err := p.Try(nil)
		if err != nil {
			t.Fatal(err)
		}
		pods.mu.Lock()
		delete(pods.answers, e.Address)
		pods.mu.Unlock()
		p.Eject(e, false)
		p.Release(e)
		check(t, "ejected", 0, chosen(t, p, 20)[e.Address])
		time.Sleep(time.Hour) // longer than pods are asked that the kubelet does not call ready
		check(t, "still ejected", 0, chosen(t, p, 20)[e.Address])
		pods.set(e.Address, Answer{Healthy: true, Revision: "r1"})
		time.Sleep(time.Second)
		if chosen(t, p, 20)[e.Address] == 0 {
			t.Error("does not return")
		}
	})
}

// One connection that does not come about in time is no proof; another one right after it is, unless the pod was reached between them.
func TestRepeatedTimeoutsEject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := newPods()
		p := NewPool(pods, 10, NewRoom(10))
		defer p.Close()
		p.SetTargets([]Target{ready("a"), ready("b")}, "")
		e, err := p.Try(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Release(e)
		for range 3 {
			check(t, "ejected by one", false, p.Eject(e, true))
			e.Reached()
		}
		p.Eject(e, true)
		check(t, "ejected by two", true, p.Eject(e, true))
		check(t, "ejected again", false, p.Eject(e, true))
		check(t, "calls there", 0, chosen(t, p, 20)[e.Address])
		pods.set(e.Address, Answer{Healthy: true, Revision: "r1"})
		time.Sleep(time.Second)
		check(t, "by one after it has answered", false, p.Eject(e, true))
	})
}

func TestPodAtAnOldAddressIsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := newPods()
		pods.set("a", Answer{Healthy: true, Revision: "r1"})
		p := NewPool(pods, 10, NewRoom(1000))
		defer p.Close()
		p.SetTargets([]Target{starting("a")}, "")
		synctest.Wait()
		check(t, "first pod", map[string]int{"r1": 1}, p.Revisions())
		pods.mu.Lock()
		delete(pods.answers, "a")
		pods.mu.Unlock()
		p.SetTargets([]Target{{Address: "a", UID: "another"}}, "")
		time.Sleep(time.Second)
		check(t, "second pod", map[string]int{}, p.Revisions())
	})
}

func TestReadinessLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := newPods()
		pods.set("a", Answer{Healthy: true, Revision: "r1"})
		p := NewPool(pods, 10, NewRoom(1000))
		defer p.Close()
		p.SetTargets([]Target{starting("a")}, "")
		synctest.Wait()
		p.SetTargets([]Target{ready("a")}, "")
		pods.set("a", Answer{Revision: "r1"})
		p.SetTargets([]Target{starting("a")}, "")
		synctest.Wait()
		check(t, "not ready any more", map[string]int{ErrNone.Error(): 1}, chosen(t, p, 1))
	})
}

func TestLeastInFlightOfTwo(t *testing.T) {
	p := NewPool(newPods(), 10, NewRoom(1000))
	defer p.Close()
	var targets []Target
	for i := range 4 {
		targets = append(targets, ready(fmt.Sprint(i)))
	}
	p.SetTargets(targets, "")
	count := chosen(t, p, 400)
	for address, n := range count {
		// Two random choices keep the fullest within a few of the mean; one random choice would be 30 off often.
		if n < 85 || n > 115 {
			t.Errorf("%s has %d of 400", address, n)
		}
	}
}

// mute is a network that swallows everything.
type mute struct{}

func (mute) Ask(ctx context.Context, _ string) (Answer, error) {
	<-ctx.Done()
	return Answer{}, ctx.Err()
}

func TestSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := newPods()
		pods.set("a", Answer{Healthy: true, Revision: "r1"})
		for name, test := range map[string]struct {
			asker   Asker
			targets []Target
			want    bool
		}{
			"none":     {mute{}, nil, true},
			"mute":     {mute{}, []Target{ready("a")}, false},
			"starting": {mute{}, []Target{starting("a")}, true},
			"answers":  {pods, []Target{ready("a")}, true},
			"refuses":  {pods, []Target{ready("b")}, true},
		} {
			p := NewPool(test.asker, 10, NewRoom(1000))
			p.SetTargets(test.targets, "")
			time.Sleep(10 * time.Second)
			if got := p.Settled(); got != test.want {
				t.Errorf("%s: %v", name, got)
			}
			p.Close()
		}
	})
}

func TestTryLeavesOut(t *testing.T) {
	p := NewPool(newPods(), 10, NewRoom(1000))
	defer p.Close()
	p.SetTargets([]Target{ready("a"), ready("b")}, "")
	first, err := p.Try(nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := p.Try([]*Endpoint{first})
	if err != nil || second == first {
		t.Fatalf("got %v, %v", second, err)
	}
	if _, err := p.Try([]*Endpoint{first, second}); !errors.Is(err, ErrBusy) {
		t.Errorf("got %v", err)
	}
}
