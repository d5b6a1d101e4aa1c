//! Masks times, rates, temporary paths, network traffic and properties of the machine.

use serde_json::Value;

/// Units of time; units of rates end with `/s`.
const TIMES: [&str; 4] = ["ms", "s", "min", "h"];

/// Replacements of paths.
#[derive(Debug, Default)]
pub struct Masks {
    paths: Vec<(String, &'static str)>,
}

impl Masks {
    /// Replaces `path` by `name`.
    pub fn path(&mut self, path: &str, name: &'static str) {
        self.paths.push((path.to_owned(), name));
    }

    /// Masks temporary paths.
    pub fn paths(&self, line: &str) -> String {
        let line = self.paths.iter().fold(line.to_owned(), |line, (path, name)| line.replace(path, name));
        // The name of a work folder is a hash of the URL.
        match line.split_once("/shardpack/") {
            Some((start, rest)) if start.ends_with("STATE") && rest.len() > 16 => format!("{start}/#{}", &rest[16..]),
            _ => line,
        }
    }

    /// Masks a line. Spaces are merged, because the width of a column depends on masked words.
    pub fn line(&self, line: &str) -> String {
        let line = self.paths(line);
        let mut words: Vec<&str> = line.split_whitespace().collect();
        // Read order, free space and traffic depend on the machine, on retries and on timestamps.
        if let [name @ ("source" | "space" | "network"), ..] = words[..] {
            return format!("{name} #");
        }
        for unit in 1..words.len() {
            let [number, name] =
                [words[unit - 1], words[unit]].map(|word| word.trim_matches(['(', ')', ',', '.', ';', ':']));
            if !number.starts_with(|first: char| first.is_ascii_digit()) {
                continue;
            }
            if TIMES.contains(&name) {
                words[unit - 1] = "#";
            } else if name.ends_with("/s") {
                (words[unit - 1], words[unit]) = ("#", "RATE");
            }
        }
        words.join(" ")
    }

    /// Masks numbers and fields of JSON.
    pub fn json(&self, json: Value) -> Value {
        match json {
            Value::Object(all) => Value::Object(
                all.into_iter()
                    .map(|(name, value)| {
                        let varies = name.ends_with("_ms") || name.ends_with("_per_second");
                        let varies = varies || ["free_bytes", "network", "seconds_left", "source"].contains(&&name[..]);
                        let value = if varies { Value::from("#") } else { self.json(value) };
                        (name, value)
                    })
                    .collect(),
            ),
            Value::Array(all) => Value::Array(all.into_iter().map(|value| self.json(value)).collect()),
            value => value,
        }
    }
}
