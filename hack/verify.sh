#!/usr/bin/env bash
# The part of `make verify` after generating. Its arguments are the folders of the workspace's modules.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '== %s\n' "$*"; }

say format
unformatted=$(git ls-files -z --cached --others --exclude-standard -- '*.go' | xargs -0 gofmt -l)
if [ -n "$unformatted" ]; then
	printf 'not formatted (gofmt -w):\n%s\n' "$unformatted"
	exit 1
fi

# Each module by its own go.mod, as somebody who needs it alone would have it.
for module in "$@" hack/cluster hack/release hack/tools; do
	say "build and vet $module"
	(cd "$module" && GOWORK=off go build -o /dev/null ./... && GOWORK=off go vet ./...)
done

# staticcheck builds in half a minute from the same cache as everything else; a bundle of linters would take longer than the rest of
# this together.
say staticcheck
patterns=("${@/#/./}")
bin/staticcheck "${patterns[@]/%//...}"

say 'nothing has changed'
changes=$(git status --porcelain)
if [ -n "$changes" ]; then
	printf 'changed or untracked files:\n%s\n' "$changes"
	exit 1
fi
