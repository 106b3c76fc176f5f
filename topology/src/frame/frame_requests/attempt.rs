//! The requester's side of a frame: what is still awaited, and what to do when it does not come.
//!
//! A pure state machine: inputs are arrivals, losses and deadlines; the answer is to wait on, to
//! ask again without the peers that failed, or to end. Invariant: every frame ends, after at most
//! [`ATTEMPTS_MAX`] attempts that failed; peers that are lost do not count, for there are only so
//! many.
//!
//! Where all who take part fail, they are asked again: one that was just started again says so
//! before the requester knows of it, and there may be nobody else. Where most are late, they get
//! more time, and are then asked again as well: where few take part, a single lost message makes
//! them late, and who is only slow goes on with the job that it has.

use crate::{
    balance::frame_plan::FramePlan,
    base::{digest::Digest, peer::PeerId},
};
use std::{collections::BTreeSet, sync::Arc};

/// Attempts at a frame that may fail before it is given up.
pub const ATTEMPTS_MAX: u32 = 5;
/// How often an attempt's time is prolonged because most peers are late, each time to twice as
/// much.
const PROLONGED_MAX: u32 = 2;

/// Something that happened to a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptInput {
    /// A tile arrived, blended by this plan.
    Tile {
        /// Tile of the plan.
        tile: u32,
        /// The plan it was blended by.
        plan: Digest,
        /// Its compositor.
        from: PeerId,
    },
    /// A peer gave a job to another one that holds its brick too.
    Given {
        /// Job of the plan.
        job: u32,
        /// The plan it belongs to.
        plan: Digest,
        /// Who had it.
        from: PeerId,
        /// Who has it now.
        by: PeerId,
    },
    /// A job's time arrived.
    Job {
        /// Job of the plan.
        job: u32,
        /// The plan it was rendered by.
        plan: Digest,
        /// Its renderer.
        from: PeerId,
    },
    /// A peer cannot be reached any more.
    Lost(PeerId),
    /// A peer said that it cannot do its part, or followed another plan.
    Failed(PeerId),
    /// A peer has no room for the frame: that is no fault.
    Busy(PeerId),
    /// These peers are at fault (`blame`).
    AtFault(BTreeSet<PeerId>),
    /// The attempt's time is over.
    Deadline,
}

/// What follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The input does not belong to this attempt, or came twice: drop it.
    Ignore,
    /// Take what came and wait on.
    Accept,
    /// Take what came: the frame is whole.
    Whole,
    /// Most peers are late: it is the expectation that was wrong, so give them as much time again
    /// as they had.
    Prolong,
    /// Nothing came at all, and nobody can be blamed for that: a message may be lost. Ask the same again,
    /// with as much time as if it were prolonged.
    Repeat,
    /// Ask again, without these peers where others can do their part.
    Again {
        /// Peers that failed in this attempt; none where nobody is to blame.
        without: BTreeSet<PeerId>,
    },
    /// No further attempt is worth it.
    GiveUp,
}

/// What one attempt at a frame still awaits.
#[derive(Clone, Debug)]
pub struct Attempt {
    plan: Arc<FramePlan>,
    failed: u32,
    prolonged: u32,
    /// Something came since the attempt began, or since it was prolonged.
    has_progress: bool,
    /// Bricks are read for it: nobody is late who gets on.
    are_read: bool,
    tiles: BTreeSet<u32>,
    jobs: BTreeSet<u32>,
    /// Who has each job, as far as is known: its renderer, or who it was given to.
    job_owner: Vec<Option<usize>>,
}

impl Attempt {
    /// Awaits the tiles and job times of a plan, after `failed` attempts at the frame that failed, and
    /// after this one had more time or was repeated `prolonged` times; tiles that no job touches are not
    /// awaited.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "tiles and jobs are counted in u32"
    )]
    pub fn new(plan: Arc<FramePlan>, failed: u32, prolonged: u32) -> Self {
        let tiles = (0..plan.tiles.len()).filter(|&t| !plan.tile_jobs.of_tile(t).is_empty());
        let jobs = (0..plan.jobs.len()).filter(|&j| plan.jobs[j].renderer.is_some());
        Self {
            failed,
            prolonged,
            has_progress: false,
            are_read: false,
            tiles: tiles.map(|t| t as u32).collect(),
            jobs: jobs.map(|j| j as u32).collect(),
            job_owner: plan.jobs.iter().map(|j| j.renderer).collect(),
            plan,
        }
    }

    /// Bricks are read for it, which takes a time that nobody knows.
    #[must_use]
    pub fn with_reads(mut self, are_read: bool) -> Self {
        self.are_read = are_read;
        self
    }

    /// Its plan.
    #[must_use]
    pub fn plan(&self) -> &Arc<FramePlan> {
        &self.plan
    }

    fn compositor(&self, tile: u32) -> Option<usize> {
        self.plan.tiles.get(tile as usize).map(|t| t.compositor)
    }

    fn named(&self, peers: impl IntoIterator<Item = usize>) -> BTreeSet<PeerId> {
        let peers = peers.into_iter();
        peers.map(|p| self.plan.peers[p].clone()).collect()
    }

    /// Whether all is there already, as in a frame without any job.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.tiles.is_empty() && self.jobs.is_empty()
    }

    /// How often the attempt's time was prolonged, or it was repeated.
    #[must_use]
    pub fn prolonged(&self) -> u32 {
        self.prolonged
    }

    /// Number of tiles and job times still awaited.
    #[must_use]
    pub fn awaited(&self) -> usize {
        self.tiles.len() + self.jobs.len()
    }

    /// Who composites the missing tiles, once every renderer says that it is done; before, nobody.
    /// Whether they are at fault or a renderer is, nobody can tell from here: it has to be asked
    /// for (`blame`).
    #[must_use]
    pub fn awaited_compositors(&self) -> BTreeSet<PeerId> {
        if !self.jobs.is_empty() {
            return BTreeSet::new();
        }
        self.named(self.tiles.iter().filter_map(|&t| self.compositor(t)))
    }

    /// Who has these jobs, as far as is known; jobs that nobody renders, or that are none, nobody.
    #[must_use]
    pub fn owners(&self, jobs: &[u32]) -> BTreeSet<PeerId> {
        let owner = |&job: &u32| *self.job_owner.get(job as usize)?;
        self.named(jobs.iter().filter_map(owner))
    }

    /// Applies an input.
    pub fn step(&mut self, input: AttemptInput) -> Verdict {
        match input {
            AttemptInput::Tile { plan, from, .. }
            | AttemptInput::Given { plan, from, .. }
            | AttemptInput::Job { plan, from, .. }
                if plan != self.plan.digest =>
            {
                self.fail([from])
            }
            AttemptInput::Tile { tile, from, .. } => {
                let compositor = self.compositor(tile);
                let expected = compositor.is_some() && compositor == self.plan.index_of(&from);
                self.accept(expected, |s| s.tiles.remove(&tile))
            }
            // A thief's time may come before the victim's word that it gave the job away.
            AttemptInput::Job { job, from, .. } => {
                let holder = self.holder(job, &from);
                if let Some((owner, d)) = self.job_owner.get_mut(job as usize).zip(holder) {
                    *owner = Some(d);
                }
                self.accept(holder.is_some(), |s| s.jobs.remove(&job))
            }
            AttemptInput::Given { job, from, by, .. } => {
                let (was, now) = (self.holder(job, &from), self.holder(job, &by));
                let owner = self.job_owner.get_mut(job as usize);
                match (owner, was, now) {
                    (Some(owner), Some(was), Some(now)) if *owner == Some(was) => {
                        *owner = Some(now);
                        Verdict::Accept
                    }
                    _ => Verdict::Ignore,
                }
            }
            AttemptInput::Lost(peer) | AttemptInput::Busy(peer) if self.takes_part(&peer) => {
                let without = BTreeSet::from([peer]);
                Verdict::Again { without }
            }
            AttemptInput::Lost(_) | AttemptInput::Busy(_) => Verdict::Ignore,
            AttemptInput::Failed(peer) => self.fail([peer]),
            AttemptInput::AtFault(peers) => self.blame(peers),
            // Times that are late cost a prediction, not a picture.
            AttemptInput::Deadline if self.tiles.is_empty() => Verdict::Whole,
            AttemptInput::Deadline => {
                let late = self.late();
                self.blame(late)
            }
        }
    }

    fn takes_part(&self, peer: &PeerId) -> bool {
        self.plan.index_of(peer).is_some()
    }

    /// The index of a peer that holds a job's brick.
    fn holder(&self, job: u32, peer: &PeerId) -> Option<usize> {
        let index = self.plan.index_of(peer)?;
        let holders = self.plan.holders.get(job as usize)?;
        holders.binary_search(&index).ok().map(|_| index)
    }

    fn accept(&mut self, expected: bool, take: impl FnOnce(&mut Self) -> bool) -> Verdict {
        if !expected || !take(self) {
            return Verdict::Ignore;
        }
        self.has_progress = true;
        if self.is_whole() {
            Verdict::Whole
        } else {
            Verdict::Accept
        }
    }

    /// Who is late: renderers of missing jobs; where all are done, compositors of missing tiles.
    fn late(&self) -> BTreeSet<PeerId> {
        let renderers = self.jobs.iter().filter_map(|&j| self.job_owner[j as usize]);
        let late = self.named(renderers);
        if late.is_empty() {
            return self.awaited_compositors();
        }
        late
    }

    /// These are late or at fault. Where that is most of the peers, or nobody can be named, it is the
    /// expectation that was wrong, or a message was lost: they have more time, and are then asked again.
    /// Those that are late a second time are left out, if there are others.
    fn blame(&mut self, peers: BTreeSet<PeerId>) -> Verdict {
        let is_doubtful = peers.is_empty() || 2 * peers.len() > self.plan.peers.len();
        let has_progress = std::mem::take(&mut self.has_progress);
        if self.are_read && has_progress {
            self.prolonged = self.prolonged.saturating_add(1);
            return Verdict::Prolong;
        }
        if is_doubtful && self.prolonged < PROLONGED_MAX {
            self.prolonged += 1;
            return if has_progress {
                Verdict::Prolong
            } else {
                Verdict::Repeat
            };
        }
        let are_others = !peers.is_empty() && peers.len() < self.plan.peers.len();
        if is_doubtful && (self.failed == 0 || !are_others) {
            return self.again(BTreeSet::new());
        }
        self.fail(peers)
    }

    fn fail(&self, peers: impl IntoIterator<Item = PeerId>) -> Verdict {
        let without: BTreeSet<PeerId> = peers.into_iter().filter(|p| self.takes_part(p)).collect();
        if without.is_empty() {
            Verdict::Ignore
        } else {
            self.again(without)
        }
    }

    /// The attempt has failed.
    fn again(&self, without: BTreeSet<PeerId>) -> Verdict {
        if self.failed + 1 >= ATTEMPTS_MAX {
            Verdict::GiveUp
        } else {
            Verdict::Again { without }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        balance::frame_plan::{PlannedJob, scripted},
        data::{brick_grid::BrickIndex, voxel_box::VoxelBox},
        picture::{camera::PixelRect, tiles::Tile},
    };

    fn plan() -> Arc<FramePlan> {
        let rect = |x| PixelRect {
            x,
            y: 0,
            width: 8,
            height: 8,
        };
        let job = |b: u32, renderer| PlannedJob {
            brick: BrickIndex(b),
            owned: VoxelBox::new([b, 0, 0], [b + 1, 1, 1]),
            rect: rect(0),
            leaf: 0,
            estimate_micros: 1,
            renderer,
            is_rendered: false,
            content: None,
        };
        let tile = |x, compositor| Tile {
            rect: rect(x),
            compositor,
        };
        Arc::new(scripted(
            &["a", "b", "c"],
            vec![1; 3],
            vec![job(0, Some(0)), job(1, Some(1)), job(2, None)],
            vec![vec![0], vec![0, 1], vec![]],
            vec![tile(0, 1), tile(8, 0)],
        ))
    }

    fn job(job: u32, from: &str) -> AttemptInput {
        AttemptInput::Job {
            job,
            plan: plan().digest,
            from: PeerId::new(from),
        }
    }

    fn tile(tile: u32, from: &str) -> AttemptInput {
        AttemptInput::Tile {
            tile,
            plan: plan().digest,
            from: PeerId::new(from),
        }
    }

    #[test]
    fn a_frame_is_whole_when_each_awaited_thing_came_once_from_its_owner() {
        let mut t = Attempt::new(plan(), 0, 0);
        assert_eq!(t.awaited(), 3, "two jobs, one tile that they touch");
        assert_eq!(
            t.step(job(0, "b")),
            Verdict::Ignore,
            "does not hold its brick"
        );
        assert_eq!(t.step(job(0, "a")), Verdict::Accept);
        assert_eq!(t.step(job(0, "a")), Verdict::Ignore, "twice");
        assert_eq!(t.step(tile(1, "a")), Verdict::Ignore, "no job touches it");
        assert_eq!(t.step(tile(0, "b")), Verdict::Accept);
        assert_eq!(t.step(job(9, "a")), Verdict::Ignore, "no such job");
        assert_eq!(t.step(job(1, "b")), Verdict::Whole);
    }

    #[test]
    fn a_deadline_names_who_is_late_and_ends_after_some_attempts() {
        let mut t = Attempt::new(plan(), 0, 0);
        assert_eq!(t.step(job(0, "a")), Verdict::Accept);
        let without = BTreeSet::from([PeerId::new("b")]);
        assert_eq!(t.step(AttemptInput::Deadline), Verdict::Again { without });
        let mut last = Attempt::new(plan(), ATTEMPTS_MAX - 1, 0);
        assert_eq!(
            last.step(AttemptInput::Failed(PeerId::new("a"))),
            Verdict::GiveUp
        );
        // Who is lost did not fail: the others may well do it.
        let without = BTreeSet::from([PeerId::new("a")]);
        assert_eq!(
            last.step(AttemptInput::Lost(PeerId::new("a"))),
            Verdict::Again { without }
        );
    }

    /// What follows from deadlines alone, once the attempt's time is not prolonged any more.
    fn at_last(mut t: Attempt) -> Verdict {
        for n in 1..=PROLONGED_MAX {
            assert_eq!(t.step(AttemptInput::Deadline), Verdict::Repeat);
            assert_eq!(t.prolonged(), n);
        }
        t.step(AttemptInput::Deadline)
    }

    #[test]
    fn where_most_are_late_they_have_more_time_then_are_asked_again_then_left_out() {
        let again = |without: &[&str]| Verdict::Again {
            without: without.iter().map(|n| PeerId::new(n)).collect(),
        };
        assert_eq!(at_last(Attempt::new(plan(), 0, 0)), again(&[]));
        let second = Attempt::new(plan(), 1, 0);
        assert_eq!(at_last(second), again(&["a", "b"]), "c is there");
        let last = Attempt::new(plan(), ATTEMPTS_MAX - 1, 0);
        assert_eq!(at_last(last), Verdict::GiveUp);
    }

    #[test]
    fn an_attempt_of_which_something_comes_has_more_time_and_one_of_which_nothing_comes_is_repeated()
     {
        let mut t = Attempt::new(plan(), 0, 0);
        assert_eq!(t.step(tile(0, "b")), Verdict::Accept);
        t.tiles.insert(0);
        assert_eq!(t.step(AttemptInput::Deadline), Verdict::Prolong);
        assert_eq!(t.step(AttemptInput::Deadline), Verdict::Repeat);
        assert_eq!(t.prolonged(), PROLONGED_MAX);
        let mut repeated = Attempt::new(plan(), 0, PROLONGED_MAX);
        let without = BTreeSet::new();
        assert_eq!(
            repeated.step(AttemptInput::Deadline),
            Verdict::Again { without }
        );
    }

    /// A frame of one peer that renders two jobs and blends their tile.
    fn alone(failed: u32) -> Attempt {
        let all = plan();
        let mut jobs = all.jobs[..2].to_vec();
        jobs.iter_mut().for_each(|j| j.renderer = Some(0));
        let tile = Tile {
            compositor: 0,
            ..all.tiles[0]
        };
        let holders = vec![vec![0]; 2];
        let plan = scripted(&["a"], vec![1], jobs, holders, vec![tile]);
        Attempt::new(Arc::new(plan), failed, 0)
    }

    #[test]
    fn where_all_are_late_or_fail_they_are_asked_again_as_often_as_any() {
        for failed in 0..ATTEMPTS_MAX - 1 {
            let without = BTreeSet::new();
            assert_eq!(at_last(alone(failed)), Verdict::Again { without });
            let without = BTreeSet::from([PeerId::new("a")]);
            assert_eq!(
                alone(failed).step(AttemptInput::Failed(PeerId::new("a"))),
                Verdict::Again { without }
            );
        }
        let mut last = alone(ATTEMPTS_MAX - 1);
        assert_eq!(at_last(last.clone()), Verdict::GiveUp);
        let failed = last.step(AttemptInput::Failed(PeerId::new("a")));
        assert_eq!(failed, Verdict::GiveUp);
    }

    #[test]
    fn where_nobody_can_be_blamed_all_are_asked_again() {
        let nobody = || AttemptInput::AtFault(BTreeSet::new());
        for failed in [0, ATTEMPTS_MAX - 2] {
            let mut t = Attempt::new(plan(), failed, 0);
            for _ in 0..PROLONGED_MAX {
                assert_eq!(t.step(nobody()), Verdict::Repeat);
            }
            let without = BTreeSet::new();
            assert_eq!(t.step(nobody()), Verdict::Again { without });
        }
    }

    #[test]
    fn a_job_that_was_given_away_is_awaited_from_the_thief() {
        let mut t = Attempt::new(plan(), 0, 0);
        let given = |from: &str, by: &str| AttemptInput::Given {
            job: 1,
            plan: plan().digest,
            from: PeerId::new(from),
            by: PeerId::new(by),
        };
        assert_eq!(t.step(given("a", "b")), Verdict::Ignore, "not a's to give");
        assert_eq!(
            t.step(given("b", "c")),
            Verdict::Ignore,
            "c does not hold it"
        );
        assert_eq!(t.step(given("b", "a")), Verdict::Accept);
        assert_eq!(t.step(job(0, "a")), Verdict::Accept);
        let without = BTreeSet::from([PeerId::new("a")]);
        assert_eq!(t.step(AttemptInput::Deadline), Verdict::Again { without });
        assert_eq!(t.step(job(1, "a")), Verdict::Accept);
    }

    #[test]
    fn late_times_alone_do_not_hold_a_picture_back() {
        let mut t = Attempt::new(plan(), 0, 0);
        assert_eq!(t.step(tile(0, "b")), Verdict::Accept);
        assert_eq!(t.step(AttemptInput::Deadline), Verdict::Whole);
    }

    #[test]
    fn compositors_are_awaited_once_all_jobs_are_done() {
        let mut t = Attempt::new(plan(), 0, 0);
        assert_eq!(t.step(job(0, "a")), Verdict::Accept);
        assert_eq!(t.awaited_compositors(), BTreeSet::new());
        assert_eq!(t.step(job(1, "a")), Verdict::Accept, "it stole it");
        let b = BTreeSet::from([PeerId::new("b")]);
        assert_eq!(t.awaited_compositors(), b);
        let a = BTreeSet::from([PeerId::new("a")]);
        assert_eq!(t.owners(&[1, 2, 99]), a, "who has it now");
        let failed = t.step(AttemptInput::AtFault(a.clone()));
        assert_eq!(failed, Verdict::Again { without: a });
        assert_eq!(t.step(tile(0, "b")), Verdict::Whole);
        assert_eq!(t.awaited_compositors(), BTreeSet::new());
    }

    #[test]
    fn work_by_another_plan_fails_its_peer_and_strangers_are_ignored() {
        let mut t = Attempt::new(plan(), 0, 0);
        let other = AttemptInput::Tile {
            tile: 0,
            plan: Digest::of(b"other"),
            from: PeerId::new("b"),
        };
        assert!(matches!(t.step(other), Verdict::Again { .. }));
        assert_eq!(
            t.step(AttemptInput::Lost(PeerId::new("z"))),
            Verdict::Ignore
        );
    }
}
