"""What the tests share: programs, arrays without NumPy, models with trees of their own."""

import array
import contextlib
import json
import os
import pathlib
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "c_api" / "programs"
DIGITS = ROOT / "examples" / "digits" / "digits.pt2"
IS_FULL = os.environ.get("TOROID_TEST_FULL") == "1"

try:
    import numpy
except ImportError:
    numpy = None


def floats(*shape, value=0.5):
    """A float32 array of that shape, of the standard library alone."""
    count = 1
    for size in shape:
        count *= size
    return memoryview(array.array("f", [value] * count)).cast("B").cast("f", shape)


def integers(values):
    """An int32 array of rank 1."""
    return memoryview(array.array("i", values))


def values(result):
    """The elements of an array of any library, as nested lists."""
    return memoryview(result).tolist() if not hasattr(result, "tolist") else result.tolist()


@contextlib.contextmanager
def written(text):
    """The path of a file with the text, for as long as the block runs."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "program.txt")
        path.write_text(text)
        yield path


def leaf():
    """A leaf of a tree."""
    return {"type": None, "context": None, "children_spec": []}


def mapping(**children):
    """A dict in a tree."""
    return {"type": "builtins.dict", "context": json.dumps(list(children)), "children_spec": list(children.values())}


def sequence(*children, kind="builtins.tuple"):
    """A tuple or list in a tree."""
    return {"type": kind, "context": "null", "children_spec": list(children)}


def with_trees(path, new, arguments, keywords, results, names, constants=()):
    """A copy of a .pt2 with one input and one result, which is called by other trees. constants: further leaves behind the input."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(new, "w") as archive:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("models/model.json"):
                model = json.loads(data)
                module = model["graph_module"]
                call = module["module_call_graph"][0]["signature"]
                call["in_spec"] = json.dumps([1, sequence(sequence(*arguments), mapping(**keywords))])
                call["out_spec"] = json.dumps([1, results])
                call["forward_arg_names"] = names
                for number, value in enumerate(constants):
                    module["signature"]["input_specs"].append({"constant_input": {"name": f"constant_{number}", "value": value}})
                    module["graph"]["inputs"].append(value)
                data = json.dumps(model).encode()
            archive.writestr(name, data)
