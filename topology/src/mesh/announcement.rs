//! What a peer announces of a data set, and how that travels: whole to whoever is new, then as changes, and again and again
//! as a digest, for who missed any. So what is said where nothing changes does not grow with the number of bricks.

use crate::{
    balance::roster::put_text,
    base::{digest::Digest, peer::PeerId},
    data::{
        brick_grid::BrickIndex,
        brick_set::{BrickSet, BrickSetChange},
    },
    mesh::membership::MEMBERS_MAX,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, sync::Arc};

/// Sets of bricks in an announcement.
const SETS: usize = 5;

/// What a peer says of a data set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// The bricks in its device memory.
    pub held: BrickSet,
    /// The bricks that it holds or will.
    pub assigned: BrickSet,
    /// Bricks that it has room for.
    pub capacity: u32,
    /// Bricks that it keeps room free for besides, to read such into that nobody holds.
    #[serde(default)]
    pub reserve: u32,
    /// Bricks that it can read into device memory for a frame, where nobody holds them.
    #[serde(default)]
    pub readable: BrickSet,
    /// Bricks on its shelf, each checked: it can give them.
    #[serde(default)]
    pub shelf: BrickSet,
    /// Bricks that its shelf has room for, with those that are there.
    #[serde(default)]
    pub shelf_room: u32,
    /// Bricks that its source did not give, as far as it has not tried again.
    #[serde(default)]
    pub unreadable: BrickSet,
    /// Whether it has a source of its own, which gives every brick but those that are unreadable.
    pub source: bool,
    /// Whether it holds all that it should.
    pub settled: bool,
    /// Whether somebody there needs the data set: looks at it, or offers it.
    pub in_use: bool,
    /// Whether frames that are asked for there are divided by their pixels: all keep room for bricks that they fetch.
    #[serde(default)]
    pub fetches: bool,
    /// Whether it is about to leave: its copies do not count.
    pub leaving: bool,
    /// Who is about to leave, as it knows: of them it does not count any copies.
    #[serde(default)]
    pub leavers: BTreeSet<PeerId>,
}

impl Announcement {
    /// What is known of a peer that has said nothing of the data set yet, but how much room it
    /// has.
    #[must_use]
    pub fn expected(brick_count: u32, capacity: u32) -> Self {
        let none = BrickSet::new(brick_count);
        Self {
            held: none.clone(),
            assigned: none,
            capacity,
            reserve: 0,
            readable: BrickSet::default(),
            shelf: BrickSet::default(),
            shelf_room: 0,
            unreadable: BrickSet::default(),
            source: false,
            settled: false,
            in_use: false,
            fetches: false,
            leaving: false,
            leavers: BTreeSet::new(),
        }
    }

    /// Whether a brick can be had of it.
    #[must_use]
    pub fn gives(&self, brick: BrickIndex) -> bool {
        self.source && !self.unreadable.contains(brick)
            || self.held.contains(brick)
            || self.shelf.contains(brick)
    }

    /// Those of so many bricks that its source gives; `None`: it has none.
    pub(super) fn given_by_source(&self, brick_count: u32) -> Option<BrickSet> {
        (self.source).then(|| BrickSet::all(brick_count).without(&self.unreadable))
    }

    /// Whether it fits a grid of so many bricks.
    #[must_use]
    pub fn is_valid(&self, brick_count: u32) -> bool {
        let is_none_or_valid = |s: &BrickSet| *s == BrickSet::default() || s.is_valid(brick_count);
        self.held.is_valid(brick_count)
            && self.assigned.is_valid(brick_count)
            && is_none_or_valid(&self.readable)
            && is_none_or_valid(&self.shelf)
            && is_none_or_valid(&self.unreadable)
            && self.leavers.len() <= MEMBERS_MAX
    }

    /// Name of what it says.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut bytes = Vec::new();
        for set in self.sets() {
            bytes.extend((set.words().len() as u64).to_le_bytes());
            bytes.extend(set.words().iter().flat_map(|w| w.to_le_bytes()));
        }
        let rooms = [self.capacity, self.reserve, self.shelf_room];
        bytes.extend(rooms.iter().flat_map(|r| r.to_le_bytes()));
        let flags = [
            self.source,
            self.settled,
            self.in_use,
            self.fetches,
            self.leaving,
        ];
        bytes.extend(flags.map(u8::from));
        let leavers = self.leavers.iter();
        leavers.for_each(|p| put_text(&mut bytes, p.as_str()));
        Digest::of(&bytes)
    }

    /// Its sets, in the order in which they are named and changed.
    pub(super) fn sets(&self) -> [&BrickSet; SETS] {
        [
            &self.held,
            &self.assigned,
            &self.readable,
            &self.shelf,
            &self.unreadable,
        ]
    }

    fn sets_mut(&mut self) -> [&mut BrickSet; SETS] {
        [
            &mut self.held,
            &mut self.assigned,
            &mut self.readable,
            &mut self.shelf,
            &mut self.unreadable,
        ]
    }

    fn word_count(&self) -> usize {
        self.sets().into_iter().map(|s| s.words().len()).sum()
    }

    /// What a change makes of this announcement; `None`: it does not fit it.
    #[must_use]
    pub fn changed(&self, change: &AnnouncementChange) -> Option<Self> {
        let brick_count_max = self.held.brick_count();
        let mut changed = change.rest.clone();
        let sets = changed.sets_mut().into_iter().zip(self.sets());
        for ((set, before), change) in sets.zip(&change.sets) {
            *set = before.changed(change, brick_count_max)?;
        }
        Some(changed)
    }
}

/// How an announcement differs from the one before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnnouncementChange {
    /// Name of the one before.
    before: Digest,
    /// The new one, without its sets.
    rest: Announcement,
    /// Its sets, as [`Announcement::sets`] has them.
    sets: [BrickSetChange; SETS],
}

impl AnnouncementChange {
    /// What makes `after` of what was said before.
    pub(super) fn between(before: &Said, after: &Announcement) -> Self {
        let mut rest = after.clone();
        let mut sets: [BrickSetChange; SETS] = Default::default();
        let pairs = rest.sets_mut().into_iter().zip(before.announcement.sets());
        for (change, (set, before)) in sets.iter_mut().zip(pairs) {
            *change = std::mem::take(set).change_from(before);
        }
        Self {
            before: before.digest,
            rest,
            sets,
        }
    }

    /// Name of the announcement that it changes.
    #[must_use]
    pub fn before(&self) -> Digest {
        self.before
    }
}

/// The announcement of a data set that a peer said last.
#[derive(Clone, Debug)]
pub struct Said {
    announcement: Arc<Announcement>,
    digest: Digest,
}

/// How it is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saying {
    /// All of it.
    Whole(Arc<Announcement>),
    /// What is new.
    Change(Arc<AnnouncementChange>),
}

impl Said {
    /// The first announcement, or one in place of what was said before.
    #[must_use]
    pub fn new(announcement: Announcement) -> Self {
        Self {
            digest: announcement.digest(),
            announcement: Arc::new(announcement),
        }
    }

    /// What was said last.
    #[must_use]
    pub fn announcement(&self) -> &Arc<Announcement> {
        &self.announcement
    }

    /// Name of what was said last.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Says what is to be announced now; `None`: it was said.
    pub fn say(&mut self, now: &Announcement) -> Option<Saying> {
        if *self.announcement == *now {
            return None;
        }
        let before = std::mem::replace(self, Self::new(now.clone()));
        let change = AnnouncementChange::between(&before, now);
        // A changed word takes more bytes than one of a whole set.
        let words = change.sets.iter().map(BrickSetChange::word_count);
        if words.sum::<usize>() > now.word_count() / 2 {
            return Some(Saying::Whole(Arc::clone(&self.announcement)));
        }
        Some(Saying::Change(Arc::new(change)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::seeded::Seeded;

    #[test]
    fn changes_lead_from_each_announcement_to_the_next() {
        const BRICKS: u32 = 500;
        let mut draws = Seeded::new(7);
        let mut own = Announcement::expected(BRICKS, 9);
        let mut said = Said::new(own.clone());
        let mut heard = own.clone();
        let (mut wholes, mut changes) = (0, 0);
        for turn in 0..200 {
            let flips = if turn % 10 == 0 { 200 } else { draws.below(4) };
            for _ in 0..flips {
                let brick = BrickIndex(u32::try_from(draws.below(u64::from(BRICKS))).unwrap());
                let which = usize::try_from(draws.below(SETS as u64)).unwrap();
                let set = &mut *own.sets_mut()[which];
                if *set == BrickSet::default() {
                    *set = BrickSet::new(BRICKS);
                }
                if !set.insert(brick) {
                    set.remove(brick);
                }
            }
            match draws.below(8) {
                0 => own.shelf = BrickSet::default(),
                1 => own.settled ^= true,
                2 => own.leavers = [PeerId::new("a")].into(),
                3 => own.reserve += 1,
                _ => {}
            }
            match said.say(&own) {
                None => assert_eq!(own, heard),
                Some(Saying::Whole(all)) => {
                    heard = Announcement::clone(&all);
                    wholes += 1;
                }
                Some(Saying::Change(change)) => {
                    assert_eq!(change.before(), heard.digest());
                    let told = serde_json::to_string(&change).unwrap();
                    heard = heard
                        .changed(&serde_json::from_str(&told).unwrap())
                        .unwrap();
                    changes += 1;
                }
            }
            assert_eq!((&heard, heard.digest()), (&own, said.digest()));
            assert!(heard.is_valid(BRICKS));
        }
        assert!(wholes > 0 && changes > 100, "{wholes} {changes}");
    }

    #[test]
    fn everything_in_it_is_in_its_digest() {
        let first = Announcement::expected(70, 9);
        type Edit = fn(&mut Announcement);
        let edits: [Edit; 14] = [
            |_| {},
            |a| a.held = BrickSet::all(70),
            |a| a.assigned = BrickSet::all(70),
            |a| a.readable = BrickSet::new(70),
            |a| a.shelf = BrickSet::new(70),
            |a| a.unreadable = BrickSet::new(70),
            |a| a.capacity = 8,
            |a| a.reserve = 8,
            |a| a.shelf_room = 8,
            |a| a.source = true,
            |a| a.settled = true,
            |a| a.in_use = true,
            |a| a.leaving = true,
            |a| a.leavers = [PeerId::new("a")].into(),
        ];
        let digests = edits.map(|edit| {
            let mut edited = first.clone();
            edit(&mut edited);
            edited.digest()
        });
        assert_eq!(BTreeSet::from(digests).len(), digests.len());
    }
}
