//! What every peer does before it renders: the plan of a frame, from costs that were measured.

use brickmesh_topology::{
    Camera, Manifest, PeerId, RenderSettings, TransferFunction, VolumeDescription, VoxelType,
    balance::{
        cost_table::CostTable,
        frame_plan::{FramePlan, PlanInputs},
        placement::{deal, shares},
        plan_rules::PlanRules,
        roster::{Roster, RosterEntry},
    },
    data::{brick_set::BrickSet, manifest::ManifestParts},
    picture::visible_cells::VisibleCells,
};
use criterion::{Criterion, criterion_group, criterion_main};
use std::{collections::BTreeMap, hint::black_box};

/// A cube of bricks of 32 voxels, of 8 where they are many; values rise with x.
fn manifest(bricks_on_an_edge: u32) -> Manifest {
    let brick = if bricks_on_an_edge < 16 { 32 } else { 8 };
    let edge = brick * bricks_on_an_edge;
    let volume = VolumeDescription::new([edge; 3], VoxelType::U8);
    let parts = ManifestParts::cut(volume, brick, "bench", |stored| {
        let [nx, ny, nz] = stored.size();
        let value = |i: u32| u8::try_from((stored.lo[0] + i % nx) * 255 / edge).unwrap_or(255);
        (0..nx * ny * nz).map(value).collect()
    });
    Manifest::try_from(parts.expect("a grid")).expect("a manifest")
}

fn roster(bricks: u32, peers: usize, copies: u32) -> Roster {
    let rooms = shares(bricks, &vec![bricks; peers], copies);
    let held: Vec<BrickSet> = deal(bricks, &rooms, 1);
    Roster::new(
        held.into_iter()
            .enumerate()
            .map(|(n, bricks)| RosterEntry::new(PeerId::new(&format!("peer-{n:02}")), bricks)),
    )
}

fn plans(c: &mut Criterion) {
    for (edge, peers, copies) in [
        (8, 1, 3),
        (4, 8, 3),
        (4, 8, 8),
        (6, 8, 3),
        (6, 64, 3),
        (40, 3, 1),
    ] {
        let manifest = manifest(edge);
        let transfer = TransferFunction::ramp(0.0, 255.0);
        let settings = RenderSettings::new(transfer, 0.5);
        let visible = VisibleCells::of(&manifest, &settings);
        let bricks = manifest.grid().brick_count();
        let roster = roster(bricks, peers, copies);
        let view = Camera::whole(manifest.volume())
            .view(1024, 1024)
            .expect("a view");
        let rules = PlanRules::default();
        let derive = |costs: &CostTable| {
            FramePlan::derive(&PlanInputs {
                manifest: &manifest,
                view: &view,
                settings: &settings,
                visible: &visible,
                roster: &roster,
                costs,
                rules: &rules,
                earlier: None,
            })
            .expect("a plan")
        };
        let mut costs = CostTable::default();
        for _ in 0..3 {
            let plan = derive(&costs);
            // Bricks cost 2 to 20 ms, their jobs a share of it: after a few frames the cut is
            // steady, as it is while a camera moves.
            let cost = |j: usize| {
                let job = &plan.jobs[j];
                let brick = 2_000 + u64::from(job.brick.0) * 7919 % 18_000;
                brick * job.owned.voxel_count() / manifest.grid().owned_box(job.brick).voxel_count()
            };
            let measured: BTreeMap<usize, u64> =
                (0..plan.jobs.len()).map(|j| (j, cost(j))).collect();
            costs = plan.costs_after(&costs, &measured, rules.prediction);
        }
        let name = format!("frame_plan/{bricks}_bricks_{peers}_peers_{copies}_copies");
        c.bench_function(&name, |b| b.iter(|| derive(black_box(&costs))));
    }
}

criterion_group!(benches, plans);
criterion_main!(benches);
