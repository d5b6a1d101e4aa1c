//! Parses the words after `cargo xtask`.

use crate::Result;

/// The words not taken yet.
pub struct Arguments(Vec<String>);

impl Arguments {
    /// The arguments of this process.
    pub fn from_command_line() -> Self {
        Self(std::env::args().skip(1).collect())
    }

    /// Takes the next word; call it after the options are taken.
    pub fn word(&mut self) -> Option<String> {
        if self.0.is_empty() { None } else { Some(self.0.remove(0)) }
    }

    /// Takes `--name` if present.
    pub fn flag(&mut self, name: &str) -> bool {
        let at = self.0.iter().position(|word| word == name);
        at.map(|at| self.0.remove(at)).is_some()
    }

    /// Takes `--name VALUE` if present.
    pub fn value(&mut self, name: &str) -> Result<Option<String>> {
        let Some(at) = self.0.iter().position(|word| word == name) else { return Ok(None) };
        if at + 1 == self.0.len() {
            return Err(format!("{name} takes a value"));
        }
        self.0.remove(at);
        Ok(Some(self.0.remove(at)))
    }

    /// Takes `--name N` if present.
    pub fn number(&mut self, name: &str) -> Result<Option<u64>> {
        let text = self.value(name)?;
        text.map(|text| text.parse().map_err(|_| format!("{name} {text}: not a number"))).transpose()
    }

    /// All words that remain, for another program.
    #[cfg(not(feature = "simulate"))]
    pub fn rest(self) -> Vec<String> {
        self.0
    }

    /// Fails if a word remains.
    pub fn end(&self) -> Result<()> {
        match self.0.first() {
            Some(word) => Err(format!("what is {word:?}? `cargo xtask help` shows what there is")),
            None => Ok(()),
        }
    }
}
