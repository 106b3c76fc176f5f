//! The first stage of a plan: bricks are cut into jobs.
//!
//! The trees of the last frame are taken with their costs, predicted for what is seen now, split where a
//! job is too dear and merged where jobs are cheap again; their leaves that can be seen are the jobs.
//!
//! Source: Frey, Ertl 2011, sections 5.1 and 5.2.

use crate::{
    balance::{
        cost_table::CostTable,
        job_tree::{JobTree, Leaf, SplitRule, lean_threshold, threshold},
        plan_rules::{PlanRules, Strategy},
        prediction::{Prediction, Rate},
        schedule::Assignment,
    },
    data::{
        brick_grid::{BrickGrid, BrickIndex},
        volume::VolumeDescription,
        voxel_box::VoxelBox,
    },
    picture::{
        camera::{PixelRect, View},
        grid_projection::GridProjection,
        sample_count::SampleCounter,
        visible_cells::VisibleCells,
    },
};
use std::collections::BTreeMap;

/// What bricks are cut by.
#[derive(Clone, Copy, Debug)]
pub struct DecomposeInputs<'a> {
    /// The volume.
    pub volume: &'a VolumeDescription,
    /// Its bricks.
    pub grid: &'a BrickGrid,
    /// The rays.
    pub view: &'a View,
    /// Distance of samples, world units.
    pub step: f64,
    /// What can be seen.
    pub visible: &'a VisibleCells,
    /// The trees of the last frame, and what their leaves cost.
    pub costs: &'a CostTable,
    /// Devices that hold each brick.
    pub holders: &'a [Vec<usize>],
    /// Devices that take part.
    pub devices: usize,
    /// How it is done.
    pub rules: &'a PlanRules,
}

/// A job before anybody has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutJob {
    /// Brick that is sampled.
    pub brick: BrickIndex,
    /// Which leaf of the brick's tree it is, in preorder.
    pub leaf: usize,
    /// Samples that belong to the job.
    pub owned: VoxelBox,
    /// Pixels that it may touch.
    pub rect: PixelRect,
    /// Expected cost, microseconds on a device of speed 1.
    pub cost_micros: u64,
}

/// How the bricks that have jobs are cut, with the costs expected of their leaves; and the jobs, by brick
/// and leaf.
#[must_use]
pub fn decompose(inputs: &DecomposeInputs<'_>) -> (BTreeMap<BrickIndex, JobTree>, Vec<CutJob>) {
    let projection = GridProjection::new(inputs.view, inputs.volume);
    let (trees, rects) = trees(inputs, &projection);
    let mut jobs = Vec::with_capacity(trees.len());
    for ((&brick, tree), whole) in trees.iter().zip(rects) {
        let leaves = tree.leaves(inputs.grid.owned_box(brick));
        for (index, (owned, leaf)) in leaves.enumerate() {
            let rect = match tree.nodes() {
                [_] => Some(whole),
                _ => inputs.rect(&projection, brick, &owned),
            };
            if let Some(rect) = rect {
                jobs.push(CutJob {
                    brick,
                    leaf: index,
                    owned,
                    rect,
                    cost_micros: leaf.cost_micros,
                });
            }
        }
    }
    (trees, jobs)
}

impl DecomposeInputs<'_> {
    /// The pixels that may show a part of a brick; `None`: it is no work. The paper renders whatever is
    /// on the screen, ours where visible cells are (PARC's cubes: Silva, Kaufman 1995).
    fn rect(
        &self,
        projection: &GridProjection,
        brick: BrickIndex,
        part: &VoxelBox,
    ) -> Option<PixelRect> {
        let seen = match self.rules.decompose {
            Strategy::FreyErtl2011 => *part,
            Strategy::Refined => self.visible.bounds(self.grid, brick, part)?,
        };
        projection.rect_of(&seen)
    }
}

/// The trees of all bricks that are shown: last costs, predicted, split and merged; and the pixels of each brick.
fn trees(
    inputs: &DecomposeInputs<'_>,
    projection: &GridProjection,
) -> (BTreeMap<BrickIndex, JobTree>, Vec<PixelRect>) {
    let (grid, rules) = (inputs.grid, inputs.rules);
    let counter = SampleCounter::new(inputs.volume, inputs.view, inputs.step);
    let counter = counter.with_cells(grid, inputs.visible);
    let rate = Rate::of(inputs.costs.trees.values().flat_map(JobTree::leaf_values));
    let whole = JobTree::whole(Leaf::default());
    let predicted = |brick: BrickIndex| {
        let owned = grid.owned_box(brick);
        let rect = inputs.rect(projection, brick, &owned)?;
        let known = inputs.costs.trees.get(&brick).unwrap_or(&whole);
        let now = known.leaves(owned).map(|(here, leaf)| {
            let samples = match rules.prediction {
                Prediction::Projected => counter.count(brick, &here),
                Prediction::LastFrame => 0,
            };
            rules.prediction.predict(leaf, samples, rate)
        });
        let mut tree = known.clone();
        tree.set_leaves(now);
        Some(((brick, tree), rect))
    };
    let shown: Vec<_> = grid.bricks().filter_map(predicted).collect();
    let rects = shown.iter().map(|(_, rect)| *rect).collect();
    let mut trees: BTreeMap<BrickIndex, JobTree> =
        shown.into_iter().map(|(tree, _)| tree).collect();
    let sum = trees
        .values()
        .flat_map(JobTree::leaf_values)
        .fold(0_u64, |sum, l| sum.saturating_add(l.cost_micros));
    // What is not shared out is not cut.
    let min_job = match rules.assign {
        Assignment::AsPlaced => u64::MAX,
        Assignment::BestFit | Assignment::Refined => rules.min_job_micros,
    };
    let devices = inputs.devices;
    let threshold_micros = match rules.decompose {
        Strategy::FreyErtl2011 => {
            let copies = inputs.holders.iter().map(Vec::len).max().unwrap_or(1);
            let copies = u32::try_from(copies).unwrap_or(u32::MAX);
            threshold(sum, devices, copies, min_job)
        }
        Strategy::Refined => {
            let copies = trees.keys().map(|b| inputs.holders[b.0 as usize].len());
            lean_threshold(sum, devices, copies, min_job)
        }
    };
    let grid_from_world = inputs.volume.grid_from_world();
    let view = grid_from_world.transform_vector3(inputs.view.forward);
    for (&brick, tree) in &mut trees {
        let weight = |part: &VoxelBox| counter.count(brick, part);
        let rule = match rules.decompose {
            Strategy::FreyErtl2011 => SplitRule::in_the_middle(threshold_micros, view),
            Strategy::Refined => SplitRule::by_work(threshold_micros, view, &weight),
        };
        if !tree.stays_whole(&rule) {
            *tree = tree.split_and_merged(grid.owned_box(brick), &rule);
        }
    }
    (trees, rects)
}
