//! How much of a peer's links bricks may take: a few at a time, of all data sets together, and little
//! beside frames.

/// Bricks on their way to a peer at a time.
pub(in crate::mesh) const DOWNLOADS_MAX: usize = 8;
/// While frames are rendered, a brick that came or went is followed by a pause of so many
/// times its own time: a quarter of the link at most is taken from the frames, whatever its rate.
const PAUSE_TIMES: u64 = 3;
/// No pause is longer: one brick that took very long says little of the next.
const PAUSE_MICROS_MAX: u64 = 10_000_000;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(in crate::mesh) struct RateLimit {
    /// While frames are rendered, no download begins before.
    pause_until: u64,
}

impl RateLimit {
    /// Whether one more brick may be had beside those `on_their_way`; `rendering`: frames are
    /// under way in the mesh.
    pub(in crate::mesh) fn may_begin(
        &self,
        now: u64,
        on_their_way: usize,
        rendering: bool,
    ) -> bool {
        let most = if rendering { 1 } else { DOWNLOADS_MAX };
        on_their_way < most && !(rendering && now < self.pause_until)
    }

    /// A brick came, and took so many microseconds.
    pub(in crate::mesh) fn came(&mut self, now: u64, took: u64) {
        let until = now.saturating_add(pause_micros(took));
        self.pause_until = self.pause_until.max(until);
    }
}

/// How long nothing is moved after a brick that took so many microseconds, while frames are
/// rendered.
pub(in crate::mesh) fn pause_micros(took: u64) -> u64 {
    took.saturating_mul(PAUSE_TIMES).min(PAUSE_MICROS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_frames_are_rendered_bricks_come_one_at_a_time_with_pauses() {
        let mut limit = RateLimit::default();
        assert!(limit.may_begin(0, DOWNLOADS_MAX - 1, false));
        assert!(!limit.may_begin(0, DOWNLOADS_MAX, false));
        assert!(limit.may_begin(0, 0, true) && !limit.may_begin(0, 1, true));
        limit.came(10_000, 10_000);
        assert!(!limit.may_begin(39_999, 0, true));
        assert!(limit.may_begin(39_999, 0, false), "nobody renders");
        assert!(limit.may_begin(40_000, 0, true));
        limit.came(40_000, 19_000_000);
        limit.came(40_000, 0);
        assert!(!limit.may_begin(40_000 + PAUSE_MICROS_MAX - 1, 0, true));
        assert!(limit.may_begin(40_000 + PAUSE_MICROS_MAX, 0, true));
    }
}
