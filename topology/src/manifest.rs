//! The manifest of a data set: what the volume is, how it is cut, and the digest and value range
//! of every brick. Its own digest names the data set.
//!
//! Invariant: a [`Manifest`] is consistent: it is checked when it is made and when it is read
//! from a file or a peer.

use crate::{
    brick_grid::{BrickGrid, BrickGridError, BrickIndex},
    cell_ranges::CellRanges,
    digest::Digest,
    volume::{VolumeDescription, VolumeError, VoxelType},
};
use serde::{Deserialize, Serialize};

/// Version of the manifest that this program writes and reads.
pub const MANIFEST_VERSION: u32 = 2;
/// Bins of the histogram.
pub const HISTOGRAM_BINS: usize = 256;
/// How often a voxel may be counted in a histogram: the smallest bricks store 7³ voxels and own 4³.
const GHOSTS_COUNTED_MAX: u64 = 6;

/// What a manifest says of one brick.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BrickRecord {
    /// Digest of the bytes of its stored box.
    pub digest: Digest,
    /// Smallest and largest number in its stored box (ghosts too), as stored.
    pub range: [f64; 2],
    /// Ranges of its cells; `None`: not known, all may be visible.
    #[serde(default)]
    pub cells: Option<CellRanges>,
}

impl BrickRecord {
    /// The record of a brick with these bytes, the voxels of its stored box.
    ///
    /// # Panics
    /// Where `bytes` are not as many as the stored box has voxels.
    #[must_use]
    pub fn of(grid: &BrickGrid, brick: BrickIndex, voxel: VoxelType, bytes: &[u8]) -> Self {
        let (range, cells) = CellRanges::of(grid, brick, voxel, bytes);
        Self {
            digest: Digest::of(bytes),
            range,
            cells: Some(cells),
        }
    }
}

/// The parts of a manifest, not yet checked; the JSON of `manifest.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestParts {
    /// [`MANIFEST_VERSION`].
    pub version: u32,
    /// The volume.
    pub volume: VolumeDescription,
    /// Edge of a brick in voxels.
    pub brick_edge: u32,
    /// Smallest and largest number in the volume, as stored.
    pub range: [f64; 2],
    /// Voxels by value: [`HISTOGRAM_BINS`] equal bins over the range.
    pub histogram: Vec<u64>,
    /// Name of the file that it came from, for people.
    pub source: String,
    /// One record a brick, in index order.
    pub bricks: Vec<BrickRecord>,
}

/// A checked manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "ManifestParts", into = "ManifestParts")]
pub struct Manifest {
    parts: ManifestParts,
    grid: BrickGrid,
    digest: Digest,
}

/// What is wrong with a manifest.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// Written by another version.
    #[error(
        "manifest version is {found}, this program reads {MANIFEST_VERSION}; import the volume again"
    )]
    Version {
        /// Version found.
        found: u32,
    },
    /// A bad volume.
    #[error("volume: {0}")]
    Volume(#[from] VolumeError),
    /// A bad grid.
    #[error("grid: {0}")]
    Grid(#[from] BrickGridError),
    /// Records missing or left over.
    #[error("{field} has {found} entries, expected {expected}")]
    Count {
        /// Field.
        field: &'static str,
        /// Entries found.
        found: usize,
        /// Entries expected.
        expected: usize,
    },
    /// A range that no voxels have, or upside down.
    #[error("range of {what} is {}…{}; it must be of numbers that a voxel can be, and ascend", range[0], range[1])]
    Range {
        /// The volume, or a brick.
        what: String,
        /// Range found.
        range: [f64; 2],
    },
    /// A histogram of far more voxels than the volume has.
    #[error("histogram counts {found} voxels; with all ghosts there are {expected} at most")]
    Histogram {
        /// Voxels counted.
        found: u128,
        /// Voxels that there can be.
        expected: u64,
    },
}

impl TryFrom<ManifestParts> for Manifest {
    type Error = ManifestError;

    fn try_from(parts: ManifestParts) -> Result<Self, ManifestError> {
        if parts.version != MANIFEST_VERSION {
            return Err(ManifestError::Version {
                found: parts.version,
            });
        }
        parts.volume.validate()?;
        let grid = BrickGrid::new(parts.volume.dims, parts.brick_edge)?;
        let count = |field, found, expected| {
            if found == expected {
                Ok(())
            } else {
                Err(ManifestError::Count {
                    field,
                    found,
                    expected,
                })
            }
        };
        count("bricks", parts.bricks.len(), grid.brick_count() as usize)?;
        count("histogram", parts.histogram.len(), HISTOGRAM_BINS)?;
        let counted = parts.histogram.iter().map(|&n| u128::from(n)).sum();
        let voxels: u64 = parts.volume.dims.iter().map(|&n| u64::from(n)).product();
        let expected = voxels * GHOSTS_COUNTED_MAX;
        if counted > u128::from(expected) {
            return Err(ManifestError::Histogram {
                found: counted,
                expected,
            });
        }
        // Every voxel type is read as f32; its bounds keep what follows from a range finite.
        let largest = f64::from(f32::MAX);
        let good = |r: &[f64; 2]| -largest <= r[0] && r[0] <= r[1] && r[1] <= largest;
        if !good(&parts.range) {
            return Err(ManifestError::Range {
                what: "the volume".to_owned(),
                range: parts.range,
            });
        }
        if let Some((b, record)) = parts
            .bricks
            .iter()
            .enumerate()
            .find(|(_, r)| !good(&r.range))
        {
            return Err(ManifestError::Range {
                what: format!("brick {b}"),
                range: record.range,
            });
        }
        let digest = digest(&parts);
        Ok(Self {
            parts,
            grid,
            digest,
        })
    }
}

impl From<Manifest> for ManifestParts {
    fn from(manifest: Manifest) -> Self {
        manifest.parts
    }
}

impl Manifest {
    /// Name of the data set.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The volume.
    #[must_use]
    pub fn volume(&self) -> &VolumeDescription {
        &self.parts.volume
    }

    /// Its cut into bricks.
    #[must_use]
    pub fn grid(&self) -> &BrickGrid {
        &self.grid
    }

    /// Smallest and largest number in the volume, as stored.
    #[must_use]
    pub fn range(&self) -> [f64; 2] {
        self.parts.range
    }

    /// Voxels by value, in equal bins over [`Self::range`].
    #[must_use]
    pub fn histogram(&self) -> &[u64] {
        &self.parts.histogram
    }

    /// Name of the file that it came from, for people.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.parts.source
    }

    /// Digest of a brick's bytes.
    ///
    /// # Panics
    /// Where the brick is not in the grid.
    #[must_use]
    pub fn brick_digest(&self, brick: BrickIndex) -> Digest {
        self.parts.bricks[brick.0 as usize].digest
    }

    /// Smallest and largest number in a brick's stored box, as stored.
    ///
    /// # Panics
    /// Where the brick is not in the grid.
    #[must_use]
    pub fn brick_range(&self, brick: BrickIndex) -> [f64; 2] {
        self.parts.bricks[brick.0 as usize].range
    }

    /// Ranges of a brick's cells, where they are known.
    ///
    /// # Panics
    /// Where the brick is not in the grid.
    #[must_use]
    pub fn brick_cells(&self, brick: BrickIndex) -> Option<&CellRanges> {
        self.parts.bricks[brick.0 as usize].cells.as_ref()
    }

    /// Length of a brick's bytes.
    #[must_use]
    pub fn brick_bytes(&self, brick: BrickIndex) -> u64 {
        self.grid.stored_box(brick).voxel_count() * self.parts.volume.voxel.bytes() as u64
    }

    /// Memory that it takes itself, in bytes, about.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let cells = |b: &BrickRecord| b.cells.as_ref().map_or(0, |c| c.levels().len());
        let records = self.parts.bricks.iter();
        let records: usize = records.map(|b| size_of_val(b) + cells(b)).sum();
        records + size_of_val(self.parts.histogram.as_slice()) + self.parts.source.len()
    }

    /// Length of the longest brick's bytes.
    #[must_use]
    pub fn largest_brick_bytes(&self) -> u64 {
        self.grid
            .bricks()
            .map(|b| self.brick_bytes(b))
            .max()
            .unwrap_or(0)
    }
}

/// The digest of what decides about voxels and their meaning; the source's name does not.
fn digest(parts: &ManifestParts) -> Digest {
    let volume = &parts.volume;
    let mut bytes = b"brickmesh manifest 2".to_vec();
    volume
        .dims
        .iter()
        .for_each(|n| bytes.extend(n.to_le_bytes()));
    bytes.extend(volume.voxel.name().as_bytes());
    let numbers = volume
        .spacing
        .iter()
        .chain(&volume.origin)
        .chain(volume.direction.iter().flatten());
    let scales = [volume.value_scale, volume.value_offset];
    numbers
        .chain(&scales)
        .for_each(|x| bytes.extend(x.to_le_bytes()));
    bytes.extend(parts.brick_edge.to_le_bytes());
    parts.bricks.iter().for_each(|b| {
        bytes.extend(b.digest.as_bytes());
        b.range.iter().for_each(|x| bytes.extend(x.to_le_bytes()));
        if let Some(cells) = &b.cells {
            bytes.extend(cells.levels());
        }
    });
    Digest::of(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::VoxelType;

    fn parts() -> ManifestParts {
        ManifestParts {
            version: MANIFEST_VERSION,
            volume: VolumeDescription::new([8, 8, 9], VoxelType::U8),
            brick_edge: 8,
            range: [0.0, 9.0],
            histogram: vec![0; HISTOGRAM_BINS],
            source: "test".to_owned(),
            bricks: vec![
                BrickRecord {
                    digest: Digest::of(b""),
                    range: [0.0, 9.0],
                    cells: None,
                };
                2
            ],
        }
    }

    #[test]
    fn reading_gives_back_the_same_data_set() {
        let manifest = Manifest::try_from(parts()).unwrap();
        let json = serde_json::to_string(&manifest).unwrap();
        let back: Manifest = serde_json::from_str(&json).unwrap();
        assert_eq!(back.digest(), manifest.digest());
        assert_eq!(back, manifest);
    }

    #[test]
    fn inconsistent_manifests_are_refused() {
        let refused = |change: fn(&mut ManifestParts)| {
            let mut p = parts();
            change(&mut p);
            Manifest::try_from(p).unwrap_err().to_string()
        };
        assert!(refused(|p| p.version = 9).contains("version is 9"));
        assert!(refused(|p| p.bricks.truncate(1)).contains("bricks has 1 entries, expected 2"));
        assert!(refused(|p| p.bricks[1].range = [f64::NAN, 1.0]).contains("brick 1"));
        assert!(refused(|p| p.range = [-1e308, 1e308]).contains("the volume"));
        assert!(refused(|p| p.histogram[3] = u64::MAX).contains("3456 at most"));
        assert!(refused(|p| p.volume.dims = [0, 8, 9]).contains("dims"));
        assert!(refused(|p| p.brick_edge = 1).contains("edge"));
    }

    #[test]
    fn another_voxel_is_another_data_set() {
        let mut other = parts();
        other.bricks[0].digest = Digest::of(b"x");
        let (a, b) = (
            Manifest::try_from(parts()).unwrap(),
            Manifest::try_from(other).unwrap(),
        );
        assert_ne!(a.digest(), b.digest());
    }
}
