"""Make small tar files as several writers would: seeds of the fuzz target `tar`. `cargo xtask fuzz` runs it.

    python fuzz/make_seeds.py FOLDER
"""

import io
import sys
import tarfile
from pathlib import Path

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
NAMES = ["a.jpg", "a.cls", "d.e/b.v1.jpg", "__meta__/x", "noext", "._c.jpg", "p/" * 60 + "q.jpg"]


def archive(format: int) -> bytes:
    """Bytes of a tar file that holds each name, and one member of each kind."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=format) as tar:
        for number, name in enumerate(NAMES):
            member = tarfile.TarInfo(name)
            member.size = 7 * number
            tar.addfile(member, io.BytesIO(bytes(member.size)))
        for kind in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE):
            member = tarfile.TarInfo(f"kind-{kind.decode()}")
            member.type = kind
            member.linkname = "a.jpg"
            tar.addfile(member)
        if format == tarfile.PAX_FORMAT:
            member = tarfile.TarInfo("float-time.jpg")
            member.mtime = 1.5
            member.pax_headers = {"comment": "a\nb"}
            tar.addfile(member)
        if format == tarfile.GNU_FORMAT:
            member = tarfile.TarInfo("base-256.jpg")
            member.uid = 1 << 40
            tar.addfile(member)
    return file.getvalue()


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, format in FORMATS.items():
        # Records of 10 KiB are mostly zeros: two blocks of them do.
        content = archive(format).rstrip(b"\0")
        content += bytes(-len(content) % 512 + 1024)
        (folder / f"{name}.tar").write_bytes(content)


if __name__ == "__main__":
    main()
