//! Cost of requests at given prices: `--price get=0.0004/1000,put=0.005/1000,in=0.01/GB`.

use serde::Serialize;
use shardpack_packer::{Error, pack::Requests};

use crate::lines::Lines;

/// Price of one request or byte of each kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prices {
    list: Option<f64>,
    get: Option<f64>,
    put: Option<f64>,
    received: Option<f64>,
    sent: Option<f64>,
}

/// Parses prices.
///
/// # Errors
/// A description of the syntax error.
pub fn prices(text: &str) -> Result<Prices, String> {
    let mut prices = Prices::default();
    for one in text.split(',') {
        let wrong = |what: &str| format!("{one:?}: {what}");
        let (name, price) = one.split_once('=').ok_or_else(|| wrong("write KIND=AMOUNT/UNIT"))?;
        let (amount, unit) = price.split_once('/').unwrap_or((price, "1"));
        let amount: f64 = amount.trim().parse().map_err(|_| wrong("the amount is a number"))?;
        let is_bytes = ["in", "out"].contains(&name.trim());
        let of = match unit.trim() {
            "GB" if is_bytes => 1e9,
            "GiB" if is_bytes => (1u64 << 30) as f64,
            "TB" if is_bytes => 1e12,
            unit if !is_bytes => {
                unit.parse().map_err(|_| wrong("requests are priced by their number, as in 0.0004/1000"))?
            }
            _ => return Err(wrong("bytes are priced by GB, GiB or TB")),
        };
        if !(amount.is_finite() && amount >= 0.0 && of > 0.0) {
            return Err(wrong("a price cannot be negative"));
        }
        let slot = match name.trim() {
            "list" => &mut prices.list,
            "get" => &mut prices.get,
            "put" => &mut prices.put,
            "in" => &mut prices.sent,
            "out" => &mut prices.received,
            _ => {
                return Err(wrong(
                    "the kinds are get, put, list, in (bytes into the store) and out (bytes out of the store)",
                ));
            }
        };
        *slot = Some(amount / of);
    }
    Ok(prices)
}

/// The requests and their cost, as lines.
pub fn as_text(requests: Requests, prices: Option<&Prices>) -> Lines {
    let Requests { lists, gets, puts, received_bytes, sent_bytes } = requests;
    let counted = |what: &str, number: u64| (number > 0).then(|| format!("{} {what}", crate::report::count(number)));
    let bytes = |what: &str, number: u64| (number > 0).then(|| format!("{} {what}", crate::report::bytes(number)));
    let parts = [
        counted("LIST", lists),
        counted("GET", gets),
        counted("PUT", puts),
        bytes("out of the store", received_bytes),
        bytes("into it", sent_bytes),
    ];
    let mut out = Lines::one(&format!("network about {}", parts.into_iter().flatten().collect::<Vec<_>>().join(", ")));
    if let Some(prices) = prices {
        let (total, unpriced) = cost(requests, prices);
        let unpriced = match unpriced.is_empty() {
            true => String::new(),
            false => format!("; no price is given for {}", unpriced.join(", ")),
        };
        line!(out, "price   {total:.4}{unpriced}");
    }
    out
}

/// The requests of a pack to stores, and their cost: a part of the document of `plan`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Requests"))]
pub struct Priced {
    /// List requests.
    lists: u64,
    /// Reads of objects, and requests for their metadata.
    gets: u64,
    /// Writes of objects and parts of objects.
    puts: u64,
    /// Bytes out of the store.
    received_bytes: u64,
    /// Bytes into the store.
    sent_bytes: u64,
    /// Cost by `--price`, in its currency; null without `--price`.
    price: Option<f64>,
    /// Kinds of requests without a price: `list`, `get`, `put`, `out`, `in`.
    unpriced: Vec<&'static str>,
}

impl Priced {
    /// The cost of `requests`.
    pub fn new(requests: Requests, prices: Option<&Prices>) -> Self {
        let Requests { lists, gets, puts, received_bytes, sent_bytes } = requests;
        let (price, unpriced) = prices.map(|prices| cost(requests, prices)).unzip();
        Self { lists, gets, puts, received_bytes, sent_bytes, price, unpriced: unpriced.unwrap_or_default() }
    }
}

/// The total cost, and the kinds without a price.
fn cost(requests: Requests, prices: &Prices) -> (f64, Vec<&'static str>) {
    let Requests { lists, gets, puts, received_bytes, sent_bytes } = requests;
    let all = [
        ("list", lists, prices.list),
        ("get", gets, prices.get),
        ("put", puts, prices.put),
        ("out", received_bytes, prices.received),
        ("in", sent_bytes, prices.sent),
    ];
    let total = all.iter().map(|(_, number, price)| *number as f64 * price.unwrap_or(0.0)).sum();
    let unpriced = all.into_iter().filter(|(_, number, price)| *number > 0 && price.is_none());
    (total, unpriced.map(|(name, ..)| name).collect())
}

/// The error for prices without any request to a store.
pub fn of_nothing() -> Error {
    Error::usage("--price is for URLs, and neither SRC nor DST is one: there are no requests to a store")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_of_requests_and_bytes() {
        let prices = prices("get=0.4/1000, put=5/1000,out=0.09/GB").unwrap();
        let requests = Requests { lists: 3, gets: 1000, puts: 100, received_bytes: 2_000_000_000, sent_bytes: 0 };
        let (total, unpriced) = cost(requests, &prices);
        assert!((total - (0.4 + 0.5 + 0.18)).abs() < 1e-9, "{total}");
        assert_eq!(unpriced, ["list"]);
        let text = as_text(requests, Some(&prices));
        let text = text.text();
        assert!(text.starts_with("network about 3 LIST, 1,000 GET, 100 PUT, 1.86 GiB out of the store\n"), "{text}");
        assert!(text.ends_with("price   1.0800; no price is given for list\n"), "{text}");
        assert_eq!(Priced::new(requests, None).price, None);
        for wrong in ["", "get", "get=x/1000", "get=1/GB", "out=1/1000", "get=-1", "get=1/0", "head=1/1000", "get=inf"]
        {
            assert!(super::prices(wrong).is_err(), "{wrong}");
        }
    }
}
