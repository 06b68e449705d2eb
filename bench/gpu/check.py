#!/usr/bin/env python3
"""Checks and times toroid on a GPU in one go: conformance, then rows against PyTorch eager, both on the same device in the same run.

usage: check.py TOROID CONFORMANCE_DIR OUT_DIR [--suites models,control_flow,opinfo] [--rows softmax,…] [--jobs N]

TOROID: the command. CONFORMANCE_DIR: with folders of recorded cases, as the build unpacks them. Needs PyTorch with CUDA for the rows, whose
programs it exports. Writes OUT_DIR/SUITE.json, OUT_DIR/SUITE.txt and OUT_DIR/rows.json; prints a table last.
"""
import argparse
import json
import os
import subprocess
import sys
import time


def run(command, log, timeout):
    begin = time.time()
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout)
        text, code = result.stdout, result.returncode
    except subprocess.TimeoutExpired as error:
        text, code = (error.stdout or b"").decode(errors="replace") + "\ntimed out", 124
    if log:
        with open(log, "w") as file:
            file.write(" ".join(command) + "\n" + text)
    return code, text, time.time() - begin


def rows(torch):
    """Name, function, arguments on the device (as tools/bench_peers.py has them)."""
    functional = torch.nn.functional
    many = 64 << 20
    make = lambda *sizes, **how: torch.randn(*sizes, device="cuda", dtype=how.get("dtype", torch.bfloat16))
    yield "pointwise_gelu_chain", lambda x, y: functional.gelu(x * y + 1.0) * torch.sigmoid(y), lambda: (make(many), make(many))
    yield "softmax", lambda x: torch.softmax(x, -1), lambda: (make(16384, 4096),)
    yield ("layernorm_residual_gelu", lambda x, r, w, b: functional.gelu(functional.layer_norm(x + r, (x.shape[-1],), w, b)),
           lambda: (make(16384, 4096), make(16384, 4096), make(4096), make(4096)))
    yield ("rmsnorm", lambda x, w: x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype) * w,
           lambda: (make(16384, 4096), make(4096)))
    yield "sum_dim0", lambda x: x.sum(0), lambda: (make(16384, 4096),)
    yield "full_sum_sq", lambda x: (x * x).sum(), lambda: (make(many),)
    yield ("cross_entropy", lambda x, t: functional.cross_entropy(x.float(), t),
           lambda: (make(8192, 32000), torch.randint(0, 32000, (8192,), device="cuda")))
    yield "transpose_add", lambda x, y: x.t() + y, lambda: (make(8192, 8192), make(8192, 8192))
    yield ("linear_gelu", lambda x, w, b: functional.gelu(functional.linear(x, w, b)),
           lambda: (make(8192, 4096), make(4096, 4096), make(4096)))
    yield "mm_square", lambda a, b: a @ b, lambda: (make(8192, 8192), make(8192, 8192))
    yield "mm_skinny_decode", lambda a, b: a @ b, lambda: (make(8, 4096), make(4096, 14336))
    yield "bmm", lambda a, b: torch.bmm(a, b), lambda: (make(64, 1024, 128), make(64, 128, 1024))
    yield "mlp", mlp(torch), lambda: (make(8192, 1024),)
    yield "bert_base_b32_s256", bert(torch), lambda: (torch.randint(0, 30000, (32, 256), device="cuda"),)


def mlp(torch):
    layers = [torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024), torch.nn.LayerNorm(1024)]
    return torch.nn.Sequential(*layers).to(torch.bfloat16).eval()


def bert(torch):
    try:
        import transformers
    except ImportError:
        return None
    return transformers.BertModel(transformers.BertConfig()).to(torch.bfloat16).eval()



def as_module(torch, function):
    class Wrapped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            if isinstance(function, torch.nn.Module):
                self.inner = function

        def forward(self, *inputs):
            result = function(*inputs)
            return result if isinstance(result, torch.Tensor) else result[0]

    return Wrapped().eval()


def time_row(torch, toroid, name, function, make, out, scratch):
    """Both sides, and how far their results are apart: the norm of the difference over that of PyTorch's."""
    from safetensors.torch import load_file, save_file
    from triton.testing import do_bench

    path = lambda kind: os.path.join(scratch, f"{name}.{kind}")
    arguments = make()
    module = as_module(torch, function)
    with torch.no_grad():
        exported = torch.export.export(module.cpu(), tuple(each.cpu() for each in arguments))
        torch.export.save(exported, path("pt2"))
        module.cuda()
        eager = do_bench(lambda: module(*arguments), warmup=30, rep=120, return_mode="median")
        expected = module(*arguments).float()
    save_file({f"in{i}": each.cpu().contiguous() for i, each in enumerate(arguments)}, path("in"))
    del arguments
    module.cpu()
    torch.cuda.empty_cache()
    row = {"row": name, "eager_ms": eager}
    bench = [toroid, "bench", path("pt2"), "--inputs", path("in"), "--device", "cuda", "--seconds", "0.3", "--json", path("json")]
    code, text, row["bench_wall_s"] = run(bench, os.path.join(out, name + ".txt"), 60)
    if code != 0:
        return {**row, "error": text.strip().splitlines()[0][:200]}
    with open(path("json")) as file:
        measured = json.load(file)
    row.update(toroid_ms=measured["median_ms"], compile_s=measured["compile_s"], kernels=measured["kernel_calls"])
    code, text, _ = run([toroid, "run", path("pt2"), "--inputs", path("in"), "--device", "cuda", "--outputs", path("out")], None, 60)
    if code != 0:
        return {**row, "error": text.strip().splitlines()[0][:200]}
    got = load_file(path("out"))["out0"].float().cuda().reshape(expected.shape)
    row["difference"] = ((got - expected).norm() / expected.norm()).item()
    for kind in ("pt2", "in", "json", "out"):
        os.remove(path(kind))
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("toroid")
    parser.add_argument("conformance")
    parser.add_argument("out")
    parser.add_argument("--suites", default="models,control_flow,opinfo")
    parser.add_argument("--rows", default="all")
    parser.add_argument("--jobs", default=str(os.cpu_count()))
    parser.add_argument("--suite-seconds", type=float, default=200)
    options = parser.parse_args()
    summary = []
    for suite in filter(None, options.suites.split(",")):
        report = os.path.join(options.out, suite + ".json")
        command = [options.toroid, "conform", os.path.join(options.conformance, suite), "--device", "cuda", "--jobs", options.jobs,
                   "--json", report]
        code, text, seconds = run(command, os.path.join(options.out, suite + ".txt"), options.suite_seconds)
        summary.append(f"{suite:<12} {text.strip().splitlines()[-1] if text.strip() else code} in {seconds:.0f} s")
        print(summary[-1], flush=True)
    if options.rows != "none":
        import tempfile

        import torch

        scratch = tempfile.mkdtemp()
        wanted = None if options.rows == "all" else options.rows.split(",")
        results = []
        for name, function, make in rows(torch):
            if function is None or (wanted and name not in wanted):
                continue
            try:
                results.append(time_row(torch, options.toroid, name, function, make, options.out, scratch))
            except Exception as error:  # one row must not end the others
                results.append({"row": name, "error": str(error)[:200]})
            print(json.dumps(results[-1]), flush=True)
        with open(os.path.join(options.out, "rows.json"), "w") as file:
            json.dump({"device": torch.cuda.get_device_name(0), "torch": torch.__version__, "rows": results}, file, indent=1)
        print(f"\n{'row':<26}{'eager ms':>10}{'toroid ms':>10}{'ratio':>8}{'compile':>9}{'difference':>12}")
        for each in results:
            if "toroid_ms" in each:
                ratio = each["eager_ms"] / each["toroid_ms"]
                print(f"{each['row']:<26}{each['eager_ms']:>10.3f}{each['toroid_ms']:>10.3f}{ratio:>8.2f}{each['compile_s']:>8.1f}s"
                      f"{each.get('difference', float('nan')):>12.1e} {each.get('error', '')}")
            else:
                print(f"{each['row']:<26} {each.get('error')}")
    print("\n".join(summary))


if __name__ == "__main__":
    sys.exit(main())
