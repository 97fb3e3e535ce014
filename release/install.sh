#!/bin/sh
# Installs the program for one user, into ~/.local: sh install.sh [--from URL_OR_FOLDER] [--to PREFIX] [--remove]
#
# Takes the archive for this machine and SHA256SUMS from a folder, or from an address (by default that of the newest
# release), and installs nothing whose checksum is another. Needs tar, gzip, sha256sum, and curl or wget.
set -eu

from=https://github.com/bonfire-train/bonfire/releases/latest/download
to=$HOME/.local
remove=false

fail() {
    echo "error: $1" >&2
    exit "${2:-1}"
}

while [ $# -gt 0 ]; do
    case $1 in
        --from) [ $# -ge 2 ] || fail '--from needs an address or a folder' 2; from=$2; shift 2 ;;
        --to) [ $# -ge 2 ] || fail '--to needs a folder' 2; to=$2; shift 2 ;;
        --remove) remove=true; shift ;;
        *) fail "unknown argument $1; known: --from, --to, --remove" 2 ;;
    esac
done

if $remove; then
    rm -f "$to/bin/bonfire" "$to"/share/man/man1/bonfire.1.gz "$to"/share/man/man1/bonfire-*.1.gz \
        "$to/share/bash-completion/completions/bonfire" "$to/share/zsh/site-functions/_bonfire" \
        "$to/share/fish/vendor_completions.d/bonfire.fish"
    echo "removed from $to"
    exit 0
fi

case $(uname -s) in
    Linux) ;;
    *) fail "there is no program for $(uname -s); cargo install builds one" ;;
esac
# A Pi may have a kernel of 64 bits under a system of 32: what matters is what the shell is.
case $(uname -m) in
    x86_64 | amd64) name=x86_64 ;;
    aarch64 | arm64) name=aarch64 ;;
    armv7* | armv8l) name=armv7 ;;
    *) fail "there is no program for $(uname -m); cargo install builds one" ;;
esac
if [ "$name" = aarch64 ] && [ "$(getconf LONG_BIT 2>/dev/null || echo 64)" = 32 ]; then
    name=armv7
fi
# Alpine and its like have another libc.
if [ "$name" = x86_64 ] && ! [ -e /lib64/ld-linux-x86-64.so.2 ]; then
    name=static
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fetch() {
    if [ -d "$from" ]; then
        cp "$from/$1" "$work/$1"
    elif command -v curl >/dev/null; then
        curl --fail --silent --show-error --location --max-time 600 --output "$work/$1" "$from/$1"
    elif command -v wget >/dev/null; then
        wget -q -T 60 -O "$work/$1" "$from/$1"
    else
        fail 'neither curl nor wget is there'
    fi || fail "cannot get $1 from $from"
}

fetch SHA256SUMS
line=$(grep " [ *]*bonfire-[0-9][^ ]*-$name\.tar\.gz\$" "$work/SHA256SUMS") || fail "$from has no archive for $name"
archive=${line##* }
archive=${archive#\*}
fetch "$archive"
(cd "$work" && echo "$line" | sha256sum -c - >/dev/null 2>&1) ||
    fail "$archive is not what SHA256SUMS says: nothing was installed"

tar -xzf "$work/$archive" -C "$work"
unpacked=$work/${archive%.tar.gz}
"$unpacked/bonfire" version >/dev/null || fail 'the program does not start here: nothing was installed'
mkdir -p "$to/bin" "$to/share/man/man1" "$to/share/bash-completion/completions" "$to/share/zsh/site-functions" \
    "$to/share/fish/vendor_completions.d"
cp "$unpacked/man/"*.1.gz "$to/share/man/man1/"
cp "$unpacked/completions/bonfire" "$to/share/bash-completion/completions/"
cp "$unpacked/completions/_bonfire" "$to/share/zsh/site-functions/"
cp "$unpacked/completions/bonfire.fish" "$to/share/fish/vendor_completions.d/"
# Moved, not written: a program that runs cannot be written over.
cp "$unpacked/bonfire" "$to/bin/.bonfire.new"
chmod 755 "$to/bin/.bonfire.new"
mv "$to/bin/.bonfire.new" "$to/bin/bonfire"
"$to/bin/bonfire" version
case :$PATH: in
    *":$to/bin:"*) ;;
    *) echo "$to/bin is not in your PATH: open a new terminal, or add it in ~/.profile" ;;
esac
