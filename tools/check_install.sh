#!/usr/bin/env bash
# Installs a configured build to a temporary prefix and uses it as a stranger would: builds examples/ with find_package,
# on the static and on the shared library, compiles one with pkg-config, and runs them on made-up data.
#   tools/check_install.sh [BUILD]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

fail() { echo "check_install: $*" >&2; exit 1; }

cmake -B "$build" -DELMO_SHARED=ON >/dev/null
cmake --build "$build" -j 2 --target elmo elmo_static elmo_shared
cmake --install "$build" --prefix "$prefix" >/dev/null
"$prefix/bin/elmo" --version
mv "$prefix" "$work/moved" # nothing may depend on where it was installed
prefix=$work/moved

for i in $(seq 1 60); do
    printf 'red thing %d\tcolour,red\nblue thing %d\tcolour,blue\nsharp note %d\tsound\nflat note %d\tsound,flat\n' $i $i $i $i
done >"$work/data.tsv"
printf 'a red thing\na blue thing\na sharp note\n' >"$work/texts.txt"

check_programs() { # folder of the three programs
    "$1/train" "$work/data.tsv" "$work/run" encoder=bag width=32 steps=60 batch_size=16 encoder_lr=1e-2 vocab_size=300 \
        overwrite=true threads=1 2>/dev/null
    "$1/predict" "$work/run" <"$work/texts.txt" >"$work/answers.txt"
    grep -A1 '^a sharp note$' "$work/answers.txt" | grep -q 'sound$' || fail "$1/predict: $(cat "$work/answers.txt")"
    "$1/embed" "$work/run" <"$work/texts.txt" | grep -q '^a red thing .* a blue thing$' || fail "$1/embed: another neighbour"
    # The program can catch errors of the library.
    ! "$1/predict" "$work/nothing" </dev/null 2>"$work/error.txt" && grep -q '^predict: .*nothing' "$work/error.txt" ||
        fail "$1/predict: expected one line about a run that is not there, found $(cat "$work/error.txt")"
}

for kind in static shared; do
    cmake -S examples -B "$work/$kind" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release \
        -Delmo_STATIC="$([ $kind = static ] && echo ON || echo OFF)" >/dev/null
    cmake --build "$work/$kind" -j 2 >/dev/null
    expected=0
    if [ $kind = shared ]; then expected=1; fi
    linked=$(ldd "$work/$kind/predict" | grep -c libelmo.so || true)
    [ "$linked" = $expected ] || fail "$kind: expected libelmo.so $expected times among the libraries, found $linked"
    check_programs "$work/$kind"
    echo "find_package, $kind: good"
done

# The static library by its name, beside the shared one.
mkdir "$work/named"
cat >"$work/named/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.22)
project(named LANGUAGES CXX)
find_package(elmo 0.1 REQUIRED)
add_executable(predict $PWD/examples/predict.cpp)
target_link_libraries(predict PRIVATE elmo::static)
EOF
cmake -S "$work/named" -B "$work/named" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$work/named" -j 2 >/dev/null
! ldd "$work/named/predict" | grep -q libelmo.so || fail "elmo::static: expected no libelmo.so among the libraries"
echo "find_package, elmo::static: good"

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
read -ra flags < <(pkg-config --cflags --libs elmo)
mkdir "$work/pkg-config"
cp "$work/static"/{train,embed} "$work/pkg-config"
"${CXX:-c++}" examples/predict.cpp -o "$work/pkg-config/predict" "${flags[@]}" -Wl,-rpath,"$prefix/lib"
check_programs "$work/pkg-config"
echo "pkg-config: good"

# Only the public interface is exported.
seen=$(nm -DC --defined-only "$prefix/lib/libelmo.so" | sed -n 's/^[0-9a-f]* [TDBR] //p')
internal=$(grep -vE '^elmo::' <<<"$seen" || true)
[ -z "$internal" ] || fail "libelmo.so shows names that are not elmo's: $internal"
grep -q 'elmo::train(' <<<"$seen" || fail "libelmo.so does not show elmo::train"
! grep -q 'elmo::\(Arena\|Session\|Trainer\|make_backend\)' <<<"$seen" || fail "libelmo.so shows what is inside"
echo "libelmo.so: $(wc -l <<<"$seen") public functions"
