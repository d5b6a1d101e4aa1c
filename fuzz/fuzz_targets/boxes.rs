//! Bytes as a label file: YOLO, polygons, Pascal VOC, LabelMe, COCO, or objects in a plan; the first byte picks the kind.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::within;
use shardpack_source::boxes;

fuzz_target!(|input: &[u8]| {
    if let Some((kind, bytes)) = input.split_first() {
        within(4 << 20, 1024, bytes, || {
            boxes::fuzz(*kind, bytes);
        });
    }
});
