"""The commands of the program `shardpack` as functions, with the same options in Python's spelling.

Written by make_commands.py from what the program says of its options; docs/reference/cli.md tells of them at length.

All of them take `progress`: `True` for a bar of tqdm, which notebooks get anyway, or a function that is called with a
`Progress`. They return a `Report`, whose fields are those of `--json`, and raise the exceptions of `shardpack.errors`. Ctrl-C ends
them in good order, and the same call goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .running import PathLike, Progress, Report, Value, Values, run


def pack(
    src: PathLike,
    dst: PathLike | None = None,
    *,
    plan: Value | None = None,
    split: Values | None = None,
    root: Value | None = None,
    path_column: Value | None = None,
    label_column: Value | None = None,
    split_column: Value | None = None,
    no_labels: bool = False,
    with_: Values | None = None,
    files: Values | None = None,
    no_follow: bool = False,
    group: Value | None = None,
    jobs: Value | None = None,
    memory: Value | None = None,
    read_order: Value | None = None,
    on_bad: Value | None = None,
    sidecars: Value | None = None,
    force: bool = False,
    crops: bool = False,
    dry_run: bool = False,
    part: Value | None = None,
    work: Value | None = None,
    store: Values | None = None,
    format: Values | None = None,
    label_offset: Value | None = None,
    features: Value | None = None,
    mds_encoding: Value | None = None,
    set: Values | None = None,
    order: Value | None = None,
    seed: Value | None = None,
    shard_size: Value | None = None,
    shard_samples: Value | None = None,
    shards: Value | None = None,
    name: Value | None = None,
    splits: Value | None = None,
    split_fraction: Value | None = None,
    ext: Value | None = None,
    cls: Value | None = None,
    meta: Value | None = None,
    compress: Value | None = None,
    include: Values | None = None,
    exclude: Values | None = None,
    check: Value | None = None,
    formats: Values | None = None,
    min_side: Value | None = None,
    max_pixels: Value | None = None,
    dedup: Value | None = None,
    leaks: bool = False,
    near_duplicates: bool = False,
    sample_per_class: Value | None = None,
    classes: Value | None = None,
    class_map: Value | None = None,
    fix: bool = False,
    rotate: bool = False,
    resize: Value | None = None,
    encode: Value | None = None,
    quality: Value | None = None,
    drop_icc: bool = False,
    keep_exif: bool = False,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Report:
    """Pack a tree or a list of images into shards with an index and a manifest: `shardpack pack`.

    Args:
        src: Source.
        dst: Folder of the shards.
        plan: Pack what this plan file says, instead of walking SRC.
        split: A split and its source, in place of SRC: a tree of class folders, or a list; once for each split. They
            share one list of classes.
        root: Of a list: folder that paths are relative to and that all files are in, or its URL [default: the list's
            own].
        path_column: Of a list: column with the path [default: found by its name].
        label_column: Of a list: column with the label [default: found by its name].
        split_column: Of a list: column with the split [default: `split`, if its values are train, val, test, …].
        no_labels: Samples have no labels.
        with_: Files beside images: txt,mask=*_mask.png.
        files: Samples that are no images: flac, or '*.flac'.
        no_follow: Symbolic links in SRC are bad images, as --on-bad has it, and not followed.
        group: Of a tree: files of the same name but for the extension are one sample; --files says which of them is
            its payload: stem.
        jobs: Threads [default: all cores].
        memory: Budget for images in flight, and as much for those that are decoded; no piece of a foreign file may
            take more than half of it [default: a quarter of the machine's, at most 4GiB].
        read_order: Order in which the source is read; the shards are the same either way: auto, plan, physical
            [default: auto].
        on_bad: Bad images: error (seal nothing) or skip: error, skip [default: error].
        sidecars: Files for this or that reader beside the shards: auto, none, or NAMES with commas (docs/reference/formats/)
            [default: auto].
        force: Replace what is there.
        crops: Make crop tables for loaders too, as `shardpack crops DST` does.
        dry_run: Show the plan and stop.
        part: Pack one of N parts, whole shards that are even by bytes; others may be packed at the same time, by
            other machines, and `shardpack merge DST` seals them. With --resize, --fix, --rotate or --encode each part
            runs twice: the first time it changes its images. auto: the one that Slurm, Kubernetes, AWS Batch, MPI or
            torchrun says.
        work: Of a DST at a URL: folder for the plan and what is finished, until all is sealed; the same command goes
            on with it [default: in ~/.local/state/shardpack].
        store: Of a URL, a setting of its store beside what the environment says: endpoint=URL, region=NAME,
            profile=NAME, anonymous=true, requester_pays=true, "header=NAME: VALUE", ca_file=FILE, proxy=URL,
            requests=N, retry_for=SECONDS; where there are two stores, src.NAME=VALUE and dst.NAME=VALUE are of one.
        format: webdataset (default), tfrecord, recordio, mds: webdataset, tfrecord, recordio, mds [default:
            webdataset].
        label_offset: With tfrecord: the label of the first class; 1 where 0 stands for the background, as in TF-Slim
            [default: 0].
        features: With tfrecord: only these features, with commas [default: all].
        mds_encoding: With mds: encoding of the image column, jpeg, png or bytes [default: jpeg].
        set: Any setting of the format: docs/reference/formats/ lists them; may be given more than once.
        order: Order of the samples: shuffled, source [default: shuffled].
        seed: Seed of the shuffle [default: 0].
        shard_size: Largest shard [default: 256MiB, for mds 64MiB].
        shard_samples: Most samples in a shard; shards come out even.
        shards: Number of shards.
        name: What shards are called when the source has no splits: NAME-000000.tar [default: shard].
        splits: Folders that are splits [default: auto].
        split_fraction: Splits of a source that has none, NAME=FRACTION with commas; train is the rest. Each sample is
            of one by --seed and its path alone, so that more samples move none.
        ext: Extension of the images: that of the most common kind for all, `content` for each its own, or one to use
            [default: common].
        cls: Label component: label, none [default: label].
        meta: Metadata component [default: what a list or a dataset says of samples, if it says anything]: none, json.
        compress: Compress shards: zstd or zstd:LEVEL (photographs do not get smaller).
        include: Only images whose path matches; may be given more than once.
        exclude: No images whose path matches.
        check: How far an image is looked into before it is packed: header, entropy, full [default: header].
        formats: Only images of these kinds, told by their bytes, with commas: jpeg, png, webp, ….
        min_side: Only images at least so high and wide.
        max_pixels: Only images of at most N pixels.
        dedup: Images with the same bytes only once: exact.
        leaks: Name images that are in two splits or two classes, in the ledger.
        near_duplicates: Name images that look like another one, in the ledger; they stay (decodes every image).
        sample_per_class: Only N images of each class and split; which, follows from --seed.
        classes: The classes in the order of their labels, a name a line or JSON; images of others are left out.
        class_map: Other names for classes, `old new` a line or JSON; two that get one name become one.
        fix: Encode anew what loaders stumble over.
        rotate: Turn pixels as EXIF says.
        resize: Shorter side in pixels, or both.
        encode: Kind of file for images that are not of it: jpeg, webp, png.
        quality: Quality of JPEGs that are written [default: 90].
        drop_icc: Leave colour profiles out of images that are changed.
        keep_exif: Keep EXIF of images that are changed.
        progress: See the module.

    Returns:
        Datasets, what was left out, and how long it took.
    """
    return run("pack", ["src", "dst"], locals())


def convert(
    src: PathLike | Sequence[PathLike],
    dst: PathLike | None = None,
    *,
    split: Values | None = None,
    from_: Value | None = None,
    image_feature: Value | None = None,
    label_feature: Value | None = None,
    label_index: Value | None = None,
    label_from: Value | None = None,
    key_pattern: Value | None = None,
    skip_header: Value | None = None,
    components: Value | None = None,
    fields: Values | None = None,
    no_labels: bool = False,
    jobs: Value | None = None,
    memory: Value | None = None,
    read_order: Value | None = None,
    on_bad: Value | None = None,
    sidecars: Value | None = None,
    force: bool = False,
    crops: bool = False,
    dry_run: bool = False,
    part: Value | None = None,
    work: Value | None = None,
    store: Values | None = None,
    format: Values | None = None,
    label_offset: Value | None = None,
    features: Value | None = None,
    mds_encoding: Value | None = None,
    set: Values | None = None,
    order: Value | None = None,
    seed: Value | None = None,
    shard_size: Value | None = None,
    shard_samples: Value | None = None,
    shards: Value | None = None,
    name: Value | None = None,
    splits: Value | None = None,
    split_fraction: Value | None = None,
    ext: Value | None = None,
    cls: Value | None = None,
    meta: Value | None = None,
    compress: Value | None = None,
    include: Values | None = None,
    exclude: Values | None = None,
    check: Value | None = None,
    formats: Values | None = None,
    min_side: Value | None = None,
    max_pixels: Value | None = None,
    dedup: Value | None = None,
    leaks: bool = False,
    near_duplicates: bool = False,
    sample_per_class: Value | None = None,
    classes: Value | None = None,
    class_map: Value | None = None,
    fix: bool = False,
    rotate: bool = False,
    resize: Value | None = None,
    encode: Value | None = None,
    quality: Value | None = None,
    drop_icc: bool = False,
    keep_exif: bool = False,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Report:
    """Pack shards of any format and writer into shards of another: `shardpack convert`.

    Args:
        src: Shards: a folder, file, glob or brace pattern, one or several.
        dst: Folder of the shards.
        split: A split and its shards, in place of SRC; once for each split. They share one list of classes.
        from_: Format, where shards do not tell: webdataset, tfrecord, recordio, mds, parquet, lmdb, hdf5, lmdb:image,
            lmdb:pickle, lmdb:msgpack, lmdb:pyarrow, lmdb:datum, lmdb:lsun, lmdb:ocr, lmdb:basicsr, lmdb:folder2lmdb,
            lmdb:tensorpack.
        image_feature: Field with the image.
        label_feature: Field with the label.
        label_index: Number of the label that is the class, of records that have several, from 0 [default: several are
            a component].
        label_from: Of an LMDB: where the label is: the key (its first folder, or by --key-pattern), the value, a
            whole number that the value begins with (u8, u16le, u16be, u32le, …, i64be), or a file of keys and labels
            (text, CSV, TSV, JSON). Of a tar: key (the last folder, or by --key-pattern) [default: found by looking].
        key_pattern: Of an LMDB or a tar: what keys are made of, as {class}/{name}.jpg or {split}-{label}-{id}; *
            stands for anything.
        skip_header: Of an LMDB: bytes of each value that come before the image.
        components: Captions and the like: all (default), none, NAMES [default: all].
        fields: Fields of records that are components, with commas, and other names for some: energy,forces:f.
        no_labels: Samples have no labels, whatever records say.
        jobs: Threads [default: all cores].
        memory: Budget for images in flight, and as much for those that are decoded; no piece of a foreign file may
            take more than half of it [default: a quarter of the machine's, at most 4GiB].
        read_order: Order in which the source is read; the shards are the same either way: auto, plan, physical
            [default: auto].
        on_bad: Bad images: error (seal nothing) or skip: error, skip [default: error].
        sidecars: Files for this or that reader beside the shards: auto, none, or NAMES with commas (docs/reference/formats/)
            [default: auto].
        force: Replace what is there.
        crops: Make crop tables for loaders too, as `shardpack crops DST` does.
        dry_run: Show the plan and stop.
        part: Pack one of N parts, whole shards that are even by bytes; others may be packed at the same time, by
            other machines, and `shardpack merge DST` seals them. With --resize, --fix, --rotate or --encode each part
            runs twice: the first time it changes its images. auto: the one that Slurm, Kubernetes, AWS Batch, MPI or
            torchrun says.
        work: Of a DST at a URL: folder for the plan and what is finished, until all is sealed; the same command goes
            on with it [default: in ~/.local/state/shardpack].
        store: Of a URL, a setting of its store beside what the environment says: endpoint=URL, region=NAME,
            profile=NAME, anonymous=true, requester_pays=true, "header=NAME: VALUE", ca_file=FILE, proxy=URL,
            requests=N, retry_for=SECONDS; where there are two stores, src.NAME=VALUE and dst.NAME=VALUE are of one.
        format: webdataset (default), tfrecord, recordio, mds: webdataset, tfrecord, recordio, mds [default:
            webdataset].
        label_offset: With tfrecord: the label of the first class; 1 where 0 stands for the background, as in TF-Slim
            [default: 0].
        features: With tfrecord: only these features, with commas [default: all].
        mds_encoding: With mds: encoding of the image column, jpeg, png or bytes [default: jpeg].
        set: Any setting of the format: docs/reference/formats/ lists them; may be given more than once.
        order: shuffled (default), source: shuffled, source [default: shuffled].
        seed: Seed of the shuffle [default: 0].
        shard_size: Largest shard [default: 256MiB, for mds 64MiB].
        shard_samples: Most samples in a shard; shards come out even.
        shards: Number of shards.
        name: What shards are called when the source has no splits: NAME-000000.tar [default: shard].
        splits: Folders that are splits: auto (train, val, test, … if there is nothing else), none, or NAMES with
            commas [default: auto].
        split_fraction: Splits of a source that has none, NAME=FRACTION with commas; train is the rest. Each sample is
            of one by --seed and its path alone, so that more samples move none.
        ext: Extension of the images: that of the most common kind for all, `content` for each its own, or one to use
            [default: common].
        cls: Label component: label, none [default: label].
        meta: Metadata component [default: what a list or a dataset says of samples, if it says anything]: none, json.
        compress: Compress shards: zstd or zstd:LEVEL (photographs do not get smaller).
        include: Only images whose path matches; may be given more than once.
        exclude: No images whose path matches.
        check: How far an image is looked into before it is packed: header, entropy, full [default: header].
        formats: Only images of these kinds, told by their bytes, with commas: jpeg, png, webp, ….
        min_side: Only images whose shorter side has at least N pixels.
        max_pixels: Only images of at most N pixels.
        dedup: Leave out images whose bytes are those of another one of their split: exact.
        leaks: Name images that are in two splits or two classes, in the ledger.
        near_duplicates: Name images that look like another one, in the ledger; they stay (decodes every image).
        sample_per_class: Only N images of each class and split; which, follows from --seed.
        classes: The classes in the order of their labels, a name a line or JSON; images of others are left out.
        class_map: Other names for classes, `old new` a line or JSON; two that get one name become one.
        fix: Encode anew what loaders stumble over: CMYK, 16 bits a channel, GIF, BMP, TIFF, PNM, and what is not what
            its name says.
        rotate: Turn pixels as EXIF says.
        resize: Shorter side in pixels, or WIDTHxHEIGHT; what is not larger stays as it is.
        encode: Kind of file for images that are not of it: jpeg, webp, png.
        quality: Quality of JPEGs that are written [default: 90].
        drop_icc: Leave colour profiles out of images that are changed.
        keep_exif: Keep EXIF of images that are changed.
        progress: See the module.

    Returns:
        As of `pack`.
    """
    return run("convert", ["src", "dst"], locals())


def adopt(
    folder: PathLike,
    *,
    from_: Value | None = None,
    image_feature: Value | None = None,
    label_feature: Value | None = None,
    label_index: Value | None = None,
    label_from: Value | None = None,
    key_pattern: Value | None = None,
    skip_header: Value | None = None,
    name: Value | None = None,
    on_bad: Value | None = None,
    force: bool = False,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Report:
    """Write manifest and index beside shards of any writer, which stay as they are: `shardpack adopt`.

    Args:
        folder: Folder of a dataset, or of its splits.
        from_: Format, where shards do not tell: webdataset, tfrecord, recordio, mds, parquet, lmdb, hdf5, lmdb:image,
            lmdb:pickle, lmdb:msgpack, lmdb:pyarrow, lmdb:datum, lmdb:lsun, lmdb:ocr, lmdb:basicsr, lmdb:folder2lmdb,
            lmdb:tensorpack.
        image_feature: Field with the image.
        label_feature: Field with the label.
        label_index: Number of the label that is the class, of records that have several, from 0 [default: several are
            a component].
        label_from: Of an LMDB: where the label is: the key (its first folder, or by --key-pattern), the value, a
            whole number that the value begins with (u8, u16le, u16be, u32le, …, i64be), or a file of keys and labels
            (text, CSV, TSV, JSON). Of a tar: key (the last folder, or by --key-pattern) [default: found by looking].
        key_pattern: Of an LMDB or a tar: what keys are made of, as {class}/{name}.jpg or {split}-{label}-{id}; *
            stands for anything.
        skip_header: Of an LMDB: bytes of each value that come before the image.
        name: Name of the dataset [default: shard].
        on_bad: Bad images: error (seal nothing) or skip: error, skip [default: error].
        force: Replace what is there.
        progress: See the module.

    Returns:
        What was adopted.
    """
    return run("adopt", ["folder"], locals())


def plan(
    src: PathLike,
    dst: PathLike | None = None,
    *,
    output: Value | None = None,
    price: Value | None = None,
    store: Values | None = None,
    split: Values | None = None,
    root: Value | None = None,
    path_column: Value | None = None,
    label_column: Value | None = None,
    split_column: Value | None = None,
    no_labels: bool = False,
    with_: Values | None = None,
    files: Values | None = None,
    no_follow: bool = False,
    group: Value | None = None,
    jobs: Value | None = None,
    format: Values | None = None,
    label_offset: Value | None = None,
    features: Value | None = None,
    mds_encoding: Value | None = None,
    set: Values | None = None,
    order: Value | None = None,
    seed: Value | None = None,
    shard_size: Value | None = None,
    shard_samples: Value | None = None,
    shards: Value | None = None,
    name: Value | None = None,
    splits: Value | None = None,
    split_fraction: Value | None = None,
    ext: Value | None = None,
    cls: Value | None = None,
    meta: Value | None = None,
    compress: Value | None = None,
    include: Values | None = None,
    exclude: Values | None = None,
    check: Value | None = None,
    formats: Values | None = None,
    min_side: Value | None = None,
    max_pixels: Value | None = None,
    dedup: Value | None = None,
    leaks: bool = False,
    near_duplicates: bool = False,
    sample_per_class: Value | None = None,
    classes: Value | None = None,
    class_map: Value | None = None,
    fix: bool = False,
    rotate: bool = False,
    resize: Value | None = None,
    encode: Value | None = None,
    quality: Value | None = None,
    drop_icc: bool = False,
    keep_exif: bool = False,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Report:
    """Show what pack would do, and write the plan file that pack --plan takes: `shardpack plan`.

    Args:
        src: Source.
        dst: Folder of the shards.
        output: Write the plan file that pack --plan takes.
        price: Where SRC or DST is at a URL: what requests and bytes cost, in any currency. Of requests get, put and
            list; of bytes in and out.
        store: Of a URL, a setting of its store beside what the environment says: endpoint=URL, region=NAME,
            profile=NAME, anonymous=true, requester_pays=true, "header=NAME: VALUE", ca_file=FILE, proxy=URL,
            requests=N, retry_for=SECONDS; where there are two stores, src.NAME=VALUE and dst.NAME=VALUE are of one.
        split: A split and its source, instead of SRC.
        root: Of a list: folder that paths are relative to and that all files are in, or its URL [default: the list's
            own].
        path_column: Of a list: column with the path [default: found by its name].
        label_column: Of a list: column with the label [default: found by its name].
        split_column: Of a list: column with the split [default: `split`, if its values are train, val, test, …].
        no_labels: Samples have no labels.
        with_: Files beside images: txt,mask=*_mask.png.
        files: Samples that are no images: flac, or '*.flac'.
        no_follow: Symbolic links in SRC are bad images, as --on-bad has it, and not followed.
        group: Of a tree: files of the same name but for the extension are one sample; --files says which of them is
            its payload: stem.
        jobs: Threads [default: all cores].
        format: webdataset (default), tfrecord, recordio, mds: webdataset, tfrecord, recordio, mds [default:
            webdataset].
        label_offset: With tfrecord: the label of the first class; 1 where 0 stands for the background, as in TF-Slim
            [default: 0].
        features: With tfrecord: only these features, with commas [default: all].
        mds_encoding: With mds: encoding of the image column, jpeg, png or bytes [default: jpeg].
        set: Any setting of the format: docs/reference/formats/ lists them; may be given more than once.
        order: Order of the samples: shuffled, source [default: shuffled].
        seed: Seed of the shuffle [default: 0].
        shard_size: Largest shard [default: 256MiB, for mds 64MiB].
        shard_samples: Most samples in a shard; shards come out even.
        shards: Number of shards.
        name: What shards are called when the source has no splits: NAME-000000.tar [default: shard].
        splits: Folders that are splits [default: auto].
        split_fraction: Splits of a source that has none, NAME=FRACTION with commas; train is the rest. Each sample is
            of one by --seed and its path alone, so that more samples move none.
        ext: Extension of the images: that of the most common kind for all, `content` for each its own, or one to use
            [default: common].
        cls: Label component: label, none [default: label].
        meta: Metadata component [default: what a list or a dataset says of samples, if it says anything]: none, json.
        compress: Compress shards: zstd or zstd:LEVEL (photographs do not get smaller).
        include: Only images whose path matches; may be given more than once.
        exclude: No images whose path matches.
        check: How far an image is looked into before it is packed: header, entropy, full [default: header].
        formats: Only images of these kinds, told by their bytes, with commas: jpeg, png, webp, ….
        min_side: Only images at least so high and wide.
        max_pixels: Only images of at most N pixels.
        dedup: Images with the same bytes only once: exact.
        leaks: Name images that are in two splits or two classes, in the ledger.
        near_duplicates: Name images that look like another one, in the ledger; they stay (decodes every image).
        sample_per_class: Only N images of each class and split; which, follows from --seed.
        classes: The classes in the order of their labels, a name a line or JSON; images of others are left out.
        class_map: Other names for classes, `old new` a line or JSON; two that get one name become one.
        fix: Encode anew what loaders stumble over.
        rotate: Turn pixels as EXIF says.
        resize: Shorter side in pixels, or both.
        encode: Kind of all images: jpeg, webp, png: jpeg, webp, png.
        quality: Quality of JPEGs that are written [default: 90].
        drop_icc: Leave colour profiles out of images that are changed.
        keep_exif: Keep EXIF of images that are changed.
        progress: See the module.

    Returns:
        The plan: counts, sizes, space.
    """
    return run("plan", ["src", "dst"], locals())


def merge(
    folder: PathLike,
    *,
    verify: bool = False,
    work: Value | None = None,
    jobs: Value | None = None,
    store: Values | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Report:
    """Seal a dataset that was packed in parts: `shardpack merge`.

    Args:
        folder: Folder that the parts were packed into, or its URL.
        verify: Read all shards and compare their hashes with those of the receipts, before anything is sealed.
        work: Of parts at a URL: folder for indexes and what is made, until all is sealed [default: in
            ~/.local/state/shardpack].
        jobs: Threads [default: all cores].
        store: Of a URL, a setting of its store beside what the environment says: endpoint=URL, region=NAME,
            profile=NAME, anonymous=true, requester_pays=true, "header=NAME: VALUE", ca_file=FILE, proxy=URL,
            requests=N, retry_for=SECONDS; where there are two stores, src.NAME=VALUE and dst.NAME=VALUE are of one.
        progress: See the module.

    Returns:
        Datasets, and what was left out; or what is missing or wrong, and `ok` is `False`.
    """
    return run("merge", ["folder"], locals())


def status(
    folder: PathLike,
    *,
    store: Values | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Report:
    """Show how far a pack that is not finished has come: `shardpack status`.

    Args:
        folder: Folder that is packed into, or its URL.
        store: Of a URL, a setting of its store beside what the environment says: endpoint=URL, region=NAME,
            profile=NAME, anonymous=true, requester_pays=true, "header=NAME: VALUE", ca_file=FILE, proxy=URL,
            requests=N, retry_for=SECONDS; where there are two stores, src.NAME=VALUE and dst.NAME=VALUE are of one.
        progress: See the module.

    Returns:
        Which parts are done, running and missing.
    """
    return run("status", ["folder"], locals())


def verify(
    paths: PathLike | Sequence[PathLike],
    *,
    quick: bool = False,
    decode: bool = False,
    against: Values | None = None,
    repair: Values | None = None,
    work: Value | None = None,
    root: Value | None = None,
    path_column: Value | None = None,
    label_column: Value | None = None,
    split_column: Value | None = None,
    label_from: Value | None = None,
    part: Value | None = None,
    memory: Value | None = None,
    store: Values | None = None,
    jobs: Value | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Report:
    """Check that shards are what their manifest says; names every damaged sample: `shardpack verify`.

    Args:
        paths: Folders, manifests or shards, one or several.
        quick: Sizes and structure only; no shard is read.
        decode: Decode every image in full.
        against: Compare with the source, both ways.
        repair: Mend damage from the source, verify again.
        work: Of a --repair at a URL: folder for what is made, until it is there [default: in
            ~/.local/state/shardpack].
        root: Of a list: folder that paths are relative to and that all files are in, or its URL [default: the list's
            own].
        path_column: Of a list: column with the path [default: found by its name].
        label_column: Of a list: column with the label [default: found by its name].
        split_column: Of a list: column with the split [default: `split`, if its values are train, val, test, …].
        label_from: Of an LMDB or tar: where the label is.
        part: Only one of N parts of the shards, which are even by bytes, and with the first part what is of the whole
            dataset: when all are right, so is all. auto: the one that Slurm, Kubernetes, AWS Batch, MPI or torchrun
            says.
        memory: Memory for images that are decoded; no piece of a foreign file may take more than half of it [default:
            a quarter of the machine's, at most 4GiB].
        store: Of a URL, a setting of its store beside what the environment says: endpoint=URL, region=NAME,
            profile=NAME, anonymous=true, requester_pays=true, "header=NAME: VALUE", ca_file=FILE, proxy=URL,
            requests=N, retry_for=SECONDS; where there are two stores, src.NAME=VALUE and dst.NAME=VALUE are of one.
        jobs: Threads [default: all cores].
        progress: See the module.

    Returns:
        `ok` is whether all is right; `problems` names every damaged sample.
    """
    return run("verify", ["paths"], locals())


def crops(
    folder: PathLike,
    *,
    every: Value | None = None,
    force: bool = False,
    part: Value | None = None,
    store: Values | None = None,
    jobs: Value | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Report:
    """Make tables beside the indexes, with which crops of JPEGs are decoded without the rest of them: `shardpack
    crops`.

    Args:
        folder: Folder of a dataset, or of its splits.
        every: MCUs (8 or 16 pixels across) from one entry of a table to the next [default: 8].
        force: Replace what is there.
        part: Only the tables of one of N parts of the shards, which are even by bytes; others may be made at the same
            time.
        store: Of a URL, a setting of its store beside what the environment says: endpoint=URL, region=NAME,
            profile=NAME, anonymous=true, requester_pays=true, "header=NAME: VALUE", ca_file=FILE, proxy=URL,
            requests=N, retry_for=SECONDS; where there are two stores, src.NAME=VALUE and dst.NAME=VALUE are of one.
        jobs: Threads [default: all cores].
        progress: See the module.

    Returns:
        How many samples have tables.
    """
    return run("crops", ["folder"], locals())


def inspect(
    paths: PathLike | Sequence[PathLike],
    *,
    samples: bool = False,
    class_: Value | None = None,
    kind: Value | None = None,
    strays: bool = False,
    limit: Value | None = None,
    extract: Value | None = None,
    output: Value | None = None,
    table: Value | None = None,
    force: bool = False,
    memory: Value | None = None,
    store: Values | None = None,
    jobs: Value | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Report:
    """Show what is in a folder of shards, a manifest, or shards of any writer: `shardpack inspect`.

    Args:
        paths: Folders, manifests or shards, one or several.
        samples: List samples in stored order instead.
        class_: With --samples: only of this class.
        kind: With --samples: only images of this kind, by their first bytes: jpeg, png, ….
        strays: With --samples: not what the extension says.
        limit: With --samples: list at most N, or all with 0 [default: 20].
        extract: Write one image, by key or path, to -o FILE.
        output: With --extract: file to write, or - for stdout.
        table: Write the index as FILE.parquet or FILE.csv.
        force: Replace what is there.
        memory: Memory, of which no piece of a foreign file may take more than half [default: a quarter of the
            machine's, at most 4GiB].
        store: Of a URL, a setting of its store beside what the environment says: endpoint=URL, region=NAME,
            profile=NAME, anonymous=true, requester_pays=true, "header=NAME: VALUE", ca_file=FILE, proxy=URL,
            requests=N, retry_for=SECONDS; where there are two stores, src.NAME=VALUE and dst.NAME=VALUE are of one.
        jobs: Threads [default: all cores].
        progress: See the module.

    Returns:
        What is in there.
    """
    return run("inspect", ["paths"], locals())
