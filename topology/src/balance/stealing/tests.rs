use super::*;
use crate::{
    balance::{
        frame_plan::{PlannedJob, scripted},
        schedule::SPEED_ONE,
    },
    base::seeded::Seeded,
    data::{brick_grid::BrickIndex, voxel_box::VoxelBox},
    picture::{camera::PixelRect, tiles::Tile},
};
use proptest::prelude::*;

/// A job: cost, renderer, holders.
type Raw = (u64, usize, Vec<usize>);

fn plan(peers: usize, raw: &[Raw]) -> FramePlan {
    let rect = PixelRect {
        x: 0,
        y: 0,
        width: 8,
        height: 8,
    };
    let job = |(b, r): (u32, &Raw)| PlannedJob {
        brick: BrickIndex(b),
        owned: VoxelBox::new([b, 0, 0], [b + 1, 1, 1]),
        rect,
        leaf: 0,
        estimate_micros: r.0,
        renderer: Some(r.1),
        is_rendered: false,
        content: None,
    };
    let names = ["a", "b", "c", "d", "e", "f"];
    scripted(
        &names[..peers],
        vec![SPEED_ONE; peers],
        (0..).zip(raw).map(job).collect(),
        raw.iter().map(|r| r.2.clone()).collect(),
        vec![],
    )
}

fn both(cost: u64, renderer: usize) -> Raw {
    (cost, renderer, vec![0, 1])
}

fn sent(out: &mut Vec<StealOutput>, to: usize) -> Vec<StealMessage> {
    let message = |o: StealOutput| match o {
        StealOutput::Send { to: t, message } if t == to => Some(message),
        _ => None,
    };
    out.drain(..).filter_map(message).collect()
}

#[test]
fn jobs_whose_bricks_have_yet_to_come_are_not_taken_and_given_away_first() {
    let raw: Vec<Raw> = (0..8).map(|_| both(10_000, 0)).collect();
    let plan = plan(2, &raw);
    let (mut victim, mut thief) = (Work::new(&plan, 0, true), Work::new(&plan, 1, true));
    victim.park(|job| job >= 5);
    assert_eq!(victim.next_job(), Some(5));
    let mut out = Vec::new();
    thief.idle(&mut out);
    let asked = sent(&mut out, 0);
    // It is told that it has nothing to do: by the plan, the other one has all.
    victim.heard(1, &asked[0], &mut out);
    let granted = sent(&mut out, 1);
    let [StealMessage::Grant { jobs, .. }] = &granted[..] else {
        panic!("{granted:?}");
    };
    assert_eq!(jobs[..], [1, 2, 3, 4]);
    assert_eq!(victim.next_job(), Some(6));
    victim.unpark(&[0, 4]);
    assert_eq!(victim.next_job(), Some(0));
    victim.park(|_| false);
    assert!(!victim.waits_for_bricks(0), "jobs are rendered");
    for job in [5, 6, 0] {
        victim.job_done(job, 10_000, &mut out);
    }
    assert!(victim.is_busy() && victim.waits_for_bricks(0));
    assert_eq!(
        [0, 4, 7].map(|j| victim.is_to_come(j)),
        [false, false, true]
    );
}

#[test]
fn what_nobody_would_see_is_skipped_where_it_waits_and_nowhere_else() {
    let raw: Vec<Raw> = (0..6).map(|_| both(10_000, 0)).collect();
    let mut work = Work::new(&plan(2, &raw), 0, true);
    work.park(|job| job < 4);
    assert_eq!(work.next_job(), Some(0));
    let skipped: Vec<u32> = (0..9).filter(|&job| work.skip(job)).collect();
    assert_eq!(skipped, [1, 2, 3, 4, 5]);
    assert!((1..6).all(|job| !work.is_to_come(job) && !work.skip(job)));
    assert!(work.is_to_come(0) && work.is_busy() && work.waiting().next().is_none());
}

#[test]
fn who_is_done_gets_the_rear_half_of_who_is_not() {
    let raw: Vec<Raw> = (0..8).map(|_| both(10_000, 0)).collect();
    let plan = plan(2, &raw);
    let (mut victim, mut thief) = (Work::new(&plan, 0, true), Work::new(&plan, 1, true));
    let mut out = Vec::new();
    assert_eq!(thief.next_job(), None);
    thief.idle(&mut out);
    let asked = sent(&mut out, 0);
    victim.heard(1, &asked[0], &mut out);
    assert!(out.contains(&StealOutput::Given {
        jobs: vec![4, 5, 6, 7],
        by: 1
    }));
    let granted = sent(&mut out, 1);
    thief.heard(0, &granted[0], &mut out);
    assert_eq!(out, []);
    assert_eq!(thief.next_job(), Some(4));
    assert_eq!(victim.next_job(), Some(0));
}

/// Three tiles with two jobs each, which the first of two peers hands out.
fn queue_of_tiles() -> FramePlan {
    let rect = |x| PixelRect {
        x,
        y: 0,
        width: 8,
        height: 8,
    };
    let tile = |x| Tile {
        rect: rect(x),
        compositor: 1,
    };
    let job = |b: u32| PlannedJob {
        brick: BrickIndex(b),
        owned: VoxelBox::new([b, 0, 0], [b + 1, 1, 1]),
        rect: rect(b % 3 * 8),
        leaf: 0,
        estimate_micros: 50,
        renderer: Some(0),
        is_rendered: false,
        content: None,
    };
    let plan = scripted(
        &["a", "b"],
        vec![SPEED_ONE; 2],
        (0..6).map(job).collect(),
        vec![vec![0, 1]; 6],
        [0, 8, 16].map(tile).into(),
    );
    FramePlan {
        keeper: Some(0),
        ..plan
    }
}

#[test]
fn the_keeper_of_a_queue_and_who_asks_take_a_tile_at_a_time() {
    let plan = queue_of_tiles();
    let (mut keeper, mut thief) = (Work::new(&plan, 0, true), Work::new(&plan, 1, true));
    let mut out = Vec::new();
    let take = |keeper: &mut Work, thief: &mut Work, out: &mut Vec<StealOutput>| {
        // Also where so little is left that it would not be worth stealing.
        thief.idle(out);
        let asked = sent(out, 0);
        keeper.heard(1, &asked[0], out);
        let granted = sent(out, 1);
        thief.heard(0, &granted[0], out);
        [thief.next_job(), thief.next_job()]
    };
    assert!(keeper.is_busy() && !keeper.has_jobs() && keeper.waiting().next().is_none());
    assert!(keeper.take_tile() && !keeper.take_tile(), "one at a time");
    assert_eq!(keeper.queued().collect::<Vec<_>>(), [0, 3]);
    assert_eq!(take(&mut keeper, &mut thief, &mut out), [Some(1), Some(4)]);
    assert!(keeper.is_to_come(2) && !keeper.is_to_come(1) && thief.is_to_come(1));
    [1, 4]
        .into_iter()
        .for_each(|job| thief.job_done(job, 50, &mut out));
    assert_eq!(take(&mut keeper, &mut thief, &mut out), [Some(2), Some(5)]);
    [2, 5]
        .into_iter()
        .for_each(|job| thief.job_done(job, 50, &mut out));
    // What the keeper has begun is not given away.
    assert_eq!(take(&mut keeper, &mut thief, &mut out), [None, None]);
    assert!(!keeper.take_tile() && keeper.is_busy());
    for job in [0, 3] {
        assert_eq!(keeper.next_job(), Some(job));
        keeper.job_done(job, 50, &mut out);
    }
    assert!(!keeper.is_busy() && !thief.is_busy() && keeper.to_come_micros() == 0);
    // What the keeper rendered in an earlier attempt stays, and others are given.
    let mut holders = vec![vec![0, 1]; 6];
    holders[3] = vec![0];
    let again = FramePlan {
        holders: Arc::new(holders),
        ..plan.clone()
    };
    let (mut keeper, mut thief) = (Work::new(&again, 0, true), Work::new(&again, 1, true));
    assert_eq!(take(&mut keeper, &mut thief, &mut out), [Some(1), Some(4)]);
    assert!(keeper.take_tile());
    assert_eq!(keeper.queued().collect::<Vec<_>>(), [0, 3]);
    // Where nothing may change hands, it has all.
    let alone = Work::new(&plan, 0, false);
    assert_eq!(alone.queued().count(), 6);
}

#[test]
fn jobs_of_bricks_that_the_thief_lacks_stay() {
    let plan = plan(2, &[both(9_000, 0), (9_000, 0, vec![0]), both(9_000, 0)]);
    let mut victim = Work::new(&plan, 0, true);
    let mut out = Vec::new();
    let ask = StealMessage::Ask {
        question: 1,
        pace: 1000,
    };
    victim.heard(1, &ask, &mut out);
    assert!(out.contains(&StealOutput::Given {
        jobs: vec![2],
        by: 1
    }));
}

#[test]
fn nothing_is_given_that_would_end_the_frame_later() {
    let plan = plan(2, &[both(9_000, 0)]);
    let mut victim = Work::new(&plan, 0, true);
    let mut out = Vec::new();
    let ask = StealMessage::Ask {
        question: 1,
        pace: 16_000,
    };
    victim.heard(1, &ask, &mut out);
    let none = StealMessage::Grant {
        question: 1,
        jobs: vec![],
    };
    assert_eq!(sent(&mut out, 1), [none]);
}

#[test]
fn a_question_that_comes_twice_is_answered_with_the_same_jobs() {
    let raw: Vec<Raw> = (0..8).map(|_| both(10_000, 0)).collect();
    let plan = plan(2, &raw);
    let mut victim = Work::new(&plan, 0, true);
    let ask = StealMessage::Ask {
        question: 1,
        pace: 1000,
    };
    let (mut first, mut again) = (Vec::new(), Vec::new());
    victim.heard(1, &ask, &mut first);
    victim.heard(1, &ask, &mut again);
    assert_eq!(sent(&mut first, 1), sent(&mut again, 1));
}

#[test]
fn a_late_peer_offers_and_the_idle_one_asks() {
    let raw = [
        both(10_000, 0),
        both(10_000, 0),
        both(10_000, 0),
        both(30_000, 1),
    ];
    let plan = plan(2, &raw);
    let mut late = Work::new(&plan, 0, true);
    let mut out = Vec::new();
    let first = late.next_job().unwrap();
    late.job_done(first, 40_000, &mut out);
    assert_eq!(sent(&mut out, 1), [StealMessage::Offer]);
    let mut done = Work::new(&plan, 1, true);
    let only = done.next_job().unwrap();
    done.job_done(only, 30_000, &mut out);
    done.heard(0, &StealMessage::Offer, &mut out);
    assert!(matches!(
        sent(&mut out, 0)[..],
        [StealMessage::Ask { question: 1, .. }]
    ));
}

#[test]
fn who_is_done_as_planned_asks_nobody_but_a_late_peer_that_offered() {
    let raw = [both(10_000, 0), both(10_000, 0), both(20_000, 1)];
    let plan = plan(2, &raw);
    let mut thief = Work::new(&plan, 1, true);
    let mut out = Vec::new();
    let job = thief.next_job().unwrap();
    thief.heard(0, &StealMessage::Offer, &mut out);
    assert_eq!(out, [], "it has work still");
    let mut early = thief.clone();
    thief.late.clear();
    let mut other = thief.clone();
    thief.job_done(job, 20_000, &mut out);
    thief.idle(&mut out);
    assert_eq!(out, [], "the victim renders its last job by now");
    other.job_done(job, 9_000, &mut out);
    other.idle(&mut out);
    assert_eq!(
        sent(&mut out, 0).len(),
        1,
        "the victim's last job waits still"
    );
    early.job_done(job, 20_000, &mut out);
    early.idle(&mut out);
    assert_eq!(sent(&mut out, 0).len(), 1, "the victim is late");
}

#[test]
fn without_stealing_nobody_says_a_word() {
    let plan = plan(2, &[both(10_000, 0), both(10_000, 0)]);
    let (mut a, mut b) = (Work::new(&plan, 0, false), Work::new(&plan, 1, false));
    let mut out = Vec::new();
    b.idle(&mut out);
    let ask = StealMessage::Ask {
        question: 1,
        pace: 1000,
    };
    a.heard(1, &ask, &mut out);
    assert!(out.is_empty() && a.has_jobs());
}

/// Peers and a network that loses, doubles and reorders, driven by draws.
struct Chaos {
    works: Vec<Work>,
    running: Vec<Option<u32>>,
    wire: Vec<(usize, usize, StealMessage)>,
    rendered: Vec<u32>,
    given: Vec<u32>,
    draws: Seeded,
}

impl Chaos {
    fn carry_out(&mut self, from: usize, out: Vec<StealOutput>) {
        for o in out {
            match o {
                StealOutput::Send { to, message } => match self.draws.below(10) {
                    0 | 1 => {}
                    2 => self
                        .wire
                        .extend([(from, to, message.clone()), (from, to, message)]),
                    _ => self.wire.push((from, to, message)),
                },
                StealOutput::Given { jobs, .. } => self.given.extend(jobs),
            }
        }
    }

    fn step(&mut self) {
        let p = usize::try_from(self.draws.below(self.works.len() as u64)).unwrap();
        let mut out = Vec::new();
        match self.draws.below(4) {
            0 => {
                if let Some(job) = self.running[p].take() {
                    self.rendered.push(job);
                    let micros = 1 + self.draws.below(50_000);
                    self.works[p].job_done(job, micros, &mut out);
                } else {
                    self.running[p] = self.works[p].next_job();
                }
            }
            1 => self.works[p].idle(&mut out),
            2 => self.works[p].tick(&mut out),
            _ => {
                if !self.wire.is_empty() {
                    let at = self.draws.below(self.wire.len() as u64);
                    let (from, to, message) = self.wire.swap_remove(usize::try_from(at).unwrap());
                    self.works[to].heard(from, &message, &mut out);
                    self.carry_out(to, out);
                    return;
                }
            }
        }
        self.carry_out(p, out);
    }
}

proptest! {
    #[test]
    fn every_job_is_rendered_exactly_once_whatever_the_network_does(
        raw in prop::collection::vec((1_000u64..40_000, 0usize..5, prop::collection::btree_set(0usize..5, 1..4)), 1..40),
        seed in any::<u64>(),
    ) {
        let raw: Vec<Raw> = raw.into_iter().map(|(cost, pick, mut holders)| {
            // The first peers hold nearly all and render much, so that there is something to steal.
            holders.insert(pick / 3);
            (cost, pick / 3, holders.into_iter().collect())
        }).collect();
        let plan = plan(5, &raw);
        let mut chaos = Chaos {
            works: (0..5).map(|p| Work::new(&plan, p, true)).collect(),
            running: vec![None; 5],
            wire: Vec::new(),
            rendered: Vec::new(),
            given: Vec::new(),
            draws: Seeded::new(seed),
        };
        for _ in 0..40_000 {
            if chaos.rendered.len() >= raw.len() && chaos.wire.is_empty() {
                break;
            }
            chaos.step();
        }
        let mut rendered = chaos.rendered.clone();
        rendered.sort_unstable();
        prop_assert_eq!(rendered, (0..u32::try_from(raw.len()).unwrap()).collect::<Vec<_>>());
    }
}
