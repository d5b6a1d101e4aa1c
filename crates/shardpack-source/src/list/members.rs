//! The members of a JSON object, in the order of the text, with their values as they are spelled.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::columns::MAX_COLUMNS;

/// The members of an object, in file order; `MOST` at most.
pub(crate) struct Members<'a, const MOST: usize = MAX_COLUMNS>(pub Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de, const MOST: usize> Deserialize<'de> for Members<'de, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Object::<MOST>)
    }
}

struct Object<const MOST: usize>;
impl<'de, const MOST: usize> Visitor<'de> for Object<MOST> {
    type Value = Members<'de, MOST>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = map.next_key::<Name<'de>>()? {
            if members.len() == MOST {
                return Err(serde::de::Error::custom(format!("more than {MOST} members")));
            }
            members.push((name.0, map.next_value()?));
        }
        Ok(Members(members))
    }
}

/// Text that is borrowed if possible.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
