//! User settings of a store, NAME=VALUE: some are common to all stores, the rest depend on the kind of store.

use std::time::Duration;

use shardpack_format::{Error, Result};

use crate::remote::location::Kind;

/// Settings of every store, with descriptions.
const ALL: [(&str, &str); 5] = [
    ("ca_file", "a file of certificates that are trusted besides the system's"),
    ("min_rate", "bytes per second over a minute, below which a response is requested again (1024; 0: none)"),
    ("proxy", "the URL of a proxy"),
    ("requests", "most requests at a time, 1 to 1024 (64, and up to 256 if that helps)"),
    ("retry_for", "seconds without progress until an error (300)"),
];
const WEB: [(&str, &str); 1] = [("header", "a header for each request, NAME: VALUE")];
const STORES: [(&str, &str); 2] = [
    ("anonymous", "true: public objects, without credentials"),
    ("endpoint", "the URL of a server that is not the service itself"),
];
const S3: [(&str, &str); 3] = [
    ("profile", "a profile of ~/.aws"),
    ("region", "where the bucket is"),
    ("requester_pays", "true: the sender pays for the requests"),
];

/// User settings of a store beside the environment: names with values.
///
/// Names are checked when a store is opened, because each kind of store has its own names.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings {
    given: Vec<(String, String)>,
}

/// Values may be secrets.
impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.given.iter().map(|(name, _)| name)).finish()
    }
}

/// Timeouts and limits for requests.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// How long requests without a useful response are retried.
    pub patience: Duration,
    /// The same for a server that has never answered: its name may be wrong.
    pub first_patience: Duration,
    /// Longest silence in a response before the request is resumed.
    pub silence: Duration,
    /// Minimum rate of a response in bytes a second over `rate_time`; a slower response is cancelled and resumed like
    /// a silent one.
    pub least_rate: u64,
    pub rate_time: Duration,
    /// Requests in flight until more are known to help.
    pub first_requests: u32,
    /// Maximum requests in flight.
    pub most_requests: u32,
}

impl Default for Options {
    fn default() -> Self {
        let (patience, first_patience) = (Duration::from_secs(300), Duration::from_secs(10));
        Self {
            patience,
            first_patience,
            silence: Duration::from_secs(30),
            least_rate: 1024,
            rate_time: Duration::from_secs(60),
            first_requests: 64,
            most_requests: 256,
        }
    }
}

impl Settings {
    /// Settings from pairs of name and value.
    pub fn from_pairs(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let given = pairs.into_iter().map(|(name, value)| (name.trim().to_ascii_lowercase(), value));
        Self { given: given.collect() }
    }

    /// The last value of `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.given.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// Whether `name` is on.
    pub(crate) fn is(&self, name: &str) -> Result<bool> {
        match self.get(name) {
            None => Ok(false),
            Some(value) if ["true", "1", "yes"].contains(&value) => Ok(true),
            Some(value) if ["false", "0", "no"].contains(&value) => Ok(false),
            Some(value) => Err(Error::usage(format!("{name}={value}: expected true or false"))),
        }
    }

    /// All values of `name`, in their order.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.given.iter().filter(move |(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// Settings that this crate does not know and the client of this kind of store may know.
    pub(crate) fn of_client(&self, kind: Kind) -> impl Iterator<Item = (&str, &str)> {
        let ours = known(kind);
        let others = self.given.iter().filter(move |(name, _)| ours.iter().all(|(known, _)| known != name));
        others.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Distinguishes two stores of one server.
    pub(crate) fn key(&self) -> String {
        format!("{:?}", self.given)
    }

    pub(crate) fn options(&self) -> Result<Options> {
        let mut options = Options::default();
        let number = |name: &str, least: u64, most: u64| match self.get(name) {
            None => Ok(None),
            Some(value) => match value.parse::<u64>() {
                Ok(number) if (least..=most).contains(&number) => Ok(Some(number)),
                _ => Err(Error::usage(format!("{name}={value}: expected a number from {least} to {most}"))),
            },
        };
        if let Some(seconds) = number("retry_for", 1, 7 * 86400)? {
            options.patience = Duration::from_secs(seconds);
            options.first_patience = options.first_patience.min(options.patience);
        }
        if let Some(requests) = number("requests", 1, 1024)? {
            // A user who sets the number has measured it.
            (options.first_requests, options.most_requests) = (requests as u32, requests as u32);
        }
        if let Some(rate) = number("min_rate", 0, 1 << 40)? {
            options.least_rate = rate;
        }
        Ok(options)
    }
}

/// Settings of a kind of store that this crate handles.
fn known(kind: Kind) -> Vec<(&'static str, &'static str)> {
    let more: &[&[_]] = match kind {
        Kind::Web => &[&WEB],
        Kind::S3 => &[&STORES, &S3],
        Kind::Google | Kind::Azure => &[&STORES],
    };
    ALL.iter().chain(more.iter().copied().flatten()).copied().collect()
}

/// The error for a setting that a kind of store does not have.
pub(crate) fn unknown(kind: Kind, name: &str) -> Error {
    let (what, more) = match kind {
        Kind::Web => ("a web server", ""),
        Kind::S3 => ("S3", "; aws_access_key_id and similar settings come from the environment"),
        Kind::Google => {
            ("Google Cloud Storage", "; google_service_account and similar settings come from the environment")
        }
        Kind::Azure => ("Azure", "; azure_storage_account_name and similar settings come from the environment"),
    };
    let known: Vec<_> = known(kind).iter().map(|(name, what)| format!("{name} ({what})")).collect();
    // Text that is not a name may be a secret that ends with =.
    let is_name = name.len() <= 40 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let shown = if is_name { name } else { "of that name" };
    Error::usage(format!("{what} has no setting {shown}")).help(format!("it has {}{more}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_names_and_values() {
        let of = |texts: &[&str]| {
            Settings::from_pairs(
                texts.iter().filter_map(|text| text.split_once('=')).map(|(n, v)| (n.to_owned(), v.to_owned())),
            )
        };
        let settings = of(&["Region=a", "region=b=c", "header=A: 1", "header=B: 2", "requests=7"]);
        assert_eq!((settings.get("region"), settings.get("proxy")), (Some("b=c"), None));
        assert_eq!(settings.all("header").collect::<Vec<_>>(), ["A: 1", "B: 2"]);
        assert_eq!(settings.of_client(Kind::S3).map(|(name, _)| name).collect::<Vec<_>>(), ["header", "header"]);
        assert_eq!(settings.options().unwrap().most_requests, 7);
        assert!(!format!("{settings:?}").contains("b=c"));
        assert_eq!(of(&["min_rate=0"]).options().unwrap().least_rate, 0);
        for wrong in ["min_rate=1KiB", "min_rate=-1", "requests=0", "requests=many", "retry_for=-1", "retry_for=604801"]
        {
            assert!(of(&[wrong]).options().is_err(), "{wrong}");
        }
        for (value, is) in [("true", Some(true)), ("0", Some(false)), ("on", None)] {
            let settings = of(&[&format!("anonymous={value}")]);
            assert_eq!(settings.is("anonymous").ok(), is, "{value}");
        }
        assert!(unknown(Kind::S3, "regoin").what().ends_with("regoin"));
        assert!(!unknown(Kind::S3, "wjalrxutnfemi/k7mdeng").what().contains("wjalr"));
        assert!(unknown(Kind::Google, "x").help_text().is_some_and(|help| help.contains("endpoint")));
    }
}
