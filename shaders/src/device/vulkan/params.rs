//! The kernels' parameters: mirrors of the structs in `wgsl/raycast.wgsl`.
//!
//! Space: what is in the grid is in voxels; numbers are worked out in f64 and rounded once, alike
//! for every brick and job of a scene.

use super::voxel_image::VoxelImageKind;
use crate::{scene::Scene, transfer_table::TransferTable};
use brickmesh_topology::{
    PixelRect, VoxelBox,
    data::triangles::MATERIALS_MAX,
    picture::{
        camera::Rays,
        clip::PLANES_MAX,
        isosurface::{ISOSURFACES_MAX, Isosurface},
        slice::GridSlice,
    },
};
use glam::{DMat3, DVec3};
use std::mem::{offset_of, size_of};

/// Mirror of `SceneParams` in `wgsl/raycast.wgsl` (uniform buffer, std140).
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub(super) struct SceneParams {
    start_in_grid: [f32; 3],
    step_in_world: f32,
    forward_in_grid: [f32; 3],
    pixel_x: f32,
    right_in_grid: [f32; 3],
    pixel_y: f32,
    down_in_grid: [f32; 3],
    table_last: f32,
    forward_in_world: [f32; 3],
    inverse_table_size: f32,
    right_in_world: [f32; 3],
    jitter: f32,
    down_in_world: [f32; 3],
    segment_unit: f32,
    gradient_x: [f32; 3],
    picture_x: u32,
    gradient_y: [f32; 3],
    picture_y: u32,
    gradient_z: [f32; 3],
    exponent: u32,
    light: [f32; 3],
    fade_per_floor: f32,
    fade_at_none: f32,
    rows_per_floor: f32,
    first_row: f32,
    aside: f32,
    to_light: [f32; 3],
    plane_count: u32,
    planes: [[f32; 4]; PLANES_MAX],
    start_right: [f32; 3],
    opaque: f32,
    start_down: [f32; 3],
    slice_half: f32,
    slice_plane: [f32; 4],
    slice_across: [f32; 3],
    slice_at: f32,
    surfaces: SurfaceParams,
    materials: [[f32; 4]; MATERIALS_MAX],
}

/// Members of `SceneParams` in `wgsl/raycast.wgsl`.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct SurfaceParams {
    colors: [[f32; 4]; ISOSURFACES_MAX],
    numbers: [f32; ISOSURFACES_MAX],
    clip_low: [f32; 3],
    count: u32,
    clip_high: [f32; 3],
    has_samples: f32,
}

/// Beyond every voxel.
const BEYOND: f64 = 1e30;
/// Exponent of the highlight in kernels without extras; with it nothing is looked up.
const PLAIN_EXPONENT: u32 = 10;

const _: () = assert!(
    size_of::<SceneParams>() == 560 + 16 * MATERIALS_MAX
        && offset_of!(SceneParams, table_last) == 60
        && offset_of!(SceneParams, inverse_table_size) == 76
        && offset_of!(SceneParams, jitter) == 92
        && offset_of!(SceneParams, gradient_x) == 112
        && offset_of!(SceneParams, picture_y) == 140
        && offset_of!(SceneParams, gradient_z) == 144
        && offset_of!(SceneParams, light) == 160
        && offset_of!(SceneParams, aside) == 188
        && offset_of!(SceneParams, to_light) == 192
        && offset_of!(SceneParams, plane_count) == 204
        && offset_of!(SceneParams, planes) == 208
        && offset_of!(SceneParams, start_right) == 304
        && offset_of!(SceneParams, opaque) == 316
        && offset_of!(SceneParams, slice_half) == 332
        && offset_of!(SceneParams, slice_at) == 364
        && offset_of!(SceneParams, surfaces) == 368
        && offset_of!(SurfaceParams, numbers) == 128
        && offset_of!(SurfaceParams, count) == 172
        && offset_of!(SurfaceParams, has_samples) == 188
);

/// Mirror of `JobParams` in `wgsl/raycast.wgsl` (push constants, at most 128 bytes).
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub(super) struct JobParams {
    owned_low: [f32; 3],
    first_x: u32,
    owned_high: [f32; 3],
    first_y: u32,
    stored_low: [f32; 3],
    width: u32,
    stored_last: [f32; 3],
    height: u32,
    inverse_size: [f32; 3],
    sample_scale: f32,
    table_scale: f32,
    table_offset: f32,
    number_scale: f32,
    number_offset: f32,
    cells_low: [f32; 3],
    numbers_are_whole: f32,
    cells_high: [f32; 3],
    pub(super) points_max: u32,
}

const _: () = assert!(
    size_of::<JobParams>() == 128
        && offset_of!(JobParams, owned_high) == 16
        && offset_of!(JobParams, height) == 60
        && offset_of!(JobParams, sample_scale) == 76
        && offset_of!(JobParams, table_offset) == 84
        && offset_of!(JobParams, cells_low) == 96
        && offset_of!(JobParams, cells_high) == 112
        && offset_of!(JobParams, points_max) == 124
);

impl SceneParams {
    /// The parameters of a scene whose table is `table`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "kernels work in f32"
    )]
    pub(super) fn new(scene: &Scene, table: &TransferTable) -> Self {
        let grid_from_world = scene.volume.grid_from_world();
        let view = &scene.view;
        let Rays { start, along } = view.rays(&scene.volume);
        let world = |v: DVec3| v.as_vec3().to_array();
        let grid = |v: DVec3| (grid_from_world.matrix3 * v).as_vec3().to_array();
        let [value_scale, _] = scene.numbers.value_scale_and_offset(&scene.volume);
        // The gradient of a field in the world is the inverse transpose of the map's linear part
        // times the gradient in the grid; a central difference spans two voxels.
        let world_from_grid: DMat3 = scene.volume.world_from_grid().matrix3;
        let gradient =
            world_from_grid.inverse().transpose() * (0.5 * value_scale / scene.gradient_floor());
        let count = table.columns as f32;
        let planes = scene.settings.clip.planes_in_grid(&scene.volume);
        let slice = scene.settings.slice();
        let slice = slice.map(|slice| GridSlice::new(slice, &scene.volume));
        let (across, slice_at) = match slice.and_then(|slice| slice.axis) {
            Some((axis, at)) => (Some(axis), at),
            None => (None, 0.0),
        };
        let to_light = scene.light_direction();
        let light = scene.settings.effective_light();
        let [per_floor, at_none] = scene.fade().unwrap_or([0.0, 1.0]);
        Self {
            start_in_grid: grid_from_world
                .transform_point3(start[0])
                .as_vec3()
                .to_array(),
            step_in_world: scene.settings.step as f32,
            forward_in_grid: grid(along[0]),
            pixel_x: (2.0 / f64::from(view.width)) as f32,
            right_in_grid: grid(along[1]),
            pixel_y: (2.0 / f64::from(view.height)) as f32,
            down_in_grid: grid(along[2]),
            table_last: count - 1.0,
            forward_in_world: world(along[0]),
            inverse_table_size: 1.0 / count,
            right_in_world: world(along[1]),
            jitter: f32::from(u8::from(scene.settings.jitter && slice.is_none())),
            down_in_world: world(along[2]),
            segment_unit: table.segment_unit.unwrap_or(0.0),
            gradient_x: world(gradient.x_axis),
            picture_x: view.first[0],
            gradient_y: world(gradient.y_axis),
            picture_y: view.first[1],
            gradient_z: world(gradient.z_axis),
            exponent: light.exponent,
            light: [light.ambient, light.diffuse, light.specular],
            fade_per_floor: per_floor as f32,
            fade_at_none: at_none as f32,
            rows_per_floor: table.rows_per_floor.unwrap_or(0.0),
            first_row: 0.5 / table.rows() as f32,
            aside: f32::from(u8::from(to_light.is_some())),
            to_light: world(to_light.unwrap_or_default()),
            plane_count: planes.len() as u32,
            planes: std::array::from_fn(|i| {
                planes
                    .get(i)
                    .map_or([0.0; 4], |plane| plane.map(|n| n as f32))
            }),
            start_right: grid(start[1]),
            opaque: scene.settings.opaque().unwrap_or(1.0),
            start_down: grid(start[2]),
            slice_half: slice.map_or(-1.0, |slice| slice.half as f32),
            slice_plane: slice.map_or([0.0; 4], |slice| slice.plane.map(|n| n as f32)),
            slice_across: std::array::from_fn(|a| f32::from(u8::from(across == Some(a)))),
            slice_at: slice_at as f32,
            surfaces: SurfaceParams::new(scene),
            materials: std::array::from_fn(|i| scene.materials.get(i).copied().unwrap_or_default()),
        }
    }
}

impl SurfaceParams {
    #[expect(clippy::cast_possible_truncation, reason = "kernels work in f32")]
    fn new(scene: &Scene) -> Self {
        let surfaces = scene.settings.surfaces();
        let mut numbers = [0.0; ISOSURFACES_MAX];
        for (kept, number) in numbers.iter_mut().zip(scene.surface_numbers()) {
            *kept = number;
        }
        let bounds = scene.settings.clip.bounds;
        let [clip_low, clip_high] = bounds.unwrap_or([[-BEYOND; 3], [BEYOND; 3]]);
        Self {
            colors: std::array::from_fn(|i| {
                surfaces.get(i).map_or([0.0; 4], Isosurface::premultiplied)
            }),
            numbers,
            clip_low: clip_low.map(|c| c as f32),
            count: surfaces.len() as u32,
            clip_high: clip_high.map(|c| c as f32),
            has_samples: f32::from(u8::from(scene.settings.mode.has_samples())),
        }
    }
}

impl SceneParams {
    /// Whether kernels need what they leave out where nothing of it is there: planes that cut, a slab, a light that is not at
    /// the eye, another exponent of a highlight, opacity by gradient, a 2D function.
    pub(super) fn has_extras(&self) -> bool {
        self.slice_half >= 0.0
            || self.aside > 0.0
            || (self.light[2] > 0.0 && self.exponent != PLAIN_EXPONENT)
            || self.has_extras_of_opacity()
    }

    /// The same of kernels that are asked how opaque something is.
    pub(super) fn has_extras_of_opacity(&self) -> bool {
        let fades = self.fade_per_floor.abs() > 0.0 || self.fade_at_none < 1.0;
        self.plane_count > 0 || fades || self.rows_per_floor > 0.0
    }
}

impl JobParams {
    /// The parameters of the job on `owned`, seen in `rect`, of a brick stored as `kind` says.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "kernels work in f32; dims are below 2^24"
    )]
    pub(super) fn new(
        owned: &VoxelBox,
        stored: &VoxelBox,
        clip: Option<[[f64; 3]; 2]>,
        dims: [u32; 3],
        rect: &PixelRect,
        kind: &VoxelImageKind,
        table: &TransferTable,
    ) -> Self {
        let (mut owned_low, mut owned_high) = owned.owned_points(dims);
        if let Some([low, high]) = clip {
            for a in 0..3 {
                owned_low[a] = owned_low[a].max(low[a] as f32);
                owned_high[a] = owned_high[a].min((high[a] as f32).next_up());
            }
        }
        let size = stored.size();
        let cells = owned.owned_cells(dims);
        let [cells_low, cells_high] =
            cells.map(|end| std::array::from_fn(|a| end[a] as f32 - stored.lo[a] as f32));
        let (scale, offset) = (f64::from(table.scale), f64::from(table.offset));
        Self {
            owned_low,
            first_x: rect.x,
            owned_high,
            first_y: rect.y,
            stored_low: stored.lo.map(|v| v as f32),
            width: rect.width,
            stored_last: size.map(|n| (n - 1) as f32),
            height: rect.height,
            inverse_size: size.map(|n| 1.0 / n as f32),
            sample_scale: kind.scale as f32,
            table_scale: (kind.scale * scale) as f32,
            table_offset: (kind.offset * scale + offset) as f32,
            number_scale: kind.scale as f32,
            number_offset: kind.offset as f32,
            cells_low,
            numbers_are_whole: f32::from(u8::from(kind.is_whole())),
            cells_high,
            points_max: 0,
        }
    }
}
