package main

// What the apiserver may do; config/rbac/apiserver is made from it. It acts for callers after it has asked whether they may. An admission
// policy confines what it writes: of Secrets only those of its own type, of Leases only its notes, of sless's kinds never the status.
//
// +kubebuilder:rbac:groups=sless.io,resources=functions;triggers;functionjobs,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create;patch;delete
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
//
// Notes of Secrets that are being made.
//
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=sless-system,resources=leases,verbs=create;list;delete
//
// Logs: of builds, and of functions by the ClusterRole sless-apiserver-tenant, which the operator binds in the namespaces that it makes.
//
// +kubebuilder:rbac:groups="",namespace=sless-build,resources=pods,verbs=get;list
// +kubebuilder:rbac:groups="",namespace=sless-build,resources=pods/log,verbs=get
