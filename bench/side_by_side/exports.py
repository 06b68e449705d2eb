"""Rows and models on disk, in the forms that the sides read, so that only the first run exports.

One program is five files in a folder:

    STEM.pt2               torch.export: toroid, eager and torch.compile
    STEM.onnx              ONNX Runtime and OpenVINO (weights inside)
    STEM.in.safetensors    in0, in1, ...
    STEM.out.safetensors   out0, out1, ...: what eager PyTorch gives
    STEM.made.json         what they were made from; when this differs they are made anew

Where the conversion to ONNX fails, STEM.onnx.error holds the reason.
"""

import hashlib
import importlib.metadata
import inspect
import json
import pathlib

import torch
from safetensors.torch import load_file, save_file
from torch.utils import _pytree as pytree

from . import large_rows, models, quantised, rows

LIBRARY_PACKAGES = {"torchvision": "torchvision", "timm": "timm", "hf": "transformers"}


class Export:
    """The files of one program; `name` is what the table calls it."""

    def __init__(self, name, folder, stem):
        self.name = name
        self.spec = name
        self.full = None  # of a model in fewer bits: the export of the same in float32
        base = pathlib.Path(folder) / stem
        self.pt2, self.onnx, self.onnx_error, self.inputs, self.outputs, self.made = (
            base.with_name(base.name + suffix)
            for suffix in (".pt2", ".onnx", ".onnx.error", ".in.safetensors", ".out.safetensors", ".made.json")
        )

    def load_inputs(self):
        """In memory that is aligned as tensors' are: where the file is mapped, they begin anywhere, and vectors lie in two lines of the cache."""
        return tuple(tensor.clone() for tensor in load_numbered(self.inputs, "in"))

    def numbers(self):
        """What stands behind the model's @; empty: float32."""
        return self.spec.partition("@")[2]

    def load_outputs(self):
        return load_numbered(self.outputs, "out")


def load_numbered(path, prefix):
    """The tensors prefix0, prefix1, ... of a file, in order."""
    stored = load_file(path)
    return tuple(stored[f"{prefix}{i}"] for i in range(len(stored)))


def save_numbered(tensors, prefix, path):
    save_file({f"{prefix}{i}": tensor.contiguous() for i, tensor in enumerate(tensors)}, path)


def recipe(name, batch):
    """Everything the files of a row or model depend on."""
    packages = ["torch", "onnxscript"]
    if models.is_model(name):
        packages.append(LIBRARY_PACKAGES[name.split(":")[0]])
    source = inspect.getsource(models if models.is_model(name) else rows)
    if "@" in name:
        source += inspect.getsource(quantised)
    if name in large_rows.LARGE_ROWS:
        source += inspect.getsource(large_rows)
    return {
        "name": name,
        "batch": batch,
        "packages": {package: importlib.metadata.version(package) for package in packages},
        "source": hashlib.sha256(source.encode()).hexdigest()[:16],
    }


def export(name, batch, folder):
    """The export of a row or model, made unless the folder has it already."""
    is_model = models.is_model(name)
    found = Export(name, folder, models.file_stem(name, batch) if is_model else name)
    if is_model and "@" in name:
        found.full = export(name.partition("@")[0], batch, folder)
    made_from = recipe(name, batch if is_model else 1)
    if found.made.exists() and json.loads(found.made.read_text()) == made_from:
        return found
    found.made.parent.mkdir(parents=True, exist_ok=True)
    found.made.unlink(missing_ok=True)
    row_maker = large_rows if name in large_rows.LARGE_ROWS else rows
    module, args = models.build_model(name, batch) if is_model else row_maker.build_row(name)
    with torch.no_grad():
        save_numbered(pytree.tree_leaves(module(*args)), "out", found.outputs)
        program = torch.export.export(module, args, strict=False)
    program.example_inputs = None  # else the archive carries them as a pickle
    torch.export.save(program, found.pt2)
    save_numbered(args, "in", found.inputs)
    if found.full is not None and name.partition("@")[2] in quantised.FROM_ONNX:
        quantised.quantise_onnx(name.partition("@")[2], found.full.onnx, found.onnx)
    else:
        convert_to_onnx(program, args, found)
    found.made.write_text(json.dumps(made_from, indent=1))
    return found


def adopt(pt2, folder):
    """The export around a given program with its inputs beside it (STEM.in.safetensors); the rest is made in the folder."""
    pt2 = pathlib.Path(pt2)
    given = Export(pt2.stem, pt2.parent, pt2.stem)
    key = hashlib.sha256(pt2.read_bytes()).hexdigest()[:16]
    found = Export(pt2.stem, folder, f"{pt2.stem}.{key}")
    found.pt2, found.inputs = given.pt2, given.inputs
    if not found.outputs.exists():
        found.outputs.parent.mkdir(parents=True, exist_ok=True)
        program, args = torch.export.load(pt2), found.load_inputs()
        convert_to_onnx(program, args, found)
        with torch.no_grad():
            save_numbered(pytree.tree_leaves(program.module()(*args)), "out", found.outputs)
    return found


def convert_to_onnx(program, args, export):
    export.onnx.unlink(missing_ok=True)
    export.onnx_error.unlink(missing_ok=True)
    try:
        torch.onnx.export(program, args, export.onnx, dynamo=True, external_data=False, verbose=False)
    except Exception as error:  # what cannot be converted is a fact of the table
        export.onnx_error.write_text(f"torch.onnx.export: {error}"[:2000])
