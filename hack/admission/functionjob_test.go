package admission

import "strings"

func functionJobCases() []ruleCase {
	const (
		run   = "functionRef: {name: hello}\n"
		label = "metadata.name must be a DNS label"
	)
	return []ruleCase{
		{about: "nothing to run", spec: run},
		{about: "all there is", spec: run + event(98304) + `
runID: 9007199254740991
timeoutSeconds: 86400
backoffLimit: 10
ttlSecondsAfterFinished: 604800`},
		{about: "gone as soon as it ends", spec: run + "runID: 1\nttlSecondsAfterFinished: 0"},
		{about: "a name that begins with a digit", name: "2026-migration", spec: run},
		{about: "a name with a dot", name: "a.b", spec: run, refusal: label},
		{about: "a name of 64 letters", name: strings.Repeat("a", 64), spec: run, refusal: label},
		{about: "a run before the first", spec: run + "runID: -1", refusal: "runID"},
		{about: "a run that JSON can't count", spec: run + "runID: 9007199254740992", refusal: "runID"},
		{about: "a run that is no number", spec: run + "runID: one", refusal: "runID"},
		{about: "an event that is too large", spec: run + event(98305), refusal: "eventJSON"},
		{about: "an event of few characters with too many bytes", spec: run + "eventJSON: '" + strings.Repeat("é", 49153) + "'", refusal: "eventJSON must not be larger than 96 KiB"},
		{about: "no time", spec: run + "timeoutSeconds: 0", refusal: "timeoutSeconds"},
		{about: "too many attempts", spec: run + "backoffLimit: 11", refusal: "backoffLimit"},
		{about: "kept for fewer than no seconds", spec: run + "ttlSecondsAfterFinished: -1", refusal: "ttlSecondsAfterFinished"},
		{about: "no function", spec: "runID: 1", refusal: "functionRef"},
	}
}
