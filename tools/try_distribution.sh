#!/usr/bin/env bash
# Tries the project on another distribution: tools/try_distribution.sh SUITE [PART...]
#
# Installs SUITE (trixie, bookworm; noble) by debootstrap into build/distributions/SUITE, clones the last commit into it, and
# there, in a chroot, has `./forge` install what it needs, build, answer with the demo model, and run `./forge test PART...`
# (without PART: cpu; `none` for no tests). Needs root. A second run uses the installed system and makes a new clone.
#
# environment: MIRROR (default: Debian's or Ubuntu's own), CHECKOUT (what to clone, default: this repository)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

die() { printf 'try_distribution: %s\n' "$*" >&2; exit 1; }

suite=${1:-}
[[ $suite =~ ^[a-z]+$ ]] || die "usage: tools/try_distribution.sh SUITE [PART...]"
shift
parts=("${@:-cpu}")
[ "$(id -u)" -eq 0 ] || die "only root may change its root folder: sudo tools/try_distribution.sh $suite"
command -v debootstrap >/dev/null || die "debootstrap is missing: apt-get install debootstrap"

# Mounts of a namespace of its own end with its last process, however that ends.
if [ "${TRY_DISTRIBUTION_INSIDE:-}" != "$$" ]; then
  exec unshare --mount --pid --fork --kill-child --propagation private \
    bash -c 'TRY_DISTRIBUTION_INSIDE=$$ exec "$@"' try_distribution "$PWD/tools/try_distribution.sh" "$suite" "${parts[@]}"
fi

case $suite in
  jammy | noble) default_mirror=http://archive.ubuntu.com/ubuntu components=main,universe ;;
  *) default_mirror=http://deb.debian.org/debian components=main ;;
esac
mirror=${MIRROR:-$default_mirror}
folder=$PWD/build/distributions/$suite
root=$folder/root
mkdir -p "$folder"

if [ ! -d "$root" ]; then
  echo "· installing $suite into $root"
  rm -rf "$root.new"
  debootstrap --variant=minbase --components="$components" "$suite" "$root.new" "$mirror" >"$folder/debootstrap.log" 2>&1 ||
    { tail -n 5 "$folder/debootstrap.log" >&2; die "cannot install $suite from $mirror"; }
  mv "$root.new" "$root"
fi

mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
cp --remove-destination --dereference /etc/resolv.conf "$root/etc/resolv.conf"

rm -rf "$root/root/rocmforge"
git clone --quiet --no-hardlinks "${CHECKOUT:-.}" "$root/root/rocmforge"
echo "· $suite: $(git -C "$root/root/rocmforge" log -1 --format='%h %s')"

inside() {
  chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 FORGE_JOBS="${FORGE_JOBS:-$(nproc)}" \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    bash -c 'cd /root/rocmforge && "$@"' inside "$@"
}

started=$SECONDS
answer=$(inside ./forge demo "What is 127 + 458?")
[[ $answer == *585* ]] || die "$suite: the demo model's answer is '$answer'"
echo "· $suite: the demo model answered '$answer' after $((SECONDS - started)) s, packages included"
inside bash -c 'printf "· with %s, cmake %s, " "$(c++ --version | head -n1)" "$(cmake --version | sed -n "1s/.* //p")"
  dpkg-query -W -f "\${Package} \${Version}, " libfmt-dev libspdlog-dev nlohmann-json3-dev libcli11-dev libboost-dev; echo'
[ "${parts[*]}" = none ] || inside ./forge test "${parts[@]}"
