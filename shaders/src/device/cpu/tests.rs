//! The CPU device against closed forms, its kernels against each other, bricks against the whole.

use super::*;
use crate::{classifier::Classifier, transfer_table::TransferTable};
use brickmesh_topology::{
    BrickGrid, BrickIndex, Camera, Digest, RenderSettings, TransferFunction, VolumeDescription,
    VoxelBox,
    data::transfer_function::TransferPoint,
    picture::{
        camera::Projection, depth_order::front_to_back, isosurface::Isosurface,
        render_settings::Mode,
    },
};
use glam::{DMat3, DVec3};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

const TYPES: [VoxelType; 5] = [
    VoxelType::U8,
    VoxelType::I8,
    VoxelType::U16,
    VoxelType::I16,
    VoxelType::F32,
];
const MEMORY_BYTES: u64 = 1 << 30;

/// A volume with its voxels.
struct Data {
    volume: VolumeDescription,
    bytes: Vec<u8>,
}

impl Data {
    /// Voxel (x,y,z) holds `value(x,y,z)` of 0 … 1, in data units: -100 … 100, whatever the type.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturating, as wanted"
    )]
    fn new(mut volume: VolumeDescription, value: impl Fn([u32; 3]) -> f64) -> Self {
        let [nx, ny, nz] = volume.dims;
        let (low, high) = match volume.voxel {
            VoxelType::U8 => (0.0, 255.0),
            VoxelType::I8 => (-128.0, 127.0),
            VoxelType::U16 => (0.0, 65535.0),
            VoxelType::I16 => (-32768.0, 32767.0),
            VoxelType::F32 => (-3.0, 5.0),
        };
        volume.value_scale = 200.0 / (high - low);
        volume.value_offset = -100.0 - low * volume.value_scale;
        let mut bytes = Vec::new();
        for i in 0..nx * ny * nz {
            let v = low + (high - low) * value([i % nx, i / nx % ny, i / nx / ny]);
            match volume.voxel {
                VoxelType::U8 => bytes.push(v.round() as u8),
                VoxelType::I8 => bytes.push((v.round() as i8).cast_unsigned()),
                VoxelType::U16 => bytes.extend((v.round() as u16).to_le_bytes()),
                VoxelType::I16 => bytes.extend((v.round() as i16).to_le_bytes()),
                VoxelType::F32 => bytes.extend((v as f32).to_le_bytes()),
            }
        }
        Self { volume, bytes }
    }

    fn brick(&self, owned: VoxelBox, stored: VoxelBox) -> BrickVoxels {
        let [nx, ny, _] = self.volume.dims.map(|n| n as usize);
        let size = self.volume.voxel.bytes();
        let [lo, hi] = [stored.lo, stored.hi].map(|c| c.map(|v| v as usize));
        let mut bytes = Vec::new();
        for z in lo[2]..hi[2] {
            for y in lo[1]..hi[1] {
                let row = (z * ny + y) * nx;
                bytes.extend(&self.bytes[(row + lo[0]) * size..(row + hi[0]) * size]);
            }
        }
        BrickVoxels::new(owned, stored, self.volume.voxel, bytes.into()).unwrap()
    }

    fn whole(&self) -> VoxelBox {
        VoxelBox::new([0; 3], self.volume.dims)
    }

    /// Loads the whole as one brick and renders it.
    fn picture(&self, device: &mut CpuDevice, scene: &Scene) -> SubImage {
        device
            .load_brick(key(0), self.brick(self.whole(), self.whole()))
            .unwrap();
        device.set_scene(scene).unwrap();
        device.render(&self.job(scene)).unwrap().image
    }

    fn job(&self, scene: &Scene) -> Job {
        Job {
            brick: BrickIndex(0),
            owned: self.whole(),
            rect: scene.view.rect(),
        }
    }

    fn scene(&self, camera: Camera, points: &[(f64, [f64; 3], f64)]) -> Scene {
        let points = points.iter().map(|&(value, color, opacity)| TransferPoint {
            value,
            color,
            opacity,
        });
        let transfer = TransferFunction {
            unit_distance: None,
            points: points.collect(),
        };
        let step = 0.37 * self.volume.min_spacing();
        Scene {
            materials: Vec::new(),
            casters: None,
            data_set: Digest::of(b"test"),
            volume: self.volume.clone(),
            numbers: self.volume.voxel.into(),
            view: camera.view(37, 29).unwrap(),
            settings: RenderSettings {
                shade: false,
                jitter: false,
                ..RenderSettings::new(transfer, step)
            },
        }
    }
}

fn key(brick: u32) -> BrickKey {
    BrickKey {
        data_set: Digest::of(b"test"),
        brick: BrickIndex(brick),
    }
}

fn devices() -> [CpuDevice; 2] {
    let threads = NonZeroUsize::new(2);
    [
        CpuDevice::new(threads, MEMORY_BYTES).unwrap(),
        CpuDevice::scalar(threads, MEMORY_BYTES).unwrap(),
    ]
}

/// A number of 0 … 1 from a place: noise, the same on every machine.
fn noise([x, y, z]: [u32; 3]) -> f64 {
    let mut h = x
        .wrapping_mul(0x9e37_79b9)
        .wrapping_add(y.wrapping_mul(0x85eb_ca6b))
        .wrapping_add(z.wrapping_mul(0xc2b2_ae35));
    h = (h ^ (h >> 15)).wrapping_mul(0x2c1b_3c6d);
    h = (h ^ (h >> 13)).wrapping_mul(0x297a_2d39);
    f64::from(h >> 8) / f64::from(1 << 24)
}

/// Mostly nothing, with noisy blobs: 0 … 1.
fn blobs(p: [u32; 3]) -> f64 {
    let near = |c: [f64; 3], r: f64| {
        let d: f64 = (0..3).map(|a| (f64::from(p[a]) - c[a]).powi(2)).sum();
        d.sqrt() < r
    };
    if near([9.0, 12.0, 7.0], 5.0) || near([38.0, 30.0, 26.0], 7.0) {
        0.4 + 0.6 * noise(p)
    } else {
        0.1 * noise(p)
    }
}

const FOG: [(f64, [f64; 3], f64); 4] = [
    (-100.0, [0.1, 0.2, 0.9], 0.0),
    (-20.0, [0.3, 0.9, 0.1], 0.0),
    (40.0, [0.9, 0.5, 0.2], 0.08),
    (100.0, [1.0, 0.9, 0.8], 0.3),
];

/// Volumes and cameras out of the ordinary.
fn odd_scenes(voxel: VoxelType, value: fn([u32; 3]) -> f64) -> Vec<(Data, Scene)> {
    let turn = DMat3::from_euler(glam::EulerRot::XYZ, 0.3, -0.7, 1.1);
    let odd = VolumeDescription {
        spacing: [0.8, 0.5, 1.3],
        origin: [3.0, -7.0, 11.0],
        direction: turn.to_cols_array_2d(),
        ..VolumeDescription::new([45, 37, 31], voxel)
    };
    let plain = VolumeDescription::new([45, 37, 31], voxel);
    let mut all = Vec::new();
    for (volume, shade) in [(plain, false), (odd.clone(), true), (odd, false)] {
        let data = Data::new(volume, value);
        let outside = Camera::whole(&data.volume);
        let inside = Camera {
            eye: data
                .volume
                .world_from_grid()
                .transform_point3(DVec3::new(20.0, 17.5, 11.0)),
            at: data.volume.origin.into(),
            ..outside
        };
        for camera in [outside, inside] {
            let mut scene = data.scene(camera, &FOG);
            scene.settings.shade = shade;
            all.push((Data::new(data.volume.clone(), value), scene));
        }
    }
    for (scene_data, scene) in &mut all {
        scene.volume = scene_data.volume.clone();
    }
    all
}

/// Scenes as kernels see them, with boxes of which samples are wanted: with and without jitter, in both projections.
pub(super) fn frames_and_bounds() -> Vec<(Frame, ray::Bounds)> {
    let mut all = Vec::new();
    for (_, mut scene) in odd_scenes(VoxelType::U8, noise) {
        for projection in [Projection::Perspective, Projection::Parallel] {
            let camera = Camera {
                projection,
                ..Camera::whole(&scene.volume)
            };
            let inside = scene.view;
            for view in [inside, camera.view(37, 29).unwrap()] {
                for jitter in [false, true] {
                    scene.view = view;
                    scene.settings.jitter = jitter;
                    let frame = Frame::new(&scene, &Classifier::of(&scene, None));
                    let boxes = [([0.0; 3], [45.5, 37.5, 31.5]), ([8.0; 3], [16.0; 3])];
                    let of_box = |(lo, hi)| (frame.clone(), ray::Bounds::new(lo, hi));
                    all.extend(boxes.map(of_box));
                }
            }
        }
    }
    all
}

#[test]
fn a_picture_that_is_called_off_ends_early() {
    let (data, scene) = odd_scenes(VoxelType::U8, blobs).remove(0);
    for mut device in devices() {
        let whole = data.picture(&mut device, &scene);
        let asked = AtomicUsize::new(0);
        let is_wanted = || asked.fetch_add(1, Ordering::Relaxed) < 2;
        let called_off = device.render_while(&data.job(&scene), &is_wanted);
        assert_eq!(called_off.unwrap_err(), DeviceError::CalledOff);
        assert!(asked.into_inner() > 2);
        // The device goes on as before.
        assert_eq!(device.render(&data.job(&scene)).unwrap().image, whole);
    }
}

fn assert_close(a: &SubImage, b: &SubImage, tolerance: f32, what: &str) {
    assert_eq!(a.rect(), b.rect(), "{what}");
    let differences = a.pixels().iter().flatten().zip(b.pixels().iter().flatten());
    let worst = differences.fold(0.0_f32, |w, (a, b)| w.max((a - b).abs()));
    assert!(worst <= tolerance, "{what}: differs by {worst}");
    assert!(a.pixels().iter().any(|p| p[3] > 0.01), "{what}: empty");
}

#[test]
fn a_constant_volume_has_the_opacity_of_its_counted_samples() {
    for voxel in TYPES {
        let data = Data::new(VolumeDescription::new([21, 13, 9], voxel), |_| 1.0);
        let mut scene = data.scene(
            Camera::orbit(&data.volume, 20.0, 30.0, 1.0),
            &[(-100.0, [0.0; 3], 0.0), (100.0, [0.5, 0.25, 1.0], 0.05)],
        );
        for step in [1.0, 0.25] {
            scene.settings.step = step;
            let bounds = data.whole().owned_points(data.volume.dims);
            for mut device in devices() {
                let image = data.picture(&mut device, &scene);
                let rays = Frame::new(&scene, &Classifier::of(&scene, None));
                for (i, pixel) in (0..).zip(image.pixels()) {
                    let ray = rays.ray(i % 37, i / 37);
                    let inside = |k: &i32| {
                        let p = ray.position(k.cast_unsigned() as f32);
                        (0..3).all(|a| bounds.0[a] <= p[a] && p[a] < bounds.1[a])
                    };
                    let samples = (0..2000).filter(inside).count() as f64;
                    let alpha = 1.0 - (1.0 - 0.05_f64).powf(samples * step);
                    let expected = [0.5, 0.25, 1.0, 1.0].map(|c| c * alpha);
                    for c in 0..4 {
                        assert!(
                            (f64::from(pixel[c]) - expected[c]).abs() < 2e-5,
                            "{pixel:?}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn no_opacity_is_transparent_and_an_opaque_slab_is_opaque() {
    let data = Data::new(VolumeDescription::new([20, 20, 20], VoxelType::U16), |p| {
        if (8..12).contains(&p[2]) { 1.0 } else { 0.0 }
    });
    let camera = Camera::orbit(&data.volume, 0.0, 90.0, 3.0);
    let clear = data.scene(camera, &[(-100.0, [1.0; 3], 0.0), (100.0, [1.0; 3], 0.0)]);
    let slab = data.scene(
        camera,
        &[(-100.0, [1.0; 3], 0.0), (100.0, [0.0, 1.0, 0.5], 1.0)],
    );
    for mut device in devices() {
        let image = data.picture(&mut device, &clear);
        assert_eq!(image, SubImage::transparent(clear.view.rect()));
        let image = data.picture(&mut device, &slab);
        let middle = image.pixels()[14 * 37 + 18];
        assert!(middle[3] >= 0.999 && middle[1] > 0.9, "{middle:?}");
    }
}

#[test]
fn packets_show_what_the_portable_kernel_shows() {
    for voxel in TYPES {
        for value in [noise, blobs] {
            for (i, (data, scene)) in odd_scenes(voxel, value).iter().enumerate() {
                let [packets, scalar] =
                    devices().map(|mut device| data.picture(&mut device, scene));
                assert_close(&packets, &scalar, 1e-4, &format!("{voxel:?} scene {i}"));
                let scene = with_surfaces(scene, Mode::Dvr);
                let [packets, scalar] =
                    devices().map(|mut device| data.picture(&mut device, &scene));
                assert_close(&packets, &scalar, 1e-4, &format!("{voxel:?} surfaces {i}"));
            }
        }
    }
}

#[test]
fn skipping_changes_no_bit() {
    for voxel in [VoxelType::U8, VoxelType::I16, VoxelType::F32] {
        for (data, scene) in odd_scenes(voxel, blobs) {
            for mut device in devices() {
                let skipped = data.picture(&mut device, &scene);
                device.skipping = false;
                let all = data.picture(&mut device, &scene);
                assert_close(&skipped, &all, 0.0, "skipping");
            }
        }
    }
}

#[test]
fn skipping_changes_no_surface() {
    for voxel in [VoxelType::U8, VoxelType::I16, VoxelType::F32] {
        // Surfaces here and there, and up to the border.
        let [some, all] = [blobs, noise].map(|value| odd_scenes(voxel, value));
        for (data, scene) in some.into_iter().chain(all) {
            let parallel = Camera {
                projection: Projection::Parallel,
                ..Camera::whole(&data.volume)
            };
            let views = [scene.view, parallel.view(37, 29).unwrap()];
            let views_and_modes = views.map(|view| [(view, Mode::Iso), (view, Mode::Dvr)]);
            for (view, mode) in views_and_modes.into_iter().flatten() {
                let mut scene = with_surfaces(&scene, mode);
                scene.view = view;
                for mut device in devices() {
                    let skipped = data.picture(&mut device, &scene);
                    device.skipping = false;
                    let all = data.picture(&mut device, &scene);
                    // A ray that only touches a surface may miss it by a rounding.
                    let pixels = skipped.pixels().iter().zip(all.pixels());
                    let differ = |(p, q): &(&[f32; 4], &[f32; 4])| {
                        p.iter().zip(*q).any(|(a, b)| (a - b).abs() > 1e-4)
                    };
                    let differing = pixels.filter(differ).count();
                    assert!(differing < 2, "{voxel:?}, {mode:?}: {differing}");
                    let seen = skipped.pixels().iter().filter(|p| p[3] > 0.0).count();
                    assert!(seen > 20, "{voxel:?}, {mode:?}: {seen}");
                }
            }
        }
    }
}

/// A scene with surfaces among its values, some transparent.
fn with_surfaces(scene: &Scene, mode: Mode) -> Scene {
    let mut scene = scene.clone();
    scene.settings.mode = mode;
    scene.settings.isosurfaces = [(31.7, 0.3), (-9.3, 0.4), (68.2, 1.0)]
        .map(|(value, opacity)| Isosurface {
            opacity,
            ..Isosurface::new(value)
        })
        .into();
    scene
}

#[test]
fn bricks_blended_in_order_are_the_whole() {
    for (voxel, edge) in [
        (VoxelType::U8, 16),
        (VoxelType::I16, 8),
        (VoxelType::F32, 16),
    ] {
        for (i, (data, scene)) in odd_scenes(voxel, blobs).iter().enumerate() {
            for mut device in devices() {
                let whole = data.picture(&mut device, scene);
                let grid = BrickGrid::new(data.volume.dims, edge).unwrap();
                let boxes: Vec<VoxelBox> = grid.bricks().map(|b| grid.owned_box(b)).collect();
                for brick in grid.bricks() {
                    let voxels = data.brick(grid.owned_box(brick), grid.stored_box(brick));
                    device.load_brick(key(brick.0), voxels).unwrap();
                }
                let eye = data
                    .volume
                    .grid_from_world()
                    .transform_point3(scene.view.eye);
                let mut sum = SubImage::transparent(scene.view.rect());
                for at in front_to_back(&boxes, eye).unwrap() {
                    let job = Job {
                        brick: BrickIndex(u32::try_from(at).unwrap()),
                        owned: boxes[at],
                        rect: scene.view.rect(),
                    };
                    sum.combine(&device.render(&job).unwrap().image, Mode::Dvr);
                }
                // A ray that ends early in one job goes on in the next: 1/1000 at most.
                let opaque = whole.pixels().iter().any(|p| p[3] >= 0.999);
                let tolerance = if opaque { 1e-3 } else { 1e-4 };
                assert_close(&sum, &whole, tolerance, &format!("{voxel:?} scene {i}"));
            }
        }
    }
}

#[test]
fn a_rectangle_is_cut_out_of_the_picture() {
    let (data, scene) = odd_scenes(VoxelType::U8, noise).swap_remove(3);
    for mut device in devices() {
        let whole = data.picture(&mut device, &scene);
        let rect = PixelRect {
            x: 5,
            y: 7,
            width: 21,
            height: 13,
        };
        let part = device
            .render(&Job {
                rect,
                ..data.job(&scene)
            })
            .unwrap();
        assert_close(&part.image, &whole.crop(&rect).unwrap(), 0.0, "part");
    }
}

#[test]
fn thin_volumes_and_bricks_without_ghosts_are_no_fault() {
    for voxel in TYPES {
        for dims in [
            [1, 1, 1],
            [1, 9, 7],
            [2, 9, 7],
            [3, 1, 5],
            [9, 1, 1],
            [5, 1, 8],
            [4, 5, 1],
        ] {
            let data = Data::new(VolumeDescription::new(dims, voxel), |_| 0.9);
            let camera = Camera::whole(&data.volume);
            let mut scene = data.scene(camera, &FOG);
            scene.settings.shade = true;
            let [a, b] = [0, 1].map(|i| data.picture(&mut devices()[i], &scene));
            for (a, b) in a.pixels().iter().flatten().zip(b.pixels().iter().flatten()) {
                assert!((a - b).abs() < 1e-4, "{voxel:?} {dims:?}");
            }
        }
        let data = Data::new(VolumeDescription::new([12; 3], voxel), noise);
        let owned = VoxelBox::new([4; 3], [8; 3]);
        let scene = data.scene(Camera::whole(&data.volume), &FOG);
        for mut device in devices() {
            device.load_brick(key(0), data.brick(owned, owned)).unwrap();
            device.set_scene(&scene).unwrap();
            let job = Job {
                owned,
                ..data.job(&scene)
            };
            assert!(device.render(&job).is_ok());
        }
    }
}

#[test]
fn faults_are_told() {
    let data = Data::new(VolumeDescription::new([8; 3], VoxelType::U8), noise);
    let scene = data.scene(Camera::whole(&data.volume), &FOG);
    let mut device = CpuDevice::new(None, 1000).unwrap();
    assert_eq!(device.info().kind, DeviceKind::Cpu);
    let job = data.job(&scene);
    let brick = BrickIndex(0);
    assert_eq!(device.render(&job).unwrap_err(), DeviceError::NoScene);
    device.set_scene(&scene).unwrap();
    assert_eq!(
        device.render(&job).unwrap_err(),
        DeviceError::NotResident { brick }
    );
    let voxels = data.brick(data.whole(), data.whole());
    device.load_brick(key(0), voxels.clone()).unwrap();
    let again = device.load_brick(key(0), voxels.clone());
    assert_eq!(again, Ok(()), "it replaces the first");
    let beside = device.load_brick(key(1), voxels.clone());
    assert!(matches!(beside, Err(DeviceError::OutOfMemory { .. })));
    let owned = VoxelBox::new([0; 3], [9, 8, 8]);
    let outside = device.render(&Job { owned, ..job }).unwrap_err();
    assert!(matches!(outside, DeviceError::Outside { .. }));
    device.unload_brick(key(0));
    assert_eq!(device.load_brick(key(1), voxels), Ok(()));
}

#[test]
fn a_brick_that_was_prepared_for_whatever_scene_shows_the_same() {
    let (data, scene) = odd_scenes(VoxelType::U8, blobs).swap_remove(0);
    let mut other = scene.clone();
    other.settings.transfer.points[1].value = 10.0;
    let mut device = CpuDevice::new(None, MEMORY_BYTES).unwrap();
    let expected = data.picture(&mut device, &scene);
    let prepared_for = |device: &mut CpuDevice, shown: Option<&Scene>| {
        if let Some(shown) = shown {
            device.set_scene(shown).unwrap();
        }
        let preparation = device.preparation();
        preparation.prepare(data.brick(data.whole(), data.whole()))
    };
    for (shown, is_expected) in [(None, false), (Some(&scene), true), (Some(&other), false)] {
        let mut device = CpuDevice::new(None, MEMORY_BYTES).unwrap();
        let prepared = prepared_for(&mut device, shown);
        device.load_prepared(key(0), prepared).unwrap();
        device.set_scene(&scene).unwrap();
        let values = &device.scene.as_ref().unwrap().classifier.values;
        let is_known = device.bricks[&key(0)].cells.shown(values).is_some();
        assert_eq!(is_known, is_expected);
        let picture = device.render(&data.job(&scene)).unwrap().image;
        assert!(picture == expected);
    }
    // Of a device that was lost since, whose macrocells are others.
    let of_another = Preparation::new(2 * CELL_EDGE);
    let voxels = data.brick(data.whole(), data.whole());
    of_another.set_values(&device.scene.as_ref().unwrap().classifier.values);
    let prepared = of_another.prepare(voxels);
    device.load_prepared(key(0), prepared).unwrap();
    let picture = device.render(&data.job(&scene)).unwrap().image;
    assert!(picture == expected);
}

#[test]
fn the_table_survives_a_new_camera_and_not_a_new_transfer_function() {
    let (data, scene) = odd_scenes(VoxelType::U8, blobs).swap_remove(0);
    let mut device = CpuDevice::new(None, MEMORY_BYTES).unwrap();
    data.picture(&mut device, &scene);
    let values = |d: &CpuDevice| Arc::clone(&d.scene.as_ref().unwrap().classifier.values);
    let before = values(&device);
    let mut moved = scene.clone();
    moved.view = Camera::orbit(&data.volume, 99.0, 5.0, 1.0)
        .view(20, 20)
        .unwrap();
    device.set_scene(&moved).unwrap();
    assert!(Arc::ptr_eq(&values(&device), &before));
    let classifier = Classifier::of(&scene, None);
    assert!(Classifier::of(&moved, Some(&classifier)).is_same(&classifier));
    moved.settings.step *= 2.0;
    assert!(!Classifier::of(&moved, Some(&classifier)).is_same(&classifier));
    moved.settings.transfer.points[1].value = 10.0;
    assert!(TransferTable::new(&moved).entries != TransferTable::new(&scene).entries);
    device.set_scene(&moved).unwrap();
    assert!(!Arc::ptr_eq(&values(&device), &before));
}
