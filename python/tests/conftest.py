"""Shared fixtures: trees of photographs and arrays, packed by the package itself."""

from __future__ import annotations

import os
import re
import signal
import struct
from pathlib import Path

import numpy as np

# Workers of a DataLoader seed this module. An import in a forked worker fails with KeyError if the collector runs a finalizer that imports
# (https://github.com/python/cpython/issues/106176).
import numpy.random  # noqa: F401
import pytest

import shardpack
from shardpack import transforms

#: Packages that must be installed: a test that is skipped because one of these is missing counts as failed.
INSTALLED = os.environ.get("SHARDPACK_INSTALLED", "").split()


# A background job of a shell ignores SIGINT, and the programs that the tests start would inherit this setting.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    for report in reporter.stats.get("skipped", []):
        reason = report.longrepr[2]
        if missing := [name for name in INSTALLED if re.search(rf"'{name}[.']| {name} is not installed", reason)]:
            reporter.write_line(f"{report.nodeid}: skipped, and {missing[0]} has to be there: {reason}", red=True)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


# Ray refuses to run if less than 5 % of the disk is free, however little Ray stores on the disk.
os.environ.setdefault("RAY_local_fs_capacity_threshold", "1")

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
#: Some files named .jpg are not JPEGs.
PHOTOS = sorted(photo for photo in (FIXTURES / "photos").rglob("*.jpg") if photo.read_bytes().startswith(b"\xff\xd8"))


def numbered(photo: bytes, number: int) -> bytes:
    """The same photograph as another file: with a comment after the start marker."""
    comment = struct.pack(">HH8s", 0xFFFE, 10, f"{number:08}".encode())
    return photo[:2] + comment + photo[2:]


def make_tree(folder: Path, samples: int, classes: int = 10) -> Path:
    """An ImageFolder of `samples` photographs in `classes` classes."""
    photos = [photo.read_bytes() for photo in PHOTOS]
    for number in range(samples):
        place = folder / f"class{number % classes:02}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:06}.jpg").write_bytes(numbered(photos[number % len(photos)], number))
    return folder


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 photographs in 10 classes."""
    return make_tree(tmp_path_factory.mktemp("tree") / "photos", 300)


@pytest.fixture(scope="session")
def packed(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree, packed with crop tables into several shards."""
    folder = tmp_path_factory.mktemp("packed") / "packed"
    report = shardpack.pack(tree, folder, shard_size="1MiB", crops=True)
    assert report.ok and report.datasets[0]["samples"] == 300
    return folder


@pytest.fixture(scope="session")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """17 photographs in 2 classes."""
    folder = tmp_path_factory.mktemp("few")
    assert shardpack.pack(make_tree(folder / "photos", 17, 2), folder / "packed").ok
    return folder / "packed"


@pytest.fixture(scope="session")
def ragged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 photographs with an array each; array 5 has another shape, array 7 has Fortran order."""
    folder = tmp_path_factory.mktemp("ragged")
    make_tree(folder / "photos", 12, 1)
    for number in range(12):
        array = np.full((2, 3), number, np.float32) if number != 5 else np.full(4, number, np.float32)
        np.save(folder / f"photos/class00/{number:06}.npy", np.asfortranarray(array) if number == 7 else array)
    assert shardpack.pack(folder / "photos", folder / "packed", with_="npy").ok
    return folder / "packed"


@pytest.fixture(scope="session")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,000 samples of a float32[64] in 7 classes; the class is the first number divided by 64, modulo 7."""
    folder = tmp_path_factory.mktemp("arrays")
    for number in range(1000):
        place = folder / "tree" / str(number % 7)
        place.mkdir(parents=True, exist_ok=True)
        np.save(place / f"{number:04}.npy", np.arange(64, dtype=np.float32) + 64 * number)
    report = shardpack.pack(folder / "tree", folder / "packed", files="npy")
    assert report.ok
    return folder / "packed"


def numbers_of(batches) -> list[int]:
    return [int(number) for batch in batches for number in batch.samples]


def loader(packed: Path, batch_size: int = 16, **options) -> shardpack.Loader:
    options.setdefault("transform", transforms.imagenet_train(32))
    options.setdefault("output", "numpy")
    return shardpack.Loader(packed, batch_size, **options)
