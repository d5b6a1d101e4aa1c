"""Commands as Python functions, and the program that the package installs."""

from __future__ import annotations

import inspect
import io
import json
import signal
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import pytest

import shardpack

PROGRAM = Path(sys.executable).with_name("shardpack")


def program(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shardpack", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_names_of_others_stay_on_their_line() -> None:
    error = shardpack.errors.DataError("is\x1b[2K\u202e", file="a\nok: verified", help="b\tc")
    assert str(error) == "a\\u{a}ok: verified: is\\u{1b}[2K\\u{202e}\n  help: b\\u{9}c"
    assert (error.message, error.file) == ("is\x1b[2K\u202e", "a\nok: verified")


def test_a_report_is_printed_as_lines(few: Path) -> None:
    report = shardpack.inspect(few)
    lines = str(report).splitlines()
    assert "ok: True" in lines and "    samples: 17" in lines and max(map(len, lines)) < 200
    assert len(repr(report)) < 200 and "datasets" in repr(report)


def test_a_function_makes_the_bytes_that_the_program_makes(tree: Path, tmp_path: Path) -> None:
    report = shardpack.pack(tree, tmp_path / "function", shard_size="1MiB", seed=7, exclude=["class09/*", "class08/*"])
    done = program("pack", tree, tmp_path / "program", "--shard-size", "1MiB", "--seed", 7, "--exclude", "class09/*",
                   "--exclude", "class08/*", "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert report.ok and report.datasets == document["datasets"] and report.datasets[0]["samples"] == 240
    names = sorted(path.name for path in (tmp_path / "function").rglob("*") if path.is_file())
    assert names == sorted(path.name for path in (tmp_path / "program").rglob("*") if path.is_file())
    for path in (tmp_path / "function").glob("*.tar"):
        assert path.read_bytes() == (tmp_path / "program" / path.name).read_bytes()


def test_verify_inspect_plan_convert_and_crops(tree: Path, packed: Path, tmp_path: Path) -> None:
    assert shardpack.verify(packed).ok
    assert shardpack.inspect([packed]).datasets[0]["samples"] == 300
    assert shardpack.plan(tree, tmp_path / "planned").ok and not (tmp_path / "planned").exists()
    report = shardpack.convert(packed, tmp_path / "records", format="tfrecord")
    assert (
        report.ok and shardpack.Dataset(tmp_path / "records").find(shardpack.Dataset(tmp_path / "records")[3].key) == 3
    )
    assert shardpack.crops(tmp_path / "records").ok
    assert "elapsed_ms" in dir(report) and isinstance(report.elapsed_ms, int)
    with pytest.raises(AttributeError, match="no field 'nothing': there are"):
        report.nothing


def test_components_of_adopted_shards_are_loaded(tree: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tars"
    folder.mkdir()
    with tarfile.open(folder / "a.tar", "w") as tar:
        for number, image in enumerate(sorted(tree.rglob("*.jpg"))[:8]):
            texts = {"cls": str(number % 2), "json": f'{{"number": {number}}}'} | (
                {"txt": f"image {number}"} if number else {}
            )
            contents = {"jpg": image.read_bytes()} | {name: text.encode() for name, text in texts.items()}
            for extension, content in contents.items():
                member = tarfile.TarInfo(f"{number}.{extension}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    assert shardpack.adopt(folder).ok and shardpack.verify(folder).ok
    batch = next(iter(shardpack.Loader(folder, 8, transform="eval", shuffle=False, components=["txt", "json"])))
    assert batch["txt"] == [None, *(f"image {number}" for number in range(1, 8))]
    assert batch["json"] == [{"number": number} for number in range(8)] and list(batch["label"]) == [0, 1] * 4


def test_parts_are_packed_told_of_and_merged(tree: Path, tmp_path: Path) -> None:
    whole = shardpack.pack(tree, tmp_path / "whole", shard_size="1MiB")
    shardpack.plan(tree, tmp_path / "packed", output=tmp_path / "plan", shard_size="1MiB")
    shardpack.pack(tmp_path / "packed", plan=tmp_path / "plan", part="2/2")
    assert shardpack.status(tmp_path / "packed").parts == {"done": ["2/2"], "running": [], "missing": ["1/2"]}
    early = shardpack.merge(tmp_path / "packed")
    assert not early.ok and early.missing["parts"] == ["1/2"]
    shardpack.pack(tmp_path / "packed", plan=tmp_path / "plan", part="1/2")
    merged = shardpack.merge(tmp_path / "packed")
    assert merged.ok and merged.datasets[0]["id"] == whole.datasets[0]["id"]


def test_damage_makes_verify_false_and_names_it(tree: Path, tmp_path: Path) -> None:
    shardpack.pack(tree, tmp_path / "packed")
    (shard,) = (tmp_path / "packed").glob("*.tar")
    content = bytearray(shard.read_bytes())
    content[700] ^= 1
    shard.write_bytes(content)
    report = shardpack.verify(tmp_path / "packed")
    assert not report.ok and report.problems[0]["file"].endswith(".tar")
    assert shardpack.verify(tmp_path / "packed", repair=tree).ok and shardpack.verify(tmp_path / "packed").ok


def test_errors_have_a_place_and_help(tmp_path: Path) -> None:
    with pytest.raises(shardpack.MachineError) as raised:
        shardpack.pack(tmp_path / "nothing", tmp_path / "packed")
    assert raised.value.file.endswith("nothing") and "nothing" in str(raised.value)
    with pytest.raises(shardpack.UsageError, match="shard-size"):
        shardpack.pack(tmp_path, tmp_path / "packed", shard_size="large")
    with pytest.raises(TypeError):
        shardpack.pack(tmp_path, tmp_path / "packed", no_such_option=1)
    assert issubclass(shardpack.Interrupted, KeyboardInterrupt) and issubclass(shardpack.DataError, ValueError)


def test_a_path_that_begins_with_a_dash_is_a_path(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shardpack.pack(tree, "-packed").ok and Path("-packed").is_dir() and shardpack.verify(["-packed"]).ok


def test_progress_is_told_and_an_exception_in_it_ends_the_work(tree: Path, tmp_path: Path) -> None:
    seen: list[shardpack.Progress] = []
    shardpack.pack(tree, tmp_path / "packed", progress=seen.append)
    assert seen and all(one.samples <= (one.total_samples or one.samples) for one in seen)

    def enough(now: shardpack.Progress) -> None:
        raise StopIteration("enough")

    with pytest.raises(StopIteration):
        shardpack.pack(tree, tmp_path / "other", progress=enough)
    # The same call resumes.
    assert shardpack.pack(tree, tmp_path / "other").ok
    pytest.importorskip("tqdm")
    assert shardpack.verify(tmp_path / "packed", progress=True).ok


SLOW = """
import sys, shardpack
print("begins", flush=True)
try:
    shardpack.pack(sys.argv[1], sys.argv[2], resize=64, encode="png", jobs=1, progress=lambda now: print(now.verb, flush=True))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_a_pack_and_the_same_call_goes_on(tmp_path: Path) -> None:
    from conftest import make_tree

    tree = make_tree(tmp_path / "tree", 3000)
    running = subprocess.Popen(
        [sys.executable, "-c", SLOW, tree, tmp_path / "packed"], stdout=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    while (line := running.stdout.readline().strip()) not in ("packing", "making", ""):
        pass
    assert line, "it has ended before"
    running.send_signal(signal.SIGINT)
    rest, _ = running.communicate(timeout=30)
    assert rest.splitlines()[-1] == "interrupted"
    assert not (tmp_path / "packed" / "manifest.json").exists()
    report = shardpack.pack(tree, tmp_path / "packed", resize=64, encode="png")
    assert report.ok and report.datasets[0]["samples"] == 3000


def test_commands_in_threads_keep_to_themselves(tree: Path, tmp_path: Path) -> None:
    reports = {}

    def pack(seed: int) -> None:
        reports[seed] = shardpack.pack(tree, tmp_path / str(seed), seed=seed)

    threads = [threading.Thread(target=pack, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({report.datasets[0]["id"] for report in reports.values()}) == 4


def test_the_reference_is_made_of_the_docstrings() -> None:
    make = Path(__file__).resolve().parents[1] / "make_reference.py"
    assert subprocess.run([sys.executable, make, "--check"]).returncode == 0, "python make_reference.py writes it anew"


def test_every_option_is_an_argument_with_its_help() -> None:
    from shardpack import _native, commands

    make = Path(__file__).resolve().parents[1] / "make_commands.py"
    assert subprocess.run([sys.executable, make, "--check"]).returncode == 0, "python make_commands.py writes it anew"
    for command in ("pack", "convert", "adopt", "plan", "verify", "crops", "inspect"):
        function = getattr(commands, command)
        told = {name.rstrip("_").replace("_", "-") for name in inspect.signature(function).parameters}
        for name, _, _, _, is_positional, *_ in _native.options(command)[1]:
            if not is_positional and name not in ("json", "quiet", "color", "help"):
                assert name in told and f"{name.replace('-', '_')}" in function.__doc__


def test_the_program_is_the_program(tree: Path, tmp_path: Path) -> None:
    assert PROGRAM.exists()
    for command in ([str(PROGRAM)], [sys.executable, "-m", "shardpack"]):
        told = subprocess.run([*command, "--version"], capture_output=True, text=True)
        assert (told.returncode, told.stdout) == (0, f"shardpack {shardpack.__version__}\n")
        assert subprocess.run([*command, "verify", tmp_path / "no"], capture_output=True).returncode == 2
        assert (
            subprocess.run([*command, "pack", tree, tmp_path / "packed", "--quiet"], capture_output=True).returncode
            == 0
        )
        # A closed pipe is not an error.
        shell = f"{' '.join(command)} inspect {tmp_path}/packed --samples --limit 0 | head -n 1"
        done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True)
        assert done.returncode == 0 and done.stderr == ""


def test_ctrl_c_ends_the_program_with_130(tmp_path: Path) -> None:
    from conftest import make_tree

    tree = make_tree(tmp_path / "tree", 2000)
    command = [PROGRAM, "pack", tree, tmp_path / "packed", "--resize", "64", "--encode", "png", "--jobs", "1"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(0.7)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=30)
    assert running.returncode == 130


def test_the_program_does_not_wait_for_numpy() -> None:
    script = "import sys, shardpack.__main__; print('numpy' in sys.modules, sorted(set(shardpack.__all__) - set(dir(shardpack))))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False []\n"
    script = (
        "import shardpack; print(shardpack.distributed.find(0, 2).rank, shardpack.batch.NO_LABEL == shardpack.NO_LABEL)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "0 True\n"
    with pytest.raises(AttributeError, match="no attribute 'loaders'"):
        shardpack.loaders  # type: ignore[attr-defined]  # noqa: B018
