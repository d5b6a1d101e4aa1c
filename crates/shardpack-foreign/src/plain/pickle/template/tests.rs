use super::{super::interpreted, *};
use crate::plain::tests::{cuts_and_flips, fixture};

/// What interpreting a pickle gives, whatever was read before.
fn alone(bytes: &[u8]) -> Result<Value, String> {
    let mut machine = Machine::new(bytes);
    let root = machine.run()?;
    machine.value(root)
}

/// In a thread that knows no pickle yet.
fn fresh<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}

/// NaN too is what it was.
fn shown(value: &Result<Value, String>) -> String {
    format!("{value:?}")
}

/// A dict of an array, its shape as a tuple, bytes, and numbers of each opcode, as protocol 4 has them.
fn dict() -> Vec<u8> {
    let array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\x85U\x01btR";
    let dtype =
        b"cnumpy\ndtype\nX\x02\0\0\0f4\x89\x88\x87R(K\x03X\x01\0\0\0<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb";
    let items = b"\x89U\x08abcdefghtb";
    let numbers =
        b"X\x01\0\0\0nM\x01\x02X\x01\0\0\0mJ\x01\x02\x03\x84X\x01\0\0\0eG\x3f\xf0\0\0\0\0\0\0X\x01\0\0\0lL7L\n";
    let array = [array.as_slice(), b"(K\x01K\x02\x85", dtype, items].concat();
    [
        b"\x80\x04}(X\x01\0\0\0a",
        array.as_slice(),
        b"X\x01\0\0\0bU\x02xyX\x01\0\0\0s(K\x02tX\x01\0\0\0kK\x07",
        numbers,
        b"u.",
    ]
    .concat()
}

#[test]
fn a_template_gives_what_interpreting_does_whatever_is_flipped() {
    let fixtures = ["all", "numpy1", "numpy2", "tuple"]
        .map(|name| (0..6).map(move |number| fixture(&format!("{name}-{number}.pickle"))));
    let others =
        ["py2-2", "py2c-1", "py2c-2", "torch-2", "torch-4", "list-4"].map(|name| fixture(&format!("{name}.pickle")));
    let mut told = 0;
    for bytes in fixtures.into_iter().flatten().chain(others).chain([dict()]) {
        told += fresh(|| {
            interpreted(&bytes).unwrap();
            let told = std::cell::Cell::new(0u64);
            cuts_and_flips(&bytes, |damaged| {
                if let Some(value) = known(damaged) {
                    told.set(told.get() + 1);
                    assert_eq!(shown(&Ok(value)), shown(&alone(damaged)));
                }
            });
            told.get()
        });
    }
    assert!(told > 10_000, "{told} were told by templates");
}

#[test]
fn numbers_and_items_of_another_pickle_are_its_own() {
    let first = dict();
    let mut second = first.clone();
    let at = |opcode: &[u8]| first.windows(opcode.len()).position(|window| window == opcode).unwrap();
    for (opcode, operand) in [(&b"abcdefgh"[..], &b"ABCDEFGH"[..]), (b"\x07X", b"\xc8X"), (b"M\x01\x02", b"M\xff\xff")]
    {
        second[at(opcode)..][..operand.len()].copy_from_slice(operand);
    }
    second[at(b"G\x3f\xf0") + 1..][..8].copy_from_slice(&(-2.5f64).to_be_bytes());
    second[at(b"J\x01\x02") + 1..][..4].copy_from_slice(&(-9i32).to_le_bytes());
    fresh(|| {
        interpreted(&first).unwrap();
        let value = known(&second).unwrap();
        let get = |name| value.get(&second, name).unwrap();
        assert_eq!(["k", "n", "m", "l"].map(|name| get(name).as_int()), [Some(200), Some(0xffff), Some(-9), Some(7)]);
        assert_eq!(get("e"), &Value::Float(-2.5));
        let Value::Array(array) = get("a") else { panic!("{value:?}") };
        assert_eq!(*array.data.read(&second), *b"ABCDEFGH");
        // The shape is a number, too.
        second[at(b"K\x02\x85") + 1] = 1;
        assert_eq!(known(&second), None);
    });
}

#[test]
fn what_decides_is_no_part_that_may_differ() {
    let array = |first: &str, shape: &str, name: &str, data: &str| {
        let head = "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\u{85}U\x01btR";
        let dtype = format!("cnumpy\ndtype\n{name}\u{89}\u{88}\u{87}R(K\x03U\x01<NNNK\0K\0K\0tb");
        let text = format!("({first}{head}(K\x01{shape}{dtype}\u{89}{data}tbt.");
        text.chars().map(|character| u8::try_from(u32::from(character)).unwrap()).collect::<Vec<_>>()
    };
    let rows = [
        // The shape of an array is an item of the list as well.
        (array("K\x04\u{85}q\0", "h\0", "U\x02u1", "U\x04abcd"), [b'K', 4]),
        // The name of its type is its items, too.
        (array("N", "K\x02\u{85}", "U\x02u1q\x01", "h\x01"), [b'u', b'1']),
        // Its items are text.
        (array("N", "K\x04\u{85}", "U\x02u1", "X\x04\0\0\0abcd"), [b'c', b'd']),
    ];
    for (bytes, part) in rows {
        fresh(|| {
            interpreted(&bytes).unwrap();
            let at = bytes.windows(2).position(|window| window == part).unwrap();
            for byte in 0..=255 {
                let mut other = bytes.clone();
                other[at + 1] = byte;
                if let Some(value) = known(&other) {
                    assert_eq!(shown(&Ok(value)), shown(&alone(&other)), "{byte}");
                }
            }
        });
    }
}

#[test]
fn pickles_that_are_all_different_are_kept_now_and_then_only() {
    fresh(|| {
        let of = |number: u32| [b"X\x04\0\0\0".as_slice(), format!("{number:04}").as_bytes(), b"."].concat();
        (0..2000).for_each(|number| drop(super::super::pickle(&of(number))));
        let kept = TEMPLATES.with_borrow(|templates| (templates.all.len(), templates.misses));
        assert_eq!(kept, (MAX_TEMPLATES, 2000));
        // The last that was kept is number 1024 of those that were missed.
        assert!(known(&of(1023)).is_some());
        assert!(known(&of(1024)).is_none());
    });
}
