//! Pictures by Vulkan devices: bricks and peers make no difference there either, and both kinds of
//! device agree. `BRICKMESH_GPU=off|auto|require` says what happens without a Vulkan device.

use brickmesh_shaders::{RenderDevice, device::vulkan::VulkanDevice};
use brickmesh_tests::{
    compare::{compare, to_rgba8},
    mesh::{Mesh, cpu, picture},
    reference,
    scenes::{clipped, fields, looks, mode_fields, settings, views},
    skip::vulkan_is_there,
    volumes::{Bricks, waves},
};
use brickmesh_topology::{
    Camera, RenderSettings, TransferFunction, VoxelType,
    balance::placement::comparison::PLACED_PARTITIONS,
};
use std::sync::Arc;

/// Memory of each peer.
const MEMORY_BYTES: u64 = 256 << 20;

fn vulkan() -> Box<dyn RenderDevice> {
    Box::new(VulkanDevice::new(None, Some(MEMORY_BYTES)).expect("it was there a moment ago"))
}

#[test]
fn on_vulkan_one_brick_and_bricks_of_32_differ_by_at_most_1() {
    if !vulkan_is_there("on_vulkan_one_brick_and_bricks_of_32_differ_by_at_most_1") {
        return;
    }
    for (name, field) in fields() {
        for shade in [false, true] {
            let settings = settings(&field, shade);
            for (eye, view) in views(&field) {
                let one = picture(
                    Arc::new(Bricks::cut(&field, 128)),
                    1,
                    &vulkan,
                    view,
                    &settings,
                );
                let five = picture(
                    Arc::new(Bricks::cut(&field, 32)),
                    5,
                    &vulkan,
                    view,
                    &settings,
                );
                let d = compare(&one, &five);
                // A texture unit may round: a thousandth of the pixels may differ by up to 3.
                assert!(
                    d.max <= 3 && d.over_1 <= 0.001,
                    "{name}, {eye}, shade {shade}: {d:?}"
                );
            }
        }
    }
}

#[test]
fn every_look_agrees_with_the_reference_within_2_and_with_other_cuts_within_1() {
    if !vulkan_is_there(
        "every_look_agrees_with_the_reference_within_2_and_with_other_cuts_within_1",
    ) {
        return;
    }
    for (name, field) in mode_fields() {
        for (look, settings) in looks(&field) {
            for (eye, view) in views(&field)
                .into_iter()
                .filter(|(eye, _)| *eye != "inside")
            {
                let settings = if eye.ends_with("below") {
                    clipped(&field, settings.clone())
                } else {
                    settings.clone()
                };
                let what = format!("{name}, {eye}, {look}");
                let of = |edge, peers| {
                    let source = Arc::new(Bricks::cut(&field, edge));
                    picture(source, peers, &vulkan, view, &settings)
                };
                let (one, five) = (of(128, 1), of(32, 5));
                let d = compare(&one, &five);
                assert!(d.max <= 1, "{what}: {d:?}");
                let reference = to_rgba8(&reference::render(&field, &view, &settings));
                let d = compare(&one, &reference);
                assert!(d.max <= 2, "{what}: {d:?}");
            }
        }
    }
}

#[test]
fn on_vulkan_every_placement_gives_the_same_picture() {
    if !vulkan_is_there("on_vulkan_every_placement_gives_the_same_picture") {
        return;
    }
    let field = waves([60, 50, 40], VoxelType::U16, false);
    let settings = RenderSettings {
        jitter: false,
        ..RenderSettings::new(TransferFunction::ramp(20_000.0, 60_000.0), 0.5)
    };
    let view = Camera::whole(&field.volume).view(96, 96).unwrap();
    let whole = Arc::new(Bricks::cut(&field, 64));
    let expected = picture(whole, 1, &vulkan, view, &settings);
    actix::System::new().block_on(async {
        for method in PLACED_PARTITIONS {
            let bricks = Arc::new(Bricks::cut(&field, 16).placed(Some(method)));
            let mesh = Mesh::start_met(3, 1, bricks, &vulkan).await;
            let d = compare(&expected, &mesh.picture(view, &settings).await);
            // As with bricks of 32, above.
            assert!(d.max <= 3 && d.over_1 <= 0.001, "{method:?}: {d:?}");
        }
    });
}

#[test]
fn cpu_and_vulkan_agree() {
    if !vulkan_is_there("cpu_and_vulkan_agree") {
        return;
    }
    for (name, field) in fields() {
        for shade in [false, true] {
            let settings = settings(&field, shade);
            for (eye, view) in views(&field) {
                let ours = picture(Arc::new(Bricks::cut(&field, 32)), 2, &cpu, view, &settings);
                let theirs = picture(
                    Arc::new(Bricks::cut(&field, 32)),
                    2,
                    &vulkan,
                    view,
                    &settings,
                );
                let d = compare(&ours, &theirs);
                assert!(
                    d.psnr >= 45.0 && d.over_4 <= 0.001,
                    "{name}, {eye}, shade {shade}: {d:?}"
                );
            }
        }
    }
}
