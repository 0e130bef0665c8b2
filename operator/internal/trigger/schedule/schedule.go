// Package schedule computes the ticks of a cron expression in a time zone: pure functions of the expression, the zone and a time.
//
// Which local times an expression names is cron's own rule; this package adds what happens on the two days a year when local time
// is not a line:
//
//   - The clock goes forward: local times in the gap do not exist. An expression that names its hours ticks once at the first moment
//     after the gap in place of all its ticks inside it. One whose hour field begins with * just goes on after the gap.
//   - The clock goes back: local times come twice. An expression whose minute or hour field begins with * goes on through both; one
//     that names both ticks the first time only.
package schedule

import (
	"fmt"
	"sort"
	"strings"
	"time"
	_ "time/tzdata" // images need not have a zone database, and all know the same zones

	"github.com/robfig/cron/v3"
)

// horizon is how far ahead a tick is looked for: the longest real wait is eight years, for a 29 February across the year 2100.
const horizon = 9 * 366 * 24 * time.Hour

// parser knows five fields and the macros, and no seconds. Parse keeps @every and zones inside the expression away from it.
var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// Schedule is a cron expression in a time zone. It is immutable.
type Schedule struct {
	// calendar says which local times the expression names. It is only ever asked in UTC, as a calendar without jumps.
	calendar cron.Schedule
	zone     *time.Location
	// gapCounts says that a tick inside a gap is made up for at the gap's end.
	gapCounts bool
	// once says that a local time that comes twice counts the first time only.
	once bool
}

// Parse reads a cron expression of five fields or a macro, and the name of an IANA zone. Its errors are for the author of a Trigger.
func Parse(expression, zone string) (*Schedule, error) {
	location, err := loadZone(zone)
	if err != nil {
		return nil, err
	}
	expression = strings.TrimSpace(expression)
	if strings.HasPrefix(expression, "@every") || strings.Contains(expression, "=") {
		return nil, fmt.Errorf("schedule %q: @every and zones inside a schedule are not known; use five fields and timeZone", expression)
	}
	calendar, err := parser.Parse(expression)
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w; write five fields: minute (0-59) hour (0-23) day of month (1-31) month (1-12) day of week (0-6, Sunday is 0), for example */5 * * * *", expression, err)
	}
	s := &Schedule{calendar: calendar, zone: location}
	if fields := strings.Fields(expression); len(fields) == 5 {
		s.gapCounts = !isWild(fields[1])
		s.once = s.gapCounts && !isWild(fields[0])
	} else { // a macro; only @hourly has * for the hour
		s.gapCounts = expression != "@hourly"
		s.once = s.gapCounts
	}
	if s.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, fmt.Errorf("schedule %q never comes: no such day exists", expression)
	}
	return s, nil
}

func isWild(field string) bool { return strings.HasPrefix(field, "*") || strings.HasPrefix(field, "?") }

func loadZone(name string) (*time.Location, error) {
	if name == "" {
		name = "UTC"
	}
	location, err := time.LoadLocation(name)
	if err != nil || name == "Local" { // Local would be the operator's own zone
		return nil, fmt.Errorf("time zone %q is not known; use an IANA name such as Europe/Berlin", name)
	}
	return location, nil
}

// Next returns the first tick after t, or zero when there is none.
//
// It goes from one period of constant offset to the next: inside a period local time is UTC moved by the offset, so the calendar
// can be asked without meeting a jump, and what a jump means is decided between two periods.
func (s *Schedule) Next(t time.Time) time.Time {
	period := s.periodAt(t)
	from := period.local(t)
	for limit := t.Add(horizon); period.start.Before(limit); {
		tick := s.calendar.Next(s.skipRepeated(period, from))
		if at := period.instant(tick); !tick.IsZero() && period.has(at) {
			return at
		}
		if period.end.IsZero() {
			return time.Time{}
		}
		next := s.periodAt(period.end)
		if s.gapCounts && s.fallsInto(period.local(period.end), next.local(period.end)) {
			return period.end.UTC()
		}
		period, from = next, next.local(next.start).Add(-time.Second)
	}
	return time.Time{}
}

// fallsInto says whether the calendar names a local time from start up to and without end; never when end is not after start.
func (s *Schedule) fallsInto(start, end time.Time) bool {
	tick := s.calendar.Next(start.Add(-time.Second))
	return !tick.IsZero() && tick.Before(end)
}

// skipRepeated moves from past the local times of the period that the period before has had already.
func (s *Schedule) skipRepeated(p period, from time.Time) time.Time {
	if !s.once || p.start.IsZero() {
		return from
	}
	before := s.periodAt(p.start.Add(-time.Second))
	if repeatedUntil := before.local(p.start).Add(-time.Second); repeatedUntil.After(from) {
		return repeatedUntil
	}
	return from
}

// Last returns the latest tick after from and not after to, or zero when there is none.
func (s *Schedule) Last(from, to time.Time) time.Time {
	from = from.Truncate(time.Second)
	beyond := func(seconds int) bool {
		next := s.Next(from.Add(time.Duration(seconds) * time.Second))
		return next.IsZero() || next.After(to)
	}
	steps := int(to.Sub(from)/time.Second) + 1
	if steps <= 0 || beyond(0) {
		return time.Time{}
	}
	first := sort.Search(steps, beyond) // the first second after which no tick is left
	return s.Next(from.Add(time.Duration(first-1) * time.Second))
}

// Count returns how many ticks are after from and not after to, at most limit.
func (s *Schedule) Count(from, to time.Time, limit int) int {
	count := 0
	for tick := s.Next(from); count < limit && !tick.IsZero() && !tick.After(to); tick = s.Next(tick) {
		count++
	}
	return count
}

// period is a time of constant offset from UTC in a zone. start is inside it, end is not; either is zero when there is no such end.
type period struct {
	start, end time.Time
	offset     time.Duration
}

func (s *Schedule) periodAt(t time.Time) period {
	local := t.In(s.zone)
	start, end := local.ZoneBounds()
	_, seconds := local.Zone()
	return period{start: start, end: end, offset: time.Duration(seconds) * time.Second}
}

// local returns what a clock on the wall shows at t, as a time in UTC.
func (p period) local(t time.Time) time.Time { return t.UTC().Add(p.offset) }

// instant is the inverse of local.
func (p period) instant(local time.Time) time.Time { return local.Add(-p.offset) }

func (p period) has(t time.Time) bool { return p.end.IsZero() || t.Before(p.end) }
