package ledger

import (
	"net/netip"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// columns are those of the table, in the order of values and of a row that is read.
var columns = []string{
	"started", "duration_us", "id", "namespace", "namespace_uid", "function", "trigger", "job", "kind", "image", "code_hash", "status", "code",
	"queued_us", "starting_us", "handler_us", "bytes_in", "bytes_out", "pod", "caller", "attempt", "dropped",
}

// values returns what a record has for each column.
func (r *Record) values() []any {
	caller := ""
	if r.Caller.IsValid() {
		caller = r.Caller.String()
	}
	var namespace pgtype.UUID
	_ = namespace.Scan(r.NamespaceUID) // what is none becomes NULL, which the database refuses
	return []any{
		r.Started, r.Duration.Microseconds(), text(r.ID), text(r.Namespace), namespace, text(r.Function), text(r.Trigger), text(r.Job),
		string(r.Kind), text(r.Image), text(r.CodeHash), int32(r.Status), text(r.Code), r.Queued.Microseconds(), r.Starting.Microseconds(),
		r.Handler.Microseconds(), r.BytesIn, r.BytesOut, text(r.Pod), caller, int32(r.Attempt), int32(r.Dropped),
	}
}

// mostText is the most bytes that a text of a record may have.
const mostText = 512

// text makes of s what PostgreSQL takes for a text, and what a row has room for.
func text(s string) string {
	if len(s) > mostText {
		s = s[:mostText]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// scan reads a row of columns.
func scan(row interface{ Scan(...any) error }) (Record, error) {
	var r Record
	var duration, queued, starting, handler int64
	var kind, caller string
	err := row.Scan(&r.Started, &duration, &r.ID, &r.Namespace, &r.NamespaceUID, &r.Function, &r.Trigger, &r.Job, &kind, &r.Image, &r.CodeHash,
		&r.Status, &r.Code, &queued, &starting, &handler, &r.BytesIn, &r.BytesOut, &r.Pod, &caller, &r.Attempt, &r.Dropped)
	if err != nil {
		return r, err
	}
	r.Started, r.Kind = r.Started.UTC(), Kind(kind)
	r.Duration, r.Queued, r.Starting, r.Handler = microseconds(duration), microseconds(queued), microseconds(starting), microseconds(handler)
	r.Caller, _ = netip.ParseAddr(caller) // empty when it is not kept
	return r, nil
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
