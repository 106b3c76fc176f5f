//! Attacks: readers get inputs that a seed derived from good ones, and each must end in an answer
//! or in a clear error: no panic, no endless work, no memory beyond a stated limit.
//!
//! An input follows from the target's name and a number, its seed, alone; what fails names both
//! and how to try it again. Each target runs for [`seconds`] from seed 0 on.
//! Invariant: memory is counted by thread, so a reader that is attacked runs on one.

pub mod files;
pub mod memory;
pub mod mutation;
pub mod wire;

use crate::hostile::memory::Peak;
use brickmesh_topology::{Digest, base::seeded::Seeded};
use std::{
    io::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Variable: seconds that each target is attacked for.
const SECONDS: &str = "BRICKMESH_FUZZ_SECONDS";
/// Variable: the one seed to try again.
const SEED: &str = "BRICKMESH_FUZZ_SEED";
/// Seconds where the variable says nothing.
const SECONDS_DEFAULT: u64 = 3;
/// An input that is not done by then is taken to never end.
const INPUT_TIME_MAX: Duration = Duration::from_secs(120);
/// Longest error, in characters: a person has to read it, and a log to keep it.
const ERROR_CHARACTERS_MAX: usize = 6000;

/// What is attacked, and the memory that it may take at once: so much, and so much for each byte
/// of the input.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name of the test.
    pub name: &'static str,
    /// Bytes whatever the input.
    pub bytes_max: u64,
    /// Bytes for each byte of the input.
    pub bytes_per_byte: u64,
}

/// How a reader ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The input was taken.
    Read,
    /// The input was refused, with this error.
    Refused(String),
}

impl<T, E: std::fmt::Display> From<Result<T, E>> for Outcome {
    fn from(result: Result<T, E>) -> Self {
        result.map_or_else(|e| Self::Refused(e.to_string()), |_| Self::Read)
    }
}

/// What an attack has found.
#[derive(Debug, Default)]
struct Report {
    inputs: u64,
    read: u64,
    peak_bytes: u64,
    slowest: (Duration, u64),
}

impl Target {
    /// Attacks until the time is over. `make` derives an input from draws and tells its length in
    /// bytes; `read` gives it to the reader, and panics where the answer is wrong.
    ///
    /// # Panics
    /// With the seed of the first input that fails.
    pub fn attack<I>(
        &self,
        mut make: impl FnMut(&mut Seeded) -> (I, usize),
        mut read: impl FnMut(I) -> Outcome,
    ) {
        let watch = Watch::new(self.name);
        let mut report = Report::default();
        let started = Instant::now();
        let (first, only) = seed().map_or((0, false), |seed| (seed, true));
        for seed in first.. {
            let (input, length) = make(&mut self.draws(seed));
            watch.begin(seed);
            let before = Instant::now();
            memory::begin(self.name, seed, self.limit(length));
            let outcome = catch_unwind(AssertUnwindSafe(|| read(input)));
            let peak = memory::end();
            watch.end();
            let took = before.elapsed();
            if let Err(wrong) = self.judge(outcome, peak, length, &mut report) {
                panic!(
                    "{}, seed {seed}: {wrong}; again: {SEED}={seed} cargo test --release -p brickmesh-tests --test hostile {}",
                    self.name, self.name
                );
            }
            report.inputs += 1;
            report.peak_bytes = report.peak_bytes.max(peak.bytes);
            report.slowest = report.slowest.max((took, seed));
            if only || started.elapsed().as_secs() >= seconds() {
                break;
            }
        }
        report.print(self.name);
    }

    /// The draws of a seed, others for each target.
    fn draws(&self, seed: u64) -> Seeded {
        let name = Digest::of(self.name.as_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&name.as_bytes()[..8]);
        Seeded::new(u64::from_le_bytes(first).wrapping_add(seed))
    }

    fn limit(&self, length: usize) -> u64 {
        self.bytes_max + self.bytes_per_byte * length as u64
    }

    fn judge(
        &self,
        outcome: std::thread::Result<Outcome>,
        peak: Peak,
        length: usize,
        report: &mut Report,
    ) -> Result<(), String> {
        let limit = self.limit(length);
        match outcome {
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                return Err(format!("it panics: {}", text.unwrap_or("without a word")));
            }
            Ok(Outcome::Read) => report.read += 1,
            Ok(Outcome::Refused(error)) => {
                let count = error.chars().count();
                if !(5..=ERROR_CHARACTERS_MAX).contains(&count) {
                    return Err(format!("its error has {count} characters"));
                }
            }
        }
        if peak.bytes > limit || peak.largest_request > limit {
            return Err(format!(
                "{} bytes of memory at once and {} in one request, for an input of {length}: more than {limit}",
                peak.bytes, peak.largest_request
            ));
        }
        Ok(())
    }
}

impl Report {
    /// Past the test runner's capture of output, which hides what passes.
    fn print(&self, name: &str) {
        let line = format!(
            "attacked {name}: {} inputs, {} read, {} refused; at most {} KiB, slowest {} ms (seed {})\n",
            self.inputs,
            self.read,
            self.inputs - self.read,
            self.peak_bytes >> 10,
            self.slowest.0.as_millis(),
            self.slowest.1
        );
        if std::io::stderr().write_all(line.as_bytes()).is_err() {
            println!("{line}");
        }
    }
}

/// Seconds that each target is attacked for.
#[must_use]
pub fn seconds() -> u64 {
    number(SECONDS).unwrap_or(SECONDS_DEFAULT)
}

/// The one seed to try again.
#[must_use]
pub fn seed() -> Option<u64> {
    number(SEED)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Ends the program, with the seed, where an input never ends: a test that hangs says nothing.
struct Watch {
    under_way: Arc<Mutex<Option<(u64, Instant)>>>,
    over: Arc<AtomicBool>,
}

impl Watch {
    fn new(name: &'static str) -> Self {
        let watch = Self {
            under_way: Arc::default(),
            over: Arc::default(),
        };
        let (under_way, over) = (Arc::clone(&watch.under_way), Arc::clone(&watch.over));
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(500));
                let now = *under_way.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((seed, since)) = now
                    && since.elapsed() > INPUT_TIME_MAX
                {
                    eprintln!("{name}, seed {seed}: not done after {INPUT_TIME_MAX:?}");
                    std::process::abort();
                }
            }
        });
        watch
    }

    fn set(&self, to: Option<(u64, Instant)>) {
        *self
            .under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = to;
    }

    fn begin(&self, seed: u64) {
        self.set(Some((seed, Instant::now())));
    }

    fn end(&self) {
        self.set(None);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}
