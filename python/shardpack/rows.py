"""Packs rows that a program yields: dicts of images, text, numbers and arrays.

Rows are written to a spool, a folder of files beside the destination, and `shardpack.convert` packs the spool: it plans, shuffles,
hashes and seals as for any other source. So a spool needs as much disk space as the dataset, and memory holds 128 MiB of rows.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from . import _columns, _native, _spool, _tables, commands
from ._options import refuse
from ._rows import Rows
from .errors import DataError, Error, UsageError
from .running import PathLike, Progress, Report, _bar, arguments, report, run, teller

#: Interval between reports of progress, in seconds.
_SHOWS_S = 0.1
#: Options of `convert` that a `Writer` sets, or that are for other sources.
_OWN = (
    *("from_", "image_feature", "label_feature", "label_index", "label_from", "key_pattern", "skip_header"),
    *("split", "part", "dry_run", "no_labels", "classes", "components", "fields"),
)
#: Folders of parts: number and count.
_PART = re.compile(r"part-(\d{6})-of-(\d{6})")
#: Name of a split.
_SPLIT = re.compile(r"[A-Za-z0-9_-]+")


class Writer:
    """Writes a dataset row by row.

    The end of the `with` block packs all rows; an exception in it packs nothing. `pack(rows, dst)` does the same for rows that
    exist already.

    A row is a dict with one value a column:

    | value | becomes |
    |---|---|
    | PIL image | a PNG file, or as `columns` says |
    | bytes of an image; other bytes | the same bytes |
    | `str`; `dict`, other lists | text; JSON |
    | number, array, tensor, list of numbers | an array with dtype and shape |
    | `None` | nothing: the sample lacks the component |

    The column `label` (or `cls`) is the class if it has whole numbers or text. The column `image`, else the first column
    of images, is the image of the sample, and every row needs it.

    Args:
        dst: Folder or URL of the dataset.
        columns: Types by column, instead of the type of the first value: `image` (encoded), `jpeg`, `jpeg:90`, `png`,
            `webp`, `text`, `json`, `bytes`, `class`, `array`, a dtype such as `float32`, or an extension such as `.flac`.
        label: Column with the class; `""` for none.
        class_names: Names of the classes, by number.
        resume: Continue after the rows that an interrupted run has kept; `rows` is their number.
        part: This process writes part `"3/8"`; `shardpack.merge(dst)` packs the rows of all parts, in their order.
        spool: Folder for the rows until they are packed; `None`: DST with `.rows` added.
        progress: As for `pack`, at the end of the block.
        options: Options of `shardpack.convert`, such as `order="source"`, `format`, `shard_size` or `seed`.

    Attributes:
        rows: Number of rows that are written.
        report: The report of `convert`, after the block; `None` for a part.

    Raises:
        UsageError: If an option is invalid, or rows of an interrupted run are in the spool.
        DataError: If a value does not fit its column: with the row and the column.

    Example:
        with shardpack.Writer("squares", order="source") as writer:
            for number in range(100):
                writer.write({"label": number % 2, "square": number * number, "text": f"the square of {number}"})
        print(writer.rows, shardpack.Dataset("squares")[3].label)  # 100 1
    """

    def __init__(
        self,
        dst: PathLike,
        columns: Mapping[str, str] | None = None,
        *,
        label: str | None = None,
        class_names: Sequence[str] | None = None,
        resume: bool = False,
        part: str | None = None,
        spool: PathLike | None = None,
        progress: bool | Callable[[Progress], None] | None = None,
        **options: Any,
    ) -> None:
        self._dst, self._progress, self._options = _absolute(dst), progress, _checked(options)
        self._is_part = part is not None
        folder = _folder(self._dst, spool)
        if part is None:
            _refuse_sealed(self._dst, resume, options)
            self._spool = _spool.Rows(folder, self._dst, _spool.Types(columns, label, class_names), resume)
        else:
            _as_json(options)
            _refuse_others(folder, _PART)
            folder = os.path.join(folder, _part(part))
            self._spool = _spool.Rows(folder, self._dst, _spool.Types(columns, label, class_names), resume)
        self.report: Report | None = None

    @property
    def rows(self) -> int:
        """Number of rows that are written."""
        return self._spool.rows

    def write(self, row: Mapping[str, Any]) -> None:
        """Write a row."""
        self._spool.write(row)

    def close(self) -> Report | None:
        """Pack all rows, and remove the spool. The end of a `with` block does it."""
        done = self._spool.finish({"options": _as_json(self._options)} if self._is_part else None)
        try:
            if not self._is_part:
                self.report = _pack(self._dst, {None: [done]}, self._options, self._progress, [self._spool])
        finally:
            self._spool.close()
        return self.report

    def abandon(self) -> None:
        """Pack nothing. Rows that are in complete files of the spool are kept for `resume=True`."""
        self._spool.abandon()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.abandon()
        elif self._spool.is_open:
            self.close()


def pack(
    rows: Rows | Mapping[str, Rows],
    dst: PathLike,
    columns: Mapping[str, str] | None = None,
    *,
    label: str | None = None,
    class_names: Sequence[str] | None = None,
    resume: bool = False,
    spool: PathLike | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
    **options: Any,
) -> Report:
    """Pack all rows that `rows` yields; `shardpack.pack` calls this function for rows.

    Args:
        rows: Dicts, or tuples in the order of `columns`: a generator, a sequence, a dataset of torch or Hugging Face,
            a table of pandas, polars or pyarrow; a function that is called as `rows(start=N)`; or a dict of these by
            split.
        dst: Folder or URL of the dataset.
        columns: As for `Writer`.
        label: As for `Writer`.
        class_names: As for `Writer`.
        resume: Continue after the rows that an interrupted run has kept. Sequences, tables and functions begin with the
            next row; of other iterables, the kept rows are drawn and dropped.
        spool: As for `Writer`.
        progress: As for `shardpack.pack`.
        options: As for `Writer`.

    Returns:
        The report of `shardpack.convert`.
    """
    options, path = _checked(options), _absolute(dst)
    folder = _folder(path, spool)
    splits = rows if isinstance(rows, Mapping) else {None: rows}
    for name in splits:
        if name is not None and not (isinstance(name, str) and _SPLIT.fullmatch(name)):
            raise UsageError(f"split {name!r}: names of splits have letters, digits, - and _")
    _refuse_sealed(path, resume, options)
    if isinstance(rows, Mapping):
        _refuse_others(folder, re.compile("|".join(map(re.escape, splits))))
    done: dict[str | None, list[_spool.Finished]] = {}
    writers: list[_spool.Rows] = []
    tell = teller(progress, _bar)
    try:
        for name, of_split in splits.items():
            found, names, of_source = _tables.with_features(of_split, label)
            types = _spool.Types(columns, label, names if class_names is None else class_names, of_source)
            writers.append(_spool.Rows(folder if name is None else os.path.join(folder, name), path, types, resume))
            done[name] = [_filled(writers[-1], found, tell)]
        return _pack(path, done, options, tell or False, writers)
    finally:
        for writer in writers:
            writer.close()
        _remove_empty(folder)
        if tell is not None and hasattr(tell, "close"):
            tell.close()


def _filled(writer: _spool.Rows, rows: Any, tell: Callable[[Progress], None] | None) -> _spool.Finished:
    """Write all rows."""
    total, shown_at = _tables.length(rows), 0.0
    try:
        for row in _tables.rows_from(rows, writer.rows):
            writer.write(row)
            if tell is not None and time.monotonic() - shown_at >= _SHOWS_S:
                shown_at = time.monotonic()
                tell(Progress("writing rows", writer.rows, total, 0, 0))
        return writer.finish(None)
    except BaseException:
        writer.abandon()
        raise


def merge(
    dst: PathLike,
    *,
    spool: PathLike | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
    **options: Any,
) -> Report:
    """Pack the rows of all parts that `Writer(part=…)` has written; `shardpack.merge` calls this function for them.

    Args:
        dst: Folder or URL of the dataset.
        spool: As for the writers.
        progress: As for `shardpack.pack`.
        options: Options of `shardpack.convert`, in addition to those of the writers.

    Returns:
        The report of `shardpack.convert`.
    """
    path = _absolute(dst)
    folder = _folder(path, spool)
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    found = [match for match in map(_PART.fullmatch, names) if match]
    counts = {int(match[2]) for match in found}
    if len(counts) > 1:
        raise UsageError(
            f"has parts of {' and '.join(map(str, sorted(counts)))}", folder, help="remove those of the other run"
        )
    writers: list[_spool.Rows] = []
    try:
        # All parts are locked, and a part that is still written is refused.
        writers += [_spool.Rows.of_part(os.path.join(folder, match[0]), path) for match in found]
        numbers = {int(match[1]) for match, writer in zip(found, writers) if writer.done is not None}
        missing = set(range(1, max(counts, default=1) + 1)) - numbers
        if found and not numbers and not any(writer.rows for writer in writers) and _is_sealed(path):
            # A merge ended after the dataset was sealed, and before all rows were removed.
            for writer in writers:
                writer.remove()
            return commands.inspect(path)
        if missing:
            raise UsageError(
                f"parts are missing or not finished: {', '.join(map(str, sorted(missing)[:10]))}",
                folder,
                help="run these parts again, with resume=True",
            )
        done = [writer.done for writer in writers if writer.done is not None]
        given = done[0].more["options"]
        if any(part.more["options"] != given for part in done):
            raise UsageError("parts were written with different options", folder)
        return _pack(path, {None: done}, {**given, **_checked(options)}, progress, writers)
    finally:
        for writer in writers:
            writer.close()
        _remove_empty(folder)


def _pack(
    dst: str,
    spools: Mapping[str | None, Sequence[_spool.Finished]],
    options: Mapping[str, Any],
    progress: bool | Callable[[Progress], None] | None,
    writers: Sequence[_spool.Rows],
) -> Report:
    """Pack the rows of finished spools, by split, and remove them."""
    kept = f"the rows are kept in {', '.join(writer.folder for writer in writers[:3])}, and resume=True packs them"
    try:
        every = [one for several in spools.values() for one in several]
        given: dict[str, Any] = {"src": None, "dst": dst, "progress": progress, **options, **_spool.joined(every)}
        _refuse_loss(every, options)
        files = {name: [one.files for one in several if one.rows] for name, several in spools.items()}
        if None in files:
            given["src"] = files[None]
        else:
            given["split"] = files
        packed = run("convert", ["src", "dst"], given)
        # Several formats have a report each.
        reports = packed.document.get("formats", [packed.document])
        if any(one["already_sealed"] for one in reports) and not options.get("force"):
            _refuse_other_rows(dst, files)
        if not packed.ok:
            bad = [f"{one['path']}: {one['reason']}" for one in reports[0].get("bad", [])]
            raise DataError(f"{len(bad):,} rows cannot be packed, the first: {''.join(bad[:1])}", dst)
    except Error as error:
        error.help = kept if error.help is None else f"{error.help}; {kept}"
        raise
    for writer in writers:
        writer.mark_packed()
    for writer in writers:
        writer.remove()
    return packed


def _refuse_other_rows(dst: str, files: Mapping[str | None, list[str]]) -> None:
    """Raise an error if a dataset that was sealed before has other rows: `convert` compares names and lengths."""
    against: list[str] = []
    for name, patterns in files.items():
        against += patterns if name is None else [f"{name}={pattern}" for pattern in patterns]
    if not commands.verify(dst, against=against).ok:
        raise UsageError("has other rows already", dst, help="force=True replaces them")


def _refuse_loss(spools: Sequence[_spool.Finished], options: Mapping[str, Any]) -> None:
    """Raise an error if a format has no place for the columns."""
    formats = options.get("format") or []
    columns = {name for one in spools for name, (_, member) in one.columns.items() if member != _columns.CLASS}
    images = {one.image for one in spools}
    if "recordio" in ([formats] if isinstance(formats, str) else formats) and columns - images:
        raise UsageError(
            f"recordio has an image and a class, and no place for {', '.join(sorted(columns - images))}",
            help="format='webdataset', 'tfrecord' or 'mds' has",
        )


def _refuse_sealed(dst: str, resume: bool, options: Mapping[str, Any]) -> None:
    """Raise an error before the first row if the destination cannot take a dataset."""
    if _native.is_url(dst) or options.get("force") or resume:
        return
    if _is_sealed(dst):
        raise UsageError("holds a dataset already", dst, help="force=True replaces it")
    if os.path.exists(dst) and not os.path.isdir(dst):
        raise UsageError("is no folder", dst)


def _is_sealed(dst: str) -> bool:
    """Whether a folder holds a dataset."""
    return any(os.path.exists(os.path.join(dst, name)) for name in ("manifest.json", "splits.json"))


def _refuse_others(folder: str, names: re.Pattern[str]) -> None:
    """Raise an error if a folder of several spools has anything else."""
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        if not names.fullmatch(name):
            raise UsageError(
                f"has {name} of another run", folder, help="remove the folder, or choose another one with spool"
            )


def _remove_empty(folder: str) -> None:
    """Remove a folder of spools if nothing is left in it."""
    try:
        os.rmdir(folder)
    except OSError:
        # Rows are kept in it, or it is gone.
        return


def _absolute(path: PathLike) -> str:
    """A path that does not depend on the working folder; a URL as it is."""
    text = os.fspath(path)
    if not isinstance(text, str) or not text:
        raise UsageError(f"{path!r} is no path of a dataset")
    return text if _native.is_url(text) else os.path.abspath(text)


def _folder(dst: str, spool: PathLike | None) -> str:
    """The folder of the spool."""
    if spool is None and _native.is_url(dst):
        raise UsageError(
            "spool is needed for a URL", dst, help="a folder of this machine, for the rows until they are packed"
        )
    return dst + ".rows" if spool is None else _absolute(spool)


def _part(text: str) -> str:
    """The folder of part `I/N`."""
    number, slash, count = str(text).partition("/")
    if not (slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count) <= 999_999):
        raise UsageError(f"part={text!r}: I/N is wanted, with I from 1 to N")
    return f"part-{int(number):06}-of-{int(count):06}"


def _as_json(options: Mapping[str, Any]) -> Any:
    """Options as the process that merges reads them."""
    try:
        return json.loads(json.dumps(options, default=os.fspath))
    except TypeError as error:
        raise UsageError(f"an option of a part: {error}") from None


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    """Options of `convert`, after a check of their names and values."""
    known = [name for name in inspect.signature(commands.convert).parameters if name not in _OWN][2:]
    refuse([name for name in options if name not in known], known)
    # The program parses all options before it prints help.
    code, printed, notes = _native.Command([*arguments("convert", [], options)[:-1], "--help"]).finish()
    if code != 0:
        report(code, json.loads(printed), notes)
    return options
