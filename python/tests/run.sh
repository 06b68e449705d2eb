#!/usr/bin/env bash
# Tries the wheels of a folder: each given Python, or each of 3.10 to 3.14 that is found, gets an empty environment with the wheel alone, then
# with NumPy (from PyPI). Runs the example of docs/python.md there, too. With TOROID_TEST_JAX also the tests of arrays of JAX, with
# TOROID_TORCH_PYTHON those with that Python's PyTorch.
#
# usage: [TOROID_TORCH_PYTHON=python] [TOROID_TEST_JAX=1] [TOROID_TEST_FULL=1] run.sh WHEELS [PYTHON...]
set -euo pipefail
wheels=$(realpath "${1:?"usage: run.sh WHEELS [PYTHON...]"}")
shift
tests=$(dirname "$(realpath "$0")")
root=$(realpath "$tests/../..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TOROID_CACHE_DIR=$work/cache
fail() { echo "FAIL: $1" >&2 && exit 1; }

# What is in a wheel: its size, and which symbols of the C library its libraries need.
for wheel in "$wheels"/toroid-*.whl; do
  (($(stat -c %s "$wheel") < 25000000)) || fail "$wheel has $(stat -c %s "$wheel") bytes, more than 25 MB"
  mkdir "$work/content"
  python3 -m zipfile -e "$wheel" "$work/content"
  for library in "$work"/content/toroid/*.so*; do
    needed=$(readelf -d "$library" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p' | grep -vE '^(libc|libm|libpthread|libdl|ld-linux-x86-64|libtoroid_python)\.so\.[0-9]+$' || true)
    [[ -z $needed ]] || fail "$(basename "$library") of $wheel needs $needed"
    newest=$(readelf -W --dyn-syms "$library" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1)
    [[ $(printf 'GLIBC_2.28\n%s\n' "$newest" | sort -V | tail -n 1) == GLIBC_2.28 ]] || fail "$(basename "$library") of $wheel needs $newest"
  done
  rm -r "$work/content"
  echo "$(basename "$wheel"): $(stat -c %s "$wheel") bytes, for glibc 2.28"
done

# The second block of Python in the page; the first one makes digits.pt2, which is in examples/digits.
awk '/^```python/ { inside = 1; ++block; next } /^```/ { inside = 0 } inside && block == 2' "$root/docs/python.md" >"$work/example.py"

pythons=("$@")
if ((!$#)); then
  for version in 3.10 3.11 3.12 3.13 3.14; do
    for each in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python; do
      ! "$each" -c "import sys; sys.exit('$version' != '%d.%d' % sys.version_info[:2])" 2>/dev/null || { pythons+=("$each") && break; }
    done
  done
fi
((${#pythons[@]})) || fail "no Python from 3.10 to 3.14 is here"

run_tests() { (cd "$tests" && "$@") 2>"$work/log" || { cat "$work/log" && fail "$*"; }; }

for python in "${pythons[@]}"; do
  environment=$work/environment
  "$python" -m venv --clear "$environment"
  pip=("$environment/bin/python" -m pip --quiet --disable-pip-version-check install)
  "${pip[@]}" --no-index --find-links "$wheels" toroid
  mkdir "$work/empty" && cp "$root/examples/digits/digits.pt2" "$work/empty"
  (cd "$work/empty" && "$environment/bin/python" "$work/example.py" >"$work/log" 2>&1 && "$environment/bin/toroid" version >>"$work/log") ||
    { cat "$work/log" && fail "the example of docs/python.md"; }
  rm -r "$work/empty"
  run_tests "$environment/bin/python" -m unittest -q test_models
  run_tests "$environment/bin/python" "$root/examples/python/digits.py"
  with=without
  if "${pip[@]}" numpy 2>/dev/null; then
    run_tests "$environment/bin/python" -m unittest -q test_models.NumPy test_models.WrongInputs
    with=with
  fi
  if [[ -z ${TOROID_TEST_JAX:-} ]]; then
    echo "SKIPPED: arrays of JAX, for TOROID_TEST_JAX is not set"
  elif "${pip[@]}" jax; then
    run_tests "$environment/bin/python" -m unittest -q test_jax
  else
    echo "SKIPPED: arrays of JAX, which there is none of for $("$python" --version)"
  fi
  echo "$("$python" --version): passed, $with NumPy"
done

if [[ -n ${TOROID_TORCH_PYTHON:-} ]]; then
  "$TOROID_TORCH_PYTHON" -m pip --quiet --disable-pip-version-check install --no-index --no-deps --find-links "$wheels" --target "$work/package" toroid
  PYTHONPATH=$work/package run_tests "$TOROID_TORCH_PYTHON" -W ignore -m unittest -q test_exported
  if "$TOROID_TORCH_PYTHON" -c 'import torchao' 2>/dev/null; then
    PYTHONPATH=$work/package run_tests "$TOROID_TORCH_PYTHON" -W ignore -m unittest -q test_torchao
  else
    echo "SKIPPED: test_torchao.py, for there is no torchao"
  fi
  if "$TOROID_TORCH_PYTHON" -c 'import pytest' 2>/dev/null; then
    PYTHONPATH=$work/package run_tests "$TOROID_TORCH_PYTHON" -m pytest -q -p no:cacheprovider test_torch.py test_torch_graphs.py test_torch_training.py \
      test_torch_attention.py test_torch_calls.py test_torch_updates.py
  else
    echo "SKIPPED: the tests of torch.compile, for there is no pytest"
  fi
  PYTHONPATH=$work/package run_tests "$root/examples/torch_compile/all.sh" "$TOROID_TORCH_PYTHON" --own
  PYTHONPATH=$work/package run_tests "$TOROID_TORCH_PYTHON" "$root/examples/python/generate.py"
  if "$TOROID_TORCH_PYTHON" -c 'import transformers' 2>/dev/null; then
    PYTHONPATH=$work/package run_tests "$TOROID_TORCH_PYTHON" "$root/examples/python/embed.py"
  else
    echo "SKIPPED: examples/python/embed.py, for there is no transformers"
  fi
  PYTHONPATH=$work/package "$TOROID_TORCH_PYTHON" "$tests/api_page.py" --check || fail "docs/python-api.md"
  echo "$("$TOROID_TORCH_PYTHON" --version) with PyTorch $("$TOROID_TORCH_PYTHON" -c 'import torch; print(torch.__version__)'): passed"
fi
