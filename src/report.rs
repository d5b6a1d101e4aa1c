//! Format and destination of results and errors: numbers with separators, sizes in binary units, errors in two lines.
//!
//! With `--json`, stdout gets one document, however a command ends.

use std::{
    fmt::Display,
    io::{ErrorKind, Write},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use serde_json::{
    Serializer, Value,
    ser::{CompactFormatter, Formatter, PrettyFormatter},
};
use shardpack_format::text;
use shardpack_packer::{Error, Result};
use shardpack_reader::Transfers;
use shardpack_source::ledger::Unpacked;

use crate::{
    document::Failed,
    embedded::host,
    lines::Lines,
    terminal::{self, Stream},
};

/// Largest number of failures in a list; the last line names the location of the full list.
pub const NAMED: usize = 20;
/// The reader of stdout has closed it.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);
/// This run has printed its JSON document.
static IS_ANSWERED: AtomicBool = AtomicBool::new(false);

/// Prints an error to stderr: location and cause, then the help line.
pub fn error(error: &Error) {
    say(&format!("error: {error}"));
    if let Some(help) = error.help_text() {
        say(&format!("  help: {help}"));
    }
}

/// Prints `line` to stderr as one line; line feeds in `line` do not end it.
pub fn say(line: &str) {
    if let Some(host) = host() {
        return host.say(line);
    }
    let line = Lines::one(line);
    // If stderr is closed, there is nowhere to report it.
    let _ = std::io::stderr().lock().write_all(terminal::dress(line.text(), Stream::Err).as_bytes());
}

/// Prints the output of clap: an error in the command line, or the requested help.
pub fn refused(error: &clap::Error) {
    match host() {
        Some(host) if error.use_stderr() => host.say(error.render().to_string().trim_end()),
        Some(host) => host.print(error.render().to_string().as_bytes()),
        // If stdout or stderr is closed, there is nowhere to report it.
        None => error.print().unwrap_or_default(),
    }
}

/// Prints results to stdout.
pub fn print(lines: &Lines) -> Result<()> {
    if host().is_some() {
        return print_bytes(lines.text().as_bytes());
    }
    print_bytes(terminal::dress(lines.text(), Stream::Out).as_bytes())
}

/// Prints bytes to stdout unchanged. A closed stdout is not an error, and does not change the result of a command.
pub fn print_bytes(bytes: &[u8]) -> Result<()> {
    if let Some(host) = host() {
        host.print(bytes);
        return Ok(());
    }
    if IS_CLOSED.load(Ordering::Relaxed) {
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            IS_CLOSED.store(true, Ordering::Relaxed);
            Ok(())
        }
        done => done.map_err(|e| Error::io("cannot write to stdout", e)),
    }
}

/// Prints one JSON document to stdout, the only one of this run.
pub fn print_json(document: &impl serde::Serialize) -> Result<()> {
    let mut out = json_bytes(&sorted(document)?, Pretty::default())?;
    answered();
    out.push(b'\n');
    print_bytes(&out)
}

/// `value` with the keys of all objects in alphabetical order.
pub fn sorted(value: &impl serde::Serialize) -> Result<Value> {
    serde_json::to_value(value).map_err(unwritable)
}

/// One JSON document on one line.
pub fn json_line(value: &impl serde::Serialize) -> Result<String> {
    let out = json_bytes(value, Plain(CompactFormatter))?;
    String::from_utf8(out).map_err(unwritable)
}

fn json_bytes(value: &impl serde::Serialize, formatter: impl Formatter) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let done = value.serialize(&mut Serializer::with_formatter(&mut out, formatter));
    done.map_err(unwritable)?;
    Ok(out)
}

fn unwritable(error: impl Display) -> Error {
    Error::data(format!("cannot write json: {error}"))
}

/// Escapes invisible characters by number: parsers read the same text, and terminals do not interpret it.
#[derive(Default)]
struct Plain<F>(F);
type Pretty = Plain<PrettyFormatter<'static>>;

macro_rules! as_before {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(fn $name<W: ?Sized + Write>(&mut self, writer: &mut W, $($argument: $type),*) -> std::io::Result<()> {
            self.0.$name(writer, $($argument),*)
        })*
    };
}

impl<F: Formatter> Formatter for Plain<F> {
    as_before! {
        begin_array(); end_array(); begin_array_value(first: bool); end_array_value();
        begin_object(); end_object(); begin_object_key(first: bool); end_object_key();
        begin_object_value(); end_object_value();
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, text: &str) -> std::io::Result<()> {
        let mut rest = text;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| text::is_hidden(*c)) {
            writer.write_all(&rest.as_bytes()[..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

/// Records that a document has been printed, completely or in part.
pub fn answered() {
    host().as_ref().map_or(&IS_ANSWERED, |host| host.is_answered()).store(true, Ordering::Relaxed);
}

/// Prints the document of a run that `error` ended, unless a document was printed already.
pub fn print_json_error(error: &Error) -> Result<()> {
    let host = host();
    match host.as_ref().map_or(&IS_ANSWERED, |host| host.is_answered()).load(Ordering::Relaxed) {
        true => Ok(()),
        false => print_json(&Failed { error: error.into() }),
    }
}

/// `1,281,167`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `3 images`, `1 image`.
pub fn counted(number: u64, noun: &str) -> String {
    let plural = match noun {
        "class" => "classes".to_owned(),
        _ => format!("{noun}s"),
    };
    format!("{} {}", count(number), if number == 1 { noun } else { &plural })
}

/// `137.9 GiB`.
pub fn bytes(bytes: u64) -> String {
    shardpack_format::size::text(bytes)
}

/// `4 min 2 s`, `0.83 s`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{:.2} s", time.as_secs_f64()),
        10..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// `4 min 2 s`, `12 s`: for estimates.
pub fn coarse_duration(time: Duration) -> String {
    match time.as_secs() {
        0..60 => format!("{} s", time.as_secs()),
        _ => duration(time),
    }
}

/// `612 MiB/s`.
pub fn rate(total: u64, time: Duration) -> String {
    let per_second = total as f64 / time.as_secs_f64().max(1e-9);
    format!("{}/s", bytes(per_second as u64))
}

/// Network use as a line.
pub fn network(transfers: Transfers) -> Lines {
    let Transfers { requests, bytes: came, again, too_many, sent_bytes } = transfers;
    let mut line = format!("network {}, {}", counted(requests, "request"), bytes(came));
    if sent_bytes > 0 {
        line += &format!(" received, {} sent", bytes(sent_bytes));
    }
    if again > 0 {
        line += &format!("; {} sent again, {} because of throttling", count(again), count(too_many));
    }
    Lines::one(&line)
}

/// Reports uploads that an earlier run may have left in the store: parts of the objects with these names.
pub fn left_uploads(names: &[String]) -> Lines {
    let mut out = Lines::default();
    let Some(first) = names.first() else { return out };
    let all = counted(names.len() as u64, "upload");
    line!(
        out,
        "        {all} of an earlier run may have left parts, the first of {first}: the store refuses to delete them;"
    );
    out.line("        a bucket rule that removes unfinished uploads deletes them");
    out
}

/// A path as text; bytes that are not UTF-8 as `\xNN`.
pub fn path(bytes: &[u8]) -> String {
    text::shown(bytes).to_string()
}

/// A skipped image and the reason.
pub fn left_out(image: &[u8], reason: &str) -> String {
    format!("{}: {reason}", path(image))
}

/// The skipped images, one per line; `all` names the location of the full list.
pub fn list_left_out(entries: &[Unpacked], all: &str) -> Lines {
    let line = |entry: &Unpacked| Lines::one(&format!("        {}", left_out(&entry.path, &entry.reason)));
    first_of(entries, "        ", all, line)
}

/// The first failures and the number of others; `all` names the location of the full list.
pub fn first_of<T>(entries: &[T], indent: &str, all: &str, lines: impl Fn(&T) -> Lines) -> Lines {
    let mut out = Lines::default();
    out.extend(entries.iter().take(NAMED).map(lines));
    if entries.len() > NAMED {
        line!(out, "{indent}… and {} more; {all}", count((entries.len() - NAMED) as u64));
    }
    out
}

/// `31.3 %` of `whole`. Only the whole is shown as 100.0 %, and only zero as 0.0 %.
pub fn share(part: u64, whole: u64) -> String {
    match part as f64 / whole.max(1) as f64 * 100.0 {
        percent if percent > 99.9 && part < whole => "> 99.9 %".to_owned(),
        percent if percent < 0.1 && part > 0 => "< 0.1 %".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}

/// `text`, or, if longer than `width` characters, its beginning with an ellipsis.
pub fn clip(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        None => text.to_owned(),
        Some(_) if width == 0 => String::new(),
        Some(_) => text.chars().take(width.saturating_sub(1)).chain(['\u{2026}']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1000, 1_281_167].map(count), ["0", "999", "1,000", "1,281,167"]);
        assert_eq!([0, 1023, 1024, 148_000_000_000].map(bytes), ["0 B", "1.00 KiB", "1.00 KiB", "137.8 GiB"]);
        assert_eq!(duration(Duration::from_millis(830)), "0.83 s");
        assert_eq!(duration(Duration::from_secs(242)), "4 min 2 s");
        assert_eq!(counted(1, "class") + &counted(2, "class"), "1 class2 classes");
    }

    #[test]
    fn shares_are_never_rounded_to_all_or_nothing() {
        let shares = [(0, 3), (1, 3), (3, 3), (1, 1_000_000), (999_999, 1_000_000), (0, 0)];
        let texts = shares.map(|(part, whole)| share(part, whole));
        assert_eq!(texts, ["0.0 %", "33.3 %", "100.0 %", "< 0.1 %", "> 99.9 %", "0.0 %"]);
    }

    #[test]
    fn a_clipped_text_is_as_wide_as_it_may_be() {
        assert_eq!([clip("äöü", 3), clip("äöüß", 3), clip("", 0), clip("a", 0)], ["äöü", "äö…", "", ""]);
    }

    #[test]
    fn json_is_exact_and_cannot_command_the_terminal() {
        let name = "a\x1b[2J\n\u{85}\u{202e}\u{200b}\u{e0041}é\"\\";
        let value = json!({"name": name, name: [1, 2.5, null], "none": {}, "nothing": []});
        for text in
            [json_line(&value).unwrap(), String::from_utf8(json_bytes(&value, Pretty::default()).unwrap()).unwrap()]
        {
            assert!(!text.replace('\n', "").contains(text::is_hidden), "{text}");
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
        assert_eq!(
            json_bytes(&value["nothing"], Pretty::default()).unwrap(),
            serde_json::to_vec_pretty(&value["nothing"]).unwrap()
        );
    }
}
