"""Packing on a Ray cluster of three nodes, with lost nodes, and packed datasets as sources of Ray Data."""

from __future__ import annotations

import filecmp
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardpack
from conftest import make_tree
from shardpack import _child

# Ray reads these on import. Without the first, Ray replaces 127.0.0.1 by an address of the machine, where nothing may listen.
# With the last two, Ray detects a lost node in seconds.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_health_check_period_ms", "500")
os.environ.setdefault("RAY_health_check_failure_threshold", "4")

ray = pytest.importorskip("ray")
import shardpack.ray  # noqa: E402

NODE = {"num_cpus": 1, "object_store_memory": 80 << 20}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head without CPUs for the driver, so that no lost node runs it, and three nodes of one CPU each."""
    from ray.cluster_utils import Cluster

    # Ray always writes the address of a cluster to /tmp/ray. Socket paths must be short.
    os.makedirs("/tmp/ray", exist_ok=True)
    files = tempfile.mkdtemp(prefix="ray", dir="/tmp")
    head = {
        "num_cpus": 0,
        "object_store_memory": 80 << 20,
        "node_ip_address": "127.0.0.1",
        "include_dashboard": False,
        "temp_dir": files,
    }
    if ray.is_initialized():
        ray.shutdown()
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(3):
            cluster.add_node(**NODE)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
        shutil.rmtree(files, ignore_errors=True)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,200 photographs, about 30 MB."""
    return make_tree(tmp_path_factory.mktemp("large") / "photos", 1200)


@pytest.fixture(scope="module")
def whole(large: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The photographs of `large`, packed on one machine."""
    folder = tmp_path_factory.mktemp("whole") / "packed"
    assert shardpack.pack(large, folder, shard_size="512KiB").ok
    return folder


def assert_equal(one: Path, other: Path) -> None:
    files = [{path.relative_to(folder) for path in folder.rglob("*") if path.is_file()} for folder in (one, other)]
    assert files[0] == files[1] and files[0]
    _, differing, failed = filecmp.cmpfiles(one, other, files[0], shallow=False)
    assert (differing, failed) == ([], [])


class Child:
    """The process of a part."""

    def __init__(self, process: int, part: str) -> None:
        self.process, self.part = process, part

    @staticmethod
    def all() -> list[Child]:
        found = []
        for folder in Path("/proc").iterdir():
            try:
                words = (folder / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            part = [word.removeprefix("--part=") for word in words if word.startswith("--part=")]
            if "shardpack._child" in words and part:
                found.append(Child(int(folder.name), part[0]))
        return found

    @property
    def parent(self) -> int:
        return parent_of(self.process)

    @property
    def is_there(self) -> bool:
        try:
            return Path(f"/proc/{self.process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
        except OSError:
            return False


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])


def wait_for(what: Callable[[], Any], seconds: float = 60, every: float = 0.001) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(every)
    raise AssertionError("it did not come to it in time")


def stop_one(dst: Path, but: Callable[[Child], bool] = lambda _: False) -> Child:
    """Stops a process that has begun its part and has not finished it."""

    def has_begun(child: Child) -> bool:
        number, of = child.part.split("/")
        return any((dst / ".shardpack" / "runs").glob(f"{number}-of-{of}-*"))

    def is_done(child: Child) -> bool:
        return (dst / ".shardpack" / "parts" / f"{child.part.replace('/', '-of-')}.json").exists()

    def found() -> Child | None:
        for child in Child.all():
            if but(child) or is_done(child):
                continue
            # Poll nothing else meanwhile: a part may take only a few ms.
            wait_for(lambda child=child: has_begun(child) or not child.is_there, every=0)
            try:
                os.kill(child.process, signal.SIGSTOP)
            except ProcessLookupError:
                continue
            if not is_done(child) and child.is_there:
                return child
            os.kill(child.process, signal.SIGCONT)
        return None

    stopped: Child = wait_for(found)
    return stopped


class Beside(threading.Thread):
    """Runs a function while a test packs; `result` raises the exception of the function."""

    def __init__(self, function: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self.function, self.raised = function, None
        self.start()

    def run(self) -> None:
        try:
            self.value = self.function()
        except BaseException as raised:
            self.raised = raised

    def result(self) -> Any:
        self.join(60)
        if self.raised is not None:
            raise self.raised
        return self.value


def test_images_are_changed_by_the_parts_first(cluster: Any, large: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"resize": 32, "encode": "webp", "shards": 7, "include": "*/*0.*"}
    assert shardpack.pack(large, tmp_path / "whole", **options).ok
    dst, verbs, reports = tmp_path / "packed", [], []

    def run() -> None:
        def tell(now: shardpack.ray.PartsProgress) -> None:
            verbs.append(now.verb)

        reports.append(shardpack.ray.pack(large, dst, parts=5, progress=tell, **options))

    thread = threading.Thread(target=run)
    thread.start()
    # The spool exists as soon as a part begins to change images.
    spools = dst / ".shardpack" / "spools"
    wait_for(lambda: spools.is_dir() and any(spools.iterdir()))
    for child in Child.all()[:1]:
        os.kill(child.process, signal.SIGKILL)
    thread.join()
    assert reports and reports[0].ok and sum(reports[0].nodes.values()) == 5, reports
    assert list(dict.fromkeys(verbs)) == ["changing", "packing", "merging"]
    assert_equal(tmp_path / "whole", dst)
    assert not (tmp_path / "packed.plan").exists()
    bad = tmp_path / "bad"
    shutil.copytree(large, bad)
    (next(folder for folder in bad.iterdir() if folder.is_dir()) / "x0.jpg").write_bytes(b"no image")
    report = shardpack.ray.pack(bad, tmp_path / "other", parts=3, **options)
    assert not report.ok and [one["path"].endswith("x0.jpg") for one in report.bad] == [True]
    with pytest.raises(shardpack.UsageError, match="applies only to a new plan"):
        shardpack.ray.pack(dst, plan=tmp_path / "x.plan", resize=32)


@pytest.mark.parametrize("plan_on", ["driver", "cluster"])
def test_parts_make_the_bytes_of_one_machine(
    plan_on: str, cluster: Any, large: Path, whole: Path, tmp_path: Path
) -> None:
    told: list[shardpack.ray.PartsProgress] = []
    dst = tmp_path / "packed"
    report = shardpack.ray.pack(large, dst, shard_size="512KiB", parts=9, plan_on=plan_on, verify=True,
                                progress=told.append)  # fmt: skip
    assert report.ok and report.sealed and report.samples == 1200 and report.parts == 9
    assert report.retries == {} and report.bad == [] and sum(report.nodes.values()) == 9 and len(report.nodes) > 1
    assert_equal(whole, dst)
    assert not dst.with_name("packed.plan").exists() and Child.all() == []
    assert [verb for at, verb in enumerate(now.verb for now in told) if at == 0 or verb != told[at - 1].verb] == [
        "planning",
        "packing",
        "merging",
    ]
    packing = [now for now in told if now.verb == "packing"]
    last = packing[-1]
    assert (last.done_parts, last.parts, last.samples, last.bytes) == (9, 9, last.total_samples, last.total_bytes)
    # A second run has nothing to do.
    again = shardpack.ray.pack(large, dst, shard_size="512KiB", parts=4)
    assert again.ok and again.already_sealed and again.parts == 4
    assert_equal(whole, dst)


def test_splits_a_plan_file_and_options_go_to_the_parts(cluster: Any, large: Path, tmp_path: Path) -> None:
    sources = {"train": large, "val": make_tree(tmp_path / "val", 30)}
    options = {"shard_size": "2MiB", "format": "tfrecord", "seed": 3, "sidecars": "none"}
    assert shardpack.pack(tmp_path / "whole", split=sources, **options).ok
    report = shardpack.ray.pack(tmp_path / "packed", split=sources, parts=5, **options)
    assert report.ok and [one["name"] for one in report.datasets] == ["train", "val"] and report.samples == 1230
    assert_equal(tmp_path / "whole", tmp_path / "packed")
    del options["sidecars"]
    shardpack.plan(tmp_path / "second", split=sources, output=tmp_path / "file", **options)
    report = shardpack.ray.pack(tmp_path / "second", plan=tmp_path / "file", parts=5, sidecars="none")
    assert report.ok and (tmp_path / "file").exists()
    assert_equal(tmp_path / "whole", tmp_path / "second")


def test_a_worker_and_a_node_are_lost_and_their_parts_alone_run_again(
    cluster: Any, large: Path, whole: Path, tmp_path: Path
) -> None:
    dst = tmp_path / "packed"

    def lose() -> tuple[str, str]:
        first = stop_one(dst)
        worker = first.parent
        os.kill(worker, signal.SIGKILL)
        # The process of the part ends with its worker.
        wait_for(lambda: not first.is_there, 10)
        second = stop_one(dst, but=lambda child: child.part == first.part)
        raylet = parent_of(second.parent)
        (node,) = [node for node in cluster.worker_nodes if node.all_processes["raylet"][0].process.pid == raylet]
        cluster.remove_node(node, allow_graceful=False)
        wait_for(lambda: not second.is_there, 30)
        return first.part, second.part

    losing = Beside(lose)
    try:
        report = shardpack.ray.pack(large, dst, shard_size="512KiB", parts=12)
        lost = losing.result()
    finally:
        if len(cluster.worker_nodes) < 3:
            cluster.add_node(**NODE)
            cluster.wait_for_nodes()
    assert report.ok and report.retries == {part: 1 for part in lost}
    assert_equal(whole, dst)


def test_a_part_that_is_killed_too_often_is_named(cluster: Any, large: Path, whole: Path, tmp_path: Path) -> None:
    dst = tmp_path / "packed"

    def kill() -> int:
        for _ in range(2):
            child = stop_one(dst, but=lambda child: child.part != "3/8")
            os.kill(child.process, signal.SIGKILL)
            wait_for(lambda child=child: not child.is_there, 10)
        return 2

    killing = Beside(kill)
    with pytest.raises(shardpack.MachineError, match="part 3/8 was lost too often: .*SIGKILL"):
        shardpack.ray.pack(large, dst, shard_size="512KiB", parts=8, max_retries=1)
    assert killing.result() == 2 and Child.all() == []
    report = shardpack.ray.pack(large, dst, shard_size="512KiB", parts=8)
    assert report.ok
    assert_equal(whole, dst)


def test_a_part_that_is_ended_by_someone_else_runs_again(
    cluster: Any, large: Path, whole: Path, tmp_path: Path
) -> None:
    dst = tmp_path / "packed"
    told: list[shardpack.ray.PartsProgress] = []

    def end() -> str:
        child = stop_one(dst)
        wait_for(lambda: any(now.running_parts for now in told), 30)
        os.kill(child.process, signal.SIGTERM)
        os.kill(child.process, signal.SIGCONT)
        wait_for(lambda: not child.is_there, 10)
        return child.part

    ending = Beside(end)
    report = shardpack.ray.pack(large, dst, shard_size="512KiB", parts=8, progress=told.append)
    assert report.ok and report.retries == {ending.result(): 1}
    assert_equal(whole, dst)


def test_processes_end_with_a_driver_that_is_killed(cluster: Any, large: Path, whole: Path, tmp_path: Path) -> None:
    dst = tmp_path / "packed"
    code = f"""
import ray
ray.init(address={cluster.address!r}, log_to_driver=False)
import shardpack.ray
shardpack.ray.pack({str(large)!r}, {str(dst)!r}, shard_size="512KiB", parts=8, progress=lambda _: None)
"""
    with subprocess.Popen([sys.executable, "-c", code]) as driver:
        child = stop_one(dst)
        driver.kill()
    wait_for(lambda: not child.is_there and Child.all() == [], 60)
    assert not (dst / "manifest.json").exists()
    assert shardpack.ray.pack(large, dst, shard_size="512KiB", parts=8).ok
    assert_equal(whole, dst)


def test_an_interruption_ends_the_processes_in_good_order(
    cluster: Any, large: Path, whole: Path, tmp_path: Path
) -> None:
    dst = tmp_path / "packed"

    def interrupt(now: shardpack.ray.PartsProgress) -> None:
        if now.done_parts > 1 and now.running_parts > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shardpack.ray.pack(large, dst, shard_size="512KiB", parts=40, progress=interrupt)
    assert Child.all() == []
    # A killed process leaves its folder; a process that exits removes it.
    assert list((dst / ".shardpack" / "runs").iterdir()) == []
    done = shardpack.status(dst).parts["done"]
    assert 1 < len(done) < 40 and not (dst / "manifest.json").exists()
    # The number of parts may differ.
    assert shardpack.ray.pack(large, dst, shard_size="512KiB", parts=7).ok
    assert_equal(whole, dst)


@pytest.mark.parametrize("are_known", [True, False], ids=["known to the plan", "found by the parts"])
def test_bad_samples_are_all_named_and_nothing_is_sealed(are_known: bool, cluster: Any, tmp_path: Path) -> None:
    photos = make_tree(tmp_path / "photos", 200)
    bad = [photos / "class03" / "000013.jpg", photos / "class07" / "000177.jpg"]
    dst, sizes = tmp_path / "packed", {"shard_size": "512KiB"}
    options: dict[str, Any] = {"src": photos, "dst": dst, **sizes}
    if not are_known:
        assert shardpack.plan(photos, dst, output=tmp_path / "plan", **sizes).ok
        options = {"src": dst, "plan": tmp_path / "plan"}
    for one in bad:
        one.write_bytes(b"" if are_known else one.read_bytes()[:-400])
    report = shardpack.ray.pack(**options, parts=6)
    assert not report.ok and not report.sealed and report.retries == {}
    assert [one["path"] for one in report.bad] == [str(one.relative_to(photos)) for one in bad]
    assert all(one["reason"] for one in report.bad) and not (dst / "manifest.json").exists()
    # The other parts continued.
    assert len(report.nodes) > 1 and (are_known or len(shardpack.status(dst).parts["done"]) >= 4)
    report = shardpack.ray.pack(**options, parts=6, on_bad="skip")
    assert report.ok and report.samples == 198
    assert [one["path"] for one in report.bad] == [str(one.relative_to(photos)) for one in bad]
    options["dst" if are_known else "src"] = tmp_path / "whole"
    assert shardpack.pack(**options, on_bad="skip").ok
    assert_equal(tmp_path / "whole", dst)


def test_what_does_not_fit_is_raised_with_the_part_and_not_tried_again(
    cluster: Any, tree: Path, tmp_path: Path
) -> None:
    dst = tmp_path / "packed"
    dst.mkdir()
    (dst / "letter.txt").write_text("mine")
    with pytest.raises(shardpack.UsageError, match=r"part \d/3, on node \w+: holds"):
        shardpack.ray.pack(tree, dst, parts=3)
    assert (dst / "letter.txt").read_text() == "mine" and not (dst / "manifest.json").exists() and Child.all() == []
    with pytest.raises(shardpack.UsageError, match="s3://bucket/photos"):
        shardpack.ray.pack("s3://bucket/photos", tmp_path / "other")
    (tmp_path / "plan").write_bytes(b"no plan")
    with pytest.raises(shardpack.Error, match=r"part \d/2, on node"):
        shardpack.ray.pack(tmp_path / "other", plan=tmp_path / "plan", parts=2)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"colour": 1}, TypeError, "unexpected keyword argument 'colour'"),
        ({"force": True}, shardpack.UsageError, "force: not in parts\n  help: remove the folder"),
        ({"crops": True}, shardpack.UsageError, "crops: not in parts"),
        ({"part": "1/2"}, shardpack.UsageError, "part: not in parts"),
        ({"parts": 0}, shardpack.UsageError, "parts=0: at least one"),
        ({"plan_on": "moon"}, shardpack.UsageError, "plan_on='moon'"),
        ({"num_cpus": 0}, shardpack.UsageError, "num_cpus=0"),
        ({"order": "sideways"}, shardpack.UsageError, "sideways"),
    ],
)
def test_requests_that_cannot_be(
    options: dict[str, Any], error: type[Exception], message: str, cluster: Any, tree: Path, tmp_path: Path
) -> None:
    with pytest.raises(error) as raised:
        shardpack.ray.pack(tree, tmp_path / "packed", **options)
    assert message in str(raised.value) and not (tmp_path / "packed").exists()


def test_progress_is_a_bar_or_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from shardpack._ray_pack import _bar_of_parts
    from shardpack.running import teller

    now = shardpack.ray.PartsProgress("packing", 10, 100, 5_000_000, 50_000_000, 9, 1, 3, 0, 2_500_000.0)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    lines = teller(True, _bar_of_parts)
    assert lines is not None and teller(None, _bar_of_parts) is None and teller(False, _bar_of_parts) is None
    for one in (now, now):
        lines(one)
    assert capsys.readouterr().err == "packing  10 samples, 5.0 MB, 2.5 MB/s, 1 of 9 parts, 3 running\n"
    monkeypatch.undo()
    pytest.importorskip("tqdm")
    bar: Any = teller(True, _bar_of_parts)
    bar(now)
    bar.close()
    assert "parts 1/9, 3 running" in capsys.readouterr().err


def test_a_process_without_its_parent_ends_before_it_begins(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "shardpack._child", "1", "plan", "--json", str(tmp_path), "x"]
    done = subprocess.run(words, capture_output=True)
    assert done.returncode == -signal.SIGKILL and done.stdout == b""


def test_what_a_process_said_that_failed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_child.os, "getpid", lambda: "no number")
    with pytest.raises(RuntimeError, match="exit code 1: (.|\n)*ValueError: invalid literal"):
        _child.run(["plan"], lambda _: None)


def rows_of(dataset: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = sorted(dataset.take_all(), key=lambda row: row["number"])
    return rows


def test_ray_data_has_each_sample_once_as_the_dataset_has_it(cluster: Any, packed: Path) -> None:
    dataset = shardpack.Dataset(packed)
    source = shardpack.ray.dataset(packed)
    assert source.columns() == ["number", "key", "label", "class", "path", "image"]
    assert source.count() == 300
    found = rows_of(source)
    wanted = [
        {"number": s.number, "key": s.key, "label": s.label, "class": s.class_name, "path": s.path, "image": s.bytes}
        for s in dataset
    ]
    assert found == wanted
    assert abs(source.size_bytes() - sum(len(row["image"]) for row in found)) < 0.2 * source.size_bytes()
    blocks = shardpack.ray.dataset(packed, override_num_blocks=5).materialize()
    assert blocks.num_blocks() == 5 and sorted(row["number"] for row in blocks.take_all()) == [*range(300)]


def test_ray_data_reads_columns_shuffles_and_splits(cluster: Any, packed: Path) -> None:
    labels = shardpack.Dataset(packed).targets
    for columns in (["number", "label"], ["class", "number", "path", "key"], ["number", "image"]):
        source = shardpack.ray.dataset(packed, columns=columns, override_num_blocks=4)
        assert source.columns() == columns
        rows = rows_of(source)
        assert [row["number"] for row in rows] == [*range(300)] and list(rows[0]) == columns
    source = shardpack.ray.dataset(packed, columns=["number", "label"], override_num_blocks=4)
    batches = list(source.iter_batches(batch_size=50, local_shuffle_buffer_size=100, local_shuffle_seed=1))
    numbers = np.concatenate([batch["number"] for batch in batches])
    assert [len(batch["label"]) for batch in batches] == [50] * 6 and (np.diff(numbers) != 1).mean() > 0.5
    assert all(labels[number] == label for batch in batches for number, label in zip(batch["number"], batch["label"]))
    assert sorted(numbers) == [*range(300)]
    shares = [rows_of(share) for share in source.split(3)]
    assert sorted(row["number"] for share in shares for row in share) == [*range(300)]
    decoded = shardpack.ray.dataset(packed).map(lambda row: {"image": np.asarray(shardpack.decode(row["image"]))})
    assert all(row["image"].ndim == 3 for row in decoded.take_all())


def test_ray_data_has_components_arrays_and_samples_without_labels(
    cluster: Any, arrays: Path, tree: Path, tmp_path: Path
) -> None:
    found = rows_of(shardpack.ray.dataset(arrays, override_num_blocks=3))
    assert list(found[0]) == ["number", "key", "label", "class", "path", "npy"]
    for row, sample in zip(found, shardpack.Dataset(arrays), strict=True):
        assert row["label"] == sample.label == int(row["npy"][0] // 64) % 7
        np.testing.assert_array_equal(row["npy"], sample.components["npy"])
    for number, photo in enumerate(sorted(tree.rglob("*.jpg"))[:20]):
        (tmp_path / "photos").mkdir(exist_ok=True)
        (tmp_path / "photos" / f"{number:02}.jpg").write_bytes(photo.read_bytes())
        if number % 2 == 0:
            (tmp_path / "photos" / f"{number:02}.txt").write_text(f"photograph {number}")
            (tmp_path / "photos" / f"{number:02}.key").write_text("taken")
    assert shardpack.pack(
        tmp_path / "photos", tmp_path / "packed", no_labels=True, with_=["txt", "key"], compress="zstd"
    ).ok
    found = rows_of(shardpack.ray.dataset(tmp_path / "packed"))
    dataset = shardpack.Dataset(tmp_path / "packed", raw=True)
    assert len(found) == 20
    for row, sample in zip(found, dataset, strict=True):
        assert (row["label"], row["class"], row["image"]) == (None, None, sample.bytes)
        assert row["txt"] == sample.components.get("txt") and row["key_"] == sample.components.get("key")
        assert row["key"] == sample.key
    assert sum(row["txt"] is None for row in found) == 10


def test_ray_data_of_splits_and_what_is_wrong(cluster: Any, tree: Path, packed: Path, tmp_path: Path) -> None:
    assert shardpack.pack(tmp_path / "both", split={"train": tree, "val": make_tree(tmp_path / "val", 30)}).ok
    assert shardpack.ray.dataset(tmp_path / "both" / "val").count() == 30
    with pytest.raises(shardpack.UsageError, match="train"):
        shardpack.ray.dataset(tmp_path / "both")
    with pytest.raises(shardpack.UsageError, match="no column 'colour': there are number, key, label"):
        shardpack.ray.dataset(packed, columns=["colour"])
    # A read detects damage and names the sample.
    dataset = shardpack.Dataset(tmp_path / "both" / "val")
    (shard,) = (tmp_path / "both" / "val").glob("*.tar")
    shard.write_bytes(shard.read_bytes().replace(dataset[7].bytes[:40], bytes(40)))
    with pytest.raises(Exception, match=f"{dataset[7].key}(.|\n)*hash"):
        shardpack.ray.dataset(tmp_path / "both" / "val", check_content=True).take_all()
    # A read also detects that the dataset was replaced after the tasks were made.
    source = shardpack.ray.dataset(tmp_path / "both" / "train")
    assert shardpack.pack(tree, tmp_path / "seed", seed=9, name="train").ok
    (tmp_path / "both" / "train").rename(tmp_path / "before")
    (tmp_path / "seed").rename(tmp_path / "both" / "train")
    with pytest.raises(Exception, match="another dataset: its id is"):
        source.take_all()


def test_ranges_are_even_and_between_shards_where_there_are_enough() -> None:
    from shardpack._ray_data import ranges

    generator = np.random.default_rng(0)
    for case in range(500):
        shards = [(int(n), int(n * b)) for n, b in generator.integers(0 if case % 2 else 1, 9, (case % 7, 2))]
        parts, samples = int(generator.integers(0, 12)), sum(n for n, _ in shards)
        found = ranges(shards, parts)
        # Ranges are contiguous and not empty, and cover all samples.
        assert [number for first, end in found for number in range(first, end)] == [*range(samples)]
        assert all(first < end for first, end in found) and len(found) <= max(1, parts)
        if len(shards) >= parts:
            ends = {0, *np.cumsum([n for n, _ in shards])}
            assert all(first in ends and end in ends for first, end in found)
    assert ranges([(10, 100), (10, 100)], 4) == [(0, 5), (5, 10), (10, 15), (15, 20)]
    assert ranges([(10, 100), (10, 300), (10, 200)], 2) == [(0, 20), (20, 30)]
    assert len(ranges([(1000, 10)], 7)) == 7


def test_packing_needs_no_pyarrow() -> None:
    code = """
import sys
sys.modules["pyarrow"] = None
import shardpack.ray
assert callable(shardpack.ray.pack)
try:
    shardpack.ray.dataset
except ImportError as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pyarrow" in ran.stdout and not hasattr(shardpack.ray, "nothing")


def test_importing_the_package_imports_no_ray() -> None:
    code = "import sys, shardpack; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_errors_and_sources_travel_between_processes(packed: Path) -> None:
    error = shardpack.DataError("wrong", "file", "sample", 7, "help")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    source = pickle.loads(pickle.dumps(shardpack.ray.Source(packed)))
    tasks = source.get_read_tasks(3)
    assert sum(task.metadata.num_rows for task in tasks) == 300
    assert sum(task.metadata.size_bytes for task in tasks) == pytest.approx(
        source.estimate_inmemory_data_size(), rel=1e-3
    )
    assert all(os.path.exists(file) for task in tasks for file in task.metadata.input_files)
