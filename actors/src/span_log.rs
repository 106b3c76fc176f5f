//! What a part of a peer did for frames whose requesters want to know it, until that is sent.

use crate::messages::FrameKey;
use brickmesh_topology::frame::timeline::{SPANS_MAX, Span, SpanKind};
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::OnceLock,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// Frames whose spans are kept, at most.
const FRAMES_MAX: usize = 64;

/// Microseconds since 1970 by this machine's clock as it was when first asked, and steady since.
#[must_use]
pub fn now_micros() -> u64 {
    static FIRST: OnceLock<(Instant, u64)> = OnceLock::new();
    let (instant, micros) = FIRST.get_or_init(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let micros = since.map_or(0, |since| since.as_micros());
        (Instant::now(), u64::try_from(micros).unwrap_or(0))
    });
    let since = u64::try_from(instant.elapsed().as_micros()).unwrap_or(u64::MAX);
    micros.saturating_add(since)
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SpanLog(BTreeMap<FrameKey, Vec<Span>>);

impl SpanLog {
    /// Spans of this frame are wanted.
    pub(crate) fn begin(&mut self, key: FrameKey) {
        if self.0.len() >= FRAMES_MAX {
            self.0.pop_first();
        }
        self.0.insert(key, Vec::new());
    }

    /// Something was done from `start` until now.
    pub(crate) fn add(&mut self, key: &FrameKey, kind: SpanKind, start: u64, job: Option<u32>) {
        self.add_until(key, kind, start..now_micros(), job);
    }

    /// Something was done at this time.
    pub(crate) fn add_until(
        &mut self,
        key: &FrameKey,
        kind: SpanKind,
        Range { start, end }: Range<u64>,
        job: Option<u32>,
    ) {
        if let Some(spans) = self.0.get_mut(key).filter(|s| s.len() < SPANS_MAX) {
            let micros = end.saturating_sub(start);
            spans.push(Span {
                kind,
                start,
                micros,
                job,
            });
        }
    }

    /// What was not taken yet of a frame.
    pub(crate) fn take(&mut self, key: &FrameKey) -> Vec<Span> {
        self.0.get_mut(key).map(std::mem::take).unwrap_or_default()
    }

    /// Frames that are over are forgotten.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&FrameKey) -> bool) {
        self.0.retain(|key, _| is_kept(key));
    }
}
