# The only entry points that anybody needs; `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

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
	@cd hack/cluster && GOWORK=off CGO_ENABLED=0 go build -trimpath -o ../../bin/cluster .
