#!/usr/bin/env bash
# Does what README.md says of a cluster of one's own, as a reader would, on a bare one that bin/cluster makes: by kubectl, by Terraform, by Argo CD and, after
# sless was removed again, by Helm, all over HTTPS. It ends the cluster that runs, and leaves that of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
export SLESS_REPO=$root PATH=$root/.dev/bin:$PATH
unset KUBECONFIG
# As make has it: one kind of Go build, one cache.
export CGO_ENABLED=0 GOFLAGS=-trimpath

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# commands PAGE HEADING prints the blocks of commands below a heading.
commands() {
	awk -v heading="## $2" '/^## / { here = $0 == heading } /^```/ { inside = $0 == "```sh"; next } here && inside' "$root/$1"
}

say() {
	printf '\n--- %s\n' "$*"
}

# answers calls the function of README.md.
answers() {
	curl --silent --show-error --fail --cacert "$CA_CERT" "$EXTERNAL_URL/fn/default/greet?name=you" | grep 'Hello, you!'
}

say 'a bare cluster'
make kubernetes
bin/cluster down
bin/cluster start
bin/cluster images

say 'README.md: kubectl'
cp -r bin config "$work"
cd "$work"
awk '/`function.yaml`:$/ { here = 1 } /^```/ { inside = here && $0 == "```yaml"; if (text) exit; next } inside { text = 1; print }' "$root/README.md" >function.yaml
commands README.md 'On your own cluster' >own.sh
set -x
. ./own.sh
answers
{ set +x; } 2>/dev/null

say 'docs/terraform.md: Terraform'
mkdir -p home programs
ln -s "$(command -v terraform || command -v tofu)" programs/terraform
{
	echo 'set -euxo pipefail'
	commands docs/terraform.md 'From an empty folder to a URL' | sed "s|http://127.0.0.1:8081|$API_URL|"
} >terraform.sh
(
	cd "$root"
	GOPATH=$(go env GOPATH) GOCACHE=$(go env GOCACHE)
	export GOPATH GOCACHE HOME=$work/home PATH=$work/programs:$PATH CHECKPOINT_DISABLE=1 CURL_CA_BUNDLE=$CA_CERT
	export TF_CLI_ARGS_apply=-auto-approve TF_CLI_ARGS_destroy=-auto-approve
	bash "$work/terraform.sh" 2>&1 | tee "$work/terraform.log"
)
grep -q 'Hello, you!' terraform.log
grep -q 'Good morning, you!' terraform.log

say 'docs/gitops.md: Argo CD'
(cd "$root" && bin/cluster argocd && go test -c -o "$work/e2e.test" ./hack/e2e)
# The Git server of the tests has a private address.
node=$(kubectl get nodes -o jsonpath='{.items[0].status.addresses[0].address}')
echo "network: {allowedHosts: [\"$node\"]}" >>production/config.yaml
kubectl apply --server-side -k production
kubectl -n sless-system rollout status deployment/operator deployment/gateway deployment/apiserver
(cd "$root/hack/e2e" && SLESS_TEST_OVERLAY=$work/production SLESS_GATEWAY_URL=$EXTERNAL_URL SSL_CERT_FILE=$CA_CERT "$work/e2e.test" -test.v -test.timeout 30m -test.run '^TestArgoCD')

say 'docs/install.md: removing it, then Helm'
kubectl delete functions,triggers,functionjobs --all --all-namespaces
kubectl delete -k production
GOWORK=off go build -C "$root/hack/release" -o "$work/programs/helm" helm.sh/helm/v4/cmd/helm
{
	printf 'images: {operator: "%s", gateway: "%s", apiserver: "%s"}\nconfig:\n' "$OPERATOR_IMAGE" "$GATEWAY_IMAGE" "$APISERVER_IMAGE"
	sed 's/^/  /' production/config.yaml
} >values.yaml
"$work/programs/helm" install sless config/helm/sless -n sless-system --create-namespace --take-ownership -f values.yaml
{
	grep -E ' create secret | rollout restart ' own.sh
	sed -n '/rollout status/,/^curl/p' own.sh
} >helm.sh
set -x
. ./helm.sh
answers
{ set +x; } 2>/dev/null
say 'all of it holds'
