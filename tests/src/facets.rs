//! Surfaces of triangles that stand in volumes, as the reference and as bricks have them.

use crate::{
    reference::{Facet, Field},
    volumes::Bricks,
};
use brickmesh_topology::data::triangles::{Material, PackedNormal, Triangle};
use glam::DVec3;
use std::sync::Arc;

/// Rows and columns of a sphere.
const PARTS: u32 = 14;

/// With the number of the material of each.
fn numbered(field: &Field) -> Vec<(Facet, u32)> {
    let center = field.volume.center_in_world();
    let radius = 0.33 * field.volume.diagonal();
    let spot = |i: u32, j: u32| {
        let (a, b) = (
            std::f64::consts::PI * f64::from(i) / f64::from(PARTS),
            std::f64::consts::TAU * f64::from(j % PARTS) / f64::from(PARTS),
        );
        DVec3::new(a.sin() * b.cos(), a.sin() * b.sin(), a.cos())
    };
    let mut all = Vec::new();
    let mut add = |corners: [DVec3; 3], normals: [DVec3; 3], material: u32| {
        let Material { color, opacity, .. } = &materials()[material as usize];
        let facet = Facet {
            corners,
            normals,
            color: color.map(f64::from),
            opacity: f64::from(*opacity),
        };
        all.push((facet, material));
    };
    for i in 0..PARTS {
        for j in 0..PARTS {
            let [a, b, c, d] = [
                spot(i, j),
                spot(i + 1, j),
                spot(i + 1, j + 1),
                spot(i, j + 1),
            ];
            for of in [[a, b, c], [a, c, d]] {
                add(of.map(|n| center + n * radius), of, 0);
            }
        }
    }
    // Larger than the volume.
    let (x, y) = (
        DVec3::new(2.0, 0.3, 0.7) * radius,
        DVec3::new(-0.4, 2.0, 0.2) * radius,
    );
    let normal = x.cross(y).normalize();
    let at = center + normal * 0.05 * radius;
    let corners = [at - x - y, at + x - y, at + x + y, at - x + y];
    add([corners[0], corners[1], corners[2]], [normal; 3], 1);
    add([corners[0], corners[2], corners[3]], [normal; 3], 1);
    all
}

fn materials() -> [Material; 2] {
    let material = |name: &str, color, opacity| Material {
        name: name.to_owned(),
        color,
        opacity,
    };
    [
        material("sphere", [0.9, 0.5, 0.2], 0.35),
        material("plane", [0.2, 0.6, 0.9], 1.0),
    ]
}

/// Those of a volume: a sphere of corners with normals of a sphere, and a plane, which the volume's border cuts.
#[must_use]
pub fn facets(field: &Field) -> Vec<Facet> {
    numbered(field)
        .into_iter()
        .map(|(facet, _)| facet)
        .collect()
}

/// The triangles of facets, in the grid.
fn triangles(field: &Field, facets: &[(Facet, u32)]) -> Vec<Triangle> {
    let grid_from_world = field.volume.grid_from_world();
    let to_grid = field.volume.world_from_grid().matrix3.transpose();
    let of = |(facet, material): &(Facet, u32)| Triangle {
        corners: facet
            .corners
            .map(|p| grid_from_world.transform_point3(p).as_vec3()),
        normals: facet
            .normals
            .map(|n| PackedNormal::new((to_grid * n).normalize().as_vec3())),
        material: *material,
    };
    facets.iter().map(of).collect()
}

/// A volume with them in bricks of this edge.
#[must_use]
pub fn bricks(field: &Field, edge: u32) -> Arc<Bricks> {
    let triangles = triangles(field, &numbered(field));
    Arc::new(Bricks::cut(field, edge).with_triangles(&triangles, &materials()))
}
