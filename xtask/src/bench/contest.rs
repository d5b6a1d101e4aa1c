//! Runs several commands that do the same work in turns, and makes a table of the results.

use std::{fmt::Write, process::Command};

use super::process::{Usage, measure};
use crate::Result;

/// A command that competes.
pub struct Contender<'a> {
    /// Name in the table.
    pub name: String,
    /// Creates the command; called before each run.
    pub command: Box<dyn Fn() -> Result<Command> + 'a>,
    /// Whether the command prints its own seconds and CPU seconds; otherwise the whole process counts.
    pub counts_itself: bool,
}

impl<'a> Contender<'a> {
    /// A contender measured as a whole process.
    pub fn new(name: &str, command: impl Fn() -> Result<Command> + 'a) -> Self {
        Self { name: name.to_owned(), command: Box::new(command), counts_itself: false }
    }
}

/// Usage by contender and round; the outer list has one entry per contender.
pub struct Results(pub Vec<(String, Vec<Usage>)>);

/// Runs all contenders in turns, `rounds` times. Every other round runs backwards, so that no contender always follows the same one.
pub fn contest(rounds: usize, contenders: &[Contender<'_>], before: impl Fn() -> Result<()>) -> Result<Results> {
    turns(rounds, contenders, before, |_, why| Err(why))
}

/// As [`contest`], but a contender that fails is not run again; the text names it and the reason, instead of a row of the table.
pub fn contest_of_peers(
    rounds: usize,
    contenders: &[Contender<'_>],
    before: impl Fn() -> Result<()>,
) -> Result<(Results, String)> {
    let mut missing = String::new();
    let results = turns(rounds, contenders, before, |name, why| {
        println!("{name}: {why}");
        missing +=
            &format!("\n{name}: not measured because it failed: {}.\n", why.trim().lines().last().unwrap_or_default());
        Ok(())
    });
    let Results(mut all) = results?;
    all.retain(|(_, usages)| usages.len() == rounds);
    Ok((Results(all), missing))
}

fn turns(
    rounds: usize,
    contenders: &[Contender<'_>],
    before: impl Fn() -> Result<()>,
    mut failed: impl FnMut(&str, String) -> Result<()>,
) -> Result<Results> {
    let mut results: Vec<_> = contenders.iter().map(|contender| (contender.name.clone(), Vec::new())).collect();
    for round in 0..rounds {
        let mut turns: Vec<_> = (0..contenders.len()).collect();
        if round % 2 == 1 {
            turns.reverse();
        }
        for turn in turns {
            let contender = &contenders[turn];
            if results[turn].1.len() < round {
                continue;
            }
            let mut command = (contender.command)()?;
            before()?;
            let (mut usage, printed) = match measure(&mut command) {
                Ok(measured) => measured,
                Err(why) => {
                    failed(&contender.name, why)?;
                    continue;
                }
            };
            if contender.counts_itself {
                let last = printed.lines().last().unwrap_or_default();
                let numbers: Vec<f64> = last.split_whitespace().filter_map(|word| word.parse().ok()).collect();
                let [seconds, cpu_seconds] = numbers[..] else {
                    return Err(format!("{}: printed {last:?}, not its seconds", contender.name));
                };
                (usage.seconds, usage.cpu_seconds) = (seconds, cpu_seconds);
            }
            println!("   round {}: {} {:.3} s", round + 1, contender.name, usage.seconds);
            results[turn].1.push(usage);
        }
    }
    Ok(Results(results))
}

impl Results {
    /// A table; its last column compares the time of each contender with that of the first, round by round.
    pub fn table(&self) -> String {
        let mut table = "| | seconds | CPU seconds | peak memory | time ÷ first, median (least to most) |\n".to_owned();
        table += "|---|---:|---:|---:|---:|\n";
        let first = self.0.first().map_or(&[][..], |(_, usages)| usages);
        for (number, (name, usages)) in self.0.iter().enumerate() {
            let ratios = usages.iter().zip(first).map(|(usage, first)| usage.seconds / first.seconds).collect();
            let compared = if number == 0 { "1".to_owned() } else { spread(ratios, 2) };
            let peak = usages.iter().map(|usage| usage.peak_bytes).max().unwrap_or(0);
            let seconds = spread(usages.iter().map(|usage| usage.seconds).collect(), 2);
            let cpu = median(usages.iter().map(|usage| usage.cpu_seconds).collect());
            // Writing to a String cannot fail.
            let _ = writeln!(table, "| {name} | {seconds} | {cpu:.2} | {} MB | {compared} |", peak / 1_000_000);
        }
        table
    }
}

/// Median, minimum and maximum.
pub fn spread(numbers: Vec<f64>, decimals: usize) -> String {
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{:.decimals$} ({least:.decimals$} to {most:.decimals$})", median(numbers))
}

/// The middle number, or the mean of the two in the middle.
pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    match numbers.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => numbers[count / 2],
        count => (numbers[count / 2 - 1] + numbers[count / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(spread(vec![3.0, 1.0, 2.0], 1), "2.0 (1.0 to 3.0)");
    }
}
