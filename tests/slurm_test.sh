#!/usr/bin/env bash
# Processes that Slurm starts compile one model together, as docs/many-machines.md says: the tasks of an array, of which one is killed, and
# the ranks of srun. Starts munged, slurmctld and slurmd of its own, on this machine alone. Needs Debian's slurm-wlm and munge, and root,
# which slurmd wants; ends with 77 where they are not there.
#
# usage: slurm_test.sh BUILD
set -euo pipefail
build=$(realpath "${1:?"usage: slurm_test.sh BUILD"}")
here=$(realpath "$(dirname "$0")")
for program in munged slurmctld slurmd sbatch srun; do
  command -v $program >/dev/null || PATH=$PATH:/usr/sbin command -v $program >/dev/null ||
    { echo "SKIPPED: $program is not installed (apt-get install slurm-wlm munge): nothing of this was tested" && exit 77; }
done
((EUID == 0)) || { echo "SKIPPED: slurmd needs root: nothing of this was tested" && exit 77; }
export PATH=$PATH:/usr/sbin
folder=$(mktemp -d)
chmod 755 "$folder"
started=()
end() {
  for ((i = ${#started[@]} - 1; i >= 0; --i)); do kill "${started[i]}" 2>/dev/null || true; done
  for pid in "${started[@]}"; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$folder"
}
trap end EXIT
fail() {
  printf '%s\n' "$@"
  tail -n 20 "$folder"/*.log "$folder"/said* 2>/dev/null || true
  exit 1
}
wait_for() {  # SECONDS COMMAND...: until it succeeds
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || return 1
    sleep 0.2
  done
}

# munged takes its files only in folders that nobody else may write to.
mkdir -m 700 "$folder/munge"
head -c 128 /dev/urandom >"$folder/munge/key"
chmod 600 "$folder/munge/key"
mkdir -m 755 "$folder/socket"
munged --foreground --force --key-file="$folder/munge/key" --socket="$folder/socket/munge" --pid-file="$folder/munge/pid" \
  --log-file="$folder/munge/log" --seed-file="$folder/munge/seed" >"$folder/munged.log" 2>&1 &
started+=($!)
host=$(hostname -s)
port=$((20000 + RANDOM % 20000))
mkdir "$folder/state" "$folder/spool"
cat >"$folder/slurm.conf" <<EOF
ClusterName=toroid
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/socket/munge
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,defer
KillWait=2
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
EOF
export SLURM_CONF=$folder/slurm.conf
wait_for 10 test -S "$folder/socket/munge" || fail "munged did not start"
slurmctld -D -c >"$folder/ctld.out.log" 2>&1 &
started+=($!)
slurmd -D -c >"$folder/d.out.log" 2>&1 &
started+=($!)
is_idle() { [[ $(sinfo -h -o %T) == idle* ]]; }
wait_for 30 is_idle || fail "the node is not idle: $(sinfo 2>&1)"

"$here/chain_of_products.sh" 6 >"$folder/model.txt"
export TOROID_CACHE_DIR=$folder/cache TOROID_HALIDE_PYTHON=
unset TOROID_REMOTE_CACHE
cd "$folder"
flags=(--mode max --tune-threads 1 --cxxflag=-O0)
is_over() { [[ -z $(squeue -h -j "$1" 2>/dev/null) ]]; }

# alone NAME: one process with nothing but the others' records makes the same bytes as NAME.so.
alone() {
  "$build/toroid" cache export "records_$1" --kind tuning >/dev/null
  TOROID_CACHE_DIR=$folder/own_$1 TOROID_CACHE_BASE=$folder/records_$1 \
    "$build/toroid" compile model.txt "${flags[@]}" --part 1/1 -o "alone_$1.so" 2>"said_alone_$1" || fail "alone"
  grep -q 'part 1/1: 6 problems: 6 remembered' "said_alone_$1" || fail "what the tasks measured is not remembered"
  cmp "$1.so" "alone_$1.so" || fail "the tasks of Slurm and one process have made different libraries"
}

# The tasks of an array. The compiler of the third one kills the task that starts it.
cat >deadly.sh <<EOF
#!/bin/sh
if grep -qz '^SLURM_ARRAY_TASK_ID=3\$' /proc/\$PPID/environ; then
  case " \$* " in *' -c '*) touch $folder/dead; kill -9 \$PPID;; esac
fi
exec g++ "\$@"
EOF
mkdir bin && mv deadly.sh bin/g++ && chmod +x bin/g++
sed -i "s|exec g++|exec $(command -v g++)|" bin/g++
cat >array.sh <<EOF
#!/bin/bash
#SBATCH --array=1-3 --nodes=1 --ntasks=1
$build/toroid compile model.txt ${flags[@]} --spread -o array.so
EOF
export TOROID_CXX=$folder/bin/g++
job=$(sbatch --parsable --output="$folder/said_array_%a" array.sh) || fail "sbatch"
wait_for 300 is_over "$job" || fail "the array does not end: $(squeue)"
[[ -e dead ]] || fail "no task was killed"
grep -qE '^part 1/3: 6 problems: ' said_array_1 || fail "the first task"
grep -qE '^part 2/3: 6 problems: ' said_array_2 || fail "the second task"
if grep -qE '^part 3/3: ' said_array_3; then fail "the third task was not killed"; fi
[[ -s array.so ]] || fail "the first task wrote nothing"
alone array
# Whoever compiles it later, in a job of its own, finds all.
sbatch --wait --output="$folder/said_later" --wrap "$build/toroid compile model.txt ${flags[*]} -o later.so" >/dev/null || fail "later"
grep -q 'cache: hit: graph' said_later || fail "a later job does not find what the array has made"
cmp array.so later.so

# The ranks of a job.
export TOROID_CACHE_DIR=$folder/cache_of_ranks
timeout 300 srun --ntasks=2 --overcommit --output="$folder/said_rank_%t" \
  "$build/toroid" compile model.txt "${flags[@]}" --spread -o ranks.so || fail "srun"
grep -qE '^part 1/2: ' said_rank_0 || fail "rank 0"
grep -qE '^part 2/2: ' said_rank_1 || fail "rank 1"
alone ranks
echo "3 tasks of an array, one of them killed, and 2 ranks of srun made what one process makes"
