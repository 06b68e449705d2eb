#!/usr/bin/env bash
# bench/torch_compile on a machine with many cores: builds toroid and its Python package into build/, then runs a part of it.
#
# usage: server.sh correct|train|speed [PYTHON] [JOBS] [SECONDS-A-MODEL]    results in OUT, or build/
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/../.."
part=${1:?"usage: server.sh correct|train|speed [PYTHON] [JOBS] [SECONDS-A-MODEL]"}
python=${2:-python3} jobs=${3:-$(($(nproc) / 2))} limit=${4:-100}
if [[ ! -e build/CMakeCache.txt ]]; then cmake --preset release >build.log 2>&1 || { tail -20 build.log && exit 1; }; fi
ninja -C build toroid_compile toroid >build.log 2>&1 || { tail -20 build.log && exit 1; }
python/develop.sh build "$python" build/python_develop
export PYTHONPATH=$PWD/build/python_develop OUT=${OUT:-build}
mkdir -p "$OUT"
case $part in
  correct) more=(--threads 2) ;;
  train) more=(--threads 2 --train) ;;
  speed) more=(--threads $(($(nproc) / jobs)) --timed --speed --backends toroid,inductor) ;;
  *) echo "error: '$part' is no part" && exit 2 ;;
esac
"$python" bench/torch_compile/run.py --jobs "$jobs" --timeout "$limit" "${more[@]}" --json "$OUT/$part.json" 2>&1 | tee "$OUT/$part.txt"
