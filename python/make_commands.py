"""Writes shardpack/commands.py: the commands of the program as functions, from the program's own description of its options.

python make_commands.py            write it
python make_commands.py --check    fail if it is not as it would be written
"""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path

# The package that is installed, and not its sources beside this file, which have no native part.
sys.path = [path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent]
from shardpack import _native  # noqa: E402

#: Longest line that `ruff format` leaves as it is.
LINE = 120
OUT = Path(__file__).with_name("shardpack") / "commands.py"

#: Of each command: what its functions take by place, each with whether it may be left out, and what it returns.
COMMANDS = {
    "pack": ([("src", False), ("dst", True)], "the datasets, everything that was left out, and the time it took"),
    "convert": ([("src", False), ("dst", True)], "as for `pack`"),
    "adopt": ([("folder", False)], "the dataset that was adopted"),
    "plan": ([("src", False), ("dst", True)], "the plan: counts, sizes, space"),
    "merge": (
        [("folder", False)],
        "the datasets and everything that was left out; if parts are missing or wrong, those, and `ok` is `False`",
    ),
    "status": ([("folder", False)], "the parts that are done, running and missing"),
    "verify": ([("paths", False)], "`ok` is `True` if nothing is damaged; `problems` names every damaged sample"),
    "crops": ([("folder", False)], "the number of samples with tables"),
    "inspect": ([("paths", False)], "the contents"),
}
#: What they are, of all commands or of one.
ABOUT = {
    "src": "Source.",
    "pack src": "Source: a path, or rows (an iterable of dicts, a dataset or a table), as for `Writer`.",
    "convert src": "Shards: a folder, file, glob or brace pattern, one or several.",
    "dst": "Folder of the shards.",
    "folder": "Folder of a dataset, or of its splits.",
    "merge folder": "Folder that the parts were packed into, or its URL; or the destination of writers of rows.",
    "status folder": "Folder that is packed into, or its URL.",
    "paths": "Folders, manifests or shards, one or several.",
}
#: Arguments of functions that the commands do not have: for rows of a Python program.
OF_ROWS = {
    "pack": [
        ("columns", "Mapping[str, str] | None = None", "For rows: types of columns, as for `Writer`."),
        ("label", "str | None = None", "For rows: column with the class, as for `Writer`."),
        ("class_names", "Sequence[str] | None = None", "For rows: names of the classes, by number."),
        ("resume", "bool = False", "For rows: continue after those that an interrupted run has kept."),
        ("spool", "PathLike | None = None", "For rows: folder for them until they are packed [default: DST.rows]."),
    ],
    "merge": [("spool", "PathLike | None = None", "For rows of `Writer`: folder that their parts are in.")],
}
#: Of these there may be several.
SEVERAL = {("convert", "src"), ("verify", "paths"), ("inspect", "paths")}
#: Types of values by their names in the help; other values are text. A name with `=` also takes a mapping.
TYPES = {
    "N": "int",
    "1-100": "int",
    "SIZE": "int | str",
    "SHORT|WxH": "int | str",
    "CLASS": "int | str",
    "DIR": "PathLike",
    "FILE": "PathLike",
    "FOLDER": "PathLike",
    "GLOB": "PathLike",
}
#: Options that the functions set themselves, or that are for terminals.
OWN = {"json", "quiet", "color", "help", "version"}

HEAD = '''"""The commands of the program `shardpack` as functions, with the same options in Python's spelling.

Written by make_commands.py from the program's own description of its options; docs/reference/cli.md has them at length.

All of them take `progress`: `True` for a bar of tqdm (the default in notebooks), or a function that is called with a
`Progress`. They return a `Report` with the fields of `--json`, and raise the exceptions of `shardpack.errors`. Ctrl-C stops
them cleanly, and the same call resumes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from . import _rows
from ._rows import Rows
from .running import PathLike, Progress, Report, Values, run
'''


def name_of(option: str) -> str:
    """As an argument: `from` is a keyword of Python's."""
    name = option.replace("-", "_")
    return name + "_" if name in {"from", "class", "in", "is", "import", "with"} else name


def class_name(option: str) -> str:
    """Name of the type of an option."""
    return "".join(word.capitalize() for word in option.split("-"))


def choices() -> dict[tuple[str, str], tuple[str, tuple[str, ...]]]:
    """Type name and possible values, by command and option. Commands share a type if the values are equal."""
    found: dict[str, dict[tuple[str, ...], list[str]]] = {}
    for command in COMMANDS:
        for option, _, value, _, is_positional, possible, _ in _native.options(command)[1]:
            if possible and value is not None and not is_positional and option not in OWN:
                found.setdefault(option, {}).setdefault(tuple(possible), []).append(command)
    types = {}
    for option, by_values in found.items():
        for possible, commands in by_values.items():
            name = class_name(option if len(by_values) == 1 else f"{commands[0]}-{option}")
            types.update({(command, option): (name, possible) for command in commands})
    return types


def alias(name: str, possible: tuple[str, ...]) -> str:
    """Definition of a type."""
    line = f"{name} = Literal[{', '.join(json.dumps(value) for value in possible)}]"
    if len(line) <= LINE:
        return line
    lines = "".join(f"    {json.dumps(value)},\n" for value in possible)
    return f"{name} = Literal[\n{lines}]"


def kind_of(choice: tuple[str, tuple[str, ...]] | None, value: str | None, is_repeated: bool) -> str:
    """Type of an argument, with its default."""
    if value is None:
        return "bool = False"
    one = choice[0] if choice else TYPES.get(value, "PathLike" if "FILE" in value else "str")
    if not choice and "=" in value:
        one = "Values"
    elif is_repeated:
        one = f"{one} | Sequence[{one}]"
    return f"{one} | None = None"


def wrapped(text: str, indent: str, further: str) -> str:
    return textwrap.fill(
        " ".join(text.split()), 118, initial_indent=indent, subsequent_indent=further, break_on_hyphens=False
    )


def function(command: str, types: dict[tuple[str, str], tuple[str, tuple[str, ...]]]) -> str:
    about, options = _native.options(command)
    positional, returns = COMMANDS[command]
    given = [option for option in options if not option[4] and option[0] not in OWN]
    lines = [f"def {command}("]
    for name, is_optional in positional:
        many = "PathLike | Sequence[PathLike]" if (command, name) in SEVERAL else "PathLike"
        many += " | Rows" if f"{command} {name}" == "pack src" else ""
        lines.append(f"    {name}: {many}{' | None = None' if is_optional else ''},")
    lines.append("    *,")
    docs = []
    for option, about_option, value, is_repeated, _, possible, default in given:
        name = name_of(option)
        lines.append(f"    {name}: {kind_of(types.get((command, option)), value, is_repeated)},")
        text = about_option.rstrip(".")
        if possible and value is not None:
            text += f": {', '.join(possible)}"
        if default is not None and value is not None and "[default" not in text:
            text += f" [default: {default}]"
        docs.append(wrapped(f"{name}: {text}.", " " * 8, " " * 12))
    for name, kind, text in OF_ROWS.get(command, []):
        lines.append(f"    {name}: {kind},")
        docs.append(wrapped(f"{name}: {text}", " " * 8, " " * 12))
    lines.append("    progress: bool | Callable[[Progress], None] | None = None,")
    docs.append(wrapped("progress: See the module.", " " * 8, " " * 12))
    lines.append(") -> Report:")
    lines.append(wrapped(f'"""{about.rstrip(".")}: `shardpack {command}`.', "    ", "    "))
    lines += ["", "    Args:"]
    for name, _ in positional:
        lines.append(f"        {name}: {ABOUT.get(f'{command} {name}') or ABOUT[name]}")
    lines += docs
    lines += ["", "    Returns:", wrapped(returns[0].upper() + returns[1:] + ".", " " * 8, " " * 8), '    """']
    places = ", ".join(f'"{name}"' for name, _ in positional)
    given = "locals()"
    if command in OF_ROWS:
        given = f"_rows.of_paths(locals(), [{', '.join(json.dumps(name) for name, *_ in OF_ROWS[command])}])"
        is_of_rows = "_rows.is_rows(src)" if command == "pack" else "_rows.has_parts(folder, spool)"
        lines += [f"    if {is_of_rows}:", f"        return _rows.{command}_given(locals())"]
    lines.append(f'    return run("{command}", [{places}], {given})')
    return "\n".join(lines)


def main() -> int:
    types = choices()
    aliases = [alias(name, possible) for name, possible in sorted(set(types.values()))]
    head = "\n".join([HEAD, *aliases, ""])
    text = "\n\n".join([head, *(function(command, types) + "\n" for command in COMMANDS)])
    if "--check" in sys.argv[1:]:
        return int(OUT.read_text() != text)
    OUT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
