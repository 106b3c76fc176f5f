//! The fixed cost of a frame: of one in which nothing can be seen, and of one of 64² pixels, by meshes of
//! 1, 4 and 8 peers in one process, whose devices have one thread each.

use brickmesh_tests::{
    mesh::{Mesh, cpu},
    volumes::{Bricks, waves},
};
use brickmesh_topology::{Camera, RenderSettings, TransferFunction, VoxelType};
use criterion::{Criterion, criterion_group, criterion_main};
use std::sync::Arc;

fn frame_cost(c: &mut Criterion) {
    let system = actix::System::new();
    let field = waves([32; 3], VoxelType::U8, false);
    let view = Camera::whole(&field.volume).view(64, 64);
    let view = view.expect("a view of the volume");
    let shown = RenderSettings {
        shade: false,
        ..RenderSettings::new(TransferFunction::ramp(100.0, 250.0), 0.5)
    };
    let nothing = RenderSettings {
        transfer: TransferFunction::ramp(1_000.0, 2_000.0),
        ..shown.clone()
    };
    let mut group = c.benchmark_group("frame_cost");
    for peers in [1, 4, 8] {
        let bricks = Arc::new(Bricks::cut(&field, 16));
        let mesh = system.block_on(Mesh::start(peers, 1, bricks, &cpu));
        for (name, settings) in [("nothing_visible", &nothing), ("64x64", &shown)] {
            let frame = || system.block_on(mesh.frame_from(0, view, settings));
            let jobs = frame().expect("a frame").stats.jobs.len();
            assert_eq!(jobs == 0, name == "nothing_visible", "{jobs} jobs");
            group.bench_function(format!("{name}/{peers}_peers"), |b| {
                b.iter(|| frame().expect("a frame"));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, frame_cost);
criterion_main!(benches);
