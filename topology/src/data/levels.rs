//! Levels of detail: a volume again with half as many samples on each axis, and that one again.
//!
//! Level 0 is the volume itself. A sample of the next level is the mean of two samples on each axis that is halved (of one, at an odd
//! upper border), those that are no data left out, and stands midway between them. Each level is a data set of its own, in
//! bricks of the same edge.
//! Axes of fewer than [`HALVED_MIN`] voxels stay as they are: the field ends at the centres of its outer samples, so a
//! halved axis is half a voxel shorter at both ends, which is much of a short one.

use crate::data::{
    brick_grid::{BrickGrid, DIM_MAX},
    brick_set::BrickSet,
    volume::{VolumeDescription, VoxelType},
    voxel_box::VoxelBox,
};
use serde::{Deserialize, Serialize};

/// Shortest axis that is halved, in voxels.
pub const HALVED_MIN: u32 = 32;
/// Sums are of this part of each voxel, of which there are eight at most: that of floats is finite, and that of whole
/// numbers exact.
const PART: f32 = 0.125;

/// The next level of a volume in bricks of this edge; `None`: no axis that can be halved is longer than a brick.
#[must_use]
pub fn coarser(volume: &VolumeDescription, brick_edge: u32) -> Option<VolumeDescription> {
    let is_halved = volume.dims.map(|n| n >= HALVED_MIN);
    if !(0..3).any(|a| is_halved[a] && volume.dims[a] > brick_edge) {
        return None;
    }
    let mut coarser = volume.clone();
    let half = std::array::from_fn(|a| if is_halved[a] { 0.5 } else { 0.0 });
    let first = volume.world_from_grid().transform_point3(half.into());
    coarser.origin = first.to_array();
    for a in (0..3).filter(|&a| is_halved[a]) {
        coarser.dims[a] = volume.dims[a].div_ceil(2);
        coarser.spacing[a] = volume.spacing[a] * 2.0;
    }
    coarser.validate().is_ok().then_some(coarser)
}

/// A volume and all its coarser levels, finest first.
#[must_use]
pub fn levels(volume: &VolumeDescription, brick_edge: u32) -> Vec<VolumeDescription> {
    let next = |volume: &VolumeDescription| coarser(volume, brick_edge);
    std::iter::successors(Some(volume.clone()), next).collect()
}

/// The bricks of a level that are where these bricks of another level of the volume are, `from` its grid.
#[must_use]
pub fn in_same_place(bricks: &BrickSet, from: &BrickGrid, to: &BrickGrid) -> BrickSet {
    let (dims, dims_to) = (from.dims(), to.dims());
    let finer: [u32; 3] = std::array::from_fn(|a| halvings(dims_to[a], dims[a]));
    let coarser: [u32; 3] = std::array::from_fn(|a| halvings(dims[a], dims_to[a]));
    let mut found = BrickSet::new(to.brick_count());
    for owned in bricks.iter().map(|b| from.owned_box(b)) {
        // Bricks on each axis.
        let [x, y, z] = [0, 1, 2].map(|a| {
            let first = owned.lo[a] << finer[a] >> coarser[a];
            let last = ((owned.hi[a] << finer[a]) - 1) >> coarser[a];
            first / to.edge()..=last.min(dims_to[a] - 1) / to.edge()
        });
        for z in z {
            for y in y.clone() {
                let row = x.clone().filter_map(|x| to.index([x, y, z]));
                row.for_each(|brick| {
                    found.insert(brick);
                });
            }
        }
    }
    found
}

/// How often an axis is halved from so many voxels to so many; 0 where it never comes to that.
fn halvings(from: u32, to: u32) -> u32 {
    let mut halved = (0..=DIM_MAX.ilog2()).filter(|&n| from.div_ceil(1 << n) == to);
    halved.next().unwrap_or(0)
}

/// How many voxels of a volume a voxel of one of its levels stands for, on each axis.
#[must_use]
pub fn voxels_in_one(exact: &VolumeDescription, level: &VolumeDescription) -> [f64; 3] {
    std::array::from_fn(|a| level.spacing[a] / exact.spacing[a])
}

/// The voxels of a volume that a box of one of its levels stands for.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "powers of two, beside dims"
)]
pub fn in_exact(of: &VoxelBox, exact: &VolumeDescription, level: &VolumeDescription) -> VoxelBox {
    let times = voxels_in_one(exact, level).map(|n| n.round() as u32);
    let fine = |corner: [u32; 3]| {
        std::array::from_fn(|a| corner[a].saturating_mul(times[a]).min(exact.dims[a]))
    };
    VoxelBox {
        lo: fine(of.lo),
        hi: fine(of.hi),
    }
}

/// Makes a level of the one before it, slice by slice.
///
/// Invariant: it keeps one slice of what it makes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Halving {
    from: [u32; 3],
    is_halved: [bool; 3],
    /// Width of what it makes, and its rows.
    size: [usize; 2],
    /// Of the slice that is made: sums of [`PART`]s, and of how many voxels.
    sums: Vec<f32>,
    counts: Vec<u8>,
}

impl Halving {
    /// Of one level to the next: [`coarser`].
    #[must_use]
    pub fn new(from: &VolumeDescription, to: &VolumeDescription) -> Self {
        let size = [to.dims[0] as usize, to.dims[1] as usize];
        Self {
            from: from.dims,
            is_halved: std::array::from_fn(|a| to.dims[a] < from.dims[a]),
            size,
            sums: vec![0.0; size[0] * size[1]],
            counts: vec![0; size[0] * size[1]],
        }
    }

    /// Takes row y of a slice: stored numbers, NaN where there is no data.
    ///
    /// # Panics
    /// Where y is beyond the level's axis.
    pub fn row(&mut self, y: u32, row: &[f32]) {
        let at = self.halved(1, y) as usize * self.size[0];
        let sums = &mut self.sums[at..at + self.size[0]];
        let counts = &mut self.counts[at..at + self.size[0]];
        let add = |voxel: f32, (sum, count): (&mut f32, &mut u8)| {
            let is_data = !voxel.is_nan();
            *sum += if is_data { voxel * PART } else { 0.0 };
            *count += u8::from(is_data);
        };
        let mut made = sums.iter_mut().zip(counts);
        if !self.is_halved[0] {
            return row.iter().zip(made).for_each(|(&v, of)| add(v, of));
        }
        let (pairs, rest) = row.as_chunks();
        for (&[first, second], (sum, count)) in pairs.iter().zip(made.by_ref()) {
            add(first, (sum, count));
            add(second, (sum, count));
        }
        rest.iter().zip(made).for_each(|(&v, of)| add(v, of));
    }

    /// Slice z is whole: where one of the next level is whole with it, its z, and its means are put in place of `means`,
    /// row by row.
    pub fn end_slice(&mut self, z: u32, means: &mut Vec<f32>) -> Option<u32> {
        let is_last = z + 1 == self.from[2];
        if self.is_halved[2] && z.is_multiple_of(2) && !is_last {
            return None;
        }
        let mean = |(sum, count): (&mut f32, &mut u8)| {
            let (sum, count) = (std::mem::take(sum), std::mem::take(count));
            if count == 0 {
                f32::NAN
            } else {
                sum * (1.0 / PART / f32::from(count))
            }
        };
        means.clear();
        means.extend(self.sums.iter_mut().zip(&mut self.counts).map(mean));
        Some(self.halved(2, z))
    }

    fn halved(&self, axis: usize, at: u32) -> u32 {
        if self.is_halved[axis] { at / 2 } else { at }
    }
}

/// Appends means as voxels to little-endian `bytes`, as [`append`] does each.
pub fn append_all(means: &[f32], volume: &VolumeDescription, bytes: &mut Vec<u8>) {
    if volume.fill.is_some() {
        return means.iter().for_each(|&mean| append(mean, volume, bytes));
    }
    // Halves away from 0, as `round`, which is no single instruction.
    let nearest = |mean: f32| mean + 0.5_f32.copysign(mean);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturating, as wanted"
    )]
    match volume.voxel {
        VoxelType::U8 => bytes.extend(means.iter().map(|&m| nearest(m) as u8)),
        VoxelType::I8 => bytes.extend(means.iter().map(|&m| (nearest(m) as i8).cast_unsigned())),
        VoxelType::U16 => {
            bytes.extend(
                means
                    .iter()
                    .flat_map(|&m| (nearest(m) as u16).to_le_bytes()),
            );
        }
        VoxelType::I16 => {
            bytes.extend(
                means
                    .iter()
                    .flat_map(|&m| (nearest(m) as i16).to_le_bytes()),
            );
        }
        VoxelType::F32 => bytes.extend(means.iter().flat_map(|m| m.to_le_bytes())),
    }
}

/// Appends a mean as a voxel to little-endian `bytes`: whole numbers to the nearest, and never to the one that stands for
/// no data.
///
/// Where there is no data it is that one, or NaN; a type that has neither has none either.
pub fn append(mean: f32, volume: &VolumeDescription, bytes: &mut Vec<u8>) {
    let (voxel, fill) = (volume.voxel, volume.fill);
    let mean = f64::from(mean);
    if mean.is_nan() {
        return voxel.append(fill.unwrap_or(mean), bytes);
    }
    let number = if voxel == VoxelType::F32 {
        mean
    } else {
        mean.round()
    };
    if fill != Some(number) {
        return voxel.append(number, bytes);
    }
    // There are voxels on both sides of it.
    let apart = if voxel == VoxelType::F32 {
        (number.abs() * f64::from(f32::EPSILON)).max(f64::from(f32::MIN_POSITIVE))
    } else {
        1.0
    };
    let beside = if mean < number {
        number - apart
    } else {
        number + apart
    };
    let inside = if voxel.can_be(beside) {
        beside
    } else {
        2.0 * number - beside
    };
    voxel.append(inside, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::number_rows::numbers_of;
    use glam::DVec3;

    fn volume(dims: [u32; 3], voxel: VoxelType) -> VolumeDescription {
        VolumeDescription {
            spacing: [1.0, 0.5, 2.0],
            origin: [3.0, -4.0, 5.0],
            direction: [[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
            ..VolumeDescription::new(dims, voxel)
        }
    }

    /// All slices of the next level of a formula, and what was made of it.
    fn made(from: &VolumeDescription, of: impl Fn([u32; 3]) -> f32) -> Vec<Vec<f32>> {
        let to = coarser(from, 8).unwrap();
        let mut halving = Halving::new(from, &to);
        let (mut slices, mut means) = (Vec::new(), Vec::new());
        for z in 0..from.dims[2] {
            for y in 0..from.dims[1] {
                let row: Vec<f32> = (0..from.dims[0]).map(|x| of([x, y, z])).collect();
                halving.row(y, &row);
            }
            if let Some(at) = halving.end_slice(z, &mut means) {
                assert_eq!(at as usize, slices.len());
                slices.push(means.clone());
            }
        }
        assert_eq!(slices.len(), to.dims[2] as usize);
        slices
    }

    #[test]
    fn bricks_in_the_same_place_are_found_on_finer_and_coarser_levels() {
        let grids = [[100, 60, 33], [50, 30, 17], [25, 30, 17]];
        let [fine, middle, coarse] = grids.map(|dims| BrickGrid::new(dims, 8).unwrap());
        let at = |grid: &BrickGrid, at| grid.index(at).unwrap();
        let of = |grid: &BrickGrid, place| {
            let mut one = BrickSet::new(grid.brick_count());
            one.insert(at(grid, place));
            one
        };
        let up = in_same_place(&of(&fine, [5, 3, 4]), &fine, &middle);
        assert_eq!(up.iter().collect::<Vec<_>>(), [at(&middle, [2, 1, 2])]);
        let down = in_same_place(&of(&middle, [2, 1, 0]), &middle, &fine);
        let eight = [0, 1].map(|z| [2, 3].map(|y| [4, 5].map(|x| at(&fine, [x, y, z]))));
        assert_eq!(down.iter().collect::<Vec<_>>(), eight.concat().concat());
        // An axis that is not halved.
        assert_eq!(
            in_same_place(&of(&coarse, [3, 2, 1]), &coarse, &middle).len(),
            1
        );
        let all = in_same_place(&BrickSet::all(fine.brick_count()), &fine, &coarse);
        assert_eq!(all, BrickSet::all(coarse.brick_count()));
        // Odd axes, and several levels at once.
        let [fine, coarse] = [1025, 33].map(|n| BrickGrid::new([n, 32, 1], 8).unwrap());
        let one = in_same_place(&of(&coarse, [1, 0, 0]), &coarse, &fine);
        let places: Vec<u32> = one.iter().map(|b| fine.coordinates(b)[0]).collect();
        assert_eq!(places, (32..64).collect::<Vec<_>>());
        let one = in_same_place(&of(&fine, [63, 0, 0]), &fine, &coarse);
        assert_eq!(one.iter().collect::<Vec<_>>(), [at(&coarse, [1, 0, 0])]);
    }

    #[test]
    fn levels_are_halved_until_a_brick_is_as_long_and_short_axes_stay() {
        let dims = |n: [u32; 3], edge| -> Vec<[u32; 3]> {
            let all = levels(&VolumeDescription::new(n, VoxelType::U8), edge);
            all.iter().map(|v| v.dims).collect()
        };
        assert_eq!(
            dims([1280; 3], 64),
            [[1280; 3], [640; 3], [320; 3], [160; 3], [80; 3], [40; 3]]
        );
        assert_eq!(dims([64; 3], 64), [[64; 3]]);
        let flat = [[301, 40, 1], [151, 20, 1], [76, 20, 1], [38, 20, 1]];
        assert_eq!(dims([301, 40, 1], 64), flat);
        assert_eq!(dims([40, 31, 31], 8), [[40, 31, 31], [20, 31, 31]]);
        assert!(dims([65_536; 3], 4).len() <= 13);
    }

    #[test]
    fn a_sample_stands_in_the_middle_of_those_that_it_is_the_mean_of() {
        let fine = volume([64, 33, 20], VoxelType::U8);
        let level = coarser(&fine, 8).unwrap();
        let (from, to) = (fine.world_from_grid(), level.world_from_grid());
        for at in [[0.0, 0.0, 0.0], [5.0, 7.0, 3.0], [31.0, 15.0, 19.0]] {
            let at = DVec3::from_array(at);
            let middle = DVec3::new(2.0 * at.x + 0.5, 2.0 * at.y + 0.5, at.z);
            let (a, b) = (to.transform_point3(at), from.transform_point3(middle));
            assert!(a.abs_diff_eq(b, 1e-12), "{a} {b}");
        }
        let in_one = DVec3::from_array(voxels_in_one(&fine, &level));
        assert_eq!(in_one, DVec3::new(2.0, 2.0, 1.0));
        let whole = VoxelBox::new([0; 3], level.dims);
        assert_eq!(in_exact(&whole, &fine, &level).hi, fine.dims);
    }

    #[test]
    fn means_of_what_goes_evenly_are_its_values_in_the_middle_and_no_data_is_left_out() {
        let from = volume([33, 40, 34], VoxelType::F32);
        let even = |[x, y, z]: [u32; 3]| (x + 10 * y + 100 * z) as f32;
        let slices = made(&from, even);
        let at = |x: usize, y: usize, z: usize| slices[z][x + 17 * y];
        assert!((at(3, 5, 7) - (6.5 + 105.0 + 1450.0)).abs() < 1e-3);
        // The last on x stands for one voxel.
        assert!((at(16, 0, 0) - (32.0 + 5.0 + 50.0)).abs() < 1e-3);
        let holes = made(&from, |at| {
            let is_hole = at[0] < 2 && at[1] < 2 && at[2] < 2 && at != [1, 0, 1];
            if is_hole || at[2] > 31 {
                f32::NAN
            } else {
                even(at)
            }
        });
        assert!((holes[0][0] - 101.0).abs() < 1e-3);
        assert!(holes[16].iter().all(|n| n.is_nan()));
        let large = made(&from, |_| f32::MAX);
        assert!(large.iter().flatten().all(|n| n.is_finite()));
    }

    #[test]
    fn means_are_appended_as_each_is() {
        let means: Vec<f32> = (-400..2400).map(|i| i as f32 * 0.125).collect();
        for voxel in [
            VoxelType::U8,
            VoxelType::I8,
            VoxelType::U16,
            VoxelType::I16,
            VoxelType::F32,
        ] {
            for (fill, scale) in [(None, 1.0), (None, 277.0), (Some(7.0), 1.0)] {
                let volume = VolumeDescription {
                    fill,
                    ..VolumeDescription::new([4; 3], voxel)
                };
                let means: Vec<f32> = means.iter().map(|m| m * scale).collect();
                let (mut all, mut each) = (Vec::new(), Vec::new());
                append_all(&means, &volume, &mut all);
                means.iter().for_each(|&m| append(m, &volume, &mut each));
                assert_eq!(all, each, "{voxel:?} {fill:?} {scale}");
            }
        }
    }

    #[test]
    fn a_mean_is_never_what_stands_for_no_data() {
        let stored = |mean: f32, voxel: VoxelType, fill: Option<f64>| {
            let volume = VolumeDescription {
                fill,
                ..VolumeDescription::new([4; 3], voxel)
            };
            let mut bytes = Vec::new();
            append(mean, &volume, &mut bytes);
            assert_eq!(bytes.len(), voxel.bytes());
            let mut numbers = Vec::new();
            numbers_of(&volume, &bytes, &mut numbers);
            numbers[0]
        };
        for (mean, voxel, fill, expected) in [
            (2.5, VoxelType::U8, None, 3.0),
            (-2.4, VoxelType::I16, None, -2.0),
            (300.0, VoxelType::U8, None, 255.0),
            (0.2, VoxelType::I8, Some(0.0), 1.0),
            (-0.2, VoxelType::I8, Some(0.0), -1.0),
            (254.8, VoxelType::U8, Some(255.0), 254.0),
            (255.0, VoxelType::U8, Some(255.0), 254.0),
            (0.1, VoxelType::F32, Some(0.0), 0.1),
        ] {
            assert!(
                (stored(mean, voxel, fill) - expected).abs() < 1e-6,
                "{mean}"
            );
        }
        assert!(!stored(7.0, VoxelType::F32, Some(7.0)).is_nan());
        assert!(!stored(0.0, VoxelType::F32, Some(0.0)).is_nan());
        assert!(stored(f32::NAN, VoxelType::I16, Some(-5.0)).is_nan());
        assert!(stored(f32::NAN, VoxelType::F32, None).is_nan());
    }
}
