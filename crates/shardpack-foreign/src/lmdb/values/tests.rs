//! What values are taken for.

use super::*;

const JPEG: &[u8] = b"\xff\xd8\xff\xe0 one";

/// Values over this input: bytes and arrays lie in it.
fn input() -> Vec<u8> {
    [JPEG, &[0; 512]].concat()
}

fn jpeg() -> Value {
    Value::Bytes(Part::Plain(0..JPEG.len()))
}

fn array(dtype: &str, shape: &[u64]) -> Value {
    let item = if dtype == "|u1" { 1 } else { 8 };
    let bytes = shape.iter().product::<u64>() as usize * item;
    let data = Part::Plain(JPEG.len()..JPEG.len() + bytes);
    Value::Array(Arc::new(Array { dtype: dtype.to_owned(), shape: shape.to_vec(), is_fortran: false, data }))
}

/// Labels of the samples with an image, or what is wrong with the others.
fn labels(value: &Value) -> Vec<Result<Label, String>> {
    let label = |one: Found| one.held.map(|_| one.label).map_err(Lack::what);
    samples_of(value, &input(), &Wanted::default()).into_iter().map(label).collect()
}

#[test]
fn samples_of_a_value_are_told_from_one_with_its_label() {
    let list = |items: &[Value]| Value::List(items.to_vec());
    let map = |entries: &[(&str, Value)]| {
        let text = |name: &&str| Value::Text(Part::Owned(name.as_bytes().into()));
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
