#!/usr/bin/env python3
"""A Llama (8 layers of 2,048, 4 x 1,024 tokens, bfloat16) cut for several GPUs of one machine, beside the whole on one.

usage: tensor_parallel.py TOROID OUT_DIR [--gpus 2] [--calls 30] [--mpi libshared_mpi.so]

Each process has its heads of attention and its part of the perceptrons, and all add what they give, twice a layer. Compares the results of
all with those of one GPU, and times both: on the GPUs, by events, calls as CUDA graphs. --mpi: the tests' own MPI
(tests/collectives/shared_mpi.c), for machines without a launcher; else the processes are started by mpirun. Writes OUT_DIR/result.json.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

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


def export(folder, rank, size):
    import torch

    torch.manual_seed(0)
    model = models.llama(torch).to(torch.bfloat16).eval()
    tokens = torch.randint(0, 32000, (4, 1024))
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


def in_all_ranks(options, folder, command):
    """Runs command(rank) in every rank at once; what they said, or an exception."""
    if options.mpi is None:
        script = "".join(f"[ $r = {rank} ] && exec {' '.join(command(rank))}\n" for rank in range(options.gpus))
        run = ["mpirun", "-n", str(options.gpus), "bash", "-c", "r=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\n" + script]
        return [subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True).stdout]
    shared = os.path.join(folder, "shared")
    with open(shared, "wb") as file:
        file.truncate(16 << 20)
    environment = lambda rank: {**os.environ, "TOROID_MPI": os.path.abspath(options.mpi), "SHARED_MPI_FILE": shared,
                                "SHARED_MPI_SIZE": str(options.gpus), "SHARED_MPI_RANK": str(rank)}
    started = [subprocess.Popen(command(rank), env=environment(rank), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
               for rank in range(options.gpus)]
    said = [each.communicate(timeout=180)[0] for each in started]
    if any(each.returncode != 0 for each in started):
        raise RuntimeError("\n".join(said))
    return said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("toroid")
    parser.add_argument("out")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--calls", type=int, default=30)
    parser.add_argument("--mpi")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        exports = [subprocess.Popen([sys.executable, __file__, "export", folder, str(rank), str(size)])
                   for size in (1, options.gpus) for rank in range(size)]
        assert all(each.wait() == 0 for each in exports), "an export failed"
        given = ["--inputs", f"{folder}/in"]
        subprocess.run([options.toroid, "run", f"{folder}/1.0.pt2", *given, "--device", "cuda", "--outputs", f"{folder}/whole"], check=True)
        model = lambda rank: f"{folder}/{options.gpus}.{rank}.pt2"
        in_all_ranks(options, folder, lambda rank: [options.toroid, "run", model(rank), *given, "--device", f"cuda:{rank}",
                                                    "--outputs", f"{folder}/part{rank}"])
        from safetensors.torch import load_file

        whole = load_file(f"{folder}/whole")["out0"].float()
        result = {"difference": [((load_file(f"{folder}/part{rank}")["out0"].float() - whole).norm() / whole.norm()).item()
                                 for rank in range(options.gpus)]}
        bench = lambda path, device, name: [options.toroid, "bench", path, *given, "--device", device, "--calls", str(options.calls),
                                            "--json", f"{options.out}/{name}.json"]
        milliseconds = lambda name: json.load(open(f"{options.out}/{name}.json"))["median_ms"]
        for turn in range(2):
            subprocess.run(bench(f"{folder}/1.0.pt2", "cuda:0", "whole"), check=True, stdout=subprocess.DEVNULL)
            said = in_all_ranks(options, folder, lambda rank: bench(model(rank), f"cuda:{rank}", f"part{rank}"))
            result["one_ms"] = min(milliseconds("whole"), result.get("one_ms", 1e9))
            result["several_ms"] = min(max(milliseconds(f"part{rank}") for rank in range(options.gpus)), result.get("several_ms", 1e9))
        print("\n".join(said))
        result["ratio"] = result["one_ms"] / result["several_ms"]
        with open(f"{options.out}/result.json", "w") as file:
            json.dump(result, file)
        print(json.dumps(result))


if __name__ == "__main__":
    if sys.argv[1:2] == ["export"]:
        export(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
