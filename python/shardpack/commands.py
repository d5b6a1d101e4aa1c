"""The commands of the program `shardpack` as functions, with the same options in Python's spelling.

Written by make_commands.py from the program's own description of its options; docs/reference/cli.md has them at length.

All of them take `progress`: `True` for a bar of tqdm (the default in notebooks), or a function that is called with a
`Progress`. They return a `Report` with the fields of `--json`, and raise the exceptions of `shardpack.errors`. Ctrl-C stops
them cleanly, and the same call resumes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from . import _rows
from ._rows import Rows
from .running import PathLike, Progress, Report, Values, run

Check = Literal["header", "entropy", "full"]
Cls = Literal["label", "none"]
Dedup = Literal["exact"]
Encode = Literal["jpeg", "webp", "png"]
Format = Literal["webdataset", "tfrecord", "recordio", "mds"]
From = Literal[
    "webdataset",
    "tfrecord",
    "recordio",
    "mds",
    "parquet",
    "arrow",
    "lmdb",
    "hdf5",
    "numpy",
    "mnist",
    "cifar",
    "pickled",
    "litdata",
    "beton",
    "lmdb:image",
    "lmdb:pickle",
    "lmdb:msgpack",
    "lmdb:pyarrow",
    "lmdb:datum",
    "lmdb:lsun",
    "lmdb:ocr",
    "lmdb:basicsr",
    "lmdb:folder2lmdb",
    "lmdb:tensorpack",
    "hdf5:file",
]
Group = Literal["stem"]
Meta = Literal["none", "json"]
OnBad = Literal["error", "skip"]
OnMissing = Literal["error", "skip", "empty"]
Order = Literal["shuffled", "source"]
ReadOrder = Literal["auto", "plan", "physical"]


def pack(
    src: PathLike | Rows,
    dst: PathLike | None = None,
    *,
    plan: PathLike | None = None,
    split: Values | None = None,
    root: PathLike | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    split_column: str | None = None,
    file_column: Values | None = None,
    multi_label: str | None = None,
    target: Values | None = None,
    extra_root: Values | None = None,
    no_labels: bool = False,
    label_pattern: str | None = None,
    with_: Values | None = None,
    on_missing: OnMissing | None = None,
    files: str | Sequence[str] | None = None,
    no_follow: bool = False,
    group: Group | None = None,
    jobs: int | None = None,
    memory: int | str | None = None,
    read_order: ReadOrder | None = None,
    on_bad: OnBad | None = None,
    sidecars: str | None = None,
    force: bool = False,
    crops: bool = False,
    dry_run: bool = False,
    part: str | None = None,
    work: PathLike | None = None,
    store: Values | None = None,
    format: Format | Sequence[Format] | None = None,
    label_offset: int | None = None,
    features: str | None = None,
    mds_encoding: str | None = None,
    set: Values | None = None,
    order: Order | None = None,
    seed: int | None = None,
    shard_size: int | str | None = None,
    shard_samples: int | None = None,
    shards: int | None = None,
    name: str | None = None,
    splits: str | None = None,
    split_fraction: Values | None = None,
    ext: str | None = None,
    cls: Cls | None = None,
    meta: Meta | None = None,
    compress: str | None = None,
    include: PathLike | Sequence[PathLike] | None = None,
    exclude: PathLike | Sequence[PathLike] | None = None,
    check: Check | None = None,
    formats: str | Sequence[str] | None = None,
    min_side: int | None = None,
    max_pixels: int | None = None,
    dedup: Dedup | None = None,
    leaks: bool = False,
    near_duplicates: bool = False,
    sample_per_class: int | None = None,
    classes: PathLike | None = None,
    class_map: PathLike | None = None,
    fix: bool = False,
    rotate: bool = False,
    resize: int | str | None = None,
    role: Values | None = None,
    encode: Encode | None = None,
    quality: int | None = None,
    drop_icc: bool = False,
    keep_exif: bool = False,
    columns: Mapping[str, str] | None = None,
    label: str | None = None,
    class_names: Sequence[str] | None = None,
    resume: bool = False,
    spool: PathLike | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Report:
    """Pack a tree or a list of images into shards with an index and a manifest: `shardpack pack`.

    Args:
        src: Source: a path, or rows (an iterable of dicts, a dataset or a table), as for `Writer`.
        dst: Folder of the shards.
        plan: Pack by this plan file, instead of walking SRC.
        split: A split and its source, instead of SRC: a tree of class folders, or a list. Repeat for each split; all
            share one list of classes.
        root: For lists: folder or URL that paths are relative to and that contains all files; FOLDER/** finds files
            by name in any folder below [default: the folder of the list].
        path_column: For lists: column with the path [default: detected by name].
        label_column: For lists: column with the label [default: detected by name]; folder, without a column of this
            name, is the folder of each path.
        split_column: For lists: column with the split [default: `split`, if its values are train, val, test, …].
        file_column: For lists: columns whose values are paths of files, such as masks: the files become components.
            COLUMN, or NAME=COLUMN for a component of another name, separated by commas. none packs paths as text
            [default: refused if a column names files].
        multi_label: For lists: column with several classes for each image, as lists or as text with a separator:
            'tags:|', tags:comma, tags:space; or FIRST..LAST, columns with 0 or 1 for a class each. They become the
            component multi_hot: uint8 with a 1 for each class, whose names are in the manifest.
        target: For lists: columns with numbers, or lists of numbers, that are no classes: each becomes an array
            NAME.npy. COLUMN, COLUMN:DTYPE for a dtype of numpy, or NAME=COLUMN:DTYPE, separated by commas [default
            dtype: int64 for whole numbers, else float64].
        extra_root: A folder outside SRC with files for --with, and its name in patterns: with masks=/data/masks,
            --with 'mask={masks}/{parent}/*.png'. Repeat for each folder.
        no_labels: Samples have no labels.
        label_pattern: For trees: labels are in file names, and folders are no classes. PATTERN is for the whole name
            without its extension: {label} is the label, n in braces is one or more digits, * any text, all else
            itself. {label} is as short as possible: from american_pit_bull_12.jpg, '{label}_*' takes american, and
            with n in braces for * american_pit_bull. Images whose names do not match are bad, which --on-bad handles.
        with_: Files of images: txt,mask=../masks/*.png.
        on_missing: Images without a file of --with or --file-column: bad, left out, or packed without it [default:
            error for a path, empty beside images]: error, skip, empty.
        files: Samples that are not images: flac, or '*.flac'.
        no_follow: Do not follow symbolic links in SRC; they are bad images, which --on-bad handles.
        group: For trees: files that differ only in the extension are one sample; --files selects its payload: stem.
        jobs: Number of threads [default: all cores].
        memory: Memory for images in flight, and as much again for decoding. One piece (record, page) of a foreign
            file may take at most half [default: a quarter of the machine's memory, at most 4GiB].
        read_order: Read order of the source; the shards are the same in any order: auto, plan, physical [default:
            auto].
        on_bad: Bad images: error (seal nothing) or skip: error, skip [default: error].
        sidecars: Extra files for certain readers, beside the shards: auto, none, or NAMES separated by commas. See
            docs/reference/formats/ [default: auto].
        force: Replace the existing output.
        crops: Also make crop tables for loaders, as `shardpack crops DST` does.
        dry_run: Show the plan and stop.
        part: Pack part I of N. Parts are runs of whole shards of about equal size in bytes, and can be packed on any
            machines at once; then run `shardpack merge DST`. With --resize, --fix, --rotate or --encode, run each
            part twice: the first run changes its images. auto: I and N from Slurm, Kubernetes, AWS Batch, MPI,
            torchrun and others.
        work: For URLs: local folder for the plan and finished indexes until DST is sealed. Run the same command again
            to resume [default: ~/.local/state/shardpack].
        store: Object store setting, in addition to the environment: endpoint=URL, region=NAME, profile=NAME,
            anonymous=true, requester_pays=true, "header=NAME: VALUE", ca_file=FILE, proxy=URL, requests=N,
            retry_for=SECONDS, min_rate=BYTES. With two stores, src.NAME=VALUE is for the source and dst.NAME=VALUE
            for DST.
        format: webdataset (default), tfrecord, recordio, mds: webdataset, tfrecord, recordio, mds [default:
            webdataset].
        label_offset: For tfrecord: label of the first class; 1 if 0 is the background, as in TF-Slim [default: 0].
        features: For tfrecord: only these features, separated by commas [default: all].
        mds_encoding: For mds: encoding of the image column: jpeg, png or bytes [default: jpeg].
        set: Setting of the format, as listed in docs/reference/formats/; may be repeated.
        order: Order of the samples: shuffled, source [default: shuffled].
        seed: Seed of the shuffle [default: 0].
        shard_size: Maximum shard size [default: 256MiB, mds 64MiB].
        shard_samples: Maximum number of samples in a shard; shards get about equal numbers.
        shards: Number of shards.
        name: Name of the shards if the source has no splits: NAME-000000.tar [default: shard].
        splits: Folders that are splits [default: auto].
        split_fraction: Random splits for a source without splits: NAME=FRACTION, separated by commas. The rest is
            train. The split of a sample depends only on --seed and its path, so new samples do not move others.
        ext: Extension of the images: common, content, or an extension for all images. common: the extension of the
            most common kind, for all images. content: the extension of each image's kind [default: common].
        cls: Component with the label: label, none [default: label].
        meta: Component with metadata [default: the metadata of a list or dataset, if there is any]: none, json.
        compress: Compress shards: zstd or zstd:LEVEL, 1 to 22 (photographs do not get smaller).
        include: Only images whose path matches this glob; may be repeated.
        exclude: Leave out images whose path matches.
        check: How thoroughly each image is checked before it is packed: header, entropy, full [default: header].
        formats: Only these kinds of images, by their first bytes: jpeg, png, webp, …, separated by commas.
        min_side: Only images with a shorter side of at least N.
        max_pixels: Only images of at most N pixels.
        dedup: Images with the same bytes only once: exact.
        leaks: Add a ledger line for images that are in two splits or two classes; they are still packed.
        near_duplicates: Add a ledger line for images that look like another image; they are still packed. Decodes
            every image.
        sample_per_class: Only N images per class and split, chosen by --seed and path.
        classes: Classes in the order of their labels: one name per line, or JSON. Images of other classes are left
            out.
        class_map: New names for classes: `old new` per line, or JSON. Classes with equal new names are merged.
        fix: Re-encode images that loaders fail on.
        rotate: Apply the EXIF orientation to the pixels.
        resize: Shorter side in pixels, or both.
        role: How --resize and --rotate change a component: mask, xyxy, xywh, cxcywh, xy (points) or keep; may be
            repeated. Masks in PNG, and arrays called mask, depth, boxes or keypoints need no role.
        encode: Convert all images to this format: jpeg, webp, png.
        quality: Quality of written JPEGs [default: 90].
        drop_icc: Drop the colour profile of changed images.
        keep_exif: Keep the EXIF data of changed images.
        columns: For rows: types of columns, as for `Writer`.
        label: For rows: column with the class, as for `Writer`.
        class_names: For rows: names of the classes, by number.
        resume: For rows: continue after those that an interrupted run has kept.
        spool: For rows: folder for them until they are packed [default: DST.rows].
        progress: See the module.

    Returns:
        The datasets, everything that was left out, and the time it took.
    """
    if _rows.is_rows(src):
        return _rows.pack_given(locals())
    return run("pack", ["src", "dst"], _rows.of_paths(locals(), ["columns", "label", "class_names", "resume", "spool"]))


def convert(
    src: PathLike | Sequence[PathLike],
    dst: PathLike | None = None,
    *,
    split: Values | None = None,
    from_: From | None = None,
    image_feature: str | None = None,
    label_feature: str | None = None,
    label_index: int | None = None,
    label_from: PathLike | None = None,
    key_pattern: str | None = None,
    skip_header: int | None = None,
    components: str | None = None,
    fields: str | Sequence[str] | None = None,
    target: Values | None = None,
    no_labels: bool = False,
    jobs: int | None = None,
    memory: int | str | None = None,
    read_order: ReadOrder | None = None,
    on_bad: OnBad | None = None,
    sidecars: str | None = None,
    force: bool = False,
    crops: bool = False,
    dry_run: bool = False,
    part: str | None = None,
    work: PathLike | None = None,
    store: Values | None = None,
    format: Format | Sequence[Format] | None = None,
    label_offset: int | None = None,
    features: str | None = None,
    mds_encoding: str | None = None,
    set: Values | None = None,
    order: Order | None = None,
    seed: int | None = None,
    shard_size: int | str | None = None,
    shard_samples: int | None = None,
    shards: int | None = None,
    name: str | None = None,
    splits: str | None = None,
    split_fraction: Values | None = None,
    ext: str | None = None,
    cls: Cls | None = None,
    meta: Meta | None = None,
    compress: str | None = None,
    include: PathLike | Sequence[PathLike] | None = None,
    exclude: PathLike | Sequence[PathLike] | None = None,
    check: Check | None = None,
    formats: str | Sequence[str] | None = None,
    min_side: int | None = None,
    max_pixels: int | None = None,
    dedup: Dedup | None = None,
    leaks: bool = False,
    near_duplicates: bool = False,
    sample_per_class: int | None = None,
    classes: PathLike | None = None,
    class_map: PathLike | None = None,
    fix: bool = False,
    rotate: bool = False,
    resize: int | str | None = None,
    role: Values | None = None,
    encode: Encode | None = None,
    quality: int | None = None,
    drop_icc: bool = False,
    keep_exif: bool = False,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Report:
    """Convert shards of any format and writer into new shards: `shardpack convert`.

    Args:
        src: Shards: a folder, file, glob or brace pattern, one or several.
        dst: Folder of the shards.
        split: A split and its shards, instead of SRC. Repeat for each split; all share one list of classes.
        from_: Format of the shards [default: detected]: webdataset, tfrecord, recordio, mds, parquet, arrow, lmdb,
            hdf5, numpy, mnist, cifar, pickled, litdata, beton, lmdb:image, lmdb:pickle, lmdb:msgpack, lmdb:pyarrow,
            lmdb:datum, lmdb:lsun, lmdb:ocr, lmdb:basicsr, lmdb:folder2lmdb, lmdb:tensorpack, hdf5:file.
        image_feature: Field with the image.
        label_feature: Field with the label.
        label_index: For records with several labels: index of the label to use, from 0 [default: all are one
            component].
        label_from: For LMDB, tar and HDF5: where the label is. key: first folder of the key (tar: last folder), or as
            in --key-pattern. value: in the value. header:TYPE: whole number at the start of the value (u8, u16le,
            u16be, u32le, …, i64be). FILE: file of keys and labels (text, CSV, TSV, JSON). tar takes only key, HDF5
            only FILE [default: detected].
        key_pattern: For LMDB and tar: pattern of the keys, as in {class}/{name}.jpg or {split}-{label}-{id}. *
            matches anything.
        skip_header: For LMDB: number of bytes in each value before the image, label included.
        components: Captions and the like: all (default), none, NAMES [default: all].
        fields: Fields to pack as components, separated by commas, with new names for some: energy,forces:f.
        target: Fields with numbers, or lists of numbers, that are no classes: each becomes an array NAME.npy. FIELD,
            FIELD:DTYPE or NAME=FIELD:DTYPE, separated by commas; a field may be a member of json in a tar [default
            dtype: that of arrays; int64 for whole numbers, else float64].
        no_labels: Samples have no labels: ignore the labels in records.
        jobs: Number of threads [default: all cores].
        memory: Memory for images in flight, and as much again for decoding. One piece (record, page) of a foreign
            file may take at most half [default: a quarter of the machine's memory, at most 4GiB].
        read_order: Read order of the source; the shards are the same in any order: auto, plan, physical [default:
            auto].
        on_bad: Bad images: error (seal nothing) or skip: error, skip [default: error].
        sidecars: Extra files for certain readers, beside the shards: auto, none, or NAMES separated by commas. See
            docs/reference/formats/ [default: auto].
        force: Replace the existing output.
        crops: Also make crop tables for loaders, as `shardpack crops DST` does.
        dry_run: Show the plan and stop.
        part: Pack part I of N. Parts are runs of whole shards of about equal size in bytes, and can be packed on any
            machines at once; then run `shardpack merge DST`. With --resize, --fix, --rotate or --encode, run each
            part twice: the first run changes its images. auto: I and N from Slurm, Kubernetes, AWS Batch, MPI,
            torchrun and others.
        work: For URLs: local folder for the plan and finished indexes until DST is sealed. Run the same command again
            to resume [default: ~/.local/state/shardpack].
        store: Object store setting, in addition to the environment: endpoint=URL, region=NAME, profile=NAME,
            anonymous=true, requester_pays=true, "header=NAME: VALUE", ca_file=FILE, proxy=URL, requests=N,
            retry_for=SECONDS, min_rate=BYTES. With two stores, src.NAME=VALUE is for the source and dst.NAME=VALUE
            for DST.
        format: webdataset (default), tfrecord, recordio, mds: webdataset, tfrecord, recordio, mds [default:
            webdataset].
        label_offset: For tfrecord: label of the first class; 1 if 0 is the background, as in TF-Slim [default: 0].
        features: For tfrecord: only these features, separated by commas [default: all].
        mds_encoding: For mds: encoding of the image column: jpeg, png or bytes [default: jpeg].
        set: Setting of the format, as listed in docs/reference/formats/; may be repeated.
        order: shuffled (default), source: shuffled, source [default: shuffled].
        seed: Seed of the shuffle [default: 0].
        shard_size: Maximum shard size [default: 256MiB, mds 64MiB].
        shard_samples: Maximum number of samples in a shard; shards get about equal numbers.
        shards: Number of shards.
        name: Name of the shards if the source has no splits: NAME-000000.tar [default: shard].
        splits: Folders that are splits: auto, none, or NAMES separated by commas. auto: train, val, test, … if there
            are no other folders. A path with {split}, as in images/{split}, names folders inside SRC, for images
            without labels [default: auto].
        split_fraction: Random splits for a source without splits: NAME=FRACTION, separated by commas. The rest is
            train. The split of a sample depends only on --seed and its path, so new samples do not move others.
        ext: Extension of the images: common, content, or an extension for all images. common: the extension of the
            most common kind, for all images. content: the extension of each image's kind [default: common].
        cls: Component with the label: label, none [default: label].
        meta: Component with metadata [default: the metadata of a list or dataset, if there is any]: none, json.
        compress: Compress shards: zstd or zstd:LEVEL, 1 to 22 (photographs do not get smaller).
        include: Only images whose path matches this glob; may be repeated.
        exclude: Leave out images whose path matches.
        check: How thoroughly each image is checked before it is packed: header, entropy, full [default: header].
        formats: Only these kinds of images, by their first bytes: jpeg, png, webp, …, separated by commas.
        min_side: Only images whose shorter side has at least N pixels.
        max_pixels: Only images of at most N pixels.
        dedup: Pack only the first of several images with equal bytes, class and components in one split: exact.
        leaks: Add a ledger line for images that are in two splits or two classes; they are still packed.
        near_duplicates: Add a ledger line for images that look like another image; they are still packed. Decodes
            every image.
        sample_per_class: Only N images per class and split, chosen by --seed and path.
        classes: Classes in the order of their labels: one name per line, or JSON. Images of other classes are left
            out.
        class_map: New names for classes: `old new` per line, or JSON. Classes with equal new names are merged.
        fix: Re-encode images that loaders fail on. These are CMYK, 16 bits per channel, GIF, BMP, TIFF, PNM, and
            files with a wrong extension.
        rotate: Apply the EXIF orientation to the pixels.
        resize: Shorter side in pixels, which never enlarges, or exactly WIDTHxHEIGHT.
        role: How --resize and --rotate change a component: mask, xyxy, xywh, cxcywh, xy (points) or keep; may be
            repeated. Masks in PNG, and arrays called mask, depth, boxes or keypoints need no role.
        encode: Convert all images to this format: jpeg, webp, png.
        quality: Quality of written JPEGs [default: 90].
        drop_icc: Drop the colour profile of changed images.
        keep_exif: Keep the EXIF data of changed images.
        progress: See the module.

    Returns:
        As for `pack`.
    """
    return run("convert", ["src", "dst"], locals())


def adopt(
    folder: PathLike,
    *,
    from_: From | None = None,
    image_feature: str | None = None,
    label_feature: str | None = None,
    label_index: int | None = None,
    label_from: PathLike | None = None,
    key_pattern: str | None = None,
    skip_header: int | None = None,
    name: str | None = None,
    on_bad: OnBad | None = None,
    force: bool = False,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Report:
    """Write manifest and index beside shards of any writer; the shards do not change: `shardpack adopt`.

    Args:
        folder: Folder of a dataset, or of its splits.
        from_: Format of the shards [default: detected]: webdataset, tfrecord, recordio, mds, parquet, arrow, lmdb,
            hdf5, numpy, mnist, cifar, pickled, litdata, beton, lmdb:image, lmdb:pickle, lmdb:msgpack, lmdb:pyarrow,
            lmdb:datum, lmdb:lsun, lmdb:ocr, lmdb:basicsr, lmdb:folder2lmdb, lmdb:tensorpack, hdf5:file.
        image_feature: Field with the image.
        label_feature: Field with the label.
        label_index: For records with several labels: index of the label to use, from 0 [default: all are one
            component].
        label_from: For LMDB, tar and HDF5: where the label is. key: first folder of the key (tar: last folder), or as
            in --key-pattern. value: in the value. header:TYPE: whole number at the start of the value (u8, u16le,
            u16be, u32le, …, i64be). FILE: file of keys and labels (text, CSV, TSV, JSON). tar takes only key, HDF5
            only FILE [default: detected].
        key_pattern: For LMDB and tar: pattern of the keys, as in {class}/{name}.jpg or {split}-{label}-{id}. *
            matches anything.
        skip_header: For LMDB: number of bytes in each value before the image, label included.
        name: Name of the dataset [default: shard].
        on_bad: Bad images: error (seal nothing) or skip: error, skip [default: error].
        force: Replace the existing output.
        progress: See the module.

    Returns:
        The dataset that was adopted.
    """
    return run("adopt", ["folder"], locals())


def plan(
    src: PathLike,
    dst: PathLike | None = None,
    *,
    output: PathLike | None = None,
    price: Values | None = None,
    store: Values | None = None,
    split: Values | None = None,
    root: PathLike | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    split_column: str | None = None,
    file_column: Values | None = None,
    multi_label: str | None = None,
    target: Values | None = None,
    extra_root: Values | None = None,
    no_labels: bool = False,
    label_pattern: str | None = None,
    with_: Values | None = None,
    on_missing: OnMissing | None = None,
    files: str | Sequence[str] | None = None,
    no_follow: bool = False,
    group: Group | None = None,
    jobs: int | None = None,
    format: Format | Sequence[Format] | None = None,
    label_offset: int | None = None,
    features: str | None = None,
    mds_encoding: str | None = None,
    set: Values | None = None,
    order: Order | None = None,
    seed: int | None = None,
    shard_size: int | str | None = None,
    shard_samples: int | None = None,
    shards: int | None = None,
    name: str | None = None,
    splits: str | None = None,
    split_fraction: Values | None = None,
    ext: str | None = None,
    cls: Cls | None = None,
    meta: Meta | None = None,
    compress: str | None = None,
    include: PathLike | Sequence[PathLike] | None = None,
    exclude: PathLike | Sequence[PathLike] | None = None,
    check: Check | None = None,
    formats: str | Sequence[str] | None = None,
    min_side: int | None = None,
    max_pixels: int | None = None,
    dedup: Dedup | None = None,
    leaks: bool = False,
    near_duplicates: bool = False,
    sample_per_class: int | None = None,
    classes: PathLike | None = None,
    class_map: PathLike | None = None,
    fix: bool = False,
    rotate: bool = False,
    resize: int | str | None = None,
    role: Values | None = None,
    encode: Encode | None = None,
    quality: int | None = None,
    drop_icc: bool = False,
    keep_exif: bool = False,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Report:
    """Preview a pack: show its plan, and write the plan file for pack --plan: `shardpack plan`.

    Args:
        src: Source.
        dst: Folder of the shards.
        output: Write the plan file for pack --plan.
        price: For URLs: prices of requests (get, put, list) and of bytes (in, out), in any currency. in: into the
            store; out: out of the store.
        store: Object store setting, in addition to the environment: endpoint=URL, region=NAME, profile=NAME,
            anonymous=true, requester_pays=true, "header=NAME: VALUE", ca_file=FILE, proxy=URL, requests=N,
            retry_for=SECONDS, min_rate=BYTES. With two stores, src.NAME=VALUE is for the source and dst.NAME=VALUE
            for DST.
        split: A split and its source, instead of SRC.
        root: For lists: folder or URL that paths are relative to and that contains all files; FOLDER/** finds files
            by name in any folder below [default: the folder of the list].
        path_column: For lists: column with the path [default: detected by name].
        label_column: For lists: column with the label [default: detected by name]; folder, without a column of this
            name, is the folder of each path.
        split_column: For lists: column with the split [default: `split`, if its values are train, val, test, …].
        file_column: For lists: columns whose values are paths of files, such as masks: the files become components.
            COLUMN, or NAME=COLUMN for a component of another name, separated by commas. none packs paths as text
            [default: refused if a column names files].
        multi_label: For lists: column with several classes for each image, as lists or as text with a separator:
            'tags:|', tags:comma, tags:space; or FIRST..LAST, columns with 0 or 1 for a class each. They become the
            component multi_hot: uint8 with a 1 for each class, whose names are in the manifest.
        target: For lists: columns with numbers, or lists of numbers, that are no classes: each becomes an array
            NAME.npy. COLUMN, COLUMN:DTYPE for a dtype of numpy, or NAME=COLUMN:DTYPE, separated by commas [default
            dtype: int64 for whole numbers, else float64].
        extra_root: A folder outside SRC with files for --with, and its name in patterns: with masks=/data/masks,
            --with 'mask={masks}/{parent}/*.png'. Repeat for each folder.
        no_labels: Samples have no labels.
        label_pattern: For trees: labels are in file names, and folders are no classes. PATTERN is for the whole name
            without its extension: {label} is the label, n in braces is one or more digits, * any text, all else
            itself. {label} is as short as possible: from american_pit_bull_12.jpg, '{label}_*' takes american, and
            with n in braces for * american_pit_bull. Images whose names do not match are bad, which --on-bad handles.
        with_: Files of images: txt,mask=../masks/*.png.
        on_missing: Images without a file of --with or --file-column: bad, left out, or packed without it [default:
            error for a path, empty beside images]: error, skip, empty.
        files: Samples that are not images: flac, or '*.flac'.
        no_follow: Do not follow symbolic links in SRC; they are bad images, which --on-bad handles.
        group: For trees: files that differ only in the extension are one sample; --files selects its payload: stem.
        jobs: Number of threads [default: all cores].
        format: webdataset (default), tfrecord, recordio, mds: webdataset, tfrecord, recordio, mds [default:
            webdataset].
        label_offset: For tfrecord: label of the first class; 1 if 0 is the background, as in TF-Slim [default: 0].
        features: For tfrecord: only these features, separated by commas [default: all].
        mds_encoding: For mds: encoding of the image column: jpeg, png or bytes [default: jpeg].
        set: Setting of the format, as listed in docs/reference/formats/; may be repeated.
        order: Order of the samples: shuffled, source [default: shuffled].
        seed: Seed of the shuffle [default: 0].
        shard_size: Maximum shard size [default: 256MiB, mds 64MiB].
        shard_samples: Maximum number of samples in a shard; shards get about equal numbers.
        shards: Number of shards.
        name: Name of the shards if the source has no splits: NAME-000000.tar [default: shard].
        splits: Folders that are splits [default: auto].
        split_fraction: Random splits for a source without splits: NAME=FRACTION, separated by commas. The rest is
            train. The split of a sample depends only on --seed and its path, so new samples do not move others.
        ext: Extension of the images: common, content, or an extension for all images. common: the extension of the
            most common kind, for all images. content: the extension of each image's kind [default: common].
        cls: Component with the label: label, none [default: label].
        meta: Component with metadata [default: the metadata of a list or dataset, if there is any]: none, json.
        compress: Compress shards: zstd or zstd:LEVEL, 1 to 22 (photographs do not get smaller).
        include: Only images whose path matches this glob; may be repeated.
        exclude: Leave out images whose path matches.
        check: How thoroughly each image is checked before it is packed: header, entropy, full [default: header].
        formats: Only these kinds of images, by their first bytes: jpeg, png, webp, …, separated by commas.
        min_side: Only images with a shorter side of at least N.
        max_pixels: Only images of at most N pixels.
        dedup: Images with the same bytes only once: exact.
        leaks: Add a ledger line for images that are in two splits or two classes; they are still packed.
        near_duplicates: Add a ledger line for images that look like another image; they are still packed. Decodes
            every image.
        sample_per_class: Only N images per class and split, chosen by --seed and path.
        classes: Classes in the order of their labels: one name per line, or JSON. Images of other classes are left
            out.
        class_map: New names for classes: `old new` per line, or JSON. Classes with equal new names are merged.
        fix: Re-encode images that loaders fail on.
        rotate: Apply the EXIF orientation to the pixels.
        resize: Shorter side in pixels, or both.
        role: How --resize and --rotate change a component: mask, xyxy, xywh, cxcywh, xy (points) or keep; may be
            repeated. Masks in PNG, and arrays called mask, depth, boxes or keypoints need no role.
        encode: Format of all images: jpeg, webp, png: jpeg, webp, png.
        quality: Quality of written JPEGs [default: 90].
        drop_icc: Drop the colour profile of changed images.
        keep_exif: Keep the EXIF data of changed images.
        progress: See the module.

    Returns:
        The plan: counts, sizes, space.
    """
    return run("plan", ["src", "dst"], locals())


def merge(
    folder: PathLike,
    *,
    verify: bool = False,
    work: PathLike | None = None,
    jobs: int | None = None,
    store: Values | None = None,
    spool: PathLike | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Report:
    """Seal a dataset that was packed in parts: `shardpack merge`.

    Args:
        folder: Folder that the parts were packed into, or its URL; or the destination of writers of rows.
        verify: Before sealing, read all shards and compare their hashes with the receipts.
        work: For URLs: local folder for indexes and new files until DST is sealed [default:
            ~/.local/state/shardpack].
        jobs: Number of threads [default: all cores].
        store: Object store setting, in addition to the environment: endpoint=URL, region=NAME, profile=NAME,
            anonymous=true, requester_pays=true, "header=NAME: VALUE", ca_file=FILE, proxy=URL, requests=N,
            retry_for=SECONDS, min_rate=BYTES. With two stores, src.NAME=VALUE is for the source and dst.NAME=VALUE
            for DST.
        spool: For rows of `Writer`: folder that their parts are in.
        progress: See the module.

    Returns:
        The datasets and everything that was left out; if parts are missing or wrong, those, and `ok` is `False`.
    """
    if _rows.has_parts(folder, spool):
        return _rows.merge_given(locals())
    return run("merge", ["folder"], _rows.of_paths(locals(), ["spool"]))


def status(
    folder: PathLike,
    *,
    store: Values | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Report:
    """Show the progress of an unfinished pack: `shardpack status`.

    Args:
        folder: Folder that is packed into, or its URL.
        store: Object store setting, in addition to the environment: endpoint=URL, region=NAME, profile=NAME,
            anonymous=true, requester_pays=true, "header=NAME: VALUE", ca_file=FILE, proxy=URL, requests=N,
            retry_for=SECONDS, min_rate=BYTES. With two stores, src.NAME=VALUE is for the source and dst.NAME=VALUE
            for DST.
        progress: See the module.

    Returns:
        The parts that are done, running and missing.
    """
    return run("status", ["folder"], locals())


def verify(
    paths: PathLike | Sequence[PathLike],
    *,
    quick: bool = False,
    decode: bool = False,
    against: Values | None = None,
    repair: Values | None = None,
    work: PathLike | None = None,
    root: PathLike | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    split_column: str | None = None,
    file_column: Values | None = None,
    multi_label: str | None = None,
    target: Values | None = None,
    extra_root: Values | None = None,
    label_from: PathLike | None = None,
    part: str | None = None,
    memory: int | str | None = None,
    store: Values | None = None,
    jobs: int | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Report:
    """Check shards against their manifest, and name every damaged sample: `shardpack verify`.

    Args:
        paths: Folders, manifests or shards, one or several.
        quick: Check sizes and structure only; read no shard.
        decode: Also decode every image in full.
        against: Compare with the source, in both directions.
        repair: Repair damage from the source, verify again.
        work: For --repair at a URL: local folder for rebuilt files until they are uploaded [default:
            ~/.local/state/shardpack].
        root: For lists: folder or URL that paths are relative to and that contains all files; FOLDER/** finds files
            by name in any folder below [default: the folder of the list].
        path_column: For lists: column with the path [default: detected by name].
        label_column: For lists: column with the label [default: detected by name]; folder, without a column of this
            name, is the folder of each path.
        split_column: For lists: column with the split [default: `split`, if its values are train, val, test, …].
        file_column: For lists: columns whose values are paths of files, such as masks: the files become components.
            COLUMN, or NAME=COLUMN for a component of another name, separated by commas. none packs paths as text
            [default: refused if a column names files].
        multi_label: For lists: column with several classes for each image, as lists or as text with a separator:
            'tags:|', tags:comma, tags:space; or FIRST..LAST, columns with 0 or 1 for a class each. They become the
            component multi_hot: uint8 with a 1 for each class, whose names are in the manifest.
        target: For lists: columns with numbers, or lists of numbers, that are no classes: each becomes an array
            NAME.npy. COLUMN, COLUMN:DTYPE for a dtype of numpy, or NAME=COLUMN:DTYPE, separated by commas [default
            dtype: int64 for whole numbers, else float64].
        extra_root: A folder outside SRC with files for --with, and its name in patterns: with masks=/data/masks,
            --with 'mask={masks}/{parent}/*.png'. Repeat for each folder.
        label_from: For LMDB and tar: where the label is.
        part: Verify part I of N of the shards, about equal in bytes. Part 1 also checks the files of the whole
            dataset. If all parts pass, the dataset is intact. auto: I and N from Slurm, Kubernetes, AWS Batch, MPI,
            torchrun and others.
        memory: Memory for decoding images. One piece (record, page) of a foreign file may take at most half [default:
            a quarter of the machine's memory, at most 4GiB].
        store: Object store setting, in addition to the environment: endpoint=URL, region=NAME, profile=NAME,
            anonymous=true, requester_pays=true, "header=NAME: VALUE", ca_file=FILE, proxy=URL, requests=N,
            retry_for=SECONDS, min_rate=BYTES. With two stores, src.NAME=VALUE is for the source and dst.NAME=VALUE
            for DST.
        jobs: Number of threads [default: all cores].
        progress: See the module.

    Returns:
        `ok` is `True` if nothing is damaged; `problems` names every damaged sample.
    """
    return run("verify", ["paths"], locals())


def crops(
    folder: PathLike,
    *,
    every: int | None = None,
    force: bool = False,
    part: str | None = None,
    store: Values | None = None,
    jobs: int | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Report:
    """Write crop tables, so that loaders decode only the cropped part of a JPEG: `shardpack crops`.

    Args:
        folder: Folder of a dataset, or of its splits.
        every: MCUs (8 or 16 pixels wide) between two entries of a table [default: 8].
        force: Replace the existing output.
        part: Only the tables for part I of N of the shards, about equal in bytes. Parts can run at the same time.
            auto: I and N from Slurm, Kubernetes, AWS Batch, MPI, torchrun and others.
        store: Object store setting, in addition to the environment: endpoint=URL, region=NAME, profile=NAME,
            anonymous=true, requester_pays=true, "header=NAME: VALUE", ca_file=FILE, proxy=URL, requests=N,
            retry_for=SECONDS, min_rate=BYTES. With two stores, src.NAME=VALUE is for the source and dst.NAME=VALUE
            for DST.
        jobs: Number of threads [default: all cores].
        progress: See the module.

    Returns:
        The number of samples with tables.
    """
    return run("crops", ["folder"], locals())


def inspect(
    paths: PathLike | Sequence[PathLike],
    *,
    samples: bool = False,
    class_: int | str | None = None,
    kind: str | None = None,
    strays: bool = False,
    limit: int | None = None,
    extract: str | None = None,
    output: PathLike | None = None,
    table: PathLike | None = None,
    force: bool = False,
    memory: int | str | None = None,
    store: Values | None = None,
    jobs: int | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Report:
    """Show the content of a dataset, or of shards of any writer: `shardpack inspect`.

    Args:
        paths: Folders, manifests or shards, one or several.
        samples: List samples in stored order, instead of a summary.
        class_: With --samples: only of this class.
        kind: With --samples: only images of this kind, detected from their first bytes: jpeg, png, ….
        strays: With --samples: only wrong extensions.
        limit: With --samples: list at most N; 0 lists all [default: 20].
        extract: Write one image, by key or path, to -o FILE.
        output: With --extract: file to write, or - for stdout.
        table: Write the index as FILE.parquet or FILE.csv.
        force: Replace the existing output.
        memory: Memory; one piece (record, page) of a foreign file may take at most half [default: a quarter of the
            machine's memory, at most 4GiB].
        store: Object store setting, in addition to the environment: endpoint=URL, region=NAME, profile=NAME,
            anonymous=true, requester_pays=true, "header=NAME: VALUE", ca_file=FILE, proxy=URL, requests=N,
            retry_for=SECONDS, min_rate=BYTES. With two stores, src.NAME=VALUE is for the source and dst.NAME=VALUE
            for DST.
        jobs: Number of threads [default: all cores].
        progress: See the module.

    Returns:
        The contents.
    """
    return run("inspect", ["paths"], locals())
