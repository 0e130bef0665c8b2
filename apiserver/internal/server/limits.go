package server

import (
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"
)

// limiter bounds the requests of one caller. It knows the last few thousand callers.
type limiter struct {
	perSecond rate.Limit
	burst     int
	buckets   *cache.LRUExpireCache
}

func newLimiter(perSecond float64, burst int) *limiter {
	return &limiter{rate.Limit(perSecond), burst, cache.NewLRUExpireCache(4096)}
}

// wait takes one request from the caller's bucket. When there is none it says when there will be.
func (l *limiter) wait(caller string) time.Duration {
	bucket, ok := l.buckets.Get(caller)
	if !ok {
		bucket = rate.NewLimiter(l.perSecond, l.burst)
		l.buckets.Add(caller, bucket, time.Hour)
	}
	reservation := bucket.(*rate.Limiter).Reserve()
	delay := reservation.Delay()
	if delay > 0 {
		reservation.Cancel()
	}
	return delay
}
