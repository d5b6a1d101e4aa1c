"""PyTorch: tensors, DataLoader, and training on several ranks that is killed and resumes."""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import shardpack

torch = pytest.importorskip("torch")


def test_batches_are_tensors_over_the_same_memory(packed: Path) -> None:
    batches = iter(shardpack.Loader(packed, 16, transform="train"))
    images, labels = next(batches)
    assert images.dtype == torch.uint8 and images.shape == (16, 3, 224, 224) and labels.dtype == torch.int64
    assert np.shares_memory(images.numpy(), images[3].numpy())
    kept, copy = images[5], images[5].clone()
    del images
    for _ in batches:
        pass
    assert torch.equal(kept, copy)


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("pin_memory", [False, True])
def test_pinned_and_plain_batches_are_equal(packed: Path, dtype: str, pin_memory: bool) -> None:
    transform = shardpack.transforms.imagenet_eval(32, dtype=dtype)
    plain = shardpack.Loader(packed, 16, transform=transform, output="numpy" if dtype != "bfloat16" else "torch")
    other = shardpack.Loader(packed, 16, transform=transform, pin_memory=pin_memory, output="torch")
    kept = []
    for one, two in zip(plain, other):
        assert two[0].dtype == getattr(torch, dtype) and two[0].is_pinned() == (
            pin_memory and torch.cuda.is_available()
        )
        assert torch.equal(torch.as_tensor(one[0]), two[0])
        kept.append((two[0], two[0].clone()))
    assert len(kept) == 19 and all(torch.equal(one, copy) for one, copy in kept)
    if pin_memory:
        assert other.stats()["pinned"] is torch.cuda.is_available()
    again = list(other)
    assert len(again) == 19 and len({batch[0].data_ptr() for batch in again}) == 19


def test_arrays_of_either_byte_order_become_tensors(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    for number in range(9):
        np.save(tmp_path / "tree" / f"{number}.npy", np.full((3,), number, dtype=">f4"))
    shardpack.pack(tmp_path / "tree", tmp_path / "packed", files="npy", no_labels=True)
    for batch in shardpack.Loader(tmp_path / "packed", 4, output="torch"):
        assert batch["npy"].dtype == torch.float32 and torch.equal(batch["npy"][:, 0], batch["npy"][:, 2])
        assert set(batch["npy"][:, 0].tolist()) <= set(range(9))


def numbers_of(batches) -> list[int]:
    return [int(number) for batch in batches for number in batch]


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("persistent", [False, True])
def test_workers_of_a_dataloader_share_an_epoch(packed: Path, workers: int, persistent: bool) -> None:
    from torch.utils.data import DataLoader

    from shardpack.torch import IterableDataset

    if persistent and not workers:
        pytest.skip("no workers to persist")
    dataset = IterableDataset(
        packed, 16, transform=shardpack.transforms.imagenet_eval(8), batch_transform=lambda batch: batch.samples
    )
    loader = DataLoader(dataset, batch_size=None, num_workers=workers, persistent_workers=persistent)
    epochs = [numbers_of(loader) for _ in range(3)]
    assert all(sorted(epoch) == list(range(300)) for epoch in epochs) and epochs[0] != epochs[1] != epochs[2]
    dataset.set_epoch(1)
    assert numbers_of(loader) == epochs[1]


@pytest.mark.parametrize("workers", [0, 2])
def test_payloads_go_through_the_workers_of_a_dataloader(packed: Path, workers: int) -> None:
    from torch.utils.data import DataLoader

    from shardpack.torch import IterableDataset

    seen = []
    for encoded, labels in DataLoader(IterableDataset(packed, 16), batch_size=None, num_workers=workers):
        assert len(encoded) == len(labels) and isinstance(encoded, shardpack.Encoded)
        ends = np.asarray(encoded.offsets)
        assert bytes(encoded[1]) == encoded.bytes[ends[1] : ends[2]].tobytes()
        seen += [(bytes(payload), int(label)) for payload, label in zip(encoded, labels)]
    assert sorted(seen) == sorted((sample.bytes, sample.label) for sample in shardpack.Dataset(packed))


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("persistent", [False, True])
def test_a_stateful_dataloader_goes_on_where_it_was(packed: Path, workers: int, persistent: bool) -> None:
    torchdata = pytest.importorskip("torchdata.stateful_dataloader")

    from shardpack.torch import IterableDataset

    if persistent and not workers:
        pytest.skip("no workers to persist")

    def made() -> torch.utils.data.DataLoader:
        dataset = IterableDataset(
            packed, 16, transform=shardpack.transforms.imagenet_eval(8), batch_transform=lambda batch: batch.samples
        )
        return torchdata.StatefulDataLoader(
            dataset, batch_size=None, num_workers=workers, persistent_workers=persistent, snapshot_every_n_steps=1
        )

    def of(loader) -> list[list[int]]:
        return [batch.tolist() for batch in loader]

    whole = made()
    epochs = [of(whole) for _ in range(3)]
    assert all(sorted(sum(epoch, [])) == list(range(300)) for epoch in epochs) and epochs[0] != epochs[1] != epochs[2]
    # Mid-epoch; when one worker has ended and others have not; and when all workers have ended.
    for epoch, stop in ((0, 7), (1, len(epochs[0]) - 1), (0, len(epochs[0]))):
        killed = made()
        for _ in range(epoch):
            of(killed)
        batches = iter(killed)
        seen = [next(batches).tolist() for _ in range(stop)]
        if stop == len(epochs[0]):
            assert not list(batches)
        state = pickle.loads(pickle.dumps(killed.state_dict()))
        del batches, killed
        again = made()
        again.load_state_dict(state)
        rest = of(again)
        if stop == len(epochs[0]):
            assert rest == epochs[epoch + 1]
            continue
        assert seen + rest == epochs[epoch], (epoch, stop)
        assert of(again) == epochs[epoch + 1]


def test_a_pass_takes_the_state_of_a_pass_at_any_time(packed: Path) -> None:
    from shardpack.torch import IterableDataset

    batches = iter(IterableDataset(packed, 16))
    first = [labels.tolist() for _, labels in (next(batches) for _ in range(5))]
    state = batches.state_dict()
    rest = [labels.tolist() for _, labels in batches]
    batches.load_state_dict(state)
    assert [labels.tolist() for _, labels in batches] == rest and len(first) + len(rest) == 19
    with pytest.raises(shardpack.UsageError, match="state of a worker"):
        batches.load_state_dict(shardpack.Loader(packed, 16).state_dict())


class Own(torch.utils.data.IterableDataset):
    """A caller's dataset that wraps a loader."""

    def __init__(self, packed: Path, is_late: bool, **options: object) -> None:
        self.packed, self.options = packed, options
        self.loader = None if is_late else shardpack.Loader(packed, 4, output="torch", **options)

    def __iter__(self):
        for batch in self.loader or shardpack.Loader(self.packed, 4, output="torch", **self.options):
            yield batch.samples.tolist()


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_workers_share_a_loader_in_a_dataset_of_the_callers(few: Path, is_late: bool, workers: int) -> None:
    loader = torch.utils.data.DataLoader(Own(few, is_late), batch_size=None, num_workers=workers)
    for _ in range(2):
        assert sorted(numbers_of(loader)) == list(range(17))
    if not is_late:
        # Also if the rank was detected before the workers started, and if the rank was given.
        ranks = [Own(few, False, rank=rank, world_size=2) for rank in range(2)]
        loaders = [torch.utils.data.DataLoader(one, batch_size=None, num_workers=workers) for one in ranks]
        assert {len(one.loader) for one in ranks} == {3}
        assert sorted(sum((numbers_of(one) for one in loaders), [])) == list(range(17))
    elif workers > 1:
        given = torch.utils.data.DataLoader(Own(few, True, rank=0, world_size=1), batch_size=None, num_workers=workers)
        with pytest.raises(shardpack.UsageError, match="shardpack.torch.IterableDataset"):
            list(given)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataloader_around_a_loader_or_bare_samples_says_what_to_use(few: Path, workers: int) -> None:
    for wrong, says in [
        (shardpack.Loader(few, 4), "shardpack.torch.IterableDataset is for a DataLoader"),
        (shardpack.Dataset(few), "Dataset\\(path, transform="),
    ]:
        with pytest.raises(shardpack.UsageError, match=says):
            list(torch.utils.data.DataLoader(wrong, num_workers=workers))
    samples = torch.utils.data.DataLoader(shardpack.Dataset(few), batch_size=4, num_workers=workers, collate_fn=list)
    assert [sample.number for batch in samples for sample in batch] == list(range(17))


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_a_dataset_of_batches_has_the_length_that_it_gives(few: Path, workers: int) -> None:
    from shardpack.torch import IterableDataset

    dataset = IterableDataset(few, 4, transform=shardpack.transforms.imagenet_eval(8))
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=workers)
    assert len(dataset) == 5 and len(list(loader)) == len(loader)


@pytest.mark.parametrize("workers", [0, 1])
def test_arrays_of_other_shapes_go_through_the_workers_of_a_dataloader(ragged: Path, workers: int) -> None:
    from shardpack.torch import IterableDataset

    dataset = IterableDataset(ragged, 4, components=["npy"])
    columns = [batch["npy"] for batch in torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=workers)]
    assert sorted(float(one.flatten()[0]) for column in columns for one in column) == list(range(12))
    assert any(isinstance(column, list) for column in columns)


def test_a_worker_goes_on_behind_an_error(few: Path, tmp_path: Path) -> None:
    from shardpack.torch import IterableDataset

    def fails(item: shardpack.Item) -> int:
        if item.number == 7:
            raise KeyError("mine")
        return item.number

    dataset = IterableDataset(few, 4, sample_transform=fails)
    for workers in (0, 2):
        batches = iter(torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=workers))
        seen, errors = [], 0
        while True:
            try:
                seen += next(batches)[0]
            except KeyError:
                errors += 1
            except StopIteration:
                break
        assert errors == 1 and 7 not in seen and len(seen) >= 13


def sample_number(sample: shardpack.Sample) -> int:
    return sample.number


def test_a_dataset_works_in_a_dataloader(packed: Path) -> None:
    from torch.utils.data import DataLoader

    dataset = shardpack.Dataset(packed, transform=lambda image: torch.as_tensor(np.array(image.resize((8, 8)))))
    pytest.importorskip("PIL")
    for workers in (0, 2):
        loader = DataLoader(dataset, batch_size=32, shuffle=True, num_workers=workers)
        labels = [int(label) for images, labels in loader for label in labels if images.shape[1:] == (8, 8, 3)]
        assert sorted(labels) == sorted(dataset.targets)


def test_torchvision_transforms_run_in_threads(packed: Path) -> None:
    transforms = pytest.importorskip("torchvision.transforms")
    made = transforms.Compose([transforms.Resize(40), transforms.CenterCrop(32), transforms.ToTensor()])
    loader = shardpack.Loader(packed, 16, sample_transform=lambda item: made(item.pil()))
    for images, labels in loader:
        assert images.dtype == torch.float32 and images.shape[1:] == (3, 32, 32) and len(labels) == len(images)
    assert loader.receipt().proves(loader.expected(0))


def test_states_go_through_a_checkpoint(packed: Path, tmp_path: Path) -> None:
    loader = shardpack.Loader(packed, 16, transform=shardpack.transforms.imagenet_eval(8))
    batches = iter(loader)
    seen = [int(number) for _ in range(5) for number in next(batches).samples]
    torch.save({"loader": loader.state_dict()}, tmp_path / "checkpoint.pt")
    other = shardpack.Loader(packed, 50, transform=shardpack.transforms.imagenet_eval(8))
    other.load_state_dict(torch.load(tmp_path / "checkpoint.pt")["loader"])
    seen += [int(number) for batch in other for number in batch.samples]
    assert sorted(seen) == list(range(300))
    pickle.dumps(loader.state_dict())


def test_lightning_goes_on_in_mid_epoch(packed: Path, tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning")

    class Classifier(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self, seen: list[int]) -> None:
            super().__init__()
            self.layer, self.seen = torch.nn.Linear(3 * 8 * 8, 10), seen

        def training_step(self, batch, number: int) -> torch.Tensor:
            self.seen += batch[2].tolist()
            return torch.nn.functional.cross_entropy(self.layer(batch[0].flatten(1) / 255), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def fit(checkpoint: Path | None, **options: object) -> tuple[list[int], shardpack.Loader]:
        # Lightning passes on a new tuple of the same tensors, so the batch itself carries the numbers.
        transform = shardpack.transforms.imagenet_eval(8)
        numbered = lambda batch: (*batch, torch.from_numpy(batch.samples.astype("i8")))  # noqa: E731
        loader = shardpack.Loader(packed, 16, transform=transform, batch_transform=numbered)
        seen: list[int] = []
        saving = lightning.pytorch.callbacks.ModelCheckpoint(tmp_path, filename="{step}", every_n_train_steps=7)
        trainer = lightning.Trainer(
            accelerator="cpu", logger=False, callbacks=[saving], enable_progress_bar=False, **options
        )
        trainer.fit(Classifier(seen), loader, ckpt_path=checkpoint)
        return seen, loader

    first, _ = fit(None, max_steps=7)
    second, loader = fit(next(tmp_path.glob("*.ckpt")), max_epochs=1)
    assert len(first) == 7 * 16 and sorted(first + second) == list(range(300))
    assert loader.receipt().proves(loader.expected(0))


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def start(world_size: int, packed: Path, run: Path, *more: str) -> list[subprocess.Popen[str]]:
    script = Path(__file__).resolve().parents[1] / "examples/train_resnet.py"
    port = str(free_port())
    command = [sys.executable, str(script), str(packed), str(run), *more]
    variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(world_size), "OMP_NUM_THREADS": "1"}
    return [
        subprocess.Popen(command, env={**os.environ, **variables, "RANK": str(rank)}, stderr=subprocess.PIPE, text=True)
        for rank in range(world_size)
    ]


def test_a_resnet_is_killed_in_mid_epoch_and_goes_on_with_other_ranks(packed: Path, tmp_path: Path) -> None:
    """The README example: two ranks and then three see every sample of the epoch once."""
    pytest.importorskip("torchvision")
    checkpoint = tmp_path / "checkpoint.pt"
    ranks = start(2, packed, tmp_path, "--slowly")
    deadline = time.monotonic() + 120
    while not checkpoint.exists() or torch.load(checkpoint)["batches"] < 3:
        assert time.monotonic() < deadline and all(rank.poll() is None for rank in ranks), [
            rank.stderr.read() for rank in ranks if rank.poll() is not None
        ]
        time.sleep(0.05)
    for rank in ranks:
        rank.send_signal(signal.SIGKILL)
    for rank in ranks:
        rank.communicate()
    left = torch.load(checkpoint)
    assert 3 <= left["batches"] < 19 and left["loader"]["shardpack"]["epoch"] == 0
    for rank in start(3, packed, tmp_path):
        _, said = rank.communicate(timeout=240)
        assert rank.returncode == 0, said
    told = json.loads((tmp_path / "epoch-0.json").read_text())
    assert told["ranks"] == [2, 3] and told["samples"] == 300 and told["proves"] is True
