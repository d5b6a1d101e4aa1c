"""Runs every Python block of the user pages unchanged.

The blocks of a section (a heading of two `#`) share one namespace, which contains `shardpack`, and one folder. The folder
holds the sources that the blocks name: `photos`, a tree of images; `packed`, packed from `photos` unless the section packs
it; and others (`SOURCES`). The line `print(…)  # text` must print `text`. A block whose package is not installed is
skipped by name, and so is a block that uses a name from a skipped block.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardpack

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    "docs/reference/python.md",
    "docs/reference/python-api.md",
    "docs/how-to/coming-from.md",
    "python/README.md",
    "README.md",
]

#: Sections to run, by page; tests/cli/pages.rs handles the other Python blocks.
SECTIONS = {"README.md": ["Train"]}

# Ray reads this on import. Without it, Ray replaces 127.0.0.1 by an address of the machine, where nothing may listen.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

#: Packages that need not be installed. Any other missing package is an error of the page.
OPTIONAL = {
    *[
        "PIL",
        "accelerate",
        "datasets",
        "ffcv",
        "grain",
        "h5py",
        "jax",
        "lightning",
        "litdata",
        "lmdb",
        "nvidia",
        "pyarrow",
        "ray",
    ],
    *["streaming", "tensorflow", "timm", "torch", "torchdata", "torchvision", "transformers", "webdataset"],
}


@dataclass(frozen=True)
class Block:
    """A block of a page."""

    page: str
    section: str
    line: int
    text: str = field(repr=False)

    @property
    def names(self) -> tuple[set[str], set[str]]:
        """Names that the block defines, and names that it uses from elsewhere."""
        names = [node for node in ast.walk(ast.parse(self.text)) if isinstance(node, ast.Name)]
        made = {node.id for node in names if isinstance(node.ctx, ast.Store)} | {name for name, _ in self._imported}
        definitions = (ast.FunctionDef, ast.ClassDef)
        made |= {node.name for node in ast.walk(ast.parse(self.text)) if isinstance(node, definitions)}
        return made, {node.id for node in names if isinstance(node.ctx, ast.Load)} - made

    @property
    def modules(self) -> list[str]:
        """Modules that the block imports."""
        return [module for _, module in self._imported]

    @property
    def packages(self) -> set[str]:
        """Packages that the block needs: `ray` for `shardpack.ray`."""
        parts = [module.split(".") for module in self.modules]
        return {part[1] if part[0] == "shardpack" and len(part) > 1 else part[0] for part in parts}

    @property
    def _imported(self) -> list[tuple[str, str]]:
        found = []
        for node in ast.walk(ast.parse(self.text)):
            if isinstance(node, ast.Import):
                found += [((one.asname or one.name).split(".")[0], one.name) for one in node.names]
            if isinstance(node, ast.ImportFrom):
                found += [(one.asname or one.name, str(node.module)) for one in node.names]
        return found

    @property
    def printed(self) -> list[str]:
        """Lines that the block must print, from its comments."""
        lines = [line for line in self.text.splitlines() if line.lstrip().startswith("print(")]
        return [line.split("  # ", 1)[1] for line in lines if "  # " in line]


def blocks_of(page: str) -> list[Block]:
    """The Python blocks of a page, in order."""
    found, section, start, lines = [], "", None, []
    for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
        if start is not None and line == "```":
            found.append(Block(page, section, start, "\n".join(lines)))
            start, lines = None, []
        elif start is not None:
            lines.append(line)
        elif line == "```python" and section in SECTIONS.get(page, [section]):
            start = number
        elif line.startswith("## "):
            section = line[3:]
    assert start is None, f"{page}: the block of line {start} has no end"
    return found


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def shards(tree: Path, folder: Path, pattern: str, **options: Any) -> None:
    """Shards of a format without shardpack's other files, as another writer makes them."""
    made = folder.with_name(f"{folder.name}-made")
    assert shardpack.pack(tree, made, **options).ok
    folder.mkdir()
    for one in made.iterdir():
        if re.fullmatch(pattern, one.name):
            one.rename(folder / one.name)
    shutil.rmtree(made)


def images_of(tree: Path) -> list[tuple[bytes, int]]:
    """Content and label of the photographs, in ImageFolder order."""
    classes = sorted(tree.iterdir())
    return [(one.read_bytes(), label) for label, place in enumerate(classes) for one in sorted(place.iterdir())]


def databases(path: Path, entries: list[tuple[bytes, bytes]]) -> None:
    lmdb = pytest.importorskip("lmdb")
    with lmdb.open(str(path), map_size=1 << 28) as environment, environment.begin(write=True) as transaction:
        for key, value in entries:
            transaction.put(key, value)


def pickled(tree: Path, path: Path) -> None:
    """A pickle of image and label under each number."""
    import pickle

    databases(path, [(b"%08d" % at, pickle.dumps(one)) for at, one in enumerate(images_of(tree))])


def chunked(tree: Path, path: Path) -> None:
    """100 samples of arrays and numbers in each value."""
    import pickle

    samples = [{"x": np.full(16, at, np.float32), "y": at % 7} for at in range(1000)]
    values = [samples[first : first + 100] for first in range(0, 1000, 100)]
    databases(path, [(b"%04d" % at, pickle.dumps(value)) for at, value in enumerate(values)])


def table(tree: Path, path: Path) -> None:
    """200 images of 32 × 32 and their labels, as two arrays."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        generator = np.random.default_rng(0)
        file["images"] = generator.integers(0, 256, (200, 32, 32, 3), dtype=np.uint8)
        file["labels"] = np.arange(200) % 10


def beton(tree: Path, path: Path) -> None:
    fields, writer = pytest.importorskip("ffcv.fields"), pytest.importorskip("ffcv.writer")
    image = pytest.importorskip("PIL.Image")

    class Source:
        paths = [(one, int(one.parent.name[-2:])) for one in sorted(tree.rglob("*.jpg"))[:64]]

        def __len__(self) -> int:
            return len(self.paths)

        def __getitem__(self, at: int) -> Any:
            return np.asarray(image.open(self.paths[at][0]).convert("RGB")), self.paths[at][1]

    kinds = {"image": fields.RGBImageField(write_mode="jpg"), "label": fields.IntField()}
    writer.DatasetWriter(str(path), kinds, num_workers=1).from_indexed_dataset(Source())


def chunks(tree: Path, path: Path) -> None:
    litdata = pytest.importorskip("litdata")
    samples = images_of(tree)
    with pytest.MonkeyPatch.context() as patch:
        # `optimize` empties these folders before it writes, even if others use them.
        for variable in ("DATA_OPTIMIZER_CACHE_FOLDER", "DATA_OPTIMIZER_DATA_CACHE_FOLDER"):
            patch.setenv(variable, str(path.with_name(f"{path.name}-{variable.lower()}")))
        litdata.optimize(
            lambda at: {"image": samples[at][0], "label": samples[at][1]},
            list(range(len(samples))),
            str(path),
            chunk_bytes="4MB",
            num_workers=1,
            verbose=False,
            start_method="fork",
        )


#: Functions that make a source, by name; called if a block has the name in quotes.
SOURCES: dict[str, Callable[[Path, Path], None]] = {
    "tars": lambda tree, path: shards(tree, path, r".*\.tar", name="train", shards=4),
    "mds": lambda tree, path: shards(tree, path, r".*\.mds|index\.json", format="mds", shards=2),
    "records": lambda tree, path: shards(tree, path, r"train-\d+-of-\d+", format="tfrecord", name="train", shards=2),
    "train.lmdb": pickled,
    "chunked.lmdb": chunked,
    "train.h5": table,
    "train.beton": beton,
    "chunks": chunks,
    "more": lambda tree, path: shutil.copytree(path.with_name("packed"), path),
    "val": lambda tree, path: shutil.copytree(path.with_name("packed"), path),
}


@dataclass
class Section:
    """State that the blocks of a section share."""

    folder: Path
    namespace: dict[str, Any]
    #: Reason why each block was skipped; `None` if it ran.
    ran: dict[Block, str | None] = field(default_factory=dict)


@pytest.fixture(scope="session")
def sections() -> dict[tuple[str, str], Section]:
    return {}


def prepared(folder: Path, text: str, tree: Path, packed: Path, arrays: Path) -> None:
    """Fills a folder with the sources that a section uses and that need no package."""
    shutil.copytree(tree, folder / "photos", copy_function=os.link)
    if not re.search(r'(pack|convert)\([^)]*"packed"', text):
        shutil.copytree(packed, folder / "packed")
    if '"arrays"' in text:
        shutil.copytree(arrays, folder / "arrays")


def make_sources(block: Block, section: Section) -> None:
    for name, make in SOURCES.items():
        if re.search(rf'"{re.escape(name)}["/]', block.text) and not (section.folder / name).exists():
            make(section.folder / "photos", section.folder / name)


def start_ray() -> None:
    import ray

    if not ray.is_initialized():
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")


def import_all(block: Block) -> None:
    for module in block.modules:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            missing(error)


def missing(error: ModuleNotFoundError) -> None:
    name = str(error.name).split(".")[0]
    if name not in OPTIONAL:
        raise error
    pytest.skip(f"{name} is not installed")


def run(block: Block, section: Section, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs a block, after the earlier blocks of its section that have not run yet."""
    for before in [one for one in BLOCKS if (one.page, one.section) == (block.page, block.section)]:
        if before == block:
            break
        if before not in section.ran:
            try:
                run(before, section, capsys)
            except pytest.skip.Exception:
                pass
        if section.ran[before] is not None and before.names[0] & block.names[1]:
            section.ran[block] = f"line {before.line} was skipped: {section.ran[before]}"
            pytest.skip(section.ran[block])
    try:
        import_all(block)
        if {"ray", "shardpack.ray"} & set(block.modules):
            start_ray()
        make_sources(block, section)
        # Tracebacks have the line numbers of the page.
        code = compile("\n" * block.line + block.text, str(ROOT / block.page), "exec")
        capsys.readouterr()
        try:
            exec(code, section.namespace)
        except ModuleNotFoundError as error:
            missing(error)
        section.ran[block] = None
    except pytest.skip.Exception as skipped:
        section.ran[block] = str(skipped)
        raise
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line in block.printed] == block.printed, f"printed: {lines}"


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page}:{block.line}")
def test_each_block_runs(
    block: Block,
    sections: dict[tuple[str, str], Section],
    tree: Path,
    packed: Path,
    arrays: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    at = (block.page, block.section)
    if at not in sections:
        text = "\n".join(one.text for one in BLOCKS if (one.page, one.section) == at)
        prepared(tmp_path, text, tree, packed, arrays)
        sections[at] = Section(tmp_path, {"__builtins__": builtins, "__name__": "page", "shardpack": shardpack})
    monkeypatch.chdir(sections[at].folder)
    run(block, sections[at], capsys)


@pytest.mark.parametrize("page", PAGES)
def test_no_block_of_a_page_is_left_out(
    page: str, request: pytest.FixtureRequest, sections: dict[tuple[str, str], Section]
) -> None:
    fences = [line for line in (ROOT / page).read_text().splitlines() if re.match(r"\s*(```|~~~)", line)]
    blocks = [block for block in BLOCKS if block.page == page]
    assert blocks and (page in SECTIONS or sum("py" in line.lower() for line in fences) == len(blocks))
    wanted = {f"test_each_block_runs[{page}:{block.line}]" for block in blocks}
    chosen = wanted & {item.name for item in request.session.items}
    if chosen != wanted:
        pytest.skip("not all blocks of the page were chosen")
    ran = {block for section in sections.values() for block in section.ran}
    assert ran >= set(blocks), f"not run: {set(blocks) - ran}"


def test_what_needs_no_package_is_never_skipped(sections: dict[tuple[str, str], Section]) -> None:
    for section in sections.values():
        for block, why in section.ran.items():
            if OPTIONAL.isdisjoint(block.packages):
                # Unless an earlier block or the function that makes a source was skipped.
                assert why is None or why.startswith(("line ", "could not import")), f"{block}: {why}"
