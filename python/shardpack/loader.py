"""The training loader: native threads make batches without the GIL or worker processes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from . import _loading, _native, distributed
from ._epoch import Epoch
from ._explained import Advice, counters, prometheus
from ._loading import Transform
from ._mapped import Mapped
from ._options import choice, flag, function, refuse, several, whole, whole_or_none
from ._outputs import Outputs
from ._sizes import in_bytes
from ._stores import Settings, Store, open_native
from .batch import NO_LABEL, Batch, NamedBatch
from .errors import UsageError
from .part import Part
from .receipt import Expected, Receipt
from .running import PathLike

__all__ = ["Loader"]


class Loader:
    """Iterable of training batches from packed datasets, in a new order each epoch.

    Each `iter()` starts the next epoch, also after a `break`; only one iterator is active at a time. Dataset, `seed`
    and epoch determine the order. All ranks get the same number of batches, without communication. Native threads read
    and decode without the GIL.

    After an exception, `next()` on the same iterator returns the following batch. A loader can be pickled, and used in
    the child after a fork.

    Args:
        path: Folder of a dataset, its URL as a string, or a list of `Part`s to mix.
        batch_size: Samples per batch and rank.
        transform: Native image transform: `"train"` (`transforms.imagenet_train()`), `"eval"`
            (`transforms.imagenet_eval()`), steps of `shardpack.transforms`, or a `Pipeline`. A list of these makes several
            views of each image from one decode, and images are a list with a batch for each view. `None`: payloads as
            stored (`Encoded`), or all components if the dataset holds no images.
        sample_transform: Function to use instead of `transform`; threads call it with an `Item`. Arrays or tensors of
            one shape are stacked, tuples and dicts element by element; other results are a list. Python functions are
            limited by the GIL.
        after: Function that threads call with each `Item` after the native transform: `item.crop` is the image. Results are
            stacked as those of `sample_transform`, and returned instead of the images.
        collate_fn: Function of the list of results of `sample_transform` or `after`, or of `Item`s without these; its result
            replaces the images.
        batch_transform: Function that is called with each batch; its result is returned instead.
        components: Names of components to add; batches become dicts. Arrays of one dtype and shape are stacked, arrays
            whose first axis differs are `Ragged`, other values are lists, with `None` for what a sample lacks.
        decode: Components that are images: `{"mask.png": "mask"}` for numbers as stored, nearest neighbours with a
            `transform`; `"image"` for RGB with the transform of the sample's image. Added to `components`.
        roles: Components that follow the crop: `"mask"`, `"image"`, `"xyxy"` (boxes), `"xy"` (points), `"per box"` (rows of
            boxes, such as labels), `"xy per box"`, or `None` to keep one as stored. Added to `components`. `boxes.npy` and
            `box_labels.npy` of `pack` have theirs.
        raw: Components that are files are bytes. Otherwise `.txt` is `str`, and `.json` is parsed.
        as_dict: Return dicts with `image` and `label` instead of tuples.
        shuffle: `"lanes"` or `True`: as good as a true shuffle, with large reads. `"full"`: one read per sample.
            `"none"` or `False`: stored order.
        seed: Seed of order, random transforms and `Item.rng`.
        bucket_by: Batches of similar length, so that little is padded: a component (items of an array, bytes of text or of a
            file, a number), a column of `where`, or `"aspect"`, width ÷ height as stored. Samples without it come first.
        bucket_batches: Batches of a window that is sorted by length: more leave less padding and need more memory. `None`:
            64, or fewer, down to 8, if `memory` is too small.
        batch_tokens: Limit for longest sample × samples of a batch, by `bucket_by`; `batch_size` is the most samples. A longer
            sample is alone. Epochs differ in `len`. A run resumes with the same number of ranks and `batch_size`.
        last: End of an epoch. `"short"`: every sample once, no empty batch. `"drop"`: full batches only. `"pad"`: first
            samples repeated, as in torch's `DistributedSampler`.
        rank: Rank of this process, from 0; `None` detects it (`distributed.find`). Workers of a torch `DataLoader`
            divide a detected rank.
        world_size: Number of ranks, together with `rank`.
        process_group: Group of torch.distributed to take the rank from.
        output: `"torch"` or `"numpy"`. `None`: torch if it is imported before the first batch, else numpy.
        pin_memory: Decode into torch's pinned memory, for asynchronous copies to a GPU; plain memory without a GPU.
            Needs `transform`.
        range: Only samples with these numbers, as `range(10, 20)` or `(10, 20)`. For this option and the next six, see
            `Part`.
        classes: Only samples of these classes, by label or name.
        samples: Only samples with these numbers.
        part: Only samples between two shares, 0 to 1, of a random order.
        part_seed: Seed of the order of `part`.
        where: Only samples for which a condition is true: `"width >= 256 and aesthetic > 5"`. It is evaluated once, in
            each rank.
        balance: Exponent of the class sizes; 0 gives all classes equal shares.
        renumber: Labels number the classes of `classes` from 0, in its order, and `loader.classes` follows. In a mix,
            all parts need `classes`; those of all parts are merged by name.
        epoch_samples: Samples per epoch for a mix with weights.
        on_bad: Bad samples are damaged, too large, undecodable, lack an array, or have invalid text or JSON.
            `"error"`: raise instead of the batch. `"skip"`: leave out. `"replace"`: use another sample of the class.
            The receipt names them.
        check_content: Compare each payload with its hash. Data from a URL is always checked.
        max_pixels: Width × height above which an image is bad. `None`: 178,956,970, as in Pillow.
        memory: Memory for data read ahead, in bytes or as `"1GiB"`. `None`: 256 MiB, or up to 2 GiB if large batches of
            small samples need more. `stats()["peak_run_bytes"]` is the memory used.
        ahead: Memory for finished batches beyond the usual four, in bytes or as text.
        threads: Threads that make batches; 0 for all cores.
        read_threads: Threads that read; at least 16 for URLs.
        lanes: Interleaved streams of the order, over all ranks. `None`: samples in a batch of all ranks, rounded up.
        epochs: Number of epochs: the next one is read ahead while this one ends, and starting a later one raises
            `UsageError`. `None`: nothing of an epoch is read before its first batch is requested.
        progress: Show a tqdm bar per epoch.
        store: Object store settings for URLs, as in `Dataset`. In a mix, for each URL whose `Part` has none. Pickles
            contain them, `state_dict` does not.
        cache_dir: Local folder that keeps downloaded data of URLs for later epochs and runs. Processes can share it,
            and be killed at any time. `None`: no cache.
        cache_bytes: Limit of the cache for all processes together, in bytes or as `"100GiB"`; never exceeded. Data
            without room is read but not kept. Required with `cache_dir`.

    Yields:
        `Batch`, a tuple, or `NamedBatch`, a dict. Images: `[B, 3, H, W] uint8`, RGB, or layout and dtype of the
        `Pipeline`. Labels: `[B] int64`, `NO_LABEL` if missing; `[B, classes] float32` with `MixUp` or `CutMix`.

    Raises:
        UsageError: If an option is invalid, a dataset or component is missing, `memory` is too small, or an epoch has
            no batch.
        DataError: If manifest or indexes are damaged; while iterating, if a sample is bad and `on_bad` is `"error"`,
            or all samples of an epoch are bad.
        MachineError: If files or a server cannot be read.

    Example:
        loader = shardpack.Loader("packed", 64, transform="train", seed=1)
        for epoch in range(2):
            for images, labels in loader:
                pass  # images: [B, 3, 224, 224] uint8, labels: [B] int64
        print(loader.receipt().proves(loader.expected(1)))  # True
    """

    def __init__(
        self,
        path: PathLike | Part | Sequence[Part],
        batch_size: int = 64,
        *,
        transform: Transform | None = None,
        sample_transform: Callable[[Any], Any] | None = None,
        after: Callable[[Any], Any] | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        batch_transform: Callable[[Any], Any] | None = None,
        components: Sequence[str] = (),
        decode: Mapping[str, str] | None = None,
        roles: Mapping[str, str | None] | None = None,
        raw: bool = False,
        as_dict: bool = False,
        shuffle: bool | str = True,
        bucket_by: str | None = None,
        bucket_batches: int | None = None,
        batch_tokens: int | None = None,
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
        where: str | None = None,
        balance: float | None = None,
        renumber: bool = False,
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
        selects = {"range": range, "classes": classes, "samples": samples, "part": part, "where": where}
        chosen = {**selects, "balance": balance}
        parts = _loading.parts(path, part_seed, chosen)
        if output is not None:
            choice(output, "output", ("torch", "numpy"))
        pipelines, has_views = _loading.views(transform)
        _loading.check_functions(transform, sample_transform, after)
        if flag(pin_memory, "pin_memory") and (transform is None or output == "numpy"):
            raise UsageError("pin_memory is for images that a native transform makes, as torch tensors")
        mixed_classes = _loading.mixed_classes(pipelines, after, collate_fn)
        bucket = _loading.bucket(bucket_by, bucket_batches, batch_tokens)
        stores = _loading.stores_of(parts, Settings.of(store), Settings().with_cache(cache_dir, cache_bytes))
        opened = [open_native(one.path, store=settings) for one, settings in zip(parts, stores)]
        #: Datasets until the engine takes them, so that manifests are read once.
        self._opened: list[_native.Dataset] = opened
        holds_images = all(one.holds_images for one in opened)
        is_by_sample = sample_transform is not None or collate_fn is not None
        if transform is None and not is_by_sample and not components and not holds_images:
            # The component cls is the label, which is in every batch.
            components = [name for name in opened[0].components if name != "cls"]
        found_roles = _loading.roles(roles, decode, opened[0].components, flag(raw, "raw"))
        self._components = [str(name) for name in several(components, "components", "names")]
        self._components += [name for name in found_roles if name not in self._components and not raw]
        if found_roles and not raw and sample_transform is not None:
            raise UsageError(
                "roles and decode are of a native transform: sample_transform has the components of its item"
            )
        self._wants_payload = transform is None and (holds_images or is_by_sample)
        self._request: dict[str, Any] = {
            "parts": [one._request(found.classes, settings) for one, found, settings in zip(parts, opened, stores)],
            "weights": _loading.weights(parts, epoch_samples),
            "batch": whole(batch_size, "batch_size", 1),
            "seed": whole(seed, "seed"),
            "shuffle": _loading.shuffle(shuffle),
            "lanes": whole_or_none(lanes, "lanes", 1),
            "bucket": bucket,
            "last": choice(last, "last", ("short", "drop", "pad")),
            "views": [one._request for one in pipelines],
            "payload": self._wants_payload,
            "renumber": flag(renumber, "renumber"),
            "components": self._components,
            "roles": {name: role for name, role in found_roles.items() if name in self._components},
            "mixed_classes": mixed_classes or 0,
            "on_bad": choice(on_bad, "on_bad", ("error", "skip", "replace")),
            "check_content": flag(check_content, "check_content"),
            "raw": raw,
            "max_pixels": whole_or_none(max_pixels, "max_pixels", 1),
            "memory_bytes": None if memory is None else in_bytes(memory, "memory"),
            "ahead_bytes": in_bytes(ahead, "ahead"),
            "read_threads": whole(read_threads, "read_threads", 1, _THREADS_END),
            "threads": whole(threads, "threads", 0, _THREADS_END),
            "epochs": whole_or_none(epochs, "epochs"),
        }
        self._ranks_wanted = rank, world_size, process_group
        _loading.check_ranks(rank, world_size, self._divides)
        self._as_dict = flag(as_dict, "as_dict") or bool(self._components)
        self._pin_memory = pin_memory
        call = function(sample_transform, "sample_transform") or function(after, "after")
        collate = function(collate_fn, "collate_fn")
        threads = self._request["threads"] or os.cpu_count() or 1
        self._mapped = Mapped(call, threads, collate) if call or collate else None
        self._batch_transform = function(batch_transform, "batch_transform")
        self._progress = flag(progress, "progress")
        self._paths = [os.fspath(one.path) for one in parts]
        self._forget()
        # Invalid options fail now. Ranks are detected later: one rank of one serves for the check, and is often right.
        self._alone: _native.Engine | None = self._engine_of(distributed.Ranks(0, 1, ""))
        self._classes = self._alone.classes
        #: Roles of components, also those that the dataset declares.
        self._roles: dict[str, str] = dict(self._alone.roles)
        self._outputs = Outputs("torch" if pin_memory else output, pipelines, has_views, self._alone.slots())
        self._selects = any(one._selects for one in parts)
        self._samples = self._alone.samples_of_epoch()

    #: Whether DataLoader workers divide the rank; `shardpack.torch` divides before.
    _divides = True

    def _forget(self) -> None:
        self._ranks: distributed.Ranks | None = None
        #: DataLoader worker for which the engine was made.
        self._worker: distributed.Worker | None = None
        self._made: _native.Engine | None = None
        #: Engine, epoch and number of its batches that were counted last.
        self._counted: tuple[_native.Engine, int, int] | None = None
        #: Engine whose samples the next one takes over, so that `where` is evaluated once.
        self._chosen: _native.Engine | None = None
        self._stream: _native.Stream | None = None
        #: Pinned tensors in which the stream makes batches, by address.
        self._lent: dict[int, Any] = {}
        self._next_epoch = 0
        #: State to start from, instead of the start of an epoch.
        self._resume: str | None = None
        self._state: str | None = None
        #: State that determines the order, if not the options.
        self._order: str | None = None
        #: Receipt of the stream, if the stream is closed or its own is not that of the state.
        self._receipt: str | None = None
        #: Receipt of the part of an epoch before the state that was loaded.
        self._before: Receipt | None = None
        self._is_under_way = self._is_pinned = False
        self._process = os.getpid()

    # Properties and methods that read no data.

    @property
    def ranks(self) -> distributed.Ranks:
        """Rank of this process and its source, detected by the first batch, `len`, or this property."""
        if self._ranks is None:
            self._ranks = distributed.find(*self._ranks_wanted)
        worker = distributed.worker() if self._divides else None
        if worker != self._worker:
            self._worker, self._made = worker, None
        # Otherwise each worker would yield every sample.
        return self._ranks if worker is None else self._ranks.of(worker)

    def _engine_of(self, ranks: distributed.Ranks, order: str | None = None) -> _native.Engine:
        request = {**self._request, "rank": ranks.rank, "world": ranks.world_size}
        self._chosen = _native.Engine(json.dumps(request), order, self._opened, self._chosen)
        return self._chosen

    def _engine(self) -> _native.Engine:
        ranks = self.ranks
        if self._made is None:
            is_alone = ranks[:2] == (0, 1) and self._order is None
            self._made = (self._alone if is_alone else None) or self._engine_of(ranks, self._order)
            self._alone, self._opened = None, []
        return self._made

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch, even after `load_state_dict` within one.

        With `batch_tokens`, of the epoch that has begun, or else of the next one, in a microsecond a sample.
        """
        return self._batches_of(self._next_epoch - self._is_under_way)

    def _batches_of(self, epoch: int) -> int:
        engine = self._engine()
        if self._counted is None or self._counted[:2] != (engine, epoch):
            self._counted = engine, epoch, engine.batches_of_epoch(epoch)
        return self._counted[2]

    @property
    def batches_left(self) -> int:
        """Batches of the next `iter()`: fewer than `len()` after `load_state_dict` within an epoch."""
        if self._resume is None:
            return self._batches_of(self._next_epoch)
        return self._engine().batches_left(self._resume)

    @property
    def samples_of_epoch(self) -> int:
        """Samples per epoch, over all ranks."""
        return self._samples

    @property
    def epoch(self) -> int:
        """Number of the epoch that `iter()` starts next, from 0."""
        return self._next_epoch

    @property
    def classes(self) -> list[str]:
        """Class names in the order of the labels in batches; for a mix, the classes of all its datasets."""
        return list(self._classes)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch that `iter()` starts next.

        If it is the epoch of a loaded state, that state is kept and resumes mid-epoch.

        Args:
            epoch: Number of the epoch, from 0.
        """
        epoch = whole(epoch, "epoch")
        if epoch != self._next_epoch:
            self._next_epoch, self._resume, self._state, self._before = epoch, None, None, None
            self._close()

    def expected(self, epoch: int) -> Expected:
        """Compute count and checksum of an epoch, for `Receipt.proves`.

        Args:
            epoch: Number of the epoch, from 0.

        Returns:
            The expected values.
        """
        samples, identities = self._engine().expected(whole(epoch, "epoch"))
        return Expected(samples, identities, int(epoch))

    def __repr__(self) -> str:
        ranks = "rank not known yet" if self._ranks is None else "rank {} of {} by {}".format(*self.ranks)
        samples = f", samples={self._samples}" if self._selects else ""
        return f"Loader({', '.join(map(repr, self._paths))}{samples}, batch_size={self._request['batch']}, epoch={self._next_epoch}, {ranks})"

    # Resuming.

    def state_dict(self) -> dict[str, Any]:
        """Return the state right after the last batch that you received.

        Returns:
            A dict of plain values, fit for JSON or `torch.save`. Any number of ranks can resume from it; with
            `batch_tokens`, as many as before. `shardpack` is the same in all ranks. `receipt`, within an epoch, is the
            rank and its receipt so far.
        """
        state = json.loads(self._state or self._resume or self._engine().start_of(self._next_epoch))
        receipt = self._receipt_so_far()
        if receipt is None or state["position"] == 0 or receipt.epoch != state["epoch"]:
            return {"shardpack": state}
        return {"shardpack": state, "receipt": {"rank": self.ranks.rank, **json.loads(receipt.json)}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a state: the next `iter()` yields the rest of its epoch.

        Earlier samples are not read. Seed, shuffle, lanes and `bucket_batches` are those of the state. A receipt in the state is
        continued by the rank of this number, so that the ranks together prove the whole epoch. If all ranks load the
        state of one, `Receipt.of_state` has the receipts of the others.

        Args:
            state: Result of `state_dict`, from a run with any number of ranks.

        Raises:
            UsageError: If `state` is from another dataset, or not from a `Loader`.
            DataError: If the content of `state` is invalid.
        """
        if not isinstance(state, Mapping) or "shardpack" not in state:
            raise UsageError("no state of a loader: it lacks 'shardpack'")
        text = json.dumps(state["shardpack"])
        before = Receipt.of_state(state)
        engine = self._engine_of(self.ranks, text)
        self._close()
        self._made, self._order = engine, text
        epoch = int(state["shardpack"]["epoch"])
        if engine.batches_left(text) == 0:
            epoch, text = epoch + 1, engine.start_of(epoch + 1)
        self._next_epoch, self._resume, self._state, self._receipt = epoch, text, None, None
        is_own = before is not None and before.epoch == epoch and state["receipt"].get("rank") == self.ranks.rank
        self._before = before if is_own else None

    # Reading.

    def _close(self) -> None:
        stream, self._stream, self._is_under_way = self._stream, None, False
        self._lent = {}
        if stream is not None and self._process == os.getpid():
            stream.close()

    def close(self) -> None:
        """Stop the threads.

        Batches and receipt stay valid; the next `iter()` starts new threads.
        """
        if self._stream is not None and self._process == os.getpid():
            self._receipt = self._own_receipt()
        self._close()

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state.update(
            _stream=None,
            _made=None,
            _alone=None,
            _chosen=None,
            _counted=None,
            _opened=[],
            _lent={},
            _is_under_way=False,
        )
        return state

    def _begin(self) -> _native.Stream:
        if self._process != os.getpid():
            # The threads belong to the parent of this fork.
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
        """Start the epoch that `iter()` yields next."""
        epochs = self._request["epochs"]
        if epochs is not None and self._next_epoch >= epochs:
            raise UsageError(f"epoch {self._next_epoch} of a loader with epochs={epochs}", help="they count from 0")
        stream = self._begin()
        if self._resume is None:
            self._before = None
        # Until the first batch, the state is the start of this epoch.
        self._state = self._resume or self._engine().start_of(self._next_epoch)
        self._next_epoch, self._resume, self._receipt = self._next_epoch + 1, None, None
        self._is_under_way = True
        return stream

    def __iter__(self) -> Iterator[Any]:
        """Start the next epoch, or resume the loaded state, with the first `next()`."""
        return Epoch(self)

    def __getitem__(self, number: object) -> NoReturn:
        # Called by a DataLoader that takes this for a dataset.
        raise UsageError(
            "a Loader makes batches by itself, and has none by number",
            help="for batch in loader; shardpack.torch.IterableDataset is for a DataLoader, shardpack.Dataset has samples by number",
        )

    def _pinned(self, engine: _native.Engine) -> Any:
        import torch

        # Without a GPU nothing can be pinned; torch's DataLoader uses plain memory too. `stats()` has `pinned`.
        self._is_pinned = torch.cuda.is_available()
        return torch.empty(engine.batch_bytes(), dtype=torch.uint8, pin_memory=self._is_pinned)

    def _content(self, native: _native.Batch, memory: Any) -> Any:
        return self._outputs.content(native, memory, [] if memory is None else self._engine().slots())

    def _batch(self, native: _native.Batch, content: Any) -> Any:
        labels = self._outputs.array(native.labels)
        batch: Batch | NamedBatch
        if self._as_dict:
            batch = NamedBatch()
            if content is not None:
                batch["image"] = content
            if self._classes or not self._components or bool((labels != NO_LABEL).any()):
                batch["label"] = labels
            batch.update(self._outputs.columns(native.columns, self._roles))
            columns = [batch[name] for name, role in self._roles.items() if role not in _loading.DECODED]
            moved = [view for one in columns for view in one] if self._outputs.has_views else columns
        else:
            batch, moved = Batch((content, labels)), []
        batch._tell(native, self._classes, self._outputs.cropped(native, moved))
        return batch if self._batch_transform is None else self._batch_transform(batch)

    # Receipts and statistics.

    def receipt(self) -> Receipt:
        """Return the samples handed out in the current epoch, or in the last one after its end.

        The receipt begins with the epoch. It begins where the epoch was resumed, if the state has no receipt of this
        rank.

        Returns:
            The receipt of this rank.

        Raises:
            UsageError: Before the first batch.
        """
        receipt = self._receipt_so_far()
        if receipt is None:
            raise UsageError("no batch has been requested yet")
        return receipt

    def _own_receipt(self) -> str | None:
        """The receipt since the stream began, if it has."""
        # After a fork, the stream belongs to the parent.
        if self._receipt is not None or self._stream is None or self._process != os.getpid():
            return self._receipt
        return self._stream.receipt()

    def _receipt_so_far(self) -> Receipt | None:
        own, before = self._own_receipt(), self._before
        if own is None:
            return before
        receipt = Receipt(own)
        return receipt if before is None or before.epoch != receipt.epoch else before + receipt

    def explain(self) -> Advice:
        """Say what limits this loader, and what makes it faster; call it some seconds after the first batch.

        Returns:
            The bound and findings with commands; `str` has them in words.

        Raises:
            UsageError: Before the first batch.
        """
        if self._stream is None:
            raise UsageError("no batch has been requested yet")
        return Advice(self._stream, None if self._mapped is None else self._mapped.wait_ms)

    def prometheus(self) -> str:
        """Return the counters of `stats` in the text format of Prometheus, for the metrics page of a program.

        Returns:
            Lines with `shardpack_loader_…`, labelled with dataset and rank.

        Raises:
            UsageError: Before the first batch.
        """
        return prometheus(self.stats(), {"dataset": ",".join(self._paths), "rank": str(self.ranks.rank)})

    def stats(self) -> dict[str, Any]:
        """Return counters and times since the threads started.

        Returns:
            A dict. `bottleneck` is the `bound` of `explain`.
            `samples_per_s` is the rate; times end in `_ms`, sizes in `_bytes`. `pinned` is true if batches are in
            pinned memory. URLs add `requests`, `received_bytes`, `requests_again` (retries) and `throttled`. A cache
            adds `cache_…`: reads, and bytes read, added, evicted, or left out for lack of room.

        Raises:
            UsageError: Before the first batch.
        """
        if self._stream is None:
            raise UsageError("no batch has been requested yet")
        return counters(self._stream.stats(), self.explain().bound, self._is_pinned)


#: Batches in torch's memory at a time: as many as in the loader's own.
_AHEAD = 4

#: Numbers of threads are below this.
_THREADS_END = 4097
