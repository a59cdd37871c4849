#!/usr/bin/env bash
# Installs the Debian packages of ./packages on a bare system, uses them, and removes them. tools/package/try_distribution.sh runs it
# in a chroot: it changes the system that it runs on.
set -euo pipefail

die() { printf 'try_package: %s\n' "$*" >&2; exit 1; }
quietly() { local log; log=$(mktemp); "$@" >"$log" 2>&1 || { tail -n 20 "$log" >&2; die "$*"; }; rm -f "$log"; }
install() { quietly apt-get install -y --no-install-recommends "$@"; }

[ -d packages ] || die "there is no folder packages"
quietly apt-get update
install ./packages/rocmforge_*.deb
kernels=(packages/rocmforge-kernels_*.deb)  # where GPU kernels were built
if [ -e "${kernels[0]}" ]; then
  install "./${kernels[0]}"
  rocmforge devices --json | grep -q '"code_objects_problem": ""' || die "the program does not take the installed kernels"
fi

# As a user without any files or rights of its own.
answer=$(cd / && setpriv --reuid=nobody --clear-groups rocmforge run --greedy -p "What is 127 + 458?")
[[ $answer == *585* ]] || die "the installed program answered '$answer'"
echo "the installed program answered $answer"
checked=$(cd / && setpriv --reuid=nobody --clear-groups rocmforge check --device cpu --seconds 10) || die "the installed program's check failed: $checked"
echo "the installed program checked the processor: $(sed -n 's/^result: //p' <<<"$checked")"

for file in /usr/share/man/man1/rocmforge.1 /usr/share/bash-completion/completions/rocmforge \
    /usr/share/zsh/vendor-completions/_rocmforge /usr/share/fish/vendor_completions.d/rocmforge.fish; do
  dpkg-query -S "$file" >/dev/null || die "no package has $file"
done
[ "$(stat -c '%a %U' /etc/default/rocmforge)" = "600 root" ] || die "/etc/default/rocmforge may be read by others"

# The command of the service, as systemd would start it.
. /etc/default/rocmforge
$(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/rocmforge.service | sed 's/ \$.*//') ${ROCMFORGE_ARGUMENTS:-} --port 18080 >/dev/null &
server=$!
healthy() { (exec 3<>/dev/tcp/127.0.0.1/18080 && printf 'GET /health HTTP/1.0\r\n\r\n' >&3 && head -n 1 <&3 | grep -q ' 200') 2>/dev/null; }
for attempt in $(seq 300); do healthy && break; sleep 0.1; done
healthy || die "the server is not healthy after 30 s"
kill "$server" && wait "$server"
echo "the server was healthy and ended with code 0"
install systemd
systemd-analyze verify --man=no rocmforge.service
systemd-analyze security --offline=true --no-pager rocmforge.service | tail -n 1

install ./packages/librocmforge*.deb g++ cmake make pkg-config
quietly cmake -S consumer -B consumer/build
quietly cmake --build consumer/build
consumer/build/consumer
consumer/build/consumer_c
[[ $(consumer/build/consumer_model) == *585* ]] || die "the installed library does not answer 585"
c++ -std=c++20 consumer/consumer.cpp $(pkg-config --cflags --libs rocmforge-attention) -o consumer/by-pkg-config
consumer/by-pkg-config

quietly apt-get purge -y 'rocmforge*' 'librocmforge*'
left=$(find / -xdev -path /proc -prune -o -path /sys -prune -o -path /root -prune -o -name '*rocmforge*' -print)
[ -z "$left" ] || die "left behind: $left"
echo "installed, used and removed: $(cd packages && ls | tr '\n' ' ')"
