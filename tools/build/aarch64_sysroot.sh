#!/usr/bin/env bash
# usage: tools/build/aarch64_sysroot.sh FOLDER
# Unpacks the libraries that the project needs for 64-bit Arm into FOLDER (Debian; cmake/aarch64.cmake builds against it).
# Uses a package database of its own, so the machine's packages are not changed.
set -euo pipefail
sysroot=$(realpath -m "$1")
packages=(libcli11-dev nlohmann-json3-dev libfmt-dev libspdlog-dev libpcre2-dev libedit-dev liblzma-dev libcurl4-openssl-dev libssl-dev libpng-dev libjpeg-dev libwebp-dev libgif-dev libsndfile1-dev libgtest-dev libgmock-dev)

database=$(mktemp -d)
trap 'rm -rf "$database"' EXIT
mkdir -p "$database"/state/lists/partial "$database"/cache/archives/partial
touch "$database"/state/status
apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$database/state"
     -o Dir::State::status="$database/state/status" -o Dir::Cache="$database/cache" -o Debug::NoLocking=1
     -o APT::Sandbox::User="$(id -un)")
"${apt[@]}" update
"${apt[@]}" install -y --no-install-recommends --download-only "${packages[@]}"

rm -rf "$sysroot"
mkdir -p "$sysroot"
for archive in "$database"/cache/archives/*.deb; do
  dpkg -x "$archive" "$sysroot"
done
