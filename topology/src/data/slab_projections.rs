//! Slab projections: where the non-empty voxels of a volume are, gathered while its slices pass by once.
//!
//! Shapes: nx·ny·nz voxels, each empty or not; out, slabs of consecutive slices, each with a map of nx·ny counts: how many voxels
//! of its column within the slab are not empty. A slab ends where its length is at least a minimum and regions split
//! or merge, or where it reaches a maximum. A region is a set of non-empty voxels that hang together by edges.
//!
//! Source: Frank, Kaufman 2009, section 4.2: split, two regions of a slice over one of the slab; merge, one region of a
//! slice over two of the slab. The cut lies before that slice, with which the next slab begins.

use crate::data::voxel_box::VoxelBox;
use std::ops::RangeInclusive;

/// Largest slab, in slices: counts are 16 bits wide.
pub const SLAB_SLICES_MAX: u32 = 65_535;

/// Consecutive slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slab {
    /// First slice.
    pub first: u32,
    /// One past the last slice.
    pub end: u32,
    /// Non-empty voxels of each column, x fastest.
    pub counts: Vec<u16>,
}

/// The slabs of a volume, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlabProjections {
    /// Voxels on each axis.
    pub dims: [u32; 3],
    /// Slabs; together they are the whole volume.
    pub slabs: Vec<Slab>,
}

impl SlabProjections {
    /// Non-empty voxels.
    #[must_use]
    pub fn voxels(&self) -> u64 {
        let all = self.slabs.iter().flat_map(|slab| &slab.counts);
        all.map(|&count| u64::from(count)).sum()
    }

    /// A part of a slab cut down to the columns that have non-empty voxels; `None`: there is none.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "places on axes of a volume"
    )]
    pub fn cropped(&self, slab: &Slab, part: &VoxelBox) -> Option<VoxelBox> {
        let mut found: Option<VoxelBox> = None;
        for y in part.lo[1]..part.hi[1] {
            let row = y as usize * self.width();
            let row = &slab.counts[row + part.lo[0] as usize..row + part.hi[0] as usize];
            let (first, last) = (
                row.iter().position(|&c| c > 0),
                row.iter().rposition(|&c| c > 0),
            );
            if let Some((first, last)) = first.zip(last) {
                let [first, end] = [first, last + 1].map(|x| part.lo[0] + x as u32);
                let b = found.get_or_insert(VoxelBox::new(
                    [first, y, slab.first],
                    [end, y + 1, slab.end],
                ));
                b.lo[0] = b.lo[0].min(first);
                b.hi = [b.hi[0].max(end), y + 1, slab.end];
            }
        }
        found
    }

    /// Non-empty voxels of a part; of a slab that it cuts across z as many as fall to its slices if they lie evenly.
    #[must_use]
    pub fn voxels_in(&self, part: &VoxelBox) -> u64 {
        let mut sum = 0;
        for slab in &self.slabs {
            let slices = slab
                .end
                .min(part.hi[2])
                .saturating_sub(slab.first.max(part.lo[2]));
            if slices == 0 {
                continue;
            }
            let mut columns = 0_u64;
            for y in part.lo[1]..part.hi[1].min(self.dims[1]) {
                let row = y as usize * self.width();
                let xs = part.lo[0] as usize..part.hi[0].min(self.dims[0]) as usize;
                let row = slab
                    .counts
                    .get(row + xs.start..row + xs.end)
                    .unwrap_or_default();
                columns += row.iter().map(|&c| u64::from(c)).sum::<u64>();
            }
            sum += columns * u64::from(slices) / u64::from(slab.end - slab.first).max(1);
        }
        sum
    }

    fn width(&self) -> usize {
        self.dims[0] as usize
    }
}

/// Gathers slabs from slices.
#[derive(Clone, Debug)]
pub struct SlabGathering {
    dims: [u32; 3],
    length: RangeInclusive<u32>,
    slabs: Vec<Slab>,
}

impl SlabGathering {
    /// Of a volume of which no slice has come; `length`: fewest and most slices of a slab, of which there are at least 1
    /// and at most [`SLAB_SLICES_MAX`].
    #[must_use]
    pub fn new(dims: [u32; 3], length: RangeInclusive<u32>) -> Self {
        let least = (*length.start()).max(1);
        let most = (*length.end()).clamp(least, SLAB_SLICES_MAX);
        Self {
            dims,
            length: least..=most,
            slabs: Vec::new(),
        }
    }

    /// Takes the next slice: which of its voxels are not empty, x fastest.
    ///
    /// # Panics
    /// Where they are not as many as a slice has.
    pub fn slice(&mut self, kept: &[bool]) {
        let [nx, ny, _] = self.dims.map(|n| n as usize);
        assert_eq!(kept.len(), nx * ny, "voxels of a slice");
        let at = self.slabs.last().map_or(0, |slab| slab.end);
        let is_cut = self.slabs.last().is_none_or(|slab| {
            let length = slab.end - slab.first;
            length >= *self.length.end()
                || length >= *self.length.start() && splits_or_merges(slab, kept, nx)
        });
        if is_cut {
            self.slabs.push(Slab {
                first: at,
                end: at,
                counts: vec![0; nx * ny],
            });
        }
        if let Some(slab) = self.slabs.last_mut() {
            slab.end += 1;
            for (count, &kept) in slab.counts.iter_mut().zip(kept) {
                *count += u16::from(kept);
            }
        }
    }

    /// Takes out the slabs that have ended: all but the last one.
    pub fn take_ended(&mut self) -> Vec<Slab> {
        let open = self.slabs.len().saturating_sub(1);
        self.slabs.drain(..open).collect()
    }

    /// All slabs that are left.
    #[must_use]
    pub fn finish(self) -> SlabProjections {
        SlabProjections {
            dims: self.dims,
            slabs: self.slabs,
        }
    }
}

/// Whether two regions of a slice lie over one of the slab, or one over two.
fn splits_or_merges(slab: &Slab, kept: &[bool], width: usize) -> bool {
    let projected: Vec<bool> = slab.counts.iter().map(|&c| c > 0).collect();
    let (below, here) = (Regions::of(&projected, width), Regions::of(kept, width));
    let over = below.labels.iter().zip(&here.labels);
    let mut pairs: Vec<(u32, u32)> = over.filter_map(|(&b, &h)| Some((b?, h?))).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let is_twice = |mut labels: Vec<u32>| {
        labels.sort_unstable();
        labels.windows(2).any(|w| w[0] == w[1])
    };
    let (below, here) = pairs.into_iter().unzip();
    is_twice(below) || is_twice(here)
}

/// Which voxels of a slice hang together by edges.
struct Regions {
    /// Region of each voxel; `None`: it is empty.
    labels: Vec<Option<u32>>,
}

impl Regions {
    fn of(kept: &[bool], width: usize) -> Self {
        // Labels that turn out to be of one region point to an earlier one.
        let mut parents: Vec<u32> = Vec::new();
        fn root(parents: &[u32], mut label: u32) -> u32 {
            while parents[label as usize] != label {
                label = parents[label as usize];
            }
            label
        }
        let mut labels: Vec<Option<u32>> = vec![None; kept.len()];
        for i in (0..kept.len()).filter(|&i| kept[i]) {
            let left = if i % width > 0 { labels[i - 1] } else { None };
            let above = i.checked_sub(width).and_then(|j| labels[j]);
            labels[i] = Some(match (left, above) {
                (Some(a), Some(b)) => {
                    let (a, b) = (root(&parents, a), root(&parents, b));
                    parents[a.max(b) as usize] = a.min(b);
                    a.min(b)
                }
                (Some(a), None) | (None, Some(a)) => root(&parents, a),
                (None, None) => {
                    let new = u32::try_from(parents.len()).unwrap_or(u32::MAX);
                    parents.push(new);
                    new
                }
            });
        }
        let mut numbers = vec![None; parents.len()];
        let mut count = 0;
        for label in labels.iter_mut().flatten() {
            let number = &mut numbers[root(&parents, *label) as usize];
            *label = *number.get_or_insert_with(|| {
                count += 1;
                count - 1
            });
        }
        Self { labels }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Slices as pictures: `#` is not empty.
    fn gathered(slices: &[&str], length: RangeInclusive<u32>) -> SlabProjections {
        let rows: Vec<&str> = slices[0].split('/').collect();
        let dims = [rows[0].len(), rows.len(), slices.len()].map(|n| u32::try_from(n).unwrap());
        let mut gathering = SlabGathering::new(dims, length);
        for slice in slices {
            let kept: Vec<bool> = slice
                .bytes()
                .filter(|&b| b != b'/')
                .map(|b| b == b'#')
                .collect();
            gathering.slice(&kept);
        }
        gathering.finish()
    }

    fn ends(projections: &SlabProjections) -> Vec<u32> {
        projections.slabs.iter().map(|s| s.end).collect()
    }

    #[test]
    fn a_slab_ends_where_regions_split_or_merge() {
        let split = ["#####", "#####", "##.##", "##.##"];
        assert_eq!(ends(&gathered(&split, 1..=9)), [2, 4]);
        let merge = ["##.##", "##.##", "#####", "#####"];
        assert_eq!(ends(&gathered(&merge, 1..=9)), [2, 4]);
        // Too short to end there; then the projection has what split already.
        assert_eq!(ends(&gathered(&split, 3..=9)), [3, 4]);
        // Regions that only come, go or move cut nothing.
        let moving = ["#....", ".#..#", "....#", "....."];
        assert_eq!(ends(&gathered(&moving, 1..=9)), [4]);
        assert_eq!(ends(&gathered(&moving, 1..=2)), [2, 4]);
    }

    #[test]
    fn regions_hang_together_by_edges() {
        let kept: Vec<bool> = "#.#.#.###.#....#.".bytes().map(|b| b == b'#').collect();
        // Rows of 4: "#.#." "#.##" "#.#." "...#": a column, one of three with a neighbour, and a corner.
        let regions = Regions::of(&kept[..16], 4);
        let regions: std::collections::BTreeSet<u32> =
            regions.labels.into_iter().flatten().collect();
        assert_eq!(regions.len(), 3);
    }

    #[test]
    fn parts_are_cropped_to_what_is_not_empty() {
        let projections = gathered(&["......./.##..#./.##..../......."; 2], 1..=9);
        let cropped = |lo, hi| projections.cropped(&projections.slabs[0], &VoxelBox::new(lo, hi));
        let found = cropped([0; 3], [7, 4, 2]);
        assert_eq!(found, Some(VoxelBox::new([1, 1, 0], [6, 3, 2])));
        let found = cropped([4, 0, 0], [7, 4, 2]);
        assert_eq!(found, Some(VoxelBox::new([5, 1, 0], [6, 2, 2])));
        assert_eq!(cropped([3, 0, 0], [5, 4, 2]), None);
    }

    proptest! {
        #[test]
        fn projections_sum_to_the_non_empty_voxels(
            bits in prop::collection::vec(any::<bool>(), 6 * 5 * 8), least in 1u32..4, more in 0u32..4
        ) {
            let mut gathering = SlabGathering::new([6, 5, 8], least..=least + more);
            bits.chunks(30).for_each(|slice| gathering.slice(slice));
            let projections = gathering.finish();
            let voxels = bits.iter().filter(|&&b| b).count() as u64;
            prop_assert_eq!(projections.voxels(), voxels);
            prop_assert_eq!(projections.voxels_in(&VoxelBox::new([0; 3], [6, 5, 8])), voxels);
            prop_assert!(projections.slabs.windows(2).all(|w| w[0].end == w[1].first));
            let lengths: Vec<u32> = projections.slabs.iter().map(|s| s.end - s.first).collect();
            prop_assert_eq!(lengths.iter().sum::<u32>(), 8);
            let (last, others) = lengths.split_last().unwrap();
            prop_assert!(*last <= least + more);
            prop_assert!(others.iter().all(|l| (least..=least + more).contains(l)));
        }
    }
}
