//! One variant of the method on a cluster of equal devices, frame after frame: trees and costs are
//! carried over, jobs are scheduled on what is expected of them and take what they really take.
//!
//! Costs in microseconds. The stages of the plan are those of the live mesh: what is published here is of
//! shipped code.

use super::{
    cost_model::CostModel, parameters::Parameters, ray_counts::RayCounts, variants::Variant,
};
use brickmesh_topology::{
    BrickGrid, View, VolumeDescription, VoxelBox,
    balance::{
        cost_table::CostTable,
        decompose::{CutJob, DecomposeInputs, decompose},
        placement::{place, redundancy},
        schedule::{SPEED_ONE, ScheduledJob, assign},
    },
    base::seeded::mixed,
    picture::{
        footprint::pixels_covered, grid_projection::GridProjection, visible_cells::VisibleCells,
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
    holders: Vec<Vec<usize>>,
    costs: CostTable,
    speeds: Vec<u64>,
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
            costs: CostTable::default(),
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
    }

    /// Renders a frame.
    pub(super) fn render(&mut self, scene: &Scene<'_>) -> FrameTimes {
        let rules = self.variant.rules(scene.parameters);
        let (trees, jobs) = decompose(&DecomposeInputs {
            volume: scene.volume,
            grid: scene.grid,
            view: scene.view,
            step: scene.parameters.step_voxels,
            visible: scene.visible,
            costs: &self.costs,
            holders: &self.holders,
            devices: self.devices,
            rules: &rules,
        });
        let scheduled: Vec<ScheduledJob> = jobs
            .iter()
            .map(|j| ScheduledJob {
                cost_micros: j.cost_micros,
                holders: self.holders[j.brick.0 as usize].clone(),
            })
            .collect();
        let schedule = assign(rules.assign, &scheduled, &self.speeds);
        let took: Vec<u64> = jobs.iter().map(|j| took(scene, &j.owned)).collect();
        let mut loads = vec![0; self.devices];
        for (&time, device) in took.iter().zip(&schedule.assignment) {
            if let Some(d) = *device {
                loads[d] += time;
            }
        }
        let remembered = jobs.iter().zip(&took).map(|(job, &took)| {
            let cost = rules.prediction.remember(job.cost_micros, took);
            ((job.brick, job.leaf), cost)
        });
        self.costs = self.costs.after(&trees, &remembered.collect());
        let expected = jobs.iter().map(|j| j.cost_micros);
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

    /// The largest share of the work that a set of devices alone can do, spread over the set: what
    /// the placement allows at best. O(2^devices · bricks).
    fn bound(&self, jobs: &[CutJob], took: &[u64]) -> u64 {
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
    let rays = pixels_covered(&GridProjection::new(scene.view, scene.volume), owned);
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
