//! How many voxels of a volume have which value and which gradient length together: what a 2D transfer function
//! is drawn over (Kniss, Kindlmann, Hansen 2002, section 3).
//!
//! Space: stored numbers; gradients as the kernels have them, by central differences in the world, per smallest
//! spacing. Voxels that are no data, or have a neighbour that is, are in nothing.
//! Invariant: which voxels are looked at depends on nothing but the volume's size, so that it is the same however
//! the volume is cut.

use crate::data::{
    brick_grid::{BrickGrid, BrickIndex},
    volume::VolumeDescription,
};
use serde::{Deserialize, Serialize};

/// Bins of values.
pub const VALUE_BINS: usize = 128;
/// Bins of gradient lengths.
pub const GRADIENT_BINS: usize = 64;
/// Most voxels that are looked at, about.
const SAMPLES_MAX: u64 = 1 << 20;
/// Share of the gradients that lie within the bins, in thousandths.
const WITHIN: usize = 999;

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GradientHistogram {
    /// Values from the first bin to the last, stored numbers.
    pub values: [f64; 2],
    /// Gradient length up to which the bins go, from 0.
    pub gradient_max: f64,
    /// Voxels: [`GRADIENT_BINS`] rows of [`VALUE_BINS`], the smallest gradients first.
    pub counts: Vec<u32>,
}

impl GradientHistogram {
    /// Whether what came from a file or a peer can be believed.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let largest = f64::from(f32::MAX);
        let is_finite = |v: f64| v.abs() <= largest;
        let [low, high] = self.values;
        is_finite(low)
            && is_finite(high)
            && low < high
            && is_finite(self.gradient_max)
            && self.gradient_max > 0.0
            && self.counts.len() == VALUE_BINS * GRADIENT_BINS
    }
}

/// Values and gradients of some voxels, of bricks that come one after the other.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GradientGathering {
    volume: VolumeDescription,
    looked_at: LookedAt,
    /// Value and gradient length.
    found: Vec<[f32; 2]>,
}

impl GradientGathering {
    /// Of a volume of which no brick has come.
    #[must_use]
    pub fn new(volume: &VolumeDescription) -> Self {
        let voxels: u64 = volume.dims.map(u64::from).iter().product();
        Self {
            volume: volume.clone(),
            looked_at: LookedAt::one_of(voxels.div_ceil(SAMPLES_MAX)),
            found: Vec::new(),
        }
    }

    /// Takes what was found in a brick.
    pub fn add(&mut self, found: Vec<[f32; 2]>) {
        self.found.extend(found);
    }

    /// Value and gradient length of the voxels that are looked at of a brick: the voxels of its stored box, x
    /// fastest, little-endian.
    ///
    /// # Panics
    /// Where the bytes are not as many as a stored box has voxels.
    #[expect(clippy::cast_possible_truncation, reason = "gradients of f32")]
    #[must_use]
    pub fn of_brick(&self, grid: &BrickGrid, brick: BrickIndex, bytes: &[u8]) -> Vec<[f32; 2]> {
        let (owned, stored) = (grid.owned_box(brick), grid.stored_box(brick));
        let [nx, ny, _] = stored.size().map(|n| n as usize);
        let [dx, dy, _] = self.volume.dims.map(u64::from);
        let of = self.volume.voxel;
        let read = |at: [u32; 3]| {
            let [x, y, z] = [0, 1, 2].map(|a| (at[a] - stored.lo[a]) as usize);
            let value = of.read(bytes, (x + nx * (y + ny * z)) * of.bytes());
            (!self.volume.is_no_data(value)).then_some(value)
        };
        let to_world = self.volume.grid_from_world().matrix3.transpose();
        let spacing = self.volume.min_spacing();
        let gradient = |at: [u32; 3]| {
            let mut across = [0.0; 3];
            for (axis, part) in across.iter_mut().enumerate() {
                let (mut before, mut after) = (at, at);
                before[axis] = at[axis].saturating_sub(1);
                after[axis] = (at[axis] + 1).min(self.volume.dims[axis] - 1);
                *part = 0.5 * (f64::from(read(after)?) - f64::from(read(before)?));
            }
            let length = (to_world * glam::DVec3::from(across)).length() * spacing;
            Some(length as f32)
        };
        let mut found = Vec::new();
        for z in owned.lo[2]..owned.hi[2] {
            for y in owned.lo[1]..owned.hi[1] {
                let row = dx * (u64::from(y) + dy * u64::from(z));
                for x in owned.lo[0]..owned.hi[0] {
                    if self.looked_at.has(row + u64::from(x)) {
                        let at = [x, y, z];
                        found.extend(read(at).zip(gradient(at)).map(|(v, g)| [v, g]));
                    }
                }
            }
        }
        found
    }

    /// What was found, with bins over these stored numbers; `None` where there is nothing to see: no value, or
    /// no gradient.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "casts of floats saturate"
    )]
    pub fn finish(self, values: [f64; 2]) -> Option<GradientHistogram> {
        let mut gradients: Vec<f32> = self.found.iter().map(|f| f[1]).collect();
        gradients.retain(|g| *g > 0.0 && g.is_finite());
        if gradients.is_empty() {
            return None;
        }
        let at = gradients.len() * WITHIN / 1000;
        let at = at.min(gradients.len() - 1);
        let (_, gradient_max, _) = gradients.select_nth_unstable_by(at, f32::total_cmp);
        let gradient_max = f64::from(*gradient_max);
        let mut counts = vec![0_u32; VALUE_BINS * GRADIENT_BINS];
        let [low, high] = values;
        let bin = |part: f64, bins: usize| ((part * bins as f64) as usize).min(bins - 1);
        for [value, gradient] in self.found {
            let column = bin((f64::from(value) - low) / (high - low), VALUE_BINS);
            let row = bin(f64::from(gradient) / gradient_max, GRADIENT_BINS);
            let count = &mut counts[row * VALUE_BINS + column];
            *count = count.saturating_add(1);
        }
        let histogram = GradientHistogram {
            values,
            gradient_max,
            counts,
        };
        histogram.is_valid().then_some(histogram)
    }
}

/// Which voxels are looked at: one of so many, spread so that no axis is favoured. Those whose hash is a multiple of
/// that, found without a division (Granlund, Montgomery 1994, section 9).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct LookedAt {
    /// Of the odd part, modulo 2^32.
    inverse: u32,
    /// Power of two in it.
    twos: u32,
    /// Multiples of it below 2^32, but for 0.
    most: u32,
}

impl LookedAt {
    fn one_of(count: u64) -> Self {
        let count = u32::try_from(count).unwrap_or(u32::MAX).max(1);
        let twos = count.trailing_zeros();
        let odd = count >> twos;
        // Newton's iteration: each doubles the bits that are right, three to begin with.
        let step = |x: u32, _| x.wrapping_mul(2_u32.wrapping_sub(odd.wrapping_mul(x)));
        Self {
            inverse: (0..4).fold(odd, step),
            twos,
            most: u32::MAX / count,
        }
    }

    fn has(self, index: u64) -> bool {
        // Fibonacci hashing.
        let mixed = index.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.is_multiple((mixed >> 32) as u32)
    }

    fn is_multiple(self, hash: u32) -> bool {
        hash.wrapping_mul(self.inverse).rotate_right(self.twos) <= self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{manifest::ManifestParts, volume::VoxelType};

    /// Found in a volume whose voxels are so, cut into bricks of this edge.
    fn found(
        dims: [u32; 3],
        spacing: [f64; 3],
        edge: u32,
        value: impl Fn([u32; 3]) -> f32,
    ) -> Option<GradientHistogram> {
        let volume = VolumeDescription {
            spacing,
            ..VolumeDescription::new(dims, VoxelType::F32)
        };
        let grid = BrickGrid::new(dims, edge).unwrap();
        let mut gathering = GradientGathering::new(&volume);
        let mut brick = 0;
        ManifestParts::cut(volume, edge, "test", |stored| {
            let mut bytes = Vec::new();
            for z in stored.lo[2]..stored.hi[2] {
                for y in stored.lo[1]..stored.hi[1] {
                    let xs = stored.lo[0]..stored.hi[0];
                    bytes.extend(xs.flat_map(|x| value([x, y, z]).to_le_bytes()));
                }
            }
            gathering.add(gathering.of_brick(&grid, BrickIndex(brick), &bytes));
            brick += 1;
            bytes
        })
        .unwrap();
        gathering.finish([0.0, 100.0])
    }

    #[test]
    fn multiples_are_those_of_a_division() {
        for count in [1, 2, 3, 5, 12, 96, 2000, 65_536, 4_294_967_295, 1 << 31] {
            let looked_at = LookedAt::one_of(count);
            let count = u32::try_from(count).unwrap();
            let near = |n: u32| count.wrapping_mul(n);
            let near = (0..99).flat_map(|n| (0..3).map(move |d| near(n).wrapping_add(d)));
            for hash in (0..5_000).chain(near).chain(u32::MAX - 2_000..=u32::MAX) {
                let found = looked_at.is_multiple(hash);
                assert_eq!(found, hash.is_multiple_of(count), "{hash} {count}");
            }
        }
    }

    #[test]
    fn gradients_are_of_the_world_and_per_smallest_spacing() {
        // 3 from voxel to voxel along x, which are 2 apart; 4 along y, which are 1 apart.
        let value = |[x, y, _]: [u32; 3]| 3.0 * x as f32 + 4.0 * y as f32;
        let of = found([9, 9, 9], [2.0, 1.0, 1.0], 16, value).unwrap();
        assert!((of.gradient_max - 1.5_f64.hypot(4.0)).abs() < 1e-6);
        let within = of.counts.iter().sum::<u32>();
        assert_eq!(within, 729);
        // Inside all are as long: the last row has all that are not on a side.
        let last = &of.counts[(GRADIENT_BINS - 1) * VALUE_BINS..];
        assert_eq!(last.iter().sum::<u32>(), 7 * 7 * 9);
    }

    #[test]
    fn it_is_the_same_however_the_volume_is_cut_and_leaves_out_what_is_no_data() {
        let value = |[x, y, z]: [u32; 3]| {
            if [x, y, z] == [20, 20, 20] {
                f32::NAN
            } else {
                ((x * 7 + y * y + 3 * z * x) % 97) as f32
            }
        };
        let [whole, cut] = [64, 16].map(|edge| found([40, 50, 33], [1.0; 3], edge, value));
        assert_eq!(whole, cut);
        let counted: u32 = whole.unwrap().counts.iter().sum();
        assert_eq!(counted, 40 * 50 * 33 - 7);
        assert_eq!(found([8, 8, 8], [1.0; 3], 8, |_| 5.0), None);
        assert!(found([8, 1, 1], [1.0; 3], 8, |[x, ..]| x as f32).is_some());
    }
}
