#!/usr/bin/env bash
# Tries the project on another distribution: tools/package/try_distribution.sh SUITE [PART...]
#
# Installs SUITE (trixie, bookworm; noble) by debootstrap into build/distributions/SUITE, clones the last commit into a copy of
# it, and there, in a chroot, has `./forge` install what it needs, build, and answer with the demo model. Then each PART:
#   package   builds Debian packages, installs them in a second, bare copy, uses them there, and removes them
#   wheel     builds a Python wheel (or takes the one that WHEEL names), and uses it in a bare copy with Python alone
#   none      no more
#   any other `./forge test PART` (without PART: cpu)
# Needs root. The mounts are removed when the script ends, also after an error.
#
# environment: WHEEL (a wheel made elsewhere; for part wheel alone nothing is built), MIRROR (default: Debian's or Ubuntu's own), CHECKOUT (what to clone, default: this repository), KEEP=1 (go on
# in the system that the last run left, with all it had installed and built)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

say() { printf '· %s: %s\n' "$suite" "$*"; }
die() { printf 'try_distribution: %s\n' "$*" >&2; exit 1; }

suite=${1:-}
[[ $suite =~ ^[a-z]+$ ]] || die "usage: tools/package/try_distribution.sh SUITE [PART...]"
shift
[ $# -gt 0 ] || set -- cpu
[ "$(id -u)" -eq 0 ] || die "only root may change its root folder: sudo tools/package/try_distribution.sh $suite"
command -v debootstrap >/dev/null || die "debootstrap is missing: apt-get install debootstrap"

# Mounts in a separate namespace are removed with its last process.
if [ "${TRY_DISTRIBUTION_INSIDE:-}" != "$$" ]; then
  exec unshare --mount --pid --fork --kill-child --propagation private \
    bash -c 'TRY_DISTRIBUTION_INSIDE=$$ exec "$@"' try_distribution "$PWD/tools/package/try_distribution.sh" "$suite" "$@"
fi

components=main script=()
case $suite in
  # One script serves all Ubuntu suites. Its oldest name is used, because an older debootstrap lacks the newer names.
  jammy | noble) default_mirror=http://archive.ubuntu.com/ubuntu components=main,universe script=(gutsy) ;;
  *) default_mirror=http://deb.debian.org/debian ;;
esac
mirror=${MIRROR:-$default_mirror}
folder=$PWD/build/distributions/$suite
packages=$folder/packages  # downloaded, for the next run
mkdir -p "$packages/partial"

# The bare system, as debootstrap leaves it.
install_system() {
  [ -d "$folder/bare" ] && return 0
  say "installing from $mirror"
  rm -rf "$folder/bare.new"
  debootstrap --variant=minbase --components="$components" "$suite" "$folder/bare.new" "$mirror" "${script[@]}" >"$folder/debootstrap.log" 2>&1 ||
    { tail -n 5 "$folder/debootstrap.log" >&2; die "cannot install $suite from $mirror"; }
  mv "$folder/bare.new" "$folder/bare"
}

# prepare NAME: a copy of the bare system with the mounts that its programs expect.
prepare() {
  local root=$folder/$1
  if [ "${KEEP:-}" != 1 ] || [ ! -d "$root" ]; then
    rm -rf "$root"
    cp -a --reflink=auto "$folder/bare" "$root"
  fi
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount --rbind /sys "$root/sys"
  mount --bind "$packages" "$root/var/cache/apt/archives"
  rm -f "$root/etc/apt/apt.conf.d/docker-clean"
  cp --remove-destination --dereference /etc/resolv.conf "$root/etc/resolv.conf"
}

# inside NAME FOLDER COMMAND...
inside() {
  local name=$1 where=$2; shift 2
  chroot "$folder/$name" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    FORGE_JOBS="${FORGE_JOBS:-$(nproc)}" ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    bash -c 'cd "$1" && shift && exec "$@"' inside "$where" "$@"
}

expect_answer() {
  [[ $1 == *585* ]] || die "$suite: the demo model's answer is '$1'"
}

try_build() {
  local started answer clone=$folder/build/root/rocmforge
  prepare build
  if [ -d "$clone" ]; then  # KEEP
    git -C "$clone" fetch --quiet "$(realpath "${CHECKOUT:-.}")" HEAD
    git -C "$clone" reset --quiet --hard FETCH_HEAD
  else
    git clone --quiet --no-hardlinks "${CHECKOUT:-.}" "$clone"
  fi
  say "$(git -C "$clone" log -1 --format='%h %s')"
  started=$SECONDS
  answer=$(inside build /root/rocmforge ./forge demo "What is 127 + 458?")
  expect_answer "$answer"
  say "answered '$answer' after $((SECONDS - started)) s, packages included"
  inside build / dpkg-query -W -f '${Package} ${Version}\n' g++ cmake libfmt-dev libspdlog-dev nlohmann-json3-dev libcli11-dev libboost-dev \
    libcurl4-openssl-dev libssl-dev libpng-dev libjpeg-dev libwebp-dev libgif-dev
}

# Builds in the system with compilers; tries the packages in one without.
try_package() {
  local files
  inside build /root/rocmforge ./forge package
  prepare installed
  rm -rf "$folder/installed/root/packages"
  mkdir "$folder/installed/root/packages"
  cp "$folder"/build/root/rocmforge/build/packages/*.deb "$folder/installed/root/packages/"
  cp -r "$folder/build/root/rocmforge/tests/consumer" "$folder/installed/root/"
  cp tools/package/try_package.sh "$folder/installed/root/"
  inside installed /root bash try_package.sh
}

# Builds in the system with compilers, or takes WHEEL; tries the wheel in a system with only Python.
try_wheel() {
  local wheel=${WHEEL:-}
  if [ -z "$wheel" ]; then
    inside build /root/rocmforge ./forge wheel
    wheel=$(ls "$folder"/build/root/rocmforge/build/packages/*.whl)
  fi
  prepare python
  rm -rf "$folder/python/root/wheel"
  mkdir "$folder/python/root/wheel"
  cp "$wheel" "$folder/python/root/wheel/"
  inside python / bash -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv libstdc++6' >/dev/null
  inside python /root/wheel bash -c 'python3 -m venv environment && environment/bin/pip install -q --no-index --no-deps *.whl'
  expect_answer "$(inside python /root/wheel environment/bin/python -c \
    'import rocmforge; print(rocmforge.Model().generate("What is 127 + 458?", greedy=True))')"
  expect_answer "$(inside python /root/wheel environment/bin/rocmforge run --greedy -p "What is 127 + 458?" 2>/dev/null)"
  say "$(basename "$wheel") answered 585 where $(inside python / python3 --version) is all there is"
}

install_system
if [ -z "${WHEEL:-}" ] || [ "$*" != wheel ]; then
  try_build
fi
for part in "$@"; do
  case $part in
    none) ;;
    package) try_package ;;
    wheel) try_wheel ;;
    *) inside build /root/rocmforge ./forge test "$part" ;;
  esac
done
say "done: $*"
