//! Decisions of a frame and of a placement, at lab and at hall size.

use brickmesh_topology::{
    BrickGrid, VoxelBox,
    balance::{
        placement::{
            PlacementMethod, deal,
            drift::{Sharer, drifted},
            place, shares,
        },
        schedule::{BUDGET_DEFAULT, SPEED_ONE, ScheduledJob, best_fit, lower_bound, refined},
    },
    data::brick_set::BrickSet,
    picture::depth_order::front_to_back,
};
use criterion::{Criterion, criterion_group, criterion_main};
use glam::DVec3;
use std::hint::black_box;

fn jobs(count: usize, devices: usize) -> Vec<ScheduledJob> {
    let job = |j: usize| ScheduledJob {
        cost_micros: 500 + (j as u64 * 7919) % 9000,
        holders: {
            let mut holders: Vec<usize> = (0..3).map(|c| (j * 31 + c * 17) % devices).collect();
            holders.sort_unstable();
            holders.dedup();
            holders
        },
    };
    (0..count).map(job).collect()
}

fn decisions(c: &mut Criterion) {
    let many = jobs(512, 64);
    c.bench_function("schedule/512_jobs_64_devices", |b| {
        b.iter(|| best_fit(black_box(&many), &[SPEED_ONE; 64]));
    });
    // Devices of different speeds, where the search uses its whole budget.
    let speeds: Vec<u64> = (0..64).map(|d| SPEED_ONE + d * 5 % 8 * SPEED_ONE).collect();
    c.bench_function("schedule/best_fit/512_jobs_64_devices", |b| {
        b.iter(|| best_fit(black_box(&many), black_box(&speeds)));
    });
    c.bench_function("schedule/lower_bound/512_jobs_64_devices", |b| {
        b.iter(|| lower_bound(black_box(&many), black_box(&speeds)));
    });
    c.bench_function("schedule/refined/512_jobs_64_devices", |b| {
        b.iter(|| refined(black_box(&many), black_box(&speeds), BUDGET_DEFAULT));
    });
    let rooms = shares(4096, &[200; 64], 3);
    c.bench_function("placement/4096_bricks_64_devices", |b| {
        b.iter(|| deal(4096, black_box(&rooms), 1))
    });
    let grid = BrickGrid::new([1024; 3], 64).expect("a grid");
    let mut swaps = c.benchmark_group("placement/swap");
    swaps.sample_size(10);
    for method in PlacementMethod::ALL {
        let name = format!("4096_bricks_64_devices/{method:?}");
        swaps.bench_function(name, |b| {
            b.iter(|| place(&grid, black_box(&[200; 64]), method, 1))
        });
    }
    swaps.finish();
    for devices in [64_u64, 1024] {
        // Half of the volume is seen; parts are scattered, so that all devices touch each other.
        let weights: Vec<u64> = grid.bricks().map(|b| u64::from(b.0 < 2048)).collect();
        let sharer = |d: u64| {
            let mut renders = BrickSet::new(4096);
            let its = grid
                .bricks()
                .filter(|b| u64::from(b.0) * 7919 % 4093 % devices == d);
            its.for_each(|b| {
                renders.insert(b);
            });
            Sharer {
                share: 1 + d % 4,
                keeps: renders.clone(),
                renders,
                room: 64,
            }
        };
        let sharers: Vec<Sharer> = (0..devices).map(sharer).collect();
        c.bench_function(&format!("drift/4096_bricks_{devices}_devices"), |b| {
            b.iter(|| drifted(&grid, black_box(&weights), sharers.clone()))
        });
    }
    let boxes: Vec<VoxelBox> = grid.bricks().map(|b| grid.owned_box(b)).collect();
    let eye = DVec3::new(500.0, -2000.0, 300.0);
    c.bench_function("visibility/4096_bricks", |b| {
        b.iter(|| front_to_back(black_box(&boxes), eye))
    });
}

criterion_group!(benches, decisions);
criterion_main!(benches);
