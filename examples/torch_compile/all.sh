#!/usr/bin/env bash
# Runs all examples of this folder; fails where one does.
#
# usage: all.sh [PYTHON] [--inductor] [--own]
set -euo pipefail
python=python3
if (($#)) && [[ $1 != -* ]]; then python=$1 && shift; fi
for script in classify embed generate denoise train; do
  "$python" "$(dirname "$0")/$script.py" "$@"
done
