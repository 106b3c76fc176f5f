//! Triangles in volumes: pictures against the float64 reference, and the same however they are parted among peers.

use brickmesh_shaders::{RenderDevice, device::vulkan::VulkanDevice};
use brickmesh_tests::{
    compare::{compare, to_rgba8},
    facets::{bricks, facets},
    mesh::{MakeDevice, Mesh, cpu, picture, scalar},
    reference::{Field, render_with},
    scenes::{clipped, looks, mode_fields, views},
    skip::vulkan_is_there,
};
use brickmesh_topology::{
    RenderSettings, View,
    balance::plan_rules::{Division, PlanRules},
    picture::render_settings::Mode,
};
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
        let facets = facets(&field);
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
