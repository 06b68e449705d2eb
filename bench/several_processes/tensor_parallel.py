#!/usr/bin/env python3
"""A Llama cut for several GPUs of one machine, or several processes on its processors, beside the whole on one.

usage: tensor_parallel.py TOROID OUT_DIR [--device cuda] [--ranks 2] [--calls 30] [--cut toroid]
                           [--mpi libshared_mpi.so] [--also "NAME=VALUE … --flag …"]… [--kernels]

On GPUs: 8 layers of 2,048, 4 x 1,024 tokens, bfloat16. On processors: 4 layers of 512, 2 x 128 tokens, float32, a thread each. Each process
has its heads of attention and its part of the perceptrons, and all add what they give, twice a layer. --cut: who cuts the model: this
script, in PyTorch, or toroid (--tensor-parallel), which cuts attention by the batch where that is quicker by estimate. Compares the results
of all with those of the whole, and times both: on GPUs by events, calls as CUDA graphs. --mpi: the tests' own MPI
(tests/collectives/shared_mpi.c), for machines without a launcher; else the processes are started by mpirun. --also: times the several with
these variables of the environment and flags of toroid, too. --kernels: prints the steps' times of process 0. Writes OUT_DIR/result.json.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gpu"))
import models


def cut(torch, dist, model, rank, size):
    """The model's part for this rank."""
    import torch.distributed._functional_collectives as collectives

    class Added(torch.nn.Module):
        def __init__(self, part):
            super().__init__()
            self.part = part

        def forward(self, x):
            return collectives.all_reduce(self.part(x), "sum", dist.group.WORLD)

    def part(linear, dim):
        rows = linear.weight.detach().chunk(size, dim)[rank].contiguous()
        made = torch.nn.Linear(rows.shape[1], rows.shape[0], bias=False)
        made.weight = torch.nn.Parameter(rows)
        return made

    for block in model.blocks:
        for name in ("q", "k", "v", "gate", "up"):
            setattr(block, name, part(getattr(block, name), 0))
        for name in ("out", "down"):
            setattr(block, name, Added(part(getattr(block, name), 1)))
    return model


def export(folder, device, rank, size):
    import torch

    torch.manual_seed(0)
    if device == "cuda":
        model, tokens = models.llama(torch).to(torch.bfloat16).eval(), torch.randint(0, 32000, (4, 1024))
    else:
        model = models.llama(torch, width=512, inner=1408, layers=4, heads=8, kv_heads=4, words=4000, length=128).eval()
        tokens = torch.randint(0, 4000, (2, 128))
    if size > 1:
        import torch.distributed as dist
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", world_size=size, rank=rank, store=FakeStore())
        model = cut(torch, dist, model, rank, size)
    else:
        from safetensors.torch import save_file

        save_file({"in0": tokens}, f"{folder}/in")
    with torch.no_grad():
        torch.export.save(torch.export.export(model, (tokens,)), f"{folder}/{size}.{rank}.pt2")


def in_all_ranks(options, folder, command, variables={}):
    """Runs command(rank) in every rank at once; what they said, or an exception."""
    if options.mpi is None:
        script = "".join(f"[ $r = {rank} ] && exec {' '.join(command(rank))}\n" for rank in range(options.ranks))
        launcher = ["mpirun", "-n", str(options.ranks)]
        if "Open MPI" in subprocess.run(["mpirun", "--version"], stdout=subprocess.PIPE, text=True).stdout:
            launcher += ["--oversubscribe", "--allow-run-as-root"]
        run = [*launcher, "bash", "-c", "r=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\n" + script]
        return [subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables}).stdout]
    shared = os.path.join(folder, "shared")
    with open(shared, "wb") as file:
        file.truncate(16 << 20)
    environment = lambda rank: {**os.environ, **variables, "TOROID_MPI": os.path.abspath(options.mpi), "SHARED_MPI_FILE": shared,
                                "SHARED_MPI_SIZE": str(options.ranks), "SHARED_MPI_RANK": str(rank)}
    started = [subprocess.Popen(command(rank), env=environment(rank), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
               for rank in range(options.ranks)]
    said = [each.communicate(timeout=180)[0] for each in started]
    if any(each.returncode != 0 for each in started):
        raise RuntimeError("\n".join(said))
    return said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("toroid")
    parser.add_argument("out")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--calls", type=int, default=30)
    parser.add_argument("--cut", choices=("torch", "toroid"), default="torch")
    parser.add_argument("--mpi")
    parser.add_argument("--also", action="append", default=[])
    parser.add_argument("--kernels", action="store_true")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    is_gpu = options.device == "cuda"
    on = lambda rank: ["--device", f"cuda:{rank}"] if is_gpu else ["--threads", "1"]
    with tempfile.TemporaryDirectory() as folder:
        exports = [subprocess.Popen([sys.executable, __file__, "export", folder, options.device, str(rank), str(size)])
                   for size in ((1, options.ranks) if options.cut == "torch" else (1,)) for rank in range(size)]
        assert all(each.wait() == 0 for each in exports), "an export failed"
        given = ["--inputs", f"{folder}/in"]
        by_toroid = lambda size: options.cut == "toroid" and size > 1
        flags = lambda size, rank: ["--tensor-parallel", str(size), "--rank", str(rank)] if by_toroid(size) else []
        model = lambda size, rank: f"{folder}/1.0.pt2" if by_toroid(size) else f"{folder}/{size}.{rank}.pt2"
        run = lambda size, rank, out: [options.toroid, "run", model(size, rank), *flags(size, rank), *given, *on(rank), "--outputs",
                                       f"{folder}/{out}"]
        subprocess.run(run(1, 0, "whole"), check=True)
        in_all_ranks(options, folder, lambda rank: run(options.ranks, rank, f"part{rank}"))
        from safetensors.torch import load_file

        whole = load_file(f"{folder}/whole")["out0"].float()
        result = {"difference": [((load_file(f"{folder}/part{rank}")["out0"].float() - whole).norm() / whole.norm()).item()
                                 for rank in range(options.ranks)]}
        bench = lambda size, rank, name: [options.toroid, "bench", model(size, rank), *flags(size, rank), *given, *on(rank), "--calls",
                                          str(options.calls),
                                          "--json", f"{options.out}/{name}.json"]
        milliseconds = lambda name: json.load(open(f"{options.out}/{name}.json"))["median_ms"]
        for turn in range(2):
            subprocess.run(bench(1, 0, "whole"), check=True, stdout=subprocess.DEVNULL)
            said = in_all_ranks(options, folder, lambda rank: bench(options.ranks, rank, f"part{rank}"))
            result["one_ms"] = min(milliseconds("whole"), result.get("one_ms", 1e9))
            result["several_ms"] = min(max(milliseconds(f"part{rank}") for rank in range(options.ranks)), result.get("several_ms", 1e9))
        print("\n".join(said))
        result["ratio"] = result["one_ms"] / result["several_ms"]
        result["also"] = {}
        for also in options.also:
            words = also.split()
            variables = dict(word.split("=", 1) for word in words if not word.startswith("--") and "=" in word)
            more = [word for word in words if word.split("=", 1)[0] not in variables]
            command = lambda rank: [*bench(options.ranks, rank, f"also{rank}"), *more]
            try:
                for turn in range(2):
                    in_all_ranks(options, folder, command, variables)
                    ms = max(milliseconds(f"also{rank}") for rank in range(options.ranks))
                    result["also"][also] = min(ms, result["also"].get(also, 1e9))
            except RuntimeError as error:
                result["also"][also] = str(error)[-400:]
            print(f"{also}: {result['also'][also]}", flush=True)
        if options.kernels:
            print(in_all_ranks(options, folder, lambda rank: [*bench(options.ranks, rank, f"kernels{rank}"), "--kernels"])[0])
        with open(f"{options.out}/result.json", "w") as file:
            json.dump(result, file)
        print(json.dumps(result))


if __name__ == "__main__":
    if sys.argv[1:2] == ["export"]:
        export(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        main()
