package convert

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/naeel/sless/api/v1alpha1"
)

// fields says where the wire has a field of a resource. The longest path that matches counts, and what follows it is kept.
var fields = map[string]string{
	"metadata.name":        "name",
	"metadata.labels":      "labels",
	"metadata.annotations": "restarted_at",

	"spec.runtime":                       "runtime",
	"spec.entrypoint":                    "entrypoint",
	"spec.source":                        "source",
	"spec.source.s3.versionID":           "source.s3.version_id",
	"spec.source.s3.secretName":          "source.s3.secret_name",
	"spec.source.s3.pollIntervalSeconds": "source.s3.poll_interval_sec",
	"spec.source.git.secretName":         "source.git.secret_name",
	"spec.build.secretName":              "build_secret_name",
	"spec.codeHash":                      "code_hash",
	"spec.timeoutSeconds":                "timeout_sec",
	"spec.concurrency":                   "concurrency",
	"spec.replicas":                      "replicas",
	"spec.build.timeoutSeconds":          "build_timeout_sec",
	"spec.resources.limits.memory":       "memory_mb",
	"spec.resources.limits.cpu":          "cpu",
	"spec.resources.requests.memory":     "memory_request_mb",
	"spec.resources.requests.cpu":        "cpu_request",
	"spec.functionRef":                   "function",
	"spec.functionRef.name":              "function",
	"spec.enabled":                       "enabled",
	"spec.type":                          "type",
	"spec.http.methods":                  "methods",
	"spec.http.payload":                  "payload",
	"spec.cron.schedule":                 "schedule",
	"spec.cron.timeZone":                 "time_zone",
	"spec.cron.eventJSON":                "event_json",
	"spec.cron.concurrencyPolicy":        "concurrency_policy",
	"spec.cron.startingDeadlineSeconds":  "starting_deadline_sec",
	"spec.eventJSON":                     "event_json",
	"spec.runID":                         "run_id",
	"spec.backoffLimit":                  "backoff_limit",
	"spec.ttlSecondsAfterFinished":       "ttl_sec_after_finished",
}

// Location returns where a request's body has the field of the resource that an error of the cluster names.
func Location(field string) string {
	for path := field; path != ""; path = parent(path) {
		if wire, ok := fields[path]; ok {
			return "body." + wire + field[len(path):]
		}
	}
	return "body"
}

// parent cuts the last part off a path: a.b[0] → a.b → a.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

var envField = regexp.MustCompile(`^spec\.env\[(\d+)\](?:\.(.*))?$`)

// FunctionLocation is [Location] for fn, whose list of variables the wire has as maps.
func FunctionLocation(fn *v1alpha1.Function) func(field string) string {
	return func(field string) string {
		if field == "spec.env" {
			return "body.env"
		}
		match := envField.FindStringSubmatch(field)
		if match == nil {
			return Location(field)
		}
		index, err := strconv.Atoi(match[1])
		if err != nil || index >= len(fn.Spec.Env) {
			return "body.env"
		}
		env := fn.Spec.Env[index]
		_, isSecret := SecretEnv(fn)[env.Name]
		switch {
		case isSecret:
			return "body.secret_env." + env.Name
		case env.ValueFrom == nil:
			return "body.env." + env.Name
		}
		suffix := map[string]string{
			"valueFrom.secretKeyRef.name": ".secret_name", "valueFrom.configMapKeyRef.name": ".config_map_name",
			"valueFrom.secretKeyRef.key": ".key", "valueFrom.configMapKeyRef.key": ".key",
		}[match[2]]
		return "body.env_from." + env.Name + suffix
	}
}
