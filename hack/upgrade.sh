#!/usr/bin/env bash
# Upgrades sless from an earlier version to the commit that is checked out, and goes back, with functions serving all the while. It ends the cluster that
# runs, for one that the earlier version makes.
#
#   hack/upgrade.sh [REVISION]    the earlier version; by itself the newest tag or, before there is one, twenty commits ago
set -euo pipefail
cd "$(dirname "$0")/.."
previous=$(git rev-parse --verify "${1:-$(git describe --tags --abbrev=0 2>/dev/null || echo HEAD~20)}^{commit}")
next=$(git rev-parse HEAD)
unset KUBECONFIG SLESS_REPO
export CGO_ENABLED=0 GOFLAGS=-trimpath

make kubernetes
work=$(mktemp -d)
tree=$work/sless
git clone --quiet . "$tree"
trap 'make -C "$tree" down; rm -rf "$work"' EXIT

bin/cluster down
git -C "$tree" checkout --quiet "$previous"
make -C "$tree" up
go test -c -o "$work/e2e.test" ./hack/e2e
cd hack/e2e
KUBECONFIG=$tree/.dev/kubeconfig PATH=$tree/.dev/bin:$PATH \
	SLESS_TEST_UPGRADE="git -C $tree checkout --quiet $next && make -C $tree install" \
	SLESS_TEST_DOWNGRADE="git -C $tree checkout --quiet $previous && make -C $tree install" \
	"$work/e2e.test" -test.v -test.timeout 30m -test.run '^TestUpgradeAndBack$'
