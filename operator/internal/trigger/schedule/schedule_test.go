package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func mustParse(t *testing.T, expression, zone string) *Schedule {
	t.Helper()
	s, err := Parse(expression, zone)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// ticks lists the ticks after from and not after to as local times with their offset.
func ticks(t *testing.T, s *Schedule, from, to string) []string {
	t.Helper()
	var list []string
	end := at(t, to)
	for tick := s.Next(at(t, from)); !tick.IsZero() && !tick.After(end); tick = s.Next(tick) {
		list = append(list, tick.In(s.zone).Format("01-02 15:04 -07:00"))
	}
	return list
}

func TestNext(t *testing.T) {
	for _, test := range []struct {
		name, expression, zone string
		from, to               string
		want                   []string
	}{
		{"five fields start with the minute", "0 1 * * *", "UTC", "2026-03-01T00:00:00Z", "2026-03-02T12:00:00Z",
			[]string{"03-01 01:00 +00:00", "03-02 01:00 +00:00"}},
		{"a tick is after, never at, the time given", "30 * * * *", "UTC", "2026-03-01T00:30:00Z", "2026-03-01T01:30:00Z",
			[]string{"03-01 01:30 +00:00"}},
		{"zones move the hour", "0 1 * * *", "Asia/Kathmandu", "2026-03-01T00:00:00Z", "2026-03-01T23:00:00Z",
			[]string{"03-02 01:00 +05:45"}},
		{"either day field when both are given", "0 0 13 * FRI", "UTC", "2026-02-01T00:00:00Z", "2026-02-14T00:00:00Z",
			[]string{"02-06 00:00 +00:00", "02-13 00:00 +00:00"}},
		{"a macro", "@weekly", "UTC", "2026-02-01T00:00:00Z", "2026-02-08T00:00:00Z", []string{"02-08 00:00 +00:00"}},

		{"gap: a named time moves to the first moment after", "30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z",
			[]string{"03-29 03:00 +02:00", "03-30 02:30 +02:00"}},
		{"gap: many named times become one", "*/10 2 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T12:00:00Z",
			[]string{"03-29 03:00 +02:00"}},
		{"gap: coinciding with a tick of its own", "0 2,3 * * *", "America/New_York", "2026-03-08T00:00:00Z", "2026-03-08T22:00:00Z",
			[]string{"03-08 03:00 -04:00"}},
		{"gap: every hour just goes on", "30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T02:00:00Z",
			[]string{"03-29 01:30 +01:00", "03-29 03:30 +02:00"}},
		{"gap: every second hour just goes on", "0 */2 * * *", "Europe/Berlin", "2026-03-28T22:59:00Z", "2026-03-29T04:00:00Z",
			[]string{"03-29 00:00 +01:00", "03-29 04:00 +02:00", "03-29 06:00 +02:00"}},
		{"gap: half an hour", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", "2026-10-05T00:00:00Z",
			[]string{"10-04 02:30 +11:00", "10-05 02:15 +11:00"}},
		{"gap: after half an hour nothing is missing", "45 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", "2026-10-04T12:00:00Z",
			[]string{"10-04 02:45 +11:00"}},
		{"gap: at midnight", "@daily", "Africa/Cairo", "2026-04-23T00:00:00Z", "2026-04-25T00:00:00Z",
			[]string{"04-24 01:00 +03:00", "04-25 00:00 +03:00"}},
		{"gap: in the south", "5 2 * * *", "Pacific/Auckland", "2026-09-26T00:00:00Z", "2026-09-27T12:00:00Z",
			[]string{"09-27 03:00 +13:00"}},

		{"twice: a named time the first time only", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z",
			[]string{"10-25 02:30 +02:00", "10-26 02:30 +01:00"}},
		{"twice: the first moment of the second hour", "0 1,2 * * *", "America/New_York", "2026-11-01T00:00:00Z", "2026-11-01T12:00:00Z",
			[]string{"11-01 01:00 -04:00", "11-01 02:00 -05:00"}},
		{"twice: every hour goes on through both", "30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T03:00:00Z",
			[]string{"10-25 02:30 +02:00", "10-25 02:30 +01:00", "10-25 03:30 +01:00"}},
		{"twice: so does @hourly", "@hourly", "Europe/Berlin", "2026-10-24T23:00:00Z", "2026-10-25T02:00:00Z",
			[]string{"10-25 02:00 +02:00", "10-25 02:00 +01:00", "10-25 03:00 +01:00"}},
		{"twice: every half hour of a named hour goes on through both", "*/30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z",
			[]string{"10-25 02:00 +02:00", "10-25 02:30 +02:00", "10-25 02:00 +01:00", "10-25 02:30 +01:00"}},
		{"twice: half an hour", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", "2026-04-05T12:00:00Z",
			[]string{"04-05 01:45 +11:00"}},
		{"twice: half an hour, before it", "15 1 * * *", "Australia/Lord_Howe", "2026-04-04T14:00:00Z", "2026-04-05T12:00:00Z",
			[]string{"04-05 01:15 +11:00"}},
		{"twice: midnight", "@daily", "Africa/Cairo", "2026-10-29T00:00:00Z", "2026-10-30T23:00:00Z",
			[]string{"10-30 00:00 +02:00", "10-31 00:00 +02:00"}},
		{"twice: an hour before midnight", "15 23 * * *", "Africa/Cairo", "2026-10-29T00:00:00Z", "2026-10-30T20:00:00Z",
			[]string{"10-29 23:15 +03:00"}},
		{"a zone that never jumps", "30 2 * * *", "Asia/Kolkata", "2026-03-28T21:00:00Z", "2026-03-30T00:00:00Z",
			[]string{"03-30 02:30 +05:30"}},
		{"a whole day that does not exist", "0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", "2011-12-31T12:00:00Z",
			[]string{"12-29 12:00 -10:00", "12-31 00:00 +14:00", "12-31 12:00 +14:00"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ticks(t, mustParse(t, test.expression, test.zone), test.from, test.to)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s in %s (-want +got):\n%s", test.expression, test.zone, diff)
			}
		})
	}
}

// TestNextIsTheRule compares Next, Last and Count with the rule spelled out minute by minute over the days around every jump.
func TestNextIsTheRule(t *testing.T) {
	windows := map[string][]string{
		"Europe/Berlin":       {"2026-03-28T20:00:00Z", "2026-10-24T20:00:00Z"},
		"America/New_York":    {"2026-03-08T00:00:00Z", "2026-11-01T00:00:00Z"},
		"Australia/Lord_Howe": {"2026-04-04T10:00:00Z", "2026-10-03T10:00:00Z"},
		"America/St_Johns":    {"2026-03-08T00:00:00Z", "2026-11-01T00:00:00Z"},
		"Africa/Cairo":        {"2026-04-23T16:00:00Z", "2026-10-29T16:00:00Z"},
		"Africa/Casablanca":   {"2026-02-14T20:00:00Z", "2026-03-21T20:00:00Z"},
		"Asia/Kathmandu":      {"2026-03-28T20:00:00Z"},
	}
	expressions := []string{"* * * * *", "*/7 * * * *", "30 * * * *", "0 */2 * * *", "0 2 * * *", "30 1 * * *", "15,45 0-3 * * *",
		"*/20 2 * * *", "*/25 23,0,1 * * *", "0 0 * * *", "59 23 * * *", "5 2 29 3 *", "0 1 * * SUN"}
	for zone, starts := range windows {
		for _, expression := range expressions {
			for _, start := range starts {
				s := mustParse(t, expression, zone)
				from := at(t, start)
				to := from.Add(16 * time.Hour)
				want := spelledOut(t, expression, s.zone, from, to)
				var got []time.Time
				for tick := s.Next(from); !tick.IsZero() && !tick.After(to); tick = s.Next(tick) {
					got = append(got, tick)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s in %s from %s (-want +got):\n%s", expression, zone, start, diff)
				}
				var last time.Time
				if len(want) > 0 {
					last = want[len(want)-1]
				}
				if got := s.Last(from, to); !got.Equal(last) {
					t.Errorf("%s in %s: last tick up to %s is %s, want %s", expression, zone, to, got, last)
				}
				if got := s.Count(from, to, 10000); got != len(want) {
					t.Errorf("%s in %s: %d ticks up to %s, want %d", expression, zone, got, to, len(want))
				}
			}
		}
	}
}

// spelledOut goes through every minute after from up to to and applies the rule of the package comment word by word.
func spelledOut(t *testing.T, expression string, zone *time.Location, from, to time.Time) []time.Time {
	t.Helper()
	fields := strings.Fields(expression)
	matches := func(wall time.Time) bool {
		// One minute of a calendar without jumps: is it the tick that comes after the second before it?
		calendar, err := parser.Parse(expression)
		if err != nil {
			t.Fatal(err)
		}
		return calendar.Next(wall.Add(-time.Second)).Equal(wall)
	}
	wall := func(instant time.Time) time.Time {
		local := instant.In(zone)
		return time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), 0, 0, time.UTC)
	}
	wildHour := fields[1][0] == '*'
	wildMinute := fields[0][0] == '*'
	var list []time.Time
	for instant := from.Add(time.Minute); !instant.After(to); instant = instant.Add(time.Minute) {
		ticks := matches(wall(instant))
		for back := time.Minute; ticks && !wildHour && !wildMinute && back <= 3*time.Hour; back += time.Minute {
			ticks = !wall(instant.Add(-back)).Equal(wall(instant)) // it has been
		}
		expected := wall(instant.Add(-time.Minute)).Add(time.Minute)
		for missing := expected; !ticks && !wildHour && missing.Before(wall(instant)); missing = missing.Add(time.Minute) {
			ticks = matches(missing)
		}
		if ticks {
			list = append(list, instant)
		}
	}
	return list
}

func TestParseRefuses(t *testing.T) {
	for _, test := range []struct{ expression, zone, want string }{
		{"0 0 1 * * *", "UTC", "five fields"},
		{"* * * *", "UTC", "five fields"},
		{"*/0 * * * *", "UTC", "five fields"},
		{"0 0 32 * *", "UTC", "five fields"},
		{"60 * * * *", "UTC", "five fields"},
		{"0 0 * * 7", "UTC", "Sunday is 0"},
		{"5-1 * * * *", "UTC", "five fields"},
		{"0 0 30 2 *", "UTC", "never comes"},
		{"@every 5m", "UTC", "@every"},
		{"@reboot", "UTC", "@reboot"},
		{"TZ=Asia/Tokyo 0 0 * * *", "UTC", "timeZone"},
		{"0 0 * * *", "Europe/Atlantis", "Europe/Berlin"},
		{"0 0 * * *", "Local", "IANA"},
		{"", "UTC", "five fields"},
	} {
		_, err := Parse(test.expression, test.zone)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Parse(%q, %q) = %v, want an error with %q", test.expression, test.zone, err, test.want)
		}
	}
}

func TestLastOfALongTime(t *testing.T) {
	s := mustParse(t, "* * * * *", "Europe/Berlin")
	from, to := at(t, "2020-01-01T00:00:00Z"), at(t, "2026-05-05T05:05:30Z")
	if got, want := s.Last(from, to), at(t, "2026-05-05T05:05:00Z"); !got.Equal(want) {
		t.Errorf("last is %s, want %s", got, want)
	}
	if got := s.Count(from, to, 1000); got != 1000 {
		t.Errorf("counted %d, want the limit", got)
	}
	if got := s.Last(to, from); !got.IsZero() {
		t.Errorf("a tick %s in a time that ends before it begins", got)
	}
}

// FuzzParse: whatever is accepted has a next tick, on a whole minute, after the time given, and the same again from a second before.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"* * * * *", "@daily", "0 0 29 2 *", "5/15 1-4,7 * JAN-MAR ?", ",", "*-5 * * * *"} {
		f.Add(seed, "Australia/Lord_Howe", int64(1775000000))
	}
	f.Fuzz(func(t *testing.T, expression, zone string, unix int64) {
		s, err := Parse(expression, zone)
		if err != nil {
			return
		}
		from := time.Unix(unix%4e9, 0)
		next := s.Next(from)
		if next.IsZero() {
			return // beyond the horizon
		}
		if !next.After(from) || next.Second() != 0 && from.Year() > 1972 {
			t.Errorf("next of %q after %s is %s", expression, from, next)
		}
		if again := s.Next(next.Add(-time.Second)); !again.Equal(next) {
			t.Errorf("next of %q a second before %s is %s", expression, next, again)
		}
		if fmt.Sprint(s.Last(from, next)) != fmt.Sprint(next) {
			t.Errorf("last of %q up to %s is %s", expression, next, s.Last(from, next))
		}
	})
}
