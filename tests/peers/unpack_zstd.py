"""Decompresses every compressed shard in a folder as its readers do, and checks the content.

    unpack_zstd.py HOW FOLDER

HOW is `zstd`, the package that mosaicml-streaming uses for whole files, or `zstandard`, as a stream over all frames.
Compares length and SHA-1 with index.json, and counts the members of tars. Prints the number of samples.
"""

import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path


def unpack(how: str, packed: bytes) -> bytes:
    """The decompressed bytes."""
    if how == "zstd":
        import zstd

        return zstd.decompress(packed)
    import zstandard

    return zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True).read()


def main() -> None:
    how, folder, samples = sys.argv[1], Path(sys.argv[2]), 0
    if (folder / "index.json").exists():
        for shard in json.loads((folder / "index.json").read_text())["shards"]:
            raw = shard["raw_data"]
            content = unpack(how, (folder / shard["zip_data"]["basename"]).read_bytes())
            found = (len(content), hashlib.sha1(content).hexdigest())
            if found != (raw["bytes"], raw["hashes"]["sha1"]):
                sys.exit(f"{raw['basename']}: {found}, expected {raw}")
            samples += shard["samples"]
    for path in sorted(folder.glob("*.tar.zst")):
        with tarfile.open(fileobj=io.BytesIO(unpack(how, path.read_bytes()))) as archive:
            samples += sum(name.endswith(".cls") for name in archive.getnames())
    print(samples)


main()
