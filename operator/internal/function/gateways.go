package function

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
)

const (
	// gatewayService is the Service in sless-system whose endpoints are the gateways.
	gatewayService = "gateway"
	// askFor is how long all gateways together may take to answer.
	askFor = time.Second
	// meetFor is how long a process that has just started tries to reach the first gateway before it asks any.
	meetFor = 15 * time.Second
	// lagEvery is how soon a gateway that answers, but is not there yet, is asked again; one that does not answer costs a pass askFor.
	lagEvery, silentEvery = 200 * time.Millisecond, 2 * time.Second
)

// GatewayPods asks the gateways' pods over their admin listener.
type GatewayPods struct {
	// Client reads the EndpointSlices of sless-system.
	Client client.Reader
	// HTTP makes the calls.
	HTTP *http.Client
	// AdminPort is the port of the admin listener: 9090.
	AdminPort string

	// met says that a gateway was reached, or was tried to be for long enough.
	met atomic.Bool
}

// Start implements the manager's Runnable: it waits until a gateway lets this process in. Network policies do so some moments after a pod
// has started, and no Function that serves shall be called unready for that.
func (g *GatewayPods) Start(ctx context.Context) error {
	defer g.met.Store(true)
	ctx, cancel := context.WithTimeout(ctx, meetFor)
	defer cancel()
	for !g.reach(ctx) {
		select {
		case <-time.After(lagEvery):
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// reach says whether any gateway can be connected to.
func (g *GatewayPods) reach(ctx context.Context) bool {
	addresses, _ := g.addresses(ctx) // it is tried again
	dialer := net.Dialer{Timeout: askFor}
	for _, address := range addresses {
		if connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(address, g.AdminPort)); err == nil {
			connection.Close()
			return true
		}
	}
	return false
}

// Routing implements Gateways.
func (g *GatewayPods) Routing(ctx context.Context, function client.ObjectKey, revision string) Routing {
	addresses, err := g.addresses(ctx)
	if err != nil {
		return Routing{Message: fmt.Sprintf("sless can't find the gateways: %v", err), Again: silentEvery}
	}
	if len(addresses) == 0 {
		return Routing{Message: "no gateway is ready", Again: silentEvery}
	}
	if !g.met.Load() {
		return Routing{Early: true, Again: lagEvery}
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	answers := make([]Routing, len(addresses))
	var all sync.WaitGroup
	for i, address := range addresses {
		all.Go(func() { answers[i] = g.ask(ctx, address, function, revision) })
	}
	all.Wait()
	worst := Routing{Complete: true}
	for _, answer := range answers {
		if !answer.Complete && answer.Again > worst.Again {
			worst = answer
		}
	}
	return worst
}

// addresses returns the ready gateways, sorted.
func (g *GatewayPods) addresses(ctx context.Context) ([]string, error) {
	var list discoveryv1.EndpointSliceList
	if err := g.Client.List(ctx, &list, client.InNamespace(names.SystemNamespace), client.MatchingLabels{discoveryv1.LabelServiceName: gatewayService}); err != nil {
		return nil, err
	}
	var found []string
	for _, slice := range list.Items {
		for _, endpoint := range slice.Endpoints {
			if ready := endpoint.Conditions.Ready; (ready == nil || *ready) && len(endpoint.Addresses) > 0 {
				found = append(found, endpoint.Addresses[0])
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// routes is a gateway's answer: whether calls are let through, and how many pods it knows of each revision.
type routes struct {
	Enabled   bool           `json:"enabled"`
	Revisions map[string]int `json:"revisions"`
}

func (g *GatewayPods) ask(ctx context.Context, address string, function client.ObjectKey, revision string) Routing {
	silent := func(err error) Routing {
		return Routing{Message: fmt.Sprintf("gateway %s does not answer: %v", address, err), Again: silentEvery}
	}
	url := "http://" + net.JoinHostPort(address, g.AdminPort) + "/routes/" + function.Namespace + "/" + function.Name
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return silent(err)
	}
	response, err := g.HTTP.Do(request)
	if err != nil {
		return silent(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusNotFound {
		return silent(fmt.Errorf("status %d", response.StatusCode))
	}
	var known routes
	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&known); err != nil {
		return silent(err)
	}
	if lag := known.lag(revision); lag != "" {
		return Routing{Message: "gateway " + address + " " + lag, Again: lagEvery}
	}
	return Routing{Complete: true}
}

// lag says what keeps a gateway from sending calls to a revision and to no other; "" is nothing.
func (k routes) lag(revision string) string {
	switch {
	case !k.Enabled:
		return "has no route to the function yet"
	case k.Revisions[revision] == 0:
		return "does not know the new pods yet"
	}
	var others []string
	for other, pods := range k.Revisions {
		if other != revision && pods > 0 {
			others = append(others, other)
		}
	}
	if len(others) == 0 {
		return ""
	}
	slices.Sort(others)
	return "still sends calls to revision " + strings.Join(others, ", ")
}
