//! Right for every volume: values of any scale and offset, no data and fill values, axes of one
//! voxel, spacings of any size. Each device; pictures beside the float64 reference, or beside those
//! of the same volume written otherwise.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail by a panic, also outside of its function"
)]

use brickmesh_actors::data_set::BrickSource as _;
use brickmesh_shaders::{RenderDevice, device::vulkan::VulkanDevice};
use brickmesh_tests::{
    compare::{compare, to_rgba8},
    mesh::{cpu, picture, scalar},
    reference::{self, Field},
    skip::vulkan_is_there,
    volumes::Bricks,
};
use brickmesh_topology::{
    Camera, RenderSettings, TransferFunction, View, VolumeDescription, VoxelType,
    data::{
        default_transfer::{default_transfer, stretched},
        value_statistics::ValueStatistics,
    },
};
use proptest::{prelude::*, test_runner::RngSeed};
use std::sync::{Arc, OnceLock};

const EDGE: u32 = 30;
/// Memory of each peer.
const MEMORY_BYTES: u64 = 256 << 20;

type MakeDevice = fn() -> Box<dyn RenderDevice>;

fn vulkan() -> Box<dyn RenderDevice> {
    Box::new(VulkanDevice::new(None, Some(MEMORY_BYTES)).unwrap())
}

/// The kinds of device that this machine has; `test` says what is not tried elsewhere.
fn devices(test: &str) -> Vec<(&'static str, MakeDevice)> {
    let mut devices: Vec<(&str, MakeDevice)> = vec![("cpu", cpu), ("scalar", scalar)];
    if vulkan_is_there(test) {
        devices.push(("vulkan", vulkan));
    }
    devices
}

/// Values by the place in a cube of −1 … 1 on each axis, x fastest.
fn values(dims: [u32; 3], value: impl Fn([f64; 3]) -> f64) -> Vec<f64> {
    let [nx, ny, nz] = dims;
    let at = |i: u32, n: u32| {
        if n > 1 {
            2.0 * f64::from(i) / f64::from(n - 1) - 1.0
        } else {
            0.0
        }
    };
    (0..nx * ny * nz)
        .map(|i| value([at(i % nx, nx), at(i / nx % ny, ny), at(i / nx / ny, nz)]))
        .collect()
}

/// A ball with a core and a dent, 0 to 1 in steps of 1/128, and `outside` around it.
fn blob(dims: [u32; 3], outside: f64) -> Vec<f64> {
    values(dims, |[x, y, z]| {
        let r = (x * x + y * y + z * z).sqrt() + 0.1 * (5.0 * x).sin() * (4.0 * y).cos();
        if r > 0.85 {
            return outside;
        }
        let v = 0.25 + 0.7 * (1.0 - r) * (1.0 + 0.3 * (7.0 * z).sin()) / 1.3;
        (v * 128.0).round() / 128.0
    })
}

fn field(dims: [u32; 3], voxel: VoxelType, stored: Vec<f64>) -> Field {
    let volume = VolumeDescription::new(dims, voxel);
    Field { volume, stored }
}

fn float_field(stored: Vec<f64>) -> Field {
    field([EDGE; 3], VoxelType::F32, stored)
}

fn view(volume: &VolumeDescription) -> View {
    let camera = Camera::orbit(volume, 35.0, 25.0, 1.3);
    camera.view(64, 56).unwrap()
}

fn settings(field: &Field, transfer: TransferFunction) -> RenderSettings {
    RenderSettings {
        shade: !field.volume.is_thin(),
        ..RenderSettings::new(transfer, 0.5 * field.volume.min_spacing())
    }
}

fn default_of(field: &Field) -> TransferFunction {
    default_transfer(Bricks::cut(field, 16).manifest()).function
}

/// The picture by two peers with bricks of 16.
fn rendered(field: &Field, transfer: TransferFunction, device: MakeDevice) -> Vec<u8> {
    let settings = settings(field, transfer);
    let source = Arc::new(Bricks::cut(field, 16));
    picture(source, 2, &device, view(&field.volume), &settings)
}

fn referred(field: &Field, transfer: TransferFunction) -> Vec<u8> {
    let settings = settings(field, transfer);
    to_rgba8(&reference::render(field, &view(&field.volume), &settings))
}

/// How bright the brightest pixel is.
fn brightest(picture: &[u8]) -> u8 {
    let colors = picture.chunks_exact(4).flat_map(|p| &p[..3]);
    colors.copied().max().unwrap_or(0)
}

/// A float as a voxel has it.
#[expect(clippy::cast_possible_truncation, reason = "as a voxel")]
fn as_float(value: f64) -> f64 {
    f64::from(value as f32)
}

#[test]
fn any_affine_map_of_the_values_gives_the_same_picture_as_far_as_floats_tell_them_apart() {
    let base = blob([EDGE; 3], 0.0);
    let maps = [
        (1.0, 1e3),
        (1.0, -1e3),
        (1.0, 1e5),
        (250.0, 101_325.0),
        (1e-9, 0.0),
        (1e-20, 0.0),
        (1e-30, 3e-29),
        (1e30, 0.0),
        (1e30, -5e31),
        (1e-3, -40.0),
        (3e37, 1e38),
        (-1.0, 0.0),
        (-1e-20, 4e-19),
    ];
    for (device_name, device) in devices("any_affine_map") {
        for (scale, offset) in maps {
            let mapped: Vec<f64> = base.iter().map(|v| as_float(v * scale + offset)).collect();
            // What floats have left of the values, without the map.
            let left: Vec<f64> = mapped.iter().map(|v| (v - offset) / scale).collect();
            let (mapped, left) = (float_field(mapped), float_field(left));
            let given = TransferFunction::ramp(0.2, 1.0);
            let given_mapped = stretched(&given, [0.2, 1.0].map(|v| v * scale + offset));
            let defaults = (default_of(&left), default_of(&mapped));
            for (what, (of_left, of_mapped)) in [
                ("given", (given.clone(), given_mapped)),
                ("default", defaults),
            ] {
                let a = rendered(&left, of_left, device);
                let b = rendered(&mapped, of_mapped, device);
                let d = compare(&a, &b);
                assert!(
                    d.max <= 1,
                    "{device_name}, {what}, x {scale} + {offset}: {d:?}"
                );
                assert!(
                    brightest(&a) > 60,
                    "{device_name}, {what}, x {scale} + {offset}"
                );
            }
        }
    }
}

#[test]
fn every_voxel_type_shows_the_same_values_alike() {
    let base = blob([EDGE; 3], 0.0);
    let types = [
        (VoxelType::U8, 128.0, 0.0),
        (VoxelType::I8, 128.0, -64.0),
        (VoxelType::U16, 12_800.0, 1_000.0),
        (VoxelType::I16, 25_600.0, -30_000.0),
        (VoxelType::F32, 1.0, 0.0),
    ];
    for (device_name, device) in devices("every_voxel_type") {
        let pictures = types.map(|(voxel, scale, offset)| {
            let stored = base
                .iter()
                .map(|v| (v * scale + offset).clamp(-32_768.0, 65_535.0));
            let clamped = stored.map(|v| {
                if voxel == VoxelType::I8 {
                    v.min(127.0)
                } else {
                    v
                }
            });
            let mut of = field([EDGE; 3], voxel, clamped.collect());
            (of.volume.value_scale, of.volume.value_offset) = (1.0 / scale, -offset / scale);
            let transfer = default_of(&of);
            let picture = rendered(&of, transfer.clone(), device);
            let d = compare(&picture, &referred(&of, transfer));
            assert!(
                d.max <= 3,
                "{device_name}, {voxel:?} beside the reference: {d:?}"
            );
            picture
        });
        for (picture, (voxel, ..)) in pictures.iter().zip(types) {
            let d = compare(&pictures[4], picture);
            assert!(d.max <= 2, "{device_name}, {voxel:?}: {d:?}");
        }
    }
}

#[test]
fn spacings_of_any_size_give_the_same_picture() {
    let base = float_field(blob([EDGE; 3], 0.0));
    let transfer = default_of(&base);
    for (device_name, device) in devices("spacings") {
        let one = rendered(&base, transfer.clone(), device);
        for size in [1e-20, 1e-9, 0.3, 1e9, 1e20, 1e30] {
            let mut scaled = base.clone();
            scaled.volume.spacing = [size; 3];
            scaled.volume.origin = [5.0 * size, -7.0 * size, 0.0];
            let d = compare(&one, &rendered(&scaled, transfer.clone(), device));
            assert!(d.max <= 1, "{device_name}, {size}: {d:?}");
        }
    }
}

#[test]
fn planes_lines_and_points_have_the_thickness_of_a_spacing() {
    for (device_name, device) in devices("planes_lines_and_points") {
        for dims in [
            [40, 30, 1],
            [40, 1, 30],
            [1, 40, 30],
            [40, 1, 1],
            [1, 1, 40],
            [1, 1, 1],
            [2, 1, 2],
        ] {
            for voxel in [VoxelType::U8, VoxelType::F32] {
                let stored = values(dims, |[x, y, z]| {
                    (200.0 - 60.0 * (x * x + y * y + z * z)).round()
                });
                let mut of = field(dims, voxel, stored);
                of.volume.spacing = [1.0, 1.2, 0.8];
                let transfer = default_of(&of);
                let picture = rendered(&of, transfer.clone(), device);
                let what = format!("{device_name}, {dims:?}, {voxel:?}");
                assert!(brightest(&picture) > 40, "{what}: {}", brightest(&picture));
                let d = compare(&picture, &referred(&of, transfer));
                assert!(d.max <= 2 || d.over_4 <= 0.001, "{what}: {d:?}");
            }
        }
    }
}

#[test]
fn what_is_no_data_is_transparent_however_it_is_written() {
    for (device_name, device) in devices("what_is_no_data") {
        let mut pictures = Vec::new();
        for (what, outside, fill) in [
            ("NaN", f64::NAN, None),
            ("infinity", f64::NEG_INFINITY, None),
            ("-9999", -9999.0, Some(-9999.0)),
            ("1e30", as_float(1e30), Some(as_float(1e30))),
        ] {
            let mut of = float_field(blob([EDGE; 3], outside));
            of.volume.fill = fill;
            let transfer = default_of(&of);
            let picture = rendered(&of, transfer.clone(), device);
            let d = compare(&picture, &referred(&of, transfer));
            assert!(
                d.max <= 3 || d.over_4 <= 0.002,
                "{device_name}, {what} beside the reference: {d:?}"
            );
            assert!(brightest(&picture) > 60, "{device_name}, {what}");
            pictures.push((what, picture));
        }
        for (what, picture) in &pictures[1..] {
            let d = compare(&pictures[0].1, picture);
            assert!(d.max <= 1, "{device_name}: {what} is not as NaN: {d:?}");
        }
    }
}

#[test]
fn declared_fill_values_of_integers_are_no_data_too() {
    for (device_name, device) in devices("declared_fill_values") {
        for (voxel, fill) in [(VoxelType::U8, 255.0), (VoxelType::I16, -2000.0)] {
            let scaled = |v: f64| if v < 0.0 { fill } else { (v * 100.0).round() };
            let stored = blob([EDGE; 3], -1.0).into_iter().map(scaled);
            let mut of = field([EDGE; 3], voxel, stored.collect());
            of.volume.fill = Some(fill);
            // Opaque beyond its ends: a fill value that counts as a value would be a solid box.
            let mut transfer = TransferFunction::ramp(20.0, 100.0);
            transfer.points[0].opacity = 0.3;
            let picture = rendered(&of, transfer.clone(), device);
            let d = compare(&picture, &referred(&of, transfer));
            assert!(
                d.max <= 3 || d.over_4 <= 0.002,
                "{device_name}, {voxel:?}: {d:?}"
            );
            let covered = picture.chunks_exact(4).filter(|p| p[..3] != [0; 3]).count();
            assert!(
                covered * 2 < picture.len() / 4,
                "{device_name}, {voxel:?}: a box"
            );
        }
    }
}

#[test]
fn outliers_and_undeclared_fill_values_leave_the_object_as_it_is() {
    let plain = float_field(blob([EDGE; 3], 0.0));
    let expected = rendered(&plain, default_of(&plain), cpu);
    for outlier in [
        1e6,
        -1e6,
        as_float(1e30),
        as_float(-1e30),
        f64::from(f32::MAX),
    ] {
        let mut stored = blob([EDGE; 3], 0.0);
        stored[3] = outlier;
        let with = float_field(stored);
        let d = compare(&expected, &rendered(&with, default_of(&with), cpu));
        assert!(d.over_4 < 0.02, "an outlier of {outlier}: {d:?}");
    }
    for fill in [-9999.0, as_float(-1e30), 9999.0, as_float(1e36)] {
        let with = float_field(blob([EDGE; 3], fill));
        for (device_name, device) in devices("outliers") {
            let picture = rendered(&with, default_of(&with), device);
            // At the surface rays meet what lies between object and fill.
            let d = compare(&expected, &picture);
            assert!(d.psnr > 22.0, "{device_name}, {fill} around: {d:?}");
        }
    }
}

#[test]
fn constant_volumes_are_seen() {
    for value in [0.0, 7.0, -3e-20, 1e30, 1e5] {
        let of = float_field(vec![as_float(value); (EDGE * EDGE * EDGE) as usize]);
        let picture = rendered(&of, default_of(&of), cpu);
        assert!(brightest(&picture) > 20, "{value}: {}", brightest(&picture));
    }
}

/// A volume, and how the same one is written otherwise.
#[derive(Clone, Debug)]
struct Written {
    dims: [u32; 3],
    voxel: VoxelType,
    /// Mapped values are `scale · (value + offset)`.
    scale: f64,
    offset: f64,
    spacing: f64,
    origin: f64,
    /// What is outside of the object where it is not 0.
    around: Option<f64>,
    outlier: Option<f64>,
    nan: bool,
    device: usize,
}

fn written() -> impl Strategy<Value = Written> {
    let dim = prop_oneof![1 => Just(1_u32), 1 => Just(2), 4 => 20..28_u32];
    let voxel = prop_oneof![
        1 => Just(VoxelType::U8),
        1 => Just(VoxelType::I8),
        1 => Just(VoxelType::U16),
        1 => Just(VoxelType::I16),
        4 => Just(VoxelType::F32),
    ];
    let scale = (-30..=30_i32, any::<bool>()).prop_map(|(e, minus)| {
        let size = 10_f64.powi(e);
        if minus { -size } else { size }
    });
    let offset = prop_oneof![1 => Just(0.0), 3 => -1e5..1e5_f64, 1 => -3e7..3e7_f64];
    let around = prop::option::weighted(0.3, prop_oneof![Just(-50.0), Just(77.0)]);
    let outlier = prop::option::weighted(0.3, prop_oneof![Just(-40.0), Just(1000.0)]);
    let place = (-20..=20_i32, -1e4..1e4_f64);
    let rest = (around, outlier, any::<bool>(), 0..99_usize);
    (
        prop::array::uniform3(dim),
        voxel,
        scale,
        offset,
        place,
        rest,
    )
        .prop_map(
            |(dims, voxel, scale, offset, (e, origin), (around, outlier, nan, device))| Written {
                dims,
                voxel,
                // Which end of the values matters follows from what is around the object, if it is
                // known.
                scale: if dims.iter().all(|&n| n > 2) {
                    scale
                } else {
                    scale.abs()
                },
                offset,
                spacing: 10_f64.powi(e),
                origin,
                around,
                outlier,
                nan,
                device,
            },
        )
}

impl Written {
    /// The volume as it is, as far as the mapped floats have it; and the mapped one. Integers are mapped
    /// by their header.
    fn fields(&self) -> [Field; 2] {
        let mut plain = blob(self.dims, 0.0);
        let last = plain.len() - 1;
        let is_float = self.voxel == VoxelType::F32;
        if is_float {
            let around = self.around.unwrap_or(0.0);
            plain
                .iter_mut()
                .filter(|v| **v <= 0.0)
                .for_each(|v| *v = around);
            if let Some(outlier) = self.outlier {
                plain[last / 3] = outlier;
            }
            if self.nan {
                plain[last / 2] = f64::NAN;
            }
        } else {
            plain.iter_mut().for_each(|v| *v = (*v * 127.0).round());
        }
        let mapped = plain
            .iter()
            .map(|v| as_float(self.scale * (v + self.offset)));
        let (left, mapped) = if is_float {
            let mapped: Vec<f64> = mapped.collect();
            let left = mapped
                .iter()
                .map(|v| as_float(v / self.scale - self.offset));
            (left.collect(), mapped)
        } else {
            (plain.clone(), plain)
        };
        let [left, mut mapped] = [left, mapped].map(|stored| field(self.dims, self.voxel, stored));
        if !is_float {
            mapped.volume.value_scale = self.scale;
            mapped.volume.value_offset = self.scale * self.offset;
        }
        mapped.volume.spacing = [self.spacing; 3];
        mapped.volume.origin = [self.origin * self.spacing; 3];
        [left, mapped]
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(15),
        ..ProptestConfig::default()
    })]

    /// However a volume is written, its picture is the same; where floats lost too much of it for that,
    /// the statistics say so.
    #[test]
    fn however_a_volume_is_written_its_picture_is_the_same(written in written()) {
        static DEVICES: OnceLock<Vec<(&'static str, MakeDevice)>> = OnceLock::new();
        let devices = DEVICES.get_or_init(|| devices("however_a_volume_is_written"));
        let (name, device) = devices[written.device % devices.len()];
        let [plain, mapped] = written.fields();
        let pictures = [&plain, &mapped].map(|of| rendered(of, default_of(of), device));
        let difference = compare(&pictures[0], &pictures[1]);
        let manifest = Bricks::cut(&mapped, 16).manifest().clone();
        let floats = manifest.statistics().and_then(ValueStatistics::floats_in_range);
        let is_said = written.voxel == VoxelType::F32 && floats.is_some_and(|n| n < 256);
        prop_assert!(difference.max <= 1 || is_said, "{name}: {difference:?}, {floats:?} floats");
        let seen = brightest(&pictures[1]);
        // There must be something to be seen: more than an outlier, and not beside the voxel without
        // data wherever it is sampled.
        let object = blob(written.dims, 0.0).into_iter().filter(|v| *v > 0.0).count();
        let is_seen = seen > 4 || object < 8 || written.nan && written.dims.iter().all(|&n| n <= 2);
        prop_assert!(is_seen, "{name}: brightest {seen}");
    }
}
