//! Shadows, ambient occlusion and reflections of surfaces: pictures against the float64 reference, and the same however bricks lie.

use brickmesh_actors::data_set::BrickSource;
use brickmesh_shaders::{
    RenderDevice,
    device::{cpu::CpuDevice, vulkan::VulkanDevice},
};
use brickmesh_tests::{
    compare::{compare, to_rgba8},
    facets::{bricks, facets},
    mesh::{MakeDevice, Mesh, cpu, pages, peer_id, scalar},
    reference::{Field, render_with},
    scenes::{looks, mode_fields, views},
    skip::vulkan_is_there,
};
use brickmesh_topology::{
    RenderSettings, View,
    balance::plan_rules::{Division, PlanRules},
    picture::{
        finish::Finish,
        render_settings::Mode,
        surface_rays::{AmbientOcclusion, Reflections},
    },
};
use std::{collections::BTreeSet, num::NonZeroUsize, sync::Arc};

fn divided(tile: Option<u32>) -> PlanRules {
    PlanRules {
        division: Division::Image { tile },
        ..PlanRules::default()
    }
}

/// Looks with surfaces that are lit from aside: by turns with shadows, with ambient occlusion, and with both.
fn lit_looks(field: &Field) -> Vec<(&'static str, RenderSettings)> {
    let mut all = looks(field);
    all.retain(|(_, settings)| settings.shows_triangles());
    let reach = 0.15 * field.volume.diagonal();
    for (n, (_, settings)) in all.iter_mut().enumerate() {
        let points = &mut settings.transfer.points;
        // As much is seen behind the samples before them.
        points.iter_mut().for_each(|p| p.opacity *= 0.05);
        settings.shade = true;
        settings.shadows = n % 3 != 1;
        settings.light.ambient = 0.5;
        settings.light.direction = Some([0.7, 0.5, 0.4]);
        let rays = if n % 2 == 0 { 2 } else { 5 };
        settings.ambient_occlusion = (n % 3 != 0).then_some(AmbientOcclusion { rays, reach });
        let (depth, part) = [(1, 0.5), (2, 0.25)][n / 2 % 2];
        settings.reflections = (n % 2 == 1).then_some(Reflections { depth, part });
        assert!(settings.has_secondary_rays());
    }
    assert!(all.iter().any(|(_, s)| s.mode == Mode::Iso) && all.len() > 4);
    all
}

/// The same without rays that go on.
fn without(settings: &RenderSettings) -> RenderSettings {
    RenderSettings {
        shadows: false,
        ambient_occlusion: None,
        reflections: None,
        ..settings.clone()
    }
}

/// The picture of peers with bricks of this edge.
fn picture(
    field: &Field,
    (edge, peers): (u32, usize),
    device: MakeDevice<'_>,
    (view, settings): (View, &RenderSettings),
) -> Vec<u8> {
    actix::System::new().block_on(async {
        let mut mesh = Mesh::start(peers, 2, bricks(field, edge), device).await;
        mesh.rules = divided((peers > 1).then_some(24));
        mesh.picture(view, settings).await
    })
}

#[test]
fn surfaces_are_dimmed_as_the_reference_says() {
    for (name, field) in mode_fields() {
        let (views, facets) = (views(&field), facets(&field));
        let mut dimmed = 0.0;
        for (n, (look, settings)) in lit_looks(&field).into_iter().enumerate() {
            let (eye, mut view) = views[n % views.len()];
            // The reference takes its time, for reflections most of all.
            (view.width, view.height) = match settings.reflections {
                Some(_) => (30, 26),
                None => (40, 34),
            };
            let what = format!("{name}, {look}, {eye}");
            let expected = to_rgba8(&render_with(&field, &facets, &view, &settings));
            let bright = to_rgba8(&render_with(&field, &facets, &view, &without(&settings)));
            let d = compare(&expected, &bright);
            assert!(d.over_1 > 0.0, "{what}: it is seen");
            dimmed += d.over_4;
            for (kernel, device) in [("packets", &cpu as MakeDevice<'_>), ("scalar", &scalar)] {
                let found = picture(&field, (128, 1), device, (view, &settings));
                let d = compare(&expected, &found);
                // A ray that is rounded may miss what is in its way.
                assert!(
                    d.over_1 <= 0.01 && d.psnr >= 45.0,
                    "{what}, {kernel}: {d:?}"
                );
            }
        }
        assert!(dimmed > 0.5, "{name}: {dimmed} of all pictures");
    }
}

#[test]
fn however_bricks_lie_surfaces_are_dimmed_alike() {
    for (name, field) in mode_fields() {
        let views = views(&field);
        for (n, (look, settings)) in lit_looks(&field).into_iter().enumerate() {
            let (eye, view) = views[(n + 1) % views.len()];
            let one = picture(&field, (128, 1), &cpu, (view, &settings));
            let many = picture(&field, (16, 5), &cpu, (view, &settings));
            let d = compare(&one, &many);
            assert!(d.max <= 1, "{name}, {look}, {eye}: {d:?}");
        }
    }
}

#[test]
fn rays_go_on_through_bricks_that_are_fetched() {
    let (_, field) = mode_fields().swap_remove(0);
    let (_, view) = views(&field).swap_remove(0);
    let source = bricks(&field, 16);
    let (bytes, count) = {
        let manifest = source.manifest();
        (
            manifest.largest_brick_bytes(),
            manifest.grid().brick_count(),
        )
    };
    for (look, settings) in lit_looks(&field).into_iter().take(3) {
        let one = picture(&field, (128, 1), &cpu, (view, &settings));
        // Room for two thirds of the bricks, and for few beside those that are held.
        for (room, is_paged) in [
            (2 * count / 3, false),
            (count / 3 + 2, false),
            (count / 2, true),
        ] {
            actix::System::new().block_on(async {
                let supply = |_: usize| {
                    let bytes = bytes * u64::from(room);
                    if is_paged {
                        return pages(bytes);
                    }
                    let device = CpuDevice::new(Some(NonZeroUsize::MIN), bytes).unwrap();
                    (Box::new(device) as Box<dyn RenderDevice>).into()
                };
                let source: Arc<dyn BrickSource> = source.clone();
                let mut mesh = Mesh::start_supplied(4, 1, source, &supply, &|bus| bus).await;
                // A brick is asked for by who renders its jobs, and for rays.
                mesh.rules = PlanRules {
                    steal: false,
                    ..divided(Some(24))
                };
                let frame = mesh.frame_from(0, view, &settings).await.unwrap();
                assert_eq!(frame.stats.missing, []);
                assert!(frame.stats.image_tile.is_some());
                // Of each peer: bricks that were asked for, and those of the jobs that it rendered.
                let accesses = frame.stats.accesses.values();
                let [missed, asked_for] = accesses.fold([0, 0], |[fetched, all], a| {
                    let missed = a.missed;
                    [fetched + missed, all + missed + a.cached + a.held]
                });
                let jobs = frame.stats.jobs.iter();
                let of_jobs: BTreeSet<_> = jobs.map(|j| (&j.peer, j.brick)).collect();
                assert!(
                    missed > 0 && asked_for > u32::try_from(of_jobs.len()).unwrap(),
                    "{look}, {is_paged}: rays go on elsewhere"
                );
                let found = mesh.picture(view, &settings).await;
                let d = compare(&one, &found);
                assert!(
                    d.max <= 1,
                    "{look}, room for {room} of {count}, {is_paged}: {d:?}"
                );
            });
        }
    }
}

/// A Vulkan device, and one as on GPUs with a coarse sampler and memory of their own.
fn vulkan(is_coarse: bool) -> Box<dyn RenderDevice> {
    let mut device = VulkanDevice::new(None, Some(256 << 20)).expect("it was there a moment ago");
    if is_coarse {
        device
            .distrust_sampler()
            .expect("it was there a moment ago");
    }
    Box::new(device)
}

#[test]
fn on_vulkan_surfaces_are_dimmed_as_on_processors_but_for_roundings() {
    if !vulkan_is_there("on_vulkan_surfaces_are_dimmed_as_on_processors_but_for_roundings") {
        return;
    }
    for (name, field) in mode_fields().into_iter().take(2) {
        let views = views(&field);
        for (n, (look, settings)) in lit_looks(&field).into_iter().enumerate() {
            let (eye, view) = views[n % views.len()];
            let one = picture(&field, (128, 1), &cpu, (view, &settings));
            let (edge, peers) = [(128, 1), (32, 3)][n % 2];
            let device = || vulkan(n % 3 == 2);
            let found = picture(&field, (edge, peers), &device, (view, &settings));
            let d = compare(&one, &found);
            // A ray that is rounded may miss a silhouette, or what is in its way.
            assert!(
                d.over_1 <= 0.005 && d.psnr >= 40.0,
                "{name}, {look}, {eye}, bricks of {edge}: {d:?}"
            );
        }
    }
}

#[test]
fn processors_and_vulkan_devices_send_rays_through_each_others_bricks() {
    if !vulkan_is_there("processors_and_vulkan_devices_send_rays_through_each_others_bricks") {
        return;
    }
    let (_, field) = mode_fields().swap_remove(0);
    let (_, view) = views(&field).swap_remove(0);
    let (_, settings) = lit_looks(&field).swap_remove(0);
    let one = picture(&field, (128, 1), &cpu, (view, &settings));
    let source = bricks(&field, 16);
    let frame = actix::System::new().block_on(async {
        // The last one has room for few bricks beside those that it holds.
        let largest = source.manifest().largest_brick_bytes();
        let supply = |n: usize| {
            let device: Box<dyn RenderDevice> = match n {
                0 => vulkan(false),
                1 => cpu(),
                _ => Box::new(VulkanDevice::new(None, Some(30 * largest)).unwrap()),
            };
            device.into()
        };
        let source: Arc<dyn BrickSource> = source.clone();
        let mut mesh = Mesh::start_supplied(3, 1, source, &supply, &|bus| bus).await;
        mesh.rules = divided(Some(24));
        mesh.frame_from(0, view, &settings).await
    });
    let frame = frame.unwrap();
    assert_eq!(
        (&frame.stats.missing[..], frame.stats.failed_attempts),
        (&[][..], 0)
    );
    let height = frame.image.rect().height;
    let finish = Finish {
        background: [[0.0; 3]; 2],
        ..settings.finish()
    };
    let d = compare(&one, &frame.image.finished(&finish, 0, height));
    assert!(d.over_1 <= 0.005 && d.psnr >= 40.0, "{d:?}");
    let renders = |n: usize| frame.stats.jobs.iter().any(|j| j.peer == peer_id(n));
    assert!((0..3).all(renders), "each renders a part");
}
