//! Writes the same boxes as label files of kinds whose classes have any name.

use shardpack_format::image_header::Header;
use shardpack_testing::{Bench, jpeg};

/// Objects by the path of the image: class name, and edges in pixels of the image.
pub type Objects = &'static [(&'static str, [f32; 4])];

pub const IMAGES: [(&str, Objects); 4] = [
    ("train/1", &[("dog", [0.0, 0.0, 20.0, 10.0]), ("traffic light", [4.0, 5.0, 9.0, 8.5])]),
    ("train/2", &[]),
    ("valid/3", &[("ant", [1.0, 2.0, 3.0, 4.0])]),
    ("valid/4", &[("dog", [2.0, 2.0, 12.0, 12.0]), ("dog", [1.0, 1.0, 5.0, 6.0])]),
];
/// All classes, sorted; some splits lack some.
pub const CLASSES: [&str; 3] = ["ant", "dog", "traffic light"];

/// A kind of label files.
pub struct Kind {
    pub name: &'static str,
    /// The option `--with`.
    pub with: &'static str,
    /// Writes the label files of all images.
    pub write: fn(&Bench),
}

pub const KINDS: [Kind; 7] = [
    Kind { name: "voc", with: "boxes=voc:*.xml", write: |bench| each(bench, "xml", voc) },
    Kind { name: "labelme", with: "boxes=labelme:*.json", write: |bench| each(bench, "json", labelme) },
    Kind { name: "coco", with: "boxes=coco:_annotations.coco.json", write: coco },
    Kind { name: "csv", with: "boxes=csv:_annotations.csv", write: csv },
    Kind { name: "cvat", with: "boxes=cvat:annotations.xml", write: cvat },
    Kind { name: "via", with: "boxes=via:via_region_data.json", write: via },
    Kind { name: "scalabel", with: "boxes=scalabel:labels.json", write: scalabel },
];

pub fn image(name: &str) -> Vec<u8> {
    jpeg(u64::from(name.as_bytes()[6]), 5000)
}

pub fn size_of(name: &str) -> (u32, u32) {
    let header = Header::parse(&image(name));
    (header.width, header.height)
}

fn each(bench: &Bench, extension: &str, text: fn(&str, Objects) -> String) {
    for (name, objects) in IMAGES {
        bench.file(format!("{name}.{extension}"), text(name, objects).as_bytes());
    }
}

fn voc(name: &str, objects: Objects) -> String {
    let (width, height) = size_of(name);
    let object = |(class, [left, top, right, bottom]): &(&str, [f32; 4])| {
        format!(
            "<object><name>{class}</name><pose>Unspecified</pose><difficult>{}</difficult><bndbox><xmin>{}</xmin>\
             <ymin>{}</ymin><xmax>{right}</xmax><ymax>{bottom}</ymax></bndbox></object>\n",
            u8::from(*class == "ant"),
            left + 1.0,
            top + 1.0,
        )
    };
    let objects: String = objects.iter().map(object).collect();
    format!("<annotation>\n<size><width>{width}</width><height>{height}</height></size>\n{objects}</annotation>\n")
}

fn labelme(name: &str, objects: Objects) -> String {
    let (width, height) = size_of(name);
    let shape = |(class, [left, top, right, bottom]): &(&str, [f32; 4])| serde_json::json!({"label": class, "points": [[right, bottom], [left, top]], "shape_type": "rectangle"});
    let shapes: Vec<_> = objects.iter().map(shape).collect();
    format!(
        r#"{{"version": "5.0.1", "flags": {{}}, "shapes": {}, "imageHeight": {height}, "imageWidth": {width}}}"#,
        serde_json::Value::from(shapes)
    )
}

/// A file for each split, with ids that are not the numbers of the classes.
fn coco(bench: &Bench) {
    for split in ["train", "valid"] {
        let (mut images, mut annotations) = (Vec::new(), Vec::new());
        for (name, objects) in IMAGES.iter().filter(|(name, _)| name.starts_with(split)) {
            let (width, height) = size_of(name);
            let file = format!("{}.jpg", &name[6..]);
            images.push(serde_json::json!({"id": name, "file_name": file, "width": width, "height": height}));
            for (class, [left, top, right, bottom]) in *objects {
                let category = 10 + CLASSES.iter().position(|known| known == class).unwrap();
                annotations.push(serde_json::json!({"image_id": name, "category_id": category,
                    "bbox": [left, top, right - left, bottom - top], "iscrowd": 0}));
            }
        }
        let categories: Vec<_> = (0..CLASSES.len())
            .rev()
            .map(|at| (CLASSES[at], 10 + at))
            .map(|(name, id)| serde_json::json!({"id": id, "name": name}))
            .collect();
        let file = serde_json::json!({"images": images, "annotations": annotations, "categories": categories});
        bench.file(format!("{split}/_annotations.coco.json"), file.to_string().as_bytes());
    }
}

/// A file for each split; an image without objects has a row without edges.
fn csv(bench: &Bench) {
    for split in ["train", "valid"] {
        let mut text = "filename,width,height,class,xmin,ymin,xmax,ymax\n".to_owned();
        for (name, objects) in IMAGES.iter().filter(|(name, _)| name.starts_with(split)) {
            let (width, height) = size_of(name);
            let start = format!("{}.jpg,{width},{height}", &name[6..]);
            if objects.is_empty() {
                text += &format!("{start},,,,,\n");
            }
            for (class, [left, top, right, bottom]) in *objects {
                text += &format!("{start},{class},{left},{top},{right},{bottom}\n");
            }
        }
        bench.file(format!("{split}/_annotations.csv"), text.as_bytes());
    }
}

/// Writes a file for each split: `image` has the text of an image, from its name, its size and its objects; `file` that of all images.
fn each_split(
    bench: &Bench,
    file: &str,
    image: impl Fn(&str, (u32, u32), Objects) -> String,
    join: impl Fn(Vec<String>) -> String,
) {
    for split in ["train", "valid"] {
        let own = IMAGES.iter().filter(|(name, _)| name.starts_with(split));
        let images = own.map(|(name, objects)| image(&format!("{}.jpg", &name[6..]), size_of(name), objects));
        bench.file(format!("{split}/{file}"), join(images.collect()).as_bytes());
    }
}

fn cvat(bench: &Bench) {
    let shape = |(class, [left, top, right, bottom]): &(&str, [f32; 4])| {
        format!(
            "<box label=\"{class}\" occluded=\"0\" xtl=\"{left}\" ytl=\"{top}\" xbr=\"{right}\" ybr=\"{bottom}\" z_order=\"0\"></box>\n"
        )
    };
    each_split(
        bench,
        "annotations.xml",
        |name, (width, height), objects| {
            let shapes: String = objects.iter().map(shape).collect();
            format!("<image id=\"0\" name=\"{name}\" width=\"{width}\" height=\"{height}\">{shapes}</image>\n")
        },
        |images| format!("<annotations><version>1.1</version>\n{}</annotations>\n", images.concat()),
    );
}

fn via(bench: &Bench) {
    each_split(
        bench,
        "via_region_data.json",
        |name, _, objects| {
            let region = |(class, [left, top, right, bottom]): &(&str, [f32; 4])| {
                let shape = serde_json::json!({"name": "rect", "x": left, "y": top, "width": right - left, "height": bottom - top});
                serde_json::json!({"shape_attributes": shape, "region_attributes": {"type": class}})
            };
            let regions: Vec<_> = objects.iter().map(region).collect();
            format!("\"{name}7\": {}", serde_json::json!({"filename": name, "size": 7, "regions": regions}))
        },
        |images| format!("{{{}}}", images.join(",")),
    );
}

fn scalabel(bench: &Bench) {
    each_split(
        bench,
        "labels.json",
        |name, (width, height), objects| {
            let label = |(class, [x1, y1, x2, y2]): &(&str, [f32; 4])| serde_json::json!({"category": class, "box2d": {"x1": x1, "y1": y1, "x2": x2, "y2": y2}});
            let labels: Vec<_> = objects.iter().map(label).collect();
            serde_json::json!({"name": name, "size": {"width": width, "height": height}, "labels": labels}).to_string()
        },
        |images| format!("[{}]", images.join(",")),
    );
}
