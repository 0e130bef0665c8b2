// Package v1alpha1 is the API of sless: Function, Trigger and FunctionJob, their validation rules, and the condition types
// and reasons that their status speaks in.
//
// +kubebuilder:object:generate=true
// +groupName=sless.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of everything in this package.
var GroupVersion = schema.GroupVersion{Group: "sless.io", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Function{}, &FunctionList{}, &Trigger{}, &TriggerList{}, &FunctionJob{}, &FunctionJobList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
