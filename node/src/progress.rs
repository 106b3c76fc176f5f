//! Progress of long work: a bar on a terminal, a line now and then elsewhere; nothing for work
//! that is done at once.

use crate::terminal::note;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    io::IsTerminal as _,
    time::{Duration, Instant},
};

/// Work shorter than this shows nothing.
const QUIET: Duration = Duration::from_secs(1);
/// Between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Shows how far something is.
#[derive(Debug)]
pub struct Progress {
    what: &'static str,
    bar: Option<ProgressBar>,
    started: Instant,
    last_line: Instant,
    lines: bool,
}

impl Progress {
    /// Progress of `what`, on standard error.
    #[must_use]
    pub fn new(what: &'static str) -> Self {
        let now = Instant::now();
        let terminal = std::io::stderr().is_terminal();
        Self {
            what,
            bar: None,
            started: now,
            last_line: now,
            lines: !terminal,
        }
    }

    /// `done` of `total` units are done.
    pub fn show(&mut self, done: u64, total: u64) {
        if self.started.elapsed() < QUIET {
            return;
        }
        if !self.lines {
            let bar = self.bar.get_or_insert_with(|| new_bar(self.what, total));
            bar.set_length(total);
            bar.set_position(done);
        } else if self.last_line.elapsed() >= LINE_EVERY {
            self.last_line = Instant::now();
            note(format_args!(
                "{}: {} %",
                self.what,
                done * 100 / total.max(1)
            ));
        }
    }

    /// Takes the bar away.
    pub fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

fn new_bar(what: &'static str, total: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{prefix} [{bar:40}] {percent} % {eta}");
    if let Ok(style) = style {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_prefix(what);
    bar
}
