#!/usr/bin/env bash
# Writes the reference of the command line from the programs in bin/: docs/reference/cli.md, which is committed, and the manual
# pages and completion scripts of a release, which are not.
#   docs/reference.sh [DIR]   puts the latter into DIR/man and DIR/completion, by default under out/
set -euo pipefail
out=$(realpath -m "${1:-$(dirname "$0")/../out}")
cd "$(dirname "$0")/.."
services=(fuserd lexicald densed graphd memoryd)
export TRISKELE_CONFIG=off

rm -rf "$out/man" "$out/completion"
mkdir -p "$out/man" "$out/completion" docs/reference
bin/triskele man > "$out/man/triskele.1"
for shell in bash zsh fish; do
  bin/triskele completion "$shell" > "$out/completion/triskele.$shell"
done
{
  printf '<!-- Written by "make generate" from the programs: do not edit. -->\n\n# Commands and flags\n\n'
  printf '%s\n' 'What a program is set to comes from, first to last: its flags, environment variables, a configuration file, defaults.' \
    'The [configuration file](configuration.md) can say all that flags can.' ''
  for program in triskele "${services[@]}"; do printf -- '- [%s](#%s)\n' "$program" "$program"; done
  echo
  bin/triskele man --markdown
  for service in "${services[@]}"; do
    "bin/$service" --manual=man > "$out/man/$service.8"
    "bin/$service" --manual=markdown
  done
} > docs/reference/cli.md
