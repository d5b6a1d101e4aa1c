"""Audio with transcripts: packs sound files as they are, and decodes them in the training loop.

    python audio.py LJSpeech-1.1 packed

`metadata.csv` has lines `LJ001-0001|text|normalized text`, and `wavs/LJ001-0001.wav` is the sound.
"""

import io
import sys
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import shardpack


def rows(folder: str) -> Iterator[dict[str, Any]]:
    """One dict for each line of the list."""
    for line in Path(folder, "metadata.csv").read_text("utf-8").splitlines():
        name, _, text = line.split("|")
        yield {"audio": Path(folder, "wavs", f"{name}.wav").read_bytes(), "text": text, "name": name}


def samples(content: bytes) -> tuple[Any, int]:
    """The samples of a sound in 16 bits, from -1 to 1, and their rate."""
    with wave.open(io.BytesIO(content)) as sound:
        values = np.frombuffer(sound.readframes(sound.getnframes()), "<i2")
        return values.astype(np.float32) / 32768, sound.getframerate()


def main(folder: str, dst: str) -> None:
    shardpack.pack(rows(folder), dst, columns={"audio": ".wav"})
    loader = shardpack.Loader(dst, 16, components=["audio.wav", "text.txt"])
    seconds = 0.0
    for batch in loader:
        for content, text in zip(batch["audio.wav"], batch["text.txt"]):
            sound, rate = samples(content)
            # Train here.
            assert text
            seconds += len(sound) / rate
    print(f"{loader.samples_of_epoch} sounds, {seconds:.1f} seconds")


if __name__ == "__main__":
    main(*sys.argv[1:])
