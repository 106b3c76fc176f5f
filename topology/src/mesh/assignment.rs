//! Assignment of the copies: what a peer should hold as others come, leave and die, so that little
//! moves.
//!
//! Each peer says which bricks are assigned to it; from all assignments each works out its own next
//! one. Equal inputs give equal answers on every machine, so peers that know the same take up
//! different bricks; peers that do not yet cost a spare copy, never a missing one.
//!
//! Invariants: an assignment is never above the capacity. What is assigned to a peer stays so, unless
//! a scarcer brick needs the place, of this data set or of another one, or one that frames need where memory is short. Whatever there is room for has its copies in the end. A newcomer takes its share of the copies and
//! nobody else moves; when a peer leaves or dies, only bricks below the target are copied.
//! Not here: when a peer counts as dead (`membership`), which brick is fetched from whom.
//!
//! Where one copy is wanted of each brick, peers with less work copy a few of the others' bricks: `work`.
//!
//! Method: the first assignments are the placement of Frey, Ertl 2011, section 4 ([`place_at_once`]); later a brick
//! that needs a copy goes to the peer whose hash with it is highest (Thaler, Ravishankar 1998,
//! rendezvous hashing), so the choice stays while others change.

mod work;

use crate::{
    balance::{
        frame_plan::FrameWork,
        partition::PartitionMethod,
        placement::{partitioned::place_partition, place_at_once, shares},
    },
    base::{digest::Digest, peer::PeerId, seeded::mixed},
    data::{
        brick_grid::{BrickGrid, BrickIndex},
        brick_set::BrickSet,
    },
};
use std::{cmp::Reverse, collections::BTreeSet};

/// A peer that takes part, as the others know it.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Its name.
    pub peer: &'a PeerId,
    /// Bricks of this data set that it has room for.
    pub capacity: u32,
    /// Bricks that it holds, or will.
    pub assigned: &'a BrickSet,
    /// Bricks that it holds.
    pub held: &'a BrickSet,
    /// It is about to go: its copies do not count, and it takes no more.
    pub leaving: bool,
}

/// How the bricks of a data set are parted at first, each peer's close together.
#[derive(Clone, Debug)]
pub struct Parting {
    /// How.
    pub method: PartitionMethod,
    /// How much of each brick is not empty.
    pub weights: Vec<u64>,
}

/// The first placement of a data set, remembered for the capacities that it was made for: placing is
/// dear, and is asked for again whenever somebody says what is assigned to it.
#[derive(Clone, Debug)]
pub struct FirstPlacement {
    grid: BrickGrid,
    seed: u64,
    /// `None`: scattered.
    parting: Option<Parting>,
    parted: Option<Parted>,
    capacities: Vec<u32>,
    held: Vec<BrickSet>,
}

/// The parts for capacities and copies; `None`: it does not fit like that.
#[derive(Clone, Debug)]
struct Parted {
    capacities: Vec<u32>,
    copies: u32,
    held: Option<Vec<BrickSet>>,
}

impl FirstPlacement {
    /// Nothing is placed yet; `seed` belongs to the data set.
    #[must_use]
    pub fn new(grid: BrickGrid, seed: u64, parting: Option<Parting>) -> Self {
        Self {
            grid,
            seed,
            parting,
            parted: None,
            capacities: Vec::new(),
            held: Vec::new(),
        }
    }

    /// What each peer holds where the data set is parted, `redundancy` copies of it, or as many as fit like that; `None`: it is
    /// not, or none does.
    fn parted(&mut self, capacities: &[u32], redundancy: u32) -> Option<&[BrickSet]> {
        let parting = self.parting.as_ref()?;
        let is_it = |p: &Parted| p.capacities == capacities && p.copies == redundancy;
        if !self.parted.as_ref().is_some_and(is_it) {
            let (method, weights) = (parting.method, &parting.weights);
            let devices = u32::try_from(capacities.len()).unwrap_or(u32::MAX);
            let held = |copies| place_partition(&self.grid, weights, capacities, method, copies);
            self.parted = Some(Parted {
                capacities: capacities.to_vec(),
                copies: redundancy,
                // Further copies go where there is room.
                held: (1..=redundancy.min(devices)).rev().find_map(held),
            });
        }
        self.parted.as_ref()?.held.as_deref()
    }

    /// What each peer holds, scattered.
    fn of(&mut self, capacities: Vec<u32>) -> &[BrickSet] {
        if self.capacities != capacities {
            self.held = place_at_once(&self.grid, &capacities, self.seed);
            self.capacities = capacities;
        }
        &self.held
    }
}

/// What copies are for.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a> {
    /// Copies of each brick.
    pub redundancy: u32,
    /// The peer's memory is short for another data set, so it keeps no copy beyond those.
    pub pressed: bool,
    /// What frames ask of the peers, where that is known.
    pub work: Option<&'a FrameWork>,
    /// Bricks that frames need: they come before others, also before the only copy of one, as somebody has all on a disk;
    /// `None`: all are alike.
    pub seen: Option<&'a BrickSet>,
    /// Others were waited for in vain: this peer takes what nobody has.
    pub alone: bool,
}

/// What `members[me]` should hold. `taken`: what it has taken for its work and does not hold yet, from one answer to
/// the next.
///
/// `members` ascend by peer; `first` is the data set's. O(bricks · members) where there is room; while
/// nothing is assigned to somebody, a placement besides where capacities have changed; where one copy is wanted and
/// work is known, [`drifted`](crate::balance::placement::drift::drifted) besides.
///
/// # Panics
/// Where `me` is not an index of `members`.
#[must_use]
pub fn next_assignment(
    first: &mut FirstPlacement,
    members: &[Member<'_>],
    me: usize,
    demand: Demand<'_>,
    taken: &mut BTreeSet<BrickIndex>,
) -> BrickSet {
    let (own, brick_count) = (members[me], first.grid.brick_count());
    taken.retain(|&b| own.assigned.contains(b) && !own.held.contains(b));
    if own.leaving {
        return own.assigned.clone();
    }
    if own.capacity == 0 {
        return BrickSet::new(brick_count);
    }
    let is_silent = |m: &Member<'_>| m.assigned.is_empty() && m.capacity > 0 && !m.leaving;
    // Whoever has not said what is assigned to it will take its part of the first placement, as long as
    // all others do: it is not to be made up for.
    if members.iter().any(is_silent)
        && let Some(part) = first_assignment(first, members, me, demand.redundancy)
    {
        return part;
    }
    let mut assignments = Assignments::new(brick_count, members, demand, first.seed);
    if demand.pressed {
        assignments.give_back(me);
    } else if own.assigned.is_empty() {
        assignments.take_share(me);
    } else {
        assignments.shed(me, taken);
    }
    if demand.alone {
        assignments.mend_alone(me);
    }
    assignments.mend();
    if demand.redundancy == 1
        && !demand.pressed
        && let Some(work) = demand.work
    {
        let speed = |m: &Member<'_>| work.speeds.get(m.peer).copied().unwrap_or(0);
        let speeds: Vec<u64> = members.iter().map(speed).collect();
        taken.extend(assignments.share_work(&first.grid, me, &work.micros, &speeds));
    }
    assignments.held.swap_remove(me)
}

/// This peer's part of the first placement, as long as nobody's assignment says otherwise.
fn first_assignment(
    first: &mut FirstPlacement,
    members: &[Member<'_>],
    me: usize,
    redundancy: u32,
) -> Option<BrickSet> {
    let agrees = |(m, part): (&Member<'_>, &BrickSet)| m.assigned.is_empty() || m.assigned == part;
    if let Some(parted) = first.parted(&capacities(members), redundancy) {
        // Whose part is empty has nothing to take, and is not waited for.
        let waits = |(m, part): (&Member<'_>, &BrickSet)| m.assigned.is_empty() && !part.is_empty();
        let pairs = || members.iter().zip(parted);
        return (pairs().all(agrees) && pairs().any(waits)).then(|| parted[me].clone());
    }
    let capacities = shares(first.grid.brick_count(), &capacities(members), redundancy);
    let is_part =
        |(m, &share): (&Member<'_>, &u32)| m.assigned.is_empty() || m.assigned.len() == share;
    if !members.iter().zip(&capacities).all(is_part) {
        // Known without the work of placing.
        return None;
    }
    let placed = first.of(capacities);
    members
        .iter()
        .zip(placed)
        .all(agrees)
        .then(|| placed[me].clone())
}

fn capacities(members: &[Member<'_>]) -> Vec<u32> {
    let capacity = |m: &Member<'_>| if m.leaving { 0 } else { m.capacity };
    members.iter().map(capacity).collect()
}

/// All assignments as they would be if everybody knew what this peer knows.
struct Assignments<'a> {
    held: Vec<BrickSet>,
    /// What each has in memory.
    really: Vec<&'a BrickSet>,
    /// Bricks that each still has room for.
    free: Vec<u32>,
    capacities: Vec<u32>,
    staying: Vec<bool>,
    /// Hash of each peer's name.
    names: Vec<u64>,
    copies: Vec<u32>,
    /// How many bricks have so many copies, by number of copies.
    by_copies: Vec<u32>,
    redundancy: u32,
    seen: Option<&'a BrickSet>,
    /// Bricks of each that frames do not need, the one that goes first at the end.
    unseen: Vec<Vec<BrickIndex>>,
    /// Who takes bricks without the others, for the moment.
    alone: Option<usize>,
    seed: u64,
}

impl<'a> Assignments<'a> {
    fn new(brick_count: u32, members: &[Member<'a>], demand: Demand<'a>, seed: u64) -> Self {
        let capacities = capacities(members);
        let held: Vec<BrickSet> = members.iter().map(|m| m.assigned.clone()).collect();
        let free = capacities.iter().zip(&held);
        let mut copies = vec![0; brick_count as usize];
        for m in members.iter().filter(|m| !m.leaving) {
            m.assigned.iter().for_each(|b| copies[b.0 as usize] += 1);
        }
        let mut assignments = Self {
            free: free
                .map(|(capacity, h)| capacity.saturating_sub(h.len()))
                .collect(),
            held,
            really: members.iter().map(|m| m.held).collect(),
            capacities,
            staying: members.iter().map(|m| !m.leaving).collect(),
            names: members.iter().map(|m| name_hash(m.peer)).collect(),
            by_copies: vec![0; members.len() + 1],
            copies,
            redundancy: demand.redundancy,
            seen: demand.seen,
            unseen: vec![Vec::new(); members.len()],
            alone: None,
            seed,
        };
        for &copies in &assignments.copies {
            assignments.by_copies[copies as usize] += 1;
        }
        (0..members.len()).for_each(|m| assignments.trim(m));
        assignments
    }

    /// Takes bricks from a peer that has less room than it thought: such as it does not hold yet,
    /// then those of the most copies.
    fn trim(&mut self, member: usize) {
        let excess = self.held[member]
            .len()
            .saturating_sub(self.capacities[member]);
        if !self.staying[member] || excess == 0 {
            return;
        }
        let mut bricks: Vec<BrickIndex> = self.held[member].iter().collect();
        bricks.sort_by_key(|&b| self.keeping(member, b));
        for brick in bricks.into_iter().take(excess as usize) {
            self.held[member].remove(brick);
            self.change_copies(brick, |copies| copies - 1);
        }
    }

    /// How much a peer is to keep a brick that it has: of those that frames do not need, and that it does not hold yet, the
    /// one of the most copies goes first.
    fn keeping(&self, member: usize, brick: BrickIndex) -> (bool, bool, Reverse<u32>, BrickIndex) {
        let copies = Reverse(self.copies(brick));
        (self.is_seen(brick), self.has(member, brick), copies, brick)
    }

    fn is_seen(&self, brick: BrickIndex) -> bool {
        self.seen.is_none_or(|seen| seen.contains(brick))
    }

    fn change_copies(&mut self, brick: BrickIndex, change: impl Fn(u32) -> u32) {
        let copies = &mut self.copies[brick.0 as usize];
        self.by_copies[*copies as usize] -= 1;
        *copies = change(*copies);
        self.by_copies[*copies as usize] += 1;
    }

    /// Whether some brick has so many copies, or more.
    fn any_has_copies(&self, enough: u32) -> bool {
        let counts = self.by_copies.iter().skip(enough as usize);
        counts.into_iter().any(|&bricks| bricks > 0)
    }

    /// Whether a peer has a brick in memory.
    fn has(&self, member: usize, brick: BrickIndex) -> bool {
        self.really[member].contains(brick)
    }

    /// How much a brick belongs to a peer; the highest takes it.
    fn score(&self, brick: BrickIndex, member: usize) -> u64 {
        mixed(mixed(self.seed ^ u64::from(brick.0)) ^ self.names[member])
    }

    fn copies(&self, brick: BrickIndex) -> u32 {
        self.copies[brick.0 as usize]
    }

    fn bricks(&self) -> impl Iterator<Item = BrickIndex> + use<> {
        (0..u32::try_from(self.copies.len()).unwrap_or(u32::MAX)).map(BrickIndex)
    }

    fn add(&mut self, brick: BrickIndex, member: usize) {
        if self.held[member].insert(brick) {
            self.free[member] = self.free[member].saturating_sub(1);
            self.change_copies(brick, |copies| copies + 1);
        }
    }

    /// A newcomer's share of all copies: bricks that frames need, those of the fewest copies first.
    fn take_share(&mut self, me: usize) {
        let share = self.share(me);
        let mut bricks: Vec<BrickIndex> = self.bricks().collect();
        bricks.sort_by_key(|&b| {
            let (copies, score) = (self.copies(b), Reverse(self.score(b, me)));
            (
                copies >= self.redundancy,
                !self.is_seen(b),
                copies,
                score,
                b,
            )
        });
        bricks.truncate(share as usize);
        bricks.into_iter().for_each(|b| self.add(b, me));
    }

    /// Takes back what is not held yet of a peer that took more than its share, because it did
    /// not know of all others then; as long as there are enough copies without it. What it took for its work stays.
    fn shed(&mut self, me: usize, taken: &BTreeSet<BrickIndex>) {
        let excess = self.held[me].len().saturating_sub(self.share(me));
        if excess == 0 {
            return;
        }
        let enough = |b: &BrickIndex| !self.has(me, *b) && self.copies(*b) > self.redundancy;
        let enough = |b: &BrickIndex| enough(b) && !taken.contains(b);
        let mut spare: Vec<BrickIndex> = self.held[me].iter().filter(enough).collect();
        spare.sort_by_key(|&b| (Reverse(self.copies(b)), self.score(b, me), b));
        spare.truncate(excess as usize);
        spare.into_iter().for_each(|b| self.drop_one(b, me));
    }

    /// Gives up the bricks that enough others keep. Of those to whom one is assigned, the ones it belongs
    /// to most keep it, so that not all give it up at once.
    fn give_back(&mut self, me: usize) {
        let keepers = |s: &Self, b: BrickIndex| {
            let is_assigned = |m: &usize| s.staying[*m] && s.held[*m].contains(b);
            let mine = (s.score(b, me), Reverse(me));
            let before = (0..s.held.len()).filter(is_assigned);
            let before = before.filter(|&m| (s.score(b, m), Reverse(m)) > mine);
            u32::try_from(before.count()).unwrap_or(u32::MAX)
        };
        let is_spare = |b: &BrickIndex| {
            self.copies(*b) > self.redundancy && keepers(self, *b) >= self.redundancy
        };
        let spare: Vec<BrickIndex> = self.held[me].iter().filter(is_spare).collect();
        spare.into_iter().for_each(|b| self.drop_one(b, me));
    }

    /// Whether a brick belongs more to another peer to whom it is assigned, too: of those who each give up what they have beyond what is
    /// wanted, and do not know it of each other, one keeps it.
    fn belongs_more_to_another(&self, brick: BrickIndex, member: usize) -> bool {
        let own = (self.score(brick, member), Reverse(member));
        let is_assigned = |m: &usize| self.staying[*m] && self.held[*m].contains(brick);
        let mut others = (0..self.held.len()).filter(is_assigned);
        others.any(|m| (self.score(brick, m), Reverse(m)) > own)
    }

    /// A peer's share of all copies, in bricks.
    fn share(&self, member: usize) -> u32 {
        let brick_count = u32::try_from(self.copies.len()).unwrap_or(u32::MAX);
        shares(brick_count, &self.capacities, self.redundancy)[member]
    }

    /// Whether somebody has room for a brick that it lacks.
    fn any_has_room(&self) -> bool {
        let lacks = |held: &BrickSet| (held.len() as usize) < self.copies.len();
        let mut pairs = self.free.iter().zip(&self.held);
        pairs.any(|(&free, held)| free > 0 && lacks(held))
    }

    /// Takes bricks that nobody has in the place of others that another peer keeps, and waits for nobody.
    fn mend_alone(&mut self, me: usize) {
        self.alone = Some(me);
        let is_lost = |b: &BrickIndex| self.copies(*b) == 0 && self.is_seen(*b);
        let lost: Vec<BrickIndex> = self.bricks().filter(is_lost).collect();
        for brick in lost {
            self.displace(brick);
        }
        self.alone = None;
    }

    /// Gives every brick below the target to peers that lack it, those that frames need first, the scarcest first.
    fn mend(&mut self) {
        let scarce = |b: &BrickIndex| self.copies(*b) < self.redundancy;
        let mut scarce: Vec<BrickIndex> = self.bricks().filter(scarce).collect();
        scarce.sort_by_key(|&b| (!self.is_seen(b), self.copies(b), b));
        self.list_unseen();
        let (seen, unseen) = scarce.split_at(scarce.partition_point(|&b| self.is_seen(b)));
        // One copy of each comes before the second of any: else others would have to give way in turn, and may not know it.
        for copies in 1..=self.redundancy {
            seen.iter().for_each(|&b| self.copy_up_to(copies, b));
        }
        (unseen.iter()).for_each(|&b| self.copy_up_to(self.redundancy, b));
    }

    /// Gives a brick to peers that lack it until it has so many copies. What no frame needs takes nobody's place.
    fn copy_up_to(&mut self, copies: u32, brick: BrickIndex) {
        while self.copies(brick) < copies {
            if let Some(taker) = self.taker(brick, |s, m| s.free[m] > 0) {
                self.add(brick, taker);
            } else if !self.is_seen(brick)
                || !self.displace_unseen(brick) && !self.displace(brick) && !self.make_room(brick)
            {
                return;
            }
        }
    }

    fn list_unseen(&mut self) {
        let Some(seen) = self.seen else {
            return;
        };
        for member in (0..self.held.len()).filter(|&m| self.staying[m]) {
            let unseen = self.held[member].iter().filter(|&b| !seen.contains(b));
            let mut unseen: Vec<BrickIndex> = unseen.collect();
            unseen.sort_by_key(|&b| Reverse(self.keeping(member, b)));
            self.unseen[member] = unseen;
        }
    }

    /// Puts a brick that frames need in the place of one that they do not. Returns whether that could be done.
    fn displace_unseen(&mut self, brick: BrickIndex) -> bool {
        for (unseen, held) in self.unseen.iter_mut().zip(&self.held) {
            while unseen.pop_if(|b| !held.contains(*b)).is_some() {}
        }
        let Some(taker) = self.taker(brick, |s, m| !s.unseen[m].is_empty()) else {
            return false;
        };
        if let Some(spare) = self.unseen[taker].pop() {
            self.drop_one(spare, taker);
        }
        self.add(brick, taker);
        true
    }

    /// Who takes a brick, among those that lack it and fulfil `can`: one first that has it in memory still.
    fn taker(&self, brick: BrickIndex, can: impl Fn(&Self, usize) -> bool) -> Option<usize> {
        self.takers(brick, can)
            .max_by_key(|&m| self.claim(brick, m))
    }

    fn takers(
        &self,
        brick: BrickIndex,
        can: impl Fn(&Self, usize) -> bool,
    ) -> impl Iterator<Item = usize> {
        let takes = |m: usize| self.staying[m] && self.alone.is_none_or(|alone| alone == m);
        (0..self.held.len())
            .filter(move |&m| takes(m) && !self.held[m].contains(brick) && can(self, m))
    }

    /// How well a brick would be placed with a peer; the best takes it.
    fn claim(&self, brick: BrickIndex, member: usize) -> (bool, u64, Reverse<usize>) {
        let has = self.has(member, brick);
        (has, self.score(brick, member), Reverse(member))
    }

    /// Puts a brick in the place of one that moves on to a peer with room: those with room hold it
    /// already. Returns whether that could be done.
    fn make_room(&mut self, brick: BrickIndex) -> bool {
        if !self.any_has_room() {
            return false;
        }
        let moves_on = |s: &Self, m: usize| {
            let free = |x: BrickIndex| s.taker(x, |s, f| s.free[f] > 0);
            s.held[m].iter().find_map(|x| free(x).map(|f| (x, f)))
        };
        let taker = self.taker(brick, |s, m| moves_on(s, m).is_some());
        let Some((taker, (other, free))) = taker.and_then(|m| Some((m, moves_on(self, m)?))) else {
            return false;
        };
        self.drop_one(other, taker);
        self.add(other, free);
        self.add(brick, taker);
        true
    }

    fn drop_one(&mut self, brick: BrickIndex, member: usize) {
        if self.held[member].remove(brick) {
            self.free[member] += 1;
            self.change_copies(brick, |copies| copies - 1);
        }
    }

    /// Puts a brick in the place of one with at least two copies more, of one first that is not there
    /// yet: giving that up costs nothing. Returns whether that could be done.
    fn displace(&mut self, brick: BrickIndex) -> bool {
        let enough = self.copies(brick) + 2;
        if !self.any_has_copies(enough) {
            return false;
        }
        let may_go = |s: &Self, m: usize, b: BrickIndex| {
            s.copies(b) >= enough && (s.alone.is_none() || s.belongs_more_to_another(b, m))
        };
        let spare_of = |s: &Self, m: usize| {
            let spare = s.held[m].iter().filter(|&b| may_go(s, m, b));
            spare.max_by_key(|&b| (!s.has(m, b), s.copies(b), Reverse(b)))
        };
        let full = |s: &Self, m: usize| s.capacities[m] > 0;
        let takers = self.takers(brick, full);
        let takers = takers.filter_map(|m| spare_of(self, m).map(|spare| (m, spare)));
        let best = takers.max_by_key(|&(m, spare)| {
            let (has, score, first) = self.claim(brick, m);
            (has, !self.has(m, spare), score, first)
        });
        let Some((taker, spare)) = best else {
            return false;
        };
        self.drop_one(spare, taker);
        self.add(brick, taker);
        true
    }
}

/// A hash of a peer's name.
pub(crate) fn name_hash(peer: &PeerId) -> u64 {
    let digest = Digest::of(peer.as_str().as_bytes());
    digest
        .as_bytes()
        .iter()
        .take(8)
        .fold(0, |h, &b| h << 8 | u64::from(b))
}

/// How safe the copies are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Safety {
    /// Copies of the scarcest brick.
    pub copies_min: u32,
    /// Copies of all bricks.
    pub copies: u64,
    /// Bricks below the target.
    pub endangered: u32,
    /// Bricks without any copy, which nobody can read either.
    pub missing: u32,
    /// Bricks without any copy that somebody reads for each frame.
    pub read: u32,
}

impl Safety {
    /// The safety of bricks that these peers hold, with a target of `redundancy` copies.
    #[must_use]
    pub fn of<'a>(
        brick_count: u32,
        held: impl IntoIterator<Item = &'a BrickSet>,
        redundancy: u32,
    ) -> Self {
        let mut copies = vec![0_u32; brick_count as usize];
        for brick in held.into_iter().flat_map(BrickSet::iter) {
            if let Some(copies) = copies.get_mut(brick.0 as usize) {
                *copies += 1;
            }
        }
        let count = |few: &dyn Fn(u32) -> bool| {
            u32::try_from(copies.iter().filter(|&&c| few(c)).count()).unwrap_or(u32::MAX)
        };
        Self {
            copies_min: copies.iter().copied().min().unwrap_or(0),
            copies: copies.iter().map(|&c| u64::from(c)).sum(),
            endangered: count(&|c| c < redundancy),
            missing: count(&|c| c == 0),
            read: 0,
        }
    }
}

#[cfg(test)]
mod tests;
