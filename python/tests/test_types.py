"""Checks the types of the package with its examples: strict mypy, and pyright."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_pages import BLOCKS, ROOT

#: Examples on pages leave out annotations to stay short.
SHORT = ["--allow-untyped-defs", "--allow-incomplete-defs", "--allow-untyped-calls"]
#: Their base classes may be in packages that are not installed.
SHORT += ["--allow-subclassing-any"]


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each section of the pages as a module, as test_pages.py runs it."""
    folder = tmp_path_factory.mktemp("modules")
    texts: dict[tuple[str, str], list[str]] = {}
    for block in BLOCKS:
        if block.section == "DALI":
            # If DALI is not installed, the types of decorated functions are unknown.
            continue
        texts.setdefault((block.page, block.section), ["import shardpack"]).append(block.text)
    for number, ((page, section), blocks) in enumerate(texts.items()):
        (folder / f"page_{number}.py").write_text("\n\n".join([f"# {page}: {section}", *blocks]) + "\n")
    assert len(texts) > 20
    return folder


def check(tool: list[str], folder: Path) -> None:
    done = subprocess.run([sys.executable, "-m", *tool], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("which", ["examples", "pages"])
def test_mypy_passes(modules: Path, which: str) -> None:
    pytest.importorskip("mypy")
    strict = ["mypy", "--strict", "--ignore-missing-imports", "--no-error-summary", f"--cache-dir={modules}/cache"]
    if which == "pages":
        check([*strict, *SHORT, "."], modules)
    else:
        check([*strict, str(ROOT / "python/examples")], modules)


def test_wrong_values_are_type_errors(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    right = 'shardpack.pack("src", "dst", on_bad="skip", shards=3, shard_size="1GiB", format=["mds", "tfrecord"])'
    wrong = ['on_bad="skp"', 'shards="3"', "path_column=1", 'format=["mds", "zip"]', "dedupe=True"]
    calls = [f'shardpack.pack("src", "dst", {value})' for value in wrong]
    (tmp_path / "calls.py").write_text("\n".join(["import shardpack", right, *calls]) + "\n")
    mypy = [sys.executable, "-m", "mypy", "--no-error-summary", f"--cache-dir={tmp_path}/cache", "calls.py"]
    done = subprocess.run(mypy, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    lines = [int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line]
    assert sorted(set(lines)) == [3, 4, 5, 6, 7], done.stdout + done.stderr


def test_pyright_passes(modules: Path) -> None:
    pytest.importorskip("basedpyright")
    for example in (ROOT / "python/examples").glob("*.py"):
        shutil.copy(example, modules)
    told = {"typeCheckingMode": "standard", "reportMissingImports": "none", "reportMissingModuleSource": "none"}
    # pyright assumes that a loop over a loader may have no iteration.
    told["reportPossiblyUnboundVariable"] = "none"
    (modules / "pyrightconfig.json").write_text(json.dumps(told))
    check(["basedpyright", "--pythonpath", sys.executable, "--level", "error"], modules)
