//! Plans of frames: machines that have the same inputs derive the same plan, so each is derived
//! once and shared; now and then, by draw, a machine derives its own, which must be equal.
//!
//! What a job really takes is not what the plan expects: every brick has a brick_cost of its own,
//! drawn from the seed, that only measuring shows, and every job a few per cent of noise. Some bricks hide what is
//! behind them.

use super::oracle::Oracle;
use brickmesh_topology::{
    BrickIndex, Digest, Manifest, RenderSettings, View, VoxelBox,
    balance::{
        cost_table::CostTable,
        frame_plan::{Earlier, FramePlan, PlanInputs, PlannedJob},
        plan_rules::{Division, PlanRules, Strategy},
        roster::Roster,
    },
    base::seeded::{Seeded, mixed},
    picture::{sample_count::SampleCounter, visible_cells::VisibleCells},
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Plans that are kept.
const PLANS_MAX: usize = 64;
/// One in so many derivations that could be shared is made for itself.
const OWN_DERIVATION: u64 = 400;
/// One brick in so many is opaque.
const OPAQUE: u64 = 3;
/// Price of a job besides its samples, microseconds.
const JOB_MICROS: u64 = 200;
/// Nanoseconds that a sample takes, times 1024, where the load is not given.
const SAMPLE_COST: u64 = 6 * 1_024;
/// Real load of a machine in the first frame where everything goes wrong, microseconds, about.
const LOAD_MICROS: u64 = 12_000;

/// What decides about a plan: view, what is divided, roster, costs, and in a further attempt the first one's roster and
/// what was rendered.
type Key = (usize, Division, Digest, Digest, Option<(Digest, Digest)>);

/// What a machine is asked for, each part with its digest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) view: usize,
    pub(super) rules: PlanRules,
    pub(super) roster: (Digest, &'a Roster),
    pub(super) costs: (Digest, &'a CostTable),
    /// The roster of the first attempt, if this is not it, and who has rendered which job.
    pub(super) earlier: Option<(Digest, Earlier<'a>)>,
}

impl Asked<'_> {
    fn key(&self) -> Key {
        let earlier = self.earlier.map(|(roster, earlier)| {
            let mut bytes = Vec::new();
            for (job, peer) in earlier.rendered {
                bytes.extend(job.to_le_bytes());
                bytes.extend(peer.as_str().as_bytes());
                bytes.push(0);
            }
            (roster, Digest::of(&bytes))
        });
        let division = self.rules.division;
        (self.view, division, self.roster.0, self.costs.0, earlier)
    }
}

/// A plan, with what the simulation needs besides.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) plan: Arc<FramePlan>,
    /// Index of the view.
    pub(super) view: usize,
    /// What each job really takes on a device of speed 1, microseconds.
    pub(super) real_micros: Vec<u64>,
}

impl AsRef<FramePlan> for Planned {
    fn as_ref(&self) -> &FramePlan {
        &self.plan
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Plans {
    pub(super) manifest: Arc<Manifest>,
    settings: RenderSettings,
    visible: VisibleCells,
    rules: PlanRules,
    views: Vec<View>,
    kept: VecDeque<(Key, Arc<Planned>)>,
    /// In thousandths, by brick.
    brick_cost: Vec<u64>,
    /// Whether nothing is seen behind a brick.
    opaque: Vec<bool>,
    /// Nanoseconds that a sample takes, times 1024.
    sample_cost: Option<u64>,
    machines: u64,
    draws: Seeded,
}

impl Plans {
    pub(super) fn new(
        manifest: Arc<Manifest>,
        (rules, settings): (PlanRules, RenderSettings),
        views: Vec<View>,
        is_calm: bool,
        machines: usize,
        mut draws: Seeded,
    ) -> Self {
        let bricks = manifest.grid().brick_count();
        let brick_cost: Vec<u64> = (0..bricks).map(|_| 500 + draws.below(1000)).collect();
        Self {
            opaque: (brick_cost.iter().map(|cost| !is_calm && cost % OPAQUE == 0)).collect(),
            visible: VisibleCells::of(&manifest, &settings),
            settings,
            brick_cost,
            manifest,
            rules,
            views,
            kept: VecDeque::new(),
            sample_cost: is_calm.then_some(SAMPLE_COST),
            machines: machines as u64,
            draws,
        }
    }

    /// Whether nothing is seen behind a brick.
    pub(super) fn is_opaque(&self, brick: BrickIndex) -> bool {
        self.opaque[brick.0 as usize]
    }

    pub(super) fn views(&self) -> usize {
        self.views.len()
    }

    pub(super) fn rules(&self) -> &PlanRules {
        &self.rules
    }

    /// The plan of these inputs; `None` where there is none.
    pub(super) fn derive(
        &mut self,
        asked: &Asked<'_>,
        oracle: &mut Oracle,
    ) -> Option<Arc<Planned>> {
        let (view, key) = (asked.view, asked.key());
        let kept = self.kept.iter().find(|(k, _)| *k == key).map(|(_, p)| p);
        if let Some(planned) = kept.map(Arc::clone) {
            if self.draws.below(OWN_DERIVATION) == 0 {
                let own = self.plan(asked);
                if own.is_none_or(|own| own != *planned.plan) {
                    oracle.broken("two machines derived unlike plans from the same inputs");
                }
            }
            return Some(planned);
        }
        let plan = self.plan(asked)?;
        self.check(&plan, view, oracle);
        let planned = Arc::new(self.planned(plan, view));
        self.kept.push_back((key, Arc::clone(&planned)));
        if self.kept.len() > PLANS_MAX {
            self.kept.pop_front();
        }
        Some(planned)
    }

    fn plan(&self, asked: &Asked<'_>) -> Option<FramePlan> {
        let inputs = PlanInputs {
            manifest: &self.manifest,
            view: self.views.get(asked.view)?,
            settings: &self.settings,
            visible: &self.visible,
            roster: asked.roster.1,
            costs: asked.costs.1,
            rules: &asked.rules,
            earlier: asked.earlier.map(|(_, earlier)| earlier),
        };
        FramePlan::derive(&inputs).ok()
    }

    fn planned(&mut self, plan: FramePlan, view: usize) -> Planned {
        Planned {
            real_micros: self.real_micros(&plan, view),
            view,
            plan: Arc::new(plan),
        }
    }

    fn real_micros(&mut self, plan: &FramePlan, view: usize) -> Vec<u64> {
        let (grid, volume) = (self.manifest.grid(), self.manifest.volume());
        let counter = SampleCounter::new(volume, &self.views[view], self.settings.step);
        let counter = counter.with_cells(grid, &self.visible);
        // Where the picture is divided, a part of a brick is several jobs.
        let pixels = pixels_by_leaf(plan);
        let samples = |j: &PlannedJob| {
            let all = counter.count(j.brick, &j.owned).min(1 << 40);
            let of_leaf = pixels[&(j.brick, j.leaf)].max(1);
            all * j.rect.pixel_count() as u64 / of_leaf
        };
        let all: u64 = plan.jobs.iter().map(samples).sum();
        let wanted = LOAD_MICROS * self.machines * 1_000 * 1_024;
        let cost = *self.sample_cost.get_or_insert(wanted / all.max(1));
        let seed = plan.digest.as_bytes().iter().take(8);
        let seed = seed.fold(0, |s, &b| s << 8 | u64::from(b));
        let jobs = plan.jobs.iter().zip(0_u64..);
        let real = jobs.map(|(j, index)| {
            let nanos = u128::from(samples(j)) * u128::from(cost) / 1_024;
            let micros = u64::try_from(nanos / 1_000).unwrap_or(u64::MAX >> 24);
            let dear = micros.min(1 << 40) * self.brick_cost[j.brick.0 as usize] / 1_000;
            let noise = 970 + mixed(seed ^ index) % 61;
            (JOB_MICROS + dear) * noise / 1_000
        });
        real.collect()
    }

    /// Every voxel that can be seen is in exactly one job, of each pixel: the leaves of each brick's tree part it,
    /// and each leaf with something to see is a job, once, or one of each tile that shows it.
    fn check(&self, plan: &FramePlan, view: usize, oracle: &mut Oracle) {
        let (grid, volume) = (self.manifest.grid(), self.manifest.volume());
        let mut jobs = pixels_by_leaf(plan);
        let projected = |part: &VoxelBox| self.views[view].rect_of(volume, part);
        let shows_all = self.rules.decompose == Strategy::FreyErtl2011;
        let seen = |brick, part: &VoxelBox| {
            let bounds = || self.visible.bounds(grid, brick, part);
            let seen = if shows_all { Some(*part) } else { bounds() };
            let rect = seen.and_then(|seen| projected(&seen));
            rect.map_or(0, |rect| rect.pixel_count() as u64)
        };
        for brick in grid.bricks() {
            let owned = grid.owned_box(brick);
            if seen(brick, &owned) == 0 {
                continue;
            }
            let tree = plan.trees.get(&brick).into_iter();
            let leaves: Vec<_> = tree.flat_map(|t| t.leaves(owned)).collect();
            let voxels: u64 = leaves.iter().map(|(l, _)| l.voxel_count()).sum();
            let inside = leaves.iter().all(|(l, _)| owned.contains_box(l));
            if voxels != owned.voxel_count() || !inside {
                oracle.broken(&format!("brick {} is not parted by its jobs", brick.0));
            }
            for (index, (part, _)) in leaves.iter().enumerate() {
                if jobs.remove(&(brick, index)).unwrap_or(0) != seen(brick, part) {
                    oracle.broken(&format!("brick {} has jobs of wrong pixels", brick.0));
                }
            }
        }
        if !jobs.is_empty() {
            oracle.broken("a plan has jobs of what cannot be seen");
        }
    }
}

/// How many pixels the jobs of each part of a brick have together.
fn pixels_by_leaf(plan: &FramePlan) -> BTreeMap<(BrickIndex, usize), u64> {
    let mut pixels = BTreeMap::new();
    for j in &plan.jobs {
        *pixels.entry((j.brick, j.leaf)).or_default() += j.rect.pixel_count() as u64;
    }
    pixels
}
