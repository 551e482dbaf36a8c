#!/usr/bin/env bash
# Starts a real Kubernetes API server on loopback, with the schemas of CloudNativePG and cert-manager, and has it accept the
# overlays without storing them. Nothing is run: there are no nodes. What is built and fetched is kept in .cache.
set -euo pipefail
cd "$(dirname "$0")/../.."
kubernetes=1.36.3 # the server's release; its libraries have the same with 0 for 1
schemas=(github.com/cloudnative-pg/cloudnative-pg@v1.28.0:config/crd/bases github.com/cert-manager/cert-manager@v1.19.1:deploy/crds)
cache=$PWD/.cache/kubernetes
mkdir -p "$cache"
export GOWORK=off GOFLAGS=-mod=mod

# directory prints where a module's files are.
directory() { go mod download -json "$1" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p'; }

# Kubernetes' own libraries have no versions in its go.mod: they lie beside it there.
build() {
  local folder
  folder=$(mktemp -d)
  printf 'module build\ngo 1.26.0\nrequire k8s.io/kubernetes v%s\n' "$kubernetes" > "$folder/go.mod"
  sed -n 's/^\t\(k8s.io\/[a-z-]*\) v0\.0\.0\( .*\)\?$/\1/p' "$(directory "k8s.io/kubernetes@v$kubernetes")/go.mod" | sort -u |
    sed "s|.*|replace & => & v0${kubernetes#1}|" >> "$folder/go.mod"
  (cd "$folder" && go build -trimpath -ldflags="-s -w -X k8s.io/component-base/version.gitVersion=v$kubernetes" -o "$cache/" "$@")
  rm -rf "$folder"
}

[ -x "$cache/kube-apiserver" ] || build k8s.io/kubernetes/cmd/kube-apiserver
PATH=$PATH:$cache
command -v kubectl > /dev/null || build k8s.io/kubernetes/cmd/kubectl
if ! command -v etcd > /dev/null; then # out of Debian's package, without installing it
  (cd "$cache" && apt-get -o APT::Sandbox::User=root download etcd-server && dpkg -x etcd-server_*.deb etcd-server && rm etcd-server_*.deb && cp etcd-server/usr/bin/etcd . && rm -r etcd-server)
fi

run=$(mktemp -d)
started=()
finish() {
  code=$?
  [ $code = 0 ] || tail -n 20 "$run"/*.log >&2
  kill -KILL "${started[@]}" 2> /dev/null || true # there is nothing to put in order
  wait 2> /dev/null || true
  rm -rf "$run"
}
trap finish EXIT

# ports that nobody listens on.
free() { python3 -c 'import socket; s = [socket.socket() for _ in range(3)]; [x.bind(("127.0.0.1", 0)) for x in s]; print(*(x.getsockname()[1] for x in s))'; }
read -r client peer server < <(free)
etcd --data-dir "$run/etcd" --listen-client-urls "http://127.0.0.1:$client" --advertise-client-urls "http://127.0.0.1:$client" \
  --listen-peer-urls "http://127.0.0.1:$peer" > "$run/etcd.log" 2>&1 &
started+=($!)
openssl genrsa -out "$run/accounts.key" 2048 2> /dev/null
echo "token,admin,admin,system:masters" > "$run/tokens.csv"
kube-apiserver --etcd-servers "http://127.0.0.1:$client" --bind-address 127.0.0.1 --secure-port "$server" --cert-dir "$run/certs" \
  --service-cluster-ip-range 10.0.0.0/24 --service-account-key-file "$run/accounts.key" --service-account-signing-key-file "$run/accounts.key" \
  --service-account-issuer https://kubernetes.default.svc --authorization-mode RBAC --token-auth-file "$run/tokens.csv" > "$run/apiserver.log" 2>&1 &
started+=($!)
k() { kubectl --kubeconfig /dev/null --cache-dir "$run/cache" --server "https://127.0.0.1:$server" --insecure-skip-tls-verify --token token "$@"; }
for _ in $(seq 120); do
  k get --raw /readyz > /dev/null 2>&1 && break
  kill -0 "${started[@]}" || exit 1
  sleep 1
done
k version

for schema in "${schemas[@]}"; do
  k create -f "$(directory "${schema%%:*}")/${schema#*:}"
done
k wait --for=condition=Established --timeout=1m crd --all > /dev/null
k create namespace triskele

overlays=deploy/kubernetes/overlays
for overlay in $overlays/dev $overlays/production/database $overlays/production/migrate $overlays/production $overlays/pooled $overlays/citus; do
  echo "== $overlay"
  k apply --dry-run=server --validate=strict -k "$overlay"
done

# A server that accepts everything would have said the same.
echo "== what is wrong is refused"
refused() {
  if kubectl kustomize "$1" | sed "$2" | k apply --dry-run=server --validate=strict -f - > "$run/out" 2>&1; then
    echo "accepted after $2" >&2
    exit 1
  fi
  grep -m 1 -i -E "$3" "$run/out"
}
refused $overlays/production 's/maxReplicas: 8/maxReplicas: 1/' 'maxReplicas'
refused $overlays/production 's/instances: 3/instances: 0/' 'instances'
refused $overlays/pooled 's/poolMode: transaction/poolMode: statement/' 'poolMode'
refused $overlays/citus 's/instances: 2/instances: 0/' 'instances'
refused $overlays/production 's/rotationPolicy: Always/rotationPolicy: Often/' 'rotationPolicy'
refused $overlays/dev 's/clusterIP: None/clusterIp: None/' 'clusterIp'
