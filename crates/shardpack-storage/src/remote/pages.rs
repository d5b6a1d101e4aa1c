//! Removes keys that clients reject from the XML list pages of stores.
//!
//! Clients that parse keys as paths reject a whole page with a key like `a//b`. Such elements are removed from a page
//! before parsing and returned separately: nothing that a store lists is lost.

use crate::is_key;

/// An object or common prefix whose key is not a path: it has empty parts, `.` or `..`, or control characters, or it
/// ends with a slash, like the objects that represent folders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Odd {
    pub key: String,
    /// Length of the object in bytes; `None` for a common prefix.
    pub bytes: Option<u64>,
}

/// Elements of objects and common prefixes, the child element with the name, and whether it is an object.
const ELEMENTS: [(&str, &str, bool); 4] = [
    ("Contents", "Key", true),
    ("Blob", "Name", true),
    ("CommonPrefixes", "Prefix", false),
    ("BlobPrefix", "Name", false),
];

/// `page` without the elements that have an invalid key, and those elements.
pub(crate) fn without_odd(page: &str) -> (String, Vec<Odd>) {
    let mut odd = Vec::new();
    let mut left = page.to_owned();
    for (element, name, is_object) in ELEMENTS {
        let (begin, end) = (format!("<{element}>"), format!("</{element}>"));
        if !left.contains(&begin) {
            continue;
        }
        let mut kept = String::with_capacity(left.len());
        let mut rest = left.as_str();
        while let Some((before, from)) = rest.split_once(&begin) {
            let Some((inner, after)) = from.split_once(&end) else { break };
            kept.push_str(before);
            rest = after;
            let key = text_of(inner, name).map(unescaped).unwrap_or_default();
            let is_right = match is_object {
                true => is_key(&key),
                false => key.strip_suffix('/').is_some_and(is_key),
            };
            // Encoded names of Azure have an attribute and do not match.
            if is_right {
                kept.extend([begin.as_str(), inner, &end]);
            } else {
                let key = if key.is_empty() { format!("the entry {inner:.200}") } else { key };
                let bytes = text_of(inner, "Size").or_else(|| text_of(inner, "Content-Length"));
                odd.push(Odd {
                    key,
                    bytes: is_object.then(|| bytes.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)),
                });
            }
        }
        kept.push_str(rest);
        left = kept;
    }
    (left, odd)
}

/// The text of an element with all spaces: spaces at the ends of a key belong to the key.
fn text_of<'a>(inner: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = inner.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(text, _)| text)
}

/// XML text with its entities decoded.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, from)) = rest.split_once('&') {
        out.push_str(before);
        let entity = from.split_once(';').and_then(|(name, after)| {
            let number = |digits: &str, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
            let meant = match name {
                "amp" => Some('&'),
                "lt" => Some('<'),
                "gt" => Some('>'),
                "quot" => Some('"'),
                "apos" => Some('\''),
                _ => match (name.strip_prefix("#x"), name.strip_prefix('#')) {
                    (Some(digits), _) => number(digits, 16),
                    (None, Some(digits)) => number(digits, 10),
                    (None, None) => None,
                },
            };
            meant.map(|meant| (meant, after))
        });
        match entity {
            Some((meant, after)) => {
                out.push(meant);
                rest = after;
            }
            None => {
                out.push('&');
                rest = from;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_keys_are_taken_out_of_a_page_and_told() {
        let object = |key: &str| format!("<Contents><Key>{key}</Key><Size>7</Size></Contents>");
        let right = ["a/b.jpg", "a b/&lt;é&#x26;%2F.jpg", "..a/b.", " a "].map(object).concat();
        let wrong = ["a//b", "/a", "a/", "../b", "a/./b", "a&#10;b", ""];
        let page = format!(
            "<L>{}{right}{}<N>x</N></L>",
            object(wrong[0]),
            wrong[1..].iter().map(|key| object(key)).collect::<String>()
        );
        let (kept, odd) = without_odd(&page);
        assert_eq!(kept, format!("<L>{right}<N>x</N></L>"));
        let keys: Vec<_> = odd.iter().map(|odd| odd.key.as_str()).collect();
        assert_eq!(keys[..6], ["a//b", "/a", "a/", "../b", "a/./b", "a\nb"]);
        assert!(keys[6].contains("<Size>7"), "{keys:?}");
        assert!(odd.iter().all(|odd| odd.bytes == Some(7)));
    }

    #[test]
    fn folders_and_blobs_are_looked_at_too_and_what_is_cut_stays() {
        let page =
            "<CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes><CommonPrefixes><Prefix>a//</Prefix></CommonPrefixes>";
        let (kept, odd) = without_odd(page);
        assert_eq!(kept, "<CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes>");
        assert_eq!(odd, [Odd { key: "a//".to_owned(), bytes: None }]);
        let blobs = "<Blobs><Blob><Name>a</Name></Blob><Blob><Name Encoded=\"true\">a%01</Name></Blob><BlobPrefix><Name>b/</Name></BlobPrefix></Blobs>";
        let (kept, odd) = without_odd(blobs);
        assert_eq!(kept, "<Blobs><Blob><Name>a</Name></Blob><BlobPrefix><Name>b/</Name></BlobPrefix></Blobs>");
        assert_eq!(odd.len(), 1);
        let cut = "<Contents><Key>a//b</Key>";
        assert_eq!(without_odd(cut), (cut.to_owned(), Vec::new()));
        assert_eq!(unescaped("&amp;&#38;&#x26;&quot;&bogus;& &"), "&&&\"&bogus;& &");
    }
}
