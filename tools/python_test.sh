#!/usr/bin/env bash
# Installs the Python package into a fresh virtual environment and runs its tests.
#   tools/python_test.sh [PYTHON]
# The build requirements are installed into the environment too, because ccache finds nothing again below the random
# folders of pip's own build environments.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3}
venv=build-python/venv-$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
rm -rf "$venv"
"$python" -m venv "$venv"
export PIP_DISABLE_PIP_VERSION_CHECK=1
"$venv/bin/pip" install -q "scikit-build-core>=0.10" "nanobind>=2.4"
"$venv/bin/pip" install -q --no-build-isolation '.[test,notebook]'
cd python/tests # not beside the sources, so that the installed package is tested
"../../$venv/bin/python" -m pytest -q -p no:cacheprovider
