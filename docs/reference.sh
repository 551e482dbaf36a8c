#!/usr/bin/env bash
# Writes the manual pages, completion scripts and the reference of the command line from the programs in bin/.
set -euo pipefail
cd "$(dirname "$0")/.."
services=(fuserd lexicald densed graphd memoryd)
export TRISKELE_CONFIG=off

mkdir -p docs/man docs/completion docs/reference
bin/triskele man > docs/man/triskele.1
for shell in bash zsh fish; do
  bin/triskele completion "$shell" > "docs/completion/triskele.$shell"
done
{
  printf '<!-- Written by "make generate" from the programs: do not edit. -->\n\n# Commands and flags\n\n'
  printf '%s\n' 'What a program is set to comes from, first to last: its flags, environment variables, a configuration file, defaults.' \
    'The [configuration file](configuration.md) can say all that flags can.' ''
  for program in triskele "${services[@]}"; do printf -- '- [%s](#%s)\n' "$program" "$program"; done
  echo
  bin/triskele man --markdown
  for service in "${services[@]}"; do
    "bin/$service" --manual=man > "docs/man/$service.8"
    "bin/$service" --manual=markdown
  done
} > docs/reference/cli.md
