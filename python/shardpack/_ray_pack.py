"""Packing on a Ray cluster: one plan, a task for each part, and a merge.

Each task runs its part in a process of its own, which is gone when the task's worker is. The same plan makes the same bytes, so that a
part may be stopped anywhere and run again, or run twice at once.
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

#: Options that change images: what is planned is known when all are changed.
_CHANGES = ("fix", "rotate", "resize", "encode")
#: Options of a part. All others of `pack` are of the plan.
_OF_PARTS = ("jobs", "memory", "read_order", "on_bad", "sidecars")
#: What parts cannot do, and what helps.
_NOT_IN_PARTS = {
    "force": "remove the folder, or pack into another one",
    "crops": "shardpack.crops(dst) makes them afterwards",
    "dry_run": "shardpack.plan(src, dst) shows the plan",
    "part": "parts=N says how many there are",
}
#: Most parts, where nobody says how many; more where the cluster has many places.
_PARTS = 256
_PARTS_A_PLACE = 8
#: Each of them lists the source, twice.
_CHANGING_PARTS_A_PLACE = 2
#: Budget of a part for images in flight, for each of its CPUs: a quarter of what machines commonly have.
_MEMORY_BYTES = 512 << 20
#: How often a part tells how far it is, and the driver the caller, in seconds.
_TELLS_S, _SHOWS_S = 2.0, 0.5
#: Until when parts that are cancelled have ended, in seconds: their commands have the time of `_child`.
_GRACE_S = 30.0
#: Over how long the rate is taken, in seconds.
_RECENT_S = 30.0
#: How often a line is printed where there is no bar, in seconds.
_LINE_S = 10.0


@dataclass(frozen=True)
class PartsProgress(Progress):
    """How far packing on a cluster is: `verb` is `planning`, `changing`, `packing` or `merging`.

    Attributes:
        parts: Number of parts.
        done_parts: Those that are done.
        running_parts: Those that run now.
        retries: How often a part began again because its worker, its node or its process was lost.
        bytes_per_second: Bytes that were done in a second of late.
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
    """Packs on a Ray cluster what `shardpack.pack` would pack on one machine, to the same bytes.

    The plan is made once, `DST.plan` beside the dataset, and removed when that is sealed. Each part is a task with a process of its own,
    and the last step is the merge, which reads no image. A part whose worker, node or process is lost runs again, elsewhere. A part that
    ends with an error does not: the same plan would come to the same. If it is the data, the others go on, and the report names all bad
    samples; with any other error the others are ended, and it is raised with the part named. What is finished stays in any case, and the
    same call goes on, with as many parts or others. Ctrl-C ends the processes in good order.

    Images that are changed first (`resize`, `fix`, …) are changed by the same parts, each of which lists the source; shards are planned
    when all are, and there is no plan file.

    Args:
        src: Source, which all nodes see under this path; DST where there is no other, as with `plan` and `split`.
        dst: Folder of the shards, on a file system that all nodes see.
        parts: How many; many more than there are nodes, so that a lost one costs little and a cluster that grows has work. By default as
            many as there are shards, but at most 256, or 8 for each task that the cluster has place for; 2 for each where images are changed.
        plan: A plan file that is there, in place of SRC; it is not removed.
        plan_on: Where plan and merge are made: `"driver"`, in this process, or `"cluster"`, in a task, where SRC and DST are not seen from here.
        num_cpus: CPUs of a task; its process has as many threads, unless `jobs` says otherwise.
        max_retries: How often a part that is lost runs again; -1 for ever.
        task_options: Others for the tasks, as `.options()` of a Ray task takes them: `resources`, `runtime_env`, `scheduling_strategy`, ….
        verify: Read all shards and compare their hashes before anything is sealed.
        progress: `True` for a bar of tqdm, or lines on stderr where there is none; or a function that is called with a `PartsProgress`.
        options: Those of `shardpack.pack`, but for `force`, `crops` and `dry_run`. `memory` is of each part, 512 MiB for each CPU unless it
            is given.

    Returns:
        The report of `shardpack.merge`, and `samples`; `parts`; `retries`, by part; `bad`, samples that could not be packed; `nodes`, how many
        parts each packed. `ok` is `False`, and nothing is sealed, where there are bad samples.

    Raises:
        UsageError: When the request does not fit, for instance as DST holds something else.
        DataError: When the plan is damaged.
        MachineError: When a machine refused, or a part was lost more often than `max_retries`.
    """
    began = time.monotonic()
    of_plan, of_parts = _told_apart(options)
    if plan is not None and of_plan:
        raise UsageError(f"{next(iter(of_plan))}: of a plan that is yet to be made, and there is one")
    if plan_on not in ("driver", "cluster"):
        raise UsageError(f"plan_on={plan_on!r}: 'driver' or 'cluster'")
    if parts is not None and parts < 1:
        raise UsageError(f"parts={parts}: at least one")
    if num_cpus <= 0:
        raise UsageError(f"num_cpus={num_cpus}: a task has to have some, so that not all run at once")
    # Tasks have other working folders. What is no path is refused as the program refuses it.
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
            # Of images that were changed, the last part has packed its own, and some more may have.
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
    """The options of the plan, and those of the parts."""
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
    """What tasks write on, for the driver to read: an actor that is not needed for the work."""

    def __init__(self) -> None:
        self.retries: dict[int, int] = {}
        self.progress: dict[int, tuple[Any, ...]] = {}

    def begin(self, part: int, retries: int) -> None:
        """`part` begins to run, after so many times before."""
        # What a lost node has sent may come after what its successor says.
        self.retries[part] = max(retries, self.retries.get(part, 0))
        self.progress[part] = ("", 0, 0, 0, 0)

    def tell(self, part: int, progress: tuple[Any, ...]) -> None:
        """`part` is so far."""
        if part in self.progress:
            self.progress[part] = progress

    def end(self, part: int) -> None:
        """`part` does not run any more."""
        self.progress.pop(part, None)

    def read(self) -> tuple[dict[int, int], dict[int, tuple[Any, ...]]]:
        """How often each part began again, and how far those are that run."""
        return dict(self.retries), dict(self.progress)


def _task(part: int, words: list[str], folder: str, board: Any) -> tuple[int, dict[str, Any], list[str], str, int]:
    """Runs a command for a task: code, document, notes, the node, and how often it began before."""
    last, retries = time.monotonic(), _retries()

    def tell(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= _TELLS_S:
            last = time.monotonic()
            _quietly(lambda: board.tell.remote(part, _told(progress)))

    # A task that waits in `ray.get` gives its CPUs to another one meanwhile: nothing is waited for.
    _quietly(lambda: board.begin.remote(part, retries))
    try:
        code, document, notes = _child.run(words, tell, folder)
    finally:
        _quietly(lambda: board.end.remote(part))
    if code == 130:
        # Nobody asked for it here: this machine is shutting down, for instance.
        raise _child.Lost("its process was interrupted")
    return code, document, notes, str(ray.get_runtime_context().get_node_id()), retries


def _retries() -> int:
    """How often the task that runs began before."""
    try:
        # Ray's runtime context does not say it. What a worker counts itself would be lost with the worker.
        return int(ray._private.worker.global_worker.core_worker.get_current_task_attempt_number())
    except AttributeError:
        return 0


def _unlink(file: str) -> None:
    os.unlink(file)


def _told(progress: Progress) -> tuple[Any, ...]:
    return progress.verb, progress.samples, progress.total_samples, progress.bytes, progress.total_bytes


def _quietly(ask: Callable[[], Any]) -> None:
    """The board may be gone: only what is told of the work depends on it."""
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
        #: How many parts each node has packed.
        self.nodes: Counter[str] = Counter()
        self._retries: dict[int, int] = {}
        self._now = PartsProgress("", 0, 0, 0, 0, 0, 0, 0, 0, 0.0)
        self._recent: deque[tuple[float, int]] = deque()

    def close(self) -> None:
        """Ends what is left of it."""
        _quietly(lambda: ray.kill(self._board))
        if self._tell is not None and hasattr(self._tell, "close"):
            self._tell.close()

    def places(self) -> int:
        """How many tasks the cluster has place for now."""
        return int(ray.cluster_resources().get("CPU", 1) / self._num_cpus)

    def _again(self, told: Mapping[int, int]) -> None:
        """Parts began so often again, as someone tells who may know of earlier ones alone."""
        for part, count in told.items():
            self._retries[part] = max(count, self._retries.get(part, 0))

    def retries(self) -> dict[int, int]:
        """How often parts began again."""
        return {part: count for part, count in self._retries.items() if part > 0 and count > 0}

    def remove(self, file: str, where: str) -> None:
        """Removes a file that plans were made into."""
        if where == "driver":
            os.unlink(file)
        else:
            ray.get(ray.remote(_unlink).options(**self._options).remote(file))

    def _show(self, **changes: Any) -> None:
        self._now = replace(self._now, **changes)
        if self._tell is not None:
            self._tell(self._now)

    def alone(self, verb: str, words: list[str], where: str) -> Report:
        """A command that is run once, here or in a task. Tasks of this kind have the number 0."""

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
        """The documents of these parts of so many, once all have ended. The first that raises ends the others."""
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
        # A part that has changed its images and packed nothing yet tells how many they are.
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
        """Ends tasks: first so that their processes end in good order, and what is left then."""
        # One that has ended must not be cancelled: while Ray 2.60 completes a task, that ends the driver.
        left = ray.wait(refs, num_returns=len(refs), timeout=0)[1] if refs else []
        try:
            for ref in left:
                ray.cancel(ref)
            left = ray.wait(left, num_returns=len(left), timeout=_GRACE_S)[1] if left else []
        finally:
            for ref in left:
                ray.cancel(ref, force=True)


def _raise(error: BaseException, where: str) -> NoReturn:
    """Raises what is the matter with a task as an error of shardpack's that says which it is; all else as it is."""
    if not isinstance(error, ray.exceptions.RayError):
        raise error
    cause = getattr(error, "cause", None) or error
    if isinstance(error, ray.exceptions.RayTaskError) and not isinstance(cause, _child.Lost):
        raise MachineError(f"{where}: {cause}") from error
    raise MachineError(
        f"{where} was lost too often: {cause}", help="the same call goes on, max_retries=N has more patience"
    ) from error


def _bar_of_parts() -> Tell:
    try:
        return _BarOfParts()
    except ImportError:
        return _Lines()


class _BarOfParts(_Bar):
    """tqdm's, with how many parts are done and run."""

    def __call__(self, now: Progress) -> None:
        super().__call__(now)
        if self._bar is not None and isinstance(now, PartsProgress) and now.parts:
            self._bar.set_postfix_str(f"parts {now.done_parts}/{now.parts}, {now.running_parts} running", refresh=False)


class _Lines:
    """A line on stderr for each step, and now and then."""

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
