package forward

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/naeel/sless/hack/cluster/internal/kubectl"
)

const again = 2 * time.Second

// PortForward does what Serve does for a cluster whose Services can't be reached from here: by kubectl port-forward, started
// again whenever it ends.
func PortForward(ctx context.Context, client kubectl.Client, targets []Target) error {
	var all sync.WaitGroup
	for _, target := range targets {
		all.Go(func() {
			for ctx.Err() == nil {
				_, err := client.Run(ctx, "-n", target.Namespace, "port-forward", "service/"+target.Service,
					fmt.Sprintf("%s:%d", target.LocalPort, target.Port))
				log.Printf("%s/%s: port-forward ended: %v", target.Namespace, target.Service, err)
				select {
				case <-ctx.Done():
				case <-time.After(again):
				}
			}
		})
	}
	all.Wait()
	return nil
}
