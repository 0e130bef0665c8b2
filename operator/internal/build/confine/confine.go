// Package confine is the step of a build Job that waits until the network policies hold for its pod.
//
// Most of what enforces policies hears of a pod when it starts, and closes its network some moments later. A tenant's install script must
// not have those moments.
package confine

import (
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

const (
	// patience is how long to wait. A cluster without anything that enforces policies must still build.
	patience = 15 * time.Second
	every    = 100 * time.Millisecond
	// dialFor is how long the API server may take to answer a pod that may call it.
	dialFor = time.Second
)

// Run returns when the cluster's API server can't be reached any more, which no policy allows to a build, or after 15 seconds. The result is the exit
// code of a process.
func Run(messages io.Writer) int {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return 0 // it is not said where the API server is
	}
	if !wait(net.JoinHostPort(host, port), patience) {
		fmt.Fprintf(messages, "sless confine: the API server can still be reached after %s: nothing enforces the network policies of sless-build; install what does\n", patience)
	}
	return 0
}

// wait says whether the address became unreachable in time.
func wait(address string, patience time.Duration) bool {
	for deadline := time.Now().Add(patience); ; time.Sleep(every) {
		connection, err := net.DialTimeout("tcp", address, dialFor)
		if err != nil {
			return true
		}
		connection.Close()
		if time.Now().After(deadline) {
			return false
		}
	}
}
