#!/usr/bin/env bash
# usage: tests/flakes.sh COUNT REGEXP PACKAGE... [-- FLAG...]
#
# Runs the tests of each package COUNT times beside a busy loop per core. Flags go to go test. It lists the tests that
# failed, with how often, keeps what they wrote in out/flakes, and fails if any did.
set -euo pipefail
cd "$(dirname "$0")/.."

count=$1 tests=$2
shift 2
packages=()
while (($#)) && [[ $1 != -- ]]; do
  packages+=("$1")
  shift
done
(($# == 0)) || shift

hogs=()
stop() { kill "${hogs[@]}" 2>/dev/null || true; }
trap stop EXIT
for _ in $(seq "$(nproc)"); do
  timeout 24h "$BASH" -c 'while :; do :; done' &
  hogs+=($!)
done

rm -rf out/flakes
mkdir -p out/flakes
failed=0
for package in $(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' "${packages[@]}"); do
  log=out/flakes/${package//\//_}.log
  if go test "$@" -vet=off -timeout 6h -count="$count" -run "$tests" "$package" >"$log" 2>&1; then
    echo "ok      $package"
    rm "$log"
  else
    failed=1
    echo "FAILED  $package: $log"
    grep -oE '^ *--- FAIL: [^ ]+|^panic: .*' "$log" | sort | uniq -c || true # what does not build lists none
  fi
done
exit "$failed"
