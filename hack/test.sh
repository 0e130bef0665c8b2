#!/usr/bin/env bash
# Runs the tests step by step and ends with what each runner said. A step that fails keeps no other from running.
#
#   hack/test.sh core    everything but what takes long
#   hack/test.sh all     that too
set -u -o pipefail
cd "$(dirname "$0")/.."

mode=${1:-}
case $mode in
core | all) ;;
*) echo "usage: $0 core|all" >&2; exit 2 ;;
esac

modules=$(sed -n 's|^\t\./||p' go.work)
logs=.dev/log
mkdir -p "$logs"
export KUBEBUILDER_ASSETS=$PWD/.dev/bin
names=() results=() failed=0

# step NAME COMMAND… runs one command, shows its output and keeps it.
step() {
	local name=$1 start=$SECONDS result=passed
	shift
	printf '\n=== %s: %s\n' "$name" "$*"
	if ! "$@" 2>&1 | tee "$logs/test-$name.log"; then
		result=FAILED
		failed=1
	fi
	names+=("$name")
	results+=("$result in $((SECONDS - start)) s")
}

# complaints prints what each failed test of a log of go test said first. A test's lines follow its name with -v, and its verdict without.
complaints() {
	awk '
		$1 == "===" { name = $3; next }
		/^ *--- (PASS|FAIL|SKIP): / { name = $3; if ($2 == "FAIL:") failed[name] = 1; next }
		/^(ok|FAIL|PASS)/ { name = "" }
		/^ +[A-Za-z0-9_]+\.go:[0-9]+: / { said[++n] = name "\t" $0; line = NR }
		/^        [^ ]/ && NR == line + 1 { said[n] = said[n] "\n" $0 }
		END { for (i = 1; i <= n; i++) { split(said[i], s, "\t"); if (failed[s[1]] && count[s[1]]++ < 5) print substr(said[i], 1, 1000) } }
	' "$1"
}

# summary prints the lines in which the runners sum up: go test's, unittest's and node's.
summary() {
	local i
	printf '\n=== summary\n'
	for i in "${!names[@]}"; do
		printf '%s: %s (%s)\n' "${names[i]}" "${results[i]}" "$logs/test-${names[i]}.log"
		grep -E '^(ok|FAIL|--- FAIL|panic:)[[:space:]]|^ *--- FAIL|^Ran [0-9]+ tests|^(OK|FAILED)( |$)|^[ℹ#] (tests|pass|fail) ' "$logs/test-${names[i]}.log"
		complaints "$logs/test-${names[i]}.log"
	done
}

# builds matches the end-to-end tests of what a build makes.
builds='^Test(FilesBelongToRoot|Samples|ChangeOfCode|ChangesThatDoNotBuild|DeletionLeavesNothing|NamespaceDeletion|Archive|BadArchivesHeal|BadInput|OperatorDiesInABuild|InstallStepSeesNoCredential)$'

# fuzz gives every fuzz test of the workspace half a minute.
fuzz() {
	local file target status=0
	while IFS=: read -r file target; do
		go test -run '^$' -fuzz "^$target\$" -fuzztime 30s "./$(dirname "$file")" || status=1
	done < <(git grep -oE '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go' | sed 's/func //')
	return $status
}

# acceptance PROGRAM PATH runs the provider's acceptance tests.
acceptance() {
	step "acceptance-$1" env KUBECONFIG="$(bin/cluster kubeconfig)" SLESS_TEST_TERRAFORM="$2" \
		go test -count=1 -tags acceptance -parallel 3 -timeout 40m ./terraform-provider-sless/internal/acceptance
}

# The pure tests and those on a bare API server need no cluster.
unit=()
for module in $modules; do
	[ "$module" = hack ] || unit+=("./$module/...")
done
step unit go test -p 2 -timeout 30m "${unit[@]}"
step tools env -C hack/cluster GOWORK=off go test -p 2 -timeout 10m ./...
# The provider is tested by the program that runs it: terraform when it is here, else (and in test-all too) OpenTofu.
terraform=$(command -v terraform)
if [ "$mode" = all ] || [ -z "$terraform" ]; then
	step tofu bin/cluster tofu
fi
step release env -C hack/release GOWORK=off SLESS_TEST_TERRAFORM="${terraform:-$PWD/.dev/bin/tofu}" go test -count=1 -p 2 -timeout 10m ./...
step runtimes make -C runtimes test
# go test can't see that these depend on files outside of their module, so it must not remember their results.
step dashboard go test -count=1 ./gateway/internal/metrics
step contract go test -count=1 -timeout 30m ./hack/contract/...
step admission go test -count=1 -timeout 10m ./hack/admission/...
step repository go test -count=1 -timeout 10m ./hack/repotest/... ./hack/gitops/...

since=$(date -u +%FT%TZ)
step cluster bin/cluster up
if [ "${results[-1]#passed}" != "${results[-1]}" ]; then
	step e2e env KUBECONFIG="$(bin/cluster kubeconfig)" go test -v -count=1 -parallel 6 -timeout 60m ./hack/e2e/... -skip '^TestArgoCD'
	step argocd bin/cluster argocd
	step gitops env KUBECONFIG="$(bin/cluster kubeconfig)" go test -v -count=1 -timeout 30m ./hack/e2e -run '^TestArgoCD'
	# What a build gives must not depend on the builder.
	if [ "$mode" = all ]; then
		step e2e-kaniko env KUBECONFIG="$(bin/cluster kubeconfig)" SLESS_TEST_BUILDER=kaniko \
			go test -v -count=1 -parallel 4 -timeout 60m ./hack/e2e -run "$builds"
	fi
	if [ -n "$terraform" ]; then
		acceptance terraform "$terraform"
	fi
	if [ "$mode" = all ] || [ -z "$terraform" ]; then
		acceptance tofu "$PWD/.dev/bin/tofu"
	fi
	# What all of these had the programs do, compared with their roles. Only the local cluster writes it down.
	[ -n "${SLESS_KUBECONFIG:-}" ] || step rights env SLESS_TEST_SINCE="$since" go test -v -count=1 ./hack/rbac
fi

if [ "$mode" = all ]; then
	step fuzz fuzz
	# Each of these ends the cluster, for one of its own.
	step production hack/production.sh
	step upgrade hack/upgrade.sh
fi

summary
exit "$failed"
