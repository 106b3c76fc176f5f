//! Which division of a frame takes less time: that of the volume, or that of the picture.
//!
//! Pure: forecasts and times in, choice out; of one requester and data set. A frame is expected to take what the slowest of its peers
//! takes for rays (the schedule, by measured costs) and for misses (bricks that it fetches, at their measured price), and what its pixels
//! take: those that go from peer to peer, at a price that is measured for each division and has all else in it.
//! Damping: prices are medians of the last few frames; a division is left for one that is expected to take 6 % less. One that was
//! not tried, or not for long, is tried for a few frames where it is not expected to take much more: trials may take a part of the time,
//! which is smaller the more of them were in vain.
//!
//! Source: DeMarle, Gribble, Boulos, Parker 2005, section 5 (accesses, misses and pixels decide about a frame's time); the choice is ours.

use crate::{
    balance::{
        frame_plan::{FramePlan, PlannedJob},
        roster::Roster,
        schedule::loads,
        tile_runs::traffic,
    },
    base::peer::PeerId,
    data::brick_set::BrickSet,
};
use std::collections::{BTreeMap, VecDeque};

/// Frames whose median a price is.
const RECENT: usize = 5;
/// Frames of the division in use that are measured before the other one is tried.
const MEASURED_MIN: usize = 3;
/// Frames of a trial: in the first one peers fetch what they need in the others, too.
const TRIAL: u32 = 3;
/// A division is tried where it is expected to take at most so much as the one in use, thousandths.
const TRIED_THOUSANDTHS: u64 = 1500;
/// A division takes the place of the one in use where it is expected to take at most so much, thousandths.
const BETTER_THOUSANDTHS: u64 = 940;
/// A frame of a trial counts as taking at least so much longer, thousandths: what it is expected to take is not certain.
const TRIAL_THOUSANDTHS_MIN: u64 = 200;
/// Frames that pass before a trial for each that it is expected to cost: trials take a sixteenth of the time, at first.
const PATIENCE: u64 = 16;
/// The same after many trials that were in vain.
const PATIENCE_MAX: u64 = 256;

/// What is expected of a frame by one division.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forecast {
    /// What each peer renders, by its index of the plan, microseconds; where the volume is divided, with what it waits for bricks that are
    /// read.
    rays_micros: Vec<u64>,
    /// Bricks that each peer needs and does not hold: those that it did not need for the last divided frame, and those that it did.
    lacks: Vec<[u32; 2]>,
    /// Pixels that go from peer to peer, and those of the picture.
    pixels: u64,
    /// The picture is divided.
    is_image: bool,
    /// Bricks that each peer needs.
    needs: BTreeMap<PeerId, BrickSet>,
}

impl Forecast {
    /// Whether it is of a divided picture.
    #[must_use]
    pub fn is_image(&self) -> bool {
        self.is_image
    }
}

/// What a peer did for a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worked {
    /// Rendering, microseconds.
    pub rendered_micros: u64,
    /// Waiting for bricks, microseconds.
    pub waited_micros: u64,
    /// Bricks that it fetched or read.
    pub missed: u32,
}

/// The last few of some numbers.
#[derive(Clone, Debug, Default)]
struct Recent(VecDeque<f64>);

impl Recent {
    fn push(&mut self, number: f64) {
        if self.0.len() == RECENT {
            self.0.pop_front();
        }
        self.0.push_back(number);
    }

    fn median(&self) -> Option<f64> {
        let mut sorted: Vec<f64> = self.0.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct DivisionChoice {
    /// The division in use: whether that of the picture.
    is_image: bool,
    /// Frames of a trial of the other one that are left.
    trial: u32,
    /// Frames that pass before a trial of the other one for each that it is expected to cost.
    patience: u64,
    /// Frames since the other one was taken.
    without: u64,
    /// What a pixel takes, with all that is not foretold, microseconds; by division.
    pixel_micros: [Recent; 2],
    /// What a missed brick takes, microseconds.
    miss_micros: Recent,
    /// Part of the lacking bricks that are missed: of those needed for the first time, and of others.
    missed_parts: [Recent; 2],
    /// What each peer needed for the last divided frame.
    needed: BTreeMap<PeerId, BrickSet>,
}

impl Default for DivisionChoice {
    fn default() -> Self {
        Self {
            is_image: false,
            trial: 0,
            patience: PATIENCE,
            without: u64::from(TRIAL) * PATIENCE,
            pixel_micros: Default::default(),
            miss_micros: Recent::default(),
            missed_parts: Default::default(),
            needed: BTreeMap::new(),
        }
    }
}

impl DivisionChoice {
    /// What is known of a frame by this plan, among the peers of this roster.
    #[must_use]
    pub fn forecast(&self, plan: &FramePlan, roster: &Roster) -> Forecast {
        let costs = plan.jobs.iter().map(PlannedJob::cost_micros);
        let is_image = plan.image_tile.is_some();
        let mut needs: Vec<BrickSet> = Vec::new();
        if is_image {
            let bricks = roster.entries().iter().map(|e| e.bricks.brick_count());
            let bricks = bricks.max().unwrap_or(0);
            needs.resize_with(plan.peers.len(), || BrickSet::new(bricks));
            for job in &plan.jobs {
                if let Some(of_peer) = job.renderer.and_then(|r| needs.get_mut(r)) {
                    of_peer.insert(job.brick);
                }
            }
        }
        let lacks = roster.entries().iter().zip(&needs).map(|(entry, needs)| {
            let needed = self.needed.get(&entry.peer);
            let lacking = needs.iter().filter(|&b| !entry.bricks.contains(b));
            let mut lacks = [0, 0];
            for brick in lacking {
                let is_again = needed.is_some_and(|n| n.contains(brick));
                lacks[usize::from(is_again)] += 1;
            }
            lacks
        });
        let picture: u64 = plan.tiles.iter().map(|t| t.rect.pixel_count() as u64).sum();
        let speeds = if is_image {
            &plan.speeds
        } else {
            &plan.effective_speeds
        };
        Forecast {
            rays_micros: loads(costs, &plan.schedule.assignment, speeds),
            lacks: lacks.collect(),
            pixels: picture + traffic(&plan.tile_jobs, &plan.tiles, &plan.schedule.assignment),
            is_image,
            needs: plan.peers.iter().cloned().zip(needs).collect(),
        }
    }

    /// How long such a frame is expected to take, microseconds. What was never measured costs nothing; a pixel, as by the other division.
    #[must_use]
    pub fn micros(&self, of: &Forecast) -> u64 {
        let miss = self.miss_micros.median().unwrap_or(0.0);
        let [new, again] = [0, 1].map(|k| self.missed_parts[k].median());
        let misses = |lacks: &[u32; 2]| {
            f64::from(lacks[0]) * new.unwrap_or(1.0) + f64::from(lacks[1]) * again.unwrap_or(0.0)
        };
        let lacks = of.lacks.iter().map(|l| misses(l) * miss);
        let rays = slowest(&of.rays_micros, lacks);
        let own = usize::from(of.is_image);
        let pixel = self.pixel_micros[own].median();
        let pixel = pixel.or_else(|| self.pixel_micros[1 - own].median());
        rounded(rays + as_float(of.pixels) * pixel.unwrap_or(0.0))
    }

    /// Which of two forecasts is taken: 0 is of a divided volume, 1 of a divided picture. Without the second one, the first.
    pub fn choose(&mut self, forecasts: &[Forecast]) -> usize {
        let is_seen = forecasts
            .iter()
            .all(|f| f.rays_micros.iter().any(|&m| m > 0));
        if !is_seen || forecasts.get(1).is_none_or(|f| !f.is_image) {
            return 0;
        }
        let [used, other] = [self.is_image, !self.is_image].map(usize::from);
        let [takes, other_takes] = [used, other].map(|k| self.micros(&forecasts[k]));
        let is_within =
            |thousandths: u64| other_takes < takes.saturating_mul(thousandths).div_ceil(1000);
        let is_known = self.pixel_micros[other].0.len() >= MEASURED_MIN;
        let is_worth_it = is_within(TRIED_THOUSANDTHS);
        let longer = other_takes.saturating_sub(takes).saturating_mul(1000) / takes.max(1);
        let longer = u64::from(TRIAL) * longer.max(TRIAL_THOUSANDTHS_MIN);
        let may_begin = longer.saturating_mul(self.patience) <= self.without.saturating_mul(1000);
        let chosen = if self.trial > 0 && is_worth_it {
            self.trial -= 1;
            other
        } else if is_known && is_within(BETTER_THOUSANDTHS) {
            (self.is_image, self.patience) = (other == 1, PATIENCE);
            other
        } else if self.pixel_micros[used].0.len() >= MEASURED_MIN && is_worth_it && may_begin {
            self.trial = TRIAL - 1;
            if is_known {
                self.patience = (self.patience * 2).min(PATIENCE_MAX);
            }
            other
        } else {
            self.trial = 0;
            used
        };
        self.without = if chosen == used {
            self.without.saturating_add(1)
        } else {
            0
        };
        chosen
    }

    /// A frame added so much to the time of those before it, microseconds, in which peers, by their index of the plan, did so much.
    pub fn learn(&mut self, of: &Forecast, took_micros: u64, work: &BTreeMap<usize, Worked>) {
        if of.rays_micros.iter().all(|&m| m == 0) {
            return;
        }
        let took = as_float(took_micros);
        let rendered = work.values().map(|w| as_float(w.rendered_micros));
        let rendered = rendered.fold(0.0, f64::max);
        let busiest = |w: &Worked| as_float(w.rendered_micros) + as_float(w.waited_micros);
        let busiest = work.values().map(busiest).fold(0.0, f64::max);
        // Where frames overlap, others were rendered while a peer waited.
        let waits = ((took - rendered) / (busiest - rendered).max(1.0)).clamp(0.0, 1.0);
        let rest = (took - rendered - waits * (busiest - rendered)).max(0.0);
        self.pixel_micros[usize::from(of.is_image)].push(rest / as_float(of.pixels.max(1)));
        if !of.is_image {
            return;
        }
        let lacks = |peer: usize| {
            of.lacks
                .get(peer)
                .map_or(0, |l| u64::from(l[0]) + u64::from(l[1]))
        };
        // Nobody is believed to have fetched more than it lacked.
        let missed = work.iter().map(|(&p, w)| u64::from(w.missed).min(lacks(p)));
        let missed: u64 = missed.sum();
        let waited = work
            .values()
            .map(|w| as_float(w.waited_micros))
            .sum::<f64>();
        if missed > 0 {
            self.miss_micros.push(waits * waited / as_float(missed));
        }
        let lacks = |k: usize| of.lacks.iter().map(|l| f64::from(l[k])).sum::<f64>();
        let [new, again] = [lacks(0), lacks(1)];
        // What is said of both: by those that are more.
        let missed = as_float(missed);
        if new > 0.0 && new >= again {
            self.missed_parts[0].push((missed / new).min(1.0));
        } else if again > 0.0 {
            let of_new = new * self.missed_parts[0].median().unwrap_or(1.0);
            self.missed_parts[1].push(((missed - of_new) / again).clamp(0.0, 1.0));
        }
        self.needed.clone_from(&of.needs);
    }
}

/// The longest that a peer takes, with what it waits, microseconds.
fn slowest(rays_micros: &[u64], waits: impl Iterator<Item = f64>) -> f64 {
    let waits = waits.chain(std::iter::repeat(0.0));
    let takes = rays_micros
        .iter()
        .zip(waits)
        .map(|(&rays, wait)| as_float(rays) + wait);
    takes.fold(0.0, f64::max)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "times and counts of a frame are below 2^53"
)]
fn as_float(number: u64) -> f64 {
    number as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "from 0 on; a cast beyond the largest number gives that"
)]
fn rounded(micros: f64) -> u64 {
    micros.max(0.0).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        balance::{frame_plan::scripted, roster::RosterEntry, schedule::SPEED_ONE},
        base::seeded::Seeded,
        data::{brick_grid::BrickIndex, voxel_box::VoxelBox},
        picture::{camera::PixelRect, tiles::Tile},
    };

    /// Two peers, of which one renders most where the volume is divided.
    fn forecast(is_image: bool, rays: u64, lacks: [u32; 2], pixels: u64) -> Forecast {
        let shares = if is_image {
            [rays / 2, rays / 2]
        } else {
            [rays, rays / 8]
        };
        Forecast {
            rays_micros: shares.to_vec(),
            lacks: if is_image { vec![lacks; 2] } else { Vec::new() },
            pixels,
            is_image,
            needs: BTreeMap::new(),
        }
    }

    /// Rays of the slowest peer, misses and pixels at prices that the choice does not know, microseconds.
    fn really(of: &Forecast, misses: u64, noise: u64) -> u64 {
        let [pixel, miss] = if of.is_image { [50, 1_500] } else { [20, 0] };
        let rays = of.rays_micros.iter().max().copied().unwrap_or(0);
        (rays + misses * miss + of.pixels * pixel / 1_000 + 2_000) * (900 + noise) / 1_000
    }

    /// Lets frames of which each has these rays be divided: how much longer than the better division each took, thousandths.
    fn path(choice: &mut DivisionChoice, views: &[[Forecast; 2]], draws: &mut Seeded) -> Vec<u64> {
        let mut over = Vec::new();
        let mut was_image = false;
        for view in views {
            let noise = draws.below(200);
            // The first divided frame fetches all, others what is new.
            let misses = |f: &Forecast, was: bool| {
                let of_peer =
                    |l: &[u32; 2]| u64::from(l[0]) + if was { 0 } else { u64::from(l[1]) };
                f.lacks.iter().map(of_peer).max().unwrap_or(0)
            };
            let chosen = choice.choose(view);
            let took = really(&view[chosen], misses(&view[chosen], was_image), noise);
            let best = [0, 1].map(|k| really(&view[k], misses(&view[k], true), noise));
            over.push(took * 1_000 / best[0].min(best[1]));
            let missed = u32::try_from(misses(&view[chosen], was_image)).unwrap();
            let of_peer = |peer: usize| Worked {
                rendered_micros: view[chosen].rays_micros[peer],
                waited_micros: u64::from(missed) * 1_500,
                missed,
            };
            let work = (0..2).map(|p| (p, of_peer(p))).collect();
            choice.learn(&view[chosen], took, &work);
            was_image = chosen == 1;
        }
        over
    }

    fn view(volume: u64, picture: u64) -> [Forecast; 2] {
        [
            forecast(false, volume, [0, 0], 900_000),
            forecast(true, 2 * picture, [2, 30], 260_000),
        ]
    }

    #[test]
    fn what_is_faster_is_found_and_kept() {
        let mut draws = Seeded::new(1);
        for (volume, picture) in [(30_000, 90_000), (90_000, 30_000)] {
            let mut choice = DivisionChoice::default();
            let views = vec![view(volume, picture); 100];
            let over = path(&mut choice, &views, &mut draws);
            let good = over.iter().filter(|&&o| o <= 1_100).count();
            assert!(good >= 92, "{good}: {over:?}");
            assert_eq!(choice.is_image, picture < volume);
        }
    }

    #[test]
    fn views_that_favour_each_in_turn_are_nearly_all_within_a_tenth_of_the_better_one() {
        let mut draws = Seeded::new(2);
        let (mut good, mut all) = (0, 0);
        for _ in 0..50 {
            let mut views = Vec::new();
            while views.len() < 200 {
                let here = view(20_000 + draws.below(100_000), 20_000 + draws.below(100_000));
                let frames = 15 + usize::try_from(draws.below(30)).unwrap();
                views.extend(vec![here; frames]);
            }
            let over = path(&mut DivisionChoice::default(), &views, &mut draws);
            good += over.iter().filter(|&&o| o <= 1_100).count();
            all += over.len();
        }
        assert!(good * 10 >= all * 9, "{good} of {all}");
    }

    #[test]
    fn the_dearer_a_trial_and_the_more_of_them_were_in_vain_the_more_seldom_it_is_made() {
        let gaps = |more_thousandths: u64| {
            let mut choice = DivisionChoice::default();
            let (rays, other_rays) = (100_000, 200 * (1_000 + more_thousandths));
            let view = [
                forecast(false, rays, [0, 0], 0),
                forecast(true, other_rays, [0, 0], 0),
            ];
            let mut trials = vec![0];
            let mut before = 0;
            for frame in 0..1_000 {
                let chosen = choice.choose(&view);
                if chosen > before {
                    trials.push(frame);
                }
                before = chosen;
                let rendered_micros = view[chosen].rays_micros[0];
                let work = Worked {
                    rendered_micros,
                    ..Worked::default()
                };
                choice.learn(&view[chosen], rendered_micros, &BTreeMap::from([(0, work)]));
            }
            let gaps = trials.windows(2).map(|t| t[1] - t[0]);
            gaps.collect::<Vec<usize>>()
        };
        let (cheap, dear) = (gaps(200), gaps(450));
        assert!(cheap.is_sorted() && dear.is_sorted(), "{cheap:?} {dear:?}");
        // So many frames as three that take a fifth longer cost, 16, 32, … times, and the trial.
        assert_eq!(cheap[1..4], [13, 23, 42]);
        assert_eq!(dear[1..4], [25, 47, 90]);
        assert!(gaps(600).is_empty());
    }

    #[test]
    fn frames_of_equal_cost_do_not_change_to_and_fro() {
        let mut draws = Seeded::new(3);
        let mut choice = DivisionChoice::default();
        let mut changes = 0;
        let mut before = 0;
        for _ in 0..400 {
            let both = [
                forecast(false, 50_000, [0, 0], 100_000),
                forecast(true, 100_000, [0, 0], 100_000),
            ];
            let chosen = choice.choose(&both);
            changes += usize::from(chosen != before);
            before = chosen;
            let took = 52_000 + draws.below(3_000);
            let rendered_micros = 50_000;
            let work = Worked {
                rendered_micros,
                ..Worked::default()
            };
            choice.learn(&both[chosen], took, &BTreeMap::from([(0, work)]));
        }
        assert!(changes <= 14, "{changes}");
    }

    #[test]
    fn frames_that_overlap_and_pictures_of_nothing_leave_no_price_below_zero() {
        let mut choice = DivisionChoice::default();
        let both = view(60_000, 30_000);
        let work = |micros: u64| {
            let of = Worked {
                rendered_micros: micros,
                waited_micros: 2 * micros,
                missed: u32::MAX,
            };
            BTreeMap::from([(0, of), (1, of)])
        };
        for _ in 0..20 {
            let chosen = choice.choose(&both);
            // Three frames are under way: each adds a third of what it takes.
            choice.learn(&both[chosen], 20_000, &work(30_000));
        }
        assert!(both.iter().all(|f| choice.micros(f) >= 30_000));
        let nothing = [
            forecast(false, 0, [0, 0], 100),
            forecast(true, 0, [0, 0], 100),
        ];
        let known = choice.micros(&both[0]);
        for _ in 0..40 {
            assert_eq!(choice.choose(&nothing), 0);
            choice.learn(&nothing[0], 3, &BTreeMap::new());
        }
        assert_eq!(choice.micros(&both[0]), known);
    }

    #[test]
    fn a_forecast_tells_what_peers_lack_and_what_they_lacked_before() {
        let rect = |x| PixelRect {
            x,
            y: 0,
            width: 8,
            height: 8,
        };
        let job = |(b, renderer): (u32, usize)| PlannedJob {
            brick: BrickIndex(b),
            owned: VoxelBox::new([b, 0, 0], [b + 1, 1, 1]),
            rect: rect(8 * u32::try_from(renderer).unwrap()),
            leaf: 0,
            estimate_micros: 1_000,
            renderer: Some(renderer),
            is_rendered: false,
            content: None,
        };
        let plan = |jobs: &[(u32, usize)]| {
            let jobs: Vec<PlannedJob> = jobs.iter().copied().map(job).collect();
            let tile = |compositor: usize| Tile {
                rect: rect(8 * u32::try_from(compositor).unwrap()),
                compositor,
            };
            let (holders, tiles) = (vec![vec![0, 1]; jobs.len()], vec![tile(0), tile(1)]);
            FramePlan {
                image_tile: Some(8),
                ..scripted(&["a", "b"], vec![SPEED_ONE; 2], jobs, holders, tiles)
            }
        };
        let entry = |name, brick| {
            let mut held = BrickSet::new(8);
            held.insert(BrickIndex(brick));
            RosterEntry::new(PeerId::new(name), held)
        };
        let roster = Roster::new([entry("a", 0), entry("b", 1)]);
        let mut choice = DivisionChoice::default();
        let first = choice.forecast(&plan(&[(0, 0), (1, 0), (2, 0), (1, 1)]), &roster);
        assert_eq!(first.rays_micros, [3_000, 1_000]);
        assert_eq!(
            (first.lacks.as_slice(), first.pixels),
            (&[[2, 0], [0, 0]][..], 128)
        );
        choice.learn(&first, 9_000, &BTreeMap::new());
        let second = choice.forecast(&plan(&[(2, 0), (3, 0), (2, 1)]), &roster);
        assert_eq!(second.lacks, [[1, 1], [1, 0]]);
    }

    #[test]
    fn a_picture_that_cannot_be_divided_is_not() {
        let mut choice = DivisionChoice::default();
        let volume = forecast(false, 90_000, [0, 0], 1_000);
        for _ in 0..20 {
            assert_eq!(choice.choose(std::slice::from_ref(&volume)), 0);
            assert_eq!(choice.choose(&[volume.clone(), volume.clone()]), 0);
            choice.learn(&volume, 100_000, &BTreeMap::new());
        }
    }
}
