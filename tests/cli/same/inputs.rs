//! Creates the sources of the cases.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    time::{Duration, SystemTime},
};

use shardpack_testing::{jpeg, lmdb, photos, places};

/// Creates all sources in `folder`.
pub fn write(folder: &Path) {
    fs::create_dir(folder).unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    symlink(fixtures.join("vectors"), folder.join("vectors")).unwrap();
    for name in ["deflated.npz", "stored.npz"] {
        put(&folder.join("npz/arrays").join(name), &fs::read(fixtures.join("npz").join(name)).unwrap());
    }
    for (number, name) in ["a/1", "a/2", "b/1", "b/2", "c/1"].into_iter().enumerate() {
        put(&folder.join(format!("pairs/{name}.jpg")), &jpeg(60 + number as u64, 6000));
        put(&folder.join(format!("pairs/{name}.txt")), format!("caption {number}").as_bytes());
        put(&folder.join(format!("bad/{name}.jpg")), &jpeg(number as u64, 6000));
        put(&folder.join(format!("splits/train/{name}.jpg")), &jpeg(20 + number as u64, 7000));
        put(&folder.join(format!("splits/val/{name}.jpg")), &jpeg(40 + number as u64, 8000));
    }
    lmdb::write(&[photos().to_str().unwrap(), folder.join("lmdb").to_str().unwrap(), "20", "dict", "caffe"]);
    put(&folder.join("bad/a/damaged.jpg"), b"not an image");
    put(&folder.join("bad/c/empty.png"), b"");
    let mut list = "path,label\n".to_owned();
    let mut split = "path,label,split\n".to_owned();
    for (number, (path, bytes)) in places::files_in(&photos()).into_iter().enumerate() {
        put(&folder.join("tree").join(&path), &bytes);
        let class = path.split('/').next().unwrap();
        list += &format!("{path},{class}\n");
        split += &format!("{path},{class},{}\n", if number % 5 == 0 { "val" } else { "train" });
    }
    fs::write(folder.join("list.csv"), list).unwrap();
    fs::write(folder.join("split.csv"), split).unwrap();
}

/// Writes a file with a fixed time.
fn put(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    fs::File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
}
