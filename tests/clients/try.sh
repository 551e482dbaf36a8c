#!/usr/bin/env bash
# Generates the Python and TypeScript clients from the contract and has each store and recall through a gateway, as docs/clients.md says.
# Needs npm, and Debian's packages for Python, which are unpacked into a temporary folder and installed nowhere.
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

step "Python"
mkdir -p "$work/python/debian"
cd "$work/python"
packages=(python3-grpcio python3-protobuf protobuf-compiler protobuf-compiler-grpc python3-six libgrpc29 libprotobuf32 libprotoc32 libre2-9 libc-ares2 libabsl20220623)
apt-get download -qq "${packages[@]}"
for package in ./*.deb; do dpkg -x "$package" debian; done
lib=$(cd debian && find "$PWD/usr/lib" -name 'libgrpc.so*' -printf '%h\n' | head -n 1)
export LD_LIBRARY_PATH=$lib PYTHONPATH=$work/python/debian/usr/lib/python3/dist-packages:$work/python/gen
mkdir gen
debian/usr/bin/protoc --descriptor_set_in="$work/triskele.binpb" --python_out=gen --grpc_out=gen \
  --plugin=protoc-gen-grpc=debian/usr/bin/grpc_python_plugin \
  triskele/v1/{leg,memory,recall,trace}.proto buf/validate/validate.proto
python3 "$root/tests/clients/recall.py" "$(address)"
unset LD_LIBRARY_PATH PYTHONPATH

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
