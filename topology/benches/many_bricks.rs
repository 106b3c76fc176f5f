//! What a peer decides while the bricks of a data set come, of which there are many: all of it, from the first to the last one.

use brickmesh_topology::{
    Manifest, PeerId, VolumeDescription, VoxelType,
    data::{brick_bytes::BrickBytes, manifest::ManifestParts},
    mesh::keeper::{Hello, Keeper, KeeperInput, KeeperOutput, LoadResult, Sharing, TICK_MICROS},
};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use std::{collections::VecDeque, sync::Arc};

/// Edge of the bricks, voxels.
const EDGE: u32 = 4;

fn manifest(bricks_on_an_edge: u32) -> Arc<Manifest> {
    let volume = VolumeDescription::new([EDGE * bricks_on_an_edge; 3], VoxelType::U8);
    let parts = ManifestParts::cut(volume, EDGE, "bench", |stored| {
        let count = usize::try_from(stored.voxel_count()).unwrap_or(0);
        vec![u8::try_from(stored.lo[0] % 256).unwrap_or(0); count]
    });
    Arc::new(Manifest::try_from(parts.expect("a grid")).expect("a manifest"))
}

/// A peer that is alone takes all bricks; how many came.
fn load_all(mut keeper: Keeper, manifest: &Arc<Manifest>) -> u32 {
    let mut inputs = VecDeque::from([KeeperInput::Offer(Arc::clone(manifest), 1)]);
    let (mut came, mut now) = (0, 0);
    while came < manifest.grid().brick_count() {
        let input = inputs.pop_front().unwrap_or_else(|| {
            now += TICK_MICROS;
            KeeperInput::Tick
        });
        let mut out = Vec::new();
        keeper.step(now, input, &mut out);
        for output in out {
            if let KeeperOutput::Load(data_set, brick, _) = output {
                came += 1;
                inputs.push_back(KeeperInput::Loaded(data_set, brick, LoadResult::Done));
            }
        }
    }
    came
}

fn many_bricks(c: &mut Criterion) {
    let mut group = c.benchmark_group("all bricks come");
    group.sample_size(10);
    for bricks_on_an_edge in [16, 32] {
        let manifest = manifest(bricks_on_an_edge);
        let hello = Hello {
            name: String::new(),
            device: String::new(),
            is_device_lost: false,
            memory_bytes: u64::MAX / 2,
            shelf_bytes: 0,
            sharing: Sharing::Object,
            version: String::new(),
            is_viewer: false,
        };
        let keeper = || {
            let local = PeerId::new("peer");
            Keeper::new(local, hello.clone(), BrickBytes::default(), 1)
        };
        group.bench_function(format!("{}", manifest.grid().brick_count()), |b| {
            let all = |keeper| load_all(keeper, &manifest);
            b.iter_batched(keeper, all, BatchSize::LargeInput);
        });
    }
    group.finish();
}

criterion_group!(benches, many_bricks);
criterion_main!(benches);
