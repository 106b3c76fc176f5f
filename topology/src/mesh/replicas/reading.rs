//! Bricks that a peer reads for frames, where all peers together have too little memory to hold them: the room that it keeps for
//! them, and which it can read.

use super::{Replicas, announced, drops::STUCK_MICROS};
use crate::{
    base::peer::PeerId,
    data::{brick_grid::BrickIndex, brick_set::BrickSet},
    mesh::announcement::Announcement,
};

/// Room for bricks that are read for frames, at least: one is rendered while the next is read.
pub const STAGED_MIN: u32 = 2;
/// How long bricks are read yet once nobody need: frames that were planned before count on it.
const READS_MICROS: u64 = 1_000_000;
/// How long at most bricks are read for frames though the room that was kept for that is given to the last ones that nobody
/// holds: two peers may take up the same ones, and find that out after [`STUCK_MICROS`].
const READS_LAST_MICROS: u64 = 3 * STUCK_MICROS / 2;
/// How long room is kept for bricks that are fetched after the last frame that needed any: its viewer may rest.
pub(super) const FETCHES_MICROS: u64 = 60_000_000;
/// How often others are told that more can be read.
const READABLE_MICROS: u64 = 2_000_000;

/// Room that who reads bricks for frames keeps free for these, of room for so many: half of it where frames need more
/// than all peers have room for, else an eighth, for what they need next.
/// `least`: [`STAGED_MIN`], or more where bricks are unlike.
pub(in crate::mesh) fn reserve_of(room: u32, does_not_fit: bool, least: u32) -> u32 {
    let part = if does_not_fit { 2 } else { 8 };
    (room / part).max(room.min(least))
}

/// Room for so many bricks that are held, and an eighth of all of it that is kept free, `least` at least.
pub(in crate::mesh) fn with_reserve(bricks: u32, least: u32) -> u32 {
    bricks.saturating_add((bricks / 7).max(least))
}

/// Adds a brick to a set that takes no memory as long as it is empty; false if it was there.
fn insert(set: &mut BrickSet, brick: BrickIndex, brick_count: u32) -> bool {
    if set.is_empty() {
        *set = BrickSet::new(brick_count);
    }
    set.insert(brick)
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    /// Bricks that the peer's source did not give, or that do not fit.
    pub(super) unreadable: BrickSet,
    /// The one of them that was looked at last.
    looked_at: Option<BrickIndex>,
    /// When it was said last what can be read.
    readable_at: u64,
    /// All is held, or will be: until then frames that were planned before may have bricks read here.
    reads_until: Option<u64>,
    /// Until then frames may have bricks read here that nobody holds yet, though no room is kept for them any more.
    reads_last_until: u64,
    /// Whether bricks are read for frames here.
    is_reader: bool,
    /// Until then frames that are asked for here have bricks fetched.
    pub(super) fetches_until: u64,
    /// This peer renders what it holds, or reads from its own disk, and nothing else.
    pub(super) never_fetches: bool,
    /// Room that is kept free at most for bricks that frames need beside those held.
    cache_max: Option<u32>,
}

impl Replicas {
    /// This peer has room for so many bricks: those that it holds, and where all peers together have too little and it
    /// has the source, or some on its shelf, others that it reads for frames. `later`: there will be room for so many once
    /// other data sets have dropped what they hold beyond their limits: frames wait for that, and are not refused. Returns whether others
    /// are to hear of it, as bricks are fetched for frames, or not any more.
    pub fn set_room(&mut self, room: u32, later: u32, now: u64) -> bool {
        let before = (self.own.reserve > 0, self.own.fetches);
        self.own.fetches &= self.own.in_use && now < self.reading.fetches_until;
        let are_fetched = self.are_fetched() && !self.reading.never_fetches;
        let reads = match () {
            () if self.own.source || are_fetched => self.grid.brick_count(),
            () if self.on_shelf.is_empty() => 0,
            () => self.own.shelf_room,
        };
        // There is room to read one brick, until it turns out that not even that fits.
        let room_max = self.capacity_max.max(reads.min(1));
        let room = room.min(room_max);
        let least = room.max(later.min(room_max));
        let least = least.min(self.staged_min).min(reads);
        let brick_count = self.grid.brick_count();
        let reserve = if self.is_too_much(brick_count, room) {
            let needed = self.needed_count();
            let does_not_fit = self.is_too_much(with_reserve(needed, self.staged_min), room);
            reserve_of(room, does_not_fit, self.staged_min)
                .min(reads)
                .max(least)
        } else if self.own.reserve > 0
            && (self.unheld() > self.reserves(least) || room < least && self.unheld() > 0)
        {
            // Whoever has room now, or will have, does not hold all of it yet.
            least
        } else {
            0
        };
        let reserve = match are_fetched {
            true => reserve.max(self.cache_of(room)),
            false => reserve,
        };
        let reserve = reserve.min(self.reading.cache_max.unwrap_or(u32::MAX).max(least));
        if reserve > 0 || self.own.reserve == 0 {
            (self.own.reserve, self.reading.reads_until) = (reserve, None);
        } else if now
            >= *self
                .reading
                .reads_until
                .get_or_insert(now.saturating_add(READS_MICROS))
        {
            (self.own.reserve, self.reading.reads_until) = (0, None);
            self.reading.reads_last_until = now.saturating_add(READS_LAST_MICROS);
        } else {
            self.own.reserve = least;
        }
        self.set_capacity(room.saturating_sub(self.own.reserve));
        before != (self.own.reserve > 0, self.own.fetches)
    }

    /// This peer keeps no room for what others would have to send it for frames.
    pub(in crate::mesh) fn never_fetches(&mut self) {
        self.reading.never_fetches = true;
    }

    /// Room for so many bricks is kept free at most for those that frames need beside the ones held, though never less than the two
    /// largest take.
    pub(in crate::mesh) fn caches_at_most(&mut self, bricks: Option<usize>) {
        let bricks = bricks.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        self.reading.cache_max = bricks;
    }

    /// Whether that is so.
    pub(in crate::mesh) fn is_never_fetching(&self) -> bool {
        self.reading.never_fetches
    }

    /// Room for bricks that are read for frames is at least for so many: the largest may take that of several.
    pub(in crate::mesh) fn stage_at_least(&mut self, bricks: u32) {
        self.staged_min = bricks.max(STAGED_MIN);
    }

    /// See [`Self::stage_at_least`].
    pub(in crate::mesh) fn staged_min(&self) -> u32 {
        self.staged_min
    }

    /// Room that is kept free for bricks that are fetched, of room for so many: what is left of all peers' room by as many whole copies as
    /// are wanted and fit is shared out alike.
    fn cache_of(&self, room: u32) -> u32 {
        let staged_min = u64::from(self.staged_min);
        let least = room.min(self.staged_min);
        let bricks = u64::from(self.grid.brick_count());
        if u64::from(room) >= bricks + staged_min {
            // Nothing need be fetched twice.
            return least;
        }
        // More than all of it nobody holds.
        let usable = |room: u64| room.min(bricks + staged_min);
        let rooms = self.rooms_of_others().map(usable).filter(|room| *room > 0);
        let (peers, all) = rooms.fold((1, u64::from(room)), |(n, sum), room| (n + 1, sum + room));
        let most = all.saturating_sub(peers * staged_min);
        let copies = (most / bricks.max(1)).clamp(1, self.redundancy.into());
        // Full peers are long in finding out who holds the last ones.
        let held = (copies * bricks + bricks / 8).min(most.max(bricks));
        // Of the room beside what each keeps free in any case: so all together hold so many, however shares are rounded.
        let own = (u64::from(room - least) * held).div_ceil(most.max(1));
        room.saturating_sub(u32::try_from(own).unwrap_or(room))
            .max(least)
    }

    /// Room that all keep free, here for so many bricks.
    fn reserves(&self, own: u32) -> u32 {
        let staying = self.of_others().filter(|a| !a.leaving);
        staying.map(|a| a.reserve).fold(own, u32::saturating_add)
    }

    /// How many bricks frames need, as far as that decides, else all.
    pub(in crate::mesh) fn needed_count(&self) -> u32 {
        (self.needed()).map_or(self.grid.brick_count(), BrickSet::len)
    }

    /// Bricks that nobody who stays holds.
    pub(in crate::mesh) fn unheld(&self) -> u32 {
        self.grid.brick_count() - self.held().len()
    }

    /// Whether all bricks together are more than all peers have room for.
    pub(in crate::mesh) fn is_larger_than_memory(&self) -> bool {
        let room = self.own.capacity.saturating_add(self.own.reserve);
        self.is_too_much(self.grid.brick_count(), room)
    }

    /// Whether so many bricks are more than there is room for, here for `room`.
    fn is_too_much(&self, bricks: u32, room: u32) -> bool {
        self.rooms_of_others().sum::<u64>() + u64::from(room) < u64::from(bricks)
    }

    /// Bricks that each of the others who stay has room for, held or not.
    fn rooms_of_others(&self) -> impl Iterator<Item = u64> + '_ {
        let staying = self.of_others().filter(|a| !a.leaving);
        staying.map(|a| u64::from(a.capacity) + u64::from(a.reserve))
    }

    /// Says which bricks this peer can read for frames, where it keeps room for that and has a device; `has_room`: there is
    /// room to read one of them, kept or not. Returns whether that is news; what has come to the shelf is news every two
    /// seconds.
    pub fn set_staging(&mut self, has_device: bool, has_room: bool, now: u64) -> bool {
        let mut readable = BrickSet::default();
        let reads_last = has_room && now < self.reading.reads_last_until && self.unheld() > 0;
        self.reading.is_reader = has_device && (self.own.reserve > 0 || reads_last);
        if self.reading.is_reader {
            let given = self.own.given_by_source(self.grid.brick_count());
            let given = given.as_ref().unwrap_or(&self.own.shelf);
            readable = given.without(&self.reading.unreadable);
        }
        let is_more = !self.own.readable.is_empty()
            && self.own.readable.len_without(&readable) == 0
            && now.saturating_sub(self.reading.readable_at) < READABLE_MICROS;
        if is_more || self.own.readable == readable {
            return false;
        }
        (self.own.readable, self.reading.readable_at) = (readable, now);
        true
    }

    /// Whether this peer reads a brick for a frame, where it has a device.
    pub(in crate::mesh) fn reads(&self, brick: BrickIndex) -> bool {
        self.reading.is_reader
            && self.can_read_again(brick)
            && !self.reading.unreadable.contains(brick)
    }

    /// A brick that the source did not give, to look whether it does now; another one each time.
    pub(in crate::mesh) fn unreadable(&mut self) -> Option<BrickIndex> {
        let after = self.reading.looked_at.map_or(0, |b| b.0 + 1);
        let unreadable = &self.reading.unreadable;
        let next = unreadable.iter().find(|b| b.0 >= after);
        self.reading.looked_at = next.or_else(|| unreadable.iter().next());
        self.reading.looked_at
    }

    /// Whether the source did not give a brick.
    pub(in crate::mesh) fn is_unreadable(&self, brick: BrickIndex) -> bool {
        self.reading.unreadable.contains(brick)
    }

    /// The source gives a brick that it did not give before: it may give the others, too.
    pub(in crate::mesh) fn can_read(&mut self) {
        self.reading.unreadable = BrickSet::default();
        self.own.unreadable = BrickSet::default();
    }

    /// A brick cannot be read for frames: the source does not give it, or it does not fit.
    pub(in crate::mesh) fn cannot_read(&mut self, brick: BrickIndex) {
        insert(&mut self.reading.unreadable, brick, self.grid.brick_count());
        self.own.readable.remove(brick);
    }

    /// The source does not give a brick, to frames nor to others. False: that is known.
    pub(in crate::mesh) fn cannot_give(&mut self, brick: BrickIndex) -> bool {
        self.cannot_read(brick);
        insert(&mut self.own.unreadable, brick, self.grid.brick_count())
    }

    /// Others who are well and have a source.
    fn other_sources(&self) -> impl Iterator<Item = &Announcement> {
        let is_well = |p: &PeerId| !self.suspects.contains(p);
        let well = announced(&self.others).filter(move |(p, a)| !a.leaving && is_well(p));
        well.map(|(_, a)| a).filter(|a| a.source)
    }

    /// Whether another one who is well has a brick on a disk with all of them.
    pub(super) fn is_offered(&self, brick: BrickIndex) -> bool {
        self.other_sources().any(|a| a.gives(brick))
    }

    /// Bricks that the sources give of all who are well; `None`: there is no source.
    pub(super) fn given(&self) -> Option<BrickSet> {
        let own = Some(&self.own).filter(|own| !own.leaving);
        let all = self.other_sources().chain(own);
        let given = all.filter_map(|a| a.given_by_source(self.grid.brick_count()));
        given.reduce(|mut all, given| {
            all.insert_all(&given);
            all
        })
    }

    /// Whether this peer has a brick on its disk: in its source, or on its shelf.
    pub(super) fn can_read_again(&self, brick: BrickIndex) -> bool {
        self.own.source || self.on_shelf.contains(brick)
    }
}
