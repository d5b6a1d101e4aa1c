use super::*;
use crate::plain::tests::{IMAGE, cuts_and_flips, fixture, text};

#[test]
fn tuples_keys_and_lengths_of_pyarrow_are_read() {
    let bytes = fixture("tuple.arrow");
    let value = arrow(&bytes).unwrap();
    let [image, label] = value.items().unwrap() else { panic!("{value:?}") };
    assert_eq!(&bytes[image.as_bytes().unwrap().range().unwrap()], IMAGE);
    assert_eq!(label.as_int(), Some(7));

    let bytes = fixture("keys.arrow");
    let value = arrow(&bytes).unwrap();
    let keys: Vec<_> = value.items().unwrap().iter().map(|key| key.as_text(&bytes).unwrap()).collect();
    assert_eq!(keys, (0..12).map(|number| number.to_string()).collect::<Vec<_>>());

    assert_eq!(arrow(&fixture("len.arrow")), Ok(Value::Int(12)));
}

#[test]
fn every_plain_type_is_read() {
    let bytes = fixture("all.arrow");
    let value = arrow(&bytes).unwrap();
    let [none, yes, no, min, half, word, empty, nested] = value.items().unwrap() else { panic!("{value:?}") };
    assert_eq!((none, yes, no), (&Value::None, &Value::Bool(true), &Value::Bool(false)));
    assert_eq!((min, half), (&Value::Int(i64::MIN), &Value::Float(0.5)));
    assert_eq!(word.as_text(&bytes).unwrap(), text());
    assert!(empty.as_bytes().unwrap().is_empty());
    let ints = |numbers: &[i64]| Value::List(numbers.iter().copied().map(Value::Int).collect());
    assert_eq!(nested, &Value::List(vec![Value::Int(1), ints(&[2, 3]), ints(&[])]));
}

#[test]
fn arrays_and_dicts_are_refused_in_words() {
    assert_eq!(arrow(&fixture("array.arrow")).unwrap_err(), "pyarrow: 1 numpy arrays, which are not read");
    assert_eq!(arrow(&fixture("dict.arrow")).unwrap_err(), "pyarrow: a dict, which is not read");
    assert_eq!(arrow(b"").unwrap_err(), "pyarrow: 4 bytes are wanted, 0 are left");
    assert_eq!(arrow(&[0; 64]).unwrap_err(), "pyarrow: no message at byte 16");
    let mut long = fixture("tuple.arrow");
    long[20..24].fill(0xff);
    assert!(arrow(&long).unwrap_err().starts_with("pyarrow: 4294967295 bytes are claimed, "));
}

#[test]
fn damage_is_no_panic() {
    for name in ["tuple.arrow", "len.arrow", "all.arrow", "dict.arrow"] {
        cuts_and_flips(&fixture(name), |bytes| drop(arrow(bytes)));
    }
}
