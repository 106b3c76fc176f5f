//! The plan of a frame: which jobs it has, in which order they blend, who renders each, who
//! composites which tile. Every peer derives it alone from the same inputs and gets the same
//! bytes; its digest travels with each sub-image.
//!
//! Inputs: the manifest (grid, value ranges), view, render settings, the roster snapshot (what
//! each peer really holds, how fast it is), the cost table (trees and costs of the last frame),
//! the rules. A frame that is asked for again has the jobs that it had before, and what was rendered of
//! them stays where it is ([`Earlier`]). Not here: stealing, which departs from the plan while the frame runs.
//!
//! Stages: [`decompose`] → depth order → [`assign`] → composite; each by a named strategy of the rules.
//! Source: Frey, Ertl 2011, section 5, and what its future work asks for.

use crate::{
    balance::{
        cost_table::CostTable,
        decompose::{CutJob, DecomposeInputs, decompose},
        image_division::{TILES_MAX, TileGrid, TileRenderers},
        job_tree::JobTree,
        plan_rules::{Division, PlanRules, Strategy, TileSharing},
        prediction::{Prediction, Work, next_speeds},
        roster::{Roster, RosterEntry, put_text},
        schedule::{SPEED_ONE, Schedule, ScheduledJob, assign, cost_on, loads, work_of},
        tile_runs::{TileJobs, lengthen_runs},
    },
    base::{digest::Digest, peer::PeerId},
    data::{brick_grid::BrickIndex, brick_set::BrickSet, manifest::Manifest, voxel_box::VoxelBox},
    picture::{
        camera::{PixelRect, View},
        depth_order::{NotSeparable, front_to_back},
        render_settings::{Mode, RenderSettings},
        tiles::{Tile, tiles},
        visible_cells::VisibleCells,
    },
};
use std::{collections::BTreeMap, sync::Arc};

/// Everything that a plan follows from.
#[derive(Clone, Copy, Debug)]
pub struct PlanInputs<'a> {
    /// The data set.
    pub manifest: &'a Manifest,
    /// The rays.
    pub view: &'a View,
    /// What is to be seen.
    pub settings: &'a RenderSettings,
    /// What the settings show; bricks and jobs without any of it are not rendered.
    pub visible: &'a VisibleCells,
    /// Who takes part.
    pub roster: &'a Roster,
    /// How the last frame was cut and what it cost.
    pub costs: &'a CostTable,
    /// How to plan.
    pub rules: &'a PlanRules,
    /// Of a frame that is asked for again, what was done in earlier attempts.
    pub earlier: Option<Earlier<'a>>,
}

/// What was done for a frame before it was asked for again.
#[derive(Clone, Copy, Debug)]
pub struct Earlier<'a> {
    /// The roster of the first attempt: its jobs are cut for that, so that they stay the same.
    pub roster: &'a Roster,
    /// Who has rendered which job, and may have its pixels still. Those that do not take part any more,
    /// or do not hold the brick, count for nothing.
    pub rendered: &'a BTreeMap<u32, PeerId>,
}

/// A job of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedJob {
    /// Brick that is sampled.
    pub brick: BrickIndex,
    /// Samples that belong to the job.
    pub owned: VoxelBox,
    /// Pixels that it may touch.
    pub rect: PixelRect,
    /// Which leaf of the brick's tree it is, in preorder.
    pub leaf: usize,
    /// Expected cost, microseconds on a device of speed 1.
    pub estimate_micros: u64,
    /// Index of the peer that renders it, in the roster; `None`: nobody holds the brick.
    pub renderer: Option<usize>,
    /// Its renderer has rendered it in an earlier attempt.
    pub is_rendered: bool,
    /// Name of all that decides its pixels, where frames share what is rendered ([`PlanRules::reuse`]).
    pub content: Option<Digest>,
}

impl PlannedJob {
    /// What it is expected to cost in this attempt, microseconds on a device of speed 1.
    #[must_use]
    pub fn cost_micros(&self) -> u64 {
        if self.is_rendered {
            0
        } else {
            self.estimate_micros
        }
    }
}

/// The plan of a frame.
#[derive(Clone, Debug, PartialEq)]
pub struct FramePlan {
    /// How partials combine.
    pub mode: Mode,
    /// As [`RenderSettings::opaque`].
    pub opaque: Option<f32>,
    /// Peers, in roster order.
    pub peers: Vec<PeerId>,
    /// Their speeds in millionths, in roster order.
    pub speeds: Vec<u64>,
    /// The same where time that a peer waits for bricks counts as time that its jobs take ([`RosterEntry::effective_speed`]).
    pub effective_speeds: Vec<u64>,
    /// Jobs, front to back; a job's index is its id in the frame.
    pub jobs: Vec<PlannedJob>,
    /// Indices of the peers that hold each job's brick, ascending.
    pub holders: Arc<Vec<Vec<usize>>>,
    /// Tiles; a tile's index is its id in the frame.
    pub tiles: Vec<Tile>,
    /// Which jobs meet in which tile.
    pub tile_jobs: TileJobs,
    /// Loads and bounds of the schedule, by peer.
    pub schedule: Schedule,
    /// How visible bricks are cut, with the costs expected of their leaves.
    pub trees: BTreeMap<BrickIndex, JobTree>,
    /// Edge of the tiles that the picture is divided into, pixels; `None`: the volume is.
    pub image_tile: Option<u32>,
    /// Index of the peer that hands out tiles one by one, its own to itself, where that is how they are shared ([`TileSharing::Demand`]).
    pub keeper: Option<usize>,
    /// Bricks that secondary rays go through: something is to be seen of them, and somebody has them. None where no rays are sent.
    pub casters: Arc<BrickSet>,
    /// Digest of settings, jobs, peers and tiles.
    pub digest: Digest,
}

/// What a frame asks of the peers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameWork {
    /// Expected cost of each brick, microseconds on a device of speed 1.
    pub micros: Vec<u64>,
    /// Speed of each peer that takes part, millionths.
    pub speeds: BTreeMap<PeerId, u64>,
}

impl FrameWork {
    /// Adds what another frame asks.
    pub fn add(&mut self, other: &Self) {
        self.micros
            .resize(self.micros.len().max(other.micros.len()), 0);
        let sums = self.micros.iter_mut().zip(&other.micros);
        sums.for_each(|(sum, n)| *sum = sum.saturating_add(*n));
        self.speeds.extend(other.speeds.clone());
    }
}

impl FramePlan {
    /// What it asks of the peers, of so many bricks.
    #[must_use]
    pub fn work(&self, brick_count: u32) -> FrameWork {
        let mut micros = vec![0_u64; brick_count as usize];
        for job in &self.jobs {
            let sum = &mut micros[job.brick.0 as usize];
            *sum = sum.saturating_add(job.estimate_micros);
        }
        let speeds = self.peers.iter().cloned().zip(self.speeds.iter().copied());
        FrameWork {
            micros,
            speeds: speeds.collect(),
        }
    }

    /// Derives the plan. O(bricks · log bricks + jobs · holders), and the bounded searches of
    /// schedule and runs.
    ///
    /// # Errors
    /// [`NotSeparable`] cannot happen for the leaves of a grid's trees; it is passed on, not
    /// hidden.
    pub fn derive(inputs: &PlanInputs<'_>) -> Result<Self, NotSeparable> {
        let holders = holders_by_brick(inputs.manifest, inputs.roster);
        let held = |brick: BrickIndex| !holders[brick.0 as usize].is_empty();
        let (trees, cut) = match inputs.earlier {
            Some(Earlier { roster, .. }) => {
                inputs.decompose(roster, &holders_by_brick(inputs.manifest, roster))
            }
            None => inputs.decompose(inputs.roster, &holders),
        };
        let cut = inputs.front_to_back(&cut)?;
        let divided = inputs.divided(&cut);
        let cut = divided.as_ref().map_or(&cut, |d| &d.jobs);
        let mut jobs = inputs.planned_jobs(cut);
        let entries = inputs.roster.entries().iter();
        let peers: Vec<PeerId> = entries.clone().map(|e| e.peer.clone()).collect();
        let effective_speeds: Vec<u64> =
            entries.clone().map(RosterEntry::effective_speed).collect();
        let able = divided.as_ref().map(|_| inputs.able()).unwrap_or_default();
        let scheduled = inputs.assignable(&mut jobs, &holders, &peers, &able);
        let is_queue = inputs.rules.tile_sharing == TileSharing::Demand && inputs.rules.steal;
        let is_queue = is_queue && divided.is_some();
        let keeper = is_queue.then(|| able.first().copied()).flatten();
        let (schedule, tiles, tile_jobs) = match &divided {
            Some(divided) => {
                let before = inputs.tiles_before(&divided.grid, &peers);
                divided.shared_out(&scheduled, (&effective_speeds, &able), (keeper, &before))
            }
            None => {
                let mut schedule = assign(inputs.rules.assign, &scheduled, &effective_speeds);
                let (tiles, tile_jobs) =
                    inputs.composite(&jobs, &scheduled, &mut schedule, &effective_speeds);
                (schedule, tiles, tile_jobs)
            }
        };
        for (job, &renderer) in jobs.iter_mut().zip(&schedule.assignment) {
            job.renderer = renderer;
        }
        let digest = digest(inputs.settings.digest(), &peers, &jobs, &tiles);
        Ok(Self {
            mode: inputs.settings.mode,
            opaque: inputs.settings.opaque(),
            peers,
            speeds: entries.map(|e| e.speed_millionths).collect(),
            effective_speeds,
            jobs,
            holders: Arc::new(scheduled.into_iter().map(|j| j.holders).collect()),
            tiles,
            tile_jobs,
            schedule,
            trees,
            image_tile: divided.map(|d| d.grid.edge()),
            keeper,
            casters: Arc::new(inputs.casters(&held)),
            digest,
        })
    }

    /// Longest time that a peer is expected to render, without waiting for bricks, microseconds.
    #[must_use]
    pub fn rendering_makespan_micros(&self) -> u64 {
        // A queue is emptied by all, who may wait for bricks: so it may take a little longer.
        if self.speeds == self.effective_speeds || self.keeper.is_some() {
            return self.schedule.makespan_micros;
        }
        let costs = self.jobs.iter().map(PlannedJob::cost_micros);
        let loads = loads(costs, &self.schedule.assignment, &self.speeds);
        loads.into_iter().max().unwrap_or(0)
    }

    /// A peer's index in the roster.
    #[must_use]
    pub fn index_of(&self, peer: &PeerId) -> Option<usize> {
        self.peers.binary_search(peer).ok()
    }

    /// The jobs that a peer renders, front to back.
    pub fn jobs_of(&self, peer: &PeerId) -> impl Iterator<Item = (usize, &PlannedJob)> {
        let index = self.index_of(peer);
        self.jobs
            .iter()
            .enumerate()
            .filter(move |(_, j)| index.is_some() && j.renderer == index)
    }

    /// The tiles that a peer composites.
    pub fn tiles_of(&self, peer: &PeerId) -> impl Iterator<Item = (usize, &Tile)> {
        let index = self.index_of(peer);
        self.tiles
            .iter()
            .enumerate()
            .filter(move |(_, t)| Some(t.compositor) == index)
    }

    /// The boxes that nobody can render.
    pub fn missing(&self) -> impl Iterator<Item = &PlannedJob> {
        self.jobs.iter().filter(|j| j.renderer.is_none())
    }

    /// What was learnt from this frame: speeds in millionths, in roster order, and the cost table.
    /// `measured` has, by job, the index of the peer that rendered it and the microseconds it took
    /// there.
    #[must_use]
    pub fn learned(
        &self,
        before: &CostTable,
        measured: &BTreeMap<u32, (usize, u64)>,
        rules: &PlanRules,
    ) -> (Vec<u64>, CostTable) {
        let mut work = vec![Work::default(); self.peers.len()];
        for (&job, &(d, micros)) in measured {
            // What was hidden says nothing of speeds.
            if let (Some(job), Some(work)) = (self.jobs.get(job as usize), work.get_mut(d))
                && micros > 0
            {
                work.expected_micros = work.expected_micros.saturating_add(job.estimate_micros);
                work.measured_micros = work.measured_micros.saturating_add(micros);
            }
        }
        let speeds = next_speeds(&self.speeds, &work);
        let speed = |d: usize| speeds.get(d).copied().unwrap_or(SPEED_ONE);
        let costs = measured
            .iter()
            .map(|(&job, &(d, micros))| (job as usize, work_of(micros, speed(d))))
            .collect();
        let mut table = self.costs_after(before, &costs, rules.prediction);
        table.tile_renderers = match rules.tile_sharing {
            TileSharing::Steal => self.tile_renderers(measured).or(table.tile_renderers),
            TileSharing::Planned | TileSharing::Demand => None,
        };
        (speeds, table)
    }

    /// Who rendered most of each tile, of what was measured ([`Self::learned`]); `None`: the picture was not divided.
    fn tile_renderers(&self, measured: &BTreeMap<u32, (usize, u64)>) -> Option<TileRenderers> {
        let whole = self.tiles.iter().map(|tile| tile.rect);
        let whole = whole.reduce(|a, b| a.around(&b))?;
        let grid = TileGrid::new(whole, self.image_tile?);
        let of_tile = |(tile, planned): (usize, &Tile)| {
            let mut took = vec![0_u64; self.peers.len()];
            let jobs = self.tile_jobs.of_tile(tile).iter();
            for (by, micros) in jobs.filter_map(|j| measured.get(&u32::try_from(j.0).ok()?)) {
                if let Some(took) = took.get_mut(*by) {
                    // What was hidden counts, too.
                    *took = took.saturating_add((*micros).max(1));
                }
            }
            let most = (0..took.len()).max_by_key(|&by| (took[by], by == planned.compositor));
            most.unwrap_or(planned.compositor)
        };
        let by: Vec<usize> = self
            .tiles
            .iter()
            .enumerate()
            .map(|(t, tile)| of_tile((t, tile)))
            .collect();
        Some(TileRenderers::new(grid, self.peers.clone(), &by))
    }

    /// The cost table after this frame: its trees, with what `prediction` remembers of the costs
    /// that were measured (by job, microseconds on a device of speed 1) in place of the expected
    /// ones; other bricks as they were in `before`.
    #[must_use]
    pub fn costs_after(
        &self,
        before: &CostTable,
        measured: &BTreeMap<usize, u64>,
        prediction: Prediction,
    ) -> CostTable {
        let mut leaves: BTreeMap<(BrickIndex, usize), LeafWork> = BTreeMap::new();
        for (j, job) in self.jobs.iter().enumerate() {
            let leaf = leaves.entry((job.brick, job.leaf)).or_default();
            leaf.add(job.estimate_micros, measured.get(&j).copied());
        }
        let by_leaf = leaves.into_iter().filter_map(|(name, leaf)| {
            let cost = prediction.remember(leaf.expected_micros, leaf.cost()?);
            Some((name, cost))
        });
        before.after(&self.trees, &by_leaf.collect())
    }
}

/// What the jobs of a part of a brick came to: several, where the picture is divided.
#[derive(Default)]
struct LeafWork {
    /// What was expected of all of them, microseconds.
    expected_micros: u64,
    /// Of those of them that were measured: what was expected, and what they took.
    measured: Option<[u64; 2]>,
}

impl LeafWork {
    fn add(&mut self, expected_micros: u64, measured_micros: Option<u64>) {
        self.expected_micros = self.expected_micros.saturating_add(expected_micros);
        if let Some(micros) = measured_micros {
            let [expected, took] = self.measured.get_or_insert_default();
            *expected = expected.saturating_add(expected_micros);
            *took = took.saturating_add(micros);
        }
    }

    /// What all of them take, as far as those that were measured tell, microseconds; `None`: none was.
    fn cost(&self) -> Option<u64> {
        let [expected, took] = self.measured?;
        if expected == self.expected_micros {
            return Some(took);
        }
        Some(share(took, self.expected_micros, expected))
    }
}

impl PlanInputs<'_> {
    /// The roster of the frame's first attempt: jobs are cut for that.
    fn first_roster(&self) -> &Roster {
        self.earlier.map_or(self.roster, |e| e.roster)
    }

    /// Who rendered each tile in the last frame, where that is to go on.
    fn tiles_before(&self, grid: &TileGrid, peers: &[PeerId]) -> Vec<Option<usize>> {
        let before = self.costs.tile_renderers.as_ref();
        let before = before.filter(|_| self.rules.tile_sharing == TileSharing::Steal);
        before.map_or(Vec::new(), |b| b.among(grid, peers).collect())
    }

    /// Edge of the tiles by which the picture is divided, where it is: `Some(None)`: by the number of peers.
    fn image_tile(&self) -> Option<Option<u32>> {
        let Division::Image { tile } = self.rules.division else {
            return None;
        };
        let mut all = self.first_roster().entries().iter();
        let is_divided = if self.settings.has_secondary_rays() {
            all.any(RosterEntry::has_all)
        } else {
            all.all(RosterEntry::has_all)
        };
        is_divided.then_some(tile)
    }

    /// The largest edge of tiles whose jobs send secondary rays, pixels: what is known of the rays of one waits in memory.
    fn edge_of_rays(&self) -> Option<u32> {
        let rays = self.settings.ambient_occlusion.map_or(0, |o| o.rays);
        let of_point = POINT_BYTES + RAY_BYTES * (1 + u32::from(rays));
        // Each reflection meets a surface in its turn; those behind transparent ones come on top, as they do along rays from the eye.
        let reflections = self.settings.reflections.map_or(0, |r| u32::from(r.depth));
        let of_pixel = of_point * (1 + reflections) + MIRRORED_BYTES * reflections;
        let edge = (RAYS_OF_TILE_BYTES / of_pixel).isqrt();
        self.settings.has_secondary_rays().then_some(edge)
    }

    /// See [`FramePlan::casters`].
    fn casters(&self, is_held: &dyn Fn(BrickIndex) -> bool) -> BrickSet {
        let grid = self.manifest.grid();
        let mut casters = BrickSet::new(grid.brick_count());
        if self.settings.has_secondary_rays() {
            for brick in grid.bricks() {
                if self.visible.any(brick) && is_held(brick) {
                    casters.insert(brick);
                }
            }
        }
        casters
    }

    /// Indices of the peers that can render any tile; ascending. In a further attempt there may be none.
    fn able(&self) -> Vec<usize> {
        let entries = self.roster.entries().iter().enumerate();
        let able = entries.filter(|(_, e)| e.has_all());
        able.map(|(d, _)| d).collect()
    }

    /// Bricks into jobs, for a roster and its holders by brick.
    fn decompose(
        &self,
        roster: &Roster,
        holders: &[Vec<usize>],
    ) -> (BTreeMap<BrickIndex, JobTree>, Vec<CutJob>) {
        // Tiles are what cuts them.
        let min_job_micros = match self.image_tile() {
            Some(_) => u64::MAX,
            None => self.rules.min_job_micros,
        };
        let rules = PlanRules {
            min_job_micros,
            ..*self.rules
        };
        decompose(&DecomposeInputs {
            volume: self.manifest.volume(),
            grid: self.manifest.grid(),
            view: self.view,
            step: self.settings.counted_step(self.manifest.volume()),
            visible: self.visible,
            costs: self.costs,
            holders,
            devices: roster.entries().len(),
            rules: &rules,
        })
    }

    /// The jobs in depth order.
    fn front_to_back(&self, cut: &[CutJob]) -> Result<Vec<CutJob>, NotSeparable> {
        let volume = self.manifest.volume();
        let grid_from_world = volume.grid_from_world();
        let eye = grid_from_world.transform_point3(self.view.order_eye(volume));
        let boxes: Vec<VoxelBox> = cut.iter().map(|j| j.owned).collect();
        let order = front_to_back(&boxes, eye)?;
        Ok(order.into_iter().map(|i| cut[i]).collect())
    }

    /// The parts of jobs that tiles show, where the picture is divided.
    fn divided(&self, cut: &[CutJob]) -> Option<Divided> {
        let tile = self.image_tile()?;
        let peers = self.first_roster().entries().len();
        let picture = self.view.rect();
        let mut grid = match tile {
            Some(edge) => TileGrid::new(picture, edge),
            None => TileGrid::for_peers(picture, peers),
        };
        if let Some(edge) = self.edge_of_rays() {
            grid = TileGrid::new(picture, grid.edge().min(edge));
        }
        let jobs = |grid: &TileGrid| cut.iter().map(|j| grid.count_met(&j.rect)).sum::<u64>();
        // Each has a list of who may render it.
        let jobs_max = IMAGE_JOBS_MAX.min(HOLDERS_MAX / self.roster.entries().len().max(1) as u64);
        while (jobs(&grid) > jobs_max || grid.len() as u64 > IMAGE_JOBS_MAX)
            && let Some(coarser) = grid.coarser()
        {
            grid = coarser;
        }
        Some(Divided::new(grid, cut))
    }

    fn planned_jobs(&self, cut: &[CutJob]) -> Vec<PlannedJob> {
        // Where rays go through other bricks, or paint says who rendered them, pixels do not follow from a job's own.
        let is_own = !self.settings.has_secondary_rays() && self.settings.paint().is_none();
        let is_reused = self.rules.reuse && is_own;
        let frame = is_reused.then(|| self.frame_content());
        let job = |cut: &CutJob| PlannedJob {
            brick: cut.brick,
            owned: cut.owned,
            rect: cut.rect,
            leaf: cut.leaf,
            estimate_micros: cut.cost_micros,
            renderer: None,
            is_rendered: false,
            content: frame.map(|frame| self.content(frame, cut)),
        };
        cut.iter().map(job).collect()
    }

    /// The jobs with who may render them: what was rendered before stays where it is. Peers that are `able` may render what anybody
    /// has; where none is, holders do.
    fn assignable(
        &self,
        jobs: &mut [PlannedJob],
        holders: &[Vec<usize>],
        peers: &[PeerId],
        able: &[usize],
    ) -> Vec<ScheduledJob> {
        let may_render = |brick: BrickIndex| match &holders[brick.0 as usize] {
            some if !some.is_empty() && !able.is_empty() => able.to_vec(),
            holders => holders.clone(),
        };
        let mut scheduled: Vec<ScheduledJob> = jobs
            .iter()
            .map(|j| ScheduledJob {
                cost_micros: j.estimate_micros,
                holders: may_render(j.brick),
            })
            .collect();
        let rendered = self.earlier.map(|e| e.rendered);
        for (&job, peer) in rendered.into_iter().flatten() {
            let index = job as usize;
            if let Some((job, scheduled)) = jobs.get_mut(index).zip(scheduled.get_mut(index))
                && let Ok(by) = peers.binary_search(peer)
                && scheduled.holders.contains(&by)
            {
                job.is_rendered = true;
                scheduled.cost_micros = job.cost_micros();
                scheduled.holders = vec![by];
            }
        }
        scheduled
    }

    /// Name of what all pixels of the picture depend on: the data and the rays.
    fn frame_content(&self) -> Digest {
        let View {
            eye,
            forward,
            right,
            down,
            width,
            height,
            first,
            parallel,
        } = self.view;
        let mut bytes = self.manifest.digest().as_bytes().to_vec();
        for vector in [eye, forward, right, down] {
            let numbers = vector.to_array();
            bytes.extend(numbers.iter().flat_map(|n| n.to_bits().to_le_bytes()));
        }
        bytes.extend(parallel.unwrap_or(0.0).to_bits().to_le_bytes());
        let numbers = [*width, *height, first[0], first[1]];
        bytes.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
        Digest::of(&bytes)
    }

    /// Name of what the pixels of a job depend on: those, its part of the volume, and what is to be seen
    /// of the values there.
    fn content(&self, frame: Digest, cut: &CutJob) -> Digest {
        let range = self.manifest.brick_range(cut.brick).unwrap_or_default();
        let settings = self.settings.digest_within(self.manifest.values(range));
        let mut bytes = frame.as_bytes().to_vec();
        bytes.extend(settings.as_bytes());
        let PixelRect {
            x,
            y,
            width,
            height,
        } = cut.rect;
        let numbers = [cut.brick.0, x, y, width, height];
        let all = numbers.into_iter().chain(cut.owned.lo).chain(cut.owned.hi);
        bytes.extend(all.flat_map(u32::to_le_bytes));
        Digest::of(&bytes)
    }

    /// Tiles, who composites them, and which jobs meet in which.
    fn composite(
        &self,
        jobs: &[PlannedJob],
        scheduled: &[ScheduledJob],
        schedule: &mut Schedule,
        effective_speeds: &[u64],
    ) -> (Vec<Tile>, TileJobs) {
        let mut tiles = tiles(self.view.rect(), effective_speeds.len());
        let rects: Vec<PixelRect> = jobs.iter().map(|j| j.rect).collect();
        let tile_jobs = TileJobs::new(&rects, |j| schedule.assignment[j].is_some(), &tiles);
        if self.rules.composite == Strategy::Refined {
            lengthen_runs(
                scheduled,
                &tile_jobs,
                &mut tiles,
                schedule,
                effective_speeds,
            );
        }
        (tiles, tile_jobs)
    }
}

/// Indices of the peers that hold each brick, ascending.
fn holders_by_brick(manifest: &Manifest, roster: &Roster) -> Vec<Vec<usize>> {
    let mut holders = vec![Vec::new(); manifest.grid().brick_count() as usize];
    for (d, entry) in roster.entries().iter().enumerate() {
        for brick in entry.bricks.iter() {
            if let Some(of_brick) = holders.get_mut(brick.0 as usize) {
                of_brick.push(d);
            }
        }
    }
    holders
}

/// Memory of a point of a surface that secondary rays are sent from, of each of these, and of those of a tile: about, bytes.
const POINT_BYTES: u32 = 104;
/// See [`POINT_BYTES`].
const RAY_BYTES: u32 = 4;
/// Of a reflected ray: see [`POINT_BYTES`].
const MIRRORED_BYTES: u32 = 48;
/// See [`POINT_BYTES`].
const RAYS_OF_TILE_BYTES: u32 = 16 << 20;

/// Most jobs of a frame whose picture is divided, and most tiles: they are as large as that needs.
const IMAGE_JOBS_MAX: u64 = TILES_MAX as u64;
/// Most peers that may render these jobs, of all jobs together.
const HOLDERS_MAX: u64 = 1 << 20;

/// Jobs of a picture that is divided into tiles.
struct Divided {
    grid: TileGrid,
    /// In depth order; of each tile that meets a job a part.
    jobs: Vec<CutJob>,
    /// The tile of each.
    tile_of: Vec<usize>,
}

/// `part / whole` of a number; all of it where the whole is 0.
fn share(of: u64, part: u64, whole: u64) -> u64 {
    let share = u128::from(of) * u128::from(part);
    let share = share.checked_div(whole.into()).unwrap_or(of.into());
    u64::try_from(share).unwrap_or(u64::MAX)
}

impl Divided {
    /// Jobs in depth order, in parts. What a job costs goes to its parts by their pixels.
    fn new(grid: TileGrid, cut: &[CutJob]) -> Self {
        let (mut jobs, mut tile_of) = (Vec::new(), Vec::new());
        for job in cut {
            let (mut pixels, mut given) = (0, 0);
            let all = job.rect.pixel_count() as u64;
            for (tile, rect) in grid.parts_of(job.rect) {
                // All parts together cost what the job does.
                pixels += rect.pixel_count() as u64;
                let until = share(job.cost_micros, pixels, all);
                let cost_micros = until - given;
                given = until;
                jobs.push(CutJob {
                    rect,
                    cost_micros,
                    ..*job
                });
                tile_of.push(tile);
            }
        }
        Self {
            grid,
            jobs,
            tile_of,
        }
    }

    /// Each tile to a peer that is `able`, which also composites it, and its jobs, but such as were rendered elsewhere: to who had it `before`
    /// where that is known, or all to the `keeper` of a queue, who composites its part alone. Where none is able, jobs go to holders.
    fn shared_out(
        &self,
        scheduled: &[ScheduledJob],
        (speeds, able): (&[u64], &[usize]),
        (keeper, before): (Option<usize>, &[Option<usize>]),
    ) -> (Schedule, Vec<Tile>, TileJobs) {
        let mut costs = vec![0_u64; self.grid.len()];
        for (job, &tile) in scheduled.iter().zip(&self.tile_of) {
            costs[tile] = costs[tile].saturating_add(job.cost_micros);
        }
        let is_able = |d: usize| able.is_empty() || able.binary_search(&d).is_ok();
        let of_able = (0..).zip(speeds);
        let of_able: Vec<u64> = of_able
            .map(|(d, &s)| if is_able(d) { s } else { 0 })
            .collect();
        let mut peers = self.grid.divide(&costs, &of_able);
        for (peer, before) in peers.iter_mut().zip(before) {
            *peer = before.filter(|&d| is_able(d)).unwrap_or(*peer);
        }
        let of_tile = |(job, tile): (&ScheduledJob, &usize)| {
            let renderer = keeper.unwrap_or(peers[*tile]);
            let is_holder = job.holders.binary_search(&renderer).is_ok();
            let first = job.holders.first().copied();
            if is_holder { Some(renderer) } else { first }
        };
        let assignment: Vec<_> = scheduled.iter().zip(&self.tile_of).map(of_tile).collect();
        let costs = scheduled.iter().map(|j| j.cost_micros);
        let loads_micros = loads(costs.clone(), &assignment, speeds);
        let rects: Vec<PixelRect> = self.jobs.iter().map(|j| j.rect).collect();
        let is_rendered = |j: usize| assignment[j].is_some();
        let tile_jobs = TileJobs::in_one_tile(&rects, &self.tile_of, is_rendered, self.grid.len());
        let tiles = self.grid.rects().zip(&peers);
        let tiles = tiles.map(|(rect, &compositor)| Tile { rect, compositor });
        let all: u64 = of_able.iter().fold(0, |sum, s| sum.saturating_add(*s));
        let lower_bound_micros = cost_on(costs.fold(0, u64::saturating_add), all);
        let makespan_micros = loads_micros.iter().copied().max().unwrap_or(0);
        let schedule = Schedule {
            // A queue is emptied by all of them.
            makespan_micros: keeper.map_or(makespan_micros, |_| lower_bound_micros),
            lower_bound_micros,
            assignment,
            loads_micros,
        };
        (schedule, tiles.collect(), tile_jobs)
    }
}

/// Bytes of a job in the plan's digest.
const JOB_BYTES: usize = 11 * size_of::<u32>() + size_of::<u64>();

fn digest(settings: Digest, peers: &[PeerId], jobs: &[PlannedJob], tiles: &[Tile]) -> Digest {
    let mut bytes = settings.as_bytes().to_vec();
    bytes.reserve(jobs.len() * JOB_BYTES);
    peers.iter().for_each(|p| put_text(&mut bytes, p.as_str()));
    for j in jobs {
        let numbers = [j.brick.0, j.rect.x, j.rect.y, j.rect.width, j.rect.height];
        let all = numbers.into_iter().chain(j.owned.lo).chain(j.owned.hi);
        all.for_each(|n| bytes.extend(n.to_le_bytes()));
        bytes.extend(j.renderer.map_or(u64::MAX, |r| r as u64).to_le_bytes());
    }
    for t in tiles {
        let rect = [t.rect.x, t.rect.y, t.rect.width, t.rect.height];
        rect.into_iter().for_each(|n| bytes.extend(n.to_le_bytes()));
        bytes.extend((t.compositor as u64).to_le_bytes());
    }
    Digest::of(&bytes)
}

/// A plan with this much in it, for the tests of what follows a plan.
#[cfg(test)]
pub(crate) fn scripted(
    peers: &[&str],
    speeds: Vec<u64>,
    jobs: Vec<PlannedJob>,
    holders: Vec<Vec<usize>>,
    tiles: Vec<Tile>,
) -> FramePlan {
    let peers: Vec<PeerId> = peers.iter().map(|p| PeerId::new(p)).collect();
    let rects: Vec<PixelRect> = jobs.iter().map(|j| j.rect).collect();
    let mut loads = vec![0; peers.len()];
    for j in &jobs {
        if let Some(d) = j.renderer {
            loads[d] += cost_on(j.estimate_micros, speeds[d]);
        }
    }
    FramePlan {
        mode: Mode::default(),
        opaque: Some(0.999),
        tile_jobs: TileJobs::new(&rects, |j| jobs[j].renderer.is_some(), &tiles),
        schedule: Schedule {
            assignment: jobs.iter().map(|j| j.renderer).collect(),
            makespan_micros: loads.iter().copied().max().unwrap_or(0),
            lower_bound_micros: 0,
            loads_micros: loads,
        },
        digest: digest(Digest::of(b""), &peers, &jobs, &tiles),
        trees: BTreeMap::new(),
        image_tile: None,
        keeper: None,
        casters: Arc::default(),
        peers,
        effective_speeds: speeds.clone(),
        speeds,
        jobs,
        holders: Arc::new(holders),
        tiles,
    }
}
