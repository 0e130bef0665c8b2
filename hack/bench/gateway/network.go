package main

import (
	"fmt"
	"os/exec"
	"strings"
)

// The pod has a network of its own, as pods have: the API server lets no loopback address into an EndpointSlice. The addresses are of the range that is
// set aside for benchmarks.
const (
	netns        = "sless-bench"
	hostAddress  = "198.18.77.1/30"
	podAddress   = "198.18.77.2"
	upstreamPort = "8080"
)

// makeNetwork makes the network namespace and the wire to it.
func makeNetwork() error {
	removeNetwork() // what an earlier run may have left
	for _, command := range []string{
		"ip netns add " + netns,
		"ip link add sless-bench0 type veth peer name eth0 netns " + netns,
		"ip address add " + hostAddress + " dev sless-bench0",
		"ip link set sless-bench0 up",
		"ip -n " + netns + " address add " + podAddress + "/30 dev eth0",
		"ip -n " + netns + " link set eth0 up",
		"ip -n " + netns + " link set lo up",
	} {
		args := strings.Fields(command)
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s (needs root and iproute2): %w: %s", command, err, out)
		}
	}
	return nil
}

// removeNetwork removes both ends of the wire with the namespace.
func removeNetwork() { _ = exec.Command("ip", "netns", "delete", netns).Run() }
