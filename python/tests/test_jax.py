"""Loading with JAX: ranks of JAX processes, and JAX arrays."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import shardpack

jax = pytest.importorskip("jax")

#: Script of each of two processes: detects its rank through JAX alone and prints the samples it loaded.
RANK = """
import json, sys, jax, shardpack
address, rank, packed = sys.argv[1:]
jax.distributed.initialize(address, 2, int(rank))
loader = shardpack.Loader(packed, 16, transform="eval", output="numpy")
seen = [int(number) for batch in loader for number in batch.samples]
print(json.dumps([loader.ranks, len(loader), seen, loader.receipt().json]))
"""


def test_ranks_are_those_of_jax(packed: Path) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{one.getsockname()[1]}"
    plain = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, address, str(rank), str(packed)],
            env={**plain, "JAX_PLATFORMS": "cpu"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    told = []
    for rank in ranks:
        said, errors = rank.communicate(timeout=120)
        assert rank.returncode == 0, errors
        told.append(json.loads(said.splitlines()[-1]))
    assert [one[0] for one in told] == [[0, 2, "JAX"], [1, 2, "JAX"]] and told[0][1] == told[1][1]
    assert sorted(told[0][2] + told[1][2]) == list(range(300))
    receipts = [shardpack.Receipt(one[3]) for one in told]
    assert shardpack.Receipt.join(receipts).proves(shardpack.Loader(packed, 16, transform="eval").expected(0))


def test_arrays_of_jax_keep_the_batch_that_they_are_made_of(packed: Path) -> None:
    """On a CPU, JAX uses the memory of the batch without a copy."""
    kept = []
    for images, _ in shardpack.Loader(packed, 8, transform="eval", output="numpy"):
        kept.append((jax.device_put(images), images.copy()))
        del images
    assert all(np.array_equal(np.asarray(array), copy) for array, copy in kept)
