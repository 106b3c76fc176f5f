//! The frames that a peer renders at a time: how many of whom it takes, and for how long one that
//! nobody has called off counts as under way.

/// Frames of one requester that are under way at a time: it asks for a few, and calls off others before
/// it asks for more. Beyond these its own oldest is dropped.
const FRAMES_OF_ONE_MAX: usize = 8;
/// Frames at a time, of all requesters. Beyond these the oldest that is not under way is dropped; where
/// all are, no further one is taken.
const FRAMES_MAX: usize = 64;
/// A frame that was asked for and not called off, and has no jobs left, counts as under way for so long,
/// in microseconds: that it is over may not have been heard.
const UNDER_WAY_MICROS_MAX: u64 = 10_000_000;

/// Where a further frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Beside all others.
    Free,
    /// Of the frame at this place, which is dropped.
    InsteadOf(usize),
    /// Nowhere: it is not taken.
    None,
}

/// The place of a further frame of `requester` beside `frames`, oldest first: whose each is, and
/// whether it is under way. One who asks for too many loses its own; one who does not call them off,
/// too.
pub fn place<T: PartialEq>(frames: impl Iterator<Item = (T, bool)>, requester: T) -> Place {
    let (mut all, mut own, mut oldest_own, mut oldest_idle) = (0, 0, None, None);
    for (at, (other, is_under_way)) in frames.enumerate() {
        all += 1;
        if other == requester {
            own += 1;
            oldest_own.get_or_insert(at);
        }
        if !is_under_way {
            oldest_idle.get_or_insert(at);
        }
    }
    match (oldest_own, oldest_idle) {
        (Some(oldest), _) if own >= FRAMES_OF_ONE_MAX => Place::InsteadOf(oldest),
        (_, Some(idle)) if all >= FRAMES_MAX => Place::InsteadOf(idle),
        _ if all >= FRAMES_MAX => Place::None,
        _ => Place::Free,
    }
}

/// Whether a frame that nobody has called off, and that came so many microseconds ago, is under way;
/// `is_busy`: jobs of it wait or are rendered here.
#[must_use]
pub fn is_under_way(age_micros: u64, is_busy: bool) -> bool {
    is_busy || age_micros < UNDER_WAY_MICROS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_too_many_frames_loses_its_own() {
        let mut frames = vec![("other", true)];
        for _ in 0..FRAMES_OF_ONE_MAX {
            assert_eq!(place(frames.iter().copied(), "flood"), Place::Free);
            frames.push(("flood", true));
        }
        assert_eq!(place(frames.iter().copied(), "flood"), Place::InsteadOf(1));
        assert_eq!(place(frames.iter().copied(), "other"), Place::Free);
    }

    #[test]
    fn frames_that_nobody_calls_off_make_room_for_others() {
        let frames =
            |count, is_under_way: fn(usize) -> bool| (0..count).map(move |n| (n, is_under_way(n)));
        let of_another = FRAMES_MAX;
        let under_way = |count| place(frames(count, |_| true), of_another);
        assert_eq!(under_way(FRAMES_MAX - 1), Place::Free);
        assert_eq!(under_way(FRAMES_MAX), Place::None);
        let some_idle = |count| place(frames(count, |n| n != 3 && n != 5), of_another);
        assert_eq!(some_idle(FRAMES_MAX - 1), Place::Free);
        assert_eq!(some_idle(FRAMES_MAX), Place::InsteadOf(3));
    }

    #[test]
    fn a_frame_without_jobs_is_not_under_way_for_ever() {
        assert!(is_under_way(UNDER_WAY_MICROS_MAX - 1, false));
        assert!(!is_under_way(UNDER_WAY_MICROS_MAX, false));
        assert!(is_under_way(UNDER_WAY_MICROS_MAX, true));
    }
}
