"""Trees of arguments and results, as torch.export wrote them down, without PyTorch.

A compiled program takes a list of arrays and gives one. What the model's forward() takes and returns are trees of tuples, lists, dicts and
others, which the package keeps as the texts of PyTorch's `treespec_dumps`: [1, node], where a node is {"type": T, "context": C,
"children_spec": [node, ...]} and a leaf has the type null.
"""

import collections
import dataclasses
import json
import sys

from toroid.errors import ArgumentError, InputError

_LEAF = object()


class Results(dict):
    """Results by name, as a model's output class has them that is not loaded here: also `results.logits` and `results[0]`."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, key):
        return list(self.values())[key] if isinstance(key, (int, slice)) else super().__getitem__(key)


@dataclasses.dataclass
class Node:
    """A node of a tree: `kind` is "leaf", "sequence" or "mapping"; `type` is PyTorch's name of its class."""

    kind: str
    type: str = ""
    keys: list = dataclasses.field(default_factory=list)
    children: list = dataclasses.field(default_factory=list)

    def leaves(self):
        """How many leaves are below."""
        return 1 if self.kind == "leaf" else sum(child.leaves() for child in self.children)


_SEQUENCES = {
    "builtins.tuple": tuple,
    "builtins.list": list,
    "collections.deque": collections.deque,
    "torch.fx.immutable_collections.immutable_list": list,
    "torch.Size": tuple,
}
_MAPPINGS = ("builtins.dict", "collections.OrderedDict", "collections.defaultdict", "torch.fx.immutable_collections.immutable_dict")


def _decoded(context):
    if isinstance(context, str):
        try:
            return json.loads(context)
        except ValueError:
            return None
    return context


def _node(spec, namedtuples):
    if spec["type"] is None:
        return Node("leaf")
    children = [_node(child, namedtuples) for child in spec["children_spec"]]
    name = spec["type"]
    if name in _SEQUENCES:
        return Node("sequence", name, [], children)
    context = _decoded(spec["context"])
    if name == "collections.namedtuple":
        fields = namedtuples.get(spec["context"], {}).get("field_names")
        return Node("mapping" if fields else "sequence", "namedtuple:" + str(spec["context"]), fields or [], children)
    if isinstance(context, dict) and "dict_context" in context:  # a defaultdict
        context = context["dict_context"]
    if isinstance(context, list) and context and isinstance(context[0], list):  # a dataclass: fields, and those that were None
        context = context[0]
    if isinstance(context, list) and len(context) == len(children):
        return Node("mapping", name, context, children)
    return Node("sequence", name, [], children)


def parse(text, namedtuples):
    """The root of the tree that the text describes."""
    version, root = json.loads(text)
    if version != 1:
        raise ValueError(f"a tree of version {version}")
    return _node(root, namedtuples)


def flatten(node, value, path, leaves):
    """Appends the leaves of the value to `leaves`. `path` names it in errors."""
    if node.kind == "leaf":
        leaves.append((path, value))
        return
    if node.kind == "sequence":
        if not isinstance(value, (tuple, list, collections.deque)) or len(value) != len(node.children):
            raise InputError(
                f"argument '{path}' is {_described(value)}, and was a sequence of {len(node.children)} when the model was exported"
            )
        for i, child in enumerate(node.children):
            flatten(child, value[i], f"{path}[{i}]", leaves)
        return
    items = _items(value, node.keys)
    if items is None or set(items) != set(node.keys):
        raise InputError(f"argument '{path}' is {_described(value)}, and had {', '.join(map(repr, node.keys))} when the model was exported")
    for key, child in zip(node.keys, node.children):
        flatten(child, items[key], f"{path}.{key}" if isinstance(key, str) else f"{path}[{key!r}]", leaves)


def _items(value, keys):
    if isinstance(value, collections.abc.Mapping):
        return dict(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return value._asdict()
    if dataclasses.is_dataclass(value):
        return {key: getattr(value, key) for key in keys if hasattr(value, key)}
    return None


def _described(value):
    if isinstance(value, collections.abc.Mapping):
        return "a mapping of " + (", ".join(map(repr, value)) or "nothing")
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"of type '{type(value).__qualname__}'"


def unflatten(node, leaves):
    """The tree with the leaves, an iterator."""
    if node.kind == "leaf":
        return next(leaves)
    children = [unflatten(child, leaves) for child in node.children]
    if node.kind == "sequence":
        return _SEQUENCES.get(node.type, tuple)(children)
    items = dict(zip(node.keys, children))
    if node.type in _MAPPINGS:
        return collections.OrderedDict(items) if node.type == "collections.OrderedDict" else items
    return _made(node, items)


def _made(node, items):
    """An object of the class, if its module is loaded: a name in a file imports nothing."""
    is_namedtuple = node.type.startswith("namedtuple:")
    name = node.type.removeprefix("namedtuple:")
    module, _, qualname = name.rpartition(".")
    found = getattr(sys.modules.get(module), qualname, None)
    if is_namedtuple:
        fits = isinstance(found, type) and issubclass(found, tuple) and list(getattr(found, "_fields", ())) == node.keys
        made = found if fits else _namedtuple(qualname or name, tuple(node.keys))
        return made(**items)
    if isinstance(found, type) and dataclasses.is_dataclass(found):
        return found(**items)
    return Results(items)


_namedtuples = {}


def _namedtuple(name, fields):
    known = _namedtuples.get((name, fields))
    if known is None:
        known = _namedtuples[name, fields] = collections.namedtuple(name if name.isidentifier() else "Results", fields, rename=True)
    return known


def _constant(leaf):
    """The value of {"as_int": 3} and the like; _LEAF where it is not known."""
    kind, value = next(iter(leaf.items())) if isinstance(leaf, dict) and len(leaf) == 1 else (None, None)
    if kind == "as_none":
        return None
    if kind in ("as_int", "as_bool", "as_string"):
        return value
    if kind == "as_float":
        return float(value)
    if kind in ("as_sym_int", "as_sym_bool", "as_sym_float"):
        return _constant(value)
    return _LEAF


class CallTree:
    """How a program is called: which argument is which of its inputs, and what its results become."""

    def __init__(self, text, input_names):
        self.inputs_of_program = len(input_names)
        self.is_known = bool(text)
        if not text:
            self.slots = {name: Node("leaf") for name in input_names}
            self.inputs = list(range(len(input_names)))
            self.returned = None
            return
        known = json.loads(text)
        namedtuples = known.get("namedtuples", {})
        tree = parse(known["in_spec"], namedtuples)
        positional, keywords = tree.children
        names = known.get("names") or []
        if len(names) != len(positional.children) + len(keywords.children):
            names = [f"argument {i}" for i in range(len(positional.children))] + list(keywords.keys)
        self.slots = dict(zip(names, positional.children + keywords.children))
        self.inputs = known["inputs"]
        self.returned = parse(known["out_spec"], namedtuples)
        self.outputs = known["outputs"]
        if sum(node.leaves() for node in self.slots.values()) != len(self.inputs) or self.returned.leaves() != len(self.outputs):
            raise ValueError("a tree with other leaves than the program has")

    @property
    def is_flat(self):
        """Are arguments the program's inputs, one by one?"""
        return self.inputs == list(range(self.inputs_of_program)) and all(node.kind == "leaf" for node in self.slots.values())

    def arrays(self, args, kwargs):
        """The arrays of a call in the order of the program's inputs."""
        names = list(self.slots)
        if len(args) > len(names):
            raise ArgumentError(f"the model takes {len(names)} arguments, and got {len(args)}")
        given = dict(zip(names, args))
        for name, value in kwargs.items():
            if name not in self.slots:
                raise ArgumentError(f"the model has no argument '{name}'; it has {', '.join(map(repr, names)) or 'none'}")
            if name in given:
                raise ArgumentError(f"argument '{name}' is given twice")
            given[name] = value
        leaves, at, arrays = [], 0, [None] * self.inputs_of_program
        for name, node in self.slots.items():
            here = self.inputs[at : at + node.leaves()]
            at += len(here)
            if name in given:
                flatten(node, given[name], name, leaves)
            elif any(isinstance(leaf, int) for leaf in here):
                raise ArgumentError(f"argument '{name}' is missing; the model takes {', '.join(map(repr, names))}")
            else:
                leaves.extend((name, _LEAF) for _ in here)
        for (path, value), leaf in zip(leaves, self.inputs):
            if isinstance(leaf, int):
                arrays[leaf] = value
            elif value is not _LEAF:
                _check_constant(path, value, _constant(leaf))
        return arrays

    def result(self, outputs):
        """What the model returns, of the outputs that it returns."""
        if self.returned is None:
            return outputs[0] if len(outputs) == 1 else tuple(outputs)
        values = (
            None if leaf is None else outputs[leaf] if isinstance(leaf, int) else _number(outputs[leaf["number"]]) for leaf in self.outputs
        )
        return unflatten(self.returned, values)


def _number(array):
    return array.item() if hasattr(array, "item") else array


def _check_constant(path, value, constant):
    same = constant is _LEAF or value is constant or (type(value) in (int, float, bool, str) and value == constant)
    if not same:
        raise InputError(
            f"argument '{path}' is {value!r}, and the program is for {constant!r}: compile a model that was exported with the other value"
        )
