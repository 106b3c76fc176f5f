//! The frames that a peer renders at a time: how many of whom it takes, and for how long one that
//! nobody has called off counts as under way.

/// Frames of one requester that are under way at a time: it asks for a few, and calls off others before
/// it asks for more. Beyond these its own oldest is dropped.
const FRAMES_OF_ONE_MAX: usize = 8;
/// Frames that are under way at a time, of all requesters; no further one is taken.
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

/// The place of a further frame of `requester` beside frames of `requesters`, oldest first. One who
/// asks for too many loses its own.
pub fn place<T: PartialEq>(requesters: impl Iterator<Item = T>, requester: T) -> Place {
    let (mut all, mut own, mut oldest) = (0, 0, None);
    for (at, other) in requesters.enumerate() {
        all += 1;
        if other == requester {
            own += 1;
            oldest.get_or_insert(at);
        }
    }
    match oldest {
        Some(oldest) if own >= FRAMES_OF_ONE_MAX => Place::InsteadOf(oldest),
        _ if all >= FRAMES_MAX => Place::None,
        _ => Place::Free,
    }
}

/// Whether a frame that nobody has called off, and that came so many microseconds ago, is under way;
/// `has_jobs`: there are jobs of it to render here.
#[must_use]
pub fn is_under_way(age_micros: u64, has_jobs: bool) -> bool {
    has_jobs || age_micros < UNDER_WAY_MICROS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_too_many_frames_loses_its_own() {
        let mut requesters = vec!["other"];
        for _ in 0..FRAMES_OF_ONE_MAX {
            assert_eq!(place(requesters.iter(), &"flood"), Place::Free);
            requesters.push("flood");
        }
        assert_eq!(place(requesters.iter(), &"flood"), Place::InsteadOf(1));
        assert_eq!(place(requesters.iter(), &"other"), Place::Free);
        assert_eq!(place(0..FRAMES_MAX - 1, FRAMES_MAX), Place::Free);
        assert_eq!(place(0..FRAMES_MAX, FRAMES_MAX), Place::None);
    }

    #[test]
    fn a_frame_without_jobs_is_not_under_way_for_ever() {
        assert!(is_under_way(UNDER_WAY_MICROS_MAX - 1, false));
        assert!(!is_under_way(UNDER_WAY_MICROS_MAX, false));
        assert!(is_under_way(UNDER_WAY_MICROS_MAX, true));
    }
}
