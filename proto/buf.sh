#!/usr/bin/env bash
# Runs buf, pinned in proto/tools, without a schema registry: generate | image FILE | lint | breaking REF.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TXT'
Usage: proto/buf.sh generate        write the code of proto/ in Go and, where PyPI and npm are, in Python and TypeScript, what serves it over HTTP, and docs/reference/api.md
       proto/buf.sh image FILE      write the contract, with all it imports, for generators of other languages
       proto/buf.sh lint            check style and formatting
       proto/buf.sh breaking REF    compare with the contract at a git revision
TXT
}

# Not a tool and imported by no Go code, so no go.mod holds it.
protovalidate=github.com/bufbuild/protovalidate@v1.2.2
bin=$PWD/.cache/tools

# The rules' proto comes out of the module cache; buf.yaml lists the folder as a module.
prepare() {
  local dir
  dir=$(GOWORK=off go mod download -json "$protovalidate" | sed -n 's/.*"Dir": "\(.*\)",/\1/p')
  mkdir -p .cache/protovalidate/buf/validate "$bin"
  install -m 644 "$dir/proto/protovalidate/buf/validate/validate.proto" .cache/protovalidate/buf/validate/
  GOWORK=off go -C proto/tools build -o "$bin/" tool ./openapi3
}

# Writes the code in Python. grpcio-tools has protoc inside, so an environment of its own is all that it takes.
python() {
  local tools=grpcio-tools==1.76.0
  local venv=$PWD/.cache/$tools
  if ! test -e "$venv/done"; then
    if ! { python3 -m venv --clear "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check "$tools"; }; then
      echo "LEFT OUT: the code in Python needs python3 with venv, and $tools from PyPI" >&2
      return
    fi
    touch "$venv/done"
  fi
  # Clients do not need the rules, and other packages have them under the same name.
  PATH="$venv/bin:$bin:$PATH" buf generate --template proto/buf.gen.python.yaml --exclude-type buf.validate proto
}

# Writes the code in TypeScript.
typescript() {
  local tools=@bufbuild/protoc-gen-es@2.13.0
  local folder=$PWD/.cache/${tools//\//-}
  if ! test -e "$folder/done"; then
    if ! npm install --silent --no-fund --no-audit --prefix "$folder" "$tools"; then
      echo "LEFT OUT: the code in TypeScript needs npm, and $tools from its registry" >&2
      return
    fi
    touch "$folder/done"
  fi
  PATH="$folder/node_modules/.bin:$bin:$PATH" buf generate --template proto/buf.gen.typescript.yaml --exclude-type buf.validate proto
}

case "${1:-}" in
  generate)
    prepare
    PATH="$bin:$PATH" buf generate --template proto/buf.gen.yaml proto
    "$bin/openapi3" < .cache/openapi.swagger.json > fuser/web/openapi.json
    python
    typescript
    ;;
  image)
    file=${2:?image needs a file}
    prepare
    "$bin/buf" build -o "$file"
    ;;
  lint)
    prepare
    "$bin/buf" lint proto
    "$bin/buf" format --diff --exit-code proto
    ;;
  breaking)
    ref=${2:?breaking needs a git revision}
    prepare
    old=$(mktemp -d)
    trap 'rm -rf "$old"' EXIT
    git archive "$ref" buf.yaml proto | tar -x -C "$old"
    mkdir -p "$old/.cache" && cp -r .cache/protovalidate "$old/.cache/"
    (cd "$old" && "$bin/buf" build proto -o old.binpb)
    "$bin/buf" breaking proto --against "$old/old.binpb"
    ;;
  -h | --help | help) usage ;;
  *)
    usage >&2
    exit 2
    ;;
esac
