//! Bricks that frames need here and this peer does not hold: read for them, or fetched from others, and freed again.

use super::{DataSet, Keeper, KeeperMessage, KeeperOutput, LoadResult, MISSED};
use crate::{
    base::{digest::Digest, peer::PeerId},
    data::brick_grid::BrickIndex,
    mesh::{
        replicas::{Origin, Replicas, STAGED_MIN},
        staging::Read,
        transfers::BrickName,
    },
};

/// How often a brick that a frame needs is asked of each peer that could give it.
const ROUNDS_MAX: u32 = 2;
/// Between two looks at bricks that could not be read.
const LOOK_MICROS: u64 = 10_000_000;

impl Keeper {
    /// A frame needs a brick.
    pub(super) fn stage(&mut self, name: BrickName, question: u64, out: &mut Vec<KeeperOutput>) {
        let (data_set, brick) = name;
        let own = self.sets.get(&data_set).map(|s| &s.replicas);
        let is_held = own.is_some_and(|own| own.announcement().held.contains(brick));
        let can_come = |own: &Replicas| own.reads(brick) || can_be_fetched(own, brick);
        let comes = !self.hello.is_device_lost && own.is_some_and(can_come);
        let is_dropped = |d: &(_, _, _)| (d.1, d.2) == name;
        if let Some(at) = self.dropping.iter().position(is_dropped) {
            self.dropping.swap_remove(at);
            let bytes = self.memory_of(name);
            self.staging.adopt(name, bytes);
        }
        if is_held || self.staging.has(name) || comes {
            if is_held || self.staging.ask(name, question) {
                out.push(KeeperOutput::Staged(data_set, brick, question, true));
            }
        } else {
            out.push(KeeperOutput::Staged(data_set, brick, question, false));
        }
        self.stage_all(out);
    }

    /// A thread waits for a brick, unless it came meanwhile.
    pub(super) fn missed(&mut self, name: BrickName, out: &mut Vec<KeeperOutput>) {
        if !self.replicas_hold(name) && !self.staging.has(name) && !self.staging.is_waiting(name) {
            self.stage(name, MISSED, out);
        }
    }

    /// No frame needs a brick any more.
    pub(super) fn release(&mut self, name: BrickName, out: &mut Vec<KeeperOutput>) {
        self.staging.release(name);
        self.stage_all(out);
    }

    /// What became of a brick that was to be loaded, for frames or to be held.
    pub(super) fn came(
        &mut self,
        data_set: Digest,
        brick: BrickIndex,
        result: LoadResult,
        out: &mut Vec<KeeperOutput>,
    ) {
        if self.staging.is_reading((data_set, brick)) {
            self.staged((data_set, brick), result, out);
        } else {
            self.loaded(data_set, brick, result, out);
        }
    }

    /// Frees and reads as many bricks as there is need and room for.
    pub(super) fn stage_all(&mut self, out: &mut Vec<KeeperOutput>) {
        let room = self.staging_room().min(self.cache_max());
        let sets = &self.sets;
        let bytes = |(d, brick)| (sets.get(&d)).map_or(0, |s| s.brick_bytes_of(brick));
        let is_read = |(data_set, brick): BrickName| {
            let set = sets.get(&data_set);
            set.is_some_and(|s| s.replicas.reads(brick))
        };
        let (freed, begun) = self.staging.go_on(room, bytes, |name| !is_read(name));
        out.extend(freed.into_iter().map(|(d, b)| KeeperOutput::Unstage(d, b)));
        let (read, fetched): (Vec<_>, Vec<_>) = begun.into_iter().partition(|&name| is_read(name));
        let downloads = &self.transfers.downloads;
        let read = read.into_iter().filter(|name| !downloads.is_loading(*name));
        out.extend(read.map(|(d, b)| KeeperOutput::Load(d, b, Origin::Source)));
        for name in fetched {
            self.fetch(name, out);
        }
    }

    /// A frame is asked for here of which peers fetch what they lack.
    pub(super) fn are_fetched(&mut self, data_set: Digest, out: &mut Vec<KeeperOutput>) {
        let (now, set) = (self.now, self.sets.get_mut(&data_set));
        if set.is_some_and(|s| s.replicas.fetches(now)) {
            self.keep_up(out);
            self.announce(out);
        }
    }

    /// Asks a peer for a brick that a frame needs.
    fn fetch(&mut self, name: BrickName, out: &mut Vec<KeeperOutput>) {
        let (data_set, brick) = name;
        if self.transfers.downloads.is_loading(name) {
            return;
        }
        let frames = &mut self.transfers.frames;
        let set = self.sets.get(&data_set);
        let origin = set.and_then(|set| {
            let givers = u32::try_from(set.replicas.givers(brick).len()).unwrap_or(u32::MAX);
            let is_worth_it = frames.attempts(name) < givers.max(1).saturating_mul(ROUNDS_MAX);
            frames
                .origin_of_others(name, &set.replicas)
                .filter(|_| is_worth_it)
        });
        match origin {
            Some(origin) => {
                frames.begin(name, &origin, self.now);
                out.push(match origin {
                    Origin::Source => KeeperOutput::Load(data_set, brick, Origin::Source),
                    Origin::Peer(from) => KeeperOutput::Send(
                        from,
                        KeeperMessage::BrickRequest {
                            data_set,
                            brick,
                            for_frame: true,
                        },
                    ),
                });
            }
            None => {
                frames.end(name);
                let answered = self.staging.read(name, Read::Failed);
                out.extend(answered.map(|(question, _)| answer(false)((name, question))));
            }
        }
    }

    /// Asks again for bricks that frames need and that did not come.
    pub(super) fn fetch_again(&mut self, out: &mut Vec<KeeperOutput>) {
        let frames = &self.transfers.frames;
        let open = self.staging.fetched().filter(|&name| frames.is_open(name));
        for name in open.collect::<Vec<_>>() {
            self.fetch(name, out);
        }
    }

    /// A brick came from a peer; false where no frame waits for it.
    pub(super) fn arrived_for_frame(&mut self, name: BrickName, from: &PeerId) -> bool {
        let is_fetched = self.staging.is_fetched(name);
        let frames = &mut self.transfers.frames;
        let is_awaited = frames
            .arrived(name, from, self.now, is_fetched, is_fetched)
            .is_some();
        if is_awaited && !is_fetched {
            frames.end(name);
        }
        is_awaited && is_fetched
    }

    /// This peer's source did not give a brick: others hear it, and do not ask for it.
    pub(super) fn cannot_give(
        &mut self,
        (data_set, brick): BrickName,
        out: &mut Vec<KeeperOutput>,
    ) {
        let set = self.sets.get_mut(&data_set);
        if set.is_some_and(|s| s.replicas.cannot_give(brick)) {
            self.dirty = true;
            out.push(KeeperOutput::Roster(data_set));
        }
    }

    /// Looks again at bricks that could not be read, one of each data set: a disk may be back.
    pub(super) fn look_at_unreadable(&mut self, out: &mut Vec<KeeperOutput>) {
        if self.now.saturating_sub(self.looked_at) < LOOK_MICROS {
            return;
        }
        self.looked_at = self.now;
        for (&data_set, set) in &mut self.sets {
            if self.hello.is_device_lost {
                // Nothing can be read to look, so who asks for it finds out.
                self.dirty |= set.replicas.unreadable().is_some();
                set.replicas.can_read();
            }
            if let Some(brick) = set.replicas.unreadable()
                && !self.transfers.downloads.is_loading((data_set, brick))
                && (self.staging).look_at((data_set, brick), set.brick_bytes_of(brick))
            {
                out.push(KeeperOutput::Load(data_set, brick, Origin::Source));
            }
        }
    }

    /// Device memory that neither held bricks take or will take, nor dropped ones, bytes; what is kept free for staged ones
    /// is theirs also while dropped ones are where others are to be held.
    fn staging_room(&self) -> u64 {
        let unfreed = self.unfreed_bytes().into_iter();
        let unfreed = unfreed.fold(0_u64, |sum, (_, bytes)| sum.saturating_add(bytes));
        let free = |taken: u64| {
            let taken = taken.saturating_add(unfreed);
            self.hello.memory_bytes.saturating_sub(taken)
        };
        let sum = |of: &dyn Fn(&DataSet) -> u64| self.sets.values().map(of).sum::<u64>();
        let reserve = |set: &DataSet| u64::from(set.replicas.announcement().reserve);
        let reserved = sum(&|set| set.typical_bytes * reserve(set));
        let there = free(sum(&|set| set.bytes_there(&self.transfers)));
        free(sum(&|set| set.bytes(&self.transfers))).max(reserved.min(there))
    }

    /// See [`Self::caches_at_most`].
    fn cache_max(&self) -> u64 {
        let largest = self.sets.values().map(|set| set.brick_bytes).max();
        let least = u64::from(STAGED_MIN) * largest.unwrap_or(0);
        self.cache_bytes.unwrap_or(u64::MAX).max(least)
    }

    /// Whether bricks of frames are still where held ones are to be.
    pub(super) fn is_crowded(&self) -> bool {
        let staged = self.staging.bytes();
        staged > 0 && staged > self.staging_room()
    }

    /// Looks whether bricks can be read for frames, of each data set whose source is here, or some of it on the shelf.
    pub(super) fn look_for_room(&mut self, out: &mut Vec<KeeperOutput>) {
        let has_device = !self.hello.is_device_lost;
        let room = self.staging_room();
        for (&data_set, set) in &mut self.sets {
            let has_room = room >= set.brick_bytes;
            if set.replicas.set_staging(has_device, has_room, self.now) {
                self.dirty = true;
                out.push(KeeperOutput::Roster(data_set));
            }
            let own = set.replicas.announcement();
            if own.readable.is_empty() && own.reserve == 0 {
                let refused = self.staging.refuse(data_set).into_iter();
                out.extend(refused.map(answer(false)));
            }
            // A device may have less room than it says: held bricks would wait for that of these.
            if own.reserve == 0 || !own.settled {
                let kept = set.typical_bytes * u64::from(own.reserve);
                let freed = self.staging.free_beyond(data_set, kept);
                out.extend(freed.into_iter().map(|(d, b)| KeeperOutput::Unstage(d, b)));
            }
        }
    }

    /// Whether this peer has room to hold all of a data set, so that nothing need be read again.
    #[must_use]
    pub fn has_room_for_all(&self, data_set: Digest) -> bool {
        let set = self.sets.get(&data_set);
        set.is_some_and(|s| s.replicas.announcement().capacity >= s.manifest.grid().brick_count())
    }

    /// Whether a brick is being read for frames.
    #[must_use]
    pub fn is_staging(&self, data_set: Digest, brick: BrickIndex) -> bool {
        self.staging.is_reading((data_set, brick))
    }

    /// Whether a brick is being fetched for frames.
    #[must_use]
    pub fn is_fetching(&self, data_set: Digest, brick: BrickIndex) -> bool {
        self.staging.is_fetched((data_set, brick))
    }

    /// What became of a brick that was read for frames.
    fn staged(&mut self, name: BrickName, result: LoadResult, out: &mut Vec<KeeperOutput>) {
        let (data_set, brick) = name;
        let is_fetched = self.staging.is_fetched(name);
        if is_fetched && matches!(result, LoadResult::Failed | LoadResult::Unreadable) {
            // Another one is asked, or the same once more.
            if self.transfers.frames.is_loading(name) {
                self.transfers.frames.failed(name, self.now);
            }
            if self.transfers.downloads.is_loading(name) {
                self.loaded(data_set, brick, result, out);
            }
            return;
        }
        if result == LoadResult::Done {
            self.transfers.frames.loaded(name, self.now);
        }
        self.transfers.frames.end(name);
        let mut sets = self.sets.values();
        let is_nothing_held =
            self.dropping.is_empty() && sets.all(|s| s.replicas.announcement().held.is_empty());
        let Some(set) = self.sets.get_mut(&data_set) else {
            return;
        };
        // What else is being read may be on the device already.
        let is_alone = self.staging.is_awaited(name) && self.staging.is_alone();
        let is_last = is_alone && is_nothing_held;
        let read = match result {
            LoadResult::Done => Read::Done,
            // It does not fit at all.
            LoadResult::NoRoom if is_last => Read::Failed,
            LoadResult::NoRoom => Read::NoRoom,
            LoadResult::Failed | LoadResult::Unreadable => Read::Failed,
        };
        // Where dropped bricks are in the way, they go; else some of the held ones must.
        let is_any_held = !set.replicas.announcement().held.is_empty();
        if read == Read::NoRoom && is_alone && is_any_held && self.dropping.is_empty() {
            set.replicas.is_full(0);
        }
        // It was read, whether there was room for it or not.
        let was_read = matches!(result, LoadResult::Done | LoadResult::NoRoom);
        if was_read && !is_fetched && set.replicas.is_unreadable(brick) {
            set.replicas.can_read();
        }
        let answered = self.staging.read(name, read);
        if is_last && result == LoadResult::NoRoom {
            self.staging.memory_was_freed();
        }
        if result == LoadResult::Unreadable || is_last && result == LoadResult::NoRoom {
            // All hear it before the frame ends here: it is asked for again without the brick.
            if result != LoadResult::Unreadable {
                set.replicas.cannot_read(brick);
            } else if set.replicas.announcement().source {
                set.replicas.cannot_give(brick);
            } else {
                self.unshelve(data_set, brick, out);
            }
            self.announce(out);
            out.push(KeeperOutput::Roster(data_set));
        }
        out.extend(answered.map(|(question, is_there)| answer(is_there)((name, question))));
        if self.transfers.downloads.is_loading(name) {
            self.staging.forget(name);
            self.loaded(data_set, brick, result, out);
        } else if self.replicas_hold(name) {
            self.staging.forget(name);
        }
        self.stage_all(out);
    }

    fn replicas_hold(&self, (data_set, brick): BrickName) -> bool {
        let set = self.sets.get(&data_set);
        set.is_some_and(|s| s.replicas.announcement().held.contains(brick))
    }

    /// A brick is held from now on: who waits for it has it.
    pub(super) fn is_held_now(&mut self, name: BrickName, out: &mut Vec<KeeperOutput>) {
        self.staging.forget(name);
        if let Some(question) = self.staging.take_waiting(name) {
            out.push(answer(true)((name, question)));
        }
    }

    /// Bricks that are to be held may be in memory for a frame already: from now on they are held.
    pub(super) fn hold_staged(&mut self, out: &mut Vec<KeeperOutput>) {
        let is_settled = |s: &DataSet| s.replicas.announcement().settled;
        if self.staging.is_empty() || self.sets.values().all(is_settled) {
            return;
        }
        for name in self.staging.names() {
            let Some(set) = self.sets.get_mut(&name.0) else {
                continue;
            };
            let own = set.replicas.announcement();
            let has_room = own.held.len() < own.capacity;
            if set.replicas.is_wanted(name.1) && has_room {
                self.staging.forget(name);
                self.transfers.loaded(name, self.now);
                set.replicas.loaded(name.1);
                self.dirty = true;
                out.push(KeeperOutput::Roster(name.0));
            }
        }
    }
}

/// Whether a brick can be had of others for frames.
fn can_be_fetched(own: &Replicas, brick: BrickIndex) -> bool {
    own.announcement().reserve > 0 && !own.is_never_fetching() && own.can_be_had(brick)
}

/// The answer to a question.
pub(super) fn answer(is_there: bool) -> impl Fn((BrickName, u64)) -> KeeperOutput {
    move |((data_set, brick), question)| KeeperOutput::Staged(data_set, brick, question, is_there)
}
