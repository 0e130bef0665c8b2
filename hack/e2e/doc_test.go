// Package e2e tests sless as its users meet it: on a real cluster, by kubectl and HTTP. `make test` brings the cluster up and sets
// KUBECONFIG. Tests run in namespaces of their own and in parallel; what they leave behind is a failure.
package e2e
