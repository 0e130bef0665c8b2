package ledger

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The limits of a page.
const (
	DefaultLimit = 100
	MostLimit    = 1000
)

// Query asks for the records of one namespace, newest first. A filter that is empty lets everything through.
type Query struct {
	// NamespaceUID is the only filter that must be given.
	NamespaceUID string
	Function     string
	Trigger      string
	Job          string
	Kind         Kind
	// Status is a class (2xx, 3xx, 4xx, 5xx) or a number.
	Status string
	// From and To bound the beginning of a run: From <= started < To.
	From, To time.Time
	// Limit is how many records a page has at most; 0 is DefaultLimit.
	Limit int
	// Continue is what the page before said; the other fields must be as they were.
	Continue string
}

// Page is a part of an answer.
type Page struct {
	Records []Record
	// Continue asks for what follows; empty on the last page.
	Continue string
}

// QueryError says which field of a Query makes no sense.
type QueryError struct {
	// Field is the name in lower case: kind, status, from, to, limit, continue, window.
	Field string
	// Rule is what the field must be.
	Rule string
}

func (e *QueryError) Error() string { return e.Field + " " + e.Rule }

// Validate returns a *QueryError when the query makes no sense.
func (q Query) Validate() error {
	_, _, err := q.sql()
	return err
}

// sql returns the statement and its arguments.
func (q Query) sql() (string, []any, error) {
	limit := q.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	if limit < 1 || limit > MostLimit {
		return "", nil, &QueryError{"limit", fmt.Sprintf("must be from 1 to %d", MostLimit)}
	}
	var where []string
	var args []any
	add := func(condition string, values ...any) {
		for _, value := range values {
			args = append(args, value)
			condition = strings.Replace(condition, "?", "$"+strconv.Itoa(len(args)), 1)
		}
		where = append(where, condition)
	}

	add("namespace_uid = ?::uuid", q.NamespaceUID)
	for _, filter := range []struct{ column, field, value string }{
		{"function = ?", "function", q.Function}, {"trigger = ?", "trigger", q.Trigger}, {"job = ?", "job", q.Job}, {"kind = ?", "kind", string(q.Kind)},
	} {
		if !utf8.ValidString(filter.value) || strings.Contains(filter.value, "\x00") {
			return "", nil, &QueryError{filter.field, "must be text"}
		}
		if filter.value != "" {
			add(filter.column, filter.value)
		}
	}
	switch q.Kind {
	case "", HTTP, Cron, Job, Invoke:
	default:
		return "", nil, &QueryError{"kind", "must be http, cron, job or invoke"}
	}
	if q.Status != "" {
		low, high, err := statuses(q.Status)
		if err != nil {
			return "", nil, err
		}
		add("status between ? and ?", low, high)
	}
	if !q.From.IsZero() && !q.To.IsZero() && !q.From.Before(q.To) {
		return "", nil, &QueryError{"to", "must be later than from"}
	}
	if !q.From.IsZero() {
		add("started >= ?", q.From)
	}
	if !q.To.IsZero() {
		add("started < ?", q.To)
	}
	if q.Continue != "" {
		started, id, err := parseContinue(q.Continue)
		if err != nil {
			return "", nil, err
		}
		// The first condition is what partitions are pruned by.
		add("started <= ?", started)
		add("(started, id) < (?, ?)", started, id)
	}
	// One more than asked for tells whether another page follows.
	return fmt.Sprintf("select %s from sless.invocations where %s order by started desc, id desc limit %d",
		strings.Join(columns, ", "), strings.Join(where, " and "), limit+1), args, nil
}

// statuses returns the first and the last status that a filter lets through.
func statuses(filter string) (low, high int, err error) {
	if class, ok := strings.CutSuffix(filter, "xx"); ok && len(class) == 1 && class >= "1" && class <= "5" {
		low = int(class[0]-'0') * 100
		return low, low + 99, nil
	}
	n, err := strconv.Atoi(filter)
	if err != nil || n < 0 || n > 999 {
		return 0, 0, &QueryError{"status", "must be 2xx, 3xx, 4xx, 5xx or a number up to 999"}
	}
	return n, n, nil
}

// continueAfter returns the token for what follows a record.
func continueAfter(r Record) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(r.Started.UnixMicro(), 10) + "," + r.ID))
}

func parseContinue(token string) (time.Time, string, error) {
	bad := &QueryError{"continue", "must be what an earlier page said"}
	decoded, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(decoded) > 2*mostText || !utf8.Valid(decoded) || strings.Contains(string(decoded), "\x00") {
		return time.Time{}, "", bad
	}
	micros, id, found := strings.Cut(string(decoded), ",")
	started, err := strconv.ParseInt(micros, 10, 64)
	if err != nil || !found || started < 0 || started > farFuture {
		return time.Time{}, "", bad
	}
	return time.UnixMicro(started).UTC(), id, nil
}

// farFuture is the year 9999 in microseconds: PostgreSQL has no use for what is far beyond.
var farFuture = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
