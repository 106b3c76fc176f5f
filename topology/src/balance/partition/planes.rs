//! Partitions by planes across the axes: a regular grid, and kd-trees.
//!
//! Shapes: non-empty voxels somewhere in a volume, N nodes; out, N regions that tile the volume, with how many
//! non-empty voxels each has. Boxes that can be parted by planes have an order from any eye.
//!
//! Source: Frank, Kaufman 2009, section 4.3 (kd-tree; skd-tree, where the counts are those of slab projections) and
//! section 6 (grid). Theirs needs a power of two of nodes; here a region for n nodes is cut so that ⌈n/2⌉ and
//! ⌊n/2⌋ get their shares. The paper leaves the axis of a cut open, but for several cuts across z that come first because its
//! volume is long: the longest axis of what is not empty does that by itself.

use crate::data::{
    slab_projections::{Slab, SlabProjections},
    voxel_box::VoxelBox,
};

/// Bits after the point of a [`Profile`]'s counts: bricks that a plane cuts are shared by volume.
pub const COUNT_BITS: u32 = 32;

/// Counts along the three axes of a box.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// For each axis, ascending: where a slice ends, in voxels, and how many non-empty voxels it has, in units of
    /// 2^-[`COUNT_BITS`]. The first begins where the box does, the last ends where it does.
    pub axes: [Vec<(u32, u128)>; 3],
}

impl Profile {
    /// Non-empty voxels of the box.
    #[must_use]
    pub fn voxels(&self) -> u64 {
        let sum: u128 = self.axes[0].iter().map(|slice| slice.1).sum();
        u64::try_from((sum + (1 << (COUNT_BITS - 1))) >> COUNT_BITS).unwrap_or(u64::MAX)
    }

    /// Length of what is not empty along an axis, in voxels, of a box that begins at `lo`.
    fn extent(&self, axis: usize, lo: u32) -> u32 {
        let slices = &self.axes[axis];
        let Some(first) = slices.iter().position(|s| s.1 > 0) else {
            return 0;
        };
        let begin = if first == 0 { lo } else { slices[first - 1].0 };
        let end = slices.iter().rfind(|s| s.1 > 0).map_or(begin, |s| s.0);
        end - begin
    }
}

/// Where the non-empty voxels of a volume are.
pub trait VoxelCounts {
    /// The box of all that may be cut.
    fn extents(&self) -> VoxelBox;
    /// Counts within a part of it. Planes may lie where slices end.
    fn profile(&mut self, part: &VoxelBox) -> Profile;
}

/// A node's region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its box.
    pub part: VoxelBox,
    /// Its non-empty voxels.
    pub load: u64,
}

/// Regions of a kd-tree for `nodes` nodes, in the order of the tree; fewer where nothing is left to cut.
#[must_use]
pub fn kd_tree(counts: &mut impl VoxelCounts, nodes: usize) -> Vec<Region> {
    let regions = kd_tree_of(counts, &vec![1; nodes]);
    regions.into_iter().filter(|r| !r.part.is_empty()).collect()
}

/// The same for unlike nodes: the share of each, of what is not empty. A region for each, an empty one where nothing was left
/// to cut.
#[must_use]
pub fn kd_tree_of(counts: &mut impl VoxelCounts, shares: &[u64]) -> Vec<Region> {
    let mut regions = Vec::new();
    cut(counts, counts.extents(), shares, &mut regions);
    regions
}

fn cut(counts: &mut impl VoxelCounts, part: VoxelBox, shares: &[u64], regions: &mut Vec<Region>) {
    let profile = counts.profile(&part);
    let (first, second) = shares.split_at(shares.len().div_ceil(2));
    let plane = if second.is_empty() {
        None
    } else {
        plane(&profile, &part, [first, second])
    };
    let Some((axis, at)) = plane else {
        let load = profile.voxels();
        regions.push(Region { part, load });
        let nothing = Region {
            part: VoxelBox::new(part.lo, part.lo),
            load: 0,
        };
        regions.extend(shares.iter().skip(1).map(|_| nothing));
        return;
    };
    let (mut low, mut high) = (part, part);
    low.hi[axis] = at;
    high.lo[axis] = at;
    cut(counts, low, first, regions);
    cut(counts, high, second, regions);
}

/// The axis and the place of the plane that shares the voxels as nearly as it can. Longest axis first, the higher of
/// equal ones: slabs of slices lie across z. Of equal planes the lowest.
fn plane(profile: &Profile, part: &VoxelBox, shares: [&[u64]; 2]) -> Option<(usize, u32)> {
    let mut axes = [0, 1, 2];
    axes.sort_by_key(|&a| std::cmp::Reverse((profile.extent(a, part.lo[a]), a)));
    let [low_share, high_share] = shares.map(|of| of.iter().map(|&s| u128::from(s)).sum::<u128>());
    axes.into_iter().find_map(|axis| {
        let slices = &profile.axes[axis];
        let all: u128 = slices.iter().map(|s| s.1).sum();
        let inner = &slices[..slices.len().saturating_sub(1)];
        let mut low = 0;
        let planes = inner.iter().map(|&(end, count)| {
            low += count;
            ((low * high_share).abs_diff((all - low) * low_share), end)
        });
        planes.min().map(|(_, end)| (axis, end))
    })
}

/// Regions of a regular grid of `nodes` cells: of two axes, of three from 64 nodes on (section 6). As many cells along each axis as
/// make the longest edge of a cell shortest.
#[must_use]
pub fn grid(counts: &mut impl VoxelCounts, nodes: usize) -> Vec<Region> {
    let whole = counts.extents();
    let cells = grid_counts(whole.size(), nodes);
    let plane = |axis: usize, i: usize| {
        let length = u64::from(whole.size()[axis]);
        let at = length * i as u64 / cells[axis] as u64;
        whole.lo[axis] + u32::try_from(at).unwrap_or(u32::MAX)
    };
    let mut regions = Vec::with_capacity(nodes);
    for z in 0..cells[2] {
        for y in 0..cells[1] {
            for x in 0..cells[0] {
                let at = [x, y, z];
                let part = VoxelBox {
                    lo: std::array::from_fn(|a| plane(a, at[a])),
                    hi: std::array::from_fn(|a| plane(a, at[a] + 1)),
                };
                let load = if part.is_empty() {
                    0
                } else {
                    counts.profile(&part).voxels()
                };
                regions.push(Region { part, load });
            }
        }
    }
    regions
}

/// Nodes from which on a grid has three axes (section 6).
const GRID_3D_NODES: usize = 64;

fn grid_counts(size: [u32; 3], nodes: usize) -> [usize; 3] {
    let divisors = |n: usize| (1..=n).filter(move |d| n.is_multiple_of(*d));
    let triples = divisors(nodes).flat_map(|x| {
        let rest = nodes / x;
        divisors(rest).map(move |y| [x, y, rest / y])
    });
    let is_allowed = |cells: &[usize; 3]| nodes >= GRID_3D_NODES || cells.contains(&1);
    // Edges as fractions with the common denominator N: size / cells = size · N / cells / N.
    let edges = |cells: [usize; 3]| {
        let edge = |a: usize| u64::from(size[a]) * (nodes / cells[a]) as u64;
        let mut edges = [edge(0), edge(1), edge(2)];
        edges.sort_unstable_by(|a, b| b.cmp(a));
        edges
    };
    triples
        .filter(is_allowed)
        .min_by_key(|&c| (edges(c), c))
        .unwrap_or([1; 3])
}

/// Boxes with non-empty voxels, spread evenly in each.
#[derive(Clone, Debug)]
pub struct BoxCounts {
    extents: VoxelBox,
    /// Boxes, and their non-empty voxels.
    boxes: Vec<(VoxelBox, u64)>,
}

impl BoxCounts {
    /// Boxes and how many of their voxels are not empty.
    #[must_use]
    pub fn new(boxes: &[(VoxelBox, u64)]) -> Self {
        let mut extents = VoxelBox::new([u32::MAX; 3], [0; 3]);
        for (b, _) in boxes {
            extents.lo = std::array::from_fn(|a| extents.lo[a].min(b.lo[a]));
            extents.hi = std::array::from_fn(|a| extents.hi[a].max(b.hi[a]));
        }
        Self {
            extents,
            boxes: boxes.to_vec(),
        }
    }
}

/// What part of `voxels` falls to `inside` of `all`, in units of 2^-[`COUNT_BITS`].
fn share(voxels: u64, inside: u64, all: u64) -> u128 {
    let (product, all) = (
        u128::from(voxels) * u128::from(inside),
        u128::from(all.max(1)),
    );
    ((product / all) << COUNT_BITS) + ((product % all) << COUNT_BITS) / all
}

impl VoxelCounts for BoxCounts {
    fn extents(&self) -> VoxelBox {
        self.extents
    }

    fn profile(&mut self, part: &VoxelBox) -> Profile {
        let mut axes: [Vec<(u32, u128)>; 3] =
            std::array::from_fn(|a| (part.lo[a]..part.hi[a]).map(|v| (v + 1, 0)).collect());
        for (b, voxels) in &self.boxes {
            let inside = b.intersection(part);
            if inside.is_empty() {
                continue;
            }
            let voxels = share(*voxels, inside.voxel_count(), b.voxel_count());
            for (a, slices) in axes.iter_mut().enumerate() {
                let of_slice = voxels / u128::from(inside.size()[a]);
                for v in inside.lo[a]..inside.hi[a] {
                    slices[(v - part.lo[a]) as usize].1 += of_slice;
                }
            }
        }
        Profile { axes }
    }
}

/// Counts of which planes across z may lie only where slabs end, as those of slab projections.
#[derive(Clone, Debug)]
pub struct SlabbedCounts<C> {
    counts: C,
    ends: Vec<u32>,
}

impl<C: VoxelCounts> SlabbedCounts<C> {
    /// The counts, with the ends of the slabs, in voxels.
    #[must_use]
    pub fn new(counts: C, mut ends: Vec<u32>) -> Self {
        ends.sort_unstable();
        Self { counts, ends }
    }
}

impl<C: VoxelCounts> VoxelCounts for SlabbedCounts<C> {
    fn extents(&self) -> VoxelBox {
        self.counts.extents()
    }

    fn profile(&mut self, part: &VoxelBox) -> Profile {
        let mut profile = self.counts.profile(part);
        let mut slabs: Vec<(u32, u128)> = Vec::new();
        let mut is_open = false;
        for (end, count) in profile.axes[2].drain(..) {
            match slabs.last_mut() {
                Some(slab) if is_open => *slab = (end, slab.1 + count),
                _ => slabs.push((end, count)),
            }
            is_open = self.ends.binary_search(&end).is_err();
        }
        profile.axes[2] = slabs;
        profile
    }
}

/// From slab projections alone: across z planes lie between slabs only (section 4.3, skd-tree).
impl VoxelCounts for &SlabProjections {
    fn extents(&self) -> VoxelBox {
        VoxelBox::new([0; 3], self.dims)
    }

    fn profile(&mut self, part: &VoxelBox) -> Profile {
        let empty = |axis: usize| (part.lo[axis]..part.hi[axis]).map(|v| (v + 1, 0)).collect();
        let mut axes: [Vec<(u32, u128)>; 3] = [empty(0), empty(1), Vec::new()];
        let width = self.dims[0] as usize;
        let inside = |slab: &&Slab| part.lo[2] < slab.end && slab.first < part.hi[2];
        for slab in self.slabs.iter().filter(inside) {
            let mut of_slab = 0;
            for y in part.lo[1]..part.hi[1] {
                let row = y as usize * width;
                let xs = part.lo[0] as usize..part.hi[0] as usize;
                let mut of_row = 0;
                for (x, &count) in slab.counts[row + xs.start..row + xs.end].iter().enumerate() {
                    let count = u128::from(count) << COUNT_BITS;
                    axes[0][x].1 += count;
                    of_row += count;
                }
                axes[1][(y - part.lo[1]) as usize].1 += of_row;
                of_slab += of_row;
            }
            axes[2].push((slab.end.min(part.hi[2]), of_slab));
        }
        Profile { axes }
    }
}

/// Which voxels of a volume are not empty, slice by slice; counts how many slices are looked at, as a tree from the
/// slices themselves reads them again for each cut (section 4.3, kd-tree).
#[derive(Clone, Debug)]
pub struct SliceCounts {
    dims: [u32; 3],
    /// A bit a voxel, rows of whole words.
    bits: Vec<u64>,
    /// Slices that were looked at.
    pub slices_read: u64,
}

impl SliceCounts {
    /// All voxels are empty.
    #[must_use]
    pub fn new(dims: [u32; 3]) -> Self {
        let rows = dims[1] as usize * dims[2] as usize;
        Self {
            dims,
            bits: vec![0; dims[0].div_ceil(u64::BITS) as usize * rows],
            slices_read: 0,
        }
    }

    /// Sets slice `z`: which of its voxels are not empty, x fastest.
    pub fn set_slice(&mut self, z: u32, kept: &[bool]) {
        for (y, row) in kept.chunks(self.dims[0] as usize).enumerate() {
            let words = self.row(y, z);
            for (x, _) in row.iter().enumerate().filter(|(_, kept)| **kept) {
                self.bits[words.start + x / 64] |= 1 << (x % 64);
            }
        }
    }

    fn row(&self, y: usize, z: u32) -> std::ops::Range<usize> {
        let words = self.dims[0].div_ceil(u64::BITS) as usize;
        let row = y + self.dims[1] as usize * z as usize;
        row * words..(row + 1) * words
    }
}

impl VoxelCounts for SliceCounts {
    fn extents(&self) -> VoxelBox {
        VoxelBox::new([0; 3], self.dims)
    }

    fn profile(&mut self, part: &VoxelBox) -> Profile {
        self.slices_read += u64::from(part.hi[2] - part.lo[2]);
        let mut axes: [Vec<(u32, u128)>; 3] =
            std::array::from_fn(|a| (part.lo[a]..part.hi[a]).map(|v| (v + 1, 0)).collect());
        for z in part.lo[2]..part.hi[2] {
            for y in part.lo[1]..part.hi[1] {
                let words = &self.bits[self.row(y as usize, z)];
                for x in part.lo[0]..part.hi[0] {
                    if words[x as usize / 64] >> (x % 64) & 1 == 1 {
                        for (axis, at) in [x, y, z].into_iter().enumerate() {
                            axes[axis][(at - part.lo[axis]) as usize].1 += 1 << COUNT_BITS;
                        }
                    }
                }
            }
        }
        Profile { axes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::slab_projections::SlabGathering;
    use proptest::prelude::*;

    fn cube(lo: [u32; 3], edge: u32) -> VoxelBox {
        VoxelBox::new(lo, lo.map(|v| v + edge))
    }

    #[test]
    fn planes_halve_what_is_not_empty() {
        // All at low x: the plane lies there.
        let boxes = [(cube([0; 3], 8), 400), (cube([8, 0, 0], 8), 100)];
        let regions = kd_tree(&mut BoxCounts::new(&boxes), 2);
        assert_eq!(regions[0].part, VoxelBox::new([0; 3], [5, 8, 8]));
        assert_eq!((regions[0].load, regions[1].load), (250, 250));
        // Three nodes: two thirds and one third.
        let loads = kd_tree(&mut BoxCounts::new(&boxes), 3)
            .into_iter()
            .map(|r| r.load);
        let loads: Vec<u64> = loads.collect();
        assert_eq!(loads.iter().sum::<u64>(), 500);
        assert!(loads.iter().all(|&l| l.abs_diff(167) < 40), "{loads:?}");
    }

    #[test]
    fn few_voxels_of_a_large_box_are_not_lost() {
        let large = [
            (VoxelBox::new([0; 3], [4096; 3]), 15),
            (VoxelBox::new([4096, 0, 0], [8192, 1, 1]), 15),
        ];
        let loads: Vec<u64> = kd_tree(&mut BoxCounts::new(&large), 2)
            .iter()
            .map(|r| r.load)
            .collect();
        assert_eq!(loads.iter().sum::<u64>(), 30);
        assert_eq!(share(1 << 48, 1 << 48, 1 << 48), 1 << 80);
    }

    #[test]
    fn each_node_has_a_region_where_nothing_is_left_to_cut() {
        let one = [(cube([3; 3], 1), 7)];
        let regions = kd_tree_of(&mut BoxCounts::new(&one), &[1, 1, 1]);
        let loads: Vec<u64> = regions.iter().map(|r| r.load).collect();
        assert_eq!(loads, [7, 0, 0]);
        assert!(regions[2].part.is_empty());
    }

    #[test]
    fn long_volumes_are_cut_across_z_first() {
        let long = [(VoxelBox::new([0; 3], [10, 10, 40]), 4000)];
        let regions = kd_tree(&mut BoxCounts::new(&long), 4);
        let ends: Vec<u32> = regions.iter().map(|r| r.part.hi[2]).collect();
        assert_eq!(ends, [10, 20, 30, 40]);
        assert!(regions.iter().all(|r| r.load == 1000));
        // Where slabs are single slices, planes from slab projections are the same.
        let of = |ends| kd_tree(&mut SlabbedCounts::new(BoxCounts::new(&long), ends), 4);
        assert_eq!(of((1..=40).collect()), regions);
        let ends: Vec<u32> = of(vec![16, 40]).iter().map(|r| r.part.hi[2]).collect();
        assert_eq!(ends, [16, 16, 40, 40]);
    }

    #[test]
    fn grids_have_two_axes_below_64_nodes() {
        let size = [2468, 1407, 8590];
        assert_eq!(grid_counts(size, 8), [2, 1, 4]);
        assert_eq!(grid_counts(size, 64), [4, 2, 8]);
        assert_eq!(grid_counts([64; 3], 64), [4, 4, 4]);
        assert_eq!(grid_counts([64; 3], 7), [1, 1, 7]);
    }

    proptest! {
        #[test]
        fn planes_from_slab_projections_are_those_from_slices_where_slabs_are_single_slices(
            bits in prop::collection::vec(any::<bool>(), 7 * 6 * 9), nodes in 1usize..9
        ) {
            let dims = [7, 6, 9];
            let mut slices = SliceCounts::new(dims);
            let mut gathering = SlabGathering::new(dims, 1..=1);
            for (z, slice) in bits.chunks(42).enumerate() {
                slices.set_slice(u32::try_from(z).unwrap(), slice);
                gathering.slice(slice);
            }
            let projections = gathering.finish();
            prop_assert_eq!(kd_tree(&mut slices, nodes), kd_tree(&mut &projections, nodes));
            prop_assert!(slices.slices_read >= 9);
        }

        #[test]
        fn regions_tile_the_volume_and_have_all_voxels(
            cells in prop::collection::btree_map(0u32..27, 0u64..64, 1..27), nodes in 1usize..20
        ) {
            let boxes: Vec<(VoxelBox, u64)> = cells
                .iter()
                .map(|(c, n)| (cube([c % 3 * 4, c / 3 % 3 * 4, c / 9 * 4], 4), *n))
                .collect();
            let mut counts = BoxCounts::new(&boxes);
            for regions in [kd_tree(&mut counts, nodes), grid(&mut counts, nodes)] {
                prop_assert!(regions.len() <= nodes);
                let volume: u64 = regions.iter().map(|r| r.part.voxel_count()).sum();
                prop_assert_eq!(volume, counts.extents().voxel_count());
                // Each region's own number is rounded.
                let load: u64 = regions.iter().map(|r| r.load).sum();
                let voxels: u64 = cells.values().sum();
                prop_assert!(load.abs_diff(voxels) <= nodes as u64);
            }
        }
    }
}
