"""Opens a table that `shardpack inspect --table` wrote with pyarrow and polars, and compares it with --samples --json.

Usage: table.py FILE.parquet FILE.csv SAMPLES.json
"""

import json
import sys

import polars
import pyarrow.csv
import pyarrow.parquet

TYPES = {
    "dataset": "string",
    "shard": "string",
    "number": "uint64",
    "key": "string",
    "path": "string",
    "path_hex": "string",
    "label": "int64",
    "class": "string",
    "offset": "uint64",
    "record_bytes": "uint32",
    "image_offset": "uint64",
    "image_bytes": "uint32",
    "content_hash": "string",
    "kind": "string",
    "width": "uint32",
    "height": "uint32",
    "mode": "string",
    "depth": "uint8",
}
POLARS = {
    "string": polars.String,
    "int64": polars.Int64,
    "uint8": polars.UInt8,
    "uint32": polars.UInt32,
    "uint64": polars.UInt64,
}
SHARED = ["dataset", "shard", "number", "key", "path", "label", "class", "kind", "width", "height", "mode", "depth"]


def tables(parquet: str, csv: str) -> dict[str, list[dict]]:
    """Reads both files with both libraries.

    Args:
        parquet: Path of the Parquet file.
        csv: Path of the CSV file.

    Returns:
        The rows that each reader sees, by the name of the reader.
    """
    arrow = pyarrow.parquet.read_table(parquet)
    types = {field.name: str(field.type) for field in arrow.schema}
    assert types == TYPES, types
    frame = polars.read_parquet(parquet)
    assert dict(frame.schema) == {name: POLARS[kind] for name, kind in TYPES.items()}, frame.schema
    # Readers guess the types of CSV: digits alone would be a number.
    convert = pyarrow.csv.ConvertOptions(
        column_types={name: getattr(pyarrow, kind)() for name, kind in TYPES.items()},
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    from_csv = pyarrow.csv.read_csv(csv, parse_options=parse, convert_options=convert)
    frame_csv = polars.read_csv(csv, schema={name: POLARS[kind] for name, kind in TYPES.items()})
    return {
        "pyarrow parquet": arrow.to_pylist(),
        "polars parquet": frame.to_dicts(),
        "pyarrow csv": from_csv.to_pylist(),
        "polars csv": frame_csv.to_dicts(),
    }


def main(parquet: str, csv: str, samples: str) -> None:
    """Compares all rows.

    Args:
        parquet: Path of the Parquet file.
        csv: Path of the CSV file.
        samples: Path of the output of `--samples --limit 0 --json`.

    Raises:
        AssertionError: If a reader returns other values.
    """
    with open(samples, encoding="utf-8") as file:
        expected = json.load(file)["samples"]
    seen = tables(parquet, csv)
    rows = seen["pyarrow parquet"]
    for reader, found in seen.items():
        assert len(found) == len(expected), f"{reader}: {len(found)} rows, expected {len(expected)}"
        assert found == rows, f"{reader} reads other rows than pyarrow reads from Parquet"
    for row, sample in zip(rows, expected):
        for name in SHARED:
            assert row[name] == sample[name], f"{name}: {row} is not {sample}"
        assert row["path_hex"] == sample.get("path_hex") and row["image_bytes"] == sample["bytes"], f"{row} {sample}"
        assert len(row["content_hash"]) == 32 and int(row["content_hash"], 16) >= 0, row
    print(f"{len(rows)} rows")


main(*sys.argv[1:])
