#!/usr/bin/env bash
# Units that icecc compiles on other machines, as docs/many-machines.md says: the package is that of g++ alone, also where a machine dies
# meanwhile. The machines are two daemons and a scheduler in a network namespace of their own. Needs Debian's icecc, iproute2 and root, as
# daemons change their root folder; ends with 77 where they are not there.
#
# usage: icecc_test.sh BUILD
set -euo pipefail
build=$(realpath "${1:?"usage: icecc_test.sh BUILD"}")
here=$(realpath "$(dirname "$0")")
export PATH=$PATH:/usr/sbin:/sbin
for program in icecc iceccd icecc-scheduler ip; do
  command -v $program >/dev/null ||
    { echo "SKIPPED: $program is not installed (apt-get install icecc iproute2): nothing of this was tested" && exit 77; }
done
if [[ -z ${IN_NAMESPACE:-} ]]; then
  unshare --net --mount true 2>/dev/null || { echo "SKIPPED: this user may make no namespaces: nothing of this was tested" && exit 77; }
  IN_NAMESPACE=1 exec unshare --net --mount "$0" "$build"
fi
ip link set lo up
folder=$(mktemp -d)
chmod 755 "$folder"
chown icecc "$folder"
declare -A started
end() {
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${started[@]}"; do wait "$pid" 2>/dev/null || true; done
  umount /proc/stat 2>/dev/null || true
  rm -rf "$folder"
}
trap end EXIT
fail() {
  printf '%s\n' "$@"
  tail -n 20 "$folder"/*.log "$folder"/said 2>/dev/null || true
  exit 1
}
# Nothing is sent to a machine whose processors are busy, as this one's may be with other things: here they seem idle.
(
  for ((ticks = 100;; ticks += 20)); do
    printf 'cpu  1 0 1 %s 0 0 0 0 0 0\ncpu0 1 0 1 %s 0 0 0 0 0 0\n' $ticks $ticks >"$folder/stat"
    sleep 0.2
  done
) &
started[clock]=$!
until [[ -s $folder/stat ]]; do sleep 0.1; done
mount --bind "$folder/stat" /proc/stat
icecc-scheduler -p 8765 -n toroid -l "$folder/scheduler.log" -vvv &
started[scheduler]=$!
port=10245
for name in remote1 remote2 here; do
  mkdir "$folder/$name"
  chown icecc "$folder/$name"
  more=(-m 2)
  [[ $name != here ]] || more=(-m 0 --no-remote) # all is sent to the others
  ((port += 1))
  ICECC_TEST_SOCKET=$folder/$name.socket iceccd -p $port -s 127.0.0.1:8765 -n toroid -b "$folder/$name" -N $name \
    -l "$folder/$name.log" -vvv "${more[@]}" &
  started[$name]=$!
done
for ((i = 0; i < 100; ++i)); do
  [[ $(grep -c 'login' "$folder/scheduler.log" 2>/dev/null) != 3 ]] || break
  sleep 0.2
done
[[ $(grep -c 'login' "$folder/scheduler.log") == 3 ]] || fail "the daemons do not find the scheduler"

cd "$folder"
"$here/chain_of_products.sh" 12 >model.txt
compile() { TOROID_CACHE_DIR=$folder/cache_$1 "$build/toroid" compile model.txt -o "$1.so" --threads 4 2>said || fail "$1"; }
jobs_on() { grep -cE "BEGIN: .* server=$1\(" scheduler.log || true; }
compile alone
# The last: all have the address of this machine, which a client takes for its own.
export ICECC_TEST_SOCKET=$folder/here.socket TOROID_CXX="icecc g++" ICECC_TEST_REMOTEBUILD=1
compile sent
cmp alone.so sent.so || fail "icecc makes another package"
sent=$(($(jobs_on remote1) + $(jobs_on remote2)))
((sent >= 4)) || fail "only $sent units were compiled by other machines"
"$build/toroid" doctor >said || true
grep -qE 'ok +launcher +/[^ ]*icecc, from TOROID_CXX' said || fail "the doctor does not see icecc"

# A machine that dies: as soon as it has a unit of the next compilation its daemon is killed.
on_remote1=$(jobs_on remote1)
(
  until (($(jobs_on remote1) > on_remote1)); do sleep 0.01; done
  kill -KILL "${started[remote1]}"
) &
killer=$!
for round in 1 2 3 4 5; do
  compile "dead$round"
  cmp alone.so "dead$round.so" || fail "where a machine dies icecc makes another package"
  kill -0 $killer 2>/dev/null || break
done
! kill -0 $killer 2>/dev/null || { kill $killer && fail "no unit came to the machine that was to die"; }
compile after
cmp alone.so after.so || fail "after a machine's death icecc makes another package"
echo "$sent units were compiled by two machines; one of them was killed: the same package each time"
