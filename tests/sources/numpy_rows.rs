//! Arrays of numpy whose rows are samples: the same samples as from HDF5, and as numpy reads them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use shardpack_reader::Dataset;
use shardpack_testing::{Bench, Ran, run, values::write};

/// Files that hold the same arrays, each in a folder of its own kind.
const SOURCES: [&str; 3] = ["rows.npz", "deflated.npz", "files"];

fn written(bench: &Bench) -> PathBuf {
    let out = bench.at("rows");
    fs::create_dir(&out).unwrap();
    assert!(write("SHARDPACK_PYTHON", "write_rows.py", &[out.to_str().unwrap()]));
    out
}

fn convert(source: &Path, dst: &Path, options: &[&str]) -> Ran {
    run(&[&["convert", source.to_str().unwrap(), dst.to_str().unwrap()], options].concat())
}

fn python(arguments: &[&str]) -> String {
    let program = std::env::var_os("SHARDPACK_PYTHON").unwrap();
    let ran = Command::new(program).args(arguments).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

/// Writes files with `import numpy as np`, in the folder `name`.
fn numpy(bench: &Bench, name: &str, script: &str) -> PathBuf {
    let folder = bench.at(name);
    fs::create_dir(&folder).unwrap();
    let script = format!(
        "import os, sys, numpy as np\nos.chdir(sys.argv[1])\nx = (np.arange(20 * 6 * 5) % 251).astype('u1').reshape(20, 6, 5)\n\
         y = np.arange(20) % 4\n{script}"
    );
    python(&["-c", &script, folder.to_str().unwrap()]);
    folder
}

/// Contents of each sample by the number of its row, with its label.
fn samples(dst: &Path) -> BTreeMap<Vec<u8>, (Option<i64>, Vec<Vec<u8>>)> {
    let dataset = Dataset::open(dst).unwrap();
    let (mut reader, mut all) = (dataset.reader(..).unwrap(), BTreeMap::new());
    let fields = dataset.manifest().components.len();
    assert!(fields > 0);
    while let Some(sample) = reader.next().unwrap() {
        let contents = (0..fields).filter_map(|field| Some(sample.content(field).unwrap()?.into_owned()));
        let row = sample.path().rsplit(|byte| *byte == b'/').next().unwrap().to_vec();
        all.insert(row, (sample.label(), contents.collect()));
    }
    all
}

#[test]
fn rows_are_the_samples_that_numpy_and_hdf5_have() {
    let bench = Bench::new();
    let written = written(&bench);
    let compare = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/compare_rows.py");
    for (name, splits, count) in [("images", &["train", "test"][..], 80), ("values", &[""], 3000)] {
        let folder = written.join(name);
        let of_hdf5 = bench.at(&format!("{name}-h5"));
        convert(&folder.join("rows.h5"), &of_hdf5, &[]).code(0);
        for source in SOURCES {
            let dst = bench.at(&format!("{name}-{source}"));
            let ran = convert(&folder.join(source), &dst, &["--shards", "2"]).code(0);
            if name == "images" {
                ran.says("array mean").says("splits train, test");
            }
            let folders: Vec<PathBuf> = splits.iter().map(|split| dst.join(split)).collect();
            let names = Dataset::open(&folders[0]).unwrap();
            if source == "files" && name == "images" {
                let path = String::from_utf8(names.row(0).unwrap().path.to_vec()).unwrap();
                assert!(path.contains("x_train.npy/"), "{path}");
            }
            for split in splits {
                let is_same = samples(&dst.join(split)) == samples(&of_hdf5.join(split));
                assert!(is_same, "{name}, {source}, {split}");
            }
            let mut arguments = vec![compare.to_str().unwrap(), ""];
            let truth = folder.join("rows.npz");
            arguments[1] = truth.to_str().unwrap();
            arguments.extend(folders.iter().map(|folder| folder.to_str().unwrap().trim_end_matches('/')));
            assert_eq!(python(&arguments).trim(), count.to_string(), "{name}, {source}");
            run(&["verify", dst.to_str().unwrap(), "--quiet", "--against", folder.join(source).to_str().unwrap()])
                .code(0);
        }
    }
}

#[test]
fn every_format_and_parts_of_a_conversion_have_the_same_samples() {
    let bench = Bench::new();
    let source = numpy(&bench, "source", "np.save('X.npy', np.asfortranarray(x)); np.save('y.npy', y)");
    let whole = bench.at("whole");
    convert(&source, &whole, &["--shards", "2"]).code(0);
    let expected = samples(&whole);
    assert_eq!(expected.len(), 20);
    for format in ["mds", "tfrecord", "recordio"] {
        let dst = bench.at(format);
        convert(&source, &dst, &["--format", format]).code(0);
        assert_eq!(samples(&dst).len(), 20, "{format}");
        run(&["verify", dst.to_str().unwrap(), "--quiet", "--against", source.to_str().unwrap()]).code(0);
    }
    let dst = bench.at("parts");
    for part in ["1/2", "2/2"] {
        convert(&source, &dst, &["--shards", "2", "--part", part]).code(0);
    }
    run(&["merge", dst.to_str().unwrap()]).code(0);
    assert!(samples(&dst) == expected);
    // A label that changed is found, though it lies in another file than the images.
    numpy(&bench, "other", "np.save('../source/y.npy', y[::-1])");
    run(&["verify", whole.to_str().unwrap(), "--quiet", "--against", source.to_str().unwrap()]).code(1);
}

#[test]
fn arrays_that_fit_no_rule_are_refused_by_name() {
    let bench = Bench::new();
    let rows = [
        ("np.save('X.npy', x); np.save('y.npy', y[:19])", "labels y int64 19 do not go with images X uint8 20×6×5"),
        (
            "np.save('X.npy', x / 2); np.save('y.npy', y[:19])",
            "arrays of different numbers of rows: X float64 20×6×5, y int64 19",
        ),
        ("np.save('X.npy', x); np.save('y.npy', y.astype(object))", "array y: items are Python objects"),
        ("np.save('X.npy', x); np.save('y.npy', np.zeros(20, 'i4,f4'))", "array y: items have named fields"),
        ("np.save('X.npy', x); np.save('y.npy', np.array(3))", "no table of samples and labels"),
        ("np.save('X.npy', x[:0]); np.save('y.npy', y[:0])", "no table of samples and labels"),
        ("np.save('a.npy', x); np.save('b.npy', x)", "no table of samples and labels"),
        ("np.save('X_train.npy', x); np.save('y_train.npy', x)", "labels y_train uint8 20×6×5 do not go with images"),
        ("np.savez('a.npz', image=x[0], mask=x[0])", "no table of samples and labels"),
        ("np.savez('a.npz', x=x, y=y); np.savez('b.npz', x=x, y=y)", "no table of samples and labels"),
        (
            "np.save('X.npy', x); np.save('y.npy', y); open('X.npy', 'r+b').truncate(400)",
            "array X: truncated: array (20, 6, 5) of |u1 is 600 bytes, there are 272",
        ),
        (
            "np.savez('a.npz', x=x, y=y); b = bytearray(open('a.npz', 'rb').read()); b[300] ^= 1; open('a.npz', 'wb').write(b)",
            "damaged: its CRC-32 is",
        ),
    ];
    for (number, (script, expected)) in rows.into_iter().enumerate() {
        let source = numpy(&bench, &format!("source-{number}"), script);
        let ran = convert(&source, &bench.at(&format!("no-{number}")), &[]);
        assert_ne!(ran.code, 0, "{script}");
        ran.says(expected);
    }
}

#[test]
fn files_of_one_sample_stay_samples_of_pack_and_tables_are_refused() {
    let bench = Bench::new();
    let dst = bench.at("dst");
    let pack = |folder: &Path| run(&["pack", folder.to_str().unwrap(), dst.to_str().unwrap(), "--no-labels"]);
    for (name, script, expected) in [
        ("files", "np.save('X_train.npy', x); np.save('y_train.npy', y)", "are arrays of 20 rows"),
        ("lengths", "np.save('X_train.npy', x); np.save('y_train.npy', y[:19])", "and y_train.npy has 19"),
        ("archive", "np.savez('a.npz', x=x, y=y)", "a.npz has x uint8 20×6×5 and y int64 20"),
    ] {
        let source = numpy(&bench, name, script);
        pack(&source).code(2).says(expected).says(&format!("shardpack convert {} DST", source.display()));
    }
    // Archives of one sample each, as scans of organs have them, with axes of one length.
    let source = numpy(&bench, "samples", "[np.savez(f'{n}.npz', image=x[n] / 2, label=x[n] % 3) for n in range(20)]");
    pack(&source).code(0).says("each .npz is a sample of its arrays");
    run(&["verify", dst.to_str().unwrap(), "--quiet", "--against", source.to_str().unwrap()]).code(0);
    assert_eq!(Dataset::open(&dst).unwrap().len(), 20);
}

#[test]
fn an_array_in_fortran_order_is_read_within_the_memory() {
    let bench = Bench::new();
    let source = numpy(
        &bench,
        "source",
        "np.save('X.npy', np.asfortranarray(np.zeros((2000, 200, 200), 'u1'))); np.save('y.npy', np.zeros(2000, 'u1'))",
    );
    let ran = convert(&source, &bench.at("no"), &["--memory", "64MiB"]).code(2);
    ran.says("arrays in Fortran order are read whole, X").says("numpy.ascontiguousarray");
}

/// Writes the files of MNIST: 20 images for training and 8 for tests.
const MNIST: &str = "import gzip, struct
def idx(name, items, opened):
    head = bytes([0, 0, 8, items.ndim]) + struct.pack(f'>{items.ndim}i', *items.shape)
    with opened(name, 'wb') as file: file.write(head + items.astype('u1').tobytes())
def mnist(opened=open, end='', labels=y):
    idx('train-images-idx3-ubyte' + end, x, opened); idx('train-labels-idx1-ubyte' + end, labels, opened)
    idx('t10k-images-idx3-ubyte' + end, x[:8], opened); idx('t10k-labels-idx1-ubyte' + end, y[:8], opened)
";

#[test]
fn files_of_mnist_are_the_arrays_that_they_hold() {
    let bench = Bench::new();
    let arrays = numpy(&bench, "arrays", "np.savez('a.npz', x_train=x, y_train=y, x_test=x[:8], y_test=y[:8])");
    let expected = bench.at("expected");
    convert(&arrays, &expected, &[]).code(0);
    for (name, script) in [("plain", "mnist()"), ("gzip", "mnist(gzip.open, '.gz')")] {
        let source = numpy(&bench, name, &format!("{MNIST}{script}"));
        let dst = bench.at(&format!("{name}-dst"));
        convert(&source, &dst, &[]).code(0).says("4 files of mnist");
        for split in ["train", "test"] {
            assert!(samples(&dst.join(split)) == samples(&expected.join(split)), "{name}, {split}");
        }
        run(&["verify", dst.to_str().unwrap(), "--quiet", "--against", source.to_str().unwrap()]).code(0);
        let ran = run(&["pack", source.to_str().unwrap(), bench.at("no").to_str().unwrap(), "--no-labels"]).code(2);
        ran.says("is of MNIST, whose samples are rows of arrays").says("packs each row as a sample");
    }
    for (number, (script, expected)) in [
        ("mnist(labels=y[:19])", "labels train-labels uint8 19 do not go with images train-images uint8 20×6×5"),
        ("mnist(); open('train-images-idx3-ubyte', 'ab').write(b'x')", "617 bytes, 616 in its head"),
        ("mnist(); open('train-images-idx3-ubyte', 'r+b').truncate(600)", "truncated: 20×6×5 items"),
        ("mnist(); open('train-labels-idx1-ubyte', 'wb').write(b'')", "array train-labels: damaged"),
        ("mnist(gzip.open, '.gz'); name = 'train-images-idx3-ubyte.gz'; b = bytearray(open(name, 'rb').read()); b[-6] ^= 1; open(name, 'wb').write(b)", "array train-images: damaged"),
        ("mnist(gzip.open, '.gz'); gzip.open('train-images-idx3-ubyte.gz', 'ab').write(b'more')", "array train-images: 617 bytes, 616 in its head"),
        ("mnist(); mnist(gzip.open, '.gz')", "several files with an array test-images"),
    ]
    .into_iter()
    .enumerate()
    {
        let source = numpy(&bench, &format!("wrong-{number}"), &format!("{MNIST}{script}"));
        let ran = convert(&source, &bench.at(&format!("no-{number}")), &[]);
        assert_ne!(ran.code, 0, "{script}");
        ran.says(expected);
    }
}

/// Writes the batches of CIFAR as Python 2 did: text and pixels are strings of bytes.
const CIFAR: &str = "import io, pickle, struct
class Python2(pickle._Pickler):
    dispatch = dict(pickle._Pickler.dispatch)
    def bytes_of_2(self, text):
        text = text if isinstance(text, bytes) else text.encode('latin1')
        head = b'U' + bytes([len(text)]) if len(text) < 256 else b'T' + struct.pack('<i', len(text))
        self.write(head + text)
        self.memoize(text)
    dispatch[bytes] = dispatch[str] = bytes_of_2
def dump(name, value):
    with open(name, 'wb') as file: Python2(file, 2).dump(value)
pixels = (np.arange(50 * 3072) * 7 % 251).astype('u1').reshape(50, 3072)
def batch(rows, **more):
    return {'data': pixels[rows], 'filenames': [f'f{n}.png' for n in range(rows.start, rows.stop)], **more}
def cifar10(names=['cat', 'dog', 'owl'], count=10):
    for n in range(4):
        rows = slice(n * 10, n * 10 + 10)
        labels = [row % 3 for row in range(rows.start, rows.stop)][:count]
        dump(f'data_batch_{n + 1}' if n < 3 else 'test_batch', batch(rows, labels=labels, batch_label='one'))
    if names: dump('batches.meta', {'label_names': names, 'num_vis': 3072})
def cifar100():
    for name, rows in ('train', slice(0, 30)), ('test', slice(30, 40)):
        labels = [row % 3 for row in range(rows.start, rows.stop)]
        dump(name, batch(rows, fine_labels=labels, coarse_labels=[0] * len(labels)))
    dump('meta', {'fine_label_names': ['cat', 'dog', 'owl'], 'coarse_label_names': ['x']})
";

#[test]
fn batches_of_cifar_are_the_rows_that_they_hold() {
    let bench = Bench::new();
    let arrays = numpy(
        &bench,
        "arrays",
        &format!(
            "{CIFAR}x = pixels.reshape(-1, 3, 32, 32); y = np.arange(50) % 3\n\
             np.savez('a.npz', x_train=x[:30], y_train=y[:30], x_test=x[30:40], y_test=y[30:40])"
        ),
    );
    let expected = bench.at("expected");
    convert(&arrays, &expected, &[]).code(0);
    // The images of the samples with their labels; file names are keys here.
    let images = |dst: &Path| {
        let mut all: Vec<_> =
            samples(dst).into_values().map(|(label, contents)| (label, contents[0].clone())).collect();
        all.sort();
        all
    };
    for (name, script) in [("ten", "cifar10()"), ("hundred", "cifar100()")] {
        let source = numpy(&bench, name, &format!("{CIFAR}{script}"));
        let dst = bench.at(&format!("{name}-dst"));
        let ran = run(&["pack", source.to_str().unwrap(), bench.at("no").to_str().unwrap(), "--no-labels"]).code(2);
        ran.says("is of CIFAR, whose samples are rows of arrays").says("packs each row as a sample");
        convert(&source, &dst, &[]).code(0).says("cifar").says("splits train, test").says("in 3 classes");
        for split in ["train", "test"] {
            assert!(images(&dst.join(split)) == images(&expected.join(split)), "{name}, {split}");
            let dataset = Dataset::open(dst.join(split)).unwrap();
            let classes: Vec<_> = dataset.classes().iter().map(|class| class.name.clone()).collect();
            assert_eq!(classes, ["cat", "dog", "owl"], "{name}");
        }
        run(&["verify", dst.to_str().unwrap(), "--quiet", "--against", source.to_str().unwrap()]).code(0);
    }
    for (number, (script, expected)) in [
        ("cifar10(count=9)", "labels labels int64 9 do not go with images data uint8 10×3×32×32"),
        ("cifar10(); open('data_batch_2', 'r+b').truncate(9000)", "data_batch_2"),
        ("cifar10(); dump('data_batch_2', [1, 2])", "a pickle of a list, no map"),
        ("cifar10(); pickle.dump({'data': os.system}, open('data_batch_2', 'wb'))", "data_batch_2"),
    ]
    .into_iter()
    .enumerate()
    {
        let source = numpy(&bench, &format!("wrong-{number}"), &format!("{CIFAR}{script}"));
        let ran = convert(&source, &bench.at(&format!("no-{number}")), &[]);
        assert_ne!(ran.code, 0, "{script}");
        ran.says(expected);
    }
}
