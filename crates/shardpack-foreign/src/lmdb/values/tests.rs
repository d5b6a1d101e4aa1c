//! What values are taken for.

use super::*;

const JPEG: &[u8] = b"\xff\xd8\xff\xe0 one";

/// Values over this input: bytes and arrays lie in it.
fn input() -> Vec<u8> {
    [JPEG, &[0; 512]].concat()
}

fn jpeg() -> Value {
    Value::Bytes(EncodedRange::Plain(0..JPEG.len()))
}

fn array(dtype: &str, shape: &[u64]) -> Value {
    let item = if dtype == "|u1" { 1 } else { 8 };
    let bytes = shape.iter().product::<u64>() as usize * item;
    let data = EncodedRange::Plain(JPEG.len()..JPEG.len() + bytes);
    Value::Array(Arc::new(Array { dtype: dtype.to_owned(), shape: shape.to_vec(), is_fortran: false, data }))
}

/// Labels of the samples with an image, or what is wrong with the others.
fn labels(value: &Value) -> Vec<Result<Label, String>> {
    let label = |one: ValueSample| one.held.map(|_| one.label).map_err(MissingImage::what);
    samples_of(value, &input(), &FieldSelection::default()).into_iter().map(label).collect()
}

#[test]
fn samples_of_a_value_are_told_from_one_with_its_label() {
    let list = |items: &[Value]| Value::List(items.to_vec());
    let map = |entries: &[(&str, Value)]| {
        let text = |name: &&str| Value::Text(EncodedRange::Owned(name.as_bytes().into()));
        Value::Map(entries.iter().map(|(name, value)| (text(name), value.clone())).collect())
    };
    let (one, two) = (Value::Int(1), Value::Int(2));
    let gray = || array("|u1", &[4, 4]);
    let missing = || Ok(Label::Missing);
    let of = |number| Ok(Label::Number(number));
    let rows = [
        ("one", list(&[jpeg(), one.clone()]), vec![of(1)]),
        ("pairs", list(&[list(&[jpeg(), one.clone()]), list(&[gray(), two.clone()])]), vec![of(1), of(2)]),
        ("images", list(&[jpeg(), jpeg(), gray()]), vec![missing(), missing(), missing()]),
        ("two lists", list(&[list(&[jpeg(), jpeg()]), list(&[one.clone(), two.clone()])]), vec![of(1), of(2)]),
        ("array and list", list(&[array("|u1", &[2, 4, 4, 3]), list(&[one.clone(), two.clone()])]), vec![of(1), of(2)]),
        ("array and array", list(&[array("|u1", &[2, 3, 4, 4]), array("<i8", &[2])]), vec![of(0), of(0)]),
        ("gray images", list(&[array("|u1", &[2, 4, 4]), array("<i8", &[2, 1])]), vec![of(0), of(0)]),
        ("an image of three axes", list(&[array("|u1", &[2, 4, 3]), one.clone()]), vec![of(1)]),
        ("one array", array("|u1", &[2, 4, 4, 1]), vec![missing(), missing()]),
        (
            "map",
            map(&[("images", list(&[jpeg(), jpeg()])), ("labels", list(&[two.clone(), one.clone()]))]),
            vec![of(2), of(1)],
        ),
        ("map of arrays", map(&[("x", array("|u1", &[2, 4, 4, 3])), ("y", array("<i8", &[2]))]), vec![of(0), of(0)]),
        ("one label for all", map(&[("images", list(&[jpeg(), jpeg()])), ("label", two.clone())]), vec![of(2), of(2)]),
        ("map of one", map(&[("image", jpeg()), ("label", one.clone())]), vec![of(1)]),
        ("a label of its own", map(&[("image", jpeg()), ("label", array("<i8", &[1, 1]))]), vec![of(0)]),
        (
            "unequal",
            map(&[("images", list(&[jpeg(), jpeg()])), ("labels", list(std::slice::from_ref(&one)))]),
            vec![Err("2 images and 1 labels".to_owned())],
        ),
    ];
    for (name, value, expected) in rows {
        assert_eq!(labels(&value), expected, "{name}");
    }
    let film = list(&[array("|u1", &[2, 4, 4, 3]), one]);
    assert!(labels(&film)[0].as_ref().unwrap_err().contains("2×4×4×3"));
}

#[test]
fn images_without_a_name_and_labels_that_no_class_can_be_are_told_by_what_they_are() {
    let text = |name: &str| Value::Text(EncodedRange::Owned(name.as_bytes().into()));
    let list = || Value::List(vec![Value::Int(0), Value::Int(2)]);
    let map = |entries: &[(&str, Value)]| {
        Value::Map(entries.iter().map(|(name, value)| (text(name), value.clone())).collect())
    };
    let of = |value: &Value, no_labels: bool| {
        let wanted = FieldSelection { no_labels, ..FieldSelection::default() };
        let mut found = samples_of(value, &input(), &wanted);
        let one = found.remove(0);
        let fields: Vec<_> = one.fields.iter().map(|field| field.name.clone()).collect();
        (one.held.is_ok(), one.label, fields)
    };
    let none: Vec<String> = Vec::new();
    let labelled = |label: Value| map(&[("photo", jpeg()), ("Label", label)]);
    assert_eq!(of(&labelled(Value::Int(1)), false), (true, Label::Number(1), none.clone()));
    assert_eq!(of(&labelled(list()), false), (true, Label::Missing, vec!["Label".to_owned()]));
    assert_eq!(of(&labelled(Value::Float(0.5)), false), (true, Label::Missing, vec!["Label".to_owned()]));
    assert_eq!(of(&labelled(Value::Int(1)), true), (true, Label::Missing, vec!["Label".to_owned()]));
    assert_eq!(of(&Value::List(vec![jpeg(), list()]), false), (true, Label::Missing, vec!["x1".to_owned()]));
    let column = |shape: &[u64]| {
        let array = Array {
            dtype: "|u1".to_owned(),
            shape: shape.to_vec(),
            is_fortran: false,
            data: EncodedRange::Plain(0..8),
        };
        held_by(&Value::Array(Arc::new(array)), &input())
    };
    assert!(
        matches!(column(&[8, 1]), Ok(ImageContent::Bytes(_))) && matches!(column(&[1, 8]), Ok(ImageContent::Bytes(_)))
    );
    assert!(matches!(column(&[4, 2]), Ok(ImageContent::Array(_))));
}

#[test]
fn a_single_value_of_a_few_bytes_is_no_proof_of_msgpack() {
    for value in [&b"a"[..], b"7", b"\xe5", b"\xa3abc", b"\xca\0\0\x80\x3f"] {
        assert_eq!(Coding::detect(value, &[]), None, "{value:?}");
    }
    assert_eq!(Coding::detect(b"\x81\xa1x\x07", &[]), Some(Coding::Msgpack));
    let places = Value::Map(vec![(Value::Int(0), jpeg()), (Value::Int(1), Value::Int(5))]);
    assert_eq!(labels(&super::super::coding::in_order(places)), [Ok(Label::Number(5))]);
}
