//! The portable kernel: one ray at a time, on any processor.
//!
//! Source: Levoy, "Efficient ray tracing of volume data", ACM TOG 9(3), 1990.

use super::{
    field::{CELL_SHIFT, Field},
    frame::Frame,
    ray::Ray,
    voxel::StoredVoxel,
};
use crate::{macrocells::SkipGrid, over::over, scene::OPAQUE, transfer_table::TransferTable};
use brickmesh_topology::{PixelRect, voxel_numbers::NO_DATA_MIN};

/// Where a position lies between voxels.
struct Place {
    /// Lower neighbour, from the first stored voxel.
    cell: [usize; 3],
    /// 0 … 1 from there to the upper neighbour.
    fraction: [f32; 3],
}

/// Renders the pixels of `part` into `rows`, rows of `row_pixels` pixels whose first is at the
/// corner of `part`.
pub(super) fn render_part<V: StoredVoxel>(
    frame: &Frame,
    field: &Field<'_>,
    part: &PixelRect,
    rows: &mut [[f32; 4]],
    row_pixels: usize,
) {
    for (y, row) in (part.y..part.y + part.height).zip(rows.chunks_mut(row_pixels)) {
        for (x, pixel) in (part.x..part.x + part.width).zip(row) {
            *pixel = march::<V>(frame, field, &frame.ray(x, y));
        }
    }
}

fn march<V: StoredVoxel>(frame: &Frame, field: &Field<'_>, ray: &Ray) -> [f32; 4] {
    let (first, end) = ray.samples_inside(&field.bounds);
    let mut pixel = [0.0; 4];
    for k in first..end {
        let p = ray.position(k);
        let place = locate(field, p);
        if field.skip.is_some_and(|skip| is_hidden(skip, &place)) {
            continue;
        }
        let number = trilinear::<V>(field, &place);
        if number >= NO_DATA_MIN {
            continue;
        }
        let mut color = classify(&frame.table, number);
        if color[3] <= 0.0 {
            continue;
        }
        if let Some(shading) = &frame.shading {
            color = shading.lit(color, difference::<V>(field, p), ray.direction);
        }
        over(&mut pixel, color);
        if pixel[3] >= OPAQUE {
            break;
        }
    }
    pixel
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the stored box; NaN becomes 0"
)]
fn locate(field: &Field<'_>, p: [f32; 3]) -> Place {
    let mut place = Place {
        cell: [0; 3],
        fraction: [0.0; 3],
    };
    for (a, p) in p.into_iter().enumerate() {
        let q = p.max(field.first[a]).min(field.last[a]);
        let below = q.min(field.last_cell[a]).floor();
        place.cell[a] = (below - field.first[a]) as usize;
        place.fraction[a] = q - below;
    }
    place
}

fn is_hidden(skip: &SkipGrid, place: &Place) -> bool {
    let [nx, ny, _] = skip.counts().map(|n| n as usize);
    let [x, y, z] = place.cell.map(|i| i >> CELL_SHIFT);
    skip.distances()[(z * ny + y) * nx + x] > 0
}

fn trilinear<V: StoredVoxel>(field: &Field<'_>, place: &Place) -> f32 {
    let [x, y, z] = place.cell;
    let [fx, fy, fz] = place.fraction;
    let at = x + field.size[0] * (y + field.size[1] * z);
    let mix = |a: f32, b: f32, t: f32| a + (b - a) * t;
    let line = |start: usize| {
        let voxel = |i: usize| V::read(&field.bytes[i * V::BYTES..]).number(&field.numbers);
        mix(voxel(start), voxel(start + field.stride[0]), fx)
    };
    let face = |start: usize| mix(line(start), line(start + field.stride[1]), fy);
    mix(face(at), face(at + field.stride[2]), fz)
}

/// Difference of the field a voxel above and a voxel below on each axis, clamped to the edge; 0 beside
/// what is no data.
fn difference<V: StoredVoxel>(field: &Field<'_>, p: [f32; 3]) -> [f32; 3] {
    std::array::from_fn(|a| {
        let beside = |by: f32| {
            let mut q = p;
            q[a] += by;
            trilinear::<V>(field, &locate(field, q))
        };
        let difference = beside(1.0) - beside(-1.0);
        if difference.abs() < NO_DATA_MIN {
            difference
        } else {
            0.0
        }
    })
}

/// Premultiplied colour of a step through a stored number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the table before; NaN becomes 0"
)]
fn classify(table: &TransferTable, number: f32) -> [f32; 4] {
    let last = table.entries.len() - 1;
    let x = number
        .mul_add(table.scale, table.offset)
        .max(0.0)
        .min(last as f32);
    let entry = (x as usize).min(last.saturating_sub(1));
    let t = x - entry as f32;
    let (a, b) = (table.entries[entry], table.entries[(entry + 1).min(last)]);
    std::array::from_fn(|c| a[c] + (b[c] - a[c]) * t)
}
