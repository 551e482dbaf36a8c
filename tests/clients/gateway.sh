# Sourced by the tests of clients, in the repository's root. It builds the program unless $TRISKELE names one, and runs two gateways on loopback
# until the script ends: one that lets everybody in, at $TRISKELE_ADDRESS, and one with TLS and tokens. The folder $TRISKELE_SECURE has what callers
# of that one need. $work is a temporary folder.
set -euo pipefail
gateways=()
work=$(mktemp -d)
# Kills what it started, by process id.
cleanup() { for pid in "${gateways[@]}"; do kill "$pid" && wait "$pid" || true; done; rm -rf "$work"; }
trap cleanup EXIT

step() { printf '\n== %s (%(%H:%M:%S)T)\n' "$*" -1; }

# start NAME FLAG... runs a gateway and sets $address.
start() {
  local name=$1
  shift
  : > "$work/$name.log" # it is read before the program has run
  "$triskele" up --listen 127.0.0.1:0 --admin off --sqlite "$work/$name.db" "$@" >> "$work/$name.log" 2>&1 < /dev/null &
  gateways+=($!)
  for _ in {1..600}; do
    address=$(sed -n 's/.* listens on \([0-9.:]*\);.*/\1/p' "$work/$name.log")
    test -z "$address" || return 0
    kill -0 "${gateways[-1]}" || { cat "$work/$name.log"; exit 1; }
    sleep 0.1
  done
  echo "the gateway does not start" >&2
  exit 1
}

step "gateways"
triskele=${TRISKELE:-$work/triskele}
test -x "$triskele" || go build -o "$triskele" ./services/cmd/triskele
start plain
export TRISKELE_ADDRESS=$address
export TRISKELE_SECURE=$work
# Certificates are made as the documentation says, since clients accept fewer kinds of keys than openssl makes.
(cd "$work" && eval "$(sed -n '/^openssl req/,/[^\\]$/p' "$OLDPWD/docs/access.md")" 2> /dev/null)
"$triskele" token create agent --namespace 'acme/*' --scope recall,read,write --tokens "$work/tokens.json" > "$work/token"
start secure --tls-cert "$work/gateway.pem" --tls-key "$work/gateway.key" --tokens "$work/tokens.json"
echo "$address" > "$work/address"
