//! Whose frame the device works on next: those who ask for frames share its time, so that slow frames of one
//! do not keep those of another waiting (start-time fair queueing of device time: Goyal, Vin, Cheng 1996).
//!
//! Within a requester the oldest frame comes first. A requester is left for another one only when it is
//! [`QUANTUM_MICROS`] ahead: a change of frames costs the device something, and short frames are not taken apart.

use crate::base::peer::PeerId;
use std::collections::BTreeMap;

/// So far ahead of the others, in microseconds, a requester may be that has the device.
const QUANTUM_MICROS: u64 = 10_000;

/// Who asked for a frame so short a while ago, in microseconds, is likely to ask for another one.
const RECENT_MICROS: u64 = 30_000_000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Device time that was given to each requester who is ahead, microseconds; others are at `least`.
    given: BTreeMap<PeerId, u64>,
    /// What those who have jobs were given at least. Who comes begins here: time that nobody wanted is
    /// not saved up.
    least: u64,
    last: Option<PeerId>,
    /// When each requester asked for a frame last.
    asked: BTreeMap<PeerId, u64>,
}

impl Turns {
    /// A requester asks for a frame.
    pub(super) fn asks(&mut self, now: u64, requester: &PeerId) {
        self.asked.insert(requester.clone(), now);
        let recent = now.saturating_sub(RECENT_MICROS);
        self.asked.retain(|_, asked| *asked >= recent);
    }

    /// Whether the device has others to work for than this requester, now or soon.
    pub(super) fn is_shared(&self, requester: &PeerId) -> bool {
        self.asked.keys().any(|other| other != requester)
    }

    fn given(&self, requester: &PeerId) -> u64 {
        let given = self.given.get(requester).copied();
        given.unwrap_or(0).max(self.least)
    }

    /// The place of the frame that is next, among frames with jobs by who asked for them, oldest first.
    pub(super) fn next<'a>(
        &mut self,
        frames: impl Iterator<Item = (usize, &'a PeerId)> + Clone,
    ) -> Option<usize> {
        let of_all = frames.clone().map(|(_, requester)| self.given(requester));
        self.least = of_all.min()?;
        let goes_on = |requester: &PeerId| {
            self.last.as_ref() == Some(requester)
                && self.given(requester) <= self.least.saturating_add(QUANTUM_MICROS)
        };
        let next = frames.clone().find(|(_, r)| goes_on(r));
        let next = next.or_else(|| frames.clone().find(|(_, r)| self.given(r) == self.least));
        next.map(|(at, _)| at)
    }

    /// A job of a requester goes to the device, and should take so long.
    pub(super) fn gave(&mut self, requester: &PeerId, expected: u64) {
        let given = self.given(requester).saturating_add(expected);
        self.given.insert(requester.clone(), given);
        self.given.retain(|_, given| *given > self.least);
        self.last = Some(requester.clone());
    }

    /// It took so long.
    pub(super) fn took(&mut self, requester: &PeerId, expected: u64, measured: u64) {
        let given = self.given(requester).saturating_add(measured);
        self.given
            .insert(requester.clone(), given.saturating_sub(expected));
    }

    /// Who has the device has had its turn.
    pub(super) fn end_turn(&mut self) {
        self.last = None;
    }

    /// A requester is gone.
    pub(super) fn lost(&mut self, requester: &PeerId) {
        self.given.remove(requester);
        self.asked.remove(requester);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Device time of each of these in a second: job lengths, as they are and as they were expected to be,
    /// and how long each rests after a frame of so many jobs.
    fn shares<const N: usize>(of: [(u64, u64, u32, u64); N]) -> [u64; N] {
        let names: [PeerId; N] = std::array::from_fn(|n| PeerId::new(&n.to_string()));
        let mut turns = Turns::default();
        let (mut now, mut had) = (0, [0; N]);
        let mut left = of.map(|(_, _, jobs, _)| jobs);
        let mut back = [0; N];
        while now < 1_000_000 {
            for n in 0..N {
                if left[n] == 0 && back[n] <= now {
                    left[n] = of[n].2;
                }
            }
            let ready = (0..N).filter(|&n| left[n] > 0);
            let Some(n) = turns.next(ready.map(|n| (n, &names[n]))) else {
                now += 100;
                continue;
            };
            let (measured, expected, _, rest) = of[n];
            turns.gave(&names[n], expected);
            now += measured;
            turns.took(&names[n], expected, measured);
            had[n] += measured;
            left[n] -= 1;
            if left[n] == 0 {
                back[n] = now + rest;
            }
        }
        had
    }

    #[test]
    fn the_device_is_shared_by_time_however_long_the_jobs_are() {
        // Long frames beside short ones; what was not expected counts as it was.
        for of in [
            [(20_000, 20_000, 100, 0), (5_000, 5_000, 2, 0)],
            [(20_000, 0, 100, 0), (5_000, 0, 2, 0)],
            [(20_000, 1_000, 100, 0), (5_000, 50_000, 8, 500)],
        ] {
            let [slow, fast] = shares(of);
            assert!(fast >= 400_000 && slow >= 400_000, "{of:?}: {slow} {fast}");
        }
        // A job of 200 ms begins whenever the other one rests, and cannot be put aside.
        let [slow, fast] = shares([(200_000, 200_000, 1, 1_000), (5_000, 5_000, 20, 1_000)]);
        assert!(fast >= 300_000, "{slow} {fast}");
    }

    #[test]
    fn who_rested_has_saved_nothing_and_who_wants_little_gets_it_at_once() {
        // One works alone for a long time; then another comes.
        let (one, other) = (PeerId::new("one"), PeerId::new("other"));
        let mut turns = Turns::default();
        let alone = [(0, &one)];
        for _ in 0..1_000 {
            assert_eq!(turns.next(alone.into_iter()), Some(0));
            turns.gave(&one, 20_000);
        }
        let both = [(0, &one), (1, &other)];
        let mut count = [0, 0];
        for _ in 0..20 {
            let at = turns.next(both.into_iter()).unwrap();
            turns.gave(both[at].1, 20_000);
            count[at] += 1;
        }
        assert_eq!(count, [10, 10]);
        // Who wants a tenth of the time has it, whoever else wants all.
        let [all, tenth] = shares([(10_000, 10_000, 50, 0), (4_000, 4_000, 1, 36_000)]);
        assert!(tenth > 70_000, "{tenth} beside {all}");
    }
}
