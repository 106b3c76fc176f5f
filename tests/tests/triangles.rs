//! Triangles in volumes: pictures against the float64 reference, and the same however they are parted among peers.

use brickmesh_shaders::{RenderDevice, device::vulkan::VulkanDevice};
use brickmesh_tests::{
    compare::{compare, to_rgba8},
    mesh::{MakeDevice, Mesh, cpu, picture, scalar},
    reference::{Facet, Field, render_with},
    scenes::{clipped, looks, mode_fields, views},
    skip::vulkan_is_there,
    volumes::Bricks,
};
use brickmesh_topology::{
    RenderSettings, View,
    balance::plan_rules::{Division, PlanRules},
    data::triangles::{Material, PackedNormal, Triangle},
    picture::render_settings::Mode,
};
use glam::DVec3;
use std::sync::Arc;

/// Rows and columns of a sphere.
const PARTS: u32 = 14;

/// A surface that is cut by the volume's border: a sphere of corners with normals of a sphere, and a plane.
fn facets(field: &Field) -> Vec<(Facet, u32)> {
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

fn bricks(field: &Field, edge: u32) -> Arc<Bricks> {
    let triangles = triangles(field, &facets(field));
    Arc::new(Bricks::cut(field, edge).with_triangles(&triangles, &materials()))
}

/// Looks in which triangles are seen, one of them clipped.
fn surface_looks(field: &Field) -> Vec<(&'static str, RenderSettings)> {
    let mut all = looks(field);
    all.retain(|(_, settings)| settings.shows_triangles());
    for (_, settings) in &mut all {
        // As much is seen behind the samples before them.
        settings
            .transfer
            .points
            .iter_mut()
            .for_each(|p| p.opacity *= 0.05);
    }
    let (_, first) = all[0].clone();
    all.push(("clipped", clipped(field, first)));
    assert!(all.iter().any(|(_, s)| s.mode == Mode::Iso) && all.len() > 5);
    all
}

#[test]
fn triangles_are_where_the_reference_has_them() {
    for (name, field) in mode_fields() {
        let views = views(&field);
        let facets: Vec<Facet> = facets(&field).into_iter().map(|(f, _)| f).collect();
        let mut all_seen = 0.0;
        for (n, (look, settings)) in surface_looks(&field).into_iter().enumerate() {
            let (eye, view) = views[n % views.len()];
            let expected = to_rgba8(&render_with(&field, &facets, &view, &settings));
            let without = to_rgba8(&render_with(&field, &[], &view, &settings));
            let seen = compare(&expected, &without).over_4;
            assert!(seen > 0.0, "{name}, {look}, {eye}: they are seen");
            all_seen += seen;
            for (kernel, device) in [("packets", &cpu as MakeDevice<'_>), ("scalar", &scalar)] {
                let found = picture(bricks(&field, 128), 1, device, view, &settings);
                let d = compare(&expected, &found);
                // On a silhouette a ray that is rounded may miss.
                assert!(
                    d.over_1 <= 0.004 && d.psnr >= 45.0,
                    "{name}, {look}, {eye}, {kernel}: {d:?}"
                );
            }
        }
        // Of nine pictures.
        assert!(all_seen > 0.5, "{name}: {all_seen}");
    }
}

/// One peer with one brick, against several by both strategies.
fn parted_alike(field: &Field, device: MakeDevice<'_>, case: (View, &RenderSettings), what: &str) {
    let (view, settings) = case;
    let one = picture(bricks(field, 128), 1, device, view, settings);
    for division in [Division::SortLast, Division::Image { tile: Some(24) }] {
        let many = actix::System::new().block_on(async {
            let mut mesh = Mesh::start(5, 2, bricks(field, 16), device).await;
            mesh.rules = PlanRules {
                division,
                ..PlanRules::default()
            };
            mesh.picture(view, settings).await
        });
        let d = compare(&one, &many);
        assert!(d.max <= 1, "{what}, {division:?}: {d:?}");
    }
}

#[test]
fn however_they_are_parted_triangles_are_seen_once() {
    for (name, field) in mode_fields() {
        let views = views(&field);
        for (n, (look, settings)) in surface_looks(&field).into_iter().enumerate() {
            let (eye, view) = views[(n + 1) % views.len()];
            parted_alike(
                &field,
                &cpu,
                (view, &settings),
                &format!("{name}, {look}, {eye}"),
            );
        }
    }
}

#[test]
fn on_vulkan_triangles_are_those_of_the_processor_but_for_roundings() {
    if !vulkan_is_there("on_vulkan_triangles_are_those_of_the_processor_but_for_roundings") {
        return;
    }
    let vulkan =
        || -> Box<dyn RenderDevice> { Box::new(VulkanDevice::new(None, Some(256 << 20)).unwrap()) };
    for (name, field) in mode_fields().into_iter().take(2) {
        let views = views(&field);
        for (n, (look, settings)) in surface_looks(&field).into_iter().enumerate() {
            let (eye, view) = views[n % views.len()];
            let what = format!("{name}, {look}, {eye}");
            let one = picture(bricks(&field, 128), 1, &cpu, view, &settings);
            let (edge, peers) = [(128, 1), (32, 3)][n % 2];
            let found = picture(bricks(&field, edge), peers, &vulkan, view, &settings);
            let d = compare(&one, &found);
            // On a silhouette a ray that is rounded may miss.
            assert!(
                d.over_1 <= 0.004 && d.psnr >= 40.0,
                "{what}, bricks of {edge}: {d:?}"
            );
        }
    }
}
