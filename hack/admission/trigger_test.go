package admission

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
)

const onHTTP = `
functionRef: {name: hello}
type: http
`

// event is a spec's line with an event of that many bytes.
func event(bytes int) string { return "eventJSON: '" + strings.Repeat("1", bytes) + "'" }

func triggerCases() []ruleCase {
	const (
		label = "metadata.name must be a DNS label"
		block = "exactly the block that type names may be set"
	)
	all := []ruleCase{
		{about: "http", spec: onHTTP},
		{about: "http with a block", spec: onHTTP + "enabled: false\nhttp: {methods: [GET, POST], payload: body}"},
		{about: "a name that begins with a digit", name: "5-minutes", spec: onHTTP},
		{about: "a name with a dot", name: "a.b", spec: onHTTP, refusal: label},
		{about: "a name of 64 letters", name: strings.Repeat("a", 64), spec: onHTTP, refusal: label},
		{about: "cron without its block", spec: "functionRef: {name: hello}\ntype: cron", refusal: block},
		{about: "http with a schedule", spec: onHTTP + "cron: {schedule: '* * * * *'}", refusal: block},
		{about: "cron with both blocks", spec: "functionRef: {name: hello}\ntype: cron\nhttp: {}\ncron: {schedule: '* * * * *'}", refusal: block},
		{about: "another type", spec: "functionRef: {name: hello}\ntype: kafka", refusal: "spec.type"},
		{about: "a function that can't be", spec: "functionRef: {name: My_Function}\ntype: http", refusal: "functionRef.name"},
		{about: "no function", spec: "type: http", refusal: "functionRef"},
		{about: "a method that is none", spec: onHTTP + "http: {methods: [FETCH]}", refusal: "http.methods[0]"},
		{about: "one method twice", spec: onHTTP + "http: {methods: [GET, GET]}", refusal: "Duplicate value"},
	}
	return append(all, cronCases()...)
}

func cronCases() []ruleCase {
	const (
		fields  = "schedule must have five fields"
		minute  = "the minute (first field) must be"
		hour    = "the hour (second field) must be"
		day     = "the day of month (third field) must be"
		month   = "the month (fourth field) must be"
		weekday = "the day of week (fifth field) must be"
	)
	cron := func(schedule, more string) string {
		return "functionRef: {name: hello}\ntype: cron\ncron: {schedule: '" + schedule + "'" + more + "}"
	}
	var cases []ruleCase
	for schedule, refusal := range map[string]string{
		"* * * * *": "", "*/5 0-6,22 1,15 JAN-MAR MON-FRI": "", "  0   1 * * *  ": "", "0 0 ? * 6": "", "0-30/5 * * * sun,Sat": "", "00 09 31 12 *": "",
		"@hourly": "", "@daily": "", "@midnight": "", "@weekly": "", "@monthly": "", "@yearly": "", "@annually": "",
		"0 0 1 * * *": fields, "* * * *": fields, "@every 5m": fields, "@reboot": fields, "TZ=UTC 0 1 * * *": fields, "noon": fields,
		"60 * * * *": minute, "*/0 * * * *": minute, "CRON_TZ=UTC * * * *": minute, "1,,2 * * * *": minute, "-5 * * * *": minute,
		"0 24 * * *": hour, "0 1-5/00 * * *": hour,
		"0 0 32 * *": day, "0 0 0 * *": day, "0 0 L * *": day,
		"0 0 * 13 *": month, "0 0 * 0 *": month, "0 0 * JUNE *": month,
		"0 0 * * 7": weekday, "0 0 * * */0": weekday, "0 0 * * MON#1": weekday,
	} {
		cases = append(cases, ruleCase{about: "schedule " + schedule, spec: cron(schedule, ""), refusal: refusal})
	}
	return append(cases,
		ruleCase{about: "all of cron", spec: cron("@daily", ", timeZone: America/Argentina/Buenos_Aires, concurrencyPolicy: Replace, startingDeadlineSeconds: 86400, "+event(98304))},
		ruleCase{about: "a zone with an offset in its name", spec: cron("@daily", ", timeZone: Etc/GMT+5")},
		ruleCase{about: "a zone that can't be", spec: cron("@daily", ", timeZone: ../../etc/passwd"), refusal: "timeZone"},
		ruleCase{about: "the zone of whatever machine it is", spec: cron("@daily", ", timeZone: Local"), refusal: "timeZone must be an IANA name"},
		ruleCase{about: "another policy", spec: cron("@daily", ", concurrencyPolicy: Queue"), refusal: "concurrencyPolicy"},
		ruleCase{about: "no deadline", spec: cron("@daily", ", startingDeadlineSeconds: 0"), refusal: "startingDeadlineSeconds"},
		ruleCase{about: "an event of few characters with too many bytes", spec: cron("@daily", ", eventJSON: '"+strings.Repeat("é", 49153)+"'"), refusal: "eventJSON must not be larger than 96 KiB"},
		ruleCase{about: "an event that is too large", spec: cron("@daily", ", "+event(98305)), refusal: "eventJSON"},
		ruleCase{about: "a schedule of nothing", spec: cron("", ""), refusal: "schedule"},
	)
}

// testTypeStays changes what may be changed of a Trigger, and what may not.
func testTypeStays(t *testing.T) {
	trigger := &v1alpha1.Trigger{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace(t, "rules-"), Name: "t"},
		Spec:       v1alpha1.TriggerSpec{FunctionRef: v1alpha1.FunctionRef{Name: "hello"}, Type: v1alpha1.TriggerHTTP},
	}
	if err := server.client.Create(t.Context(), trigger); err != nil {
		t.Fatal(err)
	}
	trigger.Spec.Enabled = new(false)
	trigger.Spec.FunctionRef.Name = "other"
	check(t, server.client.Update(t.Context(), trigger), "")
	trigger.Spec.Type, trigger.Spec.HTTP = v1alpha1.TriggerCron, nil
	trigger.Spec.Cron = &v1alpha1.CronTrigger{Schedule: "@daily"}
	check(t, server.client.Update(t.Context(), trigger), "type can't be changed; delete the Trigger and make another")
}
