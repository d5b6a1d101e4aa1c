use std::time::{Duration, Instant};

use super::*;
use crate::plain::tests::{HWC, IMAGE, cuts_and_flips, fixture, text};

fn ints(numbers: &[i64]) -> Value {
    Value::List(numbers.iter().copied().map(Value::Int).collect())
}

#[test]
fn images_with_labels_are_read_in_every_protocol() {
    for protocol in 0..=5 {
        let bytes = fixture(&format!("tuple-{protocol}.pickle"));
        let value = pickle(&bytes).unwrap();
        let [image, label] = value.items().unwrap() else { panic!("{value:?}") };
        let part = image.as_bytes().unwrap();
        assert_eq!(*part.read(&bytes), *IMAGE, "protocol {protocol}");
        assert_eq!(part.len(), IMAGE.len(), "protocol {protocol}");
        assert_eq!(part.range().is_some(), protocol > 2, "it is where it is: protocol {protocol}");
        assert_eq!(label.as_int(), Some(7));
    }
    let bytes = fixture("list-4.pickle");
    assert_eq!(pickle(&bytes).unwrap().items().unwrap()[1], Value::Int(7));
}

#[test]
fn many_keys_are_read() {
    let bytes = fixture("keys-4.pickle");
    let value = pickle(&bytes).unwrap();
    let keys: Vec<_> = value.items().unwrap().iter().map(|key| key.as_text(&bytes).unwrap()).collect();
    assert_eq!(keys, (0..1100).map(|number| number.to_string()).collect::<Vec<_>>());
}

#[test]
fn every_plain_type_is_read_in_every_protocol() {
    for protocol in 0..=5 {
        let bytes = fixture(&format!("all-{protocol}.pickle"));
        let value = pickle(&bytes).unwrap();
        let get = |name| value.get(&bytes, name).unwrap_or_else(|| panic!("{name} of protocol {protocol}"));
        assert_eq!(*get("image").as_bytes().unwrap().read(&bytes), *IMAGE);
        assert_eq!(get("label").as_int(), Some(7));
        let (min, max) = (i64::MIN, i64::MAX);
        let numbers = [0, 255, 256, 65535, 65536, 1 << 31, 1 << 40, -1, -(1 << 31), min, max];
        assert_eq!(get("ints"), &ints(&numbers));
        assert_eq!(get("huge"), &Value::List(vec![Value::Huge; 3]));
        assert_eq!(get("floats"), &Value::List(vec![Value::Float(0.5), Value::Float(-1e300)]));
        assert_eq!(get("flags"), &Value::List(vec![Value::Bool(true), Value::Bool(false), Value::None]));
        assert_eq!(get("text").as_text(&bytes).unwrap(), text());
        assert_eq!(get("long").as_text(&bytes).unwrap(), "x".repeat(300));
        let [no_bytes, no_text, list, tuple, map] = get("empty").items().unwrap() else {
            panic!("protocol {protocol}")
        };
        assert!(no_bytes.as_bytes().unwrap().is_empty());
        assert!(matches!(no_text, Value::Text(part) if part.is_empty()));
        assert_eq!((list, tuple, map), (&ints(&[]), &ints(&[]), &Value::Map(Vec::new())));
        let tuples = [&[1][..], &[1, 2], &[1, 2, 3], &[1, 2, 3, 4]];
        assert_eq!(get("tuples"), &Value::List(tuples.map(ints).to_vec()));
        let [some, none] = get("bytearray").items().unwrap() else { panic!("protocol {protocol}") };
        assert_eq!(*some.as_bytes().unwrap().read(&bytes), *b"\x80a");
        assert!(none.as_bytes().unwrap().is_empty());
        assert_eq!(get("ordered").get(&bytes, "a"), Some(&Value::Int(2)));
        let [first, second] = get("shared").items().unwrap() else { panic!("protocol {protocol}") };
        assert_eq!(first.items().unwrap()[1].as_text(&bytes).unwrap(), "two");
        assert_eq!(first, second);
        assert_eq!(
            value.entries().unwrap().last(),
            Some(&(Value::Int(3), Value::Map(vec![(Value::Int(4), Value::Int(5))])))
        );
    }
}

#[test]
fn arrays_of_numpy_1_and_2_are_read_in_every_protocol() {
    for (name, protocol) in (0..=5).flat_map(|protocol| [("numpy1", protocol), ("numpy2", protocol)]) {
        let name = format!("{name}-{protocol}.pickle");
        let bytes = fixture(&name);
        let value = pickle(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let get = |key| value.get(&bytes, key).unwrap_or_else(|| panic!("{key} of {name}"));
        let array = |key| match get(key) {
            Value::Array(array) => array,
            other => panic!("{name}: {other:?}"),
        };
        let fortran: Vec<u8> = (0..18).map(|at| HWC[(at % 2) * 9 + (at / 2 % 3) * 3 + at / 6]).collect();
        let part: Vec<u8> = HWC.iter().enumerate().filter(|(at, _)| at % 3 != 1).map(|(_, byte)| *byte).collect();
        let rows: [(&str, &str, &[u64], bool, &[u8]); 7] = [
            ("hwc", "|u1", &[2, 3, 3], false, &HWC),
            ("fortran", "|u1", &[2, 3, 3], true, &fortran),
            ("part", "|u1", &[2, 3, 2], false, &part),
            ("jpeg", "|u1", &[282], false, IMAGE),
            ("big", ">i4", &[2], false, &[0, 0, 0, 1, 255, 255, 255, 254]),
            ("zero", "<f4", &[], false, &[0, 0, 0, 0x3f]),
            ("words", "<U2", &[2], false, &[97, 0, 0, 0, 98, 0, 0, 0, 0xe4, 0, 0, 0, 0, 0, 0, 0]),
        ];
        for (key, dtype, shape, is_fortran, data) in rows {
            let array = array(key);
            let found = (array.dtype.as_str(), &*array.shape, array.is_fortran);
            assert_eq!(found, (dtype, shape, is_fortran), "{key} of {name}");
            assert_eq!(*array.data.read(&bytes), *data, "{key} of {name}");
        }
        assert_eq!((&*array("none").dtype, &*array("none").shape), ("<f8", &[0, 3][..]), "{name}");
        assert_eq!(*get("jpeg").as_bytes().unwrap().read(&bytes), *IMAGE);
        let scalar = |value: &Value| match value {
            Value::Array(array) => format!("{} {:?}", array.dtype, array.scalar(&bytes)),
            value => format!("{value:?}"),
        };
        let scalars: Vec<_> = get("scalars").items().unwrap().iter().map(scalar).collect();
        let of_numpy = ["|u1 Some(Int(200))", "<i2 Some(Int(-2))", "<f4 Some(Float(0.5))", "<f2 Some(Float(1.5))"];
        assert_eq!(scalars, [&["Int(7)"], &of_numpy[..], &["Bool(true)"]].concat(), "{name}");
        assert_eq!(get("scalars").items().unwrap()[2].as_whole(&bytes), Some(-2));
        assert_eq!(scalar(get("huge")), "<u8 Some(Huge)");
        assert_eq!(get("word").as_text(&bytes).unwrap(), text(), "{name}");
        assert_eq!(*get("code").as_bytes().unwrap().read(&bytes), *b"n01440764");
    }
}

#[test]
fn tensors_of_torch_are_arrays() {
    for name in ["torch-2.pickle", "torch-4.pickle"] {
        let bytes = fixture(name);
        let value = pickle(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let get = |key| match value.get(&bytes, key) {
            Some(Value::Array(array)) => Array::clone(array),
            other => panic!("{key} of {name}: {other:?}"),
        };
        let singles = |key| {
            let data = get(key).data.read(&bytes).into_owned();
            data.as_chunks().0.iter().map(|item| f32::from_le_bytes(*item)).collect::<Vec<_>>()
        };
        let all: Vec<f32> = (0..12u8).map(f32::from).collect();
        let by_column: Vec<f32> = (0..12u8).map(|at| f32::from(at % 3 * 4 + at / 3)).collect();
        let is_plain = name == "torch-4.pickle";
        let transposed = get("transposed");
        assert_eq!((&*transposed.shape, transposed.is_fortran), (&[4, 3][..], is_plain), "{name}");
        let rows: [(&str, &[u64], &[f32]); 5] = [
            ("table", &[3, 4], &all),
            ("row", &[4], &all[4..8]),
            ("column", &[3], &[2.0, 6.0, 10.0]),
            ("part", &[2, 2], &[1.0, 2.0, 9.0, 10.0]),
            ("transposed", &[4, 3], if is_plain { &all } else { &by_column }),
        ];
        for (key, shape, items) in rows {
            assert_eq!((&*get(key).dtype, &*get(key).shape), ("<f4", shape), "{key} of {name}");
            assert_eq!(singles(key), items, "{key} of {name}");
        }
        // What lies in one piece is not copied.
        assert_eq!(get("table").data.range().is_some(), is_plain);
        assert_eq!(get("label").scalar(&bytes), Some(Value::Int(7)));
        assert_eq!(get("scalar").scalar(&bytes), Some(Value::Float(0.5)));
        let typed = |key| (get(key).dtype, get(key).shape, get(key).data.len());
        assert_eq!(typed("none"), ("<i4".to_owned(), vec![0, 3], 0));
        assert_eq!(typed("flags"), ("|b1".to_owned(), vec![2], 2));
        assert_eq!(typed("complex"), ("<c8".to_owned(), vec![1], 8));
    }
    cuts_and_flips(&fixture("torch-expanded.pickle"), |bytes| drop(pickle(bytes)));
    let refused = |name| pickle(&fixture(name)).unwrap_err();
    assert!(refused("torch-expanded.pickle").contains("a tensor that repeats items of its storage"));
    assert!(refused("torch-bfloat16.pickle").contains("torch.BFloat16Storage"));
}

#[test]
fn pickles_of_python_2_are_read() {
    for (name, protocol) in (0..=2).flat_map(|protocol| [("py2", protocol), ("py2c", protocol)]) {
        let name = format!("{name}-{protocol}.pickle");
        let bytes = fixture(&name);
        let both = pickle(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let [value, ordered] = both.items().unwrap() else { panic!("{name}") };
        let get = |key| value.get(&bytes, key).unwrap_or_else(|| panic!("{key} of {name}"));
        for key in ["image", "bytearray"] {
            assert_eq!(*get(key).as_bytes().unwrap().read(&bytes), *IMAGE, "{key} of {name}");
        }
        assert_eq!(get("text").as_text(&bytes).unwrap(), text());
        assert_eq!((get("long"), get("scalar")), (&Value::Int(1 << 40), &Value::Int(-7)));
        let flags = [Value::Bool(true), Value::Bool(false), Value::None, Value::Float(0.5)];
        assert_eq!(get("flags"), &Value::List(flags.to_vec()));
        let Value::Array(array) = get("array") else { panic!("{name}") };
        assert_eq!((array.dtype.as_str(), &*array.shape), ("|u1", &[2, 3, 3][..]));
        assert_eq!(*array.data.read(&bytes), HWC, "{name}");
        assert_eq!(ordered.get(&bytes, "b"), Some(&Value::Int(1)));
        assert_eq!(ordered.get(&bytes, "a"), Some(&Value::List(vec![Value::Int(2), ints(&[3])])));
    }
}

#[test]
fn what_is_not_plain_is_refused_by_name() {
    let long = [b"c".as_slice(), &b"a".repeat(300), b"\nx\n."].concat();
    let long_told = format!("byte 0: it uses {}….x, which is not plain data", "a".repeat(100));
    let rows: [(&[u8], &str); 25] = [
        (b"cos\nsystem\n(S'true'\ntR.", "byte 0: it uses os.system, which is not plain data"),
        (
            b"\x80\x02cposix\nsystem\nq\0X\x04\0\0\0trueq\x01\x85q\x02Rq\x03.",
            "byte 2: it uses posix.system, which is not plain data",
        ),
        (
            b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x93\x94\x8c\x04true\x85R.",
            "byte 16: it uses os.system, which is not plain data",
        ),
        (b"(S'true'\nios\nsystem\n.", "byte 9: it uses os.system, which is not plain data"),
        (
            b"cnumpy.core.multiarray\n_reconstruct\x00\n.",
            "byte 0: it uses numpy.core.multiarray._reconstruct\\0, which is not plain data",
        ),
        (b"cbuiltins\neval\n.", "byte 0: it uses builtins.eval, which is not plain data"),
        (&long, &long_told),
        (b"\x93.", "byte 0: a value is missing on the stack"),
        (b"K\x01K\x02\x93.", "byte 4: STACK_GLOBAL without names"),
        (b"K\x01)R.", "byte 3: a call of a value, not a function"),
        (b"cnumpy\nndarray\n)R.", "byte 16: numpy.ndarray is called with the wrong arguments"),
        (b"cnumpy\nndarray\n.", " numpy.ndarray itself is not plain data"),
        (b"cbuiltins\nbytes\nK\x05\x85R.", "byte 19: bytes is called with the wrong arguments"),
        (
            b"c_codecs\nencode\nX\x03\0\0\0\xe7\x8c\xabX\x06\0\0\0latin1\x86R.",
            "byte 36: '猫' in text that stands for bytes",
        ),
        (b"Pid\n.", "byte 0: opcode PERSID, which is not plain data"),
        (b"\x82\x01.", "byte 0: opcode EXT1, which is not plain data"),
        (b"\x97.", "byte 0: opcode NEXT_BUFFER, which is not plain data"),
        (b"\x8f.", "byte 0: opcode EMPTY_SET, which is not plain data"),
        (b"\xff.", "byte 0: 0xff is no opcode"),
        (b"\x80\x06N.", "byte 0: protocol 6, the last one known is 5"),
        (b"NN.", "byte 2: it ends in the middle of a value"),
        (b"(N.", "byte 2: it ends in the middle of a value"),
        (b"](a.", "byte 2: a value is missing on the stack"),
        (b")Na.", "byte 2: values are added to an object that is not a container"),
        (b"(Nd.", "byte 2: a key without a value"),
    ];
    for (bytes, what) in rows {
        let error = pickle(bytes).unwrap_err();
        assert!(error == format!("pickle, {what}") || error == format!("pickle:{what}"), "{error}, not {what}");
    }
}

#[test]
fn lengths_are_checked_before_they_are_used() {
    let huge = (1_u64 << 60).to_le_bytes();
    for opcode in [0x8e, 0x96, 0x8d] {
        let bytes = [&[0x80, 5, opcode][..], &huge, b"abc."].concat();
        let told = "pickle, byte 2: 1152921504606846976 bytes are claimed, 4 are left";
        assert_eq!(pickle(&bytes).unwrap_err(), told, "{opcode:x}");
    }
    let framed = [&b"\x80\x04\x95"[..], &huge, b"N."].concat();
    assert_eq!(pickle(&framed).unwrap_err(), "pickle, byte 2: 1152921504606846976 bytes are claimed, 2 are left");
    let rows: [(&[u8], &str); 8] = [
        (b"B\xff\xff\xff\xffabc.", "4294967295 bytes are claimed, 4 are left"),
        (b"T\xff\xff\xff\xffabc.", "a length of -1"),
        (b"\x8b\xff\xff\xff\xff.", "a length of -1"),
        (b"\x8b\xff\xff\xff\x7f.", "2147483647 bytes are claimed, 1 are left"),
        (b"Nr\xff\xff\xff\xff.", "number 4294967295 in a memo of 0"),
        (b"Np18446744073709551615\n.", "number 18446744073709551615 in a memo of 0"),
        (b"j\xff\xff\xff\xff.", "number 4294967295 is not in the memo"),
        (b"Np99999999999999999999\n.", "an invalid number in the memo"),
    ];
    for (bytes, what) in rows {
        let error = pickle(bytes).unwrap_err();
        assert!(error.ends_with(what), "{error}, not {what}");
    }
}

#[test]
fn an_array_has_the_bytes_that_its_shape_says() {
    let good = fixture("numpy2-4.pickle");
    let shape = [b'K', 2, b'K', 3, b'K', 3, 0x87];
    let at = good.windows(shape.len()).position(|window| window == shape).unwrap();
    let mut bad = good;
    bad[at + 1] = 200;
    let error = pickle(&bad).unwrap_err();
    assert!(error.ends_with("an array of |u1 and shape 200×3×3 has 18 bytes"), "{error}");
}

/// Reads what is hostile; it has to be refused soon.
fn refused(bytes: &[u8], what: &str) {
    let start = Instant::now();
    let error = pickle(bytes).unwrap_err();
    assert!(error.ends_with(what), "{error}, not {what}");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

/// An array of values as numpy writes it: opcodes of its shape and of its list. It is the first of the memo.
fn of_objects(shape: &[u8], list: &[u8]) -> Vec<u8> {
    let array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\x85U\x01btR\x94";
    let dtype = b"cnumpy\ndtype\nX\x02\0\0\0O8\x89\x88\x87R(K\x03X\x01\0\0\0|NNNK\0K\0K?tb";
    [array.as_slice(), b"(K\x01", shape, dtype, b"\x89", list, b"tb."].concat()
}

#[test]
fn arrays_of_values_are_lists_of_them_or_of_their_rows() {
    let four = b"](K\x01K\x02K\x03K\x04e";
    assert_eq!(pickle(&of_objects(b"K\x04\x85", four)).unwrap(), ints(&[1, 2, 3, 4]));
    let rows = Value::List(vec![ints(&[1, 2]), ints(&[3, 4])]);
    assert_eq!(pickle(&of_objects(b"K\x02K\x02\x86", four)).unwrap(), rows);
    assert_eq!(pickle(&of_objects(b"K\x09K\0\x86", b"]")).unwrap(), ints(&[]));
    for shape in [&b"K\x03\x85"[..], b"K\x04K\0\x86", b"K\x02K\x02K\x01\x87", b")"] {
        assert!(pickle(&of_objects(shape, four)).unwrap_err().contains("an array of 4 values and shape"));
    }
    // What holds itself, as a list and as rows.
    for shape in [&b"K\x02\x85"[..], b"K\x02K\x01\x86"] {
        refused(&of_objects(shape, b"](h\0h\0e"), "values are nested more than 64 deep");
    }
    // A long list made an array again and again.
    let list = [b"](".as_slice(), &b"N".repeat(100_000), b"e\x94"].concat();
    let again = &of_objects(b"J\xa0\x86\x01\0\x85", b"h\0");
    let many = [b"(", &*list, &again[..again.len() - 1].repeat(1000), b"t."].concat();
    refused(&many, "it refers to the same parts too often");
}

#[test]
fn ten_million_levels_are_refused() {
    const LEVELS: usize = 10_000_000;
    let deep = "values are nested more than 64 deep";
    let (open, all) = (|opcode: &[u8]| opcode.repeat(LEVELS), |parts: &[&[u8]]| parts.concat());
    refused(&all(&[b"\x80\x04", &open(b"]"), &open(b"a"), b"."]), deep);
    // These could be a tuple of so many lists until the end.
    refused(&all(&[b"(", &b"]".repeat(LEVELS / 10), &open(b"a"), b"t."]), deep);
    refused(&all(&[&open(b"("), &open(b"t"), b"."]), deep);
    refused(&all(&[b")", &open(b"\x85"), b"."]), deep);
    refused(&all(&[b")", &open(b"2\x86"), b"."]), deep);
    refused(&all(&[&open(b"}K\0"), b"N", &open(b"s"), b"."]), deep);
    // A list that holds itself, and one that grows deep only after it was put into another.
    refused(b"]\x94h\0a.", deep);
    let mut late = b"]".to_vec();
    for number in 0..100 {
        // An empty list goes into the one on top, then to the top.
        late.extend_from_slice(&[b']', 0x94, b'a', b'h', number]);
    }
    late.extend_from_slice(&b"0".repeat(100));
    refused(&[&late, &b"."[..]].concat(), deep);
}

#[test]
fn a_billion_laughs_are_refused() {
    // Each of 40 lists holds the one before ten times.
    let mut laughs = b"]\x94".to_vec();
    for number in 0..40_u8 {
        laughs.extend_from_slice(b"](");
        laughs.extend_from_slice(&[b'h', number].repeat(10));
        laughs.extend_from_slice(b"e\x94");
    }
    // All of them in one, so that nothing is left on the stack.
    let laughs = [b"(", &*laughs, b"t."].concat();
    refused(&laughs, &format!("it stands for more than {} values", laughs.len() + 4096));

    // A long text encoded again and again.
    let text = [b"X\0\0\x10\0".as_slice(), &b"a".repeat(1 << 20)].concat();
    let encode = b"c_codecs\nencode\n\x940X\x06\0\0\0latin1\x940".as_slice();
    let many = [b"(", encode, &text, b"\x94", &b"h\0h\x02h\x01\x86R".repeat(100_000), b"t."].concat();
    refused(&many, "it refers to the same parts too often");

    // A long list made a map again and again.
    let pairs = [b"](".as_slice(), &b"NN\x86".repeat(100_000), b"e\x94"].concat();
    let many = [b"(ccollections\nOrderedDict\n\x94", &*pairs, &b"h\0h\x01\x85R".repeat(100_000), b"t."].concat();
    refused(&many, "it refers to the same parts too often");
}

#[test]
fn damage_is_no_panic() {
    let names = (0..=5).flat_map(|protocol| ["tuple", "all", "numpy1", "numpy2"].map(|name| (name, protocol)));
    let old = (0..=2).flat_map(|protocol| ["py2", "py2c"].map(|name| (name, protocol)));
    for (name, protocol) in names.chain(old) {
        let bytes = fixture(&format!("{name}-{protocol}.pickle"));
        (0..bytes.len()).for_each(|length| drop(pickle(&bytes[..length]).expect_err("a part of it")));
    }
    for name in ["tuple-2", "all-0", "all-4", "numpy1-2", "numpy2-5", "py2c-1"] {
        cuts_and_flips(&fixture(&format!("{name}.pickle")), |bytes| drop(pickle(bytes)));
    }
}

#[test]
fn what_asks_for_a_program_within_others_is_left_out_and_they_are_read() {
    // {"image": b"abc", "when": datetime.date(2020, 1, 1), "odd": a subclass of dict with an item and a state}
    let bytes = b"\x80\x02}(U\x05imageU\x03abcU\x04whencdatetime\ndate\nU\x04\x07\xe4\x01\x01\x85R\
                  U\x03oddcmine\nDict\n)\x81K\x01K\x02s}bu.";
    let value = pickle(bytes).unwrap();
    assert_eq!(*value.get(bytes, "image").unwrap().as_bytes().unwrap().read(bytes), *b"abc");
    for (key, asked) in [("when", "it uses datetime.date"), ("odd", "it uses mine.Dict")] {
        let Some(Value::Foreign(what)) = value.get(bytes, key) else { panic!("{key}") };
        assert!(what.contains(asked), "{what}");
        assert!(crate::plain::content::form(value.get(bytes, key).unwrap(), bytes).is_err());
    }
}
