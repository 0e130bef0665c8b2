// Package route maps requests to functions: paths, hosts, and the table of what every function's traffic may do.
package route

import (
	"hash/maphash"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/gateway/internal/backend"
	"github.com/naeel/sless/gateway/internal/metrics"
)

// Route is one function. Requests hold on to it while they run, whatever happens to the table.
type Route struct {
	Namespace, Name string
	// Pool is its pods.
	Pool *backend.Pool
	// Meter counts its requests.
	Meter *metrics.Meter

	spec atomic.Pointer[Spec]
}

// Spec returns what holds now.
func (r *Route) Spec() *Spec { return r.spec.Load() }

// SetSpec replaces what holds.
func (r *Route) SetSpec(spec *Spec) {
	r.spec.Store(spec)
	r.Pool.SetLimit(spec.Concurrency)
}

// Table finds routes. Looking one up takes no lock and costs the same with ten routes and ten thousand.
type Table struct {
	domain string // ".example.org", or empty
	paths  shards
	hosts  shards
}

// NewTable returns an empty table. With a domain, functions are also found by their host under it.
func NewTable(domain string) *Table {
	if domain != "" {
		domain = "." + strings.ToLower(strings.Trim(domain, "."))
	}
	return &Table{domain: domain, paths: newShards(), hosts: newShards()}
}

// Put adds a route, which replaces one of the same name.
func (t *Table) Put(route *Route) {
	t.paths.put(route.Namespace+"/"+route.Name, route)
	if t.domain != "" {
		t.hosts.put(t.hostLabel(route), route)
	}
}

// Remove takes a route out.
func (t *Table) Remove(route *Route) {
	t.paths.remove(route.Namespace + "/" + route.Name)
	if t.domain != "" {
		t.hosts.remove(t.hostLabel(route))
	}
}

func (t *Table) hostLabel(route *Route) string {
	return strings.TrimSuffix(names.IngressHost(route.Namespace, route.Name, t.domain[1:]), t.domain)
}

// Lookup returns the route of namespace/name, or nil.
func (t *Table) Lookup(key string) *Route { return t.paths.get(key) }

// LookupHost returns the route of a Host header under the domain. under says whether the host is under the domain at all: then no path
// leads anywhere else.
func (t *Table) LookupHost(host string) (route *Route, under bool) {
	if t.domain == "" {
		return nil, false
	}
	if colon := strings.LastIndexByte(host, ':'); colon >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:colon]
	}
	label, under := strings.CutSuffix(strings.ToLower(strings.TrimSuffix(host, ".")), t.domain)
	if !under {
		return nil, false
	}
	return t.hosts.get(label), true
}

// All returns every route.
func (t *Table) All() []*Route { return t.paths.all() }

// Len returns how many routes there are.
func (t *Table) Len() int {
	n := 0
	for i := range t.paths.parts {
		n += len(*t.paths.parts[i].Load())
	}
	return n
}

const shardCount = 256

// shards is a map in parts. Each part is immutable and swapped whole, so that readers need no lock and a change copies one part
// of many. The mutex orders writers.
type shards struct {
	seed  maphash.Seed
	mu    *sync.Mutex
	parts []atomic.Pointer[map[string]*Route]
}

func newShards() shards {
	s := shards{seed: maphash.MakeSeed(), mu: &sync.Mutex{}, parts: make([]atomic.Pointer[map[string]*Route], shardCount)}
	for i := range s.parts {
		s.parts[i].Store(&map[string]*Route{})
	}
	return s
}

func (s *shards) part(key string) *atomic.Pointer[map[string]*Route] {
	return &s.parts[maphash.String(s.seed, key)%shardCount]
}

func (s *shards) get(key string) *Route { return (*s.part(key).Load())[key] }

func (s *shards) put(key string, route *Route) {
	s.change(key, func(part map[string]*Route) { part[key] = route })
}

func (s *shards) remove(key string) {
	s.change(key, func(part map[string]*Route) { delete(part, key) })
}

func (s *shards) change(key string, edit func(map[string]*Route)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	part := s.part(key)
	next := maps.Clone(*part.Load())
	edit(next)
	part.Store(&next)
}

func (s *shards) all() []*Route {
	var routes []*Route
	for i := range s.parts {
		for _, route := range *s.parts[i].Load() {
			routes = append(routes, route)
		}
	}
	return routes
}
