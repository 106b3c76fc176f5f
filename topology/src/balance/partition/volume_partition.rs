//! Partitions of a volume whose slices pass by once: what is gathered of them, and the parts by each method.
//!
//! Shapes: nx·ny·nz voxels, each empty or not, slice by slice; N nodes; out, the boxes of each node.
//! Not here: which voxels are empty, and where they are read.

use super::{
    PartitionMethod,
    bricking::enlarged,
    grouping::{GROUPED_BRICKS_MAX, GroupingLimits, Prices, group},
    nodes_of_cells,
    planes::{Region, SliceCounts, grid, kd_tree},
    precedence::{Precedence, PrecedenceError},
    slabs::{self, SLAB_WORK_MAX},
};
use crate::data::{
    presence_cubes::PresenceCubes,
    slab_projections::{SlabGathering, SlabProjections},
    voxel_box::VoxelBox,
};
use std::ops::{Range, RangeInclusive};

/// Edge that bricks for grouping are multiples of, in voxels.
const BRICK_UNIT: u32 = 8;
/// Most that is kept of a volume, bytes.
pub const GATHERED_BYTES_MAX: u64 = 4 << 30;
/// Most states of a stage of the dynamic programming.
pub const STATES_MAX: usize = 1 << 12;

/// What a partition is to be.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionRequest {
    /// How it is cut.
    pub method: PartitionMethod,
    /// N, 1 at least.
    pub nodes: usize,
    /// Level of PARC's cubes that slabs weigh; `None`: they weigh the non-empty voxels of single slices.
    pub cube_level: Option<u32>,
    /// Empty voxels around the volume that the cubes count as part of it.
    pub cube_border: u32,
    /// Fewest and most slices of a slab projection.
    pub slab_slices: RangeInclusive<u32>,
    /// Direction of looking, for brick grouping: its octant counts.
    pub view: [f64; 3],
    /// M: most bricks of a cell; bricks are enlarged until a node has fewer.
    pub bricks_max: usize,
    /// Prices of brick grouping.
    pub prices: Prices,
    /// Whether the slab projections are wanted, by whatever method.
    pub draws: bool,
}

/// A node's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumePart {
    /// 0-based node.
    pub node: usize,
    /// What it has; boxes of one part share no voxel.
    pub boxes: Vec<VoxelBox>,
    /// Its slabs, of methods that cut slabs.
    pub slabs: Option<Range<usize>>,
    /// Non-empty voxels, or active cubes.
    pub load: u64,
}

/// A partition of a volume.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumePartition {
    /// The parts.
    pub parts: Vec<VolumePart>,
    /// Cost of brick grouping, else the largest load.
    pub cost: f64,
    /// Whether no partition of this kind costs less, proven.
    pub is_optimal: bool,
    /// States of the dynamic programming.
    pub states: Option<usize>,
    /// Slices that were looked at after the pass: a kd-tree of slices reads them again for every cut.
    pub slices_read: u64,
}

/// Why a volume cannot be parted like this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionError {
    /// No voxel is kept.
    #[error("no voxel is kept: all are empty; say with --keep LO..HI which values are not")]
    Nothing,
    /// More nodes than slabs.
    #[error("{nodes} nodes; there are {slabs} slabs: take at most as many")]
    Nodes {
        /// Nodes asked for.
        nodes: usize,
        /// Slabs.
        slabs: usize,
    },
    /// More bricks than are grouped.
    #[error(
        "{bricks} bricks; at most {GROUPED_BRICKS_MAX} are grouped: take fewer nodes, or fewer bricks a cell"
    )]
    Bricks {
        /// Bricks that there would be.
        bricks: usize,
    },
    /// Slabs of which too much would have to be kept.
    #[error(
        "{nodes} nodes for {slabs} slabs: nodes times slabs must be {SLAB_WORK_MAX} at most; take fewer nodes, or --cubes"
    )]
    Work {
        /// Nodes asked for.
        nodes: usize,
        /// Slabs.
        slabs: usize,
    },
    /// A volume of which too much would have to be kept.
    #[error(
        "{bytes} bytes would have to be kept of it, at most {GATHERED_BYTES_MAX} are; {advice}"
    )]
    Memory {
        /// Bytes.
        bytes: u64,
        /// What to do.
        advice: &'static str,
    },
    /// Bricks without an order.
    #[error(transparent)]
    Order(#[from] PrecedenceError),
}

/// Gathers what a partition needs, while the slices of a volume pass by.
#[derive(Clone, Debug)]
pub struct PartitionGathering {
    request: PartitionRequest,
    dims: [u32; 3],
    projections: Option<SlabGathering>,
    slices: Option<SliceCounts>,
    cubes: Option<PresenceCubes>,
    counts: Vec<u64>,
}

impl PartitionGathering {
    /// Of a volume of which no slice has come.
    ///
    /// # Errors
    /// [`PartitionError::Memory`].
    pub fn new(request: PartitionRequest, dims: [u32; 3]) -> Result<Self, PartitionError> {
        let needs_projections = request.method.needs_projections_only() || request.draws;
        let [x, y, z] = dims.map(u64::from);
        if needs_projections {
            let slabs = z.div_ceil(u64::from(*request.slab_slices.start()).max(1));
            check_bytes(x * y * slabs * 2, "take thicker slabs (--slab)")?;
        }
        let needs_slices = matches!(
            request.method,
            PartitionMethod::Grid | PartitionMethod::KdTree
        );
        if needs_slices {
            let bytes = x.div_ceil(64) * 8 * y * z;
            check_bytes(bytes, "take skd-tree, which keeps slab projections alone")?;
        }
        let level = request.cube_level.filter(|_| request.method.is_slabs());
        let slabs = || SlabGathering::new(dims, request.slab_slices.clone());
        Ok(Self {
            projections: needs_projections.then(slabs),
            slices: needs_slices.then(|| SliceCounts::new(dims)),
            cubes: level.map(|level| PresenceCubes::new(dims, level, request.cube_border)),
            counts: Vec::new(),
            dims,
            request,
        })
    }

    /// Takes the next slice: which of its voxels are not empty, x fastest.
    pub fn slice(&mut self, kept: &[bool]) {
        let z = u32::try_from(self.counts.len()).unwrap_or(u32::MAX);
        self.counts.push(kept.iter().filter(|&&k| k).count() as u64);
        if let Some(projections) = &mut self.projections {
            projections.slice(kept);
        }
        if let Some(slices) = &mut self.slices {
            slices.set_slice(z, kept);
        }
        if let Some(cubes) = &mut self.cubes {
            cubes.slice(z, kept);
        }
    }

    /// The partition, and the slab projections where they were gathered.
    ///
    /// # Errors
    /// [`PartitionError`].
    pub fn finish(self) -> Result<(VolumePartition, Option<SlabProjections>), PartitionError> {
        if self.counts.iter().all(|&count| count == 0) {
            return Err(PartitionError::Nothing);
        }
        let kept = self.projections.map(SlabGathering::finish);
        let no_slabs = SlabProjections {
            dims: self.dims,
            slabs: Vec::new(),
        };
        let projections = kept.as_ref().unwrap_or(&no_slabs);
        let request = &self.request;
        let partition = match request.method {
            PartitionMethod::Grid | PartitionMethod::KdTree => {
                let mut slices = self.slices.unwrap_or_else(|| SliceCounts::new(self.dims));
                if request.method == PartitionMethod::Grid {
                    of_regions(&grid(&mut slices, request.nodes), 0)
                } else {
                    let regions = kd_tree(&mut slices, request.nodes);
                    of_regions(&regions, slices.slices_read)
                }
            }
            PartitionMethod::SkdTree | PartitionMethod::BrickGrouping => {
                of_projections(request, projections)?
            }
            _ => {
                let (counts, planes) = match &self.cubes {
                    Some(cubes) => (cubes.slab_counts(2), cubes.slab_planes(2)),
                    None => (self.counts, (0..=self.dims[2]).collect()),
                };
                of_slabs(request, self.dims, &counts, &planes)?
            }
        };
        Ok((partition, kept))
    }
}

/// The partition by a method that needs slab projections only (skd-tree; else brick grouping).
///
/// # Errors
/// [`PartitionError`].
pub fn of_projections(
    request: &PartitionRequest,
    mut projections: &SlabProjections,
) -> Result<VolumePartition, PartitionError> {
    if projections.voxels() == 0 {
        return Err(PartitionError::Nothing);
    }
    if request.method == PartitionMethod::SkdTree {
        return Ok(of_regions(&kd_tree(&mut projections, request.nodes), 0));
    }
    grouped(request, projections)
}

fn check_bytes(bytes: u64, advice: &'static str) -> Result<(), PartitionError> {
    if bytes > GATHERED_BYTES_MAX {
        return Err(PartitionError::Memory { bytes, advice });
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn of_parts(parts: Vec<VolumePart>) -> VolumePartition {
    VolumePartition {
        cost: parts.iter().map(|p| p.load).max().unwrap_or(0) as f64,
        parts,
        is_optimal: false,
        states: None,
        slices_read: 0,
    }
}

fn of_regions(regions: &[Region], slices_read: u64) -> VolumePartition {
    let part = |(node, region): (usize, &Region)| VolumePart {
        node,
        boxes: vec![region.part],
        slabs: None,
        load: region.load,
    };
    VolumePartition {
        slices_read,
        ..of_parts(regions.iter().enumerate().map(part).collect())
    }
}

fn of_slabs(
    request: &PartitionRequest,
    dims: [u32; 3],
    counts: &[u64],
    planes: &[u32],
) -> Result<VolumePartition, PartitionError> {
    let (nodes, slabs) = (request.nodes, counts.len());
    if nodes > slabs {
        return Err(PartitionError::Nodes { nodes, slabs });
    }
    if nodes as u64 * slabs as u64 > SLAB_WORK_MAX {
        return Err(PartitionError::Work { nodes, slabs });
    }
    let best = slabs::min_max(counts, nodes);
    let least = slabs::largest(&slabs::loads(counts, &best));
    let runs = match request.method {
        PartitionMethod::SlabsEqual => slabs::equal(slabs, nodes),
        PartitionMethod::SlabsLeastSquares => slabs::least_squares(counts, nodes),
        _ => best,
    };
    let loads = slabs::loads(counts, &runs);
    let part = |(node, (run, &load)): (usize, (Range<usize>, &u64))| VolumePart {
        node,
        boxes: vec![VoxelBox::new(
            [0, 0, planes[run.start]],
            [dims[0], dims[1], planes[run.end]],
        )],
        slabs: Some(run),
        load,
    };
    let is_optimal =
        request.method == PartitionMethod::SlabsLeastSquares || slabs::largest(&loads) == least;
    let cost = slabs::squared_differences(&loads);
    let parts = of_parts(runs.into_iter().zip(&loads).enumerate().map(part).collect());
    let by_squares = request.method == PartitionMethod::SlabsLeastSquares;
    Ok(VolumePartition {
        is_optimal,
        cost: if by_squares { cost } else { parts.cost },
        ..parts
    })
}

fn grouped(
    request: &PartitionRequest,
    projections: &SlabProjections,
) -> Result<VolumePartition, PartitionError> {
    let (bricks, _) = enlarged(projections, BRICK_UNIT, request.nodes, request.bricks_max);
    if bricks.len() > GROUPED_BRICKS_MAX {
        let bricks = bricks.len();
        return Err(PartitionError::Bricks { bricks });
    }
    let boxes: Vec<VoxelBox> = bricks.iter().map(|b| b.0).collect();
    let precedence = Precedence::of_boxes(&boxes, request.view)?;
    let limits = GroupingLimits {
        bricks_max: request.bricks_max,
        states_max: STATES_MAX,
        count: false,
    };
    let found = group(&precedence, &request.prices, &limits);
    let nodes = nodes_of_cells(&found.cells, request.nodes);
    let part = |(cell, node): (&Vec<usize>, usize)| VolumePart {
        node,
        boxes: cell.iter().map(|&b| boxes[b]).collect(),
        slabs: None,
        load: cell.iter().map(|&b| bricks[b].1).sum(),
    };
    Ok(VolumePartition {
        parts: found.cells.iter().zip(nodes).map(part).collect(),
        cost: found.cost,
        is_optimal: found.is_optimal,
        states: Some(found.states),
        slices_read: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::partition::grouping::Sending;

    fn request(method: PartitionMethod, nodes: usize) -> PartitionRequest {
        PartitionRequest {
            method,
            nodes,
            cube_level: None,
            cube_border: 0,
            slab_slices: 4..=8,
            view: [1.0; 3],
            bricks_max: 6,
            prices: Prices {
                render: 10.0,
                local: 0.1,
                send: Sending::Each(5.0),
            },
            draws: false,
        }
    }

    /// A ball of 32³ voxels, low in z: its upper half is empty.
    fn part(request: PartitionRequest) -> Result<VolumePartition, PartitionError> {
        let mut gathering = PartitionGathering::new(request, [32; 3])?;
        for z in 0..32_i32 {
            let kept: Vec<bool> = (0..1024_i32)
                .map(|i| (i % 32 - 16).pow(2) + (i / 32 - 16).pow(2) + (z - 8).pow(2) < 64)
                .collect();
            gathering.slice(&kept);
        }
        Ok(gathering.finish()?.0)
    }

    #[test]
    fn every_method_gives_each_voxel_to_one_node() {
        let methods = [
            PartitionMethod::Grid,
            PartitionMethod::SlabsEqual,
            PartitionMethod::SlabsMinMax,
            PartitionMethod::SlabsLeastSquares,
            PartitionMethod::KdTree,
            PartitionMethod::SkdTree,
            PartitionMethod::BrickGrouping,
        ];
        let load = |p: &VolumePartition| p.parts.iter().map(|p| p.load).sum::<u64>();
        let expected = load(&part(request(PartitionMethod::KdTree, 1)).unwrap());
        assert!(expected > 1500);
        for method in methods {
            let found = part(request(method, 4)).unwrap();
            assert_eq!(load(&found), expected, "{method:?}");
            assert!(found.parts.iter().all(|p| p.node < 4));
            let boxes: Vec<VoxelBox> = found.parts.iter().flat_map(|p| p.boxes.clone()).collect();
            for (i, a) in boxes.iter().enumerate() {
                assert!(
                    boxes[i + 1..].iter().all(|b| a.intersection(b).is_empty()),
                    "{method:?}"
                );
            }
            assert_eq!(found.slices_read > 0, method == PartitionMethod::KdTree);
        }
        let max = |method| part(request(method, 4)).unwrap().cost;
        assert!(max(PartitionMethod::SlabsMinMax) < max(PartitionMethod::SlabsEqual));
        assert!(max(PartitionMethod::KdTree) < max(PartitionMethod::Grid));
    }

    #[test]
    fn what_cannot_be_is_said() {
        let mut many = request(PartitionMethod::SlabsEqual, 17);
        many.cube_level = Some(4);
        let error = part(many).unwrap_err();
        assert_eq!(
            error,
            PartitionError::Nodes {
                nodes: 17,
                slabs: 16
            }
        );
        let of = |method, dims| PartitionGathering::new(request(method, 2), dims);
        let large = of(PartitionMethod::SkdTree, [60_000, 60_000, 9]).unwrap_err();
        assert!(large.to_string().contains("thicker slabs"), "{large}");
        assert!(of(PartitionMethod::SlabsEqual, [60_000, 60_000, 9]).is_ok());
        let mut nothing = of(PartitionMethod::Grid, [4, 4, 1]).unwrap();
        nothing.slice(&[false; 16]);
        assert_eq!(nothing.finish().unwrap_err(), PartitionError::Nothing);
    }
}
