//! One variant of the method on a cluster of equal devices, frame after frame: trees and costs are
//! carried over, jobs are scheduled on what is expected of them and take what they really take.
//!
//! Costs in microseconds. All decisions are `topology`'s.

use super::{
    cost_model::CostModel, parameters::Parameters, ray_counts::RayCounts, variants::Variant,
};
use brickmesh_topology::{
    BrickGrid, BrickIndex, View, VolumeDescription, VoxelBox,
    balance::{
        job_tree::{JobTree, Leaf, SplitRule, lean_threshold, threshold},
        placement::{place, redundancy},
        prediction::{Prediction, Rate},
        schedule::{BUDGET_DEFAULT, SPEED_ONE, ScheduledJob, best_fit, refined},
    },
    base::seeded::mixed,
    picture::{
        footprint::pixels_covered, sample_count::SampleCounter, visible_cells::VisibleCells,
    },
};

/// What all variants with one brick size see of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene<'a> {
    pub(super) frame: u64,
    pub(super) volume: &'a VolumeDescription,
    pub(super) grid: &'a BrickGrid,
    pub(super) visible: &'a VisibleCells,
    pub(super) view: &'a View,
    pub(super) counts: &'a RayCounts,
    pub(super) model: &'a CostModel,
    /// Times of a plain sample that a sample takes.
    pub(super) fetches: f64,
    pub(super) parameters: &'a Parameters,
}

/// What a frame took, microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FrameTimes {
    pub(super) min: u64,
    pub(super) max: u64,
    /// Sum over all devices.
    pub(super) sum: u64,
    pub(super) jobs: usize,
    /// No assignment of arbitrarily small jobs to holders would have taken less.
    pub(super) bound: u64,
    /// Sum and spread (dearest less cheapest job), as expected and as measured.
    pub(super) expected: [u64; 2],
    pub(super) measured: [u64; 2],
}

/// A variant with its state.
#[derive(Clone, Debug)]
pub(super) struct VirtualCluster {
    pub(super) variant: Variant,
    pub(super) devices: usize,
    /// Copies per brick on average (equation (3)).
    pub(super) redundancy: f64,
    /// Bricks that each device has room for.
    room: u32,
    copies_max: u32,
    holders: Vec<Vec<usize>>,
    trees: Vec<JobTree>,
    speeds: Vec<u64>,
}

/// A job of a frame: brick, leaf of its tree, box, expectation.
struct Job {
    brick: BrickIndex,
    leaf: usize,
    owned: VoxelBox,
    expected: Leaf,
}

impl Scene<'_> {
    /// Whether anything of a part of a brick can be seen.
    fn shows(&self, brick: BrickIndex, part: &VoxelBox) -> bool {
        self.visible.share(self.grid, brick, part) > 0.0
            && self.view.rect_of(self.volume, part).is_some()
    }
}

impl VirtualCluster {
    /// Devices with room for `room` bricks each, placed by `seed`.
    pub(super) fn new(
        variant: Variant,
        grid: &BrickGrid,
        devices: usize,
        room: u32,
        seed: u64,
    ) -> Self {
        let mut cluster = Self {
            variant,
            devices,
            room,
            redundancy: 0.0,
            copies_max: 0,
            trees: vec![JobTree::whole(Leaf::default()); grid.brick_count() as usize],
            holders: Vec::new(),
            speeds: vec![SPEED_ONE; devices],
        };
        cluster.place(grid, seed);
        cluster
    }

    /// Places the bricks anew; costs and trees stay.
    pub(super) fn place(&mut self, grid: &BrickGrid, seed: u64) {
        let rooms = vec![self.room; self.devices];
        let held = place(grid, &rooms, self.variant.placement, seed).held;
        let holders = |b| (0..held.len()).filter(|&d| held[d].contains(b)).collect();
        self.holders = grid.bricks().map(holders).collect();
        self.redundancy = redundancy(grid.brick_count(), &held);
        let copies = self.holders.iter().map(Vec::len).max().unwrap_or(1);
        self.copies_max = u32::try_from(copies).unwrap_or(u32::MAX);
    }

    /// Renders a frame.
    pub(super) fn render(&mut self, scene: &Scene<'_>) -> FrameTimes {
        let shown = self.predict_and_cut(scene);
        let mut jobs = Vec::new();
        for brick in scene.grid.bricks().filter(|b| shown[b.0 as usize]) {
            let leaves = self.trees[brick.0 as usize].leaves(scene.grid.owned_box(brick));
            let job = |(leaf, (owned, expected))| Job {
                brick,
                leaf,
                owned,
                expected,
            };
            let wanted = |j: &Job| !self.variant.refined || scene.shows(brick, &j.owned);
            jobs.extend(leaves.into_iter().enumerate().map(job).filter(wanted));
        }
        let scheduled: Vec<ScheduledJob> = jobs
            .iter()
            .map(|j| ScheduledJob {
                cost_micros: j.expected.cost_micros,
                holders: self.holders[j.brick.0 as usize].clone(),
            })
            .collect();
        let schedule = if self.variant.refined {
            refined(&scheduled, &self.speeds, BUDGET_DEFAULT)
        } else {
            best_fit(&scheduled, &self.speeds)
        };
        let took: Vec<u64> = jobs.iter().map(|j| took(scene, &j.owned)).collect();
        let mut loads = vec![0; self.devices];
        for (&time, device) in took.iter().zip(&schedule.assignment) {
            if let Some(d) = *device {
                loads[d] += time;
            }
        }
        self.remember(&jobs, &took);
        let expected = jobs.iter().map(|j| j.expected.cost_micros);
        FrameTimes {
            min: loads.iter().copied().min().unwrap_or(0),
            max: loads.iter().copied().max().unwrap_or(0),
            sum: loads.iter().sum(),
            jobs: jobs.len(),
            bound: self.bound(&jobs, &took),
            expected: sum_and_spread(expected),
            measured: sum_and_spread(took.into_iter()),
        }
    }

    /// Expects costs of all leaves, then splits and merges; tells which bricks have jobs.
    fn predict_and_cut(&mut self, scene: &Scene<'_>) -> Vec<bool> {
        let (variant, parameters) = (self.variant, scene.parameters);
        let counter = SampleCounter::new(scene.volume, scene.view, parameters.step_voxels)
            .with_cells(scene.grid, scene.visible);
        let rate = Rate::of(self.trees.iter().flat_map(JobTree::leaf_values));
        // The paper renders all bricks; ours what can be seen.
        let shown = |b: BrickIndex| !variant.refined || scene.shows(b, &scene.grid.owned_box(b));
        let shown: Vec<bool> = scene.grid.bricks().map(shown).collect();
        let mut sum = 0;
        for brick in scene.grid.bricks().filter(|b| shown[b.0 as usize]) {
            let tree = &mut self.trees[brick.0 as usize];
            let predicted = |(here, leaf): (VoxelBox, Leaf)| {
                let samples = match variant.prediction() {
                    Prediction::Projected => counter.count(brick, &here),
                    Prediction::LastFrame => 0,
                };
                variant.prediction().predict(leaf, samples, rate)
            };
            let leaves = tree.leaves(scene.grid.owned_box(brick));
            let leaves: Vec<Leaf> = leaves.into_iter().map(predicted).collect();
            sum += leaves.iter().map(|l| l.cost_micros).sum::<u64>();
            tree.set_leaves(leaves);
        }
        if !variant.split {
            return shown;
        }
        let (devices, min_job) = (self.devices, parameters.min_job_micros);
        let threshold_micros = if variant.refined {
            let seen = self.holders.iter().zip(&shown).filter(|(_, shown)| **shown);
            lean_threshold(sum, devices, seen.map(|(h, _)| h.len()), min_job)
        } else {
            threshold(sum, devices, self.copies_max, min_job)
        };
        for brick in scene.grid.bricks().filter(|b| shown[b.0 as usize]) {
            let weight = |part: &VoxelBox| counter.count(brick, part);
            let forward = scene.view.forward;
            let rule = if variant.refined {
                SplitRule::by_work(threshold_micros, forward, &weight)
            } else {
                SplitRule::in_the_middle(threshold_micros, forward)
            };
            let tree = &mut self.trees[brick.0 as usize];
            *tree = tree.split_and_merged(scene.grid.owned_box(brick), &rule);
        }
        shown
    }

    /// The largest share of the work that a set of devices alone can do, spread over the set: what
    /// the placement allows at best. O(2^devices · bricks).
    fn bound(&self, jobs: &[Job], took: &[u64]) -> u64 {
        let mut by_set = vec![0_u64; 1 << self.devices];
        for (job, &time) in jobs.iter().zip(took) {
            let holders = &self.holders[job.brick.0 as usize];
            by_set[holders.iter().fold(0, |set, d| set | 1 << d)] += time;
        }
        // Sums over all subsets, device by device.
        for d in 0..self.devices {
            for set in 0..by_set.len() {
                if set >> d & 1 == 1 {
                    by_set[set] += by_set[set ^ 1 << d];
                }
            }
        }
        let spread = |(set, &work): (usize, &u64)| work.div_ceil(u64::from(set.count_ones()));
        by_set
            .iter()
            .enumerate()
            .skip(1)
            .map(spread)
            .max()
            .unwrap_or(0)
    }

    /// Puts what is remembered of the measured costs in place of the expected ones.
    fn remember(&mut self, jobs: &[Job], took: &[u64]) {
        let prediction = self.variant.prediction();
        let mut measured = jobs.iter().zip(took).peekable();
        while let Some((first, _)) = measured.peek() {
            let brick = first.brick;
            let tree = &mut self.trees[brick.0 as usize];
            let mut leaves = tree.leaf_values();
            while let Some((job, &took)) = measured.next_if(|(j, _)| j.brick == brick) {
                leaves[job.leaf].cost_micros = prediction.remember(job.expected.cost_micros, took);
            }
            tree.set_leaves(leaves);
        }
    }
}

fn sum_and_spread(costs: impl Iterator<Item = u64>) -> [u64; 2] {
    let (mut sum, mut low, mut high) = (0, u64::MAX, 0);
    for cost in costs {
        sum += cost;
        (low, high) = (low.min(cost), high.max(cost));
    }
    [sum, high.saturating_sub(low)]
}

/// What a job really takes, microseconds: the model's price, and the noise of a measurement.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a positive time far below 2^53"
)]
fn took(scene: &Scene<'_>, owned: &VoxelBox) -> u64 {
    let rays = pixels_covered(scene.view, scene.volume, owned);
    let square: u64 = owned.size().iter().map(|&n| u64::from(n).pow(2)).sum();
    let longest = (square as f64).sqrt() / scene.parameters.step_voxels;
    let samples = scene.counts.samples(owned);
    let price = scene.model.micros(rays, samples, longest, scene.fetches);
    let mut hash = scene.parameters.seed ^ scene.frame.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for v in owned.lo.into_iter().chain(owned.hi) {
        hash = mixed(hash ^ u64::from(v));
    }
    let noise = (hash >> 11) as f64 / (1_u64 << 53) as f64 * 2.0 - 1.0;
    (price * (1.0 + scene.parameters.noise * noise))
        .round()
        .max(1.0) as u64
}
