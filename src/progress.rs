//! Progress: a bar on a terminal, a plain line now and then elsewhere, nothing when quiet.

use std::{
    io::{IsTerminal, Write},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use shardpack_packer::monitor::{Monitor, Phase};

use crate::report;

/// Where stderr is no terminal, a line is printed this often.
const PLAIN_EVERY: Duration = Duration::from_secs(10);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Makes Ctrl-C and SIGTERM end the work in good order; a second one ends it at once.
pub fn catch_interrupts() {
    // Without a handler the process just ends, which is safe as well.
    let _ = ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
}

/// Draws progress on stderr.
pub struct Progress {
    quiet: bool,
    terminal: bool,
    samples: AtomicU64,
    bytes: AtomicU64,
    shown: Mutex<Shown>,
}

struct Shown {
    verb: &'static str,
    total_samples: u64,
    total_bytes: u64,
    begun: Instant,
    next: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Draws unless `quiet`.
    pub fn new(quiet: bool) -> Self {
        let now = Instant::now();
        let shown = Shown { verb: "", total_samples: 0, total_bytes: 0, begun: now, next: now, bar: None };
        Self {
            quiet,
            terminal: std::io::stderr().is_terminal(),
            samples: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            shown: Mutex::new(shown),
        }
    }

    /// Takes the bar away; results follow.
    pub fn finish(&self) {
        if let Some(bar) = self.shown.lock().unwrap_or_else(PoisonError::into_inner).bar.take() {
            bar.finish_and_clear();
        }
    }

    fn draw(&self, shown: &mut Shown) {
        let (samples, bytes) = (self.samples.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        let now = Instant::now();
        if let Some(bar) = &shown.bar {
            shown.next = now + Duration::from_millis(100);
            if shown.total_bytes == 0 {
                bar.set_message(report::counted(samples, "image"));
                bar.tick();
            } else {
                bar.set_position(bytes);
                bar.set_message(report::counted(samples, "image"));
            }
        } else {
            shown.next = now + PLAIN_EVERY;
            let elapsed = now - shown.begun;
            let line = match bytes * 100 {
                hundred if shown.total_bytes > 0 => {
                    let left = elapsed.as_secs_f64() * (shown.total_bytes as f64 / bytes.max(1) as f64 - 1.0);
                    format!(
                        "{:<7} {} %, {} of {} images, {}, {} left",
                        shown.verb,
                        hundred / shown.total_bytes,
                        report::count(samples),
                        report::count(shown.total_samples),
                        report::rate(bytes, elapsed),
                        report::duration(Duration::from_secs_f64(left.clamp(0.0, 1e9)))
                    )
                }
                _ => format!("{:<7} {}, {}", shown.verb, report::counted(samples, "image"), report::bytes(bytes)),
            };
            // When stderr is gone there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }
}

impl Monitor for Progress {
    fn begin(&self, phase: Phase, samples: u64, bytes: u64) {
        self.finish();
        self.samples.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        let verb = match phase {
            Phase::Walking => "walking",
            Phase::Looking => "looking",
            Phase::Making => "making",
            Phase::Unpacking => "unpack",
            Phase::Packing => "packing",
            Phase::Verifying => "reading",
            Phase::Comparing => "comparing",
        };
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let bar = (self.terminal && !self.quiet).then(|| {
            let template = match bytes {
                0 => "{prefix:<7} {spinner} {msg}",
                _ => "{prefix:<7} {bar:24} {percent:>3} %  {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  {msg}  {eta} left",
            };
            let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
            bar.with_style(style.progress_chars("━╸ ")).with_prefix(verb)
        });
        let wait = if bar.is_some() { Duration::from_millis(100) } else { PLAIN_EVERY };
        *shown = Shown { verb, total_samples: samples, total_bytes: bytes, begun: now, next: now + wait, bar };
    }

    fn advance(&self, samples: u64, bytes: u64) {
        let before = self.samples.fetch_add(samples, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        // The clock is looked at now and then only.
        if self.quiet || before / 64 == (before + samples) / 64 {
            return;
        }
        if let Ok(mut shown) = self.shown.try_lock()
            && Instant::now() >= shown.next
        {
            self.draw(&mut shown);
        }
    }

    fn say(&self, line: &str) {
        if self.quiet {
            return;
        }
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        match &shown.bar {
            Some(bar) => bar.suspend(|| {
                let _ = writeln!(std::io::stderr(), "{line}");
            }),
            None => {
                let _ = writeln!(std::io::stderr(), "{line}");
            }
        }
    }

    fn interrupted(&self) -> bool {
        INTERRUPTED.load(Ordering::Relaxed)
    }
}
