//! How fast the kernels render.
//!
//! The volume is nested noisy shells with nothing between them, 256³ voxels of 8 bit, seen in
//! 512×512 pixels from two diagonals away, as in volume renderers' usual demonstrations.

use brickmesh_shaders::{
    BrickKey, BrickVoxels, Job, RenderDevice, Scene, SubImage, device::cpu::CpuDevice,
    macrocells::Macrocells, scene::Casters,
};
use brickmesh_topology::{
    BrickGrid, Camera, Digest, PixelRect, RenderSettings, TransferFunction, VolumeDescription,
    VoxelType,
    data::{
        brick_set::BrickSet,
        transfer_function::TransferPoint,
        transfer_shapes::{ShapeKind, TransferShape},
    },
    picture::{
        camera::Projection, isosurface::Isosurface, render_settings::Mode, slice::Slice,
        surface_rays::AmbientOcclusion,
    },
};
use criterion::{Criterion, criterion_group, criterion_main};
use glam::DVec3;
use std::sync::Arc;

/// Voxels on each axis.
const EDGE: u32 = 256;
const MEMORY_BYTES: u64 = 1 << 30;

/// Radius, value and width of each shell, in half edges.
const SHELLS: [[f32; 3]; 3] = [
    [0.86, 0.28, 0.040],
    [0.58, 0.64, 0.045],
    [0.30, 1.00, 0.070],
];

/// Value of the field at a point of −1 … 1.
fn shells([x, y, z]: [f32; 3]) -> f32 {
    let waves = [
        [7.0, 3.1, -4.2, 0.3],
        [-5.3, 9.1, 2.7, 2.1],
        [3.3, -6.1, 11.0, 4.0],
    ];
    let noise: f32 = waves
        .iter()
        .map(|[a, b, c, phase]| (a * x + b * y + c * z + phase).sin() / 3.0)
        .sum();
    let radius = (x * x + y * y + z * z).sqrt() + 0.16 * noise;
    let shell = SHELLS.iter().fold(0.0_f32, |v, [at, height, width]| {
        v.max(height * (-((radius - at) / width).powi(2)).exp())
    });
    let v = shell * (1.0 + 0.08 * (40.0 * noise + 9.0 * x).sin());
    if v < 0.02 { 0.0 } else { v.min(1.0) }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "values are 0 to 1"
)]
fn voxels(dims: u32) -> Vec<u8> {
    let at = |i: u32| 2.0 * i as f32 / (dims - 1) as f32 - 1.0;
    (0..dims * dims * dims)
        .map(|i| shells([at(i % dims), at(i / dims % dims), at(i / dims / dims)]))
        .map(|v| (v * 255.0) as u8)
        .collect()
}

fn transfer() -> TransferFunction {
    let color = [
        (0.00, [0.05, 0.10, 0.30]),
        (0.25, [0.10, 0.45, 0.90]),
        (0.45, [0.20, 0.80, 0.50]),
        (0.60, [0.95, 0.85, 0.20]),
        (0.80, [0.95, 0.40, 0.10]),
        (1.00, [1.00, 0.95, 0.90]),
    ];
    let opacity = [
        (0.00, 0.0),
        (0.12, 0.0),
        (0.22, 0.025),
        (0.30, 0.010),
        (0.40, 0.0),
        (0.50, 0.0),
        (0.58, 0.040),
        (0.66, 0.010),
        (0.75, 0.010),
        (0.90, 0.120),
        (1.00, 0.200),
    ];
    let color_at = |value: f64| {
        let above = color.iter().position(|c| c.0 >= value).unwrap_or(5).max(1);
        let (a, b) = (color[above - 1], color[above]);
        let t = (value - a.0) / (b.0 - a.0);
        std::array::from_fn(|c| a.1[c] + (b.1[c] - a.1[c]) * t)
    };
    let points = opacity.iter().map(|&(value, opacity)| TransferPoint {
        value: value * 255.0,
        color: color_at(value),
        opacity,
    });
    TransferFunction {
        unit_distance: Some(1.0),
        points: points.collect(),
    }
}

fn scene(step: f64, shade: bool) -> Scene {
    let volume = VolumeDescription::new([EDGE; 3], VoxelType::U8);
    let (azimuth, elevation) = (0.0_f64, 20.0_f64.to_radians());
    let from = DVec3::new(
        elevation.cos() * azimuth.sin(),
        elevation.sin(),
        elevation.cos() * azimuth.cos(),
    );
    let at = volume.center_in_world();
    let camera = Camera {
        eye: at + from * (2.0 * volume.diagonal()),
        at,
        up: DVec3::Y,
        fov_degrees: 18.0,
        projection: Projection::Perspective,
    };
    Scene {
        materials: Vec::new(),
        casters: None,
        data_set: Digest::of(b"shells"),
        view: camera.view(512, 512).unwrap_or_else(|e| panic!("{e}")),
        numbers: volume.voxel.into(),
        volume,
        settings: RenderSettings {
            shade,
            jitter: false,
            ..RenderSettings::new(transfer(), step)
        },
    }
}

/// Cuts the volume into bricks and loads them; the jobs that render all of it.
fn load(device: &mut dyn RenderDevice, bytes: &[u8], edge: u32, scene: &Scene) -> Vec<Job> {
    let grid = BrickGrid::new([EDGE; 3], edge).unwrap_or_else(|e| panic!("{e}"));
    let jobs = grid.bricks().map(|brick| {
        let (owned, stored) = (grid.owned_box(brick), grid.stored_box(brick));
        let [lo, hi] = [stored.lo, stored.hi].map(|c| c.map(|v| v as usize));
        let mut part = Vec::new();
        for row in (lo[2]..hi[2]).flat_map(|z| (lo[1]..hi[1]).map(move |y| z * 256 + y)) {
            part.extend(&bytes[row * 256 + lo[0]..row * 256 + hi[0]]);
        }
        let voxels = BrickVoxels::new(owned, stored, VoxelType::U8, part.into())
            .unwrap_or_else(|e| panic!("{e}"));
        let data_set = scene.data_set;
        device
            .load_brick(BrickKey { data_set, brick }, voxels)
            .unwrap_or_else(|e| panic!("{e}"));
        let rect = scene.view.rect_of(&scene.volume, &owned);
        let rect = rect.unwrap_or(scene.view.rect());
        Job { brick, owned, rect }
    });
    jobs.collect()
}

/// What else than emission and absorption of samples is shown of the scene.
fn looks() -> Vec<(&'static str, Scene)> {
    let with = |change: &dyn Fn(&mut RenderSettings)| {
        let mut scene = scene(1.0, true);
        change(&mut scene.settings);
        scene
    };
    let shell = TransferShape {
        kind: ShapeKind::Gaussian,
        value: [60.0, 180.0],
        gradient: [0.0, 60.0],
        color: [1.0, 0.6, 0.3],
        opacity: 0.2,
    };
    let mut looks = vec![
        (
            "lit from aside",
            with(&|s| s.light.direction = Some([-1.0, 1.0, 1.0])),
        ),
        (
            "opacity by gradient",
            with(&|s| s.gradient_opacity = Some([2.0, 20.0])),
        ),
        ("2D function", with(&|s| s.transfer_2d = vec![shell])),
        ("pre-integrated", with(&|s| s.preintegrate = true)),
        (
            "pre-integrated, unlit",
            with(&|s| (s.preintegrate, s.shade) = (true, false)),
        ),
        (
            "pre-integrated 2D function",
            with(&|s| (s.preintegrate, s.transfer_2d) = (true, vec![shell])),
        ),
    ];
    for mode in Mode::ALL.into_iter().filter(|mode| *mode != Mode::Dvr) {
        let across = mode.is_slice().then(|| Slice {
            plane: [1.0, 2.0, 3.0, 6.0 * 127.5],
            thickness: 20.0 * f64::from(u8::from(mode == Mode::SliceMean)),
        });
        let surfaces = [Isosurface::new(127.5)];
        let of_mode = |s: &mut RenderSettings| {
            (s.mode, s.slice, s.isosurfaces) = (mode, across, surfaces.into());
        };
        looks.push((mode.name(), with(&of_mode)));
    }
    looks
}

/// An isosurface that is lit from aside, with rays that go on from it.
fn looks_with_rays() -> Vec<(&'static str, Scene)> {
    let with = |mode: Mode, shadows: bool, rays: u16| {
        let mut scene = scene(1.0, true);
        let settings = &mut scene.settings;
        (settings.mode, settings.shadows) = (mode, shadows);
        settings.isosurfaces = vec![Isosurface::new(127.5)];
        settings.light.direction = Some([-1.0, 1.0, 1.0]);
        let occlusion = AmbientOcclusion { rays, reach: 25.0 };
        settings.ambient_occlusion = (rays > 0).then_some(occlusion);
        let grid = BrickGrid::new([EDGE; 3], EDGE).unwrap_or_else(|e| panic!("{e}"));
        scene.casters = Some(Casters {
            grid,
            bricks: Arc::new(BrickSet::all(1)),
        });
        scene
    };
    vec![
        ("isosurface, no rays", with(Mode::Iso, false, 0)),
        ("isosurface, shadows", with(Mode::Iso, true, 0)),
        ("isosurface, 8 rays of occlusion", with(Mode::Iso, false, 8)),
        (
            "isosurface in the volume, no rays",
            with(Mode::Dvr, false, 0),
        ),
        (
            "isosurface in the volume, shadows",
            with(Mode::Dvr, true, 0),
        ),
    ]
}

fn cpu(criterion: &mut Criterion) {
    let bytes = voxels(EDGE);
    let mut group = criterion.benchmark_group("cpu");
    group.sample_size(20);
    let variants = [
        ("step 1", 256, 1.0, false, true),
        ("step 0.5", 256, 0.5, false, true),
        ("step 1 shaded", 256, 1.0, true, true),
        ("step 0.5 shaded", 256, 0.5, true, true),
        ("step 1, 8 bricks", 128, 1.0, false, true),
        ("step 1, 64 bricks", 64, 1.0, false, true),
        ("step 1, portable", 256, 1.0, false, false),
    ];
    for (name, edge, step, shade, packets) in variants {
        let device = if packets {
            CpuDevice::new(None, MEMORY_BYTES)
        } else {
            CpuDevice::scalar(None, MEMORY_BYTES)
        };
        let mut device = device.unwrap_or_else(|e| panic!("{e}"));
        let scene = scene(step, shade);
        let jobs = load(&mut device, &bytes, edge, &scene);
        device.set_scene(&scene).unwrap_or_else(|e| panic!("{e}"));
        group.bench_function(name, |b| {
            b.iter(|| jobs.iter().filter(|job| device.render(job).is_ok()).count());
        });
    }
    let mut device = CpuDevice::new(None, MEMORY_BYTES).unwrap_or_else(|e| panic!("{e}"));
    for (name, scene) in looks().into_iter().chain(looks_with_rays()) {
        let jobs = load(&mut device, &bytes, EDGE, &scene);
        device.set_scene(&scene).unwrap_or_else(|e| panic!("{e}"));
        group.bench_function(name, |b| {
            b.iter(|| jobs.iter().filter(|job| device.render(job).is_ok()).count());
        });
    }
    let whole = brickmesh_topology::VoxelBox::new([0; 3], [EDGE; 3]);
    if let Ok(brick) = BrickVoxels::new(whole, whole, VoxelType::U8, bytes.into()) {
        group.bench_function("macrocells of 256³", |b| b.iter(|| Macrocells::of(&brick)));
    }
    group.finish();
}

/// The same frames on the best Vulkan device, where there is one.
#[cfg(feature = "vulkan")]
fn vulkan(criterion: &mut Criterion) {
    use brickmesh_shaders::device::vulkan::VulkanDevice;
    let mut device = match VulkanDevice::new(None, None) {
        Ok(device) => device,
        Err(error) => {
            println!("skipped vulkan: {error}");
            return;
        }
    };
    let bytes = voxels(EDGE);
    let mut group = criterion.benchmark_group("vulkan");
    group.sample_size(10);
    let mut scenes = vec![
        ("step 1", scene(1.0, false)),
        ("step 0.5", scene(0.5, false)),
        ("step 1 shaded", scene(1.0, true)),
    ];
    scenes.extend(looks());
    for (name, scene) in scenes {
        let jobs = load(&mut device, &bytes, EDGE, &scene);
        device.set_scene(&scene).unwrap_or_else(|e| panic!("{e}"));
        group.bench_function(name, |b| {
            b.iter(|| jobs.iter().filter(|job| device.render(job).is_ok()).count());
        });
    }
    group.finish();
}

#[cfg(not(feature = "vulkan"))]
fn vulkan(_: &mut Criterion) {}

fn blending(criterion: &mut Criterion) {
    let rect = PixelRect {
        x: 0,
        y: 0,
        width: 512,
        height: 512,
    };
    let behind = SubImage::new(rect, vec![[0.1, 0.2, 0.05, 0.3]; rect.pixel_count()]);
    let behind = behind.unwrap_or_else(|| SubImage::transparent(rect));
    let mut image = SubImage::transparent(rect);
    criterion.bench_function("over/512x512", |b| {
        b.iter(|| image.combine(&behind, Mode::Dvr))
    });
}

criterion_group!(benches, cpu, vulkan, blending);
criterion_main!(benches);
