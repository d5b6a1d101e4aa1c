//! Reads and writes the tables of docs/explain/performance.md between its two marks, one section per table.

use std::{collections::BTreeMap, path::PathBuf};

use super::ROWS;
use crate::{
    Result,
    command::{read, root, write},
};

const BEGIN: &str = "<!-- bench:begin -->";
const END: &str = "<!-- bench:end -->";
const NEW: &str =
    "# Performance\n\nMade by `cargo xtask bench` between the marks.\n\n<!-- bench:begin -->\n<!-- bench:end -->\n";
const SECTION: &str = "### ";

/// The parsed page.
pub struct Page {
    before: String,
    after: String,
    machine: String,
    sections: BTreeMap<String, String>,
}

impl Page {
    /// Opens the page, or starts a new one. Sections measured on another machine are dropped.
    pub fn open(machine: &str) -> Result<Self> {
        let text = if path().exists() { read(&path())? } else { NEW.to_owned() };
        let machine = format!("Machine: {machine}.");
        Self::parse(&text, machine).ok_or_else(|| format!("docs/explain/performance.md has no lines {BEGIN} and {END}"))
    }

    fn parse(text: &str, machine: String) -> Option<Self> {
        let (before, rest) = text.split_once(BEGIN)?;
        let (between, after) = rest.split_once(END)?;
        let mut sections = BTreeMap::new();
        if between.lines().any(|line| line == machine) {
            for section in between.split(&format!("\n{SECTION}")).skip(1) {
                let (name, body) = section.split_once('\n')?;
                sections.insert(name.to_owned(), body.trim().to_owned());
            }
        }
        Some(Self { before: before.to_owned(), after: after.to_owned(), machine, sections })
    }

    /// Replaces the section `name` with `table`.
    pub fn set(&mut self, name: &str, table: &str) {
        self.sections.insert(name.to_owned(), table.trim().to_owned());
    }

    /// Writes the page.
    pub fn save(&self) -> Result<()> {
        write(&path(), self.text())
    }

    fn text(&self) -> String {
        let sections = ROWS.iter().filter_map(|(name, _)| Some((name, self.sections.get(*name)?)));
        let sections: String = sections.map(|(name, body)| format!("\n{SECTION}{name}\n\n{body}\n")).collect();
        format!("{}{BEGIN}\n{}\n{sections}{END}{}", self.before, self.machine, self.after)
    }
}

fn path() -> PathBuf {
    root().join("docs/explain/performance.md")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_of_the_same_machine_stay() {
        let mut page = Page::parse(NEW, "Machine: a.".into()).unwrap();
        page.set("verify", "one");
        page.set("pack", "two");
        let text = page.text();
        assert!(text.find("two") < text.find("one"), "in the order of the rows");
        let mut page = Page::parse(&text, "Machine: a.".into()).unwrap();
        assert_eq!(page.text(), text);
        page.set("verify", "three");
        assert!(page.text().contains("two") && !page.text().contains("one"));
        assert!(Page::parse(&text, "Machine: b.".into()).unwrap().sections.is_empty());
        assert!(Page::parse("no marks", String::new()).is_none());
    }
}
