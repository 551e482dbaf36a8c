#!/usr/bin/env bash
# Packs the package, installs it into a clean folder and tests it there against gateways that run. Needs Node.js 20, and npm's registry.
cd "$(dirname "$0")/../.."
source tests/clients/gateway.sh
root=$PWD
npm() { command npm --silent --no-fund --no-audit "$@"; }

step "the package"
cp -r proto/typescript "$work/package" # building leaves files behind
cd "$work/package"
npm install
npm pack --pack-destination "$work" > /dev/null

step "install and recall"
mkdir "$work/clean"
cd "$work/clean"
echo '{"private": true, "type": "module"}' > package.json
start=$EPOCHREALTIME
npm install "$work"/triskele-*.tgz
installed=$EPOCHREALTIME
cp "$root/tests/clients/recall.ts" .
"$work/package/node_modules/.bin/tsc" --module nodenext --target es2022 --strict --skipLibCheck \
  --typeRoots "$work/package/node_modules/@types" --types node recall.ts
compiled=$EPOCHREALTIME
node recall.js "http://$TRISKELE_ADDRESS"
awk -v a="$start" -v b="$installed" -v c="$compiled" -v d="$EPOCHREALTIME" \
  'BEGIN { printf "npm install took %.1f s, and to the first recall %.1f s, without compiling\n", b-a, d-a-(c-b) }'

step "the steps in docs/clients.md"
git clone --quiet "$root" "$work/clone"
cd "$work/clone"
steps=$(sed -n '/^## TypeScript/,/^## /p' "$root/docs/clients.md" | sed -n '/^```sh/,/^```/p' | grep -v '^```')
(eval "${steps//127.0.0.1:7400/$TRISKELE_ADDRESS}" < /dev/null) | tee "$work/steps"
grep -q "Deploys are frozen" "$work/steps"
cd "$work/clean"

step "tests"
version() { node -p "require('$work/package/package.json').devDependencies['$1']"; }
npm install "ai@$(version ai)" "zod@$(version zod)" "@opentelemetry/api@$(version @opentelemetry/api)"
cp "$work"/package/tests/*.test.mjs "$root"/tests/clients/agent.{ts,test.mjs} .
"$work/package/node_modules/.bin/tsc" --module nodenext --target es2022 --strict --skipLibCheck \
  --typeRoots "$work/package/node_modules/@types" --types node agent.ts
node --test --test-timeout 60000 ./*.test.mjs
