"""A folder of rows: checks each row, chooses the types of columns, and keeps both for a run that resumes."""

from __future__ import annotations

import json
import operator
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from . import _columns, _native
from ._sizes import shown
from .errors import DataError, Error, UsageError

#: Names of the column that is the class, if none is given.
_LABELS = ("label", "cls")
#: Files in the folder: types of columns, names of classes, and what a finished part has.
_COLUMNS, _CLASSES, _DONE = "columns.json", "classes.json", "done.json"


class Types:
    """Types of columns and names of classes, as the caller has given them."""

    def __init__(self, columns: Mapping[str, str] | None, label: str | None, class_names: Sequence[str] | None) -> None:
        self.columns = {_columns.name_of(name): _columns.check(kind) for name, kind in (columns or {}).items()}
        self.label = None if label is None else label.lower()
        self.names = _names(class_names)


@dataclass(frozen=True)
class Finished:
    """Rows that are all on disk.

    Attributes:
        folder: Their folder.
        rows: Their number.
        image: Column of the images, or `None`.
        columns: The columns by name: type and extension.
        has_names: Whether the folder has names of classes.
        more: Values of the caller.
    """

    folder: str
    rows: int
    image: str | None
    columns: dict[str, list[str]]
    has_names: bool
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> str:
        """A pattern for the tar files."""
        folder = re.sub(r"([*?\[\]{}\\])", r"[\1]", self.folder)
        return os.path.join(folder, "rows-*.tar")


class Rows:
    """Writes rows to a folder.

    Attributes:
        folder: The folder.
        rows: Number of rows that are written.
    """

    def __init__(self, folder: str, types: Types, resume: bool) -> None:
        self.folder, self._types = folder, types
        self._columns: dict[str, _columns.Column] = {}
        self._lower: dict[Any, str] = {}
        self._image: str | None = None
        #: Columns by extension that all rows need: the image and the class.
        self._required: dict[str, str] = {}
        self._spool: _native.Spool | None = _native.Spool(folder)
        try:
            self.rows = self._spool.next_row()
            if self.rows and not resume:
                raise UsageError(
                    f"has {self.rows:,} rows of an interrupted run",
                    folder,
                    help=f"resume=True continues with row {self.rows}; remove the folder to begin again",
                )
            if self.rows:
                self._restore(json.loads(self._spool.note(_COLUMNS) or b"[null, []]"))
            if types.names:
                self._spool.put_note(_CLASSES, json.dumps(types.names).encode())
        except BaseException:
            self._spool.close()
            raise

    def write(self, row: Mapping[str, Any]) -> None:
        """Write a row."""
        if self._spool is None:
            raise UsageError("the writer is closed")
        if not isinstance(row, Mapping):
            row = self._named(row)
        members = []
        for name, value in row.items():
            if value is None:
                continue
            lower = self._lower.get(name) or self._lowered(name)
            try:
                column = self._columns.get(lower) or self._column(lower, value)
                is_named = column.kind == "class" and self._types.names
                members.append((column.member, self._class(value) if is_named else column.encode(value)))
            except Error:
                raise
            except (TypeError, ValueError, OverflowError, OSError) as error:
                raise self._refused(lower, error) from error
        if not any(extension != _columns.CLASS for extension, _ in members):
            raise DataError("no value besides the class", sample=f"row {self.rows}")
        if self.rows == 0:
            members = self._settled(members)
        extensions = [extension for extension, _ in members]
        for extension, name in self._required.items():
            if extension not in extensions:
                raise DataError("no value, and all rows need one", sample=f"row {self.rows}, column {name}")
        self._spool.write(members)
        self.rows += 1

    def finish(self, more: dict[str, Any] | None) -> Finished:
        """Write all rows to disk; with `more`, also the file that `finished` reads."""
        if self._spool is None:
            raise UsageError("the writer is closed")
        if not self.rows and more is None:
            self.abandon()
            raise DataError("no rows", self.folder)
        columns = {column.name: [column.kind, column.member] for column in self._columns.values()}
        done = Finished(self.folder, self.rows, self._image, columns, bool(self._types.names), more or {})
        self._spool.finish()
        if more is not None:
            self._spool.put_note(_DONE, json.dumps(asdict(done)).encode())
        self._release()
        return done

    def abandon(self) -> None:
        """Close the folder, and remove it if no complete file has rows."""
        if self._spool is None:
            return
        self._release()
        if not any(name.startswith("rows-") for name in os.listdir(self.folder)):
            remove(self.folder)

    def _release(self) -> None:
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    def _named(self, row: Any) -> Mapping[str, Any]:
        """A tuple as a row, by the order of `columns`."""
        if isinstance(row, (tuple, list)) and len(row) == len(self._types.columns):
            return dict(zip(self._types.columns, row))
        what = f"{type(row).__name__}" + (f" of {len(row)} values" if isinstance(row, (tuple, list)) else "")
        raise DataError(
            f"{what}, and a dict is wanted",
            sample=f"row {self.rows}",
            help="columns={NAME: TYPE, …} names the values of a tuple, in their order",
        )

    def _lowered(self, name: Any) -> str:
        lower = _columns.name_of(name)
        if lower in self._lower.values():
            raise UsageError(f"columns {name} and {lower} have one name in a shard", help="rename one of them")
        self._lower[name] = lower
        return lower

    def _refused(self, name: str, error: Exception) -> DataError:
        column = self._columns.get(name)
        kind = f"the type of the column is {column.kind}: " if column else ""
        return DataError(
            str(error),
            sample=f"row {self.rows}, column {name}",
            help=f"{kind}columns={{{name!r}: TYPE}} sets another type",
        )

    def _column(self, name: str, first: Any) -> _columns.Column:
        """The column whose first value is `first`."""
        kind = self._types.columns.get(name)
        if kind is None:
            kind = _columns.kind_of(first)
            if name == self._types.label or self._types.label is None and name in _LABELS and _columns.is_class(first):
                kind = "class"
        column = _columns.Column.of(name, kind, name in self._types.columns, first)
        if column.member == _columns.CLASS and _columns.CLASS in self._required:
            raise UsageError(
                f"columns {self._required[_columns.CLASS]} and {name} are both classes",
                help="a sample has one class: give one of them another type",
            )
        if self.rows and (kind == "class" or column.is_image and self._image is None):
            raise DataError(
                f"the first value of a column of type {kind}, and all rows need one",
                sample=f"row {self.rows}, column {name}",
            )
        self._columns[name] = column
        if kind == "class":
            self._required[_columns.CLASS] = name
        if self.rows:
            self._store()
        return column

    def _settled(self, members: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        """The members of the first row, after the choice of its image."""
        images = [name for name, column in self._columns.items() if column.is_image]
        self._image = "image" if "image" in images else next(iter(images), None)
        if self._image is not None:
            column = self._columns[self._image]
            # One name for all kinds of images.
            named = replace(column, member=f"{self._image}.img")
            self._columns[self._image] = named
            self._required[named.member] = self._image
            members = [
                (named.member if extension == column.member else extension, content) for extension, content in members
            ]
        self._store()
        return members

    def _store(self) -> None:
        """Keep the columns for a run that resumes."""
        if self._spool is not None:
            columns = [asdict(column) for column in self._columns.values()]
            self._spool.put_note(_COLUMNS, json.dumps([self._image, columns]).encode())

    def _restore(self, kept: list[Any]) -> None:
        """Take the columns of the run that this one resumes."""
        self._image, columns = kept
        for fields in columns:
            column = _columns.Column.kept(fields)
            if self._types.columns.get(column.name, column.kind) != column.kind:
                raise UsageError(
                    f"column {column.name} is {self._types.columns[column.name]}, and {column.kind} in the rows that are kept"
                )
            self._columns[column.name] = column
            if column.kind == "class" or column.name == self._image:
                self._required[column.member] = column.name

    def _class(self, value: Any) -> bytes:
        """The name of a class, by its number or its name."""
        if isinstance(value, str):
            if value not in self._types.names:
                raise ValueError(f"no class {shown(value)} in class_names")
            return value.encode()
        number = operator.index(value)
        if not 0 <= number < len(self._types.names):
            raise ValueError(f"class {number}: class_names has {len(self._types.names)}")
        return self._types.names[number].encode()


def finished(folder: str) -> Finished | None:
    """Return what `Rows.finish` has kept in `folder`, or `None`."""
    try:
        with open(os.path.join(folder, _DONE), "rb") as file:
            return Finished(**{**json.load(file), "folder": folder})
    except FileNotFoundError:
        return None


def joined(spools: Sequence[Finished]) -> dict[str, Any]:
    """Return the options of `convert` for spools of one dataset, or raise an error if their columns differ."""
    filled = [one for one in spools if one.rows]
    if not filled:
        raise DataError("no rows", spools[0].folder if spools else None)
    first = filled[0]
    kinds: dict[str, tuple[list[str], Finished]] = {}
    for one in filled:
        if (one.image, one.has_names) != (first.image, first.has_names):
            raise UsageError(f"has another column of images or other class names than {first.folder}", one.folder)
        for name, column in one.columns.items():
            known, where = kinds.setdefault(name, (column, one))
            if known != column:
                raise UsageError(
                    f"column {name} is {column[0]}, and {known[0]} in {where.folder}",
                    one.folder,
                    help=f"columns={{{name!r}: TYPE}} gives all the same type",
                )
    classes = [any(kind == "class" for kind, _ in one.columns.values()) for one in filled]
    if len(set(classes)) > 1:
        raise UsageError("has no class, and other rows have one", filled[classes.index(False)].folder)
    options: dict[str, Any] = {"label_feature": _columns.CLASS} if classes[0] else {"no_labels": True}
    if first.image is not None:
        options["image_feature"] = first.columns[first.image][1]
    if first.has_names:
        options["classes"] = os.path.join(first.folder, _CLASSES)
    return options


def remove(folder: str) -> None:
    """Remove a folder of rows, or of several."""
    _native.Spool(folder).remove()


def _names(names: Sequence[str] | None) -> list[str]:
    """`class_names`, after checks: each has to be a label that stands for itself."""
    found = [] if names is None else list(names)
    for number, name in enumerate(found):
        if (
            not isinstance(name, str)
            or not name
            or name != name.strip()
            or name != str(number)
            and _columns.is_number(name)
        ):
            raise UsageError(f"class_names: {shown(name)} is no name of class {number}")
    if len(set(found)) < len(found):
        raise UsageError("class_names: two classes have one name")
    return found
