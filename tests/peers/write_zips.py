"""Writes a tree of files as zip archives: write_zips.py TREE OUT.

- `OUT/NAME.zip`: all files of the tree, as different writers store them; in `below.zip` below `photos/2024`, beside another file;
- `OUT/bad/NAME.zip`: the same with one member that cannot be read or must not be, or with damage. The member is the first `.jpg`, whose
  name and content occur nowhere else in the archive.
"""

import io
import struct
import sys
import warnings
import zipfile
import zlib
from pathlib import Path


class Stream(io.RawIOBase):
    """A pipe: it has no offsets."""

    def __init__(self, path):
        self.file = open(path, "wb")

    def writable(self):
        return True

    def write(self, data):
        return self.file.write(data)

    def close(self):
        self.file.close()
        super().close()


def write(out, files, method=zipfile.ZIP_STORED, folders=(), zip64=False):
    with zipfile.ZipFile(out, "w") as archive:
        for folder in folders:
            archive.writestr(folder + "/", b"")
        for name, content in files:
            with archive.open(info(name, method), "w", force_zip64=zip64) as member:
                member.write(content)


def info(name, method=zipfile.ZIP_STORED):
    made = zipfile.ZipInfo(name)
    made.compress_type = method
    return made


class CodePage(zipfile.ZipInfo):
    """A member whose name is in a code page, with its name in UTF-8 beside it, as Info-ZIP and 7-Zip write it."""

    def _encodeFilenameFlags(self):
        return self.filename.encode("cp850"), self.flag_bits


def code_page(out, files):
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files:
            made = CodePage(name)
            if not name.isascii():
                made.extra = unicode_name(name.encode("cp850"), name)
            archive.writestr(made, content)


def unicode_name(stored, name):
    field = struct.pack("<BI", 1, zlib.crc32(stored)) + name.encode()
    return struct.pack("<HH", 0x7075, len(field)) + field


PROGRAM = b"#!/bin/sh\nexit 0 # a program that unpacks the archive behind it\n" * 50


def behind(out, files):
    """Archives that unpack themselves: offsets from the end of the program, and from the start of the file."""
    for name in ("deflated", "zip64"):
        (out / f"behind-{name}.zip").write_bytes(PROGRAM + (out / f"{name}.zip").read_bytes())
    fixed = out / "behind-fixed.zip"
    fixed.write_bytes(PROGRAM)
    with zipfile.ZipFile(fixed, "a") as archive:
        for name, content in files:
            archive.writestr(info(name), content)


def good(out, files):
    write(out / "stored.zip", files)
    with zipfile.ZipFile(out / "deflated.zip", "w") as archive:
        for number, (name, content) in enumerate(files):
            archive.writestr(info(name, zipfile.ZIP_DEFLATED if number % 5 else zipfile.ZIP_STORED), content)
    folders = {str(parent) for name, _ in files for parent in Path(name).parents} - {"."}
    write(out / "folders.zip", files[::-1], folders=sorted(folders))
    with Stream(out / "streamed.zip") as pipe:
        write(pipe, files, zipfile.ZIP_DEFLATED)
    write(out / "below.zip", [*((f"photos/2024/{name}", content) for name, content in files), ("read.me", b"x")])
    with zipfile.ZipFile(out / "comment.zip", "w") as archive:
        archive.comment = b"many words " * 20
        for name, content in files:
            made = info(name)
            # Java marks its archives with such a field; no other writer makes one as long.
            made.extra = struct.pack("<HH", 0xCAFE, 500) + bytes(500)
            archive.writestr(made, content)
    limits = zipfile.ZIP64_LIMIT, zipfile.ZIP_FILECOUNT_LIMIT
    zipfile.ZIP64_LIMIT, zipfile.ZIP_FILECOUNT_LIMIT = 100, 2
    write(out / "zip64.zip", files, zipfile.ZIP_DEFLATED, zip64=True)
    zipfile.ZIP64_LIMIT, zipfile.ZIP_FILECOUNT_LIMIT = limits
    code_page(out / "code-page.zip", files)
    behind(out, files)


def flipped(stored, at):
    return stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :]


def bad(out, files):
    files = sorted(files, key=lambda file: not file[0].endswith(".jpg"))
    (name, content), others = files[0], files[1:]
    write(out / "data.zip", files)
    stored = (out / "data.zip").read_bytes()
    entry = stored.rindex(name.encode()) - 46
    # The flags of both headers.
    (out / "encrypted.zip").write_bytes(flipped(flipped(stored, 6), entry + 8))
    with zipfile.ZipFile(out / "method.zip", "w") as archive:
        archive.writestr(name, content, zipfile.ZIP_BZIP2)
        for other in others:
            archive.writestr(*other)
    (out / "data.zip").write_bytes(flipped(stored, stored.index(content) + len(content) // 2))
    (out / "directory.zip").write_bytes(flipped(stored, entry + 46 + len(name) - 5))
    (out / "cut.zip").write_bytes(stored[:-30])
    for kind, other in [("up", "../x.jpg"), ("absolute", "/x.jpg"), ("twice", files[-1][0])]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            write(out / f"{kind}.zip", [*files, (other, content)])
    write(out / "empty-part.zip", [*files, (name.replace("/", "//"), content)])
    with zipfile.ZipFile(out / "code-page.zip", "w") as archive:
        for other, data in (file for file in files if file[0].isascii()):
            made = CodePage(other if other != name else f"é{other}")
            # A field for another name.
            made.extra = unicode_name(b"other", "other.jpg") if other == name else b""
            archive.writestr(made, data)
    write(out / "nested.zip", [*files, (str(Path(name).parent / "inner.zip"), stored)])


def main(tree, out):
    (out / "bad").mkdir(parents=True)
    paths = sorted(path for path in tree.rglob("*") if path.is_file())
    files = [(path.relative_to(tree).as_posix(), path.read_bytes()) for path in paths]
    good(out, files)
    bad(out / "bad", files)


main(Path(sys.argv[1]), Path(sys.argv[2]))
