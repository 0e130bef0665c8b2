// Package build turns the source of a function into an image in the registry.
//
// It works outside Reconcile: [Builder.Ensure] starts work or looks it up and never waits, and [Builder.Events] says whose work
// has moved. The registry is the workbench: what is built is found again by its tag, so that a build that is interrupted, or
// whose result was lost, simply runs again and finds what is there already. Of Kubernetes the package knows the Jobs that
// install dependencies or make an image, and nothing else. There are two builders, see [Kind]; they differ in their maker alone.
package build
