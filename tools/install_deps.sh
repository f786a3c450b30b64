#!/usr/bin/env bash
# Installs only the packages that are missing for a purpose.
#   tools/install_deps.sh build|demo|test|python|ci|torture|package
# On Debian and its derivatives through apt-get (as root or with sudo); elsewhere it names what is missing.
set -euo pipefail

purpose=${1:-build}
case $purpose in
    build) wanted="build" ;;
    demo) wanted="build demo" ;;
    test) wanted="build demo test" ;;
    python) wanted="build python" ;;
    ci) wanted="build demo test python ci torture" ;;
    torture) wanted="build torture" ;;
    package) wanted="build package" ;;
    *) echo "usage: tools/install_deps.sh build|demo|test|python|ci|torture|package" >&2; exit 2 ;;
esac

# Debian package, purpose, and how to see on another system that it is there (a program or a header).
packages='
g++                  build  program:c++
cmake                build  program:cmake
ninja-build          build  program:ninja
ccache               build  program:ccache
libdnnl-dev          build  header:oneapi/dnnl/dnnl.hpp
ocl-icd-opencl-dev   build  header:CL/cl.h
libfmt-dev           build  header:fmt/format.h
libutf8proc-dev      build  header:utf8proc.h
libsimdjson-dev      build  header:simdjson.h
libboost-dev         build  header:boost/beast.hpp
libcli11-dev         build  header:CLI/CLI.hpp
nlohmann-json3-dev   build  header:nlohmann/json.hpp
libtomlplusplus-dev  build  header:toml++/toml.h
zlib1g-dev           build  header:zlib.h
libzstd-dev          build  header:zstd.h
liblzma-dev          build  header:lzma.h
libbz2-dev           build  header:bzlib.h
wordnet-base         demo   file:/usr/share/wordnet/data.noun
libgtest-dev         test   header:gtest/gtest.h
python3              test   program:python3
openmpi-bin          test   program:mpirun
libopenmpi-dev       test   program:mpicxx
libgloo-dev          test   header:gloo/rendezvous/context.h
python3-dev          python program:python3
python3-venv         python program:python3
chromium             ci     program:chromium
clang-14             ci     program:clang++-14
libclang-rt-14-dev   ci     program:clang++-14
libomp-14-dev        ci     program:clang++-14
clang-format         ci     program:clang-format
pkg-config           ci     program:pkg-config
strace               torture program:strace
dpkg-dev             package program:dpkg-shlibdeps
file                 package program:file
'

on_debian() { command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; }

is_there() { # package probe
    if on_debian; then
        [ "$(dpkg-query -W -f='${db:Status-Status}\n' "$1" 2>/dev/null | head -n 1)" = installed ]
        return
    fi
    case $2 in
        program:*) command -v "${2#program:}" >/dev/null ;;
        header:*) echo "#include <${2#header:}>" | c++ -std=c++20 -E -x c++ - >/dev/null 2>&1 ;;
        file:*) [ -e "${2#file:}" ] ;;
    esac
}

missing=()
while read -r package for_purpose probe; do
    [ -n "$package" ] || continue
    case " $wanted " in *" $for_purpose "*) ;; *) continue ;; esac
    is_there "$package" "$probe" || missing+=("$package")
done <<<"$packages"

if [ ${#missing[@]} -eq 0 ]; then
    echo "Packages: everything needed is installed."
    exit 0
fi
if ! on_debian; then
    echo "This is not a Debian system. Please install what these Debian packages hold: ${missing[*]}" >&2
    exit 1
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "Missing packages. As root, please run: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi
echo "Packages: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
echo "Packages: done."
