// Package tracing gives runs that nobody calls, of schedules and jobs, a trace of their own.
package tracing

import "github.com/naeel/sless/api/names"

// Parent returns the traceparent (W3C Trace Context) with which a run begins the trace of this id, 32 hexadecimal digits. It is the same each time, so that
// all attempts at a run are in one trace. Such runs are few, and what nobody waits for is what one looks up later: the trace is to be recorded.
func Parent(trace string) string {
	return "00-" + trace + "-" + names.Hash(trace)[:16] + "-01"
}
