#!/usr/bin/env bash
# Prepares a fresh machine for the README's two commands: checks the toolchain, fetches the pinned
# crates. Safe to run again; installs nothing system-wide without being asked to.
set -euo pipefail
cd "$(dirname "$0")/.."

need=1.90
fail() { printf 'setup: %s\n' "$1" >&2; exit 1; }

command -v cargo >/dev/null || fail "Rust is missing. Install the stable toolchain from https://rustup.rs, then run this again."
have=$(rustc --version | awk '{print $2}')
[ "$(printf '%s\n%s\n' "$need" "$have" | sort -V | head -n 1)" = "$need" ] ||
  fail "Rust $have is too old: $need or newer is needed (rustup update stable)."
command -v cc >/dev/null || fail "a C compiler is missing (zstd and blake3 are compiled from C). Debian, Ubuntu: apt-get install build-essential. macOS: xcode-select --install"

cargo fetch --locked --quiet
printf 'setup: ready (Rust %s)\n' "$have"
