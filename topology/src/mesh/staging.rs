//! Bricks that are read or fetched into device memory for frames, and not held: of a data set for which the peers have too
//! little memory, whoever has its source renders what nobody holds, brick after brick; where pictures are divided, each peer fetches
//! what its tiles show.
//!
//! A pure state machine. A brick that was asked for stays in memory until it is released, and after that
//! as long as its place is not needed: the one released first goes first.
//! Method: out-of-core rendering as Frank, Kaufman 2009 begin with; which brick is next is the frame worker's decision.
//!
//! Invariants: what is staged takes no more than the room that is given, but for bricks in use when that
//! shrinks. Every brick that was asked for is answered once, unless it is released before.

use super::transfers::BrickName;
use crate::{base::digest::Digest, data::brick_grid::BrickIndex};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Bricks that are read at a time: enough to keep a disk busy while others are checked.
const READS_MAX: usize = 4;
/// The same where others are asked for them: several links, and the way there and back.
const FETCHES_MAX: usize = 16;

/// How often frames needed bricks that their peer does not hold, since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StagingCounts {
    /// Bricks that were in memory still when they were asked for again.
    pub found: u64,
    /// Bricks that were read or fetched, and came while they were asked for.
    pub came: u64,
    /// Memory that those take, bytes.
    pub came_bytes: u64,
    /// Bricks that made room for others.
    pub evicted: u64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Staging {
    /// Asked for by that question, and not begun, in that order.
    waiting: VecDeque<(BrickName, u64)>,
    /// Being read, or fetched; the question that is still to be answered.
    reading: BTreeMap<BrickName, Option<u64>>,
    /// Those of them that are fetched.
    fetched: BTreeSet<BrickName>,
    /// In memory; for those that nobody needs, when they were released, counted.
    staged: BTreeMap<BrickName, Option<u64>>,
    /// Those that nobody needs, the one released first in front.
    idle: BTreeMap<u64, BrickName>,
    /// Memory of each that is in memory or being read, bytes, and of all together.
    sizes: BTreeMap<BrickName, u64>,
    bytes: u64,
    /// How often one was released.
    turn: u64,
    /// The device has no room for more of them; for none: until other bricks are freed.
    count_max: Option<usize>,
    counts: StagingCounts,
}

/// What became of a brick that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// It is in device memory.
    Done,
    /// The device had no room for it: it waits for another one's place, staged or held.
    NoRoom,
    /// It is damaged, cannot be read, or does not fit at all.
    Failed,
}

impl Staging {
    /// A frame needs a brick; true: it is in memory.
    pub(super) fn ask(&mut self, name: BrickName, question: u64) -> bool {
        if let Some(released) = self.staged.get_mut(&name) {
            let was_idle = released.take().map(|turn| self.idle.remove(&turn));
            self.counts.found += u64::from(was_idle.is_some());
            return true;
        }
        if let Some(awaited) = self.reading.get_mut(&name) {
            *awaited = Some(question);
        } else if let Some(waiting) = self.waiting.iter_mut().find(|(n, _)| *n == name) {
            waiting.1 = question;
        } else {
            self.waiting.push_back((name, question));
        }
        false
    }

    /// No frame needs the brick now.
    pub(super) fn release(&mut self, name: BrickName) {
        self.waiting.retain(|(n, _)| *n != name);
        if let Some(awaited) = self.reading.get_mut(&name) {
            *awaited = None;
        }
        self.set_idle(name);
    }

    fn set_idle(&mut self, name: BrickName) {
        if let Some(released @ None) = self.staged.get_mut(&name) {
            self.turn += 1;
            *released = Some(self.turn);
            self.idle.insert(self.turn, name);
        }
    }

    /// A brick of so many bytes is read though no frame waits for it. False: it is here, or being read.
    pub(super) fn look_at(&mut self, name: BrickName, bytes: u64) -> bool {
        let is_new = !self.has(name);
        if is_new {
            self.begin(name, bytes, None);
        }
        is_new
    }

    fn begin(&mut self, name: BrickName, bytes: u64, question: Option<u64>) {
        self.reading.insert(name, question);
        self.takes(name, bytes);
    }

    fn takes(&mut self, name: BrickName, bytes: u64) {
        let before = self.sizes.insert(name, bytes).unwrap_or(0);
        self.bytes = self.bytes - before + bytes;
    }

    fn takes_nothing(&mut self, name: BrickName) {
        self.bytes -= self.sizes.remove(&name).unwrap_or(0);
    }

    /// Memory of what is there or being read.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes what is staged fit into `room` bytes, and begins to read as many bricks as may be, or to fetch them where `is_fetched` says
    /// so; `bytes`: of a brick. Returns what is to be freed, and then what is to be read.
    pub(super) fn go_on(
        &mut self,
        room: u64,
        bytes: impl Fn(BrickName) -> u64,
        is_fetched: impl Fn(BrickName) -> bool,
    ) -> (Vec<BrickName>, Vec<BrickName>) {
        let (mut freed, mut begun) = (Vec::new(), Vec::new());
        let mut make_room = |staging: &mut Self, needed: u64| {
            while staging.bytes.saturating_add(needed) > room || needed > 0 && staging.is_full() {
                let Some((_, name)) = staging.idle.pop_first() else {
                    return false;
                };
                staging.forget(name);
                staging.counts.evicted += 1;
                freed.push(name);
            }
            true
        };
        make_room(self, 0);
        while let Some((at, is_fetched)) = self.next(&is_fetched) {
            let (name, question) = self.waiting[at];
            let needed = bytes(name);
            if !make_room(self, needed) {
                break;
            }
            self.waiting.remove(at);
            self.begin(name, needed, Some(question));
            if is_fetched {
                self.fetched.insert(name);
            }
            begun.push(name);
        }
        (freed, begun)
    }

    /// The place of the first brick that may be begun beside those that are under way, and whether it is fetched.
    fn next(&self, is_fetched: impl Fn(BrickName) -> bool) -> Option<(usize, bool)> {
        let fetches = self.fetched.len() < FETCHES_MAX;
        let reads = self.reading.len() - self.fetched.len() < READS_MAX;
        if !fetches && !reads {
            return None;
        }
        let waiting = self.waiting.iter().map(|&(name, _)| is_fetched(name));
        let mut waiting = waiting.enumerate();
        waiting.find(|&(_, is_fetched)| if is_fetched { fetches } else { reads })
    }

    fn is_full(&self) -> bool {
        self.count_max.is_some_and(|max| self.count() >= max)
    }

    /// What became of a brick that was begun. Returns the question that is to be answered, and whether the brick is in
    /// memory.
    pub(super) fn read(&mut self, name: BrickName, read: Read) -> Option<(u64, bool)> {
        let awaited = self.reading.remove(&name)?;
        self.fetched.remove(&name);
        match read {
            Read::Done => {
                self.staged.insert(name, None);
                if awaited.is_some() {
                    self.counts.came += 1;
                    self.counts.came_bytes += self.sizes.get(&name).copied().unwrap_or(0);
                } else {
                    self.set_idle(name);
                }
                self.count_max = self.count_max.map(|max| max.max(self.staged.len()));
                return Some((awaited?, true));
            }
            Read::NoRoom => {
                if let Some(question) = awaited {
                    self.count_max = Some(self.staged.len());
                    self.waiting.push_front((name, question));
                }
            }
            Read::Failed => {}
        }
        self.takes_nothing(name);
        (read == Read::Failed).then_some((awaited?, false))
    }

    /// Held bricks were freed: there may be more room.
    pub(super) fn memory_was_freed(&mut self) {
        self.count_max = None;
    }

    /// Memory was short for a picture: there is no room for more than are there.
    pub(super) fn is_short(&mut self) {
        self.count_max = Some(self.staged.len().max(1));
    }

    /// Whether a brick is in memory or being read.
    pub(super) fn has(&self, name: BrickName) -> bool {
        self.staged.contains_key(&name) || self.is_reading(name)
    }

    /// Whether a brick was asked for and is not begun.
    pub(super) fn is_waiting(&self, name: BrickName) -> bool {
        self.waiting.iter().any(|(n, _)| *n == name)
    }

    /// The bricks that are being fetched.
    pub(super) fn fetched(&self) -> impl Iterator<Item = BrickName> + '_ {
        self.fetched.iter().copied()
    }

    /// Whether a brick is being fetched.
    pub(super) fn is_fetched(&self, name: BrickName) -> bool {
        self.fetched.contains(&name)
    }

    /// Whether a brick is being read.
    pub(super) fn is_reading(&self, name: BrickName) -> bool {
        self.reading.contains_key(&name)
    }

    /// Whether a frame waits for a brick that is being read.
    pub(super) fn is_awaited(&self, name: BrickName) -> bool {
        self.reading.get(&name).is_some_and(Option::is_some)
    }

    /// A brick of so many bytes that was dropped, and is in memory, is asked for.
    pub(super) fn adopt(&mut self, name: BrickName, bytes: u64) {
        if let Some(Some(turn)) = self.staged.insert(name, None) {
            self.idle.remove(&turn);
        }
        self.takes(name, bytes);
        self.counts.found += 1;
    }

    /// The brick is held from now on, or its memory was freed. True: it was staged.
    pub(super) fn forget(&mut self, name: BrickName) -> bool {
        let Some(released) = self.staged.remove(&name) else {
            return false;
        };
        released.map(|turn| self.idle.remove(&turn));
        self.takes_nothing(name);
        true
    }

    /// The brick is held: who waits for it without its being read is to be answered.
    pub(super) fn take_waiting(&mut self, name: BrickName) -> Option<u64> {
        let at = self.waiting.iter().position(|(n, _)| *n == name)?;
        self.waiting.remove(at).map(|(_, question)| question)
    }

    /// Nothing more of a data set can be read: who waits for it is to be answered.
    pub(super) fn refuse(&mut self, data_set: Digest) -> Vec<(BrickName, u64)> {
        let (refused, waiting): (Vec<_>, Vec<_>) =
            (self.waiting.drain(..)).partition(|(name, _)| name.0 == data_set);
        self.waiting = waiting.into();
        refused
    }

    /// Of a data set what nobody needs keeps no place beyond so many bytes. Returns what is to be freed, the one released first in
    /// front.
    pub(super) fn free_beyond(&mut self, data_set: Digest, bytes: u64) -> Vec<BrickName> {
        let mut beyond = self.bytes_of(data_set).saturating_sub(bytes);
        let idle = self.idle.values().filter(|name| name.0 == data_set);
        let of = |name: &BrickName| self.sizes.get(name).copied().unwrap_or(0);
        let is_beyond = |name: &&BrickName| {
            let is_beyond = beyond > 0;
            beyond = beyond.saturating_sub(of(name));
            is_beyond
        };
        let idle: Vec<BrickName> = idle.take_while(is_beyond).copied().collect();
        idle.iter().for_each(|&name| {
            self.forget(name);
        });
        self.counts.evicted += idle.len() as u64;
        idle
    }

    /// A data set is closed. Returns what is to be freed, and what frames wait for in vain, by which question.
    pub(super) fn close(&mut self, data_set: Digest) -> (Vec<BrickName>, Vec<(BrickName, u64)>) {
        let is_of = |name: &BrickName| name.0 == data_set;
        let freed = self.staged.extract_if(.., |name, _| is_of(name));
        let freed = freed.map(|(name, _)| name).collect();
        self.idle.retain(|_, name| !is_of(name));
        self.fetched.retain(|name| !is_of(name));
        let reading = self.reading.extract_if(.., |name, _| is_of(name));
        let reading = reading.filter_map(|(name, awaited)| Some((name, awaited?)));
        let mut in_vain: Vec<_> = reading.collect();
        in_vain.extend(self.refuse(data_set));
        let gone = self.sizes.extract_if(.., |name, _| is_of(name));
        self.bytes -= gone.map(|(_, bytes)| bytes).sum::<u64>();
        self.count_max = None;
        (freed, in_vain)
    }

    /// The device is lost with all that was on it. Returns what frames wait for in vain, by which question.
    pub(super) fn device_lost(&mut self) -> Vec<(BrickName, u64)> {
        let counts = self.counts;
        let Self {
            waiting, reading, ..
        } = std::mem::take(self);
        self.counts = counts;
        let reading = reading.into_iter();
        let reading = reading.filter_map(|(name, awaited)| Some((name, awaited?)));
        reading.chain(waiting).collect()
    }

    /// See [`StagingCounts`].
    pub(super) fn counts(&self) -> StagingCounts {
        self.counts
    }

    /// Whether there is one at most, in memory or being read.
    pub(super) fn is_alone(&self) -> bool {
        self.count() <= 1
    }

    /// Whether none is in memory.
    pub(super) fn is_empty(&self) -> bool {
        self.staged.is_empty()
    }

    /// The bricks in memory.
    pub(super) fn names(&self) -> Vec<BrickName> {
        self.staged.keys().copied().collect()
    }

    /// Bricks in memory or being read.
    pub(super) fn count(&self) -> usize {
        self.staged.len() + self.reading.len()
    }

    /// Memory of the bricks of a data set that are there or being read.
    pub(super) fn bytes_of(&self, data_set: Digest) -> u64 {
        let of_set = (data_set, BrickIndex(0))..=(data_set, BrickIndex(u32::MAX));
        self.sizes.range(of_set).map(|(_, bytes)| bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: u32) -> BrickName {
        (Digest::of(b"data"), BrickIndex(n))
    }

    fn names(all: &[BrickName]) -> Vec<u32> {
        all.iter().map(|n| n.1.0).collect()
    }

    /// What is freed and begun in room for so many bricks.
    fn go_on(staging: &mut Staging, room: u64) -> (Vec<u32>, Vec<u32>) {
        let (freed, begun) = staging.go_on(10 * room, |_| 10, |_| false);
        (names(&freed), names(&begun))
    }

    /// Reads these bricks in room for so many, and releases them.
    fn used(staging: &mut Staging, all: impl IntoIterator<Item = u32>, room: u64) {
        for n in all {
            if !staging.ask(name(n), 1) {
                assert_eq!(go_on(staging, room).1, [n]);
                assert_eq!(staging.read(name(n), Read::Done), Some((1, true)));
            }
            staging.release(name(n));
        }
    }

    #[test]
    fn bricks_are_read_in_turn_as_far_as_there_is_room_and_stay_while_they_are_in_use() {
        let mut staging = Staging::default();
        for n in 0..9 {
            assert!(!staging.ask(name(n), 1) && !staging.ask(name(n), 1));
        }
        assert_eq!(go_on(&mut staging, 2), (vec![], vec![0, 1]));
        assert_eq!(go_on(&mut staging, 2), (vec![], vec![]));
        assert_eq!(staging.read(name(0), Read::Done), Some((1, true)));
        assert_eq!(go_on(&mut staging, 2), (vec![], vec![]), "both are in use");
        staging.release(name(0));
        assert_eq!(go_on(&mut staging, 2), (vec![0], vec![2]));
        // So many at a time, whatever the room.
        let (_, begun) = go_on(&mut staging, 99);
        assert_eq!(begun.len() + 2, READS_MAX);
    }

    #[test]
    fn the_one_released_first_is_freed_and_none_that_is_in_use() {
        let mut staging = Staging::default();
        used(&mut staging, [0, 1, 2, 0], 3);
        let counts = |found, came, evicted| StagingCounts {
            found,
            came,
            came_bytes: 10 * came,
            evicted,
        };
        assert_eq!(staging.counts(), counts(1, 3, 0));
        assert!(staging.ask(name(1), 1));
        assert!(!staging.ask(name(3), 1));
        assert_eq!(go_on(&mut staging, 3), (vec![2], vec![3]));
        assert_eq!(staging.counts(), counts(2, 3, 1));
        assert_eq!(staging.read(name(3), Read::Done), Some((1, true)));
        // The room is needed for something else.
        assert_eq!(go_on(&mut staging, 1).0, [0]);
        staging.release(name(3));
        staging.release(name(1));
        assert_eq!(go_on(&mut staging, 1).0, [3]);
        assert_eq!(go_on(&mut staging, 0).0, [1]);
    }

    #[test]
    fn what_is_released_is_not_read_and_what_was_begun_is_kept() {
        let mut staging = Staging::default();
        for n in 0..3 {
            staging.ask(name(n), 1);
        }
        assert_eq!(go_on(&mut staging, 1).1, [0]);
        staging.release(name(0));
        staging.release(name(1));
        assert_eq!(staging.read(name(0), Read::Done), None);
        assert!(staging.ask(name(0), 1));
        staging.release(name(0));
        assert_eq!(go_on(&mut staging, 1), (vec![0], vec![2]));
        // Released and asked for again while it is read.
        staging.release(name(2));
        assert!(!staging.ask(name(2), 7));
        assert_eq!(staging.read(name(2), Read::Failed), Some((7, false)));
        assert!(!staging.has(name(2)));
    }

    #[test]
    fn where_the_device_has_less_room_a_brick_waits_for_another_ones_place() {
        let mut staging = Staging::default();
        for n in 0..3 {
            staging.ask(name(n), 1);
        }
        assert_eq!(go_on(&mut staging, 9).1, [0, 1, 2]);
        assert_eq!(staging.read(name(0), Read::Done), Some((1, true)));
        assert_eq!(staging.read(name(1), Read::Done), Some((1, true)));
        assert_eq!(staging.read(name(2), Read::NoRoom), None);
        assert_eq!(go_on(&mut staging, 9), (vec![], vec![]));
        staging.release(name(1));
        assert_eq!(go_on(&mut staging, 9), (vec![1], vec![2]));
        // Where there is none of them, one that is held must go.
        staging.device_lost();
        staging.ask(name(5), 1);
        assert_eq!(go_on(&mut staging, 9).1, [5]);
        assert_eq!(staging.read(name(5), Read::NoRoom), None);
        assert!(go_on(&mut staging, 9).1.is_empty());
        staging.memory_was_freed();
        assert_eq!(go_on(&mut staging, 9).1, [5]);
    }

    #[test]
    fn small_bricks_take_less_room_than_large_ones() {
        let mut staging = Staging::default();
        let bytes = |(_, brick): BrickName| 10 * u64::from(brick.0);
        for n in [1, 2, 4, 3] {
            staging.ask(name(n), 1);
        }
        let (freed, begun) = staging.go_on(75, bytes, |_| false);
        assert_eq!((names(&freed), names(&begun)), (vec![], vec![1, 2, 4]));
        for n in [1, 2, 4] {
            staging.read(name(n), Read::Done);
            staging.release(name(n));
        }
        assert_eq!((staging.bytes(), staging.bytes_of(name(0).0)), (70, 70));
        let (freed, begun) = staging.go_on(75, bytes, |_| false);
        assert_eq!((names(&freed), names(&begun)), (vec![1, 2], vec![3]));
        staging.read(name(3), Read::Failed);
        assert_eq!(staging.bytes(), 40);
        staging.adopt(name(5), 50);
        staging.release(name(5));
        staging.adopt(name(5), 50);
        assert_eq!(staging.bytes(), 90);
        // It is in use.
        assert_eq!(names(&staging.free_beyond(name(0).0, 10)), [4]);
        staging.release(name(5));
        assert!(staging.free_beyond(name(0).0, 50).is_empty());
        assert_eq!(names(&staging.free_beyond(name(0).0, 49)), [5]);
        staging.adopt(name(6), 60);
        assert_eq!(staging.close(name(0).0).0, [name(6)]);
        assert_eq!(staging.bytes(), 0);
    }

    #[test]
    fn of_a_closed_data_set_all_is_freed_and_nobody_waits_for_it() {
        let mut staging = Staging::default();
        used(&mut staging, [0], 9);
        staging.ask(name(1), 1);
        go_on(&mut staging, 2);
        staging.ask(name(2), 1);
        let (freed, in_vain) = staging.close(name(0).0);
        assert_eq!(names(&freed), [0]);
        assert_eq!(in_vain, [(name(1), 1), (name(2), 1)]);
        assert_eq!(staging.read(name(1), Read::Done), None);
        assert_eq!(staging.bytes_of(name(0).0), 0);
    }
}
