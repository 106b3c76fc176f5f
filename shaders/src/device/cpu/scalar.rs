//! The portable kernel: one ray at a time, on any processor.
//!
//! Source: Levoy, "Efficient ray tracing of volume data", ACM TOG 9(3), 1990.

use super::{
    TILE_COLUMNS,
    field::{CELL_SHIFT, Field},
    frame::Frame,
    ray::Ray,
    surface_hits::{LitPixel, SurfaceHits},
    voxel::StoredVoxel,
};
use crate::{
    macrocells::SkipGrid,
    modes::{ModeStages, with_kernel_mode},
    secondary::LitPoint,
};
use brickmesh_topology::{PixelRect, data::voxel_numbers::NO_DATA_MIN};

/// Where a position lies between voxels.
#[derive(Clone, Copy)]
struct CellPlace {
    /// Lower neighbour, from the first stored voxel.
    cell: [usize; 3],
    /// 0 … 1 from there to the upper neighbour.
    fraction: [f32; 3],
}

/// Renders the pixels of `part` into `rows`, rows of `row_pixels` pixels whose first is at the
/// corner of `part`; points of surfaces that are to be lit go to `points`.
pub(super) fn render_part<V: StoredVoxel>(
    frame: &Frame,
    field: &Field<'_>,
    part: &PixelRect,
    (rows, row_pixels): (&mut [[f32; 4]], usize),
    points: &mut Vec<LitPoint>,
) {
    for tile in (0..part.width).step_by(TILE_COLUMNS as usize) {
        let columns = tile..part.width.min(tile + TILE_COLUMNS);
        for (y, row) in (part.y..part.y + part.height).zip(rows.chunks_mut(row_pixels)) {
            let pixels = &mut row[columns.start as usize..columns.end as usize];
            for (x, pixel) in columns.clone().zip(pixels) {
                let x = part.x + x;
                let (ray, may_meet) = field.ray(frame, [x, y]);
                if !may_meet && !frame.has_samples {
                    *pixel = [0.0; 4];
                    continue;
                }
                let lit = &mut LitPixel {
                    pixel: [x, y],
                    weight: 1.0,
                    points,
                };
                *pixel = meet::<V>(frame, field, &ray, [0.0; 4], lit);
            }
        }
    }
}

/// How opaque a part of a field is along a ray, 0 to 1, in modes in which something is.
pub(super) fn opacity<V: StoredVoxel>(frame: &Frame, field: &Field<'_>, ray: &Ray) -> f32 {
    let lit = &mut LitPixel {
        pixel: [0; 2],
        weight: 1.0,
        points: &mut Vec::new(),
    };
    let [.., opacity] = meet::<V>(frame, field, ray, [0.0; 4], lit);
    opacity
}

/// What a ray shows once it is through a part of a field, behind what it has met before.
#[inline(always)]
pub(super) fn meet<V: StoredVoxel>(
    frame: &Frame,
    field: &Field<'_>,
    ray: &Ray,
    before: [f32; 4],
    lit: &mut LitPixel<'_>,
) -> [f32; 4] {
    with_kernel_mode!(frame.mode, frame.shading.is_some(), frame.has_segments, M => {
        march::<V, M>(frame, field, ray, before, lit)
    })
}

fn march<V: StoredVoxel, M: ModeStages>(
    frame: &Frame,
    field: &Field<'_>,
    ray: &Ray,
    mut partial: [f32; 4],
    lit: &mut LitPixel<'_>,
) -> [f32; 4] {
    let (first, end) = if frame.has_samples {
        ray.interval(&field.bounds, &frame.clip_planes)
    } else {
        (0, 0)
    };
    let half = ray.half_segment();
    let number_at = |k: f32| sample::<V>(field, &locate(field, ray.position(k)));
    let has_surfaces = field.may_have_surfaces(frame);
    let mut hits = has_surfaces.then(|| SurfaceHits::<V>::new(frame, field, ray));
    // Puts the surfaces before a distance into the partial; whether all behind is hidden.
    let mut pass = |partial: &mut [f32; 4], until: f64| {
        while let Some(hit) = hits.as_mut().and_then(|hits| hits.next_before(until)) {
            hit.put::<V, M>((frame, field), ray, partial, lit);
            if M::is_done(partial, frame.opaque) {
                return true;
            }
        }
        false
    };
    for k in first..end {
        if pass(&mut partial, ray.exact.distance(k)) {
            return partial;
        }
        let k = k as f32;
        let p = ray.position(k);
        let cell = locate(field, p);
        if field.skip.is_some_and(|skip| is_hidden(skip, &cell)) {
            continue;
        }
        let numbers = if M::SEGMENTS {
            let middle = sample::<V>(field, &cell);
            [number_at(k - half), middle, number_at(k + half)]
        } else {
            [sample::<V>(field, &cell); 3]
        };
        if numbers.iter().any(|&number| number >= NO_DATA_MIN) {
            continue;
        }
        let profile = numbers.map(|number| frame.table.place(number));
        let behind = if M::MODE.combines_values() {
            [profile[0], 1.0, 0.0, 0.0]
        } else {
            let mut color = frame.table.color(profile);
            if M::SHADED
                && color[3] > 0.0
                && let Some(shading) = &frame.shading
            {
                let slope = shading.slope(difference::<V>(field, p), ray.direction, 1.0);
                if let Some(rows_per_floor) = frame.table.rows_per_floor {
                    color = (frame.table).color_2d(profile, slope.length, rows_per_floor);
                }
                color = shading.lit(color, &slope);
            }
            color
        };
        M::combine(&mut partial, behind);
        if M::is_done(&partial, frame.opaque) {
            return partial;
        }
    }
    pass(&mut partial, f64::INFINITY);
    partial
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the stored box; NaN becomes 0"
)]
fn locate(field: &Field<'_>, p: [f32; 3]) -> CellPlace {
    let mut place = CellPlace {
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

fn is_hidden(skip: &SkipGrid, place: &CellPlace) -> bool {
    let [nx, ny, _] = skip.counts().map(|n| n as usize);
    let [x, y, z] = place.cell.map(|i| i >> CELL_SHIFT);
    skip.distances()[(z * ny + y) * nx + x] > 0
}

fn sample<V: StoredVoxel>(field: &Field<'_>, place: &CellPlace) -> f32 {
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
pub(super) fn difference<V: StoredVoxel>(field: &Field<'_>, p: [f32; 3]) -> [f32; 3] {
    let place = locate(field, p);
    // Cells beside it are stored, and none is clamped.
    let is_inside = (0..3).all(|a| (1..field.size[a].saturating_sub(2)).contains(&place.cell[a]));
    let differences = if is_inside {
        difference_inside::<V>(field, &place)
    } else {
        std::array::from_fn(|a| {
            let beside = |by: f32| {
                let mut q = p;
                q[a] += by;
                sample::<V>(field, &locate(field, q))
            };
            beside(1.0) - beside(-1.0)
        })
    };
    differences.map(|d| if d.abs() < NO_DATA_MIN { d } else { 0.0 })
}

/// The same where all cells beside it are stored: what they share is read once.
fn difference_inside<V: StoredVoxel>(field: &Field<'_>, place: &CellPlace) -> [f32; 3] {
    let [x, y, z] = place.cell;
    let [fx, fy, fz] = place.fraction;
    let [_, row, slice] = field.stride;
    let at = x + row * y + slice * z;
    let mix = |a: f32, b: f32, t: f32| a + (b - a) * t;
    let of = |[a, b]: [f32; 2], [c, d]: [f32; 2]| mix(mix(a, b, fx), mix(c, d, fx), fy);
    // Rows of four from the voxel below on x, of both neighbours on y and z; and of two beside these.
    let [a, b] =
        [at, at + slice].map(|at| [at - 1, at + row - 1].map(|at| numbers::<V, 4>(field, at)));
    let rows = |at: usize| [at, at + row].map(|at| numbers::<V, 2>(field, at));
    let [before, behind] = [at - slice, at + 2 * slice].map(rows);
    let side = |at: usize| [at - row, at + 2 * row].map(|at| numbers::<V, 2>(field, at));
    let [side_a, side_b] = [side(at), side(at + slice)];
    let two = |row: [f32; 4], from: usize| [row[from], row[from + 1]];
    let face = |rows: [[f32; 4]; 2], from: usize| of(two(rows[0], from), two(rows[1], from));
    let in_cell = |rows: [[f32; 4]; 2]| rows.map(|row| two(row, 1));
    let (cell_a, cell_b) = (in_cell(a), in_cell(b));
    let (face_a, face_b) = (of(cell_a[0], cell_a[1]), of(cell_b[0], cell_b[1]));
    [
        mix(face(a, 2), face(b, 2), fz) - mix(face(a, 0), face(b, 0), fz),
        mix(of(cell_a[1], side_a[1]), of(cell_b[1], side_b[1]), fz)
            - mix(of(side_a[0], cell_a[0]), of(side_b[0], cell_b[0]), fz),
        mix(face_b, of(behind[0], behind[1]), fz) - mix(of(before[0], before[1]), face_a, fz),
    ]
}

/// So many voxels of a row.
#[inline(always)]
fn numbers<V: StoredVoxel, const COUNT: usize>(field: &Field<'_>, at: usize) -> [f32; COUNT] {
    let bytes = &field.bytes[at * V::BYTES..][..COUNT * V::BYTES];
    std::array::from_fn(|n| V::read(&bytes[n * V::BYTES..]).number(&field.numbers))
}
