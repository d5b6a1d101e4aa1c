//! Help lines on foreign shards and on `convert`.

use shardpack_testing::Bench;

use super::{Row, go, nothing, packed};

/// Runs Python with `import h5py, lmdb, glob, struct, numpy as np`, in the source. `images` has the images of the source.
fn python(bench: &Bench, script: &str) {
    let script = format!(
        "$ cd SRC && ${{SHARDPACK_PYTHON:-python3}} -c 'import h5py, lmdb, glob, struct, numpy as np\n\
         images = [open(path, \"rb\").read() for path in sorted(glob.glob(\"*/*.jpg\"))]\n\
         pixels = np.arange(6 * 4 * 5 * 3, dtype=np.uint8).reshape(6, 4, 5, 3)\n\
         {script}'"
    );
    go(bench, &[&script]);
}

/// An LMDB with keys `class/name.jpg`. The bytes `before` precede each image in its value.
fn lmdb(bench: &Bench, before: &str) {
    let script = format!(
        "env = lmdb.open(\"../l.mdb\", subdir=False)\nwith env.begin(write=True) as t:\n  for n, image in enumerate(images):\n    \
         t.put(b\"a/%d.jpg\" % n, {before} image)\nenv.close()"
    );
    python(bench, &script);
}

/// Tar files of one sample each: `a` and `b` with 18 components of their own, `c` with 33.
fn components(bench: &Bench) {
    let script = "import tarfile, io\nfor name, count in ((\"a\", 18), (\"b\", 18), (\"c\", 33)):\n  \
                  tar = tarfile.open(\"../%s.tar\" % name, \"w\")\n  \
                  all = {\"1.jpg\": images[0], \"1.cls\": b\"0\"}\n  \
                  all.update({\"1.%s%d\" % (name, n): b\"x\" for n in range(count)})\n  for member in all:\n    \
                  info = tarfile.TarInfo(member)\n    info.size = len(all[member])\n    \
                  tar.addfile(info, io.BytesIO(all[member]))\n  tar.close()";
    python(bench, script);
}

/// Writes `x.parquet` and `x.arrow`, a table without images.
const TABLE_OF_VALUES: &str = "$ cd SRC && ${SHARDPACK_PYTHON:-python3} -c 'import pyarrow as pa, pyarrow.parquet as pq; \
                               table = pa.table({\"x\": [1.5, 2.5]}); pq.write_table(table, \"../x.parquet\"); \
                               file = pa.ipc.new_stream(\"../x.arrow\", table.schema); file.write_table(table); file.close()'";

/// A repository of two folders, `en` and `de`, with these configurations in its README.
fn repository(bench: &Bench, configs: &str) {
    go(bench, &[TABLE_OF_VALUES]);
    for folder in ["en", "de"] {
        std::fs::create_dir_all(bench.at("repo").join(folder)).unwrap();
        std::fs::copy(bench.at("x.parquet"), bench.at("repo").join(folder).join("x.parquet")).unwrap();
    }
    std::fs::write(bench.at("repo/README.md"), format!("---\nconfigs:\n{configs}---\n")).unwrap();
}

pub const ROWS: &[Row] = &[
    (
        "an array of numpy that may be a sample",
        |bench| python(bench, "import os; os.mkdir(\"../n\"); np.save(\"../n/a.npy\", pixels)"),
        "convert @n/a.npy DST",
        2,
        "--from numpy takes the rows of its arrays as samples; shardpack pack packs a folder of files that are a sample each",
        &["convert @n/a.npy DST --from numpy", "pack @n @x --no-labels"],
    ),
    (
        "an array of Python objects",
        |bench| {
            python(bench, "np.savez(\"../n.npz\", x=pixels, y=np.arange(6), info=np.array({}, dtype=object))");
        },
        "convert @n.npz DST",
        2,
        "numpy.savez writes the file without this array, or with the array as numbers or text of a fixed length",
        &[
            "$ ${SHARDPACK_PYTHON:-python3} -c 'import sys, numpy as np
a = np.load(sys.argv[1]); a = {name: a[name] for name in (\"x\", \"y\")}; np.savez(sys.argv[1], **a)' @n.npz",
            "convert @n.npz DST",
        ],
    ),
    (
        "files of MNIST of two datasets",
        |bench| {
            let script = "import os; os.mkdir(\"../m\"); d = bytes([0, 0, 8, 3, 0, 0, 0, 6, 0, 0, 0, 4, 0, 0, 0, 5]) + bytes(120)\n\
                          for name in (\"fashion-\", \"\"): open(f\"../m/{name}train-images-idx3-ubyte\", \"wb\").write(d)";
            python(bench, script);
        },
        "convert @m DST",
        2,
        "give the files of one dataset: 'FOLDER/fashion-*'",
        &["convert @m/fashion-* DST"],
    ),
    (
        "a sparse matrix",
        |bench| {
            let write =
                "s = {\"data\": pixels, \"indices\": [0], \"indptr\": [0], \"shape\": [6, 1], \"format\": b\"csr\"}";
            python(bench, &format!("{write}\nnp.savez(\"../n.npz\", **s)"));
        },
        "convert @n.npz DST",
        2,
        "its method toarray() makes an array that numpy.savez writes",
        &[
            "$ ${SHARDPACK_PYTHON:-python3} -c 'import sys, numpy as np
np.savez(sys.argv[1], data=np.load(sys.argv[1])[\"data\"])' @n.npz",
            "convert @n.npz DST",
        ],
    ),
    (
        "an array in Fortran order that is longer than the memory",
        |bench| {
            let write =
                "np.savez(\"../n.npz\", x=np.asfortranarray(np.zeros((900, 200, 200), np.uint8)), y=np.zeros(900))";
            python(bench, write);
        },
        "convert @n.npz DST --memory 64MiB",
        2,
        "numpy.ascontiguousarray makes an array whose rows are read one by one",
        &[
            "$ ${SHARDPACK_PYTHON:-python3} -c 'import sys, numpy as np
a = np.load(sys.argv[1]); np.savez(sys.argv[1], x=np.ascontiguousarray(a[\"x\"]), y=a[\"y\"])' @n.npz",
            "convert @n.npz DST --memory 64MiB",
        ],
    ),
    (
        "more components than there is room for",
        components,
        "convert @c.tar DST",
        2,
        "choose components with --components NAMES, separated by commas; --components none leaves out all",
        &["convert @c.tar DST --components c1,c32", "convert @c.tar @x --components none"],
    ),
    (
        "more than there is room for in all splits together",
        components,
        "convert DST --split train=@a.tar --split val=@b.tar",
        2,
        "--components takes those that it names, or none",
        &[
            "convert DST --split train=@a.tar --split val=@b.tar --components a1,b17",
            "convert @x --split train=@a.tar --split val=@b.tar --components none",
        ],
    ),
    (
        "a Feather file of version 1",
        |bench| std::fs::write(bench.at("x.feather"), b"FEA1....").unwrap(),
        "convert @x.feather DST",
        1,
        "pandas.read_feather(FILE).to_parquet(OTHER.parquet) writes it anew",
        &[TABLE_OF_VALUES, "convert @x.parquet DST"],
    ),
    (
        "a saved dataset whose rows are a selection",
        |bench| {
            go(bench, &[TABLE_OF_VALUES]);
            std::fs::create_dir(bench.at("saved")).unwrap();
            std::fs::rename(bench.at("x.arrow"), bench.at("saved/data-00000-of-00001.arrow")).unwrap();
            let state = "{\"_indices_files\": [{\"filename\": \"indices.arrow\"}]}";
            std::fs::write(bench.at("saved/state.json"), state).unwrap();
        },
        "convert @saved DST",
        2,
        "write it anew: datasets.load_from_disk(FOLDER).save_to_disk(OTHER)",
        &["$ cp -r @saved @other && echo {} > @other/state.json", "convert @other DST"],
    ),
    (
        "a README whose configurations are not read",
        |bench| repository(bench, "- !t {config_name: x}\n"),
        "convert @repo DST",
        2,
        "name the files of each split: --split train=FILES --split test=FILES DST instead of SRC",
        &["convert --split train=@repo/en/x.parquet --split test=@repo/de/x.parquet DST"],
    ),
    (
        "a README with several configurations",
        |bench| {
            let configs = "- config_name: en\n  data_files: en/*\n- config_name: de\n  data_files: de/*\n";
            repository(bench, configs);
        },
        "convert @repo DST",
        2,
        "/repo/en/*' DST instead of SRC packs en",
        &["convert --split train=@repo/en/* DST"],
    ),
    (
        "a folder of shards in the source",
        |bench| go(bench, &["pack SRC @p --sidecars none", "$ mkdir -p @repo/data && cp @p/*.tar @repo/data"]),
        "convert @repo DST",
        2,
        "/repo/data, which has shards",
        &["convert @repo/data DST"],
    ),
    (
        "a tree is converted",
        nothing,
        "convert SRC DST",
        2,
        "shards are webdataset tar, TFRecord, ArrayRecord, RecordIO, MDS, LitData, beton, parquet, Arrow, LMDB, HDF5 or numpy files; a \
         tree of images is packed with `shardpack pack SRC DST`",
        &["pack SRC DST"],
    ),
    (
        "sealed and not",
        |bench| {
            packed(bench);
            go(bench, &["pack SRC @p --sidecars none --shards 1", "$ mkdir @a && cp @p/*.tar @a"]);
            go(bench, &["$ ls SRC | awk '{print NR-1\",\"$0}' > @map.csv"]);
        },
        "convert DST @a @x",
        2,
        "convert that source by itself first: sealed datasets can be combined",
        &["convert @a @b --class-map @map.csv", "convert DST @b @x"],
    ),
    (
        "fields of a sealed dataset",
        packed,
        "convert DST @x --label-feature cls",
        2,
        "leave out the options for records, or add --from FORMAT to read it as shards of any writer",
        &["convert DST @x", "convert DST @y --label-feature cls --from webdataset"],
    ),
    (
        "a dataset that has lost its manifest",
        |bench| {
            packed(bench);
            go(bench, &["$ rm DST/manifest.json"]);
        },
        "convert DST @x",
        1,
        "copy it again from where this dataset came from, or pack anew with --force; convert --from FORMAT reads its shards without the manifest",
        &["convert DST @x --from webdataset", "pack SRC DST --force"],
    ),
    (
        "what lies beside shards",
        packed,
        "verify DST/wids.json",
        2,
        "give the folder of the dataset, or its shards",
        &["verify DST", "verify DST/shard-000000.tar"],
    ),
    (
        "xz",
        |bench| {
            go(bench, &["pack SRC @p --shards 1", "$ xz -k @p/shard-000000.tar && mv @p/shard-000000.tar.xz @x.tar.xz"])
        },
        "convert @x.tar.xz DST",
        2,
        "unpack it with xz -dk and give the unpacked file",
        &["$ xz -dk @x.tar.xz", "convert @x.tar DST"],
    ),
    (
        "a pattern of keys",
        |bench| lmdb(bench, ""),
        "convert @l.mdb DST --key-pattern {class",
        2,
        "write it as {class}/{name}.jpg or {split}-{label}-{id}: braces for parts, * for anything",
        &["convert @l.mdb DST --key-pattern {class}/{name}.jpg", "convert @l.mdb @x --key-pattern {class}/*"],
    ),
    (
        "a header shorter than the label",
        |bench| lmdb(bench, "struct.pack(\"<I\", n) +"),
        "convert @l.mdb DST --label-from header:u32le --skip-header 2",
        2,
        "it counts from the beginning of the value; leave it out if the label is all",
        &[
            "convert @l.mdb DST --label-from header:u32le",
            "convert @l.mdb @x --label-from header:u32le --skip-header 4",
        ],
    ),
    (
        "a number of no kind",
        |bench| lmdb(bench, "struct.pack(\"<I\", n) +"),
        "convert @l.mdb DST --label-from header:float",
        2,
        "one of u8, u16le, u16be, u32le, u32be, u64le, u64be; with i in place of u where it is signed",
        &["convert @l.mdb DST --label-from header:u32le", "convert @l.mdb @x --label-from header:i32le"],
    ),
    (
        "a header of the length of a number",
        |bench| lmdb(bench, "struct.pack(\"<I\", n) +"),
        "convert @l.mdb DST",
        2,
        "each has 4 bytes before its image: --skip-header 4, or --label-from header:u32le (or u32be, i32le) if they are the label",
        &["convert @l.mdb DST --skip-header 4", "convert @l.mdb @x --label-from header:u32le"],
    ),
    (
        "a header of one byte",
        |bench| lmdb(bench, "bytes([n]) +"),
        "convert @l.mdb DST",
        2,
        "--skip-header 1, or --label-from header:u8 if that is the label",
        &["convert @l.mdb DST --skip-header 1", "convert @l.mdb @x --label-from header:u8"],
    ),
    (
        "a header of another length",
        |bench| lmdb(bench, "struct.pack(\"<IB\", n, 7) +"),
        "convert @l.mdb DST",
        2,
        "--skip-header 5, with --label-from header:u32le if they begin with the label",
        &["convert @l.mdb DST --skip-header 5", "convert @l.mdb @x --skip-header 5 --label-from header:u32le"],
    ),
    (
        "values of no known encoding",
        |bench| lmdb(bench, "bytes(100) +"),
        "convert @l.mdb DST",
        2,
        "values can be images, pickles, msgpack, Caffe's Datum or pyarrow.serialize: set their type with --from lmdb:DIALECT, \
         the header length with --skip-header N, the place of the label with --label-from",
        &["convert @l.mdb DST --skip-header 100"],
    ),
    (
        "several databases",
        |bench| {
            python(
                bench,
                "env = lmdb.open(\"../l.mdb\", subdir=False, max_dbs=4)\nfor name in (b\"one\", b\"two\"):\n  db = env.open_db(name)\n  \
                 with env.begin(write=True, db=db) as t:\n    for n, image in enumerate(images): t.put(b\"%d\" % n, image)\nenv.close()",
            );
        },
        "convert @l.mdb DST",
        2,
        "choose the feature that holds the images with --image-feature NAME",
        &["convert @l.mdb DST --image-feature one"],
    ),
    (
        "several datasets of images",
        |bench| python(bench, "with h5py.File(\"../f.h5\", \"w\") as f: f[\"one\"], f[\"two\"] = pixels, pixels"),
        "convert @f.h5 DST",
        2,
        "choose the datasets with --image-feature PATH and --label-feature PATH",
        &["convert @f.h5 DST --image-feature one"],
    ),
    (
        "images of another type",
        |bench| {
            let write = "with h5py.File(\"../f.h5\", \"w\") as f: f[\"images\"], f[\"thumbs\"] = pixels.astype(np.float32), pixels";
            python(bench, write);
        },
        "convert @f.h5 DST",
        2,
        "--image-feature thumbs packs that one",
        &["convert @f.h5 DST --image-feature thumbs"],
    ),
    (
        "two datasets of labels",
        |bench| {
            let write = "with h5py.File(\"../f.h5\", \"w\") as f: f[\"images\"], f[\"a/labels\"], f[\"b/labels\"] = pixels, range(6), range(6)";
            python(bench, write);
        },
        "convert @f.h5 DST",
        2,
        "choose one with --label-feature PATH",
        &["convert @f.h5 DST --label-feature a/labels"],
    ),
    (
        "labels that do not fit, and some that do",
        |bench| {
            let write = "with h5py.File(\"../f.h5\", \"w\") as f: f[\"images\"], f[\"labels\"], f[\"y\"] = pixels, range(5), range(6)";
            python(bench, write);
        },
        "convert @f.h5 DST",
        2,
        "--label-feature y takes that one; --no-labels packs without labels",
        &["convert @f.h5 DST --label-feature y", "convert @f.h5 @x --no-labels"],
    ),
    (
        "labels that do not fit",
        |bench| {
            let write = "with h5py.File(\"../f.h5\", \"w\") as f: f[\"images\"], f[\"labels\"], f[\"other\"] = pixels, range(5), range(6)";
            python(bench, write);
        },
        "convert @f.h5 DST",
        2,
        "--no-labels packs without labels; --label-feature PATH names another dataset",
        &["convert @f.h5 DST --no-labels", "convert @f.h5 @x --label-feature other"],
    ),
    (
        "labels of two datasets of images",
        |bench| {
            let write = "with h5py.File(\"../f.h5\", \"w\") as f: f[\"train/images\"], f[\"test/images\"], f[\"y\"] = pixels, pixels, range(6)";
            python(bench, write);
        },
        "convert @f.h5 DST --label-feature y",
        2,
        "choose one with --image-feature PATH",
        &["convert @f.h5 DST --label-feature y --image-feature train/images"],
    ),
    (
        "rows have no keys",
        |bench| {
            go(bench, &["$ echo a,0 > @no.csv"]);
            python(bench, "with h5py.File(\"../f.h5\", \"w\") as f: f[\"images\"], f[\"other\"] = pixels, range(6)")
        },
        "convert @f.h5 DST --label-from @no.csv",
        2,
        "--label-feature PATH names the dataset with their labels",
        &["convert @f.h5 DST --label-feature other"],
    ),
    (
        "a dataset for each image, and labels of all",
        |bench| {
            python(
                bench,
                "with h5py.File(\"../f.h5\", \"w\") as f:\n  for n in range(70): f[\"images/%02d\" % n] = pixels[n % 6]\n  \
                 f[\"labels\"] = range(70)\nopen(\"../labels.csv\", \"w\").writelines(\"%02d,%d\\n\" % (n, n) for n in range(70))",
            );
        },
        "convert @f.h5 DST --image-feature images",
        2,
        "--no-labels packs without labels; --label-from FILE reads labels by image name",
        &[
            "convert @f.h5 DST --image-feature images --no-labels",
            "convert @f.h5 @x --image-feature images --label-from @labels.csv",
        ],
    ),
];
