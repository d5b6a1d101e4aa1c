"""What limits a running loader, in words, and its counters as text for Prometheus."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from . import _native


class Advice:
    """What limits a loader, and ways to make it faster: `print(loader.explain())`.

    Attributes:
        bound: `"consumer"` if the training itself is slowest, else `"disk"`, `"network"`, `"decode"` or `"function"`.
        wait_share: Share of the time that the training waited for batches, 0 to 1.
        findings: Dicts with `what`, `command` and `gain`, an estimated factor or `None`; the greatest gain first.

    Example:
        loader = shardpack.Loader("packed", 64, transform="train")
        for images, labels in loader:
            pass
        print(loader.explain().bound in ("consumer", "disk", "decode"))  # True
    """

    __slots__ = ("_text", "bound", "findings", "wait_share")

    def __init__(self, native: _native.Stream, function_wait_ms: float | None) -> None:
        found, self._text = native.advice(function_wait_ms)
        fields = json.loads(found)
        self.bound: str = fields["bound"]
        self.wait_share: float = fields["wait_share"]
        self.findings: list[dict[str, Any]] = fields["findings"]

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Advice({self.bound}, {len(self.findings)} findings)"


def prometheus(stats: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """Counters in the text format of Prometheus, version 0.0.4."""

    def quoted(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    where = ",".join(f'{name}="{quoted(value)}"' for name, value in labels.items())
    lines = []
    for name, value in stats.items():
        if isinstance(value, (bool, int, float)):
            kind = "gauge" if name in _GAUGES else "counter"
            lines += [f"# TYPE shardpack_loader_{name} {kind}", f"shardpack_loader_{name}{{{where}}} {float(value)!r}"]
    return "\n".join([*lines, ""])


#: Values that can fall.
_GAUGES = {"samples_per_s", "peak_run_bytes", "longest_wait_ms", "pinned", "cache_held_bytes"}


def counters(text: str, bound: str, is_pinned: bool) -> dict[str, Any]:
    """`Loader.stats` from the counters of a stream."""
    stats: dict[str, Any] = json.loads(text)
    stats["bottleneck"] = bound
    stats["pinned"] = is_pinned
    stats["samples_per_s"] = stats["samples"] / max(stats["elapsed_ms"], 1e-3) * 1e3
    return stats
