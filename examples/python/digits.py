"""Image classification without PyTorch and NumPy: 450 handwritten digits that the model has not seen, and how many it names right.

usage: python digits.py
"""

import json
import pathlib
import struct

import toroid

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "digits"
FORMATS = {"F32": "f", "I64": "q"}


def read_safetensors(path):
    """The tensors of the file, as views of its bytes."""
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + size])
    tensors = memoryview(data)[8 + size :]
    return {
        name: tensors[slice(*each["data_offsets"])].cast(FORMATS[each["dtype"]], each["shape"])
        for name, each in header.items()
        if name != "__metadata__"
    }


def main():
    """Classifies all images in one call."""
    tensors = read_safetensors(FOLDER / "heldout.safetensors")
    model = toroid.compile(FOLDER / "digits.pt2")
    logits = memoryview(model(tensors["in0"])).tolist()
    named = [row.index(max(row)) for row in logits]
    right = sum(digit == label for digit, label in zip(named, tensors["labels"].tolist()))
    print(f"{right} of {len(named)} digits are named right")
    assert right > 0.95 * len(named)


if __name__ == "__main__":
    main()
