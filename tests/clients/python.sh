#!/usr/bin/env bash
# Builds the wheel, installs it into a clean environment and tests it there against gateways that run. Needs Python 3.10 with venv, and PyPI.
cd "$(dirname "$0")/../.."
source tests/clients/gateway.sh
package=$PWD/proto/python

step "the wheel"
# A copy, since building leaves files behind.
cp -r "$package" "$work/package"
python3 -m venv "$work/build"
"$work/build/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$work/dist" "$work/package"
wheel=$(echo "$work"/dist/*.whl)
basename "$wheel"

step "install and recall"
python3 -m venv "$work/venv"
start=$EPOCHREALTIME
"$work/venv/bin/pip" install --quiet --disable-pip-version-check "$wheel"
installed=$EPOCHREALTIME
(cd "$work" && venv/bin/python "$OLDPWD/tests/clients/recall.py" "$TRISKELE_ADDRESS")
awk -v a="$start" -v b="$installed" -v c="$EPOCHREALTIME" 'BEGIN { printf "pip install took %.1f s, and to the first recall %.1f s\n", b-a, c-a }'

step "tests"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-compile "$wheel[langchain,langgraph,llamaindex,otel]" --requirement "$package/tests/requirements.txt"
cp tests/clients/agent.py tests/clients/move.py "$work/package/tests/"
cd "$work/package"
"$work/venv/bin/mypy"
rm -r src  # the wheel is tested, not these files
"$work/venv/bin/python" -m pytest -q
