//! What a peer does when its device is lost: opens it again after pauses, a few times, and where
//! that fails, or it is lost again and again, falls back to one that always works.
//!
//! A pure state machine; times are microseconds of any clock that goes on.
//! Not here: what becomes of the bricks (`replicas`), opening devices.

/// Pauses before the tries to open a lost device again: a driver may take seconds to come back.
const PAUSES_MICROS: [u64; 3] = [0, 1_000_000, 5_000_000];
/// Pause between tries to open the device that always works.
const FALLBACK_MICROS: u64 = 10_000_000;
/// A device that was lost so often within [`LOSSES_MICROS`] is not opened again.
const LOSSES_MAX: usize = 3;
/// See [`LOSSES_MAX`].
const LOSSES_MICROS: u64 = 600_000_000;

/// Which device is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The one that was lost.
    Again,
    /// One that always works.
    Fallback,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct DeviceRecovery {
    /// When it was lost, recently.
    losses: Vec<u64>,
    /// While there is no device.
    closed: Option<Closed>,
}

#[derive(Clone, Copy, Debug)]
struct Closed {
    tries: usize,
    /// When the next one is due.
    due: u64,
}

impl DeviceRecovery {
    /// The device is lost.
    pub fn lost(&mut self, now: u64) {
        self.losses
            .retain(|&at| now.saturating_sub(at) < LOSSES_MICROS);
        self.losses.push(now);
        let is_trusted = self.losses.len() < LOSSES_MAX;
        let tries = if is_trusted { 0 } else { PAUSES_MICROS.len() };
        self.closed = Some(Closed { tries, due: now });
    }

    /// What to try now; it counts as tried. `None`: there is a device, or it is too early.
    pub fn next_attempt(&mut self, now: u64) -> Option<Attempt> {
        let closed = self.closed.as_mut().filter(|c| c.due <= now)?;
        let attempt = if closed.tries < PAUSES_MICROS.len() {
            Attempt::Again
        } else {
            Attempt::Fallback
        };
        closed.tries += 1;
        let pause = match attempt {
            // After the last of these the fallback follows at once.
            Attempt::Again => PAUSES_MICROS.get(closed.tries).copied().unwrap_or(0),
            Attempt::Fallback => FALLBACK_MICROS,
        };
        closed.due = now.saturating_add(pause);
        Some(attempt)
    }

    /// What was tried last has worked.
    pub fn opened(&mut self) {
        self.closed = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn a_lost_device_is_opened_again_after_pauses_and_then_another_takes_its_place() {
        let mut recovery = DeviceRecovery::default();
        assert_eq!(recovery.next_attempt(0), None);
        recovery.lost(7 * SECOND);
        let mut tried = Vec::new();
        for now in 7..40 {
            if let Some(attempt) = recovery.next_attempt(now * SECOND) {
                tried.push((now, attempt));
                // One attempt at a time, whatever the clock says.
                let next = recovery.next_attempt(now * SECOND);
                tried.extend(next.map(|a| (now, a)));
            }
        }
        use Attempt::{Again, Fallback};
        let expected = [(7, Again), (8, Again), (13, Again), (13, Fallback)];
        assert_eq!(tried[..4], expected);
        // Should even that fail, it goes on, seldom.
        assert_eq!(tried[4..], [(23, Fallback), (33, Fallback)]);
        recovery.opened();
        assert_eq!(recovery.next_attempt(99 * SECOND), None);
    }

    #[test]
    fn a_device_that_is_lost_again_and_again_is_not_trusted() {
        let mut recovery = DeviceRecovery::default();
        for now in [0, 100] {
            recovery.lost(now * SECOND);
            assert_eq!(recovery.next_attempt(now * SECOND), Some(Attempt::Again));
            recovery.opened();
        }
        let mut patient = recovery.clone();
        recovery.lost(200 * SECOND);
        assert_eq!(recovery.next_attempt(200 * SECOND), Some(Attempt::Fallback));
        // Long after, what was is forgotten.
        patient.lost(900 * SECOND);
        assert_eq!(patient.next_attempt(900 * SECOND), Some(Attempt::Again));
    }
}
