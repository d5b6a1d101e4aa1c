//! Pickles of arrays and files of `torch.save` as tables: the same rows as numpy has, and no reading where there are two.

use std::{fs, path::Path};

use shardpack_reader::Dataset;
use shardpack_testing::{Bench, Ran, python, root, run};

const WRITE: &str = "
import sys, pickle, os, datetime, numpy as np
os.chdir(sys.argv[1])
images = (np.arange(40 * 6 * 5) % 251).astype(np.uint8).reshape(40, 6, 5)
labels = np.arange(40) % 3
def write(name, value, protocol=4):
    with open(f'{name}.pkl', 'wb') as file:
        pickle.dump(value, file, protocol=protocol)
for protocol in (0, 2, 3, 4, 5):
    write(f'map-{protocol}', {'X': images, 'y': labels}, protocol)
write('pair', (images, labels))
write('text', {'x': images, 'y': [int(label) for label in labels], 'when': datetime.datetime(2020, 1, 1)})
write('samples', list(zip(images, (int(label) for label in labels))))
write('maps', [{'image': image, 'label': int(label)} for image, label in zip(images, labels)])
write('fortran', {'x': np.asfortranarray(images), 'y': labels})
write('lists', {'x': list(images), 'y': list(labels)})
write('splits', {'train': {'x': images, 'y': labels}, 'test': {'x': images[:10], 'y': labels[:10]}})
write('two', ((images, labels), (images, labels)))
write('arrays', [images[0], images[1]])
write('ragged', [image[:, :2 + n % 3] for n, image in enumerate(images)])
write('ragged-map', {'x': [image[:, :2 + n % 3] for n, image in enumerate(images)], 'y': labels})
write('one', {'image': np.zeros((40, 30), 'u1'), 'mask': np.zeros((40, 30), 'u1')})
write('labels', {'x': datetime.datetime(2020, 1, 1), 'y': labels})
write('number', 7)
with open('dumps.pkl', 'wb') as file:
    pickle.dump(images, file)
    pickle.dump(labels, file)
import gzip
class Python2(pickle._Pickler):
    '''Writes bytes as Python 2 did: as text of no encoding.'''
    dispatch = {**pickle._Pickler.dispatch, bytes: lambda self, value: self.write(b'T' + len(value).to_bytes(4, 'little') + value)}
with gzip.open('pair.pkl.gz', 'wb') as file:
    pickle.dump((images, labels), file)
with gzip.open('mnist.pkl.gz', 'wb') as file:
    # As deeplearning.net's mnist.pkl.gz.
    Python2(file, protocol=2).dump(((images, labels), (images[:6], labels[:6]), (images[:10], labels[:10])))
write('map-of-pairs', {'train': (images, labels), 'test': (images[:10], labels[:10])})
write('images-twice', [(images, images), (images[:10], images[:10])])
write('two-pairs', [(images, labels), (images[:10], labels[:10])])
whole = open('pair.pkl.gz', 'rb').read()
open('cut.pkl.gz', 'wb').write(whole[:-30])
open('flipped.pkl.gz', 'wb').write(whole[:-6] + bytes([whole[-6] ^ 1]) + whole[-5:])
for number in range(40):
    np.save(f'{number}.npy', images[number])
";

fn written() -> Bench {
    let bench = Bench::new();
    python(WRITE, &bench.at("pickles"));
    bench
}

fn convert(source: &Path, dst: &Path, options: &[&str]) -> Ran {
    run(&[&["convert", source.to_str().unwrap(), dst.to_str().unwrap()], options].concat())
}

/// Label and image of each sample, by its row.
fn samples(dst: &Path) -> Vec<(Option<i64>, Vec<u8>)> {
    let dataset = Dataset::open(dst).unwrap();
    let mut all: Vec<_> = (0..dataset.len())
        .map(|number| {
            let sample = dataset.sample(number).unwrap();
            let path = String::from_utf8_lossy(sample.path()).into_owned();
            let row = path.rsplit('/').next().unwrap().split('.').next().unwrap().parse::<u64>().unwrap();
            (row, sample.label(), sample.bytes().to_vec())
        })
        .collect();
    all.sort();
    all.into_iter().map(|(_, label, image)| (label, image)).collect()
}

#[test]
fn arrays_in_pickles_of_every_form_are_the_rows_that_numpy_has() {
    let bench = written();
    let file = |name: &str| bench.at(&format!("pickles/{name}"));
    let expected: Vec<_> = (0..40).map(|row| (Some(row % 3), fs::read(file(&format!("{row}.npy"))).unwrap())).collect();
    for name in
        ["map-0", "map-2", "map-3", "map-4", "map-5", "pair", "text", "samples", "maps", "fortran", "lists", "gzip"]
    {
        let from = file(&if name == "gzip" { "pair.pkl.gz".to_owned() } else { format!("{name}.pkl") });
        let dst = bench.at(name);
        convert(&from, &dst, &[]).code(0).says("of pickled");
        assert!(samples(&dst) == expected, "{name}");
        run(&["verify", "--quiet", dst.to_str().unwrap(), "--against", from.to_str().unwrap()]).code(0);
        run(&["verify", from.to_str().unwrap()]).code(0).says("40 samples");
    }
    assert_eq!(Dataset::open(bench.at("text")).unwrap().manifest().ignored_files.get("array when"), Some(&1));
    convert(&file("splits.pkl"), &bench.at("splits"), &[]).code(0).says("splits train, test");
    assert!(samples(&bench.at("splits/train")) == expected && samples(&bench.at("splits/test")) == expected[..10]);
    convert(&file("mnist.pkl.gz"), &bench.at("mnist"), &[]).code(0).says("splits train, valid, test");
    for (split, rows) in [("train", 40), ("valid", 6), ("test", 10)] {
        assert!(samples(&bench.at(&format!("mnist/{split}"))) == expected[..rows], "{split}");
    }
    let (mnist, source) = (bench.at("mnist"), file("mnist.pkl.gz"));
    run(&["verify", "--quiet", mnist.to_str().unwrap(), "--against", source.to_str().unwrap()]).code(0);
    for name in ["two-pairs", "map-of-pairs"] {
        let dst = bench.at(name);
        convert(&file(&format!("{name}.pkl")), &dst, &[]).code(0).says("splits train, test");
        assert!(samples(&dst.join("train")) == expected && samples(&dst.join("test")) == expected[..10], "{name}");
    }
}

#[test]
fn pickles_with_two_readings_or_none_are_refused_by_name() {
    let bench = written();
    for (name, says) in [
        ("two", "a list of 2 lists of arrays: samples, or columns with a row for each sample"),
        ("images-twice", "a list of 2 values that are not alike"),
        ("arrays", "a list of 2 arrays of one shape: samples, or columns"),
        ("ragged", "a list of 40 values that are not alike"),
        ("ragged-map", "x is a list of arrays of different shapes"),
        ("one", "its arrays look like one sample"),
        ("labels", "labels y without samples: x is byte"),
        ("number", "a pickle of a whole number, no arrays"),
        ("dumps", "bytes behind the first pickle, which are not read"),
    ] {
        let ran = convert(&bench.at(&format!("pickles/{name}.pkl")), &bench.dst(), &[]);
        assert_ne!(ran.code, 0, "{name}");
        ran.says(says).clean_error();
        assert!(!bench.dst().exists(), "{name}");
    }
    for name in ["cut", "flipped"] {
        let ran = convert(&bench.at(&format!("pickles/{name}.pkl.gz")), &bench.dst(), &[]);
        ran.code(1).says("damaged gzip").clean_error();
        assert!(!bench.dst().exists(), "{name}");
    }
    convert(&bench.at("pickles/one.pkl"), &bench.at("rows"), &["--from", "pickled"]).code(0);
    assert_eq!(Dataset::open(bench.at("rows")).unwrap().len(), 40);
    // A pickle in a folder may be anything, unless an option names its kind.
    convert(&bench.at("pickles"), &bench.dst(), &[]).code(2);
}

#[test]
fn tensors_of_torch_are_the_rows_that_they_had() {
    let bench = Bench::new();
    let file = |name: &str| root().join("fixtures/torch").join(name);
    let pixels = |row: usize| (row * 30..row * 30 + 30).map(|value| (value % 251) as u8).collect::<Vec<u8>>();
    convert(&file("pair.pt"), &bench.at("pair"), &[]).code(0).says("images x uint8 12×6×5; labels y int64 12");
    let found = samples(&bench.at("pair"));
    assert_eq!(found.len(), 12);
    for (row, (label, image)) in found.iter().enumerate() {
        assert!(*label == Some(row as i64 % 3) && image.ends_with(&pixels(row)) && image.len() == 128 + 30, "{row}");
    }
    convert(&file("views.pt"), &bench.at("views"), &[]).code(0);
    assert!(samples(&bench.at("views")) == found[2..10]);
    convert(&file("before-zip.pt"), &bench.at("before"), &[]).code(0);
    assert!(samples(&bench.at("before")) == found);
    convert(&file("map.pt"), &bench.at("map"), &[]).code(0).says("x <f4[6x5]").says("1 array version");
    let map = Dataset::open(bench.at("map")).unwrap();
    let floats: Vec<u8> = pixels(0).into_iter().flat_map(|value| f32::from(value).to_le_bytes()).collect();
    let first = (0..12).map(|number| map.sample(number).unwrap()).find(|sample| sample.path().ends_with(b"0"));
    assert!(first.unwrap().content(0).unwrap().unwrap().ends_with(&floats));
    for (name, says) in [
        ("gaps.pt", "a tensor whose items do not lie together"),
        ("bfloat16.pt", "labels y without samples: x is byte"),
        ("list.pt", "a list of tensors, which is not read"),
    ] {
        let ran = convert(&file(name), &bench.dst(), &[]);
        assert_ne!(ran.code, 0, "{name}");
        ran.says(says).clean_error();
    }
    // A flipped bit in a storage is found before its first row is read.
    let mut bytes = fs::read(file("pair.pt")).unwrap();
    let at = bytes.windows(30).position(|window| *window == pixels(0)).unwrap();
    bytes[at + 7] ^= 1;
    fs::write(bench.at("damaged.pt"), bytes).unwrap();
    convert(&bench.at("damaged.pt"), &bench.dst(), &[]).code(1).says("damaged: its CRC-32 is");
}

#[test]
fn the_advice_for_pickles_works() {
    let bench = written();
    let script = format!(
        "
import os, pickle, sys, numpy as np
two, ragged = (pickle.load(open(f'{0}/{{name}}.pkl', 'rb')) for name in ('two', 'ragged'))
samples, labels = two[0]
with open(f'{{sys.argv[1]}}/one.pkl', 'wb') as file:
    pickle.dump({{'x': samples, 'y': labels}}, file)
with open(f'{{sys.argv[1]}}/both.pkl', 'wb') as file:
    pickle.dump((samples, labels), file)
os.mkdir(f'{{sys.argv[1]}}/samples')
for number, sample in enumerate(ragged):
    np.savez(f'{{sys.argv[1]}}/samples/{{number}}.npz', x=sample)
",
        bench.at("pickles").display()
    );
    // pickle.dump({...}) of one reading, and np.savez of a file for each sample.
    python(&script, &bench.at("new"));
    convert(&bench.at("new/one.pkl"), &bench.at("one"), &[]).code(0);
    assert_eq!(samples(&bench.at("one")).len(), 40);
    convert(&bench.at("new/both.pkl"), &bench.at("both"), &[]).code(0);
    assert_eq!(samples(&bench.at("both")).len(), 40);
    let (folder, dst) = (bench.at("new/samples"), bench.at("ragged"));
    run(&["pack", folder.to_str().unwrap(), dst.to_str().unwrap(), "--no-labels"]).code(0);
    assert_eq!(Dataset::open(&dst).unwrap().len(), 40);
}
