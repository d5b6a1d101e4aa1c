"""Little memory: an error names the image that needs more, and the process continues."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from test_roles import COLUMNS as SCENE_COLUMNS
from test_roles import rows as scene_rows

import shardpack
from conftest import make_tree

#: Script that may map 256 MiB more than with its modules, less than one large image needs.
LIMITED = """
import resource, sys
import numpy
import shardpack

pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (256 << 20),) * 2)
options = dict(batch_size=4, threads=4, memory=64 << 20, seed=0, on_bad=sys.argv[2])
labels = []
try:
    for batch in shardpack.Loader(sys.argv[1], transform=shardpack.transforms.RandomResizedCrop(32), **options):
        labels += batch[1].tolist()
except shardpack.DataError as error:
    print("refused", error)
print("samples", len(labels))
"""


def png(side: int) -> bytes:
    """A black PNG of `side` × `side` pixels."""

    def chunk(name: bytes, held: bytes) -> bytes:
        return struct.pack(">I", len(held)) + name + held + struct.pack(">I", zlib.crc32(name + held))

    rows = zlib.compressobj()
    row = bytes(1 + 3 * side)
    packed = b"".join(rows.compress(row) for _ in range(side)) + rows.flush()
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def test_an_image_for_which_the_system_has_no_memory_is_named_and_ends_no_process(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", 20, 2)
    large = png(6000)
    for number in range(4):
        (tree / "class00" / f"large{number}.png").write_bytes(large)
    assert shardpack.pack(tree, tmp_path / "packed").ok

    def loaded(on_bad: str) -> str:
        words = [sys.executable, "-c", LIMITED, str(tmp_path / "packed"), on_bad]
        # glibc reserves 64 MiB of address space for each thread that allocates.
        environment = {**os.environ, "MALLOC_ARENA_MAX": "1"}
        ran = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, env=environment)
        assert ran.returncode == 0, (ran.returncode, ran.stderr)
        return ran.stdout

    assert "samples 20" in loaded("skip")
    refused = loaded("error")
    assert "class00/large" in refused and "which the system does not give" in refused


def test_each_command_of_a_process_has_its_own_memory(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", 4, 2)
    (tree / "class00" / "large.png").write_bytes(png(2500))
    with pytest.raises(shardpack.UsageError, match="large.png: it takes .* of memory, --memory allows 16.0 MiB"):
        shardpack.pack(tree, tmp_path / "packed", check="full", memory="16MiB")
    assert shardpack.pack(tree, tmp_path / "packed", check="full", memory="256MiB").ok


#: Script that prints the growth of its memory in MiB from epoch 15 to epoch 50: a leak of a batch in each would be 41.
EPOCHS = """
import os, sys
import numpy
import shardpack
from shardpack.transforms import Pipeline, RandomHorizontalFlip, RandomResizedCrop

steps = [RandomResizedCrop(160), RandomHorizontalFlip()]
small = Pipeline([RandomResizedCrop(64)], dtype="float32")
joint = {"transform": steps, "decode": {"mask": "mask", "second": "image"}, "components": ["boxes.npy", "box_labels.npy"]}
loaders = [
    shardpack.Loader(sys.argv[1], 32, threads=2, output="numpy", on_bad="skip", **joint, roles={"keypoints": "xy per box"}),
    shardpack.Loader(sys.argv[1], 32, threads=2, output="numpy", transform=[Pipeline(steps), small, small]),
    shardpack.Loader(sys.argv[1], 32, threads=2, output="numpy", transform=steps, after=lambda item: item.crop.mean()),
    shardpack.Loader(sys.argv[1], 32, threads=2, output="numpy", collate_fn=lambda items: [len(item.bytes) for item in items]),
]
for epoch in range(50):
    for loader in loaders:
        for batch in loader:
            assert len(batch.samples) == 16
        loader.stats(), loader.receipt(), loader.state_dict(), loader.explain()
    if epoch in (14, 49):
        pages = int(open("/proc/self/statm").read().split()[1])
        print(pages * os.sysconf("SC_PAGE_SIZE") >> 20)
"""


def test_memory_is_flat_over_fifty_epochs(tmp_path: Path) -> None:
    shardpack.pack(scene_rows(16), tmp_path / "packed", columns=SCENE_COLUMNS)
    environment = {**os.environ, "MALLOC_ARENA_MAX": "2"}
    words = [sys.executable, "-c", EPOCHS, str(tmp_path / "packed")]
    ran = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert ran.returncode == 0, ran.stderr
    early, late = map(int, ran.stdout.split())
    assert late - early < 20, ran.stdout
