// Package acceptance tests the provider with a real terraform or tofu against a real platform: with the build tag acceptance,
//
//	SLESS_TEST_TERRAFORM=$(which terraform) KUBECONFIG=… go test -count=1 -tags acceptance ./terraform-provider-sless/internal/acceptance
//
// KUBECONFIG is that of a cluster with sless on it, as `make up` makes it; kubectl is on the PATH or in .dev/bin. SLESS_ENDPOINT is the
// API's address; without it, that of the local cluster.
package acceptance
