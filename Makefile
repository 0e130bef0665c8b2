# The only entry points that anybody needs; `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

# One kind of Go build everywhere, so that one cache serves all of them.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath

# The modules of the workspace.
MODULES = $(shell sed -n 's|^\t\./||p' go.work)

# The local cluster. SLESS_KUBECONFIG names another one to use instead.

.PHONY: up down status images install
up: bin/cluster ## a local cluster with sless and sample functions on it
	@bin/cluster up

down: bin/cluster ## end the local cluster and remove its data
	@bin/cluster down

status: bin/cluster ## what runs and where
	@bin/cluster status

images: bin/cluster ## build and push the images whose sources changed
	@bin/cluster images

install: bin/cluster images ## bring those images and config/ into the cluster
	@bin/cluster install

bin/cluster: $(shell find hack/cluster -path hack/cluster/kube -prune -o -type f ! -name '*_test.go' -print)
	@echo 'building bin/cluster'
	@cd hack/cluster && GOWORK=off CGO_ENABLED=0 go build -trimpath -buildvcs=false -o ../../bin/cluster .

# Where the images of a release are going to be.
SLESS_RELEASE_REGISTRY ?= registry.example.org/sless
.PHONY: release
release: images ## what a release ships, in dist: images, manifests, chart, provider, SBOMs, checksums
	@rm -rf dist && bin/cluster export
	cd hack/release && GOWORK=off go run . dist $(CURDIR) $(SLESS_RELEASE_REGISTRY) $(CURDIR)/dist

# Tests. hack/test.sh runs them step by step; docs/development.md says how to run one by itself.

.PHONY: test test-all bench
test: kubernetes ## test everything, unit to end-to-end; brings the cluster up
	@hack/test.sh core

test-all: kubernetes ## the same, and what takes long: the other builder, OpenTofu, fuzzing, clusters of one's own
	@hack/test.sh all

bench: kubernetes ## measure what must stay fast; brings the cluster up
	go test -run '^$$' -bench . -benchmem $(patsubst %,./%/...,$(filter-out hack,$(MODULES)))
	go run ./hack/bench/gateway
	go run ./hack/bench/scale
	@bin/cluster up
	KUBECONFIG=$$(bin/cluster kubeconfig) go run ./hack/bench/builds
	@hack/bench/terraform.sh

.PHONY: kubernetes
kubernetes: bin/cluster ## kube-apiserver, etcd, kubectl, a registry, an object store (in .dev/bin) and PostgreSQL, for tests
	@bin/cluster bin

# What is generated, and what every change must keep.

.PHONY: generate verify
OUT ?= .
generate: bin/controller-gen ## make the CRDs, roles, deep copies, the provider's pages, the page of the configuration and the Helm chart anew
	@mkdir -p $(OUT)/docs $(OUT)/terraform-provider-sless/docs $(OUT)/api/v1alpha1 $(OUT)/config/crd $(OUT)/config/rbac/operator $(OUT)/config/rbac/gateway $(OUT)/config/rbac/apiserver
	bin/controller-gen object crd paths=./api/v1alpha1/... output:object:dir=$(OUT)/api/v1alpha1 output:crd:dir=$(OUT)/config/crd
	bin/controller-gen rbac:roleName=sless-operator paths=./operator/... output:rbac:dir=$(OUT)/config/rbac/operator
	bin/controller-gen rbac:roleName=sless-gateway paths=./gateway/... output:rbac:dir=$(OUT)/config/rbac/gateway
	bin/controller-gen rbac:roleName=sless-apiserver paths=./apiserver/... output:rbac:dir=$(OUT)/config/rbac/apiserver
	cd terraform-provider-sless && go run ./internal/docs -out $(abspath $(OUT))/terraform-provider-sless/docs
	cd hack/tools && GOWORK=off go run ./configdoc $(CURDIR) $(abspath $(OUT))/docs/configuration.md
	cd hack/release && GOWORK=off go run . chart $(CURDIR) $(abspath $(OUT))/config/helm/sless

verify: generate bin/staticcheck ## generate, format, vet, lint, build each module alone; fails when that changes a file
	@hack/verify.sh $(MODULES)

bin/controller-gen: hack/tools/go.mod hack/tools/go.sum
	@cd hack/tools && GOWORK=off go build -o ../../$@ sigs.k8s.io/controller-tools/cmd/controller-gen

bin/staticcheck: hack/tools/go.mod hack/tools/go.sum
	@cd hack/tools && GOWORK=off go build -o ../../$@ honnef.co/go/tools/cmd/staticcheck
