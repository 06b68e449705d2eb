"""Writes docs/python-api.md, the page of all that `import toroid` gives, from the docstrings.

usage: python python/tests/api_page.py [--check]      --check: exit status 1 where the page is not what would be written
"""

import inspect
import pathlib
import sys
import textwrap

import toroid

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python-api.md"


def text_of(thing):
    """The docstring, as paragraphs of at most 140 characters a line."""
    paragraphs = inspect.cleandoc(thing.__doc__ or "").split("\n\n")
    return "\n\n".join(paragraph if paragraph.startswith("    ") else textwrap.fill(paragraph, 138) for paragraph in paragraphs)


def signature_of(name, thing):
    """`name(arguments)`, without types."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return name
    parameters = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values() if each.name != "self"]
    return name + str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


def members_of(kind):
    """What a class adds: methods and properties with a docstring."""
    for name, member in vars(kind).items():
        if name.startswith("_") and name != "__call__":
            continue
        target = member.fget if isinstance(member, property) else member
        if getattr(member, "__doc__", None) and (callable(target) or isinstance(member, property) or inspect.isgetsetdescriptor(member)):
            yield name, member


def described(name, thing):
    """The part of the page about a function or class."""
    lines = [f"## {name}", ""]
    if not inspect.isclass(thing):
        return lines + [
            "```python",
            textwrap.fill(signature_of(f"toroid.{name}", thing), 138, subsequent_indent="    "),
            "```",
            "",
            text_of(thing),
            "",
        ]
    lines += [text_of(thing), ""]
    if issubclass(thing, Exception):
        return lines
    for member_name, member in members_of(thing):
        shown = f"`{member_name}`" if isinstance(member, property) else f"`{signature_of(member_name, member)}`"
        lines += [shown.replace("__call__(", "model("), "", textwrap.indent(text_of(member), ": ", lambda line: True), ""]
    return lines


def page():
    """The page."""
    classes = {name: getattr(toroid, name) for name in toroid.__all__ if name != "errors"}
    errors = {name: kind for name, kind in classes.items() if inspect.isclass(kind) and issubclass(kind, Exception)}
    lines = [
        "# toroid in Python: reference",
        "",
        "Made of the docstrings by `python/tests/api_page.py`; [python.md](python.md) is the guide.",
        "",
    ]
    for name in ["compile", "load", "explain", "Model", "Tensor"] + sorted(
        set(classes) - set(errors) - {"compile", "load", "explain", "Model", "Tensor"}
    ):
        lines += described(name, classes[name])
    lines += ["## Errors", "", "| class | also | when |", "|---|---|---|"]
    for name in ["ToroidError"] + sorted(set(errors) - {"ToroidError"}):
        bases = ", ".join(f"`{base.__name__}`" for base in errors[name].__bases__)
        lines.append(f"| `{name}` | {bases} | {' '.join(inspect.cleandoc(errors[name].__doc__).split())} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        if PAGE.read_text(encoding="utf-8") != page():
            sys.exit(f"error: {PAGE} is not made of the docstrings\n  help: python python/tests/api_page.py")
    else:
        PAGE.write_text(page(), encoding="utf-8")
