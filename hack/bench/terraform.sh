#!/usr/bin/env bash
# Measures the provider on the cluster, with terraform when it is here, else OpenTofu.
set -euo pipefail
cd "$(dirname "$0")/../.."
program=$(command -v terraform || true)
if [ -z "$program" ]; then
	bin/cluster tofu
	program=$PWD/.dev/bin/tofu
fi
KUBECONFIG=$(bin/cluster kubeconfig) SLESS_TEST_TERRAFORM=$program \
	exec go test -count=1 -tags acceptance -timeout 40m -run '^$' -bench . -benchtime 5x ./terraform-provider-sless/internal/acceptance
