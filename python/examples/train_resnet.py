"""Trains a ResNet-18 for an epoch on the CPU, one process a rank, and keeps a checkpoint after each batch.

    torchrun --nproc-per-node 2 train_resnet.py PACKED RUN

Killed and started again with any number of ranks, it goes on. At the end the receipts of all ranks, before and after, prove that every
sample of the epoch was seen once.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torchvision

import shardpack
from shardpack import Receipt, transforms


def main(packed: str, run: Path, slowly: bool) -> None:
    run.mkdir(exist_ok=True)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torchvision.models.resnet18(num_classes=10))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    transform = transforms.imagenet_train(32, dtype="float32")
    loader = shardpack.Loader(packed, 16, transform=transform, threads=1)
    checkpoint = run / "checkpoint.pt"
    # Receipts of the runs before this one, and how many ranks each had.
    seen, ranks, batches = [], [], 0
    if checkpoint.exists():
        kept = torch.load(checkpoint)
        model.module.load_state_dict(kept["model"])
        loader.load_state_dict(kept["loader"])
        seen, ranks, batches = kept["receipts"], kept["ranks"], kept["batches"]
    model.train()
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        batches += 1
        # What all ranks have seen in this run, beside the weights that remember it.
        receipts = [None] * dist.get_world_size()
        dist.all_gather_object(receipts, loader.receipt().json)
        if dist.get_rank() == 0:
            state = {
                "model": model.module.state_dict(),
                # Its receipt is that of one rank.
                "loader": {"shardpack": loader.state_dict()["shardpack"]},
                "receipts": seen + receipts,
                "ranks": ranks + [dist.get_world_size()],
                "batches": batches,
            }
            torch.save(state, checkpoint.with_suffix(".tmp"))
            checkpoint.with_suffix(".tmp").rename(checkpoint)
        if slowly:
            time.sleep(0.2)
    if dist.get_rank() == 0:
        kept = torch.load(checkpoint)
        receipt = Receipt.join(Receipt(json) for json in kept["receipts"])
        told = {"ranks": kept["ranks"], "samples": receipt.samples, "proves": receipt.proves(loader.expected(0))}
        (run / "epoch-0.json").write_text(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), "--slowly" in sys.argv)
