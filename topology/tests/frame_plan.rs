//! Plans of whole frames: what every peer must derive alike, and what must hold whatever the
//! costs, splits and views.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail by a panic, also outside of its function"
)]

use brickmesh_topology::{
    BrickIndex, Camera, Manifest, PeerId, RenderSettings, TransferFunction, View,
    VolumeDescription, VoxelBox, VoxelType,
    balance::{
        cost_table::CostTable,
        frame_plan::{Earlier, FramePlan, PlanInputs},
        plan_rules::{Division, PlanRules, Strategy, TileSharing},
        prediction::Prediction,
        roster::{Roster, RosterEntry, RosterError, WAIT_THOUSANDTHS_MAX},
        schedule::{Assignment, SPEED_ONE},
    },
    base::seeded::Seeded,
    data::{brick_set::BrickSet, manifest::ManifestParts, transfer_function::TransferPoint},
    picture::{surface_rays::AmbientOcclusion, visible_cells::VisibleCells},
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// 96×64×80 voxels in bricks of 32; values are x, so that low ones can be hidden.
fn manifest() -> Manifest {
    let volume = VolumeDescription {
        spacing: [1.0, 1.5, 0.75],
        ..VolumeDescription::new([96, 64, 80], VoxelType::U8)
    };
    let parts = ManifestParts::cut(volume, 32, "test", |stored| {
        let [nx, ny, nz] = stored.size();
        let x = |i| u8::try_from(stored.lo[0] + i % nx).unwrap();
        (0..nx * ny * nz).map(x).collect()
    });
    Manifest::try_from(parts.unwrap()).unwrap()
}

/// Five peers, each brick on three of them.
fn roster(bricks: u32, speeds: [u64; 5]) -> Vec<RosterEntry> {
    let entry = |(d, speed_millionths): (u32, u64)| {
        let mut held = BrickSet::new(bricks);
        for b in 0..bricks {
            if (0..3).any(|copy| (b * 7 + copy * (b % 2 + 1)) % 5 == d) {
                held.insert(BrickIndex(b));
            }
        }
        RosterEntry {
            speed_millionths,
            ..RosterEntry::new(PeerId::new(&format!("peer-{d}")), held)
        }
    };
    (0..).zip(speeds).map(entry).collect()
}

/// Fixed numbers, no trigonometry: these views are the same bytes on every machine.
fn view(turn: f64, near: f64) -> View {
    let volume = manifest().volume().clone();
    let at = volume.center_in_world();
    let away = glam::DVec3::new(turn, 1.0 - turn.abs(), 0.4) * (200.0 / near);
    Camera {
        eye: at + away,
        at,
        up: glam::DVec3::Z,
        fov_degrees: 30.0,
        projection: brickmesh_topology::picture::camera::Projection::Perspective,
    }
    .view(160, 120)
    .unwrap()
}

struct Scene {
    manifest: Manifest,
    settings: RenderSettings,
    visible: VisibleCells,
    entries: Vec<RosterEntry>,
    rules: PlanRules,
}

impl Scene {
    fn new(transfer: &TransferFunction, speeds: [u64; 5]) -> Self {
        let manifest = manifest();
        let settings = RenderSettings::new(transfer.clone(), 0.5);
        Self {
            visible: VisibleCells::of(&manifest, &settings),
            settings,
            entries: roster(manifest.grid().brick_count(), speeds),
            rules: PlanRules {
                min_job_micros: 100,
                ..PlanRules::default()
            },
            manifest,
        }
    }

    fn plan(&self, view: &View, costs: &CostTable) -> FramePlan {
        self.plan_with(view, costs, self.entries.clone())
    }

    fn plan_with(&self, view: &View, costs: &CostTable, entries: Vec<RosterEntry>) -> FramePlan {
        self.plan_again(view, costs, entries, None)
    }

    fn plan_again(
        &self,
        view: &View,
        costs: &CostTable,
        entries: Vec<RosterEntry>,
        earlier: Option<Earlier<'_>>,
    ) -> FramePlan {
        FramePlan::derive(&PlanInputs {
            manifest: &self.manifest,
            view,
            settings: &self.settings,
            visible: &self.visible,
            roster: &Roster::new(entries),
            costs,
            rules: &self.rules,
            earlier,
        })
        .unwrap()
    }

    /// The table after a frame in which each job cost what `cost` says.
    fn after(
        &self,
        plan: &FramePlan,
        before: &CostTable,
        cost: impl Fn(usize) -> u64,
    ) -> CostTable {
        let measured: BTreeMap<usize, u64> = (0..plan.jobs.len()).map(|j| (j, cost(j))).collect();
        let table = plan.costs_after(before, &measured, self.rules.prediction);
        assert!(table.validate(self.manifest.grid()).is_ok());
        table
    }
}

fn opaque() -> TransferFunction {
    let mut tf = TransferFunction::ramp(0.0, 95.0);
    tf.points.iter_mut().for_each(|p| p.opacity = 0.5);
    tf
}

#[test]
fn who_waits_for_bricks_is_given_less_and_counts_as_fast_as_before() {
    let mut scene = Scene::new(&TransferFunction::ramp(0.0, 95.0), [SPEED_ONE; 5]);
    let view = view(0.3, 1.0);
    let loads = |plan: &FramePlan| {
        let of = |d: usize| {
            let jobs = plan.jobs.iter().filter(|j| j.renderer == Some(d));
            jobs.map(|j| j.estimate_micros).sum::<u64>()
        };
        [of(0), of(1)]
    };
    let before = loads(&scene.plan(&view, &CostTable::default()));
    scene.entries[1].wait_thousandths = 3_000;
    let plan = scene.plan(&view, &CostTable::default());
    let [other, waiting] = loads(&plan);
    assert!(
        3 * waiting < 2 * before[1] && other > before[0],
        "{before:?} {waiting} {other}"
    );
    assert_eq!(
        (plan.speeds[1], plan.effective_speeds[1]),
        (SPEED_ONE, SPEED_ONE / 4)
    );
    scene.entries[1].wait_thousandths = WAIT_THOUSANDTHS_MAX + 1;
    let count = scene.manifest.grid().brick_count();
    let wrong = Roster::new(scene.entries).validate(count);
    assert!(matches!(wrong, Err(RosterError::Wait { .. })), "{wrong:?}");
}

#[test]
fn a_dear_brick_is_cut_and_shared_by_its_holders_and_merged_when_cheap() {
    let mut scene = Scene::new(&opaque(), [SPEED_ONE; 5]);
    let first = scene.plan(&view(0.3, 1.0), &CostTable::default());
    let dear = first.jobs[3].brick;
    let table = scene.after(&first, &CostTable::default(), |j| {
        let is_dear = first.jobs[j].brick == dear;
        if is_dear { 90_000 } else { 900 }
    });
    let second = scene.plan(&view(0.3, 1.0), &table);
    let of_dear = || second.jobs.iter().filter(|j| j.brick == dear);
    assert!(of_dear().count() >= 8, "{} parts", of_dear().count());
    let renderers: BTreeSet<_> = of_dear().map(|j| j.renderer).collect();
    assert_eq!(renderers.len(), 3, "all holders of the dear brick share it");
    let third = scene.after(&second, &table, |_| 900);
    let mut parts = |rules: PlanRules, table: &CostTable| {
        scene.rules = rules;
        let plan = scene.plan(&view(0.3, 1.0), table);
        plan.jobs.iter().filter(|j| j.brick == dear).count()
    };
    let whole = PlanRules {
        min_job_micros: u64::MAX,
        ..PlanRules::default()
    };
    assert_eq!(parts(whole, &third), 1);
    let as_placed = PlanRules {
        assign: Assignment::AsPlaced,
        min_job_micros: 100,
        ..PlanRules::default()
    };
    assert_eq!(parts(as_placed, &table), 1, "one peer renders it whole");
}

#[test]
fn a_further_attempt_has_the_same_jobs_and_what_is_rendered_stays_where_it_is() {
    let scene = Scene::new(&opaque(), [SPEED_ONE; 5]);
    let view = view(0.3, 1.0);
    let whole = scene.plan(&view, &CostTable::default());
    let table = scene.after(&whole, &CostTable::default(), |_| 20_000);
    let first = scene.plan(&view, &table);
    let dead = PeerId::new("peer-2");
    let by = |plan: &FramePlan, j: usize| plan.jobs[j].renderer.map(|r| plan.peers[r].clone());
    let mut rendered: BTreeMap<u32, PeerId> = (0..)
        .zip(0..first.jobs.len())
        .map(|(job, j)| (job, by(&first, j).unwrap()))
        .collect();
    // One is not done yet, and two are claimed by who cannot have done them.
    let of = |peer: &str| rendered.iter().find(|(_, p)| **p == PeerId::new(peer));
    let (open, lie) = (*of("peer-0").unwrap().0, *of("peer-1").unwrap().0);
    rendered.remove(&open);
    rendered.insert(lie, PeerId::new("nobody"));
    rendered.insert(u32::MAX, PeerId::new("peer-1"));
    let mut entries = scene.entries.clone();
    entries.retain(|e| e.peer != dead);
    let earlier = Earlier {
        roster: &Roster::new(scene.entries.clone()),
        rendered: &rendered,
    };
    let again = scene.plan_again(&view, &table, entries, Some(earlier));
    assert_eq!(again.jobs.len(), first.jobs.len());
    let mut left = 0;
    for (j, job) in again.jobs.iter().enumerate() {
        assert_eq!(
            (job.owned, job.rect),
            (first.jobs[j].owned, first.jobs[j].rect)
        );
        let is_open = [open, lie].contains(&u32::try_from(j).unwrap());
        if is_open || by(&first, j) == Some(dead.clone()) {
            assert!(!job.is_rendered);
            assert_ne!(by(&again, j), Some(dead.clone()));
            left += job.estimate_micros;
        } else {
            assert!(job.is_rendered);
            assert_eq!(by(&again, j), by(&first, j));
        }
    }
    let loads: u64 = again.schedule.loads_micros.iter().sum();
    assert_eq!(loads, left);
    assert!(again.schedule.makespan_micros * 2 < first.schedule.makespan_micros);
}

#[test]
fn a_device_of_twice_the_speed_gets_about_twice_the_work() {
    let one = SPEED_ONE;
    let scene = Scene::new(&opaque(), [2 * one, one, one, one, one]);
    let first = scene.plan(&view(0.3, 1.0), &CostTable::default());
    let table = scene.after(&first, &CostTable::default(), |_| 20_000);
    let plan = scene.plan(&view(0.3, 1.0), &table);
    let mut work = [0; 5];
    for job in &plan.jobs {
        work[job.renderer.unwrap()] += job.estimate_micros;
    }
    assert!(work[0] * 10 > work[1] * 16, "{work:?}");
}

/// The same scene, in which the picture is divided into tiles of this edge, and two more peers have nothing yet.
fn divided(transfer: &TransferFunction, tile: Option<u32>) -> Scene {
    let mut scene = Scene::new(transfer, [SPEED_ONE; 5]);
    scene.rules.division = Division::Image { tile };
    let none = BrickSet::new(scene.manifest.grid().brick_count());
    let new = |n: u32| RosterEntry::new(PeerId::new(&format!("peer-{n}")), none.clone());
    scene.entries.extend([5, 6].map(new));
    scene.entries.iter_mut().for_each(|e| e.fetches = true);
    scene
}

#[test]
fn each_peer_has_tiles_of_its_own_and_all_that_they_show() {
    for (tile, edge) in [(None, 32), (Some(16), 16), (Some(64), 64), (Some(0), 8)] {
        let scene = divided(&opaque(), tile);
        let view = view(0.3, 1.0);
        let plan = scene.plan(&view, &CostTable::default());
        assert_eq!(plan.image_tile, Some(edge));
        let whole = Scene::new(&opaque(), [SPEED_ONE; 5]);
        let whole = scene_uncut(whole).plan(&view, &CostTable::default());
        // Each pixel of each brick is in one job, in the order of the bricks.
        let mut pixels: BTreeMap<BrickIndex, usize> = BTreeMap::new();
        let mut order: Vec<BrickIndex> = Vec::new();
        for (j, job) in plan.jobs.iter().enumerate() {
            *pixels.entry(job.brick).or_default() += job.rect.pixel_count();
            if order.last() != Some(&job.brick) {
                order.push(job.brick);
            }
            let tiles: Vec<_> = plan.tile_jobs.of_job(j).collect();
            assert_eq!(tiles.len(), 1);
            let tile = plan.tiles[tiles[0].0];
            assert_eq!(tile.rect.intersection(&job.rect), Some(job.rect));
            assert_eq!(job.renderer, Some(tile.compositor), "nothing is sent twice");
        }
        let bricks: Vec<BrickIndex> = whole.jobs.iter().map(|j| j.brick).collect();
        assert_eq!(order, bricks);
        for job in &whole.jobs {
            assert_eq!(pixels[&job.brick], job.rect.pixel_count());
        }
        // All work, those who came with nothing, too; and what bricks cost is shared out whole.
        let sum = |plan: &FramePlan| plan.jobs.iter().map(|j| j.estimate_micros).sum::<u64>();
        assert_eq!(sum(&plan), sum(&whole));
        if edge <= 32 {
            assert!(plan.schedule.loads_micros.iter().all(|&l| l > 0));
        }
        assert!(plan.holders.iter().all(|h| h.len() == 7));
    }
}

#[test]
fn tiles_stay_with_who_rendered_them() {
    let mut scene = divided(&opaque(), Some(16));
    scene.rules.tile_sharing = TileSharing::Steal;
    let (before, after) = (view(0.3, 1.0), view(0.5, 1.2));
    let plan = scene.plan(&before, &CostTable::default());
    assert!(plan.keeper.is_none() && CostTable::default().tile_renderers.is_none());
    // Others than was planned: the larger part of a tile counts.
    let tile_of = |plan: &FramePlan, j: usize| plan.tile_jobs.of_job(j).next().unwrap().0;
    let measured = (0..plan.jobs.len())
        .zip(0_u32..)
        .map(|(j, job)| (job, (tile_of(&plan, j) % 7, 500)));
    let mut measured: BTreeMap<u32, (usize, u64)> = measured.collect();
    measured.insert(0, ((tile_of(&plan, 0) + 1) % 7, 100));
    let (_, table) = plan.learned(&CostTable::default(), &measured, &scene.rules);
    assert!(table.validate(scene.manifest.grid()).is_ok());
    let none = CostTable {
        tile_renderers: None,
        ..table.clone()
    };
    assert_ne!(table.digest(), none.digest());
    let is_kept = |plan: &FramePlan, without: Option<usize>| {
        let mut jobs = plan.jobs.iter().enumerate();
        jobs.all(|(j, job)| {
            let (tile, renderer) = (tile_of(plan, j), job.renderer.unwrap());
            let empty = plan.tile_jobs.of_tile(tile).is_empty();
            empty
                || without == Some(tile % 7)
                || plan.peers[renderer].as_str() == format!("peer-{}", tile % 7)
        })
    };
    let seen: BTreeSet<usize> = (0..plan.jobs.len()).map(|j| tile_of(&plan, j)).collect();
    let next = scene.plan(&before, &table);
    assert!(is_kept(&next, None) && !is_kept(&plan, None) && seen.len() > 20);
    assert!(
        (0..next.jobs.len())
            .all(|j| next.jobs[j].renderer == Some(next.tiles[tile_of(&next, j)].compositor))
    );
    // Who is gone has none, and others keep theirs.
    let mut entries = scene.entries.clone();
    entries.remove(3);
    assert!(is_kept(&scene.plan_with(&before, &table, entries), Some(3)));
    // What nobody saw went as planned, and is shared out so now; other tiles, too.
    assert!(
        scene
            .plan(&after, &table)
            .jobs
            .iter()
            .all(|j| j.renderer.is_some())
    );
    scene.rules.division = Division::Image { tile: Some(24) };
    let other = scene.plan(&before, &table);
    scene.rules.tile_sharing = TileSharing::Planned;
    assert_eq!(other.jobs, scene.plan(&before, &table).jobs);
    let (_, forgotten) = plan.learned(&table, &measured, &scene.rules);
    assert!(forgotten.tile_renderers.is_none());
}

#[test]
fn a_queue_of_tiles_has_one_keeper() {
    let mut scene = divided(&opaque(), Some(16));
    scene.rules.tile_sharing = TileSharing::Demand;
    scene.entries[0].fetches = false;
    scene.settings.shadows = true;
    scene.settings.light.direction = Some([1.0, 1.0, 0.0]);
    scene.entries[0].bricks = BrickSet::new(scene.manifest.grid().brick_count());
    let plan = scene.plan(&view(0.3, 1.0), &CostTable::default());
    assert_eq!(plan.keeper, Some(1), "the first that can render any");
    assert!(plan.jobs.iter().all(|j| j.renderer == Some(1)));
    let compositors: BTreeSet<usize> = plan.tiles.iter().map(|t| t.compositor).collect();
    assert_eq!(compositors.len(), 6);
    assert!(plan.schedule.makespan_micros < plan.schedule.loads_micros[1]);
    // Where the volume is divided there is none.
    scene.settings.shadows = false;
    assert_eq!(
        scene.plan(&view(0.3, 1.0), &CostTable::default()).keeper,
        None
    );
}

#[test]
fn rays_from_surfaces_go_through_what_is_seen_and_held_and_whoever_can_fetch_sends_them() {
    let mut scene = divided(&opaque(), Some(16));
    let (view, table) = (view(0.3, 1.0), CostTable::default());
    assert!(scene.plan(&view, &table).casters.is_empty());
    scene.settings.shadows = true;
    scene.settings.light.direction = Some([1.0, 1.0, 0.0]);
    // One cannot fetch, and lacks bricks; of one brick there is no copy.
    let lost = BrickIndex(4);
    scene.entries[2].fetches = false;
    for entry in &mut scene.entries {
        entry.bricks.remove(lost);
    }
    let plan = scene.plan(&view, &table);
    let seen = |b: &BrickIndex| scene.visible.any(*b) && *b != lost;
    let casters: Vec<BrickIndex> = plan.casters.iter().collect();
    let expected: Vec<BrickIndex> = scene.manifest.grid().bricks().filter(seen).collect();
    assert_eq!(casters, expected);
    assert!(plan.image_tile.is_some());
    assert!(plan.jobs.iter().all(|j| j.renderer != Some(2)));
    assert!(plan.holders.iter().all(|holders| !holders.contains(&2)));
    assert!(plan.missing().all(|j| j.brick == lost));
    // What waits of a tile's rays is bounded, whatever its edge.
    scene.settings.ambient_occlusion = Some(AmbientOcclusion {
        rays: 256,
        reach: 1.0,
    });
    scene.rules.division = Division::Image { tile: Some(2048) };
    assert!(
        scene
            .plan(&view, &table)
            .image_tile
            .is_some_and(|edge| edge <= 122)
    );
    // What is rendered depends on other bricks: it is not shared between frames.
    scene.rules.reuse = true;
    assert!(
        scene
            .plan(&view, &table)
            .jobs
            .iter()
            .all(|j| j.content.is_none())
    );
}

fn scene_uncut(mut scene: Scene) -> Scene {
    scene.rules.min_job_micros = u64::MAX;
    scene
}

#[test]
fn jobs_and_tiles_are_bounded_and_a_further_attempt_without_fetching_peers_is_whole() {
    let scene = divided(&opaque(), Some(8));
    let table = CostTable::default();
    let mut view = view(0.3, 1.0);
    (view.width, view.height) = (16_384, 16_384);
    let plan = scene.plan(&view, &table);
    assert!(plan.jobs.len() <= 1 << 15 && plan.tiles.len() <= 1 << 15);
    let small = self::view(0.3, 1.0);
    let first = Roster::new(scene.entries.clone());
    let rendered = BTreeMap::new();
    let earlier = Earlier {
        roster: &first,
        rendered: &rendered,
    };
    let mut left = scene.entries[..5].to_vec();
    left.iter_mut().for_each(|e| e.fetches = false);
    let again = scene.plan_again(&small, &table, left.clone(), Some(earlier));
    assert!(again.image_tile.is_some());
    for job in &again.jobs {
        assert!(left[job.renderer.unwrap()].bricks.contains(job.brick));
    }
}

#[test]
fn what_tiles_took_is_learnt_of_their_bricks() {
    let scene = divided(&opaque(), Some(16));
    let view = view(0.3, 1.0);
    let plan = scene.plan(&view, &CostTable::default());
    // Of one brick half of the parts are measured: the others took as much.
    let first = plan.jobs[0].brick;
    let of_first: Vec<usize> = (0..plan.jobs.len())
        .filter(|&j| plan.jobs[j].brick == first)
        .collect();
    assert!(of_first.len() > 4);
    let mut measured: BTreeMap<usize, u64> = plan
        .jobs
        .iter()
        .enumerate()
        .map(|(j, job)| (j, job.estimate_micros * 10))
        .collect();
    of_first.iter().skip(1).step_by(2).for_each(|j| {
        measured.remove(j);
    });
    let table = plan.costs_after(&CostTable::default(), &measured, Prediction::LastFrame);
    for (brick, tree) in &table.trees {
        let expected: u64 = plan
            .jobs
            .iter()
            .filter(|j| j.brick == *brick)
            .map(|j| j.estimate_micros)
            .sum();
        let learned: u64 = tree.leaf_values().map(|l| l.cost_micros).sum();
        assert!(
            learned.abs_diff(10 * expected) <= expected / 10,
            "{brick:?}: {learned} of {expected}"
        );
    }
}

#[test]
fn pictures_are_divided_once_all_who_take_part_can_fetch() {
    let mut scene = divided(&opaque(), None);
    let view = view(0.3, 1.0);
    let table = CostTable::default();
    scene.entries[2].fetches = false;
    assert_eq!(scene.plan(&view, &table).image_tile, None);
    // Who holds all need not.
    let all = scene.manifest.grid().brick_count();
    scene.entries[2].bricks = BrickSet::all(all);
    assert!(scene.plan(&view, &table).image_tile.is_some());
    // A brick that nobody has is missing, and nothing else.
    let lost = BrickIndex(4);
    for entry in &mut scene.entries {
        entry.bricks.remove(lost);
        entry.fetches = true;
    }
    let plan = scene.plan(&view, &table);
    assert!(plan.missing().count() > 0);
    assert!(plan.missing().all(|j| j.brick == lost));
    // The jobs of a frame stay the same when who renders them does not take part any more.
    let rendered: BTreeMap<u32, PeerId> =
        [(3, PeerId::new("peer-1")), (9, PeerId::new("peer-6"))].into();
    let first = Roster::new(scene.entries.clone());
    let earlier = Earlier {
        roster: &first,
        rendered: &rendered,
    };
    let left = scene.entries[..5].to_vec();
    let again = scene.plan_again(&view, &table, left, Some(earlier));
    assert_eq!(again.image_tile, plan.image_tile);
    let parts = |plan: &FramePlan| {
        plan.jobs
            .iter()
            .map(|j| (j.brick, j.rect))
            .collect::<Vec<_>>()
    };
    assert_eq!(parts(&again), parts(&plan));
    assert!(again.jobs[3].is_rendered && again.jobs[3].renderer == Some(1));
    assert!(!again.jobs[9].is_rendered);
    assert!(again.jobs.iter().all(|j| j.renderer < Some(5)));
}

#[test]
fn a_peer_that_lies_about_times_spoils_no_table() {
    let scene = Scene::new(&TransferFunction::ramp(0.0, 95.0), [SPEED_ONE; 5]);
    let mut table = CostTable::default();
    for lie in [u64::MAX, 0, 1] {
        let plan = scene.plan(&view(0.1, 1.0), &table);
        let measured = plan.jobs.iter().zip(0..).map(|(_, j)| (j, (0, lie)));
        let rules = PlanRules::default();
        let (speeds, next) = plan.learned(&table, &measured.collect(), &rules);
        assert!(next.validate(scene.manifest.grid()).is_ok());
        assert!(speeds.iter().all(|&s| s > 0));
        table = next;
    }
}

/// The plan of a frozen scene after three frames: a change of it between debug and release,
/// machines or versions would let peers disagree.
#[test]
fn every_build_derives_these_bytes() {
    let speeds = [700_000, 1_000_000, 1_100_000, 2_000_000, 400_000];
    let scene = Scene::new(&TransferFunction::ramp(0.0, 95.0), speeds);
    let mut table = CostTable::default();
    let mut plan = scene.plan(&view(0.1, 1.0), &table);
    for frame in 0..3_u32 {
        table = scene.after(&plan, &table, |j| 500 + (j as u64 * 7919) % 20_000);
        plan = scene.plan(&view(0.1 + 0.125 * f64::from(frame), 1.5), &table);
    }
    let found = [plan.digest, table.digest()].map(|d| d.short());
    assert_eq!(found, FROZEN, "{} jobs", plan.jobs.len());
    let mut scene = divided(&TransferFunction::ramp(0.0, 95.0), Some(24));
    for (entry, speed) in scene.entries.iter_mut().zip(speeds) {
        entry.speed_millionths = speed;
    }
    let plan = scene.plan(&view(0.1, 1.5), &table);
    assert_eq!(plan.digest.short(), FROZEN_DIVIDED);
}

const FROZEN: [&str; 2] = ["94f189c8", "15580e9a"];
const FROZEN_DIVIDED: &str = "6235a0c6";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_visible_voxel_is_in_exactly_one_job_whatever_was_measured(
        seed in any::<u64>(), turn in -0.9..0.9f64, near in 0.6..4.0f64,
        low in 0.0..60.0f64, last_frame in any::<bool>(), as_paper in any::<bool>(),
    ) {
        let point = |value, opacity| TransferPoint { value, color: [1.0; 3], opacity };
        let transfer = TransferFunction {
            unit_distance: None,
            points: vec![point(low, 0.0), point(low + 1e-3, 0.3)],
        };
        let mut scene = Scene::new(&transfer, [SPEED_ONE; 5]);
        if as_paper {
            scene.rules.decompose = Strategy::FreyErtl2011;
        }
        if last_frame {
            scene.rules.prediction = Prediction::LastFrame;
        }
        let mut draws = Seeded::new(seed);
        let costs: Vec<u64> = (0..4096).map(|_| 1 + draws.below(30_000)).collect();
        let mut table = CostTable::default();
        for frame in 0..3_u32 {
            let view = view(turn + 0.03 * f64::from(frame), near);
            let plan = scene.plan(&view, &table);
            check_cover(&scene, &view, &plan);
            // Another order of the same peers is the same plan.
            let mut entries = scene.entries.clone();
            draws.shuffle(&mut entries);
            prop_assert_eq!(&scene.plan_with(&view, &table, entries), &plan);
            table = scene.after(&plan, &table, |j| costs[j % costs.len()]);
        }
    }
}

/// Jobs do not overlap, each is with a holder of its brick, and what no job owns is off the
/// screen or transparent.
fn check_cover(scene: &Scene, view: &View, plan: &FramePlan) {
    let grid = scene.manifest.grid();
    let volume = scene.manifest.volume();
    for (i, a) in plan.jobs.iter().enumerate() {
        assert!(grid.owned_box(a.brick).contains_box(&a.owned));
        let renderer = a.renderer.unwrap();
        assert!(scene.entries[renderer].bricks.contains(a.brick));
        for b in &plan.jobs[i + 1..] {
            assert!(a.owned.intersection(&b.owned).is_empty());
        }
    }
    for brick in grid.bricks() {
        let owned = grid.owned_box(brick);
        for z in (owned.lo[2]..owned.hi[2]).step_by(7) {
            for y in (owned.lo[1]..owned.hi[1]).step_by(7) {
                for x in (owned.lo[0]..owned.hi[0]).step_by(3) {
                    let voxel = [x, y, z];
                    let one = VoxelBox::new(voxel, voxel.map(|v| v + 1));
                    let seen = view.rect_of(volume, &one).is_some()
                        && scene.visible.share(grid, brick, &one) > 0.0;
                    let owners = plan.jobs.iter().filter(|j| j.owned.contains(voxel));
                    let owners = owners.count();
                    assert!(
                        owners == 1 || (owners == 0 && !seen),
                        "{voxel:?}: {owners} jobs, seen {seen}"
                    );
                }
            }
        }
    }
}
