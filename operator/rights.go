package main

// What the operator may do beside what its controllers say of themselves; config/rbac/operator is made from all of it. Its rights in
// the namespaces that it makes are the ClusterRole sless-operator-tenant.
//
// In a namespace that it has just made it binds itself that role, and the apiserver the one with which it reads logs. Of these rights the admission policy sless-operator-confined lets it
// use only what concerns its own namespaces.
//
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=sless-operator-tenant;sless-apiserver-tenant,verbs=bind
//
// What bounds a user's namespace bounds its functions too.
//
// +kubebuilder:rbac:groups="",resources=resourcequotas;limitranges,verbs=list;watch
//
// Build Jobs.
//
// +kubebuilder:rbac:groups=batch,namespace=sless-build,resources=jobs,verbs=get;list;create;patch;delete
// +kubebuilder:rbac:groups="",namespace=sless-build,resources=configmaps,verbs=create;patch;delete
// +kubebuilder:rbac:groups="",namespace=sless-build,resources=secrets,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups="",namespace=sless-build,resources=pods;events,verbs=list
// +kubebuilder:rbac:groups="",namespace=sless-build,resources=pods/log,verbs=get
//
// Being the one that works.
//
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=sless-system,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:groups="",namespace=sless-system,resources=events,verbs=create
