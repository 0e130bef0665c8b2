package ledger

import (
	"net/netip"
	"time"
)

// Kind says what made a function run.
type Kind string

const (
	// HTTP is a request from outside.
	HTTP Kind = "http"
	// Cron is a tick of a Trigger's schedule.
	Cron Kind = "cron"
	// Job is a run of a FunctionJob.
	Job Kind = "job"
	// Invoke is a call through the apiserver.
	Invoke Kind = "invoke"
)

// Record says what is known of one run. It never has bodies, headers or query strings. Durations are kept in whole microseconds.
type Record struct {
	// Started is when the request came, or the job's container began.
	Started time.Time
	// Duration is all of it: from the receipt to the end of the answer.
	Duration time.Duration
	// ID is the request's id; of a job the FunctionJob's UID and the run's number.
	ID string

	Namespace string
	// NamespaceUID tells a namespace from one that had the name before it.
	NamespaceUID string
	Function     string
	// Trigger and Job are names, and empty when there was none.
	Trigger, Job string
	Kind         Kind

	// Image is the digest of the image that ran, CodeHash the user's own mark of its source.
	Image, CodeHash string
	// Status is the HTTP status; of a job 200 (succeeded), 500 (failed), 504 (took too long) or 0 (unknown).
	Status int
	// Code is why sless itself refused or ended the run, and empty when the function's own answer was passed on.
	Code string

	// Queued was spent waiting to be admitted, Starting for a pod, Handler in the function.
	Queued, Starting, Handler time.Duration
	// BytesIn and BytesOut are the sizes of the bodies, as far as they were transferred.
	BytesIn, BytesOut int64
	Pod               string
	// Caller is who called, shortened by a CallerPolicy; the zero Addr when that is not kept.
	Caller netip.Addr
	// Attempt is 1, and more when earlier ones came to nothing.
	Attempt int
	// Dropped is how many records the writer lost just before this one.
	Dropped int
}

// CallerPolicy says how much of a caller's address is kept.
type CallerPolicy string

const (
	// CallerFull keeps the whole address.
	CallerFull CallerPolicy = "full"
	// CallerNetwork keeps the first 24 bits of an IPv4 address and 48 of an IPv6 one.
	CallerNetwork CallerPolicy = "network"
	// CallerNone keeps nothing.
	CallerNone CallerPolicy = "none"
)

// Valid tells whether p is one of the policies.
func (p CallerPolicy) Valid() bool {
	return p == CallerFull || p == CallerNetwork || p == CallerNone
}

// Shorten returns what may be kept of an address.
func (p CallerPolicy) Shorten(address netip.Addr) netip.Addr {
	address = address.Unmap().WithZone("")
	switch {
	case p == CallerFull || !address.IsValid():
		return address
	case p != CallerNetwork:
		return netip.Addr{}
	}
	bits := 48
	if address.Is4() {
		bits = 24
	}
	return netip.PrefixFrom(address, bits).Masked().Addr()
}
