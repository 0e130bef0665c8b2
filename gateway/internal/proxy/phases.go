package proxy

import (
	"strconv"
	"time"

	"github.com/naeel/sless/gateway/internal/tracing"
)

// phases are where a call's time went.
type phases struct {
	// queued is the wait for a free place at one of the pods there are, starting the wait for a pod when there was none.
	queued, starting time.Duration
	// sent is when the last attempt began, upstream how long the pod then took to begin its answer; 0 before that.
	sent     time.Time
	upstream time.Duration
}

// waited notes a wait that ends now.
func (c *call) waited(began time.Time, starting bool) {
	took := time.Since(began)
	c.meter.Waited(took)
	if starting {
		c.phases.starting += took
		c.spans.Waited(tracing.Starting, began)
	} else {
		c.phases.queued += took
		c.spans.Waited(tracing.Queue, began)
	}
}

// serverTiming is the value of a header Server-Timing that is sent now: the phases that there were so far, in milliseconds.
func (c *call) serverTiming() string {
	text := make([]byte, 0, 96)
	add := func(name string, took time.Duration) {
		if took > 0 {
			text = append(append(text, name...), ";dur="...)
			text = append(strconv.AppendFloat(text, float64(took)/float64(time.Millisecond), 'f', 3, 64), ", "...)
		}
	}
	add(tracing.Queue, c.phases.queued)
	add(tracing.Starting, c.phases.starting)
	add(tracing.Upstream, c.phases.upstream)
	add("total", time.Since(c.began))
	return string(text[:len(text)-2])
}
