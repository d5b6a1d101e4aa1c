"""Decompresses a zstd file, or stdin, to stdout. GNU tar runs this script with `-I`, webdataset with `pipe:`."""

import shutil
import sys

import pyarrow


def main() -> None:
    # tar adds -d.
    files = [argument for argument in sys.argv[1:] if argument != "-d"]
    source = files[0] if files else pyarrow.PythonFile(sys.stdin.buffer, mode="r")
    with pyarrow.input_stream(source, compression="zstd") as stream:
        shutil.copyfileobj(stream, sys.stdout.buffer, 1 << 20)


if __name__ == "__main__":
    main()
