#!/usr/bin/env bash
# Generates the TypeScript client from the contract and has it store and recall through a gateway, as docs/clients.md says.
# Needs npm.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
work=$(mktemp -d)
gateway=
trap 'test -z "$gateway" || kill "$gateway"; rm -rf "$work"' EXIT

proto/buf.sh image "$work/triskele.binpb"

step() { printf '\n== %s\n' "$*"; }

step "a gateway"
go build -o "$work/triskele" ./services/cmd/triskele
"$work/triskele" up --listen 127.0.0.1:0 --admin off --sqlite "$work/memories.db" > "$work/up.log" 2>&1 &
gateway=$!
address() { sed -n 's/.* listens on \([0-9.:]*\);.*/\1/p' "$work/up.log"; }
for _ in {1..600}; do
  test -z "$(address)" || break
  kill -0 "$gateway" || { cat "$work/up.log"; exit 1; }
  sleep 0.1
done
address

step "TypeScript"
mkdir "$work/typescript"
cd "$work/typescript"
cp "$root/tests/clients/recall.ts" "$root/tests/clients/buf.gen.yaml" .
npm init --yes > /dev/null
npm pkg set type=module
npm install --silent --no-fund --no-audit \
  @bufbuild/protobuf@2.17.0 @bufbuild/protoc-gen-es@2.13.0 @connectrpc/connect@2.1.2 @connectrpc/connect-node@2.1.2 typescript@5.9.3 @types/node@20
PATH="$PWD/node_modules/.bin:$PATH" "$root/.cache/tools/buf" generate "$work/triskele.binpb"
npx tsc --module nodenext --target es2022 --strict --skipLibCheck recall.ts
node recall.js "$(address)"
