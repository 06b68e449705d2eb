#!/usr/bin/env python3
"""Collective operations among GPUs of one machine, by toroid's programs and by NCCL as PyTorch calls it.

usage: collectives.py TOROID OUT_DIR --mpi libshared_mpi.so [--ranks 2] [--mebibytes 1 4 16 64 256] [--calls 20]

Each program, and each graph of PyTorch's, has 8 operations of one kind one after the other, on bfloat16 tensors of so many MiB in each process
(all_gather: of the result; reduce_scatter: of the operand). Times are those of one operation, by events, the least of two turns; a ratio is
NCCL's time over toroid's. PyTorch's is the better of its calls one by one and as a CUDA graph. Writes OUT_DIR/collectives.json.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

OPERATIONS = 8
NAMES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")


def program(name, elements, ranks):
    """Text of a program, and how many elements its input has."""
    part = elements // ranks
    given, made = {"all_gather": (part, elements), "reduce_scatter": (elements, part)}.get(name, (elements, elements))
    rows = ", ".join([str(part)] * ranks)
    call = {"all_reduce": '_c10d_functional::all_reduce(x, "avg", "0")',
            "all_gather": f'_c10d_functional::all_gather_into_tensor(x, {ranks}, "0")',
            "reduce_scatter": f'_c10d_functional::reduce_scatter_tensor(x, "avg", {ranks}, "0")',
            "all_to_all": f'_c10d_functional::all_to_all_single(x, [{rows}], [{rows}], "0")',
            "broadcast": '_c10d_functional::broadcast(x, 0, "0")'}[name]
    lines = "".join(f"  y{i}: bf16[{made}] = {call}\n" for i in range(OPERATIONS))
    return f"graph(x: bf16[{given}]) {{\n{lines}  return y{OPERATIONS - 1}\n}}\n"


def of_pytorch(rank, ranks, port, sizes, calls, out):
    """Seconds of one operation by name and size, written by rank 0."""
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks,
                            device_id=torch.device("cuda", rank))
    result = {}
    for name in NAMES:
        for mebibytes in sizes:
            elements = mebibytes * 2**20 // 2
            whole, other = (torch.zeros(elements, dtype=torch.bfloat16, device="cuda") for _ in range(2))
            part = whole[:elements // ranks].clone()
            call = {"all_reduce": lambda: dist.all_reduce(whole, dist.ReduceOp.AVG),
                    "all_gather": lambda: dist.all_gather_into_tensor(whole, part),
                    "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole, dist.ReduceOp.AVG),
                    "all_to_all": lambda: dist.all_to_all_single(other, whole),
                    "broadcast": lambda: dist.broadcast(whole, 0)}[name]

            def several():
                for _ in range(OPERATIONS):
                    call()

            several()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                several()
            best = float("inf")
            for run in (several, graph.replay) * 2:
                run()
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                for _ in range(calls):
                    run()
                end.record()
                torch.cuda.synchronize()
                best = min(best, begin.elapsed_time(end) / 1e3 / calls / OPERATIONS)
            result[f"{name} {mebibytes}"] = best
    if rank == 0:
        with open(out, "w") as file:
            json.dump(result, file)
    dist.barrier()
    os._exit(0)  # graphs that hold the communicator would be destroyed after it


def of_toroid(options, folder, name, mebibytes):
    path, shared = f"{folder}/{name}{mebibytes}.txt", f"{folder}/shared"
    with open(path, "w") as file:
        file.write(program(name, mebibytes * 2**20 // 2, options.ranks))
    best = float("inf")
    for _ in range(2):
        with open(shared, "wb") as file:
            file.truncate(16 << 20)
        started = []
        for rank in range(options.ranks):
            environment = {**os.environ, "TOROID_MPI": os.path.abspath(options.mpi), "SHARED_MPI_FILE": shared,
                           "SHARED_MPI_SIZE": str(options.ranks), "SHARED_MPI_RANK": str(rank)}
            command = [options.toroid, "bench", path, "--device", f"cuda:{rank}", "--calls", str(options.calls), "--json",
                       f"{folder}/{rank}.json"]
            started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        said = [each.communicate(timeout=120)[0] for each in started]
        if any(each.returncode != 0 for each in started):
            raise RuntimeError("\n".join(said))
        times = [json.load(open(f"{folder}/{rank}.json"))["median_ms"] for rank in range(options.ranks)]
        best = min(best, max(times) / 1e3 / OPERATIONS)
    return best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("toroid")
    parser.add_argument("out")
    parser.add_argument("--mpi", required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--mebibytes", type=int, nargs="+", default=[1, 4, 16, 64, 256])
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        import multiprocessing

        context = multiprocessing.get_context("spawn")
        port = 20000 + os.getpid() % 20000
        workers = [context.Process(target=of_pytorch, args=(rank, options.ranks, port, options.mebibytes, options.calls, f"{folder}/nccl"))
                   for rank in range(options.ranks)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        nccl = json.load(open(f"{folder}/nccl"))
        rows = []
        for name in NAMES:
            for mebibytes in options.mebibytes:
                own, theirs = of_toroid(options, folder, name, mebibytes), nccl[f"{name} {mebibytes}"]
                rows.append({"operation": name, "mebibytes": mebibytes, "toroid_us": own * 1e6, "nccl_us": theirs * 1e6,
                             "ratio": theirs / own})
                print("{operation:15} {mebibytes:4} MiB  toroid {toroid_us:8.1f} us  NCCL {nccl_us:8.1f} us  {ratio:.3f}".format(**rows[-1]),
                      flush=True)
    with open(f"{options.out}/collectives.json", "w") as file:
        json.dump(rows, file)


if __name__ == "__main__":
    main()
