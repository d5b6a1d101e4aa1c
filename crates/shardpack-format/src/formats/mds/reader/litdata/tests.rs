//! Chunks made by hand, as LitData's writer makes them.

use super::*;
use crate::component::Form;

const INDEX: &str = r#"{"chunks": [{"chunk_bytes": 1, "chunk_size": 2, "dim": null, "filename": "chunk-0-0.bin"}], "config": {
    "chunk_bytes": 64, "chunk_size": null, "compression": null, "encryption": null, "item_loader": "PyTreeLoader",
    "data_format": ["jpeg", "int", "no_header_numpy:9", "tensor", "bool", "float", "pickle"],
    "data_spec": "[1, {\"type\": \"builtins.dict\", \"context\": \"[\\\"image\\\", \\\"label\\\", \\\"more\\\"]\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}]}]"
}, "updated_at": "1"}"#;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn sample(number: i64) -> Vec<u8> {
    let floats = [1f32, 2.5].map(f32::to_le_bytes).concat();
    let tensor = [words(&[15, 2, 1, 2]), words(&[7, 8])].concat();
    let fields: [&[u8]; 7] = [
        b"\xff\xd8\xff\xe0 photo",
        &number.to_le_bytes(),
        &floats,
        &tensor,
        &[1],
        &0.25f64.to_le_bytes(),
        b"\x80\x04.",
    ];
    let lengths: Vec<u32> = fields.iter().map(|field| field.len() as u32).collect();
    [words(&lengths), fields.concat()].concat()
}

fn chunk(samples: &[Vec<u8>]) -> Vec<u8> {
    let mut at = 4 * (samples.len() as u32 + 2);
    let mut head = vec![samples.len() as u32, at];
    for sample in samples {
        at += sample.len() as u32;
        head.push(at);
    }
    [words(&head), samples.concat()].concat()
}

fn walk(index: &str, bytes: &[u8]) -> Result<Box<dyn Walk>> {
    let index = Index::parse(index.as_bytes())?;
    let input = Input { total_bytes: Some(bytes.len() as u64), bytes: Box::new(std::io::Cursor::new(bytes.to_vec())) };
    index.walk(&index.chunks[0], input, &FieldSelection::default())
}

#[test]
fn samples_have_the_values_of_their_serializers() {
    let bytes = chunk(&[sample(3), sample(-1)]);
    let mut walk = walk(INDEX, &bytes).unwrap();
    let record = walk.next().unwrap().unwrap();
    assert_eq!(record.label.number(), Some(3));
    let mut image = Vec::new();
    walk.image(&mut image).unwrap();
    assert_eq!(image, b"\xff\xd8\xff\xe0 photo");
    let found: Vec<_> =
        record.others.iter().map(|other| (other.name.as_str(), other.form.clone(), other.offset.is_some())).collect();
    let array = |dtype: &str, shape: &[u64]| Some(Form::array(dtype, shape).unwrap());
    assert_eq!(
        found,
        [
            ("more/0", array("<f4", &[2]), true),
            ("more/1", array("<i4", &[1, 2]), true),
            ("more/2", array("|b1", &[]), true),
            ("more/3", None, true),
            // A pickle is never opened.
            ("more/4", None, false),
        ]
    );
    let items = record.others[1].offset.unwrap() as usize;
    assert_eq!(bytes[items..items + 8], words(&[7, 8]));
    assert_eq!(walk.next().unwrap().unwrap().label.number(), Some(-1));
    assert!(walk.next().unwrap().is_none() && walk.lost().is_empty());
}

#[test]
fn no_flipped_bit_panics_and_cuts_are_errors() {
    let whole = chunk(&[sample(3), sample(4)]);
    for end in 0..whole.len() {
        let all = walk(INDEX, &whole[..end]).and_then(|mut walk| {
            while walk.next()?.is_some() {}
            Ok(())
        });
        assert!(all.is_err(), "{end}");
    }
    for bit in 0..whole.len() * 8 {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let Ok(mut walk) = walk(INDEX, &flipped) else { continue };
        while let Ok(Some(_)) = walk.next() {}
    }
}

#[test]
fn an_index_that_cannot_be_followed_says_why() {
    let bytes = chunk(&[sample(3)]);
    for (from, to, what) in [
        ("\"PyTreeLoader\"", "\"TokensLoader\"", "for the TokensLoader of LitData"),
        ("\"encryption\": null", "\"encryption\": {\"level\": \"chunk\"}", "encrypted"),
        ("\"encryption\": null", "\"compression_level\": \"sample\"", "compressed one by one"),
        ("\"jpeg\", \"int\"", "\"jpeg\"", "7 columns, and 6 serializers"),
        ("\"data_spec\"", "\"spec\"", "no data_spec"),
        ("\"chunks\"", "\"shards\"", "missing field `chunks`"),
        (
            "\"chunks\": [",
            "\"chunks\": [{\"chunk_size\": 2, \"filename\": \"chunk-0-0.bin\"},",
            "it names chunk-0-0.bin twice",
        ),
        ("nothing", "", "1 sample, 2 in index.json"),
    ] {
        let error = walk(&INDEX.replace(from, to), &bytes).err().unwrap();
        assert!(error.to_string().contains(what), "{error}");
    }
}
