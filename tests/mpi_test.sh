#!/usr/bin/env bash
# A program of four processes by the MPI that is installed: results of each, and that an error of one ends all.
#
# usage: mpi_test.sh BUILD
set -euo pipefail
toroid=$(realpath "${1:?"usage: mpi_test.sh BUILD"}/toroid")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# floats NAME SIZES HEX…: a safetensors file with the little-endian numbers as NAME.
floats() {
  local name=$1 size=$2 header
  shift 2
  header="{\"$name\":{\"dtype\":\"F32\",\"shape\":[$size],\"data_offsets\":[0,$#]}}"
  printf "\\x$(printf %02x ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header"
  printf '%b' "$(printf '\\x%s' "$@")"
}
one=(00 00 80 3f) two=(00 00 00 40) three=(00 00 40 40) four=(00 00 80 40) ten=(00 00 20 41)
cat >"$folder/model.txt" <<'EOF'
graph(x: f32[1]) {
  a: f32[1] = _c10d_functional::all_reduce(x, "sum", "0")
  g: f32[4] = _c10d_functional::all_gather_into_tensor(x, 4, "0")
  y: f32[4] = aten::mul.Tensor(g, a)
  r: f32[1] = _c10d_functional::reduce_scatter_tensor(y, "avg", 4, "0")
  z: f32[1] = aten::div.Tensor(r, a)
  return z
}
EOF
ranks=0
for value in one two three four; do  # what each process has, and what it gets: its own number again
  declare -n bytes=$value
  floats in0 1 "${bytes[@]}" >"$folder/in$ranks"
  floats out0 1 "${bytes[@]}" >"$folder/out$((ranks++))"
done
cat >"$folder/rank.sh" <<'EOF'
#!/usr/bin/env bash
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:?}}
exec "$1" run "$2/model.txt" --inputs "$2/in$rank" --expect "$2/${3:-out$rank}" --threads 1
EOF
chmod +x "$folder/rank.sh"
launch=(mpirun)
mpirun --version 2>&1 | grep -q 'Open MPI' && launch+=(--oversubscribe --allow-run-as-root --bind-to none)
export TOROID_CACHE_DIR=$folder/cache

timeout 120 "${launch[@]}" -n 4 "$folder/rank.sh" "$toroid" "$folder" >"$folder/said" 2>&1 || { cat "$folder/said" && exit 1; }
[[ $(grep -c '1 tensors, 0 differ' "$folder/said") == 4 ]] || { cat "$folder/said" && exit 1; }

# The same as a package, which opens MPI by itself.
"$toroid" compile "$folder/model.txt" -o "$folder/model.so" >/dev/null
[[ $(readelf -d "$folder/model.so" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p' | grep -v ld-linux | sort | tr '\n' ' ') == "libc.so.6 libdl.so.2 libm.so.6 " ]] ||
  { readelf -d "$folder/model.so" | grep NEEDED && exit 1; }
sed -i 's/model.txt/model.so/' "$folder/rank.sh"
timeout 120 "${launch[@]}" -n 4 "$folder/rank.sh" "$toroid" "$folder" >"$folder/said" 2>&1 || { cat "$folder/said" && exit 1; }
[[ $(grep -c '1 tensors, 0 differ' "$folder/said") == 4 ]] || { cat "$folder/said" && exit 1; }

# A model that toroid cuts for two of them.
cat >"$folder/whole.txt" <<'EOF'
constant 0 "up": f32[2, 1] = [1, 2]
constant 1 "down": f32[1, 2] = [1, 1]
graph(x: f32[1, 1]) {
  up: f32[2, 1] = constant(0)
  down: f32[1, 2] = constant(1)
  a: f32[1, 2] = aten::linear(x, up)
  y: f32[1, 1] = aten::linear(a, down)
  z: f32[1] = aten::reshape(y, [1])
  return z
}
EOF
echo '* columns' >"$folder/rules"
floats in0 '1,1' "${one[@]}" >"$folder/in_of_two"
floats out0 1 "${three[@]}" >"$folder/out_of_two"
timeout 60 "${launch[@]}" -n 2 "$toroid" run "$folder/whole.txt" --tensor-parallel 2 --shard-rules "$folder/rules" --inputs "$folder/in_of_two" --expect \
  "$folder/out_of_two" --threads 1 >"$folder/said" 2>&1 || { cat "$folder/said" && exit 1; }
[[ $(grep -c '1 tensors, 0 differ' "$folder/said") == 2 ]] || { cat "$folder/said" && exit 1; }

# A Llama that toroid cuts for four of them gives in each what PyTorch's whole one gives.
llama=$(dirname "$toroid")/conformance/models/hf_llama
echo '* columns' >"$folder/rules"
timeout 120 "${launch[@]}" -n 4 "$toroid" run "$llama.pt2" --tensor-parallel 4 --shard-rules "$folder/rules" --inputs "$llama.in.safetensors" \
  --expect "$llama.out.safetensors" --threads 1 >"$folder/said" 2>&1 || { cat "$folder/said" && exit 1; }
[[ $(grep -c ' tensors, 0 differ' "$folder/said") == 4 ]] || { cat "$folder/said" && exit 1; }

# The same for two with attention by parts of the batch.
printf '*self_attn* batch\n* columns\n' >"$folder/rules"
timeout 120 "${launch[@]}" -n 2 "$toroid" run "$llama.pt2" --tensor-parallel 2 --shard-rules "$folder/rules" --inputs "$llama.in.safetensors" \
  --expect "$llama.out.safetensors" --threads 1 >"$folder/said" 2>&1 || { cat "$folder/said" && exit 1; }
[[ $(grep -c ' tensors, 0 differ' "$folder/said") == 2 ]] || { cat "$folder/said" && exit 1; }

# Processes that compile one program together: the first writes it, and it computes what it should.
"${launch[@]}" -n 2 "$toroid" compile "$folder/whole.txt" --mode max --spread -o "$folder/spread.so" >"$folder/said" 2>&1 ||
  { cat "$folder/said" && exit 1; }
[[ $(grep -cE '^part [12]/2: ' "$folder/said") == 2 && $(grep -c 'spread.so: ' "$folder/said") == 1 ]] || { cat "$folder/said" && exit 1; }
"$toroid" run "$folder/spread.so" --inputs "$folder/in_of_two" --expect "$folder/out_of_two" >"$folder/said" 2>&1 || { cat "$folder/said" && exit 1; }

# Too few of them, and one whose file is missing, in which the others would wait.
! timeout 60 "${launch[@]}" -n 2 "$folder/rank.sh" "$toroid" "$folder" >"$folder/said" 2>&1
grep -q 'the program is one of 4 processes, of which 2 run' "$folder/said" || { cat "$folder/said" && exit 1; }
rm "$folder/in2"
begin=$SECONDS
! timeout 60 "${launch[@]}" -n 4 "$folder/rank.sh" "$toroid" "$folder" >"$folder/said" 2>&1
((SECONDS - begin < 10)) || { echo "an error of one process ended the others after $((SECONDS - begin)) s" && exit 1; }

# One that is killed while all of them compute ends the others.
cat >"$folder/endless.sh" <<'EOF'
#!/usr/bin/env bash
echo $$ >"$2/pid${OMPI_COMM_WORLD_RANK:-${PMI_RANK:?}}"
exec "$1" bench "$2/model.so" --calls 100000 --threads 1
EOF
chmod +x "$folder/endless.sh"
is_there() { [[ -e /proc/$1 && $(ps -o stat= -p "$1") != Z* ]]; }
are_there() {  # any of them?
  for pid in "$@"; do ! is_there "$pid" || return 0; done
  return 1
}
compute() {  # all of them, by MPI?
  [[ $# == 4 ]] || return 1
  for pid in "$@"; do grep -qs libmpi "/proc/$pid/maps" || return 1; done
}
for signal in KILL SEGV; do
  rm -f "$folder"/pid*
  timeout 60 "${launch[@]}" -n 4 "$folder/endless.sh" "$toroid" "$folder" >"$folder/said" 2>&1 &
  all=$!
  pids=()
  for ((i = 0; i < 200; i++)); do
    ! compute "${pids[@]}" || break
    sleep 0.1
    read -r -d '' -a pids < <(cat "$folder"/pid? 2>/dev/null) || true
  done
  compute "${pids[@]}" || { echo "the processes compute nothing" && cat "$folder/said" && exit 1; }
  sleep 0.3
  begin=$SECONDS
  kill -$signal "$(cat "$folder/pid2")"
  ! wait $all || { echo "a process was killed by SIG$signal, and the launcher says that all is well" && exit 1; }
  while are_there "${pids[@]}" && ((SECONDS - begin < 10)); do sleep 0.1; done
  ((SECONDS - begin < 10)) || { echo "the end of one process by SIG$signal ended the others after more than 10 s" && exit 1; }
done
