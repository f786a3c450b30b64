#!/usr/bin/env bash
# Uses packages as a bare machine would: the archive unpacked and called with no environment, and, where debootstrap is
# installed and this is root, archive and .deb each in a fresh Debian that has nothing else.
#   tools/check_package.sh FOLDER
set -euo pipefail
folder=$(readlink -f "$1")
work=$(mktemp -d)
trap '! mountpoint -q "$work/root/proc" || umount "$work/root/proc"; rm -rf --one-file-system "$work"' EXIT
archive=$(ls "$folder"/elmo-*.tar.gz)
package=$(ls "$folder"/elmo_*.deb)

fail() { echo "check_package: $*" >&2; exit 1; }

for i in $(seq 1 60); do
    printf 'red thing %d\tcolour,red\nsharp note %d\tsound\n' "$i" "$i"
done >"$work/data.tsv"

# Trains on made-up data with a program and asks it; the words are the command that runs it.
use() { # folder that the program sees as /data or by its name, command...
    local data=$1
    shift
    "$@" train "$data/data.tsv" --out "$data/run" --overwrite --encoder bag --width 32 --steps 60 --batch-size 16 \
        --encoder-lr 1e-2 --vocab-size 300 --cache "$data/cache" --quiet >/dev/null
    echo "a sharp note" | "$@" predict "$data/run" --top 1 --quiet | grep -q 'sound$'
}

mkdir "$work/unpacked"
tar -xzf "$archive" -C "$work/unpacked" --strip-components=1
outside=$(env -i ldd "$work/unpacked/bin/elmo" | grep '=>' | grep -v "$work/unpacked" |
    grep -vE '/(libc|libm|libdl|librt|libpthread)\.so' || true)
[ -z "$outside" ] || fail "$archive: the program needs libraries of this machine: $outside"
[ -s "$work/unpacked/share/doc/elmo/licences/libdnnl2.txt" ] || fail "$archive: no licences of the libraries in it"
use "$work" env -i "$work/unpacked/bin/elmo" || fail "$archive: no good answer"
echo "archive, here: good"

dpkg-deb -f "$package" Depends | grep -q libdnnl || fail "$package: no libdnnl among what it depends on"
if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
    echo "a bare Debian: not tried (needs root and debootstrap)"
    exit 0
fi
root=$work/root
debootstrap --variant=minbase "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root" >"$work/debootstrap.log" ||
    fail "debootstrap: $(tail -3 "$work/debootstrap.log")"
mount -t proc proc "$root/proc" # an RPATH relative to the program is found through it
mkdir "$root/data" && cp "$work/data.tsv" "$root/data"
cp -r "$work/unpacked" "$root/opt/elmo"
use /data chroot "$root" env -i /opt/elmo/bin/elmo || fail "$archive: no good answer in a bare Debian"
echo "archive, in a bare Debian: good"
cp "$package" "$root/elmo.deb"
cp -r /etc/apt/. "$root/etc/apt/"
chroot "$root" sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends /elmo.deb' >"$work/apt.log" 2>&1 ||
    fail "apt-get install: $(tail -3 "$work/apt.log")"
use /data chroot "$root" env -i /usr/bin/elmo || fail "$package: no good answer in a bare Debian"
echo "package, in a bare Debian: good"
