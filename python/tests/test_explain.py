"""What limits a loader, in words, on runs that are each bound by one thing."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import shardpack
from shardpack.transforms import RandomResizedCrop


def large(folder: Path) -> Path:
    """12 photographs of 6 megapixels, without crop tables."""
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (2000, 3000, 3), np.uint8)
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "jpeg", quality=60)
    (folder / "photos/one").mkdir(parents=True)
    for number in range(12):
        (folder / "photos/one" / f"{number}.jpg").write_bytes(content.getvalue() + bytes([number]))
    assert shardpack.pack(folder / "photos", folder / "packed").ok
    return folder / "packed"


def test_a_loop_without_work_is_bound_by_decoding(tmp_path: Path) -> None:
    loader = shardpack.Loader(large(tmp_path), 3, transform=[RandomResizedCrop(224)], threads=1, output="numpy")
    with pytest.raises(shardpack.UsageError, match="no batch"):
        loader.explain()
    for _ in loader:
        pass
    advice = loader.explain()
    assert advice.bound == "decode" and advice.wait_share > 0.3
    gains = {finding["command"]: finding["gain"] for finding in advice.findings}
    resize = next(command for command in gains if "--resize 512" in command)
    assert gains[resize] > 4
    assert any("shardpack crops" in command for command in gains)
    assert "bound by decoding" in str(advice) and "6.0 megapixels" in str(advice)


def test_a_slow_loop_is_bound_by_itself(packed: Path) -> None:
    loader = shardpack.Loader(packed, 100, transform=[RandomResizedCrop(32)], output="numpy")
    for _ in loader:
        time.sleep(1)
    advice = loader.explain()
    # A busy machine may decode for longer than the loop sleeps.
    assert (advice.bound == "consumer") == (advice.wait_share <= 0.05)
    assert ("fast enough" in str(advice)) == (advice.bound == "consumer")


def test_a_slow_function_is_the_bound(few: Path) -> None:
    loader = shardpack.Loader(few, 4, sample_transform=lambda item: time.sleep(0.05) or item.number, threads=1)
    for _ in loader:
        pass
    advice = loader.explain()
    assert advice.bound == "function" and any("GIL" in finding["what"] for finding in advice.findings)


def test_counters_are_text_for_prometheus(few: Path) -> None:
    loader = shardpack.Loader(few, 4, transform="eval", output="numpy", epochs=1)
    seen = sum(len(labels) for _, labels in loader)
    text = loader.prometheus()
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    name = f'shardpack_loader_samples{{dataset="{few}",rank="0"}}'
    assert float(lines[name]) == seen
    for line in text.splitlines():
        assert re.fullmatch(r'# TYPE \w+ (counter|gauge)|\w+\{dataset=".*",rank="0"\} [0-9.e+-]+', line), line
