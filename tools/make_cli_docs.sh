#!/usr/bin/env bash
# Writes docs/cli.md from the options that the program was built with.
#   tools/make_cli_docs.sh [PROGRAM]
set -euo pipefail
cd "$(dirname "$0")/.."
"${1:-build/bin/elmo}" help-markdown >docs/cli.md.new
mv docs/cli.md.new docs/cli.md
