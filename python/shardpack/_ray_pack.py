"""Packing on a Ray cluster: one plan, one task per part, and a merge.

Each task runs its part in a child process that ends with the worker. The plan determines every byte, so a part can be
stopped anywhere, or run twice.
"""

from __future__ import annotations

import inspect
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from . import _child, _native, commands
from .errors import MachineError, UsageError
from .running import PathLike, Progress, Report, Value, _Bar, arguments, follow, report, teller

#: Options that change images: planning waits until all are changed.
_CHANGES = ("fix", "rotate", "resize", "encode")
#: Options of a part; all other options of `pack` belong to the plan.
_OF_PARTS = ("jobs", "memory", "read_order", "on_bad", "sidecars")
#: Options that parts do not support, and the alternatives.
_NOT_IN_PARTS = {
    "force": "remove the folder, or pack into another one",
    "crops": "shardpack.crops(dst) makes them afterwards",
    "dry_run": "shardpack.plan(src, dst) shows the plan",
    "part": "set the number of parts with parts=N",
}
#: Limit of the default number of parts; large clusters get more.
_PARTS = 256
_PARTS_A_PLACE = 8
#: Each part that changes images lists the source, twice.
_CHANGING_PARTS_A_PLACE = 2
#: Budget of a part for images in flight, per CPU: a quarter of the usual memory per CPU.
_MEMORY_BYTES = 512 << 20
#: Intervals at which a part reports to the driver, and the driver to the caller, in seconds.
_TELLS_S, _SHOWS_S = 2.0, 0.5
#: Time for cancelled parts to end, in seconds; above the grace time in `_child`.
_GRACE_S = 30.0
#: Window of the rate, in seconds.
_RECENT_S = 30.0
#: Interval of lines if there is no bar, in seconds.
_LINE_S = 10.0


@dataclass(frozen=True)
class PartsProgress(Progress):
    """Progress of packing on a cluster; `verb` is `planning`, `changing`, `packing` or `merging`.

    Attributes:
        parts: Number of parts.
        done_parts: Parts that are done.
        running_parts: Parts that are running.
        retries: Restarts of parts after their worker, node or process was lost.
        bytes_per_second: Bytes done per second over the last 30 s.

    Example:
        import shardpack.ray

        seen: list[shardpack.ray.PartsProgress] = []
        shardpack.ray.pack("photos", "out", progress=seen.append)
        print(seen[-1].verb)  # merging
    """

    parts: int
    done_parts: int
    running_parts: int
    retries: int
    bytes_per_second: float


Tell = Callable[[PartsProgress], None]


def pack(
    src: PathLike,
    dst: PathLike | None = None,
    *,
    parts: int | None = None,
    plan: Value | None = None,
    plan_on: str = "driver",
    num_cpus: float = 1,
    max_retries: int = 5,
    task_options: Mapping[str, Any] | None = None,
    verify: bool = False,
    progress: bool | Callable[[PartsProgress], None] | None = None,
    **options: Any,
) -> Report:
    """Pack on a Ray cluster, to the same bytes as `shardpack.pack` on one machine.

    The plan is made once, in `DST.plan`, and removed after sealing. Each part is a task; the last step merges the parts
    without reading images. A part whose worker, node or process is lost runs again elsewhere. A part that fails is not
    retried: the same plan would fail again.

    If a part has bad samples, the others continue, and the report names all bad samples. Any other error stops all
    parts and is raised with the name of the part. Finished parts stay: the same call resumes, even with another number
    of parts. Ctrl-C stops all processes cleanly.

    Changes of images (`resize`, `fix`, …) run in the parts too. Each part then lists the source, shards are planned
    after all changes, and there is no plan file.

    Args:
        src: Source, under the same path on all nodes; or the destination if it is the only path, as with `plan` and
            `split`.
        dst: Folder for the shards, on a file system that all nodes see.
        parts: Number of parts, best many more than nodes. `None`: one per shard (256 with `plan`), at most 256 or 8 per
            task slot, whichever is more; with changes, 2 per slot.
        plan: Existing plan file to use instead of a source; never removed.
        plan_on: Where to plan and merge: `"driver"`, this process, or `"cluster"`, a task, if this machine does not see
            the paths.
        num_cpus: CPUs per task, and threads of its process unless `jobs` is given.
        max_retries: Restarts of a lost part; -1 for no limit.
        task_options: Other `.options()` of the Ray tasks, such as `resources`, `runtime_env` or `scheduling_strategy`.
        verify: Compare all shards with their hashes before sealing.
        progress: `True` for a tqdm bar, or lines on stderr without tqdm; or a function that receives `PartsProgress`.
        options: Options of `shardpack.pack`, except `force`, `crops`, `dry_run` and `part`. `memory` is per part;
            default 512 MiB per CPU.

    Returns:
        The report of `shardpack.merge`, with `samples`, `parts`, `retries` (by part), `bad` (samples that could not be
        packed) and `nodes` (parts packed by each). With bad samples, `ok` is `False` and nothing is sealed.

    Raises:
        UsageError: If the request is invalid, for example if the destination holds another dataset.
        DataError: If the plan is damaged.
        MachineError: If a machine fails, or a part was lost more than `max_retries` times.

    Example:
        import shardpack.ray

        report = shardpack.ray.pack("photos", "out", parts=8, shard_size="512KiB")
        print(report.ok, report.samples, report.parts)  # True 300 8
    """
    began = time.monotonic()
    of_plan, of_parts = _told_apart(options)
    if plan is not None and of_plan:
        raise UsageError(f"{next(iter(of_plan))} applies only to a new plan, and the plan exists already")
    if plan_on not in ("driver", "cluster"):
        raise UsageError(f"plan_on={plan_on!r}: 'driver' or 'cluster'")
    if parts is not None and parts < 1:
        raise UsageError(f"parts={parts}: at least one")
    if num_cpus <= 0:
        raise UsageError(f"num_cpus={num_cpus}: a task has to have some, so that not all run at once")
    # Tasks have other working folders. The program itself refuses values that are not paths.
    given_places = [os.fspath(place) for place in (src, dst) if place is not None]
    places = [place if "://" in place else os.path.abspath(place) for place in given_places]
    folder = places[-1]
    if not ray.is_initialized():
        ray.init()
    job = _Job(num_cpus, max_retries, dict(task_options or {}), teller(progress, _bar_of_parts))
    try:
        notes: list[str] = []
        total_samples, total_bytes, shards = 0, 0, None
        changes = any(of_plan.get(name) for name in _CHANGES)
        file = None
        if plan is not None:
            file = os.path.abspath(str(plan))
        elif not changes:
            file = folder.rstrip("/") + ".plan"
            given = {"src": places[0], "dst": None if len(places) < 2 else places[1], **of_plan, "output": file}
            planned = job.alone("planning", arguments("plan", ["src", "dst"], given), plan_on)
            datasets = planned.datasets
            shards = sum(dataset["shards"] for dataset in datasets)
            total_samples = sum(dataset["images"] for dataset in datasets)
            total_bytes = sum(dataset["payload_bytes"] for dataset in datasets)
            notes += [line for line in planned.notes if not line.startswith("next ")]
        if parts is None and changes:
            parts = max(1, _CHANGING_PARTS_A_PLACE * job.places())
        elif parts is None:
            parts = min(max(_PARTS, _PARTS_A_PLACE * job.places()), max(1, shards or _PARTS))
        of_parts.setdefault("jobs", max(1, int(num_cpus)))
        of_parts.setdefault("memory", max(1, int(num_cpus)) * _MEMORY_BYTES)
        names: list[str] = ["dst"]
        what: dict[str, Any] = {"dst": folder, "plan": file}
        if changes:
            names = ["src", "dst"]
            what = {"src": places[0], "dst": None if len(places) < 2 else places[1], **of_plan}
        of_part = {
            part: arguments("pack", names, {**what, "part": f"{part}/{parts}", **of_parts})
            for part in range(1, parts + 1)
        }
        packed: dict[int, dict[str, Any]] = {}
        if changes:
            packed = job.parts("changing", parts, of_part, 0, 0)
        if all(document["done"] or document.get("changed") for document in packed.values()):
            # When images are changed, the last part packs at once, and others may have packed too.
            left = {part: words for part, words in of_part.items() if part not in packed or not packed[part]["done"]}
            packed.update(job.parts("packing", parts, left, total_samples, total_bytes))
        bad = {one["path"]: one for document in packed.values() for one in document["bad"]}
        about = {
            "parts": parts,
            "retries": {f"{part}/{parts}": count for part, count in sorted(job.retries().items())},
            "bad": [bad[path] for path in sorted(bad)],
            "nodes": dict(job.nodes),
        }
        if not all(document["done"] for document in packed.values()):
            elapsed_ms = int((time.monotonic() - began) * 1000)
            return Report(
                False, {"sealed": False, "samples": 0, "datasets": [], **about, "elapsed_ms": elapsed_ms}, notes
            )
        merged = job.alone("merging", arguments("merge", ["folder"], {"folder": folder, "verify": verify}), plan_on)
        if merged.ok and plan is None and file is not None:
            job.remove(file, plan_on)
        samples = sum(dataset["samples"] for dataset in merged.datasets)
        document = {**merged.document, "samples": samples, **about}
        return Report(
            merged.ok, {**document, "elapsed_ms": int((time.monotonic() - began) * 1000)}, notes + merged.notes
        )
    finally:
        job.close()


def _told_apart(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the options into those of the plan and those of the parts."""
    known = inspect.signature(commands.pack).parameters
    for name, value in options.items():
        if name not in known:
            raise TypeError(f"pack() got an unexpected keyword argument {name!r}")
        if name in _NOT_IN_PARTS and value:
            raise UsageError(f"{name}: not in parts", help=_NOT_IN_PARTS[name])
    there = {name: value for name, value in options.items() if name not in _NOT_IN_PARTS and value is not None}
    of_plan = {name: value for name, value in there.items() if name not in _OF_PARTS}
    return of_plan, {name: value for name, value in there.items() if name in _OF_PARTS}


class _Board:
    """Actor on which tasks post progress for the driver; packing works without it."""

    def __init__(self) -> None:
        self.retries: dict[int, int] = {}
        self.starts: Counter[str] = Counter()
        self.progress: dict[int, tuple[Any, ...]] = {}

    def begin(self, part: int, task: str, retries: int) -> None:
        """Record that `part` starts as `task`, after this many retries."""
        # Ray does not count each loss of a node. Messages of a lost node may arrive after those of its successor.
        self.starts[task] += 1
        self.retries[part] = max(retries, self.starts[task] - 1, self.retries.get(part, 0))
        self.progress[part] = ("", 0, 0, 0, 0)

    def tell(self, part: int, progress: tuple[Any, ...]) -> None:
        """Record the progress of `part`."""
        if part in self.progress:
            self.progress[part] = progress

    def end(self, part: int) -> None:
        """Record that `part` no longer runs."""
        self.progress.pop(part, None)

    def read(self) -> tuple[dict[int, int], dict[int, tuple[Any, ...]]]:
        """Return the retries of each part, and the progress of running parts."""
        return dict(self.retries), dict(self.progress)


def _task(part: int, words: list[str], folder: str, board: Any) -> tuple[int, dict[str, Any], list[str], str, int]:
    """Run a command in a task.

    Returns:
        Exit code, document, notes, node, and number of retries.
    """
    last, retries = time.monotonic(), _retries()

    def tell(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= _TELLS_S:
            last = time.monotonic()
            _quietly(lambda: board.tell.remote(part, _told(progress)))

    # Never wait here: a task that waits in `ray.get` lends its CPUs to another task.
    task = ray.get_runtime_context().get_task_id()
    _quietly(lambda: board.begin.remote(part, task, retries))
    try:
        code, document, notes = _child.run(words, tell, folder)
    finally:
        _quietly(lambda: board.end.remote(part))
    if code == 130:
        # Not requested by the driver: the machine may be shutting down.
        raise _child.Lost("its process was interrupted")
    return code, document, notes, str(ray.get_runtime_context().get_node_id()), retries


def _retries() -> int:
    """Number of earlier attempts of the running task."""
    try:
        # Ray's runtime context lacks it, and a count in the worker would be lost with the worker.
        return int(ray._private.worker.global_worker.core_worker.get_current_task_attempt_number())
    except AttributeError:
        return 0


def _unlink(file: str) -> None:
    os.unlink(file)


def _told(progress: Progress) -> tuple[Any, ...]:
    return progress.verb, progress.samples, progress.total_samples, progress.bytes, progress.total_bytes


def _quietly(ask: Callable[[], Any]) -> None:
    """Call `ask`, and ignore a lost board."""
    try:
        ask()
    except ray.exceptions.RayError:
        pass


class _Job:
    """The tasks of one call."""

    def __init__(self, num_cpus: float, max_retries: int, task_options: dict[str, Any], tell: Tell | None) -> None:
        self._num_cpus, self._tell = num_cpus, tell
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        self._board = ray.remote(_Board).options(num_cpus=0, scheduling_strategy=here, max_restarts=0).remote()
        self._options = {
            "num_cpus": num_cpus,
            "max_retries": max_retries,
            "retry_exceptions": [_child.Lost],
            "scheduling_strategy": "SPREAD",
            "name": "shardpack",
            **task_options,
        }
        self._task = ray.remote(_task).options(**self._options)
        #: Number of parts packed by each node.
        self.nodes: Counter[str] = Counter()
        self._retries: dict[int, int] = {}
        self._now = PartsProgress("", 0, 0, 0, 0, 0, 0, 0, 0, 0.0)
        self._recent: deque[tuple[float, int]] = deque()

    def close(self) -> None:
        """End everything that is left."""
        _quietly(lambda: ray.kill(self._board))
        if self._tell is not None and hasattr(self._tell, "close"):
            self._tell.close()

    def places(self) -> int:
        """Number of tasks that the cluster can run at once now."""
        return int(ray.cluster_resources().get("CPU", 1) / self._num_cpus)

    def _again(self, told: Mapping[int, int]) -> None:
        """Raise retry counts; `told` may lack the latest ones."""
        for part, count in told.items():
            self._retries[part] = max(count, self._retries.get(part, 0))

    def retries(self) -> dict[int, int]:
        """Retries by part, without parts that have none."""
        return {part: count for part, count in self._retries.items() if part > 0 and count > 0}

    def remove(self, file: str, where: str) -> None:
        """Remove a plan file, here or on the cluster."""
        if where == "driver":
            os.unlink(file)
        else:
            ray.get(ray.remote(_unlink).options(**self._options).remote(file))

    def _show(self, **changes: Any) -> None:
        self._now = replace(self._now, **changes)
        if self._tell is not None:
            self._tell(self._now)

    def alone(self, verb: str, words: list[str], where: str) -> Report:
        """Run one command, here or in a task, which has number 0."""

        def tell(now: Progress) -> None:
            told = dict(zip(("samples", "total_samples", "bytes", "total_bytes"), _told(now)[1:]))
            self._show(verb=verb, **told)

        self._show(verb=verb, samples=0, total_samples=0, bytes=0, total_bytes=0)
        if where == "driver":
            return report(*follow(_native.Command(words), tell))
        ref = self._task.remote(0, words, os.getcwd(), self._board)
        try:
            while not ray.wait([ref], timeout=_SHOWS_S)[0]:
                if 0 in (running := self._read()):
                    tell(Progress(*running[0]))
            code, document, notes, _, _ = ray.get(ref)
        except BaseException as error:
            self._cancel([ref])
            _raise(error, verb)
        return report(code, document, notes, verb)

    def _read(self) -> dict[int, tuple[Any, ...]]:
        running: dict[int, tuple[Any, ...]] = {}

        def ask() -> None:
            nonlocal running
            retries, running = ray.get(self._board.read.remote(), timeout=10)
            self._again(retries)

        _quietly(ask)
        return running

    def parts(
        self, verb: str, of: int, words: Mapping[int, list[str]], total_samples: int, total_bytes: int
    ) -> dict[int, dict[str, Any]]:
        """Run some of `of` parts and return their documents; the first exception ends the others."""
        self._recent.clear()
        self._show(verb=verb, parts=of, samples=0, total_samples=total_samples, bytes=0, total_bytes=total_bytes)
        folder = os.getcwd()
        pending = {self._task.remote(part, one, folder, self._board): part for part, one in words.items()}
        done: dict[int, dict[str, Any]] = {}
        told: dict[int, int] = {}
        part = 0
        try:
            while pending:
                part = 0
                ended, _ = ray.wait(list(pending), num_returns=len(pending), timeout=_SHOWS_S)
                for ref in ended:
                    part = pending.pop(ref)
                    code, document, notes, node, retries = ray.get(ref)
                    report(code, document, notes, f"part {part}/{of}, on node {node[:8]}")
                    done[part] = document
                    self.nodes[node] += document["done"]
                    told[part] = retries
                self._show_parts(done)
                self._again(told)
        except BaseException as error:
            self._cancel(list(pending))
            _raise(error, f"part {part}/{of}")
        return done

    def _show_parts(self, done: Mapping[int, dict[str, Any]]) -> None:
        running = {part: now for part, now in self._read().items() if part > 0 and part not in done}
        # A part that has changed its images, but packed nothing yet, reports `images`.
        samples = sum(one.get("samples", one.get("images", 0)) for one in done.values())
        samples += sum(now[1] for now in running.values())
        bytes = sum(one.get("payload_bytes", 0) for one in done.values()) + sum(now[3] for now in running.values())
        now = time.monotonic()
        self._recent.append((now, bytes))
        while now - self._recent[0][0] > _RECENT_S:
            self._recent.popleft()
        since, before = self._recent[0]
        self._show(
            samples=samples,
            bytes=bytes,
            done_parts=len(done),
            running_parts=len(running),
            retries=sum(self.retries().values()),
            bytes_per_second=max(0, bytes - before) / (now - since) if now > since else 0.0,
        )

    def _cancel(self, refs: list[Any]) -> None:
        """Cancel tasks: first cleanly, then by force."""
        # Never cancel an ended task: if Ray 2.60 is completing it, that ends the driver.
        left = ray.wait(refs, num_returns=len(refs), timeout=0)[1] if refs else []
        try:
            for ref in left:
                ray.cancel(ref)
            left = ray.wait(left, num_returns=len(left), timeout=_GRACE_S)[1] if left else []
        finally:
            for ref in left:
                ray.cancel(ref, force=True)


def _raise(error: BaseException, where: str) -> NoReturn:
    """Raise the error of a task as an error of shardpack that names it; other errors unchanged."""
    if not isinstance(error, ray.exceptions.RayError):
        raise error
    cause = getattr(error, "cause", None) or error
    if isinstance(error, ray.exceptions.RayTaskError) and not isinstance(cause, _child.Lost):
        raise MachineError(f"{where}: {cause}") from error
    raise MachineError(
        f"{where} was lost too often: {cause}", help="the same call resumes; max_retries=N tries more often"
    ) from error


def _bar_of_parts() -> Tell:
    try:
        return _BarOfParts()
    except ImportError:
        return _Lines()


class _BarOfParts(_Bar):
    """A tqdm bar that also counts done and running parts."""

    def __call__(self, now: Progress) -> None:
        super().__call__(now)
        if self._bar is not None and isinstance(now, PartsProgress) and now.parts:
            self._bar.set_postfix_str(f"parts {now.done_parts}/{now.parts}, {now.running_parts} running", refresh=False)


class _Lines:
    """Progress as a line on stderr per step, and every few seconds."""

    def __init__(self) -> None:
        self._verb, self._next = "", 0.0

    def __call__(self, now: PartsProgress) -> None:
        if now.verb == self._verb and time.monotonic() < self._next:
            return
        self._verb, self._next = now.verb, time.monotonic() + _LINE_S
        parts = f", {now.done_parts} of {now.parts} parts, {now.running_parts} running" if now.parts else ""
        rate = f", {now.bytes_per_second / 1e6:.1f} MB/s" if now.bytes_per_second else ""
        print(
            f"{now.verb:<8} {now.samples} samples, {now.bytes / 1e6:.1f} MB{rate}{parts}", file=sys.stderr, flush=True
        )
