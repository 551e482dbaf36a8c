#!/usr/bin/env bash
# Has real MCP clients call the server, over standard input and output and over HTTP: both lines of the SDK for TypeScript, and the Inspector.
# Needs Node.js to begin with, and npm's registry, which has the newer Node.js that the Inspector wants.
cd "$(dirname "$0")/../.."
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

export TRISKELE=${TRISKELE:-$work/triskele}
test -x "$TRISKELE" || go build -o "$TRISKELE" ./services/cmd/triskele
cp tests/clients/mcp.test.mjs "$work"
cd "$work"
echo '{"private": true, "type": "module"}' > package.json
npm install --silent --no-fund --no-audit node@22.23.3 @modelcontextprotocol/{sdk@1.32.2,client@2.3.1,inspector@2.12.0}
node_modules/.bin/node --test --test-timeout 120000 mcp.test.mjs
