//! Proposes a pattern for a tree whose class folders are missing and whose file names begin with labels.

use std::collections::HashMap;

use shardpack_format::{shell, size, text};

use super::LabelPattern;

/// Text between a label and a number, as in `cat.0`, `cat_0` and `cat-0`.
const BETWEEN: [char; 3] = ['.', '_', '-'];
/// Names of known datasets: Market-1501, DukeMTMC and VeRi-776, whose label is a number; UTKFace, whose label is the age.
const KNOWN: [&str; 5] = [
    "{label}_c{n}s{n}_{n}_{n}",
    "{label}_c{n}_f{n}",
    "{label}_c{n}_{n}_{n}",
    "{label}_{n}_{n}_{n}.jpg.chip",
    "{label}_{n}_{n}_{n}",
];
/// Fewest names for a pattern that some names do not match.
const LEAST: usize = 8;
/// Share of the names that must match, in percent.
const NEARLY_ALL: usize = 90;

/// Help that names the option for these file names: with a pattern that fits, or without one if names have parts. `None` if
/// nearly all names have one part.
pub(in super::super) fn suggestion<'n>(names: impl Iterator<Item = &'n [u8]> + Clone) -> Option<String> {
    pattern_help(names.clone()).or_else(|| {
        let has_parts = |name: &&[u8]| {
            let stem = name.iter().rposition(|byte| *byte == b'.').map_or(*name, |dot| &name[..dot]);
            stem.iter().any(|byte| BETWEEN.contains(&char::from(*byte)))
        };
        let (all, with_parts) = (names.clone().count(), names.filter(has_parts).count());
        (all > 1 && with_parts * 100 >= all * NEARLY_ALL)
            .then(|| "--label-pattern PATTERN, such as '{label}_{n}', takes labels from names".to_owned())
    })
}

/// Help with a pattern for these file names; `None` if no pattern fits nearly all, or the labels would not be classes:
/// fewer than two, or most on one image only.
fn pattern_help<'n>(names: impl Iterator<Item = &'n [u8]> + Clone) -> Option<String> {
    let patterns = BETWEEN.iter().map(|between| format!("{{label}}{between}{{n}}"));
    // Of patterns that fit as many names, the last one is taken.
    let patterns = patterns.chain(KNOWN.iter().rev().map(|pattern| (*pattern).to_owned()));
    let patterns = patterns.filter_map(|pattern| LabelPattern::parse(&pattern).ok());
    let fits = patterns.filter_map(|pattern| {
        let (mut all, mut labels, mut example) = (0, HashMap::<&[u8], usize>::new(), None);
        for name in names.clone() {
            all += 1;
            if let Some(label) = pattern.label(name) {
                *labels.entry(label).or_default() += 1;
                example = example.min(Some((name, label))).or(Some((name, label)));
            }
        }
        let fitting: usize = labels.values().sum();
        let repeated = labels.values().filter(|count| **count > 1).count();
        let fits = fitting == all || all >= LEAST && fitting * 100 >= all * NEARLY_ALL;
        (fits && labels.len() > 1 && repeated * 2 > labels.len()).then_some((fitting, all, pattern, example))
    });
    let (fitting, all, pattern, example) = fits.max_by_key(|(fitting, ..)| *fitting)?;
    let (name, label) = example?;
    let rest = match all - fitting {
        0 => String::new(),
        1 => " --on-bad skip, without the 1 image whose name does not match,".to_owned(),
        more => format!(" --on-bad skip, without {} whose names do not match,", size::counted(more as u64, "image")),
    };
    Some(format!(
        "--label-pattern {}{rest} takes labels from names ({}: {})",
        shell::word(pattern.to_string()),
        text::shown(name),
        text::shown(label)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Option<String> {
        pattern_help(names.iter().map(|name| name.as_bytes()))
    }

    #[test]
    fn names_with_parts_name_the_option_without_a_pattern_that_fits() {
        let of = |names: &[&str]| suggestion(names.iter().map(|name| name.as_bytes()));
        for names in [["0001_c1s1_001.jpg", "0002_c1s2_001.jpg"], ["Abyssinian_1.jpg", "Bengal_2.jpg"]] {
            assert!(of(&names).unwrap().starts_with("--label-pattern PATTERN, such as '{label}_{n}'"), "{names:?}");
        }
        for names in [&["1.jpg", "2.jpg"][..], &["a_1.jpg"], &["a_1.jpg", "b.jpg"], &[]] {
            assert_eq!(of(names), None, "{names:?}");
        }
    }

    #[test]
    fn names_that_begin_with_repeated_labels_give_a_pattern() {
        assert_eq!(
            of(&["dog.1.jpg", "cat.0.jpg", "cat.1.jpg", "dog.0.jpg"]).unwrap(),
            "--label-pattern '{label}.{n}' takes labels from names (cat.0.jpg: cat)"
        );
        let pets = ["a_b_1.jpg", "a_b_2.jpg", "c_1.jpg", "c_2.jpg", "d_1.jpg"];
        assert!(of(&pets).unwrap().starts_with("--label-pattern '{label}_{n}' takes"));
        assert!(of(&["x-1.png", "x-2.png", "y-1.png", "y-2.png"]).unwrap().contains("'{label}-{n}'"));
        let mut many = vec!["a_1.jpg"; 0];
        many.extend([
            "a_1.jpg", "a_2.jpg", "a_3.jpg", "a_4.jpg", "a_5.jpg", "b_1.jpg", "b_2.jpg", "b_3.jpg", "b_4.jpg",
        ]);
        many.push("logo.jpg");
        let help = of(&many).unwrap();
        assert!(help.contains("'{label}_{n}' --on-bad skip, without the 1 image whose name does not match,"), "{help}");
    }

    #[test]
    fn names_of_known_datasets_give_their_pattern() {
        for (names, pattern) in [
            (
                ["0002_c1s1_000451_03.jpg", "0002_c2s1_000451_01.jpg", "0007_c1s1_1_1.jpg", "0007_c2s1_1_2.jpg"],
                KNOWN[0],
            ),
            (["0001_c2_f0046182.jpg", "0001_c5_f0051341.jpg", "0002_c1_f1.jpg", "0002_c1_f2.jpg"], KNOWN[1]),
            (["0001_c001_00016450_0.jpg", "0001_c002_1_0.jpg", "2_c1_1_0.jpg", "2_c1_2_0.jpg"], KNOWN[2]),
            (
                ["20_0_1_20170.jpg.chip.jpg", "20_1_1_2.jpg.chip.jpg", "3_1_1_1.jpg.chip.jpg", "3_0_0_1.jpg.chip.jpg"],
                KNOWN[3],
            ),
            (["20_0_1_20170.jpg", "20_1_1_2.jpg", "3_1_1_1.jpg", "3_0_0_1.jpg"], KNOWN[4]),
        ] {
            let help = of(&names).unwrap();
            assert!(help.starts_with(&format!("--label-pattern '{pattern}' takes labels")), "{help}");
        }
    }

    #[test]
    fn other_names_give_none() {
        for names in [
            &[][..],
            &["1.jpg", "2.jpg", "3.jpg"],
            // One label.
            &["img_1.jpg", "img_2.jpg", "img_3.jpg"],
            // Labels that do not repeat.
            &["a_1.jpg", "b_2.jpg", "c_3.jpg"],
            &["a_1.jpg", "a_2.jpg", "b_1.jpg", "c_1.jpg", "d_1.jpg"],
            // Too few names for one that does not match.
            &["a_1.jpg", "a_2.jpg", "b_1.jpg", "b_2.jpg", "x.jpg"],
            &["0001_c1s1_001.jpg", "0001_c1s2_001.jpg", "0002_c1s1_001.jpg"],
            &["1_0_1_2017.jpg", "2_0_1_2017.jpg"],
        ] {
            assert_eq!(of(names), None, "{names:?}");
        }
    }
}
