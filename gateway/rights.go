package main

// What the gateway may do; config/rbac/gateway is made from it. The table of routes, and who calls the internal listener: nothing that
// writes, no Secret, no ConfigMap, no Pod.
//
// +kubebuilder:rbac:groups=sless.io,resources=functions;triggers,verbs=list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
