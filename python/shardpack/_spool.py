"""A folder of rows: checks each row, chooses the types of columns, and keeps both for a run that resumes."""

from __future__ import annotations

import json
import operator
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from . import _columns, _native
from ._sizes import shown
from .errors import DataError, Error, UsageError
from .running import Note

#: Names of the column that is the class, if none is given.
_LABELS = ("label", "cls")
#: Files in the folder: columns and options of the rows, names of classes, and the summary of a finished part.
_STATE, _CLASSES, _DONE = "columns.json", "classes.json", "done.json"
#: Most columns of a dataset.
_MOST = 32
#: Most classes whose contents are kept in memory.
_MOST_KNOWN = 1 << 16


class Types:
    """Types of columns and names of classes, as the caller and the source of the rows have given them."""

    def __init__(
        self,
        columns: Mapping[str, str] | None,
        label: str | None,
        class_names: Sequence[str] | None,
        of_source: Mapping[str, str] | None = None,
    ) -> None:
        given = {_columns.name_of(name): _columns.check(kind) for name, kind in (columns or {}).items()}
        if len(given) < len(columns or {}):
            raise UsageError("columns: two names differ only in case")
        #: Types by column.
        self.columns = {**(of_source or {}), **given}
        #: Names in the order of the values of a tuple.
        self.names_of_values = list(given)
        self.label = None if label is None else label.lower()
        self.names = _names(class_names)

    def kept(self) -> dict[str, Any]:
        """Options that a run which resumes has to repeat."""
        return {"label": self.label, "class_names": self.names}


@dataclass(frozen=True)
class Finished:
    """Rows that are all on disk.

    Attributes:
        folder: Their folder.
        rows: Their number.
        image: Column of the images, or `None`.
        columns: The columns by name: type and extension.
        names: Names of the classes, if they are given.
        unseen: Names of `columns` that no row had.
        more: Values of the caller.
    """

    folder: str
    rows: int
    image: str | None
    columns: dict[str, list[str]]
    names: list[str]
    unseen: list[str]
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> str:
        """A pattern for the files of rows."""
        folder = re.sub(r"([*?\[\]{}\\])", r"[\1]", self.folder)
        return os.path.join(folder, "rows-*.rows")


class Rows:
    """Writes rows to a folder, which is locked until `close` or `remove`.

    Attributes:
        folder: The folder.
        rows: Number of rows that are written.
    """

    def __init__(self, folder: str, dst: str, types: Types, resume: bool) -> None:
        self.folder, self._types, self._dst, self._process = folder, types, dst, os.getpid()
        self._columns: dict[str, _columns.Column] = {}
        self._lower: dict[Any, str] = {}
        self._image: str | None = None
        #: Columns by extension that all rows need: the image and the class.
        self._required: dict[str, str] = {}
        #: Extensions with a content in all rows of this run; `None` before the first one.
        self._filled: set[str] | None = None
        #: The columns that the native part knows, and the content for each class so far.
        self._known: Any = None
        self._classes: dict[Any, bytes] = {}
        self.is_open = True
        #: The summary of a finished part.
        self.done: Finished | None = None
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
                self._restore(self._spool.note(_STATE))
            self._spool.remove_note(_DONE)
            if types.names:
                self._spool.put_note(_CLASSES, json.dumps(types.names).encode())
        except BaseException:
            self._spool.close()
            raise

    @classmethod
    def of_part(cls, folder: str, dst: str) -> Rows:
        """Return the rows of a part, to merge them; `done` is `None` if the part is not finished."""
        rows = cls.__new__(cls)
        rows.folder, rows.is_open, rows.done, rows._spool = folder, False, None, _native.Spool(folder)
        rows.rows = rows._spool.next_row()
        content = rows._spool.note(_DONE)
        if content is not None:
            done = Finished(**{**json.loads(content), "folder": folder})
            if done.rows != rows.rows:
                raise DataError(f"{rows.rows:,} rows, and {done.rows:,} were written", folder)
            if done.more["dst"] != dst:
                raise UsageError(f"has rows for {done.more['dst']}", folder)
            rows.done = done
        return rows

    def write(self, row: Mapping[str, Any]) -> None:
        """Write a row. If the row is refused, nothing has changed."""
        if not self.is_open or self._spool is None:
            raise UsageError("the writer is closed")
        if os.getpid() != self._process:
            raise UsageError("the writer is of another process", help="part='I/N' lets each process write a part")
        if self._spool.write_known(row):
            self.rows += 1
            return
        before = dict(self._columns), dict(self._lower), dict(self._required), self._image
        try:
            members = self._members(row if isinstance(row, Mapping) else self._named(row))
            if len(self._columns) > len(before[0]) or not self.rows:
                self._store()
            self._spool.write(members)
        except BaseException:
            self._columns, self._lower, self._required, self._image = before
            raise
        self.rows += 1
        self._teach()

    def _teach(self) -> None:
        """Let the native part write rows as the last one, without a call of Python for most values."""
        names, filled = tuple(self._lower.items()), self._filled or set()
        known = names, tuple(self._columns.values()), frozenset(filled), frozenset(self._required)
        if known == self._known or self._spool is None:
            return
        described = []
        for name, lower in names:
            column = self._columns.get(lower)
            # Names of a first value that was `None` have no column yet.
            if column is not None:
                kind, more = column.plainly(self._classes)
                is_needed = column.member in filled or column.member in self._required
                described.append((name, column.member, kind, more, partial(self._content, column), is_needed))
        self._spool.know(described)
        self._known = known

    def _content(self, column: _columns.Column, value: Any) -> bytes:
        """The content of the file for `value`."""
        if column.member != _columns.CLASS:
            return column.encode(value)
        content = self._class(value) if self._types.names else column.encode(value)
        # One entry for `1` would serve `True` too.
        if type(value) in (int, str) and len(self._classes) < _MOST_KNOWN:
            self._classes[value] = content
        return content

    def _members(self, row: Mapping[str, Any]) -> list[tuple[str, bytes]]:
        """The extension and content of each file of a row."""
        members = []
        for name, value in row.items():
            if value is None:
                continue
            lower = self._lower.get(name) or self._lowered(name)
            try:
                column = self._columns.get(lower) or self._column(lower, value)
                members.append((column.member, self._content(column, value)))
            except Error:
                raise
            except (TypeError, ValueError, OverflowError, OSError, RecursionError) as error:
                raise self._refused(lower, error) from error
        if not any(extension != _columns.CLASS for extension, _ in members):
            raise DataError("no value besides the class", sample=f"row {self.rows}")
        if self.rows == 0:
            members = self._settled(members)
        extensions = {extension for extension, _ in members}
        for extension, name in self._required.items():
            if extension not in extensions:
                raise DataError("no value, and all rows need one", sample=f"row {self.rows}, column {name}")
        filled = {extension for extension, content in members if content and extension != _columns.CLASS}
        both = filled if self._filled is None else filled & self._filled
        if not both:
            raise DataError(
                "no column has a value in this row and in all rows before, and a sample needs one that all have",
                sample=f"row {self.rows}",
                help="give one column a value that is not empty in each row",
            )
        self._filled = both
        return members

    def finish(self, more: dict[str, Any] | None) -> Finished:
        """Write all rows to files; with `more`, also the file that `of_part` reads. The folder stays locked."""
        if not self.is_open or self._spool is None:
            raise UsageError("the writer is closed")
        if not self.rows and more is None:
            self.abandon()
            raise DataError("no rows", self.folder)
        self.is_open = False
        columns = {column.name: [column.kind, column.member] for column in self._columns.values()}
        more = None if more is None else {**more, "dst": self._dst}
        unseen = [name for name in self._types.names_of_values if name not in self._columns]
        done = Finished(self.folder, self.rows, self._image, columns, self._types.names, unseen, more or {})
        # Rows of a part may stay for long; others are packed now.
        self._spool.finish(more is not None)
        if more is not None:
            self._spool.put_note(_DONE, json.dumps(asdict(done)).encode())
        return done

    def abandon(self) -> None:
        """Close the folder, and remove it if no complete file has rows."""
        self.is_open = False
        spool, self._spool = self._spool, None
        if spool is None:
            return
        # Waits for the file that is being written.
        spool.close()
        if not any(name.startswith("rows-") for name in os.listdir(self.folder)):
            _native.Spool(self.folder).remove()

    def close(self) -> None:
        """Unlock the folder, and keep its rows."""
        self.is_open = False
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    def mark_packed(self) -> None:
        """Mark the rows as packed: whoever opens the folder next removes them."""
        if self._spool is not None:
            self._spool.mark_packed()

    def remove(self) -> None:
        """Remove the rows."""
        if self._spool is not None:
            self._spool.remove()
            self._spool = None

    def _named(self, row: Any) -> Mapping[str, Any]:
        """A tuple as a row, by the order of `columns`."""
        names = self._types.names_of_values
        if isinstance(row, (tuple, list)) and len(row) == len(names):
            return dict(zip(names, row))
        what = f"{type(row).__name__}" + (f" of {len(row)} values" if isinstance(row, (tuple, list)) else "")
        raise DataError(
            f"{what}, and a dict is wanted",
            sample=f"row {self.rows}",
            help="columns={NAME: TYPE, …} names the values of a tuple, in their order",
        )

    def _lowered(self, name: Any) -> str:
        lower = _columns.name_of(name)
        others = [other for other, known in self._lower.items() if known == lower]
        if others:
            raise UsageError(f"columns {others[0]} and {name} have one name in a shard", help="rename one of them")
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
        is_class, where = column.member == _columns.CLASS, f"row {self.rows}, column {name}"
        if is_class and _columns.CLASS in self._required:
            raise UsageError(
                f"columns {self._required[_columns.CLASS]} and {name} are both classes",
                help="a sample has one class: give one of them another type",
            )
        if name in _LABELS and not is_class and column.member == f"{name}.npy":
            # Readers of tar files take such a file for the label.
            column = replace(column, member=f"{name}s.npy")
        if name in _LABELS and not is_class and name not in self._types.columns and self._types.label is None:
            what = f"column {name} is {kind}: a component ({column.member}), and no class"
            warnings.warn(f"{what}; label='' says so, whole numbers and text are classes", Note, stacklevel=4)
        if self.rows and (is_class or column.is_image and (self._image is None or name == "image")):
            raise DataError(f"the first value of a column of type {kind}, and all rows need one", sample=where)
        if any(other.member == column.member for other in self._columns.values()):
            raise UsageError(f"column {name}: another column has the files {column.member}", help="rename one of them")
        if len(self._columns) == _MOST:
            raise UsageError(f"column {name}: a dataset has at most {_MOST} columns", help="put several into one dict")
        self._columns[name] = column
        if is_class:
            self._required[_columns.CLASS] = name
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
        if _columns.CLASS not in self._required and (self._types.label or self._types.names):
            what = f"label={self._types.label!r}" if self._types.label else "class_names"
            raise UsageError(f"{what}, and row 0 has no such column of classes: it has {', '.join(self._columns)}")
        return members

    def _store(self) -> None:
        """Keep columns and options for a run that resumes."""
        if self._spool is not None:
            columns = [asdict(column) for column in self._columns.values()]
            state = {"dst": self._dst, **self._types.kept(), "image": self._image, "columns": columns}
            self._spool.put_note(_STATE, json.dumps(state).encode())

    def _restore(self, content: bytes | None) -> None:
        """Take columns and options of the interrupted run."""
        try:
            state = json.loads(content or b"")
            columns = [_columns.Column.kept(fields) for fields in state["columns"]]
            image, same = state["image"], {"dst": self._dst, **self._types.kept()}
            different = [name for name, value in same.items() if state[name] != value]
        except (ValueError, KeyError, TypeError):
            raise DataError(
                f"{_STATE} is missing or damaged", self.folder, help="remove the folder, and write all rows again"
            ) from None
        if different:
            name = different[0]
            raise UsageError(
                f"{name} is {shown(same[name])}, and {shown(state[name])} in the rows that are kept", self.folder
            )
        for column in columns:
            given = self._types.columns.get(column.name)
            if given is not None and not column.is_of(given):
                raise UsageError(f"column {column.name} is {given}, and {column.kind} in the rows that are kept")
            self._columns[column.name] = column
            if column.member == _columns.CLASS or column.name == image:
                self._required[column.member] = column.name
        self._image = image

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


def joined(spools: Sequence[Finished]) -> dict[str, Any]:
    """Return the options of `convert` for spools of one dataset, or raise an error if their columns differ."""
    filled = [one for one in spools if one.rows]
    if not filled:
        raise DataError("no rows", spools[0].folder if spools else None)
    first = filled[0]
    kinds: dict[str, tuple[list[str], Finished]] = {}
    for one in filled:
        if (one.image, one.names) != (first.image, first.names):
            raise UsageError(f"has another column of images or other class names than {first.folder}", one.folder)
        for name, column in one.columns.items():
            known, where = kinds.setdefault(name, (column, one))
            if known != column and not name == one.image:
                raise UsageError(
                    f"column {name} is {column[0]}, and {known[0]} in {where.folder}",
                    one.folder,
                    help=f"columns={{{name!r}: TYPE}} gives all the same type",
                )
    classes = [any(member == _columns.CLASS for _, member in one.columns.values()) for one in filled]
    if len(set(classes)) > 1:
        raise UsageError("has no class, and other rows have one", filled[classes.index(False)].folder)
    unseen = set(first.unseen).intersection(*(one.unseen for one in filled))
    if unseen:
        raise UsageError(
            f"columns: no row has a value of {', '.join(sorted(unseen))}; the rows have {', '.join(kinds)}",
            first.folder,
        )
    options: dict[str, Any] = {"label_feature": _columns.CLASS} if classes[0] else {"no_labels": True}
    if first.image is not None:
        options["image_feature"] = first.columns[first.image][1]
    if first.names:
        options["classes"] = os.path.join(first.folder, _CLASSES)
    return options


def _names(names: Sequence[str] | None) -> list[str]:
    """`class_names`, after checks: each has to be a label that stands for itself."""
    found = [] if names is None else list(names)
    for number, name in enumerate(found):
        problem = _columns.name_problem(name)
        if problem is not None and name != str(number):
            raise UsageError(f"class_names: {shown(name)} is no name of class {number}: {problem}")
    if len(set(found)) < len(found):
        raise UsageError("class_names: two classes have one name")
    return found
