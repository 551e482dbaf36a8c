#!/usr/bin/env bash
# Gets promtool, a collector and a Jaeger, loads what deploy/telemetry has into the first two, and has `triskele budget` read the
# third. They are kept in .cache.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=$PWD/.cache/telemetry
mkdir -p "$cache"

# promtool is the machine's, or comes out of Debian's package without installing that.
promtool=$(command -v promtool || true)
if [ -z "$promtool" ]; then
  promtool=$cache/prometheus/usr/bin/promtool
  if [ ! -x "$promtool" ]; then
    (cd "$cache" && apt-get -o APT::Sandbox::User=root download prometheus && dpkg -x prometheus_*.deb prometheus && rm prometheus_*.deb)
  fi
fi

collector=$cache/otelcol
if [ ! -x "$collector" ] || [ deploy/telemetry/builder.yaml -nt "$collector" ]; then
  version=$(sed -n 's/.*otlpreceiver v/v/p' deploy/telemetry/builder.yaml)
  build=$(mktemp -d)
  trap 'rm -rf "$build"' EXIT
  export GOWORK=off GOFLAGS=-mod=mod
  GOBIN=$build go install "go.opentelemetry.io/collector/cmd/builder@$version"
  cp deploy/telemetry/builder.yaml "$build/"
  # The builder would tidy its module, and a module proxy may refuse dependencies of the components' tests. So the builder writes
  # the sources only, and the module requires the versions that they name.
  (
    cd "$build"
    ./builder --skip-compilation --skip-get-modules --config=builder.yaml
    cd otelcol
    go mod init otelcol
    grep -oh '[^"]* v[0-9][0-9.]*' main.go components.go | sort -u | sed 's/.*/-require=&/; s/ /@/' | xargs go mod edit \
      "-require=go.opentelemetry.io/collector/otelcol@$version"
    go build -trimpath -ldflags=-s -o "$collector" .
  )
  unset GOWORK GOFLAGS
fi

# Version 1 still has a package that builds by itself.
jaeger=$cache/jaeger
if [ ! -x "$jaeger" ]; then
  build=$(mktemp -d)
  trap 'rm -rf "$build"' EXIT
  folder=$(cd "$build" && GOFLAGS=-mod=mod go mod download -json github.com/jaegertracing/jaeger@v1.76.0 | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
  (cd "$folder" && GOWORK=off GOFLAGS=-mod=readonly go build -trimpath -ldflags=-s -o "$jaeger" ./cmd/all-in-one)
fi

cd tests
exec ./postgres.sh run go test -count=1 -v -tags collector -run '^TestShipped' ./e2e -collector "$collector" -promtool "$promtool" -jaeger "$jaeger"
