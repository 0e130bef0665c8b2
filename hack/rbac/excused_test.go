package rbac

import "github.com/naeel/sless/api/names"

// needless are grants that the end-to-end tests need not use, and why they stay.
var needless = map[grant]string{
	{"operator", everywhere, "rbac.authorization.k8s.io", "clusterroles", "bind"}:  "no request: the API server looks for it when a RoleBinding is made",
	{"operator", everywhere, "events.k8s.io", "events", "patch"}:                   "an event that comes again within minutes is counted in the one before",
	{"operator", everywhere, "sless.io", "triggers", "get"}:                        "by a pass whose cache is behind what it has written itself, which few are",
	{"operator", names.BuildNamespace, "", "events", "list"}:                       "says why the pod of a build is refused; no test gives sless-build a quota, which every build would meet",
	{"operator", names.SystemNamespace, "coordination.k8s.io", "leases", "create"}: "by the first of all operators of a cluster, which may be older than its audit log",

	{"apiserver", everywhere, "", "namespaces", "list"}:                           "for uploads that nothing names, looked for once in hours",
	{"apiserver", everywhere, "", "secrets", "delete"}:                            whatIsLeft,
	{"apiserver", everywhere, "", "secrets", "patch"}:                             whatIsLeft,
	{"apiserver", names.SystemNamespace, "coordination.k8s.io", "leases", "list"}: whatIsLeft,
	{"apiserver", names.BuildNamespace, "", "pods", "get"}:                        logsAsTheyCome,
	{"apiserver", names.BuildNamespace, "", "pods", "list"}:                       logsAsTheyCome,
	{"apiserver", names.BuildNamespace, "", "pods/log", "get"}:                    logsAsTheyCome,
	{"apiserver", tenants, "", "pods", "get"}:                                     logsAsTheyCome,
}

const (
	whatIsLeft     = "ends what a process began with a Secret before it was cut off; the tests of the apiserver do that"
	logsAsTheyCome = "logs that are followed, and those of builds; the tests of the apiserver read them"
)

// expected says that a refusal is no fault: in a tenant's namespace rights come from RoleBindings, which the API server knows of a moment
// after they are made, and which go before the namespace does. What a role there lacks, the tests of functions and logs show.
func expected(r *request) bool { return place(r.ObjectRef.Namespace) == tenants }
