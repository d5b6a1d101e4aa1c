//! Progress: a bar on a terminal, occasional plain lines elsewhere, nothing with `--quiet`.
//!
//! The bar always fits one line of the terminal: the least important fields are dropped first.

use std::{
    io::IsTerminal,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use shardpack_runtime::Instant;
use shardpack_source::monitor::{Monitor, Phase};

use crate::{
    embedded::{self, Host, host},
    report,
    terminal::Stream,
};

/// Interval of the lines if stderr is not a terminal.
const PLAIN_EVERY: Duration = Duration::from_secs(10);
const BAR_EVERY: Duration = Duration::from_millis(100);
/// Columns of a terminal of unknown width.
const USUAL_COLUMNS: usize = 80;
/// Columns of the bar.
const SHORTEST_BAR: usize = 8;
const LONGEST_BAR: usize = 24;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Installs a handler for Ctrl-C and SIGTERM: the first signal stops the work cleanly, the second ends the process at once.
pub fn catch_interrupts() {
    // The host handles signals.
    if host().is_some() {
        return;
    }
    // Without a handler, a signal ends the process, which is safe too.
    let _ = ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
}

/// Draws progress on stderr, or reports it to the host.
pub struct Progress {
    host: Option<Arc<Host>>,
    quiet: bool,
    terminal: bool,
    samples: AtomicU64,
    bytes: AtomicU64,
    shown: Mutex<Shown>,
    midst: Mutex<Option<PausedPhase>>,
}

/// The interrupted phase, to be resumed when the inner phase has ended.
struct PausedPhase {
    shown: Shown,
    samples: u64,
    bytes: u64,
    since: Instant,
}

struct Shown {
    verb: &'static str,
    /// Whether images are counted in addition to bytes.
    of_images: bool,
    total_samples: u64,
    total_bytes: u64,
    /// Done by an earlier run.
    recalled_samples: u64,
    recalled_bytes: u64,
    begun: Instant,
    next: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Draws progress unless `quiet`.
    pub fn new(quiet: bool) -> Self {
        let now = Instant::now();
        let host = host();
        Self {
            terminal: host.is_none() && std::io::stderr().is_terminal(),
            host,
            quiet,
            samples: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            midst: Mutex::new(None),
            shown: Mutex::new(Shown {
                verb: "",
                of_images: true,
                total_samples: 0,
                total_bytes: 0,
                recalled_samples: 0,
                recalled_bytes: 0,
                begun: now,
                next: now,
                bar: None,
            }),
        }
    }

    /// Removes the bar before results are printed. A host gets the final progress.
    pub fn finish(&self) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        self.tell(&shown);
        if let Some(bar) = shown.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn new_bar(&self, bytes: u64) -> Option<ProgressBar> {
        (self.terminal && !self.quiet).then(|| {
            let style = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr()).with_style(style)
        })
    }

    /// Reports progress to the host.
    fn tell(&self, shown: &Shown) {
        let Some(host) = &self.host else { return };
        let (samples, bytes) = (self.samples.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        let Shown { verb, total_samples, total_bytes, .. } = *shown;
        host.is_at(embedded::Progress { verb, samples, total_samples, bytes, total_bytes });
    }

    fn draw(&self, shown: &mut Shown) {
        let now = Instant::now();
        if self.host.is_some() {
            self.tell(shown);
            shown.next = now + BAR_EVERY;
            return;
        }
        let (samples, bytes) = (self.samples.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        let state = State { samples, bytes, elapsed: now - shown.begun, shown };
        match &shown.bar {
            Some(bar) => {
                bar.set_message(state.bar_line(Stream::Err.columns().unwrap_or(USUAL_COLUMNS)));
                bar.tick();
                shown.next = now + BAR_EVERY;
            }
            None => {
                report::say(&state.plain_line());
                shown.next = now + PLAIN_EVERY;
            }
        }
    }
}

/// Current progress.
struct State<'a> {
    samples: u64,
    bytes: u64,
    elapsed: Duration,
    shown: &'a Shown,
}

impl State<'_> {
    fn percent(&self) -> u64 {
        (u128::from(self.bytes) * 100 / u128::from(self.shown.total_bytes.max(1))).min(100) as u64
    }

    /// Samples of this run per second.
    fn samples_per_second(&self) -> u64 {
        let done = self.samples.saturating_sub(self.shown.recalled_samples);
        (done as f64 / self.elapsed.as_secs_f64().max(1e-3)) as u64
    }

    fn rate(&self) -> String {
        report::rate(self.bytes.saturating_sub(self.shown.recalled_bytes), self.elapsed)
    }

    /// Remaining time at the rate of this run; `None` before there is a rate.
    fn left(&self) -> Option<String> {
        let done = self.bytes.saturating_sub(self.shown.recalled_bytes);
        let to_do = self.shown.total_bytes.saturating_sub(self.bytes);
        let seconds = self.elapsed.as_secs_f64() * to_do as f64 / done as f64;
        (done > 0).then(|| report::coarse_duration(Duration::from_secs_f64(seconds.clamp(0.0, 1e9))))
    }

    /// The line for a terminal of `columns`: always shorter, so that it does not wrap.
    fn bar_line(&self, columns: usize) -> String {
        let most = columns.saturating_sub(1);
        if self.shown.total_bytes == 0 {
            let found = format!("{:<7} {}", self.shown.verb, report::counted(self.samples, "image"));
            let with_rate = format!("{found}, {}/s", report::count(self.samples_per_second()));
            return if with_rate.len() <= most { with_rate } else { report::clip(&found, most) };
        }
        let head = format!("{:<7} {:>3} %", self.shown.verb, self.percent());
        let done = report::bytes(self.bytes);
        let of_all = format!("{done} of {}", report::bytes(self.shown.total_bytes));
        let (a_second, left) = (report::count(self.samples_per_second()), self.left());
        let of_images = self.shown.of_images;
        let images = of_images.then(|| format!("{a_second} images/s"));
        let a_second = of_images.then(|| format!("{a_second}/s"));
        let left_long = left.as_ref().map(|left| format!("{left} left"));
        let rows: [&[Option<String>]; 6] = [
            &[Some(of_all.clone()), Some(self.rate()), images.clone(), left_long.clone()],
            &[Some(of_all), images.clone(), left_long.clone()],
            &[Some(done.clone()), images, left_long.clone()],
            &[Some(done.clone()), a_second.clone(), left_long.clone()],
            &[Some(done), a_second, left],
            &[left_long],
        ];
        let line =
            |parts: &[Option<String>]| parts.iter().flatten().fold(String::new(), |line, part| line + "  " + part);
        for (number, row) in rows.iter().enumerate() {
            let rest = line(row);
            let room = most.saturating_sub(head.chars().count() + rest.chars().count());
            // The two widest rows are used only if there is also room for a bar.
            let wanted = if number < 2 { SHORTEST_BAR + 1 } else { 0 };
            if room >= wanted && head.chars().count() + rest.chars().count() <= most {
                let bar = if room > SHORTEST_BAR { self.bar(room.min(LONGEST_BAR + 1) - 1) } else { String::new() };
                return format!("{:<7} {bar}{:>3} %{rest}", self.shown.verb, self.percent());
            }
        }
        report::clip(&head, most)
    }

    /// The bar and the space after it.
    fn bar(&self, columns: usize) -> String {
        let full = columns * self.percent() as usize / 100;
        let tip = if full < columns { "╸" } else { "" };
        format!("{}{tip}{} ", "━".repeat(full), " ".repeat(columns - full - tip.chars().count()))
    }

    fn plain_line(&self) -> String {
        let Shown { verb, total_samples, total_bytes, .. } = self.shown;
        let samples = report::count(self.samples);
        let a_second = report::count(self.samples_per_second());
        if *total_bytes == 0 {
            let samples = report::counted(self.samples, "image");
            return format!("{verb:<7} {samples}, {}, {a_second} images/s", report::bytes(self.bytes));
        }
        let of_all = match total_samples {
            0 => samples,
            all => format!("{samples} of {}", report::count(*all)),
        };
        let left = self.left().map_or_else(String::new, |left| format!(", {left} left"));
        if !self.shown.of_images {
            let done = report::bytes(self.bytes);
            return format!(
                "{verb:<7} {} %, {done} of {}, {}{left}",
                self.percent(),
                report::bytes(*total_bytes),
                self.rate()
            );
        }
        format!("{verb:<7} {} %, {of_all} images, {}, {a_second} images/s{left}", self.percent(), self.rate())
    }
}

impl Monitor for Progress {
    fn begin(&self, phase: Phase, samples: u64, bytes: u64) {
        self.finish();
        let (done_samples, done_bytes) =
            (self.samples.swap(0, Ordering::Relaxed), self.bytes.swap(0, Ordering::Relaxed));
        let verb = match phase {
            Phase::Walking => "walking",
            Phase::Looking => "looking",
            Phase::Making => "making",
            Phase::Unpacking => "unpack",
            Phase::Packing => "packing",
            Phase::Verifying => "reading",
            Phase::Comparing => "compare",
            Phase::Mending => "mending",
            Phase::Scanning => "scan",
        };
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let bar = self.new_bar(bytes);
        let before = std::mem::replace(
            &mut *shown,
            Shown {
                verb,
                of_images: phase != Phase::Unpacking,
                total_samples: samples,
                total_bytes: bytes,
                recalled_samples: 0,
                recalled_bytes: 0,
                begun: now,
                next: now + if bar.is_some() { BAR_EVERY } else { PLAIN_EVERY },
                bar,
            },
        );
        if self.host.is_some() {
            shown.next = now;
            self.tell(&shown);
        }
        *self.midst.lock().unwrap_or_else(PoisonError::into_inner) = (phase == Phase::Unpacking)
            .then_some(PausedPhase { shown: before, samples: done_samples, bytes: done_bytes, since: now });
    }

    fn end(&self) {
        let Some(PausedPhase { shown: before, samples, bytes, since }) =
            self.midst.lock().unwrap_or_else(PoisonError::into_inner).take()
        else {
            return;
        };
        self.finish();
        self.samples.store(samples, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        let now = Instant::now();
        let bar = self.new_bar(before.total_bytes);
        let next = now + if bar.is_some() { BAR_EVERY } else { PLAIN_EVERY };
        // The rate of the outer phase excludes the time of the inner phase.
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) =
            Shown { bar, begun: before.begun + (now - since), next, ..before };
    }

    fn advance(&self, samples: u64, bytes: u64) {
        let before = self.samples.fetch_add(samples, Ordering::Relaxed);
        let bytes_before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        // Read the clock only once per 64 samples or 1 MiB.
        let is_time = before / 64 != (before + samples) / 64 || bytes_before >> 20 != (bytes_before + bytes) >> 20;
        if (self.quiet && self.host.is_none()) || !is_time {
            return;
        }
        if let Ok(mut shown) = self.shown.try_lock()
            && Instant::now() >= shown.next
        {
            self.draw(&mut shown);
        }
    }

    fn recall(&self, samples: u64, bytes: u64) {
        self.samples.fetch_add(samples, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.recalled_samples += samples;
        shown.recalled_bytes += bytes;
    }

    fn say(&self, line: &str) {
        if self.quiet {
            return;
        }
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        match (&self.host, &shown.bar) {
            // The thread that reports a line may differ from the thread that runs the command.
            (Some(host), _) => host.say(line),
            (None, Some(bar)) => bar.suspend(|| report::say(line)),
            (None, None) => report::say(line),
        }
    }

    fn interrupted(&self) -> bool {
        if let Some(host) = &self.host {
            return host.is_interrupted();
        }
        INTERRUPTED.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(total_bytes: u64, recalled_samples: u64, recalled_bytes: u64) -> Shown {
        let now = Instant::now();
        Shown {
            verb: "packing",
            of_images: true,
            total_samples: 1_281_167,
            total_bytes,
            recalled_samples,
            recalled_bytes,
            begun: now,
            next: now,
            bar: None,
        }
    }

    #[test]
    fn a_bar_fits_its_terminal_and_says_bytes_images_and_time_left() {
        let shown = shown(148_000_000_000, 0, 0);
        let state = |seconds| State {
            samples: 538_000,
            bytes: 62_000_000_000,
            elapsed: Duration::from_secs(seconds),
            shown: &shown,
        };
        for columns in 1..200 {
            for seconds in [1, 40, 400, 9_000, 900_000] {
                let line = state(seconds).bar_line(columns);
                assert!(line.chars().count() < columns.max(1) || line.is_empty(), "{columns}: {line}");
            }
        }
        assert_eq!(
            state(400).bar_line(80),
            "packing ━━━╸       41 %  57.7 GiB of 137.8 GiB  1,345 images/s  9 min 14 s left"
        );
        assert_eq!(state(400).bar_line(50), "packing  41 %  57.7 GiB  1,345/s  9 min 14 s left");
        for word in ["57.7 GiB", "1,345", "9 min"] {
            assert!([50, 80, 120].iter().all(|columns| state(400).bar_line(*columns).contains(word)), "{word}");
        }
        assert!(state(400).bar_line(120).contains("147.8 MiB/s"), "{}", state(400).bar_line(120));
    }

    #[test]
    fn the_pace_is_that_of_this_run_alone() {
        let shown = shown(1000, 90, 900);
        let state = State { samples: 95, bytes: 950, elapsed: Duration::from_secs(5), shown: &shown };
        assert_eq!(state.samples_per_second(), 1);
        assert_eq!(state.rate(), "10 B/s");
        assert_eq!(state.left().as_deref(), Some("5 s"));
        let state = State { samples: 90, bytes: 900, elapsed: Duration::from_secs(5), shown: &shown };
        assert_eq!(state.left(), None);
    }

    #[test]
    fn what_was_interrupted_goes_on_with_its_own_counts_and_pace() {
        let progress = Progress::new(true);
        progress.begin(Phase::Packing, 10, 1000);
        progress.recall(2, 200);
        progress.advance(1, 100);
        let begun = progress.shown.lock().unwrap().begun;
        progress.begin(Phase::Unpacking, 0, 50);
        progress.advance(0, 50);
        assert_eq!(progress.shown.lock().unwrap().verb, "unpack");
        std::thread::sleep(Duration::from_millis(2));
        progress.end();
        let shown = progress.shown.lock().unwrap();
        assert_eq!((shown.verb, shown.total_bytes, shown.recalled_bytes), ("packing", 1000, 200));
        assert_eq!((progress.samples.load(Ordering::Relaxed), progress.bytes.load(Ordering::Relaxed)), (3, 300));
        assert!(shown.begun >= begun + Duration::from_millis(2));
    }

    #[test]
    fn what_counts_no_images_says_bytes_and_time_left_alone() {
        let shown = Shown { verb: "unpack", of_images: false, ..shown(4 << 30, 0, 0) };
        let state = State { samples: 0, bytes: 1 << 30, elapsed: Duration::from_secs(10), shown: &shown };
        for line in [state.bar_line(80), state.bar_line(50), state.plain_line()] {
            assert!(line.contains("1.00 GiB") && line.contains("30 s left") && !line.contains("images"), "{line}");
        }
    }
}
