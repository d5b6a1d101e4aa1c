use shardpack_format::formats::Choice;

use super::*;
use crate::{
    component_table::{Cell, ComponentTable},
    listing::{self, Folder},
    plan::{Cut, tests},
    source::{LocalTree, shared},
};

fn plan(sizes: &[u32], seed: u64) -> Plan {
    Plan::new(tests::found(sizes), Options { seed, ..tests::options(Cut::Shards(2)) }).unwrap()
}

#[test]
fn a_plan_comes_back_as_it_was_and_no_flip_goes_unseen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.plan");
    let plans = [plan(&[10, 20, 30], 5)];
    let source = LocalTree("src".into());
    write(&path, &source, &plans).unwrap();
    let back = read(&path).unwrap();
    assert_eq!(back.source.path(), Path::new("src"));
    assert_eq!(back.plans[0].hash().unwrap(), plans[0].hash().unwrap());
    assert_eq!(back.plans[0].shards, plans[0].shards);
    assert_eq!(difference(&back, &source, &plans), None);

    let bytes = std::fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        let mut wrong = bytes.clone();
        wrong[at] ^= 4;
        std::fs::write(&path, wrong).unwrap();
        assert!(read(&path).is_err(), "byte {at}");
        std::fs::write(&path, &bytes[..at]).unwrap();
        assert!(read(&path).is_err(), "cut at {at}");
    }
}

#[test]
fn a_plan_of_values_comes_back_with_their_forms() {
    let forms: Vec<Form> = ["<f4[6]", "<f4[4]", "int"].iter().map(|form| form.parse().unwrap()).collect();
    let bytes = |form: usize| (forms[form].head().len() as u64 + forms[form].items_bytes().unwrap()) as u32;
    let payload = Component::value("x", &forms[0]).unwrap().with_kind("<f4[?]".parse().unwrap());
    let of_int = Component::value("n", &forms[2]).unwrap().with_kind("int?".parse().unwrap());
    let components = ComponentTable { payload: Some(payload.clone()), ..ComponentTable::new(vec![of_int.clone()]) };
    let mut builder = listing::Builder::with(components);
    let folder = builder.add_folder(Folder { path: Box::default(), class: None });
    for (number, form) in [0, 1, 0].into_iter().enumerate() {
        builder.add_sample(folder, &[b'a' + number as u8], bytes(form), number as u64, 0).unwrap();
        let cell = if number == 1 { Cell::ABSENT } else { Cell { form: 2, ..Cell::file(1, 7) } };
        builder.add_components(&[cell], None);
        builder.add_payload_form(form as u32);
    }
    builder.set_forms(Arc::new(forms));
    let found = SourceListing { listing: Arc::new(builder.finish(Arc::default())), ..SourceListing::default() };
    let mut options = tests::options(Cut::Shards(1));
    options.format = Choice { payload: Some(payload), components: vec![of_int], cls: false, ..Choice::new("mds") };
    options.format.settings.insert("label_column".to_owned(), String::new());
    let plan = Plan::new(found, options).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.plan");
    write(&path, &LocalTree("src".into()), std::slice::from_ref(&plan)).unwrap();
    let back = read(&path).unwrap();
    let (old, new) = (plan.listing.components(), back.plans[0].listing.components());
    assert_eq!((&old.payload, &old.payload_forms, &old.forms), (&new.payload, &new.payload_forms, &new.forms));
    assert_eq!((&old.cells, &old.kinds), (&new.cells, &new.kinds));
    assert_eq!(back.plans[0].hash().unwrap(), plan.hash().unwrap());
}

#[test]
fn the_difference_is_named() {
    let source = LocalTree("src".into());
    let old = PlanFile { source: shared(source.clone()), plans: vec![plan(&[10, 20, 30], 0)] };
    let says = |new: Plan| difference(&old, &source, &[new]).unwrap();
    assert_eq!(says(plan(&[10, 20, 30], 1)), "--seed: was 0, is now 1");
    assert_eq!(says(plan(&[10, 21, 30], 0)), "class/000001.jpg was changed");
    assert_eq!(says(plan(&[10, 20], 0)), "class/000002.jpg is gone");
    assert_eq!(says(plan(&[10, 20, 30, 1, 1], 0)), "class/000003.jpg is new, and 1 more");
}
