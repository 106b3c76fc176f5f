//! Five segmented regions as formulas, in place of the Visible Korean, which is not public: shapes after anatomy in
//! millimetres, cut where just so many voxels are left as the paper says that are not empty.
//!
//! Source: Frank, Kaufman 2009, section 6.1 (2468×1407 pixels, 8590 slices of 0.2 mm, three bytes of colour and one of mask) and
//! table 2 (bytes and empty space of each region; the bytes are those of its whole slices).

/// Pixels of a slice.
pub(super) const SLICE_PIXELS: [u32; 2] = [2468, 1407];
/// Edge of a voxel, millimetres.
const VOXEL_MM: f64 = 0.2;
/// Bytes of a voxel.
pub(super) const VOXEL_BYTES: f64 = 4.0;

type Point = [f64; 3];

/// A region's shape: how far a place is outside of it, in units of its own thickness. Places in millimetres, the origin
/// at the low corner, `length` millimetres along z.
pub(super) type Shape = fn(at: Point, length: f64) -> f64;

/// Names as in the paper's table 2, in its order, and shapes.
pub(super) const SHAPES: [(&str, Shape); 5] = [
    ("cerebellum", cerebellum),
    ("brain_stem", brain_stem),
    ("bones", bones),
    ("cerebrum", cerebrum),
    ("lungs", lungs),
];

/// Which voxels of a region are not empty, slice by slice; `dims` voxels of `coarseness` times the paper's edge.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a count of voxels that are in memory"
)]
pub(super) fn kept(shape: Shape, dims: [u32; 3], coarseness: f64, empty: f64) -> Vec<Vec<bool>> {
    let mm = VOXEL_MM * coarseness;
    let length = f64::from(dims[2]) * mm;
    let slice = |z: u32| -> Vec<f64> {
        let rows = (0..dims[1]).flat_map(|y| (0..dims[0]).map(move |x| [x, y, z]));
        rows.map(|at| shape(at.map(|v| (f64::from(v) + 0.5) * mm), length))
            .collect()
    };
    let slices: Vec<Vec<f64>> = (0..dims[2]).map(slice).collect();
    let mut all: Vec<f64> = slices.iter().flatten().copied().collect();
    let count = ((1.0 - empty) * all.len() as f64).round() as usize;
    let last = count.clamp(1, all.len()) - 1;
    let (_, bound, _) = all.select_nth_unstable_by(last, f64::total_cmp);
    let bound = *bound;
    let is_kept = |values: Vec<f64>| values.into_iter().map(|v| v <= bound).collect();
    slices.into_iter().map(is_kept).collect()
}

/// Pixels' middle across x and y, millimetres.
fn middle() -> [f64; 2] {
    SLICE_PIXELS.map(|n| f64::from(n) * VOXEL_MM / 2.0)
}

/// Distance to a line between two points, over a radius.
fn rod(at: Point, a: Point, b: Point, radius: f64) -> f64 {
    let along = |p: Point, q: Point| -> Point { std::array::from_fn(|i| q[i] - p[i]) };
    let dot = |p: Point, q: Point| p[0] * q[0] + p[1] * q[1] + p[2] * q[2];
    let (line, to) = (along(a, b), along(a, at));
    let part = (dot(to, line) / dot(line, line)).clamp(0.0, 1.0);
    let off: Point = std::array::from_fn(|i| to[i] - part * line[i]);
    dot(off, off).sqrt() / radius
}

/// Distance from the middle of an ellipsoid, in its half axes.
fn ellipsoid(at: Point, center: Point, half: Point) -> f64 {
    let square = |i: usize| ((at[i] - center[i]) / half[i]).powi(2);
    (square(0) + square(1) + square(2)).sqrt()
}

/// Distance from an ellipsoid's surface of so many millimetres.
fn shell(at: Point, center: Point, half: Point, thickness: f64) -> f64 {
    (ellipsoid(at, center, half) - 1.0).abs() * half[0].min(half[1]) / thickness
}

/// Two lobes beside each other.
fn cerebellum(at: Point, length: f64) -> f64 {
    let [x, y] = middle();
    let lobe = |side: f64| {
        let center = [x + side * 28.0, y + 45.0, length * 0.5];
        ellipsoid(at, center, [34.0, 30.0, length * 0.5])
    };
    lobe(-1.0).min(lobe(1.0))
}

/// A cone that leans.
fn brain_stem(at: Point, length: f64) -> f64 {
    let [x, y] = middle();
    let part = (at[2] / length).clamp(0.0, 1.0);
    let off = (at[0] - x).hypot(at[1] - (y + 10.0 + 25.0 * part));
    off / (18.0 - 8.0 * part)
}

/// Two hemispheres with a cleft between them.
fn cerebrum(at: Point, length: f64) -> f64 {
    let [x, y] = middle();
    let half = |side: f64| {
        let center = [x + side * 36.0, y, length * 0.55];
        ellipsoid(at, center, [34.0, 85.0, length * 0.55])
    };
    half(-1.0).min(half(1.0))
}

/// Two lungs, the left one around the heart.
fn lungs(at: Point, length: f64) -> f64 {
    let [x, y] = middle();
    let lung = |side: f64| {
        let center = [x + side * 72.0, y, length * 0.6];
        ellipsoid(at, center, [55.0, 85.0, length * 0.6])
    };
    let heart = ellipsoid(
        at,
        [x + 22.0, y - 30.0, length * 0.62],
        [60.0, 60.0, length * 0.25],
    );
    lung(-1.0).min(lung(1.0)).max(2.0 - heart)
}

/// Skull, spine, ribs, shoulders, pelvis, arms and legs; head at slice 0.
fn bones(at: Point, length: f64) -> f64 {
    let [x, y] = middle();
    let z = |part: f64| length * part;
    let mut off = shell(at, [x, y, z(0.07)], [75.0, 95.0, z(0.065)], 9.0);
    off = off.min(rod(
        at,
        [x, y + 45.0, z(0.13)],
        [x, y + 45.0, z(0.55)],
        22.0,
    ));
    off = off.min(shell(
        at,
        [x, y + 5.0, z(0.57)],
        [140.0, 75.0, z(0.055)],
        12.0,
    ));
    for rib in 0..11 {
        let height = z(0.19) + f64::from(rib) * z(0.018);
        let around = ((at[0] - x) / 145.0).hypot((at[1] - y) / 100.0);
        // Ribs sink towards the front.
        let sunk = at[2] - height - (y - at[1]) * 0.25;
        off = off.min(((around - 1.0) * 110.0).hypot(sunk) / 7.0);
    }
    for side in [-1.0, 1.0] {
        let place = |across: f64, back: f64, part: f64| [x + side * across, y + back, z(part)];
        let rods = [
            (place(15.0, -40.0, 0.18), place(185.0, 10.0, 0.185), 9.0),
            (place(190.0, 10.0, 0.185), place(205.0, 15.0, 0.37), 15.0),
            (place(205.0, 15.0, 0.37), place(215.0, -10.0, 0.52), 13.0),
            (place(215.0, -10.0, 0.52), place(215.0, -25.0, 0.61), 16.0),
            (place(90.0, 10.0, 0.57), place(75.0, 0.0, 0.78), 19.0),
            (place(75.0, 0.0, 0.78), place(70.0, 20.0, 0.965), 17.0),
            (place(70.0, 20.0, 0.975), place(75.0, -90.0, 0.995), 15.0),
        ];
        for (from, to, radius) in rods {
            off = off.min(rod(at, from, to, radius));
        }
    }
    off
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn just_as_many_voxels_are_kept_as_the_paper_says() {
        for (name, shape) in SHAPES {
            let dims = [60, 40, 30];
            let kept = kept(shape, dims, 40.0, 0.85);
            let count = kept.iter().flatten().filter(|&&k| k).count();
            assert!(
                count.abs_diff(60 * 40 * 30 * 15 / 100) <= 60,
                "{name}: {count}"
            );
            assert!(kept.len() == 30 && kept[0].len() == 2400);
        }
    }
}
