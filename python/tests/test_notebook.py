"""Notebook kernels: pictures, progress, and an interrupt that leaves the kernel alive."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

jupyter_client = pytest.importorskip("jupyter_client")
pytest.importorskip("ipykernel")


class Kernel:
    """A kernel that runs cells and collects their output."""

    def __init__(self) -> None:
        self.manager, self.client = jupyter_client.manager.start_new_kernel(kernel_name="python3", startup_timeout=120)

    def begin(self, code: str) -> str:
        return str(self.client.execute(code))

    def end(self, cell: str) -> tuple[str, list[dict[str, Any]]]:
        """Status of a cell, and its output: text, and data by type."""
        shown: list[dict[str, Any]] = []
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") != cell:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                break
            if kind == "stream":
                shown.append({"text/plain": content["text"]})
            if kind in ("execute_result", "display_data"):
                shown.append(content["data"])
            if kind == "error":
                shown.append({"error": content["ename"], "text/plain": content["evalue"]})
        reply = self.client.get_shell_msg(timeout=60)
        while reply["parent_header"].get("msg_id") != cell:
            reply = self.client.get_shell_msg(timeout=60)
        return str(reply["content"]["status"]), shown

    def run(self, code: str) -> list[dict[str, Any]]:
        status, shown = self.end(self.begin(code))
        assert status == "ok", shown
        return shown


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    made = Kernel()
    yield made
    made.client.stop_channels()
    made.manager.shutdown_kernel(now=True)


def test_a_dataset_and_a_batch_are_pictures(kernel: Kernel, packed: Path) -> None:
    kernel.run(f"import shardpack\nloader = shardpack.Loader({str(packed)!r}, 8, transform='eval', output='numpy')")
    for cell in [f"shardpack.Dataset({str(packed)!r})", "next(iter(loader))", "next(iter(loader))[0].shape"]:
        shown = kernel.run(cell)[-1]
        assert ("text/html" in shown) == ("shape" not in cell)
        assert "text/html" not in shown or shown["text/html"].count("<img ") >= 8


def test_packing_shows_a_bar_and_its_report(kernel: Kernel, tree: Path, tmp_path: Path) -> None:
    shown = kernel.run(f"report = shardpack.pack({str(tree)!r}, {str(tmp_path / 'packed')!r})\nreport.ok")
    assert shown[-1]["text/plain"] == "True"
    bars = [one["text/plain"] for one in shown if "packing: " in one.get("text/plain", "")]
    assert bars and "100%" in bars[-1], shown


@pytest.mark.parametrize(
    "cell",
    [
        "for _ in range(10**6):\n    for images, labels in loader: pass",
        "while True: shardpack.verify({packed!r}, progress=False)",
    ],
)
def test_an_interrupt_ends_the_cell_and_not_the_kernel(kernel: Kernel, packed: Path, cell: str) -> None:
    begun = kernel.begin(cell.replace("{packed!r}", repr(str(packed))))
    time.sleep(1.0)
    kernel.manager.interrupt_kernel()
    status, shown = kernel.end(begun)
    assert status == "error" and shown[-1]["error"] == "KeyboardInterrupt", shown
    assert kernel.run("next(iter(loader))[0].shape")[-1]["text/plain"] == "(8, 3, 224, 224)"
