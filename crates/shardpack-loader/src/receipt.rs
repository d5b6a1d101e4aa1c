//! A receipt of the samples that a rank has seen in an epoch. The receipts of all ranks prove which samples a run has seen.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use shardpack_format::{Error, Result, manifest::Blake3};

/// The samples handed out in one epoch, by one rank or, after [`Receipt::join`], by several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// Id of the dataset.
    pub dataset: Blake3,
    /// The epoch.
    pub epoch: u64,
    /// Number of samples that are accounted for, each once: handed out, or named in `skipped` or `replaced`.
    pub samples: u64,
    /// Sum of the identities modulo 2^128; in JSON 32 hexadecimal digits.
    #[serde(serialize_with = "to_hex", deserialize_with = "from_hex")]
    pub identities: u128,
    /// Samples that were handed out again so that all ranks get the same number; the sum excludes them.
    pub repeated: u64,
    /// Bad samples that were skipped. The sum includes them, because they are accounted for here.
    pub skipped: Vec<Bad>,
    /// Bad samples that were replaced. The sum has the identity of the expected sample, not of the replacement.
    pub replaced: Vec<Bad>,
}

/// The sum of the receipts of all ranks after an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The epoch.
    pub epoch: u64,
    /// Number of samples.
    pub samples: u64,
    /// Sum of the identities modulo 2^128.
    pub identities: u128,
}

/// A bad sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bad {
    /// Number of the sample in its dataset.
    pub sample: u64,
    /// The error and its location.
    pub reason: String,
    /// Number of the sample that replaced it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<u64>,
}

impl Receipt {
    pub(crate) fn new(dataset: Blake3, epoch: u64) -> Self {
        let (skipped, replaced) = (Vec::new(), Vec::new());
        Self { dataset, epoch, samples: 0, identities: 0, repeated: 0, skipped, replaced }
    }

    pub(crate) fn add(&mut self, identity: u128) {
        self.samples += 1;
        self.identities = self.identities.wrapping_add(identity);
    }

    /// Adds the receipt of another rank, or of the same rank before or after an interruption.
    ///
    /// # Errors
    /// If `other` is of another dataset or epoch.
    pub fn join(&mut self, other: &Self) -> Result<()> {
        if (self.dataset, self.epoch) != (other.dataset, other.epoch) {
            return Err(Error::usage("receipts of two datasets or epochs"));
        }
        self.samples += other.samples;
        self.identities = self.identities.wrapping_add(other.identities);
        self.repeated += other.repeated;
        self.skipped.extend_from_slice(&other.skipped);
        self.replaced.extend_from_slice(&other.replaced);
        Ok(())
    }

    /// Whether exactly the `expected` samples of this epoch are accounted for, each as often as expected: handed out,
    /// skipped or replaced.
    pub fn is_of(&self, expected: &Expected) -> bool {
        (self.epoch, self.samples, self.identities) == (expected.epoch, expected.samples, expected.identities)
    }

    /// As one line of JSON.
    pub fn to_json(&self) -> String {
        // Cannot fail: the fields are numbers and strings.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses the JSON from [`Receipt::to_json`].
    ///
    /// # Errors
    /// If `text` is not such JSON.
    pub fn from_json(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| Error::data(format!("no receipt of a loader: {error}")))
    }
}

fn to_hex<S: Serializer>(number: &u128, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(&format!("{number:032x}"))
}

fn from_hex<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<u128, D::Error> {
    let text = String::deserialize(deserializer)?;
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = is_hex.then(|| u128::from_str_radix(&text, 16).ok()).flatten();
    number.ok_or_else(|| serde::de::Error::custom("expected 32 hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_add_up_and_come_back_from_json() {
        let mut one = Receipt::new(Blake3([1; 32]), 3);
        one.add(u128::MAX);
        one.skipped.push(Bad { sample: 7, reason: "cut".to_owned(), by: None });
        let mut other = Receipt::new(Blake3([1; 32]), 3);
        other.add(5);
        other.replaced.push(Bad { sample: 9, reason: "cut".to_owned(), by: Some(8) });
        let back = Receipt::from_json(&other.to_json()).unwrap();
        assert_eq!(back, other);
        one.join(&back).unwrap();
        let expected = Expected { epoch: 3, samples: 2, identities: 4 };
        assert!(one.is_of(&expected));
        for other in [
            Expected { epoch: 2, ..expected },
            Expected { samples: 3, ..expected },
            Expected { identities: 5, ..expected },
        ] {
            assert!(!one.is_of(&other), "{other:?}");
        }
        assert_eq!((one.skipped.len(), one.replaced.len()), (1, 1));
        assert!(one.join(&Receipt::new(Blake3([1; 32]), 4)).is_err());
        assert!(one.join(&Receipt::new(Blake3([2; 32]), 3)).is_err());
        for text in ["", "{}", "[]", &other.to_json().replace("00000005", "0000000g")] {
            assert!(Receipt::from_json(text).is_err(), "{text}");
        }
    }
}
