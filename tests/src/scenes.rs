//! The scenes that pictures are compared on.

use crate::{
    reference::Field,
    volumes::{limits, waves},
};
use brickmesh_topology::{
    Camera, RenderSettings, TransferFunction, View, VoxelType,
    data::{
        transfer_function::TransferPoint,
        transfer_shapes::{ShapeKind, TransferShape},
    },
    picture::{
        camera::Projection,
        clip::Clip,
        isosurface::Isosurface,
        render_settings::{Light, Mode},
        slice::Slice,
    },
};
use glam::DVec3;

fn transfer(voxel: VoxelType) -> TransferFunction {
    let (low, high) = limits(voxel);
    let p = |f: f64, color, opacity| TransferPoint {
        value: low + (high - low) * f,
        color,
        opacity,
    };
    TransferFunction {
        unit_distance: None,
        points: vec![
            p(0.0, [0.0, 0.0, 0.4], 0.0),
            p(0.35, [0.1, 0.3, 0.9], 0.0),
            p(0.5, [0.2, 0.9, 0.4], 0.08),
            p(0.65, [0.9, 0.7, 0.1], 0.02),
            p(1.0, [1.0, 0.3, 0.2], 0.35),
        ],
    }
}

/// Settings with steps of half a voxel, jittered.
#[must_use]
pub fn settings(field: &Field, shade: bool) -> RenderSettings {
    RenderSettings {
        shade,
        ..RenderSettings::new(
            transfer(field.volume.voxel),
            0.5 * field.volume.min_spacing(),
        )
    }
}

/// Eyes outside and inside of the volume, and directions in parallel projection.
///
/// # Panics
/// Never: the cameras are fixed.
#[must_use]
pub fn views(field: &Field) -> Vec<(&'static str, View)> {
    let outside = Camera::orbit(&field.volume, 30.0, 25.0, 1.1);
    let below = Camera::orbit(&field.volume, -110.0, -40.0, 1.6);
    let center = field.volume.center_in_world();
    let inside = Camera {
        eye: center + DVec3::new(0.7, -0.9, 0.4),
        at: center + DVec3::new(6.0, 5.0, -3.0),
        up: DVec3::Z,
        fov_degrees: 75.0,
        projection: Projection::Perspective,
    };
    let parallel = |camera| Camera {
        projection: Projection::Parallel,
        ..camera
    };
    let cameras = [
        ("outside", outside),
        ("below", below),
        ("inside", inside),
        ("parallel", parallel(outside)),
        ("parallel, below", parallel(below)),
    ];
    cameras
        .map(|(name, camera)| (name, camera.view(72, 60).expect("a view")))
        .into()
}

/// Fields of several types; odd sizes, anisotropic spacing, a turned direction.
#[must_use]
pub fn fields() -> Vec<(&'static str, Field)> {
    vec![
        ("u8 isotropic", waves([70, 65, 41], VoxelType::U8, false)),
        ("i16 skewed", waves([67, 40, 53], VoxelType::I16, true)),
        ("f32 skewed", waves([45, 38, 66], VoxelType::F32, true)),
    ]
}

/// Settings for pictures in a mode, with a function that shows all values.
#[must_use]
pub fn mode_settings(field: &Field, mode: Mode) -> RenderSettings {
    let [a, b] = [limits(field.volume.voxel).0, limits(field.volume.voxel).1];
    let [a, b] = [a, b].map(|stored| field.volume.value(stored));
    let (low, high) = (a.min(b), a.max(b));
    let p = |f: f64, color, opacity| TransferPoint {
        value: low + (high - low) * f,
        color,
        opacity,
    };
    let opacity = |o: f64| if mode == Mode::Additive { 0.02 * o } else { o };
    let transfer = TransferFunction {
        unit_distance: None,
        points: vec![
            p(0.0, [0.0, 0.2, 1.0], opacity(0.3)),
            p(0.3, [0.3, 0.9, 0.1], opacity(1.0)),
            p(0.7, [0.9, 0.3, 0.8], opacity(0.6)),
            p(1.0, [1.0, 1.0, 0.0], opacity(1.0)),
        ],
    };
    let [low, high] = transfer.ends();
    let range = high - low;
    RenderSettings {
        mode,
        // Of one field unlit, where gradients are needed for the opacity alone.
        shade: field.volume.voxel != VoxelType::F32,
        gradient_opacity: Some([0.01 * range, 0.1 * range]),
        // Not the default one, which other tests have.
        light: Light {
            ambient: 0.1,
            diffuse: 0.6,
            specular: 0.5,
            exponent: 37,
            direction: None,
        },
        isosurfaces: if mode == Mode::Iso {
            surfaces(&transfer)
        } else {
            Vec::new()
        },
        slice: mode.is_slice().then(|| oblique(field)),
        ..RenderSettings::new(transfer, 0.5 * field.volume.min_spacing())
    }
}

/// Three isosurfaces, two of them transparent.
fn surfaces(transfer: &TransferFunction) -> Vec<Isosurface> {
    let [low, high] = transfer.ends();
    let surface = |part: f64, color, opacity| Isosurface {
        value: low + part * (high - low),
        color,
        opacity,
    };
    vec![
        surface(0.531, [0.9, 0.2, 0.1], 0.4),
        surface(0.337, [0.2, 0.8, 0.3], 0.6),
        surface(0.718, [0.9, 0.9, 1.0], 1.0),
    ]
}

fn oblique(field: &Field) -> Slice {
    Slice::through(field.volume.center_in_world(), DVec3::new(1.0, -2.0, 1.7))
}

/// What pictures are compared in: every mode, slabs; and in mode dvr a 2D function, lit from aside, and
/// pre-integrated ones, one of them with peaks, which are narrow beside what a step passes.
#[must_use]
pub fn looks(field: &Field) -> Vec<(&'static str, RenderSettings)> {
    let dvr = mode_settings(field, Mode::Dvr);
    let two_d = RenderSettings {
        transfer_2d: shapes(dvr.transfer.ends()),
        gradient_opacity: None,
        light: Light {
            direction: Some([-0.6, 0.7, 0.4]),
            ..dvr.light
        },
        ..dvr.clone()
    };
    let preintegrated = |of: &RenderSettings| RenderSettings {
        preintegrate: true,
        ..of.clone()
    };
    let unlit_peaks = RenderSettings {
        transfer: peaks(dvr.transfer.ends()),
        shade: false,
        gradient_opacity: None,
        step: field.volume.min_spacing(),
        ..preintegrated(&dvr)
    };
    let coarse = RenderSettings {
        step: 4.0 * field.volume.min_spacing(),
        ..preintegrated(&dvr)
    };
    // Of every view, also the one from inside.
    let seen = field.volume.center_in_world() + DVec3::new(4.0, 3.0, -2.0);
    let seen = field.volume.grid_from_world().transform_point3(seen);
    let on_axis = RenderSettings {
        slice: Some(Slice::on_axis(&field.volume, 1, seen.y.round())),
        ..mode_settings(field, Mode::Slice)
    };
    let slab = |mode| RenderSettings {
        slice: Some(Slice {
            thickness: 7.3 * field.volume.min_spacing(),
            ..oblique(field)
        }),
        ..mode_settings(field, mode)
    };
    let mut in_volume = RenderSettings {
        isosurfaces: surfaces(&dvr.transfer),
        transfer_2d: Vec::new(),
        ..two_d.clone()
    };
    for point in &mut in_volume.transfer.points {
        point.opacity *= 0.05;
    }
    let mut looks: Vec<_> = Mode::ALL
        .map(|mode| (mode.name(), mode_settings(field, mode)))
        .into();
    looks.extend([
        ("pre-integrated", preintegrated(&dvr)),
        ("pre-integrated, coarse", coarse),
        ("pre-integrated peaks", unlit_peaks),
        ("2D, pre-integrated", preintegrated(&two_d)),
        ("2D", two_d),
        ("isosurfaces in a volume", in_volume),
        ("slice on an axis", on_axis),
        ("slab", slab(Mode::Slice)),
        ("slab, mean", slab(Mode::SliceMean)),
    ]);
    looks
}

/// The same with a box and two planes that cut parts of the field away.
#[must_use]
pub fn clipped(field: &Field, mut settings: RenderSettings) -> RenderSettings {
    let dims = field.volume.dims.map(f64::from);
    let center = field.volume.center_in_world();
    let plane = |n: DVec3, off: f64| [n.x, n.y, n.z, n.dot(center) - off * n.length()];
    let radius = 0.5 * field.volume.diagonal();
    settings.clip = Clip {
        bounds: Some([dims.map(|n| 0.137 * n), dims.map(|n| 0.871 * n)]),
        planes: vec![
            plane(DVec3::new(1.0, -2.0, 0.7), 0.21 * radius),
            plane(DVec3::new(-0.3, 0.5, 3.0), 0.17 * radius),
        ],
    };
    settings
}

/// Shapes of both kinds that overlap, over these values.
fn shapes([low, high]: [f64; 2]) -> Vec<TransferShape> {
    let range = high - low;
    let shape = |kind, value: [f64; 2], gradient: [f64; 2], color, opacity| TransferShape {
        kind,
        value: value.map(|v| low + range * v),
        gradient: gradient.map(|g| range * g),
        color,
        opacity,
    };
    let (square, bell) = (ShapeKind::Box, ShapeKind::Gaussian);
    vec![
        shape(square, [0.3, 0.55], [0.01, 0.1], [0.2, 0.9, 0.4], 0.1),
        shape(bell, [0.4, 0.9], [0.0, 0.12], [1.0, 0.3, 0.1], 0.5),
        shape(square, [0.1, 0.2], [0.0, 0.05], [0.1, 0.2, 1.0], 0.03),
    ]
}

/// A function that shows three ranges of a hundredth of these values.
#[must_use]
pub fn peaks([low, high]: [f64; 2]) -> TransferFunction {
    let point = |part: f64, opacity| TransferPoint {
        value: low + (high - low) * part,
        color: [1.0 - part, 0.8, part],
        opacity,
    };
    let peak = |at: f64| {
        [(at, 0.0), (at, 0.6), (at + 0.01, 0.6), (at + 0.01, 0.0)].map(|(p, o)| point(p, o))
    };
    let peaks = [0.35, 0.5, 0.62].into_iter().flat_map(peak);
    let points = std::iter::once(point(0.0, 0.0))
        .chain(peaks)
        .chain([point(1.0, 0.0)]);
    TransferFunction {
        unit_distance: None,
        points: points.collect(),
    }
}

/// [`fields`], and one whose values fall where the stored numbers rise.
#[must_use]
pub fn mode_fields() -> Vec<(&'static str, Field)> {
    let mut fields = fields();
    let mut falling = waves([33, 40, 37], VoxelType::U16, false);
    (falling.volume.value_scale, falling.volume.value_offset) = (-0.25, 1000.0);
    fields.push(("u16 falling", falling));
    fields
}
