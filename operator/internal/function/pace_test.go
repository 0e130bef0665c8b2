package function

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/naeel/sless/operator/internal/testcluster"
)

// Functions are looked through for turns only when one of them has changed.
func TestTurnsAreGivenOnNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int32
		r := &Reconciler{Config: testConfig(t), Client: fake.NewClientBuilder().WithScheme(testcluster.Scheme()).WithInterceptorFuncs(interceptor.Funcs{
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				looks.Add(1)
				return nil
			},
		}).Build()}
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
		defer queue.ShutDown()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		if err := r.giveTurns(ctx, queue); err != nil {
			t.Fatal(err)
		}
		after := func(what string, want int32) {
			t.Helper()
			time.Sleep(10 * turnEvery)
			synctest.Wait()
			if got := looks.Swap(0); got != want {
				t.Errorf("%s: looked %d times, want %d", what, got, want)
			}
		}
		after("it begins", 2) // to see that all had their first pass, and to give the first turns
		after("nothing moves", 0)
		r.news.came()
		after("a Function has changed", 1)
		r.pace.granted = map[client.ObjectKey]bool{{Name: "hello"}: true}
		after("a turn was not taken yet", 10)
	})
}
