package watch

import (
	"net"
	"strconv"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/gateway/internal/backend"
)

// targets returns the addresses of a function's slices, each pod once: of a Service with two address families the IPv4 ones.
func targets(slices []*discoveryv1.EndpointSlice) []backend.Target {
	family := discoveryv1.AddressTypeIPv6
	for _, slice := range slices {
		if slice.AddressType == discoveryv1.AddressTypeIPv4 && len(slice.Endpoints) > 0 {
			family = discoveryv1.AddressTypeIPv4
		}
	}
	var all []backend.Target
	seen := map[string]int{} // where a pod is in all; it may be in two slices for a moment
	for _, slice := range slices {
		if slice.AddressType != family {
			continue
		}
		port := strconv.Itoa(int(port(slice)))
		for i := range slice.Endpoints {
			target, ok := target(&slice.Endpoints[i], port)
			if !ok {
				continue
			}
			key := target.UID + "/" + target.Address
			if at, twice := seen[key]; twice {
				// The slice that says the pod is going is the later one: no pod comes back from that.
				if target.Terminating {
					all[at] = target
				}
				continue
			}
			seen[key] = len(all)
			all = append(all, target)
		}
	}
	return all
}

// wanted returns the revision that the operator wants to serve. Every slice has that label from its Service; while they don't agree, the
// change is on its way, and nobody knows which is the later.
func wanted(slices []*discoveryv1.EndpointSlice) string {
	revision := ""
	for i, slice := range slices {
		said := slice.Labels[names.RevisionLabel]
		if i > 0 && said != revision {
			return ""
		}
		revision = said
	}
	return revision
}

func target(e *discoveryv1.Endpoint, port string) (backend.Target, bool) {
	if len(e.Addresses) == 0 {
		return backend.Target{}, false
	}
	target := backend.Target{
		Address:     net.JoinHostPort(e.Addresses[0], port),
		Ready:       e.Conditions.Ready == nil || *e.Conditions.Ready,
		Terminating: e.Conditions.Terminating != nil && *e.Conditions.Terminating,
	}
	target.Serving = target.Ready
	if e.Conditions.Serving != nil {
		target.Serving = *e.Conditions.Serving
	}
	if e.TargetRef != nil {
		target.UID, target.Pod = string(e.TargetRef.UID), e.TargetRef.Name
	}
	return target, true
}

// port returns the port of the slice's endpoints: the one with the contract's name, or the contract's number.
func port(slice *discoveryv1.EndpointSlice) int32 {
	for _, port := range slice.Ports {
		if port.Port != nil && port.Name != nil && *port.Name == names.PortName {
			return *port.Port
		}
	}
	return names.Port
}
