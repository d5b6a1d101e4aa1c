"""Writes docs/reference/python-api.md from the docstrings and signatures of the package.

python make_reference.py            write it
python make_reference.py --check    fail if the page differs

It parses the sources and imports nothing, so that it needs neither the built package nor numpy.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "reference" / "python-api.md"
PACKAGE = HERE / "shardpack"

HEAD = """# Python API

Every public name of the package `shardpack`, written from its docstrings by `python/make_reference.py`. `help(shardpack.Loader)` prints
the same text. [The guide](python.md) shows the package in use; [the command line](cli.md) has the options of the commands.
"""

#: Headings of the page: a module, and the names below it with the file that defines each.
NAMES = {
    "shardpack": {
        "loader": ["Loader"],
        "batch": ["Batch", "NamedBatch", "Encoded"],
        "ragged": ["Ragged"],
        "_cropped": ["Cropped"],
        "_explained": ["Advice"],
        "part": ["Part"],
        "receipt": ["Receipt", "Expected"],
        "distributed": ["Ranks"],
        "dataset": ["Dataset", "Sample"],
        "_mapped": ["Item"],
        "rows": ["Writer"],
        "commands": ["pack", "convert", "adopt", "plan", "merge", "status", "verify", "crops", "inspect"],
        "running": ["Report", "Progress"],
        "_native": ["decode", "crop_table"],
    },
    "shardpack.transforms": {
        "transforms": [
            *["imagenet_train", "imagenet_eval", "Pipeline", "Resize", "Pad", "RandomResizedCrop", "RandomCrop"],
            *["CenterCrop", "RandomHorizontalFlip", "RandomVerticalFlip", "Normalize"],
        ],
        "_steps": [
            *["ColorJitter", "RandomGrayscale", "GaussianBlur", "RandomSolarize", "RandomPosterize", "RandomInvert"],
            *["RandomAutocontrast", "RandomEqualize", "RandomAdjustSharpness", "RandomApply", "RandAugment"],
            *["TrivialAugmentWide", "RandomErasing", "MixUp", "CutMix", "RandomChoice"],
            *["Step", "Augmentation", "Mixing"],
        ],
    },
    "shardpack.torch": {"torch": ["IterableDataset"]},
    "shardpack.ray": {"_ray_pack": ["pack", "PartsProgress"], "_ray_data": ["dataset", "Source"]},
    "shardpack.distributed": {"distributed": ["find"]},
    "shardpack.errors": {"errors": ["Error", "DataError", "UsageError", "MachineError", "Interrupted"]},
}
#: Public names that are constants, and the modules `errors` and `transforms`: they have no docstring of their own.
OTHERS = {"IMAGENET_MEAN", "IMAGENET_STD", "NO_LABEL", "__version__", "errors", "transforms"}
#: Private base classes, whose methods belong to the public ones, and their files.
BASES = {"Payload": "_payload"}

SECTIONS = ("Args", "Attributes", "Returns", "Yields", "Raises", "Example", "Examples")


@dataclass
class Docstring:
    """A docstring, split into its text and its sections."""

    text: str
    sections: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, node: ast.ClassDef | ast.FunctionDef) -> Docstring:
        lines = (ast.get_docstring(node) or "").splitlines()
        text: list[str] = []
        sections: dict[str, list[str]] = {}
        into = text
        for line in lines:
            name = line[:-1] if line.endswith(":") else ""
            if name in SECTIONS:
                into = sections.setdefault(name, [])
            elif line and not line.startswith(" ") and into is not text:
                into = text
                text += ["", line]
            else:
                into.append(line)
        joined = {name: inspect.cleandoc("\n" + "\n".join(part)) for name, part in sections.items()}
        return cls("\n".join(text).strip(), joined)

    def items(self, section: str) -> list[tuple[str, str]]:
        """The `name: text` items of a section."""
        found: list[tuple[str, str]] = []
        for line in self.sections.get(section, "").splitlines():
            head = re.match(r"([\w*, .]+?): (.*)", line)
            if head and not line.startswith(" "):
                found.append((head[1], head[2]))
            elif found:
                found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}".strip())
            else:
                found.append(("", line.strip()))
        return found


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def shown(annotation: ast.expr | None) -> str:
    text = "" if annotation is None else ast.unparse(annotation).replace("npt.NDArray", "ndarray").replace("np.", "")
    return f"`{cell(text)}`" if text else ""


def arguments(node: ast.FunctionDef) -> dict[str, tuple[str, str]]:
    """Type and default of each argument but `self`."""
    given, found = node.args, {}
    by_place = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(by_place) - len(given.defaults)) + list(given.defaults)
    for one, default in [*zip(by_place, defaults), *zip(given.kwonlyargs, given.kw_defaults)]:
        if one.arg not in ("self", "cls"):
            found[one.arg] = (shown(one.annotation), f"`{cell(ast.unparse(default))}`" if default else "required")
    for one in (given.vararg, given.kwarg):
        if one is not None:
            found[one.arg] = (shown(one.annotation), "")
    return found


def table(items: list[tuple[str, str]], known: dict[str, tuple[str, str]], title: str) -> list[str]:
    """A table of `items` with the types and defaults of `known`; a column that would be empty is left out."""
    rows = []
    for names, text in items:
        each = [known.get(name.strip().lstrip("*"), ("", "")) for name in names.split(",")]
        kinds, defaults = (", ".join(dict.fromkeys(one[at] for one in each if one[at])) for at in (0, 1))
        name = ", ".join(f"`{one.strip()}`" for one in names.split(","))
        rows.append((name, kinds, defaults, cell(text)))
    kept = [at for at in range(4) if at in (0, 3) or any(row[at] for row in rows)]
    heads = (title, "type", "default", "")
    lines = [f"| {' | '.join(heads[at] for at in kept)} |", f"|{'---|' * len(kept)}"]
    return [*lines, *(f"| {' | '.join(row[at] for at in kept)} |" for row in rows), ""]


def call(name: str, node: ast.FunctionDef | None) -> str:
    """A signature without types, as one would type it."""
    if node is None:
        return name
    given, words = node.args, []
    by_place = [*given.posonlyargs, *given.args]
    optional = len(by_place) - len(given.defaults)
    for at, one in enumerate(by_place):
        if one.arg not in ("self", "cls"):
            words.append(one.arg if at < optional else f"{one.arg}={ast.unparse(given.defaults[at - optional])}")
    if given.kwonlyargs:
        words += ["*", "…"] if len(given.kwonlyargs) > 3 else ["*"]
    if 0 < len(given.kwonlyargs) <= 3:
        for one, default in zip(given.kwonlyargs, given.kw_defaults):
            words.append(one.arg if default is None else f"{one.arg}={ast.unparse(default)}")
    # The loader takes unknown names in order to refuse them by name.
    words += [f"**{given.kwarg.arg}"] if given.kwarg and given.kwarg.arg != "unknown" else []
    returns = f" -> {ast.unparse(node.returns)}" if node.returns and node.name != "__init__" else ""
    return f"{name}({', '.join(words)}){returns}"


def described(doc: Docstring, known: dict[str, tuple[str, str]]) -> list[str]:
    lines = [fenced(doc.text), ""]
    for section, title in [("Args", "argument"), ("Attributes", "attribute")]:
        if section in doc.sections:
            lines += table(doc.items(section), known, title)
    for section in ("Returns", "Yields", "Raises"):
        items = doc.items(section)
        if section == "Raises" and items and items[0][0]:
            lines += ["Raises:", "", *(f"- `{name}`: {text}" for name, text in items), ""]
        elif items:
            lines += [f"{section}: {' '.join((f'{name}: ' if name else '') + text for name, text in items)}", ""]
    for section in ("Example", "Examples"):
        if section in doc.sections:
            lines += ["```python", doc.sections[section], "```", ""]
    return lines


def fenced(text: str) -> str:
    """Indented lines of a docstring are Python: a fence says so, and a test runs it."""
    lines: list[str] = []
    code: list[str] = []
    for line in [*text.splitlines(), "end"]:
        if line.startswith("    ") or (code and not line):
            code.append(line)
            continue
        if code:
            block = inspect.cleandoc("\n" + "\n".join(code)).rstrip()
            lines += ["```python", block, "```", ""]
            code = []
        lines.append(line)
    return "\n".join(lines[:-1]).rstrip()


def is_property(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(one).endswith("property") for one in node.decorator_list)


def fields_as_typed(node: ast.ClassDef) -> list[str]:
    """The arguments of a dataclass: its public fields."""
    fields = [
        one for one in node.body if isinstance(one, ast.AnnAssign) and not ast.unparse(one.target).startswith("_")
    ]
    return [ast.unparse(one.target) + (f"={default(one.value)}" if one.value else "") for one in fields]


def default(value: ast.expr) -> str:
    """A default as typed; `field(default=…)` of a dataclass has options that no caller sees."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
        value = next((one.value for one in value.keywords if one.arg == "default"), value)
    return ast.unparse(value)


def of_class(name: str, full: str, node: ast.ClassDef) -> list[str]:
    bases = [parsed(BASES[base])[base] for base in map(ast.unparse, node.bases) if base in BASES]
    methods = [one for each in [node, *bases] for one in each.body if isinstance(one, ast.FunctionDef)]
    made = next((one for one in methods if one.name == "__init__"), None)
    fields = {
        one.target.id: (shown(one.annotation), f"`{cell(default(one.value))}`" if one.value else "")
        for one in node.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    }
    known = {**fields, **(arguments(made) if made else {})}
    doc = Docstring.of(node)
    is_made_of_fields = made is None and "Args" in doc.sections and fields
    typed = f"{full}({', '.join(fields_as_typed(node))})" if is_made_of_fields else call(full, made)
    lines = [f"## {name}", "", f"    {typed}", "", *described(doc, known)]
    is_public = lambda name: not name.startswith("_") or name.startswith("__")  # noqa: E731
    public = [one for one in methods if ast.get_docstring(one) and is_public(one.name)]
    properties = [one for one in public if is_property(one)]
    if properties:
        kinds = {one.name: (shown(one.returns), "") for one in properties}
        lines += table([(one.name, Docstring.of(one).text) for one in properties], kinds, "property")
    for one in public:
        is_overload = any("overload" in ast.unparse(each) for each in one.decorator_list)
        if one not in properties and one is not made and not is_overload:
            lines += [f"### {name}.{one.name}", "", f"    {call(one.name, one)}", ""]
            lines += described(Docstring.of(one), arguments(one))
    return lines


def of_command(name: str, node: ast.FunctionDef) -> list[str]:
    """A command of the program: its options are on a page of their own."""
    doc, known = Docstring.of(node), arguments(node)
    by_place = {one.arg for one in node.args.args} | {"progress"}
    doc.sections["Args"] = "\n".join(f"{key}: {text}" for key, text in doc.items("Args") if key in by_place)
    anchor = f"cli.md#shardpack-{name}"
    rest = f"Further keyword arguments are the options of [`shardpack {name}`]({anchor}), with `_` for `-`."
    return [f"## {name}", "", f"    {call(f'shardpack.{name}', node)}", "", *described(doc, known), rest, ""]


def parsed(file: str) -> dict[str, Any]:
    """The classes and functions of a module by name; of the native part, those of its stub."""
    plain = PACKAGE / f"{file}.py"
    text = (plain if plain.is_file() else PACKAGE / f"{file}.pyi").read_text()
    return {one.name: one for one in ast.parse(text).body if isinstance(one, (ast.ClassDef, ast.FunctionDef))}


def exported(module: str) -> set[str]:
    """`__all__` of a module."""
    file = PACKAGE.joinpath(*module.split(".")[1:])
    text = (file / "__init__.py" if file.is_dir() else file.with_suffix(".py")).read_text()
    lists = [
        ast.literal_eval(node.value)
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    return set().union(*lists)


def page() -> str:
    lines = [HEAD]
    listed = {name for files in NAMES.values() for names in files.values() for name in names}
    missing = set().union(*map(exported, NAMES)) - listed - OTHERS
    if missing:
        raise SystemExit(f"make_reference.py: NAMES lacks {', '.join(sorted(missing))}")
    for module, files in NAMES.items():
        if module != "shardpack":
            lines += [f"# {module}", ""]
        for file, names in files.items():
            found = parsed(file)
            for name in names:
                node, full = found[name], f"{module}.{name}"
                if isinstance(node, ast.ClassDef):
                    lines += of_class(name, full, node)
                elif file == "commands":
                    lines += of_command(name, node)
                else:
                    known = arguments(node)
                    lines += [f"## {name}", "", f"    {call(full, node)}", "", *described(Docstring.of(node), known)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def main() -> int:
    text = page()
    if "--check" in sys.argv[1:]:
        return int(not PAGE.is_file() or PAGE.read_text() != text)
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
