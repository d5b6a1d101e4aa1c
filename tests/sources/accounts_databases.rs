//! Checks LMDB and HDF5 files against the counts of py-lmdb and h5py.
//!
//! Each entry or row is packed, named as not packed, or counted as something other than a sample. `convert`, `verify` and
//! `inspect`
//! agree on these counts.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use shardpack_source::ledger::{self, Fate};
use shardpack_testing::{Bench, Ran, photo, run};

/// Writes odd environments; `NAME.count` holds the number of entries that py-lmdb counts.
const WRITE_LMDB: &str = r"
import os, pickle, sys, lmdb
photo, out = open(sys.argv[1], 'rb').read(), sys.argv[2]
image = lambda n: photo + b'%d' % n
def write(name, *transactions, database=None, **options):
    environment = lmdb.open(os.path.join(out, name + '.lmdb'), map_size=1 << 26, subdir=False, max_dbs=4, **options)
    for pairs in transactions:
        with environment.begin(write=True) as transaction:
            for key, value in pairs:
                transaction.put(key, value)
    with environment.begin() as transaction:
        entries = transaction.stat()['entries']
    environment.close()
    open(os.path.join(out, name + '.count'), 'w').write(str(entries))
plain = [(b'%d' % n, image(n)) for n in range(5)]
write('plain', plain)
write('claims', plain + [(b'__len__', b'5'), (b'__keys__', pickle.dumps([k for k, _ in plain]))])
write('keys-of-claims', plain + [(b'len', image(5)), (b'meta', image(6)), (b'label-1.jpg', image(7))])
write('no-images', plain + [(b'x', b'text'), (b'empty', b''), (b'short', b'\xff')])
write('odd-keys', [(k, image(n)) for n, k in enumerate([b'\xff\xfe', b'a/../b', b'a\nb', b'/', b'/x', b'x', b'a/', b' ', b'k' * 511])]
      + [(b'bad\nkey', b'text'), (b'bad\xff', b'text')])
ocr = lambda n: [(b'image-%09d' % n, image(n)), (b'label-%09d' % n, b'%d' % (n % 3))]
write('ocr', [pair for n in range(1, 6) for pair in ocr(n)] + [(b'num-samples', b'5'), (b'lexicon-000000001', b'a,b')])
write('ocr-odd', [pair for n in range(1, 6) for pair in ocr(n)]
      + [ocr(6)[0], ocr(7)[1], (b'photo-8', image(8)), (b'num-samples', b'6')])
write('some-labels', [(b'cat/1', image(1)), (b'dog/2', image(2)), (b'3', image(3))])
dump = lambda value: pickle.dumps(value, 4)
write('pickles', [(b'%d' % n, dump((image(n), n % 3))) for n in range(5)]
      + [(b'cut', dump((image(5), 1))[:-9]), (b'number', dump(7)), (b'none', dump((image(6), None)))])
write('negative', [(b'%d' % n, dump((image(n), n - 1))) for n in range(5)])
write('no-labels', [(b'%d' % n, dump(image(n))) for n in range(5)])
write('missing', plain + [(b'__len__', b'7')])
write('damaged-meta', plain, [(b'%d' % n, image(n)) for n in range(5, 12)])
path = os.path.join(out, 'damaged-meta.lmdb')
data = bytearray(open(path, 'rb').read())
newer = max((0, 4096), key=lambda at: int.from_bytes(data[at + 144:at + 152], 'little'))
data[newer + 16] ^= 1
open(path, 'wb').write(data)
with lmdb.open(os.path.join(out, 'duplicates.lmdb'), map_size=1 << 26, subdir=False, max_dbs=4) as environment:
    database = environment.open_db(b'image', dupsort=True)
    with environment.begin(write=True) as transaction:
        for n in range(5):
            transaction.put(b'%d' % n, b'GIF89a\x01\0\x01\0\0\0\0;%d' % n, db=database)
        transaction.put(b'1', b'GIF89a\x01\0\x01\0\0\0\0;x', db=database)
        entries = transaction.stat(database)['entries']
open(os.path.join(out, 'duplicates.count'), 'w').write(str(entries))
for name, beside in (('databases', []), ('databases-beside', plain)):
    with lmdb.open(os.path.join(out, name + '.lmdb'), map_size=1 << 26, subdir=False, max_dbs=4) as environment:
        for split in (b'train', b'val'):
            database = environment.open_db(split)
            with environment.begin(write=True) as transaction:
                for key, value in plain:
                    transaction.put(key, value, db=database)
        with environment.begin(write=True) as transaction:
            for key, value in beside:
                transaction.put(key, value)
            entries = transaction.stat()['entries']
    open(os.path.join(out, name + '.count'), 'w').write(str(entries))
";

/// Writes odd HDF5 files; `NAME.count` holds the number of rows that h5py counts.
const WRITE_HDF5: &str = r"
import os, sys, h5py, numpy as np
photo, out = open(sys.argv[1], 'rb').read(), sys.argv[2]
image = lambda n: photo + b'%d' % n
def write(name, images, **datasets):
    with h5py.File(os.path.join(out, name + '.h5'), 'w') as file:
        data = file.create_dataset('images', (len(images),), h5py.vlen_dtype(np.uint8))
        for number, one in enumerate(images):
            data[number] = np.frombuffer(one, np.uint8)
        for path, value in datasets.items():
            file[path] = value
    with h5py.File(os.path.join(out, name + '.h5')) as file:
        open(os.path.join(out, name + '.count'), 'w').write(str(len(file['images'])))
plain = [image(n) for n in range(6)]
write('plain', plain, labels=[0, 1, 2, 0, 1, 2])
write('no-labels', plain)
write('no-images', plain[:3] + [b'', b'text', photo[:2]], labels=range(6))
write('negative', plain, labels=[0, 1, -1, 0, 1, 2])
write('not-whole', plain, labels=[0, 1, 1.5, np.nan, np.inf, 2])
write('some-labels', plain, labels=np.array(['a', 'b', '', 'a', 'b', 'c'], 'S'))
write('names', plain, labels=[0, 1, 2, 0, 1, 2], filenames=np.array(['a', 'a', 'b\nc', '/', '..', 'x/y'], 'S'))
with h5py.File(os.path.join(out, 'each.h5'), 'w') as file:
    for number in range(6):
        file[f'{number % 2}/{number}'] = np.frombuffer(image(number), np.uint8)
    file['0/float'], file['1/text'], file['1/group/deep'] = np.zeros(9), 'text', np.frombuffer(image(9), np.uint8)
    open(os.path.join(out, 'each.count'), 'w').write('9')
";

fn written(bench: &Bench, script: &str) -> PathBuf {
    let Some(python) = std::env::var_os("SHARDPACK_PYTHON") else {
        panic!("SHARDPACK_PYTHON is not set: run `cargo xtask test`, which sets up Python");
    };
    let (image, out) = (bench.at("photo.jpg"), bench.at("written"));
    fs::write(&image, photo()).unwrap();
    fs::create_dir(&out).unwrap();
    let ran = Command::new(python).args(["-c", script]).args([&image, &out]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    out
}

fn convert(source: &Path, dst: &Path, options: &[&str]) -> Ran {
    run(&[&["convert", source.to_str().unwrap(), dst.to_str().unwrap()], options].concat())
}

/// Expected result for a file.
enum Expected {
    /// Numbers of samples, of refused samples, and of entries that are no samples.
    Counted(u64, u64, u64),
    /// Number of samples, and number of lines about missing data. The count of the library differs from the original count here.
    Lost(u64, u64),
    /// `convert` stops with a question that contains this text.
    Asked(&'static str),
}
use Expected::{Asked, Counted, Lost};

/// Converts a file with and without `--on-bad skip`, and compares the report with the count of its library.
fn check(bench: &Bench, from: &Path, name: &str, expected: &Expected) {
    let count: u64 = fs::read_to_string(from.with_extension("count")).unwrap().parse().unwrap();
    let dst = bench.at(&format!("out-{name}"));
    if let Asked(says) = expected {
        convert(from, &dst, &[]).code(2).says(says).clean_error();
        run(&["verify", from.to_str().unwrap()]).code(1).says(says);
        return;
    }
    let document = convert(from, &dst, &["--on-bad", "skip", "--json"]).code(0).json();
    let counts = &document["datasets"][0]["ledger"];
    let of = |what: &str| counts[what].as_u64().unwrap();
    let passed: u64 =
        document["ignored_files"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    let (packed, skipped) = match expected {
        Counted(packed, skipped, others) => {
            assert_eq!(packed + skipped + others, count, "{name}: the table says otherwise than the library");
            assert_eq!(passed, *others, "{name}: {document}");
            (packed, skipped)
        }
        Lost(packed, lines) => (packed, lines),
        Asked(_) => unreachable!("returned above"),
    };
    assert_eq!(
        (of("packed"), of("skipped"), of("filtered"), of("duplicates")),
        (*packed, *skipped, 0, 0),
        "{name}: {document}"
    );
    // Each entry that is not packed has its own line, in the ledger and in the document.
    let lines = ledger::read(&fs::read(dst.join("ledger.jsonl")).unwrap_or_default()).unwrap();
    let paths: BTreeSet<_> = lines.iter().filter(|line| line.fate == Fate::Skipped).map(|line| &line.path).collect();
    let named = document["unpacked"].as_array().map_or(0, Vec::len);
    assert_eq!((paths.len() as u64, named as u64), (*skipped, *skipped), "{name}: {document}");
    // Images of an HDF5 file are extracted first, so their byte offsets mean nothing to the user.
    let is_hdf5 = from.extension().is_some_and(|extension| extension == "h5");
    let is_plain = |line: &Value| {
        let reason = line["reason"].as_str().unwrap();
        !(reason.contains('\n') || is_hdf5 && reason.contains(", byte "))
    };
    assert!(document["unpacked"].as_array().unwrap().iter().all(is_plain), "{name}: {document}");
    run(&["verify", "--quiet", dst.to_str().unwrap()]).code(0);
    // Without `--on-bad skip`, `convert` refuses the file and `verify` reports the reason; a file without bad entries passes
    // both.
    let code = i32::from(*skipped > 0);
    convert(from, &bench.at(&format!("all-{name}")), &["--quiet"]).code(code);
    let ran = run(&["verify", from.to_str().unwrap()]).code(code);
    if name == "no-images" {
        // Each sample is as written, except one HDF5 row that is empty.
        let verified = run(&["verify", from.to_str().unwrap(), "--json"]).json();
        let count = |name: &str| verified[name].as_u64().unwrap();
        let empty = u64::from(is_hdf5);
        assert_eq!((count("damaged_samples"), count("without_image")), (empty, skipped - empty), "{name}");
    }
    assert!(!is_hdf5 || !ran.stdout.contains(", byte"), "{name}: {}", ran.stdout);
}

#[test]
fn entries_of_an_lmdb_are_accounted_for() {
    let bench = Bench::new();
    let source = written(&bench, WRITE_LMDB);
    let rows = [
        ("plain", Counted(5, 0, 0)),
        ("claims", Counted(5, 0, 2)),
        ("keys-of-claims", Counted(8, 0, 0)),
        ("no-images", Counted(5, 3, 0)),
        // Two keys have folders, which become classes; the other keys have no folder.
        ("odd-keys", Counted(2, 9, 0)),
        ("ocr", Counted(5, 0, 7)),
        ("ocr-odd", Counted(5, 3, 6)),
        ("some-labels", Counted(2, 1, 0)),
        ("pickles", Counted(5, 3, 0)),
        ("negative", Counted(4, 1, 0)),
        ("no-labels", Counted(5, 0, 0)),
        ("missing", Lost(5, 1)),
        ("damaged-meta", Lost(5, 1)),
        ("duplicates", Counted(5, 1, 0)),
        ("databases", Asked("several databases, and no name shows which holds the images: train, val")),
        ("databases-beside", Counted(5, 2, 0)),
    ];
    for (name, expected) in rows {
        check(&bench, &source.join(format!("{name}.lmdb")), name, &expected);
    }
    let dst = bench.at("without");
    let options = ["--no-labels", "--on-bad", "skip", "--quiet"];
    convert(&source.join("odd-keys.lmdb"), &dst, &options).code(0);
    assert_eq!(shardpack_reader::Dataset::open(&dst).unwrap().len(), 9);
    run(&["verify", "--quiet", dst.to_str().unwrap()]).code(0);
    // The database that the question and the ledger lines name can be converted.
    for name in ["databases", "databases-beside"] {
        let dst = bench.at(&format!("named-{name}"));
        convert(&source.join(format!("{name}.lmdb")), &dst, &["--image-feature", "val", "--quiet"]).code(0);
        assert_eq!(shardpack_reader::Dataset::open(&dst).unwrap().len(), 5);
    }
}

#[test]
fn rows_of_an_hdf5_file_are_accounted_for() {
    let bench = Bench::new();
    let source = written(&bench, WRITE_HDF5);
    let rows = [
        ("plain", Counted(6, 0, 0)),
        ("no-labels", Counted(6, 0, 0)),
        ("no-images", Counted(3, 3, 0)),
        ("negative", Counted(5, 1, 0)),
        ("not-whole", Counted(6, 0, 0)),
        ("some-labels", Counted(5, 1, 0)),
        ("names", Counted(6, 0, 0)),
        ("each", Counted(7, 2, 0)),
    ];
    for (name, expected) in rows {
        check(&bench, &source.join(format!("{name}.h5")), name, &expected);
    }
}
