//! What importing does with each voxel: of a slice of 512² voxels, and of a brick of 64³ with its ghosts.

use brickmesh_topology::{
    BrickGrid, BrickIndex, VolumeDescription, VoxelType,
    data::{
        brick_table::BrickRecord,
        gradient_histogram::GradientGathering,
        levels::{Halving, coarser},
        number_rows::numbers_of,
        value_gathering::ValueGathering,
    },
};
use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;

const EDGE: u32 = 512;

fn importing(c: &mut Criterion) {
    for voxel in [VoxelType::U8, VoxelType::U16, VoxelType::F32] {
        let volume = VolumeDescription::new([EDGE; 3], voxel);
        let mut row = Vec::new();
        // Smooth, of some hundred values.
        (0..EDGE).for_each(|x| voxel.append(f64::from(x / 2), &mut row));
        let mut group = c.benchmark_group(voxel.name());
        group.bench_function("values of a slice", |b| {
            let mut gathering = ValueGathering::new(&volume);
            b.iter(|| (0..EDGE).for_each(|y| gathering.row(y, 7, black_box(&row))));
        });
        group.bench_function("a slice halved", |b| {
            let level = coarser(&volume, 64).expect("it is longer than a brick");
            let (mut halving, mut numbers) = (Halving::new(&volume, &level), Vec::new());
            b.iter(|| {
                for y in 0..EDGE {
                    numbers_of(&volume, black_box(&row), &mut numbers);
                    halving.row(y, &numbers);
                }
                halving.end_slice(1, &mut Vec::new())
            });
        });
        let grid = BrickGrid::new([EDGE; 3], 64).expect("a grid");
        let brick = BrickIndex(grid.brick_count() / 2 + 4);
        let count = grid.stored_box(brick).voxel_count();
        let mut bytes = Vec::new();
        (0..count).for_each(|i| voxel.append((i % 251) as f64, &mut bytes));
        group.bench_function("record of a brick", |b| {
            b.iter(|| BrickRecord::of(&grid, brick, &volume, black_box(&bytes)));
        });
        group.bench_function("gradients of a brick", |b| {
            let gathering = GradientGathering::new(&volume);
            b.iter(|| gathering.of_brick(&grid, brick, black_box(&bytes)));
        });
        group.finish();
    }
}

criterion_group!(benches, importing);
criterion_main!(benches);
