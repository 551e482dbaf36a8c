#!/usr/bin/env bash
# usage: tests/upgrade.sh REVISION
#
# Builds the programs of an older revision in a temporary working tree and lets the upgrade tests start from them.
set -euo pipefail
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
clean() {
  git worktree remove --force "$scratch/source" 2>/dev/null || true
  rm -rf "$scratch"
  git worktree prune
}
trap clean EXIT

if [[ -z $(git ls-tree -r --name-only "$1" | grep '/302_memory\.sql$') ]]; then
  echo "upgrade.sh: databases of $1 cannot be upgraded: they are exported and imported" >&2
  exit 2
fi
git worktree add --quiet --detach "$scratch/source" "$1"
(cd "$scratch/source" && go build -o "$scratch/programs/" ./services/cmd/... ./fuser/cmd/fuserd)
cd tests
go vet -tags upgrade ./e2e
go test -count=1 -v -tags upgrade -timeout 10m -run '^TestUpgradeOn' ./e2e -previous "$scratch/programs"
