//! `.beton` files: one by FFCV's own writer, and others by numpy with the structs of FFCV, where each kind of field has its place by numpy's rules.

use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use shardpack_testing::{
    Bench, Ran, images,
    lists::{self, Sample},
    python, root, run,
};

/// Writes files of FFCV's layout: header, fields, samples, pages of data, allocations.
const WRITE: &str = "
import json, os, sys, numpy as np
os.chdir(sys.argv[1])
PAGE = 1 << 21
HEADER = np.dtype([('version', '<u2'), ('fields', '<u2'), ('page', '<u4'), ('samples', '<u8'), ('table', '<u8')], align=True)
FIELD = np.dtype([('type', '<u1'), ('name', ('<u1', 16)), ('arguments', ('<u1', 1024))], align=True)
IMAGE = np.dtype([('mode', '<u1'), ('width', '<u2'), ('height', '<u2'), ('place', '<u8')])
BYTES = np.dtype([('place', '<u8'), ('size', '<u8')])
TYPES = {'float': (0, '<f8'), 'int': (1, '<i8'), 'image': (2, IMAGE), 'bytes': (3, BYTES), 'json': (5, BYTES), 'array': (4, '<u8')}

def write(name, fields, samples):
    types = [np.dtype(TYPES[kind][1]) for kind in fields.values()]
    row = np.dtype([('', type) for type in types], align=True)
    rows = np.zeros(len(samples), dtype=row)
    start = -(-(HEADER.itemsize + len(fields) * FIELD.itemsize + rows.nbytes) // PAGE) * PAGE
    data, allocations = bytearray(), []
    def put(number, content):
        allocations.append((number, start + len(data), len(content)))
        data.extend(content)
        return allocations[-1][1]
    for number, sample in enumerate(samples):
        for column, kind, value in zip(row.names, fields.values(), sample):
            if kind == 'image' and isinstance(value, np.ndarray):
                rows[column][number] = (1, value.shape[1], value.shape[0], put(number, value.tobytes()))
            elif kind == 'image':
                rows[column][number] = (0, 16, 12, put(number, value))
            elif kind == 'bytes':
                rows[column][number] = (put(number, value), len(value))
            elif kind == 'json':
                content = json.dumps(value).encode() + b'\\0'
                rows[column][number] = (put(number, content), len(content))
            else:
                rows[column][number] = value
    data.extend(bytes(-len(data) % PAGE))
    header = np.array((2, len(fields), PAGE, len(samples), start + len(data)), dtype=HEADER)
    head = np.zeros(len(fields), dtype=FIELD)
    for one, (field, kind) in zip(head, fields.items()):
        one['type'] = TYPES[kind][0]
        one['name'][:len(field)] = np.frombuffer(field.encode(), 'u1')
    with open(name, 'wb') as file:
        file.write(header.tobytes() + head.tobytes() + rows.tobytes())
        file.seek(start)
        file.write(data + np.array(allocations, dtype='<u8').tobytes())

jpeg = lambda number: b'\\xff\\xd8\\xff\\xe0' + bytes([number]) * (100 + number) + b'\\xff\\xd9'
pixels = lambda number: np.full((2 + number % 3, 4, 3), number, dtype='u1')
order = {'label': 'int', 'photo': 'image', 'caption': 'bytes', 'age': 'float', 'meta': 'json', 'count': 'int'}
write('mixed.beton', order, [
    (n % 3, jpeg(n) if n % 2 else pixels(n), b'photo %d' % n, n + 0.25, {'n': n}, 10 * n) for n in range(12)])
write('values.beton', {'age': 'float', 'label': 'int', 'meta': 'json'}, [(n / 2, n % 2, [n]) for n in range(5)])
write('array.beton', {'image': 'image', 'covariate': 'array'}, [(jpeg(1), 7)])
";

fn mixed() -> Bench {
    let bench = Bench::new();
    python(WRITE, &bench.at("files"));
    bench
}

fn convert(source: &Path, dst: &Path, options: &[&str]) -> Ran {
    run(&[&["convert", source.to_str().unwrap(), dst.to_str().unwrap()], options].concat())
}

/// The file by FFCV's writer, in `bench`.
fn fixture(bench: &Bench) -> PathBuf {
    let mut content = Vec::new();
    let packed = fs::File::open(root().join("fixtures/beton/ffcv.beton.gz")).unwrap();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut content).unwrap();
    let path = bench.at("train.beton");
    fs::write(&path, content).unwrap();
    path
}

/// Samples by row.
fn rows(dst: &Path) -> BTreeMap<u64, Sample> {
    let row = |path: &str| path.rsplit('/').next().unwrap().split('.').next().unwrap().parse().unwrap();
    lists::samples(dst).into_iter().map(|(path, mut all)| (row(&path), all.remove(0))).collect()
}

#[test]
fn a_file_of_ffcv_is_packed_unchanged() {
    let bench = Bench::new();
    let (source, packed) = (fixture(&bench), bench.at("packed"));
    convert(&source, &packed, &[]).code(0).says("1 file of beton").says("packed  12 of 12");
    let mut found: Vec<_> = images(&packed).into_iter().map(|(label, image)| (label, image.len())).collect();
    found.sort_unstable();
    let lengths = [1514, 1859, 2152, 2200, 1553, 1941, 2974, 3236, 1711, 1797, 2197, 2725];
    assert_eq!(found, (0..).zip(lengths).map(|(at, bytes)| (at / 4, bytes)).collect::<Vec<(i64, usize)>>());
    let (packed, source) = (packed.to_str().unwrap(), source.to_str().unwrap());
    run(&["verify", packed, "--decode", "--against", source]).code(0);
    run(&["verify", source]).code(0).says("12 samples");
    run(&["inspect", source]).code(0).says("beton");
}

#[test]
fn each_field_is_the_image_the_label_or_a_component() {
    let bench = mixed();
    let (source, packed) = (bench.at("files/mixed.beton"), bench.at("packed"));
    convert(&source, &packed, &[]).code(0).says("packed  12 of 12").says("images photo").says("labels label");
    let found = rows(&packed);
    assert_eq!(found.len(), 12);
    for (row, (label, _, components)) in &found {
        assert_eq!(*label, Some(*row as i64 % 3));
        let text = |name: &str| String::from_utf8(components[name].clone()).unwrap();
        let expected =
            [format!("photo {row}"), format!("{row}.25"), format!("{{\"n\": {row}}}"), format!("{}", 10 * row)];
        assert_eq!(["caption", "age", "meta.json", "count"].map(text), expected, "{components:?}");
        let image = components.iter().find(|(name, _)| ["jpg", "npy"].contains(&name.as_str())).unwrap();
        // All have one name, whatever their kinds.
        let (bytes, begins) =
            if row % 2 == 1 { (106 + row, &b"\xff\xd8"[..]) } else { (152 + row % 3 * 12, &b"\x93NUMPY"[..]) };
        assert!(image.1.starts_with(begins) && image.1.len() as u64 == bytes, "row {row}: {} bytes", image.1.len());
    }
    run(&["verify", packed.to_str().unwrap(), "--against", source.to_str().unwrap()]).code(0);
    // Pixels become images, and numbers arrays.
    let options = ["--components", "none", "--target", "age,n=count:uint8", "--on-bad", "skip", "--encode", "png"];
    convert(&source, &bench.at("targets"), &options).says("target  age: float64[]").says("target  n: uint8[]");
    // Without images, a row is a sample of values.
    convert(&bench.at("files/values.beton"), &bench.at("values"), &[]).code(0).says("packed  5 of 5");
    assert_eq!(rows(&bench.at("values"))[&3].2["meta.txt"], b"[3]");
}

#[test]
fn a_damaged_sample_is_bad_and_a_field_that_is_not_read_is_named() {
    let bench = mixed();
    let source = bench.at("files/mixed.beton");
    let mut content = fs::read(&source).unwrap();
    // The place of the second image: behind its mode, width and height.
    let table = 24 + 6 * 1041;
    let sample = u64::from_le_bytes(content[8..16].try_into().unwrap());
    assert_eq!(sample, 12);
    content[table + 72 + 8 + 5] ^= 1;
    fs::write(&source, &content).unwrap();
    convert(&source, &bench.at("refused"), &[]).code(1).says("field photo, row 1: the file has no data of it");
    let dst = bench.at("skipped");
    convert(&source, &dst, &["--on-bad", "skip"]).code(0).says("packed  11 of 12");
    assert!(!rows(&dst).contains_key(&1));
    let cut = bench.at("files/cut.beton");
    fs::write(&cut, &content[..content.len() - 7]).unwrap();
    convert(&cut, &bench.at("cut"), &[]).code(1).says("cut.beton").says("the file is cut");
    let array = bench.at("files/array.beton");
    let ran = convert(&array, &bench.at("array"), &[]).code(2).says("field covariate is of type NDArrayField");
    ran.says("array.beton").clean_error();
}
