"""The loader and processes: pickling, forks, signals, memory over many epochs."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from conftest import loader, numbers_of


def test_a_loader_that_goes_on_is_pickled_with_the_order_of_its_state(packed: Path) -> None:
    first = loader(packed, seed=9)
    next(iter(first))
    other = loader(packed, seed=1)
    other.load_state_dict(first.state_dict())
    copy = pickle.loads(pickle.dumps(other))
    assert [numbers_of(other), numbers_of(other)] == [numbers_of(copy), numbers_of(copy)]
    first.set_epoch(1)
    copy.set_epoch(1)
    assert numbers_of(first) == numbers_of(copy)


def test_loaders_are_pickled_and_two_run_at_once(packed: Path) -> None:
    made = loader(packed)
    next(iter(made))
    other = pickle.loads(pickle.dumps(loader(packed)))
    pairs = list(zip(loader(packed), other))
    assert all(np.array_equal(one[0], two[0]) for one, two in pairs) and len(pairs) == 19


def test_many_epochs_leak_nothing(packed: Path) -> None:
    process = Path("/proc/self")

    def held() -> tuple[int, int, int]:
        gc.collect()
        rss = next(
            int(line.split()[1]) for line in (process / "status").read_text().splitlines() if line.startswith("VmRSS")
        )
        return (
            len(list((process / "fd").iterdir())),
            threading.active_count() + len(list((process / "task").iterdir())),
            rss,
        )

    made = loader(packed, range=range(48))
    for _ in range(10):
        list(made)
    before = held()
    for _ in range(100):
        list(made)
    after = held()
    assert after[0] <= before[0] and after[1] <= before[1] and after[2] < before[2] + 20_000
    made.close()
    time.sleep(0.05)
    assert len(list((process / "task").iterdir())) < before[1]


def run(script: str, *arguments: object, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


def test_the_interpreter_exits_with_a_loader_alive(packed: Path) -> None:
    script = """
import sys, shardpack
loader = shardpack.Loader(sys.argv[1], 16, transform="train", output="numpy")
batches = iter(loader)
kept = next(batches)
print(len(kept[1]))
"""
    done = run(script, packed)
    assert (done.returncode, done.stdout, done.stderr) == (0, "16\n", "")


@pytest.mark.parametrize(
    ("options", "most_s"),
    [
        # Row 1 waits in Rust: one thread needs longer than the limit for a batch. Row 2 waits until the caller's function returns.
        ("300, transform='train', threads=1", 0.5),
        ("16, sample_transform=lambda item: time.sleep(1) or 0", 1.5),
    ],
)
def test_ctrl_c_ends_a_wait_at_once(packed: Path, options: str, most_s: float) -> None:
    script = f"""
import os, signal, sys, threading, time, shardpack
loader = shardpack.Loader(sys.argv[1], {options}, output="numpy")
def interrupt():
    time.sleep(0.5)
    interrupt.at = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    while True:
        list(loader)
except KeyboardInterrupt:
    took = time.monotonic() - interrupt.at
    print("at once" if took < {most_s} else f"after {{took}} s")
"""
    done = run(script, packed)
    assert done.stdout == "at once\n", done


def test_a_fork_goes_on_with_threads_of_its_own(packed: Path) -> None:
    script = """
import os, sys, warnings, shardpack
warnings.simplefilter("ignore", DeprecationWarning)
loader = shardpack.Loader(sys.argv[1], 16, transform="train", output="numpy")
batches = iter(loader)
next(batches)
child = os.fork()
if child == 0:
    try:
        next(batches)
        print("no error")
    except shardpack.UsageError as error:
        print(len(list(loader)), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(1 + len(list(batches)))
"""
    done = run(script, packed)
    assert done.stdout == "19\n19\n", done
