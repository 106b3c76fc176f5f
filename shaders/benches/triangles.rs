//! How fast rays find triangles, and how long a tree takes to build: a bumpy sphere of 82 thousand and 1.3 million
//! triangles, 512×512 rays from outside. `tests/peers/triangles_beside_embree.py` has Embree do the same.

use brickmesh_shaders::triangle_tree::{TriangleRay, TriangleTree, by_leaves};
use brickmesh_topology::data::triangles::{PackedNormal, Triangle, TriangleOrder};
use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use glam::{DVec3, Vec3};

/// Rays on each axis.
const PIXELS: u32 = 512;

/// 20 · 4ⁿ triangles on a sphere of radius 100, whose corners are moved by waves.
fn bumpy_sphere(divisions: u32) -> Vec<Triangle> {
    let g = f32::midpoint(1.0, 5_f32.sqrt());
    let places = [[-1.0, g], [1.0, g], [-1.0, -g], [1.0, -g]].map(|[a, b]| Vec3::new(a, b, 0.0));
    let turned =
        |n: usize| move |p: Vec3| [p, Vec3::new(p.z, p.x, p.y), Vec3::new(p.y, p.z, p.x)][n];
    let places: Vec<Vec3> = (0..3).flat_map(|n| places.map(turned(n))).collect();
    let mut all = Vec::new();
    // The faces of an icosahedron: three corners that are 2 apart.
    for (i, a) in places.iter().enumerate() {
        for (j, b) in places.iter().enumerate().skip(i + 1) {
            for c in &places[j + 1..] {
                let sides = [*a - *b, *b - *c, *c - *a];
                if sides.iter().all(|side| side.length() < 2.1) {
                    all.push([*a, *b, *c]);
                }
            }
        }
    }
    for _ in 0..divisions {
        let quarters = |[a, b, c]: &[Vec3; 3]| {
            let [ab, bc, ca] = [*a + *b, *b + *c, *c + *a].map(|p| p * 0.5);
            [[*a, ab, ca], [ab, *b, bc], [ca, bc, *c], [ab, bc, ca]]
        };
        all = all.iter().flat_map(quarters).collect();
    }
    let bumpy = |p: Vec3| {
        let n = p.normalize();
        n * (100.0 + 4.0 * (9.0 * n.x).sin() * (7.0 * n.y).cos() + 2.0 * (31.0 * n.z).sin())
    };
    let triangle = |corners: [Vec3; 3]| Triangle {
        corners: corners.map(bumpy),
        normals: corners.map(PackedNormal::new),
        material: 0,
    };
    all.into_iter().map(triangle).collect()
}

fn rays() -> Vec<TriangleRay> {
    let eye = DVec3::new(250.0, -290.0, 170.0);
    let forward = -eye.normalize();
    let right = forward.cross(DVec3::Z).normalize();
    let up = right.cross(forward);
    let at = |n: u32| ((f64::from(n) + 0.5) * 2.0 / f64::from(PIXELS) - 1.0) * 0.3;
    let ray = |n: u32| TriangleRay {
        eye,
        direction: (forward + right * at(n % PIXELS) - up * at(n / PIXELS)).normalize(),
        way: [0.0, f64::INFINITY],
        points: [DVec3::NEG_INFINITY, DVec3::INFINITY],
    };
    (0..PIXELS * PIXELS).map(ray).collect()
}

fn triangles(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("triangles");
    group.sample_size(10);
    let rays = rays();
    // The first are as many as a brick has.
    for divisions in [3, 6, 8] {
        let all = bumpy_sphere(divisions);
        let count = all.len();
        let mut bytes = Vec::new();
        all.iter().for_each(|t| t.append(&mut bytes));
        group.bench_function(format!("order of {count}"), |b| {
            b.iter(|| by_leaves(&bytes))
        });
        let bytes = Bytes::from(by_leaves(&bytes));
        let tree = || TriangleTree::new(bytes.clone(), TriangleOrder::ByLeaves);
        group.bench_function(format!("tree of {count}"), |b| b.iter(tree));
        let tree = tree();
        for (what, opaque) in [("first hits", true), ("all hits", false)] {
            let name = format!("{what} of {} rays, {count} triangles", rays.len());
            group.bench_function(name, |b| {
                b.iter(|| {
                    let mut hits = Vec::new();
                    let met = rays.iter().filter(|ray| {
                        tree.hits(ray, &|_| opaque, &mut hits);
                        !hits.is_empty()
                    });
                    met.count()
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, triangles);
criterion_main!(benches);
