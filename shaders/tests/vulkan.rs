//! The Vulkan device against closed forms and a reference in f64.
//!
//! `BRICKMESH_GPU=off` skips these, `auto` (the default) skips where there is no Vulkan device,
//! `require` fails there. A driver on the CPU (lavapipe) is enough.
#![cfg(feature = "vulkan")]
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests are outside the test functions that clippy knows"
)]

use brickmesh_shaders::{
    BrickKey, BrickVoxels, DeviceError, Job, RenderDevice, Scene, SubImage,
    device::{
        cpu::CpuDevice,
        vulkan::{VulkanDevice, enumerate},
    },
    scene::Casters,
};
use brickmesh_topology::{
    BrickGrid, BrickIndex, Camera, Digest, PixelRect, RenderSettings, TransferFunction,
    VolumeDescription, VoxelBox, VoxelType,
    data::{
        brick_set::BrickSet,
        transfer_function::{TransferPoint, step_opacity},
    },
    picture::{
        camera::Projection, isosurface::Isosurface, render_settings::Mode,
        surface_rays::Reflections,
    },
};
use bytes::Bytes;
use glam::{DVec3, DVec4};
use std::sync::Arc;

const TYPES: [VoxelType; 5] = [
    VoxelType::U8,
    VoxelType::I8,
    VoxelType::U16,
    VoxelType::I16,
    VoxelType::F32,
];

/// The device, or `None` with a printed reason.
fn device(test: &str) -> Option<VulkanDevice> {
    let wish = std::env::var("BRICKMESH_GPU").unwrap_or_else(|_| "auto".into());
    if wish == "off" {
        skip(&format!("skipped {test}: BRICKMESH_GPU=off\n"));
        return None;
    }
    match VulkanDevice::new(None, None) {
        Ok(device) => Some(device),
        Err(error) if wish != "require" => {
            skip(&format!("skipped {test}: no Vulkan device: {error}\n"));
            None
        }
        Err(error) => panic!("BRICKMESH_GPU=require, but {error}"),
    }
}

/// Memory of devices that hold one brick at a time: an allocation, which is a block of a 64th of this,
/// comes with each.
const SMALL_MEMORY: u64 = 64 << 20;

/// The device as it is, and as one whose sampler is too coarse; none with a printed reason.
fn devices(test: &str) -> Vec<VulkanDevice> {
    if device(test).is_none() {
        return Vec::new();
    }
    let small = || VulkanDevice::new(None, Some(SMALL_MEMORY)).unwrap();
    let (own, mut coarse) = (small(), small());
    coarse.distrust_sampler().unwrap();
    vec![own, coarse]
}

/// A volume with its voxels.
struct Data {
    volume: VolumeDescription,
    bytes: Vec<u8>,
}

impl Data {
    /// Voxel (x,y,z) holds `f`, rounded and clamped to the type.
    #[expect(clippy::cast_possible_truncation, reason = "saturating, as wanted")]
    #[expect(clippy::cast_sign_loss, reason = "saturating, as wanted")]
    fn new(volume: VolumeDescription, f: impl Fn([u32; 3]) -> f64) -> Self {
        let [nx, ny, nz] = volume.dims;
        let mut bytes = Vec::new();
        for i in 0..nx * ny * nz {
            let v = f([i % nx, i / nx % ny, i / nx / ny]);
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

    fn voxel(&self, at: [u32; 3]) -> f64 {
        let [nx, ny, _] = self.volume.dims;
        let i = at[0] as usize + nx as usize * (at[1] as usize + ny as usize * at[2] as usize);
        let voxel = self.volume.voxel;
        f64::from(voxel.read(&self.bytes, i * voxel.bytes()))
    }

    fn brick(&self, owned: VoxelBox, stored: VoxelBox) -> BrickVoxels {
        let [nx, ny, _] = self.volume.dims.map(|n| n as usize);
        let size = self.volume.voxel.bytes();
        let mut bytes = Vec::new();
        for z in stored.lo[2]..stored.hi[2] {
            for y in stored.lo[1]..stored.hi[1] {
                let row = nx * (y as usize + ny * z as usize);
                let [from, to] = [stored.lo[0], stored.hi[0]].map(|x| (row + x as usize) * size);
                bytes.extend_from_slice(&self.bytes[from..to]);
            }
        }
        BrickVoxels::new(owned, stored, self.volume.voxel, Bytes::from(bytes)).unwrap()
    }

    /// The stored value at a grid position inside the field, trilinear.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped"
    )]
    fn sample(&self, p: DVec3) -> f64 {
        let last = DVec3::from_array(self.volume.dims.map(|n| f64::from(n - 1)));
        let p = p.clamp(DVec3::ZERO, last);
        let low = p.floor();
        let f = p - low;
        let mut sum = 0.0;
        for corner in 0..8_usize {
            let mut weight = 1.0;
            let at = std::array::from_fn(|a| {
                let upper = corner >> a & 1 == 1;
                weight *= if upper { f[a] } else { 1.0 - f[a] };
                (low[a] as u32 + u32::from(upper)).min(self.volume.dims[a] - 1)
            });
            sum += weight * self.voxel(at);
        }
        sum
    }

    /// The picture in f64, straight from the definitions.
    fn reference(&self, scene: &Scene) -> Vec<DVec4> {
        let view = &scene.view;
        let grid_from_world = self.volume.grid_from_world();
        let normal = self.volume.world_from_grid().matrix3.inverse().transpose();
        let last = DVec3::from_array(self.volume.dims.map(|n| f64::from(n - 1)));
        let reach = (view.eye - self.volume.center_in_world()).length() + self.volume.diagonal();
        let floor = scene.gradient_floor();
        let opaque = scene.settings.finish().opaque();
        let mut picture = Vec::new();
        for i in 0..view.width * view.height {
            let (x, y) = (f64::from(i % view.width), f64::from(i / view.width));
            let direction = view.direction_through(x + 0.5, y + 0.5).normalize();
            let mut acc = DVec4::ZERO;
            let mut t = 0.0;
            while t < reach && acc.w < f64::from(opaque) {
                let p = grid_from_world.transform_point3(view.eye + direction * t);
                t += scene.settings.step;
                if p.cmplt(DVec3::ZERO).any() || p.cmpgt(last).any() {
                    continue;
                }
                let (rgb, opacity) = scene
                    .settings
                    .transfer
                    .classify(self.volume.value(self.sample(p)));
                let alpha = step_opacity(opacity, scene.settings.step, scene.unit_distance());
                let mut color = DVec3::from_array(rgb) * alpha;
                if scene.settings.shade && alpha > 0.0 {
                    let difference = [DVec3::X, DVec3::Y, DVec3::Z]
                        .map(|a| 0.5 * (self.sample(p + a) - self.sample(p - a)));
                    let g = normal * DVec3::from_array(difference) * self.volume.value_scale;
                    let nl = g.dot(direction).abs() / g.length().max(floor);
                    // As `Light::default` says.
                    color = color * (0.2 + 0.7 * nl) + alpha * 0.2 * nl.powi(10);
                }
                acc += (1.0 - acc.w) * color.extend(alpha);
            }
            picture.push(acc);
        }
        picture
    }
}

fn point(value: f64, color: [f64; 3], opacity: f64) -> TransferPoint {
    TransferPoint {
        value,
        color,
        opacity,
    }
}

fn scene(data: &Data, camera: Camera, points: Vec<TransferPoint>, step: f64) -> Scene {
    let transfer = TransferFunction {
        unit_distance: None,
        points,
    };
    Scene {
        materials: Vec::new(),
        casters: None,
        data_set: data_set(),
        volume: data.volume.clone(),
        numbers: data.volume.voxel.into(),
        view: camera.view(53, 41).unwrap(),
        settings: RenderSettings {
            shade: false,
            jitter: false,
            ..RenderSettings::new(transfer, step)
        },
    }
}

fn data_set() -> Digest {
    Digest::of(b"test")
}

fn key(brick: BrickIndex) -> BrickKey {
    BrickKey {
        data_set: data_set(),
        brick,
    }
}

/// The picture by a single brick without ghosts.
fn whole(device: &mut dyn RenderDevice, data: &Data, scene: &Scene) -> SubImage {
    let all = VoxelBox::new([0; 3], data.volume.dims);
    let brick = BrickIndex(0);
    device.load_brick(key(brick), data.brick(all, all)).unwrap();
    device.set_scene(scene).unwrap();
    let rect = scene.view.rect();
    let job = Job {
        brick,
        owned: all,
        rect,
    };
    let image = device.render(&job).unwrap().image;
    device.unload_brick(key(brick));
    image
}

/// The picture by bricks of `edge`, blended from the eye outwards (the eye must look along the
/// bricks' order: nearest brick first by the distance on each axis).
fn by_bricks(device: &mut VulkanDevice, data: &Data, scene: &Scene, edge: u32) -> SubImage {
    let grid = BrickGrid::new(data.volume.dims, edge).unwrap();
    let eye = data
        .volume
        .grid_from_world()
        .transform_point3(scene.view.eye);
    let mut order: Vec<BrickIndex> = grid.bricks().collect();
    // On a regular grid a visibility order is given by the count of brick borders between the
    // brick that the eye is in (or next to, on each axis) and the brick.
    order.sort_by_key(|&b| {
        let owned = grid.owned_box(b);
        let borders = (0..3).map(|a| {
            let home = (eye[a] / f64::from(edge)).floor();
            let home = home.clamp(-1.0, f64::from(grid.counts()[a]));
            (home - f64::from(owned.lo[a] / edge)).abs()
        });
        #[expect(clippy::cast_possible_truncation, reason = "small whole numbers")]
        let key = borders.sum::<f64>() as i64;
        key
    });
    device.set_scene(scene).unwrap();
    let mut picture = SubImage::transparent(scene.view.rect());
    for brick in order {
        let voxels = data.brick(grid.owned_box(brick), grid.stored_box(brick));
        device.load_brick(key(brick), voxels).unwrap();
        let owned = grid.owned_box(brick);
        if let Some(rect) = scene.view.rect_of(&scene.volume, &owned) {
            let job = Job { brick, owned, rect };
            picture.combine(&device.render(&job).unwrap().image, Mode::Dvr);
        }
        device.unload_brick(key(brick));
    }
    picture
}

fn difference_max(a: &SubImage, b: &SubImage) -> f32 {
    let pairs = a.pixels().iter().flatten().zip(b.pixels().iter().flatten());
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// PSNR of at least 45 dB and at most 0.1 % of the pixels off by more than 4/255.
#[expect(clippy::cast_precision_loss, reason = "few pixels")]
fn assert_close(what: &str, image: &SubImage, reference: &[DVec4]) {
    let (mut squares, mut off, mut shown) = (0.0, 0, 0);
    for (pixel, wanted) in image.pixels().iter().zip(reference) {
        let d = DVec4::from_array(pixel.map(f64::from)) - *wanted;
        squares += d.length_squared() / 4.0;
        off += usize::from(d.abs().max_element() > 4.0 / 255.0);
        shown += usize::from(wanted.w > 0.01);
    }
    let psnr = -10.0 * (squares / reference.len() as f64).log10();
    assert!(
        shown * 20 > reference.len(),
        "{what}: the reference is empty"
    );
    assert!(psnr >= 45.0, "{what}: PSNR {psnr:.1} dB");
    assert!(off * 1000 <= reference.len(), "{what}: {off} pixels off");
}

/// Waves over the whole of `low..=high`.
fn waves(volume: VolumeDescription, low: f64, high: f64) -> Data {
    Data::new(volume, move |[x, y, z]| {
        let [x, y, z] = [x, y, z].map(f64::from);
        let w = (0.41 * x).sin() + (0.33 * y + 1.0).sin() + (0.29 * z + 0.5 + 0.1 * x).sin();
        low + (high - low) * (w / 6.0 + 0.5)
    })
}

fn colourful(low: f64, high: f64) -> Vec<TransferPoint> {
    let at = |f: f64| low + (high - low) * f;
    vec![
        point(at(0.0), [0.0, 0.0, 1.0], 0.0),
        point(at(0.35), [0.1, 0.6, 1.0], 0.02),
        point(at(0.6), [0.9, 0.8, 0.1], 0.15),
        point(at(1.0), [1.0, 0.1, 0.0], 0.6),
    ]
}

/// Most of the values are transparent: rays leap.
fn sparse(low: f64, high: f64) -> Vec<TransferPoint> {
    let at = |f: f64| low + (high - low) * f;
    vec![
        point(at(0.0), [0.0; 3], 0.0),
        point(at(0.78), [0.0, 1.0, 0.0], 0.0),
        point(at(0.85), [1.0, 0.5, 0.0], 0.4),
        point(at(1.0), [1.0, 0.1, 0.5], 0.9),
    ]
}

fn range_of(voxel: VoxelType) -> (f64, f64) {
    match voxel {
        VoxelType::U8 => (0.0, 255.0),
        VoxelType::I8 => (-128.0, 127.0),
        VoxelType::U16 => (0.0, 65_535.0),
        VoxelType::I16 => (-32_768.0, 32_767.0),
        VoxelType::F32 => (-3.5e-3, 7.25e-3),
    }
}

#[test]
fn a_constant_volume_absorbs_as_the_count_of_its_samples_says() {
    let Some(mut device) = device("a_constant_volume…") else {
        return;
    };
    let data = Data::new(VolumeDescription::new([9; 3], VoxelType::U8), |_| 100.0);
    // Along −z from afar, step 1/2: samples at 8, 7.5 … 0 are 17 inside.
    let camera = Camera {
        eye: DVec3::new(4.0, 4.0, 40.0),
        at: DVec3::new(4.0, 4.0, 0.0),
        up: DVec3::Y,
        fov_degrees: 1.0,
        projection: Projection::Perspective,
    };
    let points = vec![
        point(0.0, [1.0, 0.5, 0.0], 0.1),
        point(255.0, [1.0, 0.5, 0.0], 0.1),
    ];
    let mut scene = scene(&data, camera, points, 0.5);
    scene.view = camera.view(1, 1).unwrap();
    let image = whole(&mut device, &data, &scene);
    let alpha = 1.0 - 0.9_f64.powf(17.0 * 0.5);
    for (found, wanted) in image.pixels()[0].iter().zip([1.0, 0.5, 0.0, 1.0]) {
        assert!((f64::from(*found) - wanted * alpha).abs() < 1e-4, "{found}");
    }
}

#[test]
fn an_empty_transfer_function_shows_nothing_and_an_opaque_slab_its_colour() {
    let Some(mut device) = device("an_empty_transfer_function…") else {
        return;
    };
    let data = waves(
        VolumeDescription::new([12; 3], VoxelType::U16),
        0.0,
        65_535.0,
    );
    let camera = Camera::whole(&data.volume);
    let clear = vec![point(0.0, [1.0; 3], 0.0), point(65_535.0, [1.0; 3], 0.0)];
    let image = whole(&mut device, &data, &scene(&data, camera, clear, 0.5));
    assert!(
        image
            .pixels()
            .iter()
            .flatten()
            .all(|&c| c.abs() < f32::MIN_POSITIVE)
    );
    let solid = vec![point(0.0, [0.25, 0.5, 1.0], 1.0)];
    let image = whole(&mut device, &data, &scene(&data, camera, solid, 0.5));
    let middle = image.pixels()[20 * 53 + 26];
    for (found, wanted) in middle.iter().zip([0.25, 0.5, 1.0, 1.0]) {
        assert!((found - wanted).abs() < 1e-3, "{middle:?}");
    }
}

/// Each stored value is looked at alone, on the line between two equal voxels: of a ray along −z
/// with step 1 only the sample at z = ½ is inside.
#[test]
fn every_type_gives_its_stored_numbers_back() {
    for mut device in devices("every_type…") {
        for voxel in TYPES {
            let (low, high) = range_of(voxel);
            let volume = VolumeDescription::new([37, 5, 2], voxel);
            let data = Data::new(volume, |[x, y, _]| match [x, y] {
                [18, 2] => low,
                [17, 3] => high,
                _ => low + (high - low) * f64::from(x + 37 * y) / f64::from(37 * 5 - 1),
            });
            let ramp = vec![point(low, [0.0; 3], 1.0), point(high, [1.0; 3], 1.0)];
            for at in [[18, 2], [17, 3], [1, 1], [35, 3], [16, 1], [20, 2]] {
                let [x, y] = at.map(f64::from);
                let camera = Camera {
                    eye: DVec3::new(x, y, 1.5),
                    at: DVec3::new(x, y, 0.0),
                    up: DVec3::Y,
                    fov_degrees: 1e-3,
                    projection: Projection::Perspective,
                };
                let mut scene = scene(&data, camera, ramp.clone(), 1.0);
                scene.view = camera.view(1, 1).unwrap();
                let image = whole(&mut device, &data, &scene);
                let wanted = (data.voxel([at[0], at[1], 0]) - low) / (high - low);
                let [found, _, _, alpha] = image.pixels()[0].map(f64::from);
                assert!(
                    (alpha - 1.0).abs() < 1e-6,
                    "{} {at:?}: alpha {alpha}",
                    voxel.name()
                );
                // A step of a 16-bit type is 1.5e-5 of its range.
                let error = (found - wanted).abs();
                assert!(
                    error < 7e-6,
                    "{} {at:?}: {found} for {wanted}",
                    voxel.name()
                );
            }
        }
    }
}

#[test]
fn pictures_of_every_type_are_the_references() {
    for mut device in devices("pictures_of_every_type…") {
        for voxel in TYPES {
            let (low, high) = range_of(voxel);
            let volume = VolumeDescription {
                spacing: [1.0, 1.5, 0.75],
                origin: [-7.0, 20.0, 3.0],
                direction: [[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
                value_scale: 0.5,
                value_offset: -10.0,
                ..VolumeDescription::new([31, 22, 27], voxel)
            };
            let data = waves(volume, low, high);
            let [low, high] = [low, high].map(|v| data.volume.value(v));
            let camera = Camera::whole(&data.volume);
            for points in [colourful(low, high), sparse(low, high)] {
                for shade in [false, true] {
                    let mut scene = scene(&data, camera, points.clone(), 0.4);
                    scene.settings.shade = shade;
                    let image = whole(&mut device, &data, &scene);
                    let what = format!("{} shaded {shade}", voxel.name());
                    assert_close(&what, &image, &data.reference(&scene));
                }
            }
        }
    }
}

#[test]
fn the_eye_may_be_inside_and_on_the_border() {
    let Some(mut device) = device("the_eye_may_be_inside…") else {
        return;
    };
    let data = waves(
        VolumeDescription::new([33, 29, 31], VoxelType::U8),
        0.0,
        255.0,
    );
    for eye in [[16.0, 14.0, 15.0], [0.0, 14.0, 15.0], [32.0, 28.0, 30.0]] {
        for at in [[30.0, 3.0, 8.0], [16.0, 14.0, 15.5]] {
            let camera = Camera {
                eye: DVec3::from_array(eye),
                at: DVec3::from_array(at),
                up: DVec3::Y,
                fov_degrees: 70.0,
                projection: Projection::Perspective,
            };
            let scene = scene(&data, camera, colourful(0.0, 255.0), 0.5);
            let image = whole(&mut device, &data, &scene);
            let what = format!("from {eye:?} to {at:?}");
            assert_close(&what, &image, &data.reference(&scene));
        }
    }
}

#[test]
fn bricks_add_up_to_the_whole() {
    for mut device in devices("bricks_add_up…") {
        for voxel in [VoxelType::U8, VoxelType::I16, VoxelType::F32] {
            let (low, high) = range_of(voxel);
            let volume = VolumeDescription {
                spacing: [1.0, 0.5, 1.0],
                ..VolumeDescription::new([48, 45, 37], voxel)
            };
            let data = waves(volume, low, high);
            for (azimuth, elevation) in [(45.0, 35.0), (0.0, 0.0), (90.0, 0.0), (201.0, -50.0)] {
                for shade in [false, true] {
                    let camera = Camera::orbit(&data.volume, azimuth, elevation, 1.2);
                    let mut scene = scene(&data, camera, colourful(low, high), 0.25);
                    scene.settings.shade = shade;
                    let one = whole(&mut device, &data, &scene);
                    let many = by_bricks(&mut device, &data, &scene, 16);
                    let off = difference_max(&one, &many);
                    assert!(
                        off <= 1.0 / 255.0,
                        "{} {azimuth} {elevation}: {off}",
                        voxel.name()
                    );
                }
            }
        }
    }
}

#[test]
fn the_cpu_device_gives_the_same_picture() {
    for mut device in devices("the_cpu_device…") {
        let mut cpu = CpuDevice::new(None, 1 << 30).unwrap();
        for voxel in TYPES {
            let (low, high) = range_of(voxel);
            let volume = VolumeDescription {
                spacing: [1.25, 1.0, 0.5],
                ..VolumeDescription::new([40, 33, 51], voxel)
            };
            let data = waves(volume, low, high);
            for points in [colourful(low, high), sparse(low, high)] {
                for shade in [false, true] {
                    let camera = Camera::orbit(&data.volume, 120.0, -20.0, 1.5);
                    let mut scene = scene(&data, camera, points.clone(), 0.3);
                    scene.settings.shade = shade;
                    let here = whole(&mut device, &data, &scene);
                    let there = whole(&mut cpu, &data, &scene);
                    let there: Vec<DVec4> = there
                        .pixels()
                        .iter()
                        .map(|p| DVec4::from_array(p.map(f64::from)))
                        .collect();
                    let what = format!("{} shaded {shade}", voxel.name());
                    assert_close(&what, &here, &there);
                }
            }
        }
    }
}

/// As labels are: a surface goes through the voxels that have its value.
#[test]
fn surfaces_of_stored_numbers_are_the_processors() {
    for mut device in devices("surfaces_of…") {
        let mut cpu = CpuDevice::new(None, 1 << 30).unwrap();
        for voxel in TYPES {
            let (low, _) = range_of(voxel);
            let labels = [0.0, 3.0, 7.0, 100.0].map(|n| low.floor() + n);
            let data = Data::new(VolumeDescription::new([30; 3], voxel), |[x, y, z]| {
                labels[((x / 5 + y / 7 + z / 6) % 4) as usize]
            });
            for value in &labels[1..] {
                let camera = Camera::orbit(&data.volume, 33.0, 21.0, 1.5);
                let mut scene = scene(&data, camera, colourful(low, low + 255.0), 0.3);
                scene.settings.mode = Mode::Iso;
                scene.settings.isosurfaces = vec![Isosurface::new(*value)];
                let here = whole(&mut device, &data, &scene);
                let there = whole(&mut cpu, &data, &scene);
                let pixels = here.pixels().iter().zip(there.pixels());
                let differing = pixels.filter(|(p, q)| (p[3] - q[3]).abs() > 0.01).count();
                let seen = there.pixels().iter().filter(|p| p[3] > 0.5).count();
                let what = format!("{} of {value}", voxel.name());
                assert!(seen > 200 && differing < 3, "{what}: {differing} of {seen}");
            }
        }
    }
}

#[test]
fn surfaces_close_to_each_other_are_in_the_processors_order() {
    for mut device in devices("surfaces_close…") {
        let mut cpu = CpuDevice::new(None, 1 << 30).unwrap();
        let volume = VolumeDescription::new([30; 3], VoxelType::F32);
        let data = waves(volume, 0.0, 1.0);
        let camera = Camera::orbit(&data.volume, 33.0, 21.0, 1.5);
        let mut scene = scene(&data, camera, colourful(0.0, 1.0), 0.3);
        scene.settings.mode = Mode::Iso;
        let surface = |value, color| Isosurface {
            value,
            color,
            opacity: 0.3,
        };
        let green = surface(0.500_000_1, [0.0, 1.0, 0.0]);
        scene.settings.isosurfaces = vec![surface(0.5, [1.0, 0.0, 0.0]), green];
        let here = whole(&mut device, &data, &scene);
        let there = whole(&mut cpu, &data, &scene);
        let pixels = here.pixels().iter().zip(there.pixels());
        let differing = pixels.filter(|(p, q)| (p[0] - q[0]).abs() > 0.02).count();
        let seen = there.pixels().iter().filter(|p| p[3] > 0.3).count();
        assert!(
            seen > 200 && differing < seen / 100,
            "{differing} of {seen}"
        );
    }
}

/// Isosurfaces of waves, so opaque each, that rays may go on from.
fn eight_surfaces(zoom: f64, opacity: f32) -> (Data, Scene) {
    let data = waves(VolumeDescription::new([40; 3], VoxelType::U8), 0.0, 255.0);
    let camera = Camera::orbit(&data.volume, 33.0, 21.0, zoom);
    let mut scene = scene(&data, camera, colourful(0.0, 255.0), 0.3);
    let surface = |n: u32| Isosurface {
        value: 20.5 + 30.0 * f64::from(n),
        color: [1.0, 0.5, 0.25],
        opacity,
    };
    scene.settings.mode = Mode::Iso;
    scene.settings.isosurfaces = (0..8).map(surface).collect();
    scene.settings.shade = true;
    let grid = BrickGrid::new(data.volume.dims, 40);
    scene.casters = Some(Casters {
        grid: grid.expect("bricks may be so large"),
        bricks: Arc::new(BrickSet::all(1)),
    });
    (data, scene)
}

/// More surfaces one behind the other than points have room for at first.
#[test]
fn surfaces_are_lit_however_many_a_pixel_shows() {
    for mut device in devices("surfaces_are_lit…") {
        let mut cpu = CpuDevice::new(None, 1 << 30).unwrap();
        let (data, mut scene) = eight_surfaces(1.5, 0.05);
        let settings = &mut scene.settings;
        settings.shadows = true;
        settings.light.direction = Some([1.0, 1.0, 0.5]);
        let here = whole(&mut device, &data, &scene);
        let again = whole(&mut device, &data, &scene);
        assert!(again == here, "in whatever order the device meets them");
        let there = whole(&mut cpu, &data, &scene);
        let there = there.pixels().iter();
        let there: Vec<DVec4> = there.map(|p| DVec4::from_array(p.map(f64::from))).collect();
        assert_close("eight surfaces", &here, &there);
        scene.settings.shadows = false;
        scene.casters = None;
        let bright = whole(&mut device, &data, &scene);
        let layers = there.iter().map(|p| (1.0 - p.w).log(0.95)).sum::<f64>();
        let layers = layers / there.len() as f64;
        assert!(layers > 2.5, "more than room was kept for: {layers}");
        assert!(difference_max(&here, &bright) > 0.02, "it is seen");
    }
}

/// Reflected rays meet more surfaces each than rays from the eye do, of which most pass by.
#[test]
fn surfaces_are_reflected_however_many_a_ray_meets() {
    for mut device in devices("surfaces_are_reflected…") {
        let mut cpu = CpuDevice::new(None, 1 << 30).unwrap();
        let (data, mut scene) = eight_surfaces(0.4, 0.3);
        let bare = whole(&mut device, &data, &scene);
        let (depth, part) = (2, 0.75);
        scene.settings.reflections = Some(Reflections { depth, part });
        let here = whole(&mut device, &data, &scene);
        let again = whole(&mut device, &data, &scene);
        assert!(again == here, "in whatever order the device meets them");
        let there = whole(&mut cpu, &data, &scene);
        let there = there.pixels().iter();
        let there: Vec<DVec4> = there.map(|p| DVec4::from_array(p.map(f64::from))).collect();
        assert_close("eight surfaces", &here, &there);
        assert!(difference_max(&here, &bare) > 0.1, "it is seen");
    }
}

#[test]
fn a_part_of_the_picture_is_that_part_bit_by_bit() {
    let Some(mut device) = device("a_part_of_the_picture…") else {
        return;
    };
    let data = waves(VolumeDescription::new([20; 3], VoxelType::U8), 0.0, 255.0);
    let all = VoxelBox::new([0; 3], data.volume.dims);
    let scene = scene(
        &data,
        Camera::whole(&data.volume),
        colourful(0.0, 255.0),
        0.5,
    );
    let picture = whole(&mut device, &data, &scene);
    let brick = BrickIndex(7);
    device.load_brick(key(brick), data.brick(all, all)).unwrap();
    let rect = PixelRect {
        x: 13,
        y: 9,
        width: 21,
        height: 17,
    };
    let job = Job {
        brick,
        owned: all,
        rect,
    };
    let part = device.render(&job).unwrap().image;
    assert_eq!(Some(part), picture.crop(&rect));
}

#[test]
fn refusals_say_why() {
    let Some(mut device) = device("refusals…") else {
        return;
    };
    let data = waves(VolumeDescription::new([20; 3], VoxelType::U8), 0.0, 255.0);
    let all = VoxelBox::new([0; 3], data.volume.dims);
    let job = Job {
        brick: BrickIndex(3),
        owned: all,
        rect: PixelRect {
            x: 0,
            y: 0,
            width: 1,
            height: 1,
        },
    };
    assert_eq!(device.render(&job).unwrap_err(), DeviceError::NoScene);
    let scene = scene(
        &data,
        Camera::whole(&data.volume),
        colourful(0.0, 255.0),
        0.5,
    );
    device.set_scene(&scene).unwrap();
    let error = device.render(&job).unwrap_err();
    assert_eq!(error.to_string(), "brick 3 is not resident");
    let owned = VoxelBox::new([0; 3], [10, 20, 20]);
    device
        .load_brick(key(job.brick), data.brick(owned, all))
        .unwrap();
    let error = device.render(&job).unwrap_err();
    assert!(matches!(error, DeviceError::Outside { .. }), "{error}");
    device
        .load_brick(key(BrickIndex(0)), data.brick(all, all))
        .unwrap();
    device.unload_brick(key(job.brick));
    // As drivers round it.
    let taken = device.used_bytes();
    let mut small = VulkanDevice::new(None, Some(taken * 7 / 2)).unwrap();
    small
        .load_brick(key(BrickIndex(0)), data.brick(all, all))
        .unwrap();
    for brick in (1..5).map(BrickIndex) {
        let error = small.load_brick(key(brick), data.brick(all, all));
        if let Err(error) = error {
            assert!(matches!(error, DeviceError::OutOfMemory { .. }), "{error}");
            assert_eq!(small.used_bytes() % taken, 0);
            small.unload_brick(key(BrickIndex(0)));
            small.load_brick(key(brick), data.brick(all, all)).unwrap();
            return;
        }
    }
    panic!("memory for three bricks and a half took five");
}

#[test]
fn bricks_take_no_more_of_the_device_than_was_given_and_give_it_back() {
    let memory: u64 = 3 << 20;
    if device("bricks_take_no_more…").is_none() {
        return;
    }
    let mut device = VulkanDevice::new(None, Some(memory)).unwrap();
    let data = waves(VolumeDescription::new([64; 3], VoxelType::U16), 0.0, 9e4);
    let all = VoxelBox::new([0; 3], data.volume.dims);
    let scene = scene(
        &data,
        Camera::whole(&data.volume),
        colourful(20_000.0, 9e4),
        0.5,
    );
    device.set_scene(&scene).unwrap();
    let load = |device: &mut VulkanDevice, data_set: &[u8], brick: u32| {
        let key = BrickKey {
            data_set: Digest::of(data_set),
            brick: BrickIndex(brick),
        };
        device.load_brick(key, data.brick(all, all)).map(|()| key)
    };
    let own = key(BrickIndex(0));
    device.load_brick(own, data.brick(all, all)).unwrap();
    let before = render_all(&mut device, &scene);
    let mut loaded = Vec::new();
    let error = loop {
        match load(
            &mut device,
            b"another",
            u32::try_from(loaded.len()).unwrap(),
        ) {
            Ok(key) => loaded.push(key),
            Err(error) => break error,
        }
        assert!(device.used_bytes() <= memory);
    };
    assert!(matches!(error, DeviceError::OutOfMemory { .. }), "{error}");
    // 512 KiB each, and what their leaps take.
    assert!((1..5).contains(&loaded.len()), "{}", loaded.len());
    // What is taken goes by blocks.
    assert!(device.taken_bytes() >= device.used_bytes());
    assert!(device.taken_bytes() <= memory + 2 * (256 << 10));
    assert_eq!(
        render_all(&mut device, &scene),
        before,
        "it goes on as before"
    );
    for key in loaded.into_iter().chain([own]) {
        device.unload_brick(key);
    }
    assert_eq!((device.used_bytes(), device.taken_bytes()), (0, 0));
    assert!(load(&mut device, b"a third", 7).is_ok());
}

#[test]
fn as_many_bricks_fit_as_the_device_says() {
    for mut device in devices("as_many_bricks_fit_as_the_device_says") {
        for (voxel, edge) in [
            (VoxelType::U8, 42),
            (VoxelType::U16, 66),
            (VoxelType::F32, 37),
        ] {
            let data = Data::new(VolumeDescription::new([edge; 3], voxel), |_| 1.0);
            let all = VoxelBox::new([0; 3], data.volume.dims);
            let info = device.info();
            let said = info.memory_bytes / info.brick_bytes.of([edge; 3], voxel);
            let mut keys = (0..).map(|n| key(BrickIndex(n)));
            let mut load = || {
                let key = keys.next().unwrap();
                device.load_brick(key, data.brick(all, all)).map(|()| key)
            };
            let mut loaded = Vec::new();
            let error = loop {
                match load() {
                    Ok(key) => loaded.push(key),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, DeviceError::OutOfMemory { .. }), "{error}");
            let fit = loaded.len() as u64;
            let what = format!("{}: {said} were said to fit, {fit} do", voxel.name());
            assert!(said <= fit && fit <= said + said / 20 + 1, "{what}");
            loaded.into_iter().for_each(|key| device.unload_brick(key));
        }
    }
}

/// The picture of brick 0 of a scene's data set.
fn render_all(device: &mut VulkanDevice, scene: &Scene) -> SubImage {
    let job = Job {
        brick: BrickIndex(0),
        owned: VoxelBox::new([0; 3], scene.volume.dims),
        rect: scene.view.rect(),
    };
    device.render(&job).unwrap().image
}

#[test]
fn memory_is_promised_only_as_far_as_the_device_has_it() {
    if device("memory_is_promised…").is_none() {
        return;
    }
    let device = VulkanDevice::new(Some(0), Some(u64::MAX)).unwrap();
    let heap = enumerate().unwrap()[0].memory_bytes;
    let promised = device.info().memory_bytes;
    assert!(
        promised > heap / 2 && promised < heap,
        "{promised} of {heap}"
    );
}

#[test]
fn a_device_that_hangs_is_lost_and_can_be_opened_anew() {
    let Some(mut device) = device("a_device_that_hangs…") else {
        return;
    };
    let data = waves(VolumeDescription::new([96; 3], VoxelType::U8), 0.0, 255.0);
    let all = VoxelBox::new([0; 3], data.volume.dims);
    let scene = scene(
        &data,
        Camera::whole(&data.volume),
        colourful(0.0, 255.0),
        0.1,
    );
    device.set_scene(&scene).unwrap();
    let own = key(BrickIndex(0));
    device.load_brick(own, data.brick(all, all)).unwrap();
    let expected = render_all(&mut device, &scene);
    device.hang();
    let job = Job {
        brick: BrickIndex(0),
        owned: all,
        rect: scene.view.rect(),
    };
    let is_lost = |e: DeviceError| matches!(e, DeviceError::Lost { .. });
    assert!(is_lost(device.render(&job).unwrap_err()));
    assert!(is_lost(device.render(&job).unwrap_err()), "it stays lost");
    assert!(is_lost(
        device.load_brick(own, data.brick(all, all)).unwrap_err()
    ));
    drop(device);
    let mut device = VulkanDevice::new(None, None).unwrap();
    device.set_scene(&scene).unwrap();
    device.load_brick(own, data.brick(all, all)).unwrap();
    assert_eq!(render_all(&mut device, &scene), expected);
}

#[test]
fn devices_are_listed_in_the_order_they_are_opened_by() {
    let Some(device) = device("devices_are_listed…") else {
        return;
    };
    let all = enumerate().unwrap();
    println!("{all:#?}\n{:?} ({})", device.info(), device.reason());
    assert!(all.iter().enumerate().all(|(i, d)| d.index == i));
    let error = VulkanDevice::new(Some(all.len()), None).unwrap_err();
    assert!(matches!(error, DeviceError::Unavailable { .. }), "{error}");
}

/// Says that a test is skipped, past the runner's capture of output.
fn skip(line: &str) {
    use std::io::Write as _;
    if std::io::stderr().write_all(line.as_bytes()).is_err() {
        println!("{line}");
    }
}

#[test]
fn jobs_rendered_together_are_those_rendered_one_by_one() {
    let mut devices: Vec<Box<dyn RenderDevice>> =
        vec![Box::new(CpuDevice::new(None, SMALL_MEMORY).unwrap())];
    let on_vulkan = self::devices("jobs_rendered_together").into_iter();
    devices.extend(on_vulkan.map(|d| Box::new(d) as Box<dyn RenderDevice>));
    let data = Data::new(
        VolumeDescription::new([20; 3], VoxelType::U8),
        |[x, y, z]| f64::from((x * 37 + y * 11 + z * 5) % 200),
    );
    let points = vec![
        point(60.0, [0.9, 0.4, 0.1], 0.0),
        point(200.0, [0.2, 0.5, 1.0], 0.4),
    ];
    let scene = scene(&data, Camera::whole(&data.volume), points, 0.5);
    let grid = BrickGrid::new(data.volume.dims, 8).unwrap();
    let mut jobs: Vec<Job> = grid
        .bricks()
        .filter_map(|brick| {
            let owned = grid.owned_box(brick);
            let rect = scene.view.rect_of(&scene.volume, &owned)?;
            Some(Job { brick, owned, rect })
        })
        .collect();
    assert!(jobs.len() > 20);
    // Two that cannot be rendered, and one without pixels.
    jobs[3].owned = VoxelBox::new([0; 3], data.volume.dims);
    jobs[7].brick = BrickIndex(999);
    jobs[9].rect.height = 0;
    for device in &mut devices {
        for brick in grid.bricks() {
            let voxels = data.brick(grid.owned_box(brick), grid.stored_box(brick));
            device.load_brick(key(brick), voxels).unwrap();
        }
        device.set_scene(&scene).unwrap();
        let name = device.info().name.clone();
        let together = device.render_all(&jobs, &|| true);
        assert_eq!(together.len(), jobs.len(), "{name}");
        for (at, (job, rendered)) in jobs.iter().zip(together).enumerate() {
            match (rendered, device.render(job)) {
                (Ok(one), Ok(other)) => assert_eq!(one.image, other.image, "{name}, job {at}"),
                (Err(one), Err(other)) => {
                    assert_eq!(one, other, "{name}, job {at}");
                    assert!([3, 7].contains(&at), "{name}, job {at}: {one}");
                }
                (one, other) => panic!("{name}, job {at}: {one:?}, {other:?}"),
            }
        }
        let unwanted = device.render_all(&jobs[..3], &|| false);
        let is_called_off = |r: &Result<_, _>| matches!(r, Err(DeviceError::CalledOff));
        assert!(
            unwanted.len() == 3 && unwanted.iter().all(is_called_off),
            "{name}"
        );
        assert!(device.render_all(&[], &|| true).is_empty(), "{name}");
    }
}

#[test]
fn bricks_that_wait_to_be_copied_are_whole_when_they_are_seen() {
    let data = waves(VolumeDescription::new([170; 3], VoxelType::U8), 0.0, 255.0);
    let none = Data::new(data.volume.clone(), |_| 0.0);
    let scene_of = |points| scene(&data, Camera::whole(&data.volume), points, 1.0);
    let (first, last) = (
        scene_of(colourful(0.0, 255.0)),
        scene_of(sparse(0.0, 255.0)),
    );
    for mut device in devices("bricks_that_wait_to_be_copied…") {
        let alone = by_bricks(&mut device, &data, &last, 34);
        let grid = BrickGrid::new(data.volume.dims, 34).unwrap();
        let load = |device: &mut VulkanDevice, data: &Data, brick| {
            let voxels = data.brick(grid.owned_box(brick), grid.stored_box(brick));
            device.load_brick(key(brick), voxels).unwrap();
        };
        // More than waits at a time; some go before they are seen, or are replaced.
        let all: Vec<BrickIndex> = grid.bricks().collect();
        all.iter().for_each(|b| load(&mut device, &none, *b));
        all.iter()
            .step_by(2)
            .for_each(|b| device.unload_brick(key(*b)));
        all.iter().for_each(|b| load(&mut device, &data, *b));
        let job = |brick: &BrickIndex| {
            let owned = grid.owned_box(*brick);
            let rect = first.view.rect_of(&data.volume, &owned).unwrap();
            Job {
                brick: *brick,
                owned,
                rect,
            }
        };
        let jobs: Vec<Job> = all.iter().map(job).collect();
        // What can be seen is copied twice.
        for scene in [&first, &last] {
            device.set_scene(scene).unwrap();
            let rendered = device.render_all(&jobs, &|| true);
            assert!(rendered.iter().all(Result::is_ok));
        }
        let rendered = device.render_all(&jobs, &|| true);
        for (job, rendered) in jobs.iter().zip(rendered) {
            let image = rendered.unwrap().image;
            device.unload_brick(key(job.brick));
            load(&mut device, &data, job.brick);
            let alone = device.render(job).unwrap().image;
            assert!(difference_max(&image, &alone) < 1e-5, "{job:?}");
        }
        // A large one is copied in slabs, at once.
        all.iter().for_each(|b| device.unload_brick(key(*b)));
        let whole = whole(&mut device, &data, &last);
        assert!(difference_max(&alone, &whole) < 1.0 / 255.0);
    }
}
