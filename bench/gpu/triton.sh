#!/bin/bash
# Runs kernels in Triton on a GPU: the example's, PyTorch's recorded samples and models with fused kernels in Triton, and times of both
# languages.
#
# usage: bench/gpu/triton.sh TOROID OUT_DIR [CONFORMANCE_DIR] [EVERY]
#
# TOROID: the command. CONFORMANCE_DIR: what `./run conform` unpacks, with opinfo/ and models/. EVERY: of how many samples one is taken, 8.
# Needs a Python with Triton (TOROID_TRITON_PYTHON, else python3). Some five minutes on 16 cores. Exit 1 where the example fails.
set -u
toroid=$1 out=$2 data=${3:-build/conformance} every=${4:-8}
here=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$out"
export TOROID_CACHE_DIR=${TOROID_CACHE_DIR:-$out/cache}
failed=0

echo "== doctor"
"$toroid" doctor | tee "$out/doctor.txt"

example=$here/examples/triton
echo "== example"
for run in "" again; do
  /usr/bin/time -f "%e s" timeout 150 "$toroid" conform "$example" --operators "$example" --device cuda 2>&1 | tee "$out/example$run.txt"
  [ "${PIPESTATUS[0]}" = 0 ] || failed=1
done
for model in norm gated; do
  echo "== $model, all configurations measured"
  timeout 150 "$toroid" compile "$example/$model.pt2" -o "$out/$model.so" --operators "$example" --device cuda --mode max \
    --choices-log "$out/$model.json" 2>&1 | tee "$out/$model.max.txt"
  timeout 60 "$toroid" run "$out/$model.so" --inputs "$example/$model.in.safetensors" --expect "$example/$model.out.safetensors" \
    --device cuda 2>&1 | tee -a "$out/$model.max.txt"
done

echo "== models with fused kernels in Triton"
[ -d "$data/models" ] && timeout 240 "$toroid" conform "$data/models" --device triton --json "$out/models.json" 2>&1 | tee "$out/models.txt" | tail -12
echo "== samples of operators"
[ -d "$data/opinfo" ] &&
  timeout 400 "$toroid" conform "$data/opinfo" --device triton --every "$every" --json "$out/opinfo.json" 2>&1 | tee "$out/opinfo.txt" | tail -25

echo "== times"
program() { printf 'graph(%s) {\n%s}\n' "$2" "$3" >"$out/$1.txt"; }
program softmax 'x: f32[16384, 1024]' '  y: f32[16384, 1024] = aten::softmax.int(x, 1)
  return y
'
program long_softmax 'x: bf16[2048, 32000]' '  y: bf16[2048, 32000] = aten::softmax.int(x, 1)
  return y
'
program layer_norm 'x: bf16[16384, 2048], w: bf16[2048], b: bf16[2048]' '  y: bf16[16384, 2048] = aten::layer_norm(x, [2048], w, b)
  return y
'
program gelu_map 'x: bf16[8192, 8192], y: bf16[8192, 8192]' '  g: bf16[8192, 8192] = aten::gelu(x)
  z: bf16[8192, 8192] = aten::mul.Tensor(g, y)
  return z
'
for name in softmax long_softmax layer_norm gelu_map; do
  for device in cuda triton; do
    echo "$name $device: $(timeout 60 "$toroid" bench "$out/$name.txt" --device $device --seconds 0.3 2>&1 | grep -m 1 -E 'ms a call|error')"
  done
done | tee "$out/times.txt"
timeout 100 "$toroid" compile "$out/layer_norm.txt" -o "$out/layer_norm.so" --device triton --mode max 2>&1 | tee "$out/layer_norm.max.txt"
exit $failed
