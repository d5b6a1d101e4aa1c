"""The loader: batches of a packed dataset, made by threads without Python's lock, without workers and shared memory."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Union

import numpy as np

from . import _native, distributed
from ._mapped import Mapped
from ._sizes import in_bytes
from ._stores import Settings, Store, is_url, open_native
from .batch import NO_LABEL, Batch, Encoded, NamedBatch
from .errors import UsageError
from .part import Part
from .receipt import Expected, Receipt
from .running import PathLike
from .transforms import Pipeline, Step, imagenet_eval, imagenet_train

__all__ = ["Loader"]

#: What `transform` takes: `train`, `eval`, steps, or a pipeline.
Transform = Union[str, Sequence[Step], Pipeline]


class Loader:
    """Batches of a packed dataset, epoch after epoch.

        loader = shardpack.Loader("packed/train", 64, transform="train")
        for epoch in range(90):
            for images, labels in loader:
                ...

    Each `iter()` is the next epoch, in an order as good as a true shuffle. All ranks get the same number of batches.

    Args:
        path: Folder of a dataset, or its URL as a string, or several as `Part`s, which are mixed.
        batch_size: Samples of a batch of one rank.
        transform: What is made of images natively: `"train"` (`transforms.imagenet_train()`), `"eval"`, a list of steps of
            `shardpack.transforms`, or a `Pipeline`. `None`: images are handed out as they are stored, as `Encoded`; of datasets that hold no
            images, the arrays of all components.
        sample_transform: A function of yours instead, called in threads with an `Item`; what it returns for the samples of a batch is
            stacked where it is arrays or tensors, else handed out as a list.
        batch_transform: A function of yours that is given each batch before it is handed out.
        components: Names of components that go along; batches are dicts then.
        as_dict: Batches are dicts in any case.
        shuffle: `"lanes"` or `True`, as good as a true shuffle with large reads; `"full"`, a read for each sample; `"none"` or `False`.
        seed: Chooses order and random transforms.
        last: The end of an epoch: `"short"`, every sample once; `"drop"`; `"pad"`, as torch's DistributedSampler does.
        rank: Which rank this process is, from 0; found out if `None` (see `distributed.find`).
        world_size: Number of ranks.
        process_group: One of torch.distributed, to find them by.
        output: `"torch"`, `"numpy"`, or `None`: torch where it is imported when the first batch is asked for.
        pin_memory: Batches of images are made in torch's pinned memory, for copies to a GPU in the background; without a GPU in plain memory.
        range, classes, samples, part, part_seed, balance: Which samples, and how often; see `Part`.
        epoch_samples: Samples of an epoch of a mix by weight.
        on_bad: A sample that is not right is an `"error"`, or `"skip"`ped, or another of its class comes to `"replace"` it; the receipt
            names it.
        check_content: Compare each payload with its hash. What comes from a URL always is.
        max_pixels: Larger images are not right.
        memory: For what is read ahead, in bytes or as `"1GiB"`. `None`: 256 MiB, or as much more as large batches of small samples
            need, up to 2 GiB; `stats()["peak_run_bytes"]` says what was used.
        ahead: Memory for batches that are made ahead of need, beyond the usual four.
        threads: Threads that make batches; 0 for all cores.
        read_threads: Threads that read.
        lanes: Lanes of all ranks together; as many as it takes if `None`.
        epochs: Nothing is read ahead for epochs from this number on.
        progress: Show a bar of tqdm for each epoch.
        store: Of a URL, settings of its store beside what the environment says, as of `Dataset`. Of a mix, of all URLs whose `Part` has
            none of its own. They go along where the loader is pickled; `state_dict` has none of them.
        cache_dir: Of a URL, a folder of this machine that keeps what was read of it, so that the next epoch or run does not ask for it
            again. All processes that name it share it, and may be killed at any moment. Nothing is kept unless it is given.
        cache_bytes: How much may be in that folder, in bytes or as `"100GiB"`: a limit that is never exceeded, of all processes together.
            What has no room is read all the same; `stats()` tells.

    Raises:
        UsageError: When an option is out of range, there is no such dataset or component, or an epoch has no batch.
        DataError: When manifest or indexes are damaged.
    """

    def __init__(
        self,
        path: PathLike | Sequence[Part],
        batch_size: int = 64,
        *,
        transform: Transform | None = None,
        sample_transform: Callable[[Any], Any] | None = None,
        batch_transform: Callable[[Any], Any] | None = None,
        components: Sequence[str] = (),
        as_dict: bool = False,
        shuffle: bool | str = True,
        seed: int = 0,
        last: str = "short",
        rank: int | None = None,
        world_size: int | None = None,
        process_group: Any = None,
        output: str | None = None,
        pin_memory: bool = False,
        range: range | None = None,
        classes: Sequence[int | str] | None = None,
        samples: Sequence[int] | None = None,
        part: tuple[float, float] | None = None,
        part_seed: int = 0,
        balance: float | None = None,
        epoch_samples: int | None = None,
        on_bad: str = "error",
        check_content: bool = False,
        max_pixels: int | None = None,
        memory: int | str | None = None,
        ahead: int | str = 0,
        threads: int = 0,
        read_threads: int = 4,
        lanes: int | None = None,
        epochs: int | None = None,
        progress: bool = False,
        store: Store | None = None,
        cache_dir: PathLike | None = None,
        cache_bytes: int | str | None = None,
    ) -> None:
        choice = {"range": range, "classes": classes, "samples": samples, "part": part, "balance": balance}
        if isinstance(path, (str, os.PathLike)):
            parts = [Part(path, part_seed=part_seed, **choice)]  # type: ignore[arg-type]
        else:
            parts = list(path)
            if told := [name for name, value in choice.items() if value is not None]:
                raise UsageError(f"{told[0]} of a mix: each Part has its own")
        if not parts:
            raise UsageError("a mix of no datasets")
        if output not in (None, "torch", "numpy"):
            raise UsageError(f"output={output!r}: torch, numpy, or None")
        if transform is not None and sample_transform is not None:
            raise UsageError("transform and sample_transform: one of them makes the images")
        if pin_memory and (transform is None or output == "numpy"):
            raise UsageError("pin_memory is for images that a native transform makes, as torch tensors")
        stores = _stores_of(parts, Settings.of(store), Settings().with_cache(cache_dir, cache_bytes))
        opened = [open_native(one.path, store=settings) for one, settings in zip(parts, stores)]
        #: The datasets, until the engine has them: manifests are read once.
        self._opened: list[_native.Dataset] = opened
        weights = [one.weight for one in parts]
        if (epoch_samples is None) != (weights.count(None) == len(weights)) or weights.count(None) not in (
            0,
            len(weights),
        ):
            raise UsageError("weights: all parts have one, and epoch_samples says how long an epoch is")
        holds_images = all(one.holds_images for one in opened)
        if transform is None and sample_transform is None and not components and not holds_images:
            # The component cls is the label, which comes anyway.
            components = [name for name in opened[0].components if name != "cls"]
        self._components = list(components)
        self._wants_payload = transform is None and (holds_images or sample_transform is not None)
        pipeline = _pipeline(transform)
        self._request: dict[str, Any] = {
            "parts": [one._request(found.classes, settings) for one, found, settings in zip(parts, opened, stores)],
            "weights": None if epoch_samples is None else [weights, epoch_samples],
            "batch": batch_size,
            "seed": seed,
            "shuffle": shuffle if isinstance(shuffle, str) else "lanes" if shuffle else "none",
            "lanes": lanes,
            "last": last,
            "transform": None if pipeline is None else pipeline._request,
            "payload": self._wants_payload,
            "components": self._components,
            "on_bad": on_bad,
            "check_content": check_content,
            "max_pixels": max_pixels,
            "memory_bytes": None if memory is None else in_bytes(memory, "memory"),
            "ahead_bytes": in_bytes(ahead, "ahead"),
            "read_threads": read_threads,
            "threads": threads,
            "epochs": epochs,
        }
        self._ranks_wanted = rank, world_size, process_group
        self._as_dict = as_dict or bool(self._components)
        self._output, self._pin_memory, self._is_bfloat16 = (
            output,
            pin_memory,
            pipeline is not None and pipeline._request["dtype"] == "bfloat16",
        )
        self._mapped = None if sample_transform is None else Mapped(sample_transform, threads or os.cpu_count() or 1)
        self._batch_transform, self._progress = batch_transform, progress
        self._paths = [os.fspath(one.path) for one in parts]
        self._classes = opened[0].classes
        self._forget()
        # What is wrong shows now; ranks are found out later, and one of one is as good for that. It may well be what they are.
        self._alone: _native.Engine | None = self._engine_of(distributed.Ranks(0, 1, ""))

    def _forget(self) -> None:
        self._ranks: distributed.Ranks | None = None
        self._made: _native.Engine | None = None
        self._stream: _native.Stream | None = None
        #: Where the stream is, and the tensors that it makes batches in, by address.
        self._lent: dict[int, Any] = {}
        self._next_epoch = 0
        #: The state to begin with instead of the start of an epoch.
        self._resume: str | None = None
        self._state: str | None = None
        #: The state that tells the order, if it is not the options that do.
        self._order: str | None = None
        self._receipt: str | None = None
        self._is_under_way = self._is_pinned = False
        self._process = os.getpid()

    # What does not read.

    @property
    def ranks(self) -> distributed.Ranks:
        """Which rank this is, of how many, and who says so: found out when it is first asked for, which the first batch and `len` do."""
        if self._ranks is None:
            rank, world_size, group = self._ranks_wanted
            self._ranks = distributed.find(rank, world_size, group)
        return self._ranks

    def _engine_of(self, ranks: distributed.Ranks, order: str | None = None) -> _native.Engine:
        request = {**self._request, "rank": ranks.rank, "world": ranks.world_size}
        return _native.Engine(json.dumps(request), order, self._opened)

    def _engine(self) -> _native.Engine:
        if self._made is None:
            is_alone = self.ranks[:2] == (0, 1) and self._order is None
            self._made = (self._alone if is_alone else None) or self._engine_of(self.ranks, self._order)
            self._alone, self._opened = None, []
        return self._made

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch, also where `load_state_dict` has set its midst: frameworks count from its beginning."""
        return self._engine().batches_of_epoch()

    @property
    def batches_left(self) -> int:
        """Batches that the next `iter()` gives: fewer than `len()` where `load_state_dict` has set the midst of an epoch."""
        return len(self) if self._resume is None else self._engine().batches_left(self._resume)

    @property
    def samples_of_epoch(self) -> int:
        """Samples of an epoch, of all ranks together."""
        return self._engine().samples_of_epoch()

    @property
    def epoch(self) -> int:
        """The epoch that `iter()` gives next, from 0."""
        return self._next_epoch

    @property
    def classes(self) -> list[str]:
        """Names of the classes in the order of their labels; of a mix, those of the first dataset."""
        return list(self._classes)

    def set_epoch(self, epoch: int) -> None:
        """Makes `epoch` the one that `iter()` gives next. Where that is the one that `load_state_dict` has set, it goes on in its midst."""
        if epoch != self._next_epoch:
            self._next_epoch, self._resume, self._state = epoch, None, None
            self._close()

    def expected(self, epoch: int) -> Expected:
        """What the receipts of all ranks add up to after `epoch`, if each sample was seen once."""
        return Expected(*self._engine().expected(epoch))

    def __repr__(self) -> str:
        ranks = "rank not known yet" if self._ranks is None else "rank {} of {} by {}".format(*self._ranks)
        return f"Loader({', '.join(map(repr, self._paths))}, batch_size={self._request['batch']}, epoch={self._next_epoch}, {ranks})"

    # Going on.

    def state_dict(self) -> dict[str, Any]:
        """Where a run goes on that ends after the batch that was handed out last: plain values, the same in all ranks. Any number of
        ranks goes on from it."""
        state = self._state or self._resume or self._engine().start_of(self._next_epoch)
        return {"shardpack": json.loads(state)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from `state`: the next `iter()` gives what is left of its epoch, in the time of opening. Seed, shuffle and lanes are
        those of the run that it is of.

        Raises:
            UsageError: When it is of another dataset.
            DataError: When it is no state.
        """
        if "shardpack" not in state:
            raise UsageError("no state of a loader: it lacks 'shardpack'")
        text = json.dumps(state["shardpack"])
        engine = self._engine_of(self.ranks, text)
        self._close()
        self._made, self._order = engine, text
        epoch = int(state["shardpack"]["epoch"])
        if engine.batches_left(text) == 0:
            epoch, text = epoch + 1, engine.start_of(epoch + 1)
        self._next_epoch, self._resume, self._state, self._receipt = epoch, text, None, None

    # Reading.

    def _close(self) -> None:
        stream, self._stream, self._is_under_way = self._stream, None, False
        self._lent = {}
        if stream is not None and self._process == os.getpid():
            stream.close()

    def close(self) -> None:
        """Ends the threads. Batches and the receipt stay; the next `iter()` begins anew."""
        if self._stream is not None and self._process == os.getpid():
            self._receipt = self.receipt().json
        self._close()

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state.update(_stream=None, _made=None, _alone=None, _opened=[], _lent={}, _is_under_way=False)
        return state

    def _begin(self) -> _native.Stream:
        if self._process != os.getpid():
            # The threads are those of the process that this one was forked from.
            self._stream, self._process, self._is_under_way = None, os.getpid(), False
        if self._is_under_way or self._resume is not None:
            self._close()
        if self._stream is None:
            engine = self._engine()
            memories = []
            if self._pin_memory:
                memories = [self._pinned(engine) for _ in range(_AHEAD)]
                self._lent = {tensor.data_ptr(): tensor for tensor in memories}
            self._stream = engine.start(self._resume or engine.start_of(self._next_epoch), memories)
        return self._stream

    def __iter__(self) -> Iterator[Any]:
        batches = self._batches()
        if not self._progress:
            return batches
        try:
            from tqdm.auto import tqdm
        except ImportError:
            raise UsageError("progress=True needs tqdm", help="pip install tqdm") from None
        total = self.batches_left
        shown: Iterator[Any] = iter(tqdm(batches, total=total, desc=f"epoch {self._next_epoch}", unit="batch"))
        return shown

    def _batches(self) -> Iterator[Any]:
        epochs = self._request["epochs"]
        if epochs is not None and self._next_epoch >= epochs:
            raise UsageError(f"epoch {self._next_epoch} of a loader with epochs={epochs}", help="they count from 0")
        stream = self._begin()
        self._next_epoch, self._resume = self._next_epoch + 1, None
        self._is_under_way = True
        raw = self._native_batches(stream)
        told = ((one, self._content(one, memory), None) for one, memory in raw)
        made: Generator[Any, None, None] = told if self._mapped is None else self._mapped(stream, raw)
        try:
            for native, content, receipt in made:
                batch = self._batch(native, content)
                self._state, self._receipt = native.state, receipt
                yield batch
            if self._stream is stream:
                self._state, self._receipt = stream.state(), None
                self._is_under_way = False
        finally:
            made.close()

    def _native_batches(self, stream: _native.Stream) -> Iterator[tuple[_native.Batch, Any]]:
        while True:
            if self._stream is not stream:
                raise UsageError(
                    "the loader has gone on to another epoch",
                    help="a loader has one iterator at a time; two loaders have two",
                )
            memory = self._pinned(self._engine()) if self._pin_memory else None
            batch = stream.next(memory)
            if batch is None:
                return
            found = None
            if memory is not None and batch.address is not None:
                found = self._lent.pop(batch.address)
                self._lent[memory.data_ptr()] = memory
            yield batch, found

    def _pinned(self, engine: _native.Engine) -> Any:
        import torch

        # Without a GPU nothing can be pinned, and torch's DataLoader takes plain memory too; the statistics tell.
        self._is_pinned = torch.cuda.is_available()
        return torch.empty(engine.batch_bytes(), dtype=torch.uint8, pin_memory=self._is_pinned)

    def _is_torch(self) -> bool:
        if self._output is None:
            self._output = "torch" if self._pin_memory or "torch" in sys.modules else "numpy"
        return self._output == "torch"

    def _array(self, array: Any) -> Any:
        found = np.asarray(array)
        if not self._is_torch() or found.dtype.kind not in "buifc" or found.dtype.name in _NUMPY_ALONE:
            return found
        import torch

        # torch has one byte order.
        return torch.from_numpy(found if found.dtype.isnative else found.astype(found.dtype.newbyteorder("=")))

    def _content(self, native: _native.Batch, memory: Any) -> Any:
        """Images or payloads, as the caller wants them."""
        if memory is not None:
            import torch

            engine = self._engine()
            slot = engine.slot()
            assert slot is not None, "pinned memory is for images"
            shape, dtype = slot
            kind = {"|u1": torch.uint8, "<f4": torch.float32, "<f2": torch.float16, "<u2": torch.bfloat16}[dtype]
            return memory.view(kind).view(self._request["batch"], *shape)[: native.samples]
        if native.images is None:
            return None if native.encoded is None else Encoded(native.encoded)
        if not self._is_bfloat16:
            return self._array(native.images)
        found = np.asarray(native.images)
        if self._is_torch():
            import torch

            return torch.from_numpy(found.view(np.int16)).view(torch.bfloat16)
        try:
            import ml_dtypes
        except ImportError:
            raise UsageError("numpy has no bfloat16", help="pip install ml_dtypes, or output='torch'") from None
        return found.view(ml_dtypes.bfloat16)

    def _batch(self, native: _native.Batch, content: Any) -> Any:
        labels = self._array(native.labels)
        batch: Batch | NamedBatch
        if self._as_dict:
            batch = NamedBatch()
            if content is not None:
                batch["image"] = content
            if self._classes or not self._components or bool((labels != NO_LABEL).any()):
                batch["label"] = labels
            for name, column in native.columns:
                batch[name] = column if isinstance(column, list) else self._array(column)
        else:
            batch = Batch((content, labels))
        batch._tell(native, self._classes)
        return batch if self._batch_transform is None else self._batch_transform(batch)

    # What was done.

    def receipt(self) -> Receipt:
        """What was handed out of the epoch under way, or of the last one at its end, since it began or was gone on with.

        Raises:
            UsageError: Before the first batch.
        """
        if self._receipt is not None:
            return Receipt(self._receipt)
        if self._stream is None:
            raise UsageError("no batch has been asked for yet")
        return Receipt(self._stream.receipt())

    def stats(self) -> dict[str, Any]:
        """What was done since the threads began, and where time went, in milliseconds; `bottleneck` says who the slow one is: `disk`,
        `decode`, or `consumer`, the training itself; `pinned` whether batches are in pinned memory, which takes a GPU. What begins with
        `cache_` is there where a cache is: reads and bytes that came from it, bytes that were added, evicted, left out for want of room.

        Raises:
            UsageError: Before the first batch.
        """
        if self._stream is None:
            raise UsageError("no batch has been asked for yet")
        stats: dict[str, Any] = json.loads(self._stream.stats())
        slow = "disk" if stats["disk_wait_ms"] > 0.5 * stats["consumer_wait_ms"] else "decode"
        # Somebody waits: whoever makes batches for room, or the consumer for them.
        stats["bottleneck"] = slow if stats["consumer_wait_ms"] > stats["full_ms"] else "consumer"
        stats["pinned"] = self._is_pinned
        stats["samples_per_s"] = stats["samples"] / max(stats["elapsed_ms"], 1e-3) * 1e3
        return stats


#: dtypes that torch computes nothing with.
_NUMPY_ALONE = {"uint16", "uint32", "uint64"}

#: Batches that exist at a time in memory of torch's: as many as in the loader's own.
_AHEAD = 4


def _stores_of(parts: Sequence[Part], shared: Settings, cached: Settings) -> list[Settings]:
    """Of each part the settings of its store, and the cache, which is for all URLs."""
    is_for_all = len(parts) == 1
    if not is_for_all and not any(is_url(one.path) for one in parts):
        for given, said in ((shared, "settings of a store are"), (cached, "a cache is")):
            if given:
                raise UsageError(f"{said} given, and these are folders", os.fspath(parts[0].path))
    none = Settings()
    stores = []
    for one in parts:
        is_meant = is_for_all or is_url(one.path)
        own = Settings.of(one.store) if one.store is not None else shared if is_meant else none
        stores.append(replace(own, cache=cached.cache) if is_meant else own)
    return stores


def _pipeline(transform: Transform | None) -> Pipeline | None:
    if transform is None or isinstance(transform, Pipeline):
        return transform
    if transform == "train":
        return imagenet_train()
    if transform == "eval":
        return imagenet_eval()
    if isinstance(transform, str):
        raise UsageError(f"transform={transform!r}: train, eval, steps of shardpack.transforms, or a Pipeline")
    return Pipeline(list(transform))
