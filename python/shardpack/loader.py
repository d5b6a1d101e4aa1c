"""The loader: batches of a packed dataset, made by threads without Python's lock, without workers and shared memory."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn, Union

import numpy as np

from . import _native, distributed
from ._epoch import Epoch
from ._mapped import Mapped
from ._options import choice, flag, function, refuse, several, whole, whole_or_none
from ._sizes import in_bytes, shown
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
        last: The end of an epoch: `"short"`, every sample once, and none of the batches empty; `"drop"`; `"pad"`, as torch's DistributedSampler
            does.
        rank: Which rank this process is, from 0; found out if `None` (see `distributed.find`). In a worker of torch's DataLoader it is divided
            among the workers.
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
        path: PathLike | Part | Sequence[Part],
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
        range: range | tuple[int, int] | None = None,
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
        **unknown: NoReturn,
    ) -> None:
        if unknown:
            refuse(list(unknown), Loader.__init__.__kwdefaults__ or ())
        chosen = {"range": range, "classes": classes, "samples": samples, "part": part, "balance": balance}
        if isinstance(path, (str, os.PathLike)):
            parts = [Part(path, part_seed=part_seed, **chosen)]  # type: ignore[arg-type]
        else:
            parts = _mix(path)
            if told := [name for name, value in chosen.items() if value is not None]:
                raise UsageError(f"{told[0]} of a mix: each Part has its own")
        if not parts:
            raise UsageError("a mix of no datasets")
        if output is not None:
            choice(output, "output", ("torch", "numpy"))
        pipeline = _pipeline(transform)
        if transform is not None and sample_transform is not None:
            raise UsageError("transform and sample_transform: one of them makes the images")
        if flag(pin_memory, "pin_memory") and (transform is None or output == "numpy"):
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
        self._components = [str(name) for name in several(components, "components", "names")]
        self._wants_payload = transform is None and (holds_images or sample_transform is not None)
        self._request: dict[str, Any] = {
            "parts": [one._request(found.classes, settings) for one, found, settings in zip(parts, opened, stores)],
            "weights": None if epoch_samples is None else [weights, whole(epoch_samples, "epoch_samples", 1)],
            "batch": whole(batch_size, "batch_size", 1),
            "seed": whole(seed, "seed"),
            "shuffle": _shuffle(shuffle),
            "lanes": whole_or_none(lanes, "lanes", 1),
            "last": choice(last, "last", ("short", "drop", "pad")),
            "transform": None if pipeline is None else pipeline._request,
            "payload": self._wants_payload,
            "components": self._components,
            "on_bad": choice(on_bad, "on_bad", ("error", "skip", "replace")),
            "check_content": flag(check_content, "check_content"),
            "max_pixels": whole_or_none(max_pixels, "max_pixels", 1),
            "memory_bytes": None if memory is None else in_bytes(memory, "memory"),
            "ahead_bytes": in_bytes(ahead, "ahead"),
            "read_threads": whole(read_threads, "read_threads", 1, _THREADS_END),
            "threads": whole(threads, "threads", 0, _THREADS_END),
            "epochs": whole_or_none(epochs, "epochs"),
        }
        self._ranks_wanted = rank, world_size, process_group
        if rank is not None or world_size is not None:
            # What is wrong with them shows now.
            distributed.find(rank, world_size)
        if rank is not None and self._divides and distributed.worker() is not None:
            raise UsageError(
                "rank and world_size in a worker of a DataLoader: nobody can say whether they divide among its workers",
                help="leave them out, and the loader divides; or take shardpack.torch.IterableDataset",
            )
        self._as_dict = flag(as_dict, "as_dict") or bool(self._components)
        self._output, self._pin_memory, self._is_bfloat16 = (
            output,
            pin_memory,
            pipeline is not None and pipeline._request["dtype"] == "bfloat16",
        )
        call = function(sample_transform, "sample_transform")
        self._mapped = None if call is None else Mapped(call, self._request["threads"] or os.cpu_count() or 1)
        self._batch_transform = function(batch_transform, "batch_transform")
        self._progress = flag(progress, "progress")
        self._paths = [os.fspath(one.path) for one in parts]
        self._forget()
        # What is wrong shows now; ranks are found out later, and one of one is as good for that. It may well be what they are.
        self._alone: _native.Engine | None = self._engine_of(distributed.Ranks(0, 1, ""))
        self._classes = self._alone.classes

    #: Whether workers of a DataLoader share what the rank has: `shardpack.torch` has divided before.
    _divides = True

    def _forget(self) -> None:
        self._ranks: distributed.Ranks | None = None
        #: The worker of a DataLoader that the engine is of.
        self._worker: distributed.Worker | None = None
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
            self._ranks = distributed.find(*self._ranks_wanted)
        worker = distributed.worker() if self._divides else None
        if worker != self._worker:
            self._worker, self._made = worker, None
        # Else each worker would give every sample.
        return self._ranks if worker is None else self._ranks.of(worker)

    def _engine_of(self, ranks: distributed.Ranks, order: str | None = None) -> _native.Engine:
        request = {**self._request, "rank": ranks.rank, "world": ranks.world_size}
        return _native.Engine(json.dumps(request), order, self._opened)

    def _engine(self) -> _native.Engine:
        ranks = self.ranks
        if self._made is None:
            is_alone = ranks[:2] == (0, 1) and self._order is None
            self._made = (self._alone if is_alone else None) or self._engine_of(ranks, self._order)
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
        """Names of the classes in the order of their labels; of a mix those of all its datasets, each once."""
        return list(self._classes)

    def set_epoch(self, epoch: int) -> None:
        """Makes `epoch` the one that `iter()` gives next. Where that is the one that `load_state_dict` has set, it goes on in its midst."""
        epoch = whole(epoch, "epoch")
        if epoch != self._next_epoch:
            self._next_epoch, self._resume, self._state = epoch, None, None
            self._close()

    def expected(self, epoch: int) -> Expected:
        """What the receipts of all ranks add up to after `epoch`, if each sample was seen once."""
        samples, identities = self._engine().expected(whole(epoch, "epoch"))
        return Expected(samples, identities, int(epoch))

    def __repr__(self) -> str:
        ranks = "rank not known yet" if self._ranks is None else "rank {} of {} by {}".format(*self.ranks)
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
        if not isinstance(state, Mapping) or "shardpack" not in state:
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

    def _begin_epoch(self) -> _native.Stream:
        """Begins what `iter()` gives next."""
        epochs = self._request["epochs"]
        if epochs is not None and self._next_epoch >= epochs:
            raise UsageError(f"epoch {self._next_epoch} of a loader with epochs={epochs}", help="they count from 0")
        stream = self._begin()
        # Until the first batch is handed out, a run that ends goes on where this epoch begins.
        self._state = self._resume or self._engine().start_of(self._next_epoch)
        self._next_epoch, self._resume, self._receipt = self._next_epoch + 1, None, None
        self._is_under_way = True
        return stream

    def __iter__(self) -> Iterator[Any]:
        return Epoch(self)

    def __getitem__(self, number: object) -> NoReturn:
        # What a DataLoader asks for that takes this for a dataset.
        raise UsageError(
            "a Loader makes batches by itself, and has none by number",
            help="for batch in loader; shardpack.torch.IterableDataset is for a DataLoader, shardpack.Dataset has samples by number",
        )

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

    def _value(self, value: Any, name: str) -> Any:
        """A value of a column whose arrays differ in shape or dtype."""
        if isinstance(value, _native.Array):
            return self._array(value)
        if isinstance(value, bytes) and name.rpartition(".")[2] == "npy":
            # In an order of its items, or with a head, that the native part does not stack.
            try:
                return self._array(np.load(io.BytesIO(value), allow_pickle=False))
            except ValueError:
                # Python objects: nobody reads them for the caller.
                return value
        return value

    def _content(self, native: _native.Batch, memory: Any) -> Any:
        """Images or payloads, as the caller wants them."""
        if memory is not None:
            import torch

            engine = self._engine()
            slot = engine.slot()
            assert slot is not None, "pinned memory is for images"
            shape, dtype = slot
            kind = {"|u1": torch.uint8, "<f4": torch.float32, "<f2": torch.float16, "<u2": torch.bfloat16}[dtype]
            return memory.view(kind).view(-1, *shape)[: native.samples]
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
                batch[name] = (
                    [self._value(one, name) for one in column] if isinstance(column, list) else self._array(column)
                )
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

#: Numbers of threads are below it.
_THREADS_END = 4097


def _mix(given: Any) -> list[Part]:
    """The parts of a mix."""
    if isinstance(given, Part):
        return [given]
    parts = several(given, "path", "Parts")
    for one in parts:
        if not isinstance(one, Part):
            raise UsageError(
                f"{shown(one)} in a list of datasets: a mix is a list of Parts",
                help='[shardpack.Part("one"), shardpack.Part("two")]',
            )
    return parts


def _shuffle(shuffle: Any) -> str:
    if isinstance(shuffle, str):
        return choice(shuffle, "shuffle", ("lanes", "full", "none"))
    return "lanes" if flag(shuffle, "shuffle") else "none"


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
    if isinstance(transform, Step):
        return Pipeline([transform])
    if isinstance(transform, str):
        raise UsageError(f"transform={transform!r}: train, eval, steps of shardpack.transforms, or a Pipeline")
    if callable(transform):
        raise UsageError(
            f"transform={shown(transform)}: a function, and no steps of shardpack.transforms",
            help="sample_transform=lambda item: function(item.pil()) calls it in threads, as transforms of torchvision are called",
        )
    return Pipeline(several(transform, "transform", "steps of shardpack.transforms"))
