//! The manifest of a data set: what the volume is, how it is cut, and the digest and value range
//! of every brick. Its own digest names the data set.
//!
//! Invariant: a [`Manifest`] is consistent: it is checked when it is made and when it is read
//! from a file or a peer.

use crate::{
    base::digest::Digest,
    data::{
        brick_bytes::BRICK_BYTES_MAX,
        brick_grid::{BrickGrid, BrickGridError, BrickIndex},
        brick_table::{
            BrickRecord, BrickTable, BrickTableError, RECORD_BYTES_MAX, TRIANGLES_BYTES,
        },
        cell_ranges::{CellRanges, cell_box},
        column_values::ColumnValues,
        gradient_histogram::GradientHistogram,
        levels,
        partition_method::PartitionMethod,
        subject::Subject,
        triangles::{
            BRICK_TRIANGLES_MAX, BrickTriangles, MATERIALS_MAX, Material, TRIANGLE_BYTES,
            TriangleOrder,
        },
        value_statistics::{HISTOGRAM_BINS, ValueStatistics},
        volume::{VolumeDescription, VolumeError, VoxelType},
        voxel_box::VoxelBox,
        voxel_numbers::VoxelNumbers,
    },
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Newest version that this program reads, and writes where there are triangles.
pub const MANIFEST_VERSION: u32 = 10;
/// Version that it writes where there are none: older programs read it, too.
const VERSION_OF_VOXELS: u32 = 8;
/// First version that knows triangles.
const VERSION_OF_TRIANGLES: u32 = 9;
/// First version whose triangles are in order.
const VERSION_OF_LEAVES: u32 = 10;
/// Oldest version that it reads: without statistics, and no data was refused. Version 3 has no histogram of gradients, none before
/// 6 has levels, what is said of bricks stands in the text of the manifest before 7, and none before 8 knows what rays come to.
const MANIFEST_VERSION_MIN: u32 = 2;
/// How often a voxel may be counted in a histogram, as version 2 counted ghosts, too: the smallest
/// bricks store 7³ voxels and own 4³.
const GHOSTS_COUNTED_MAX: u64 = 6;

/// The parts of a manifest, not yet checked; but for the pages the JSON of `manifest.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestParts {
    /// [`MANIFEST_VERSION`] at most.
    pub version: u32,
    /// The volume.
    pub volume: VolumeDescription,
    /// Edge of a brick in voxels.
    pub brick_edge: u32,
    /// Smallest and largest number in the volume, as stored; `None`: all is no data.
    pub range: Option<[f64; 2]>,
    /// Voxels by value: [`HISTOGRAM_BINS`] equal bins over [`ValueStatistics::histogram_range`], or the
    /// range where there are no statistics; what lies outside is in the first and last. Of floats an
    /// estimate.
    pub histogram: Vec<u64>,
    /// What the values are like; `None`: an older program has written this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistics: Option<ValueStatistics>,
    /// Values and gradients of its voxels; `None`: none are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradients: Option<GradientHistogram>,
    /// What the default transfer function shows; `None`: nothing, or it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// What bundles of rays along its axes come to; `None`: it has no data, or an older program has written this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<ColumnValues>,
    /// How its bricks are parted among peers at first; `None`: scattered, as many copies as are wanted. Advice: it is
    /// in no name, and peers that disagree cost spare copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<PartitionMethod>,
    /// Voxels of each brick that are kept, as its import was told what is empty; `None`: it was not. As the placement it is in no
    /// name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_voxels: Option<Vec<u32>>,
    /// Names of its levels, finest first, as far as there are any ([`levels`]); level 0, which is this one, is not among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Digest>,
    /// What its triangles look like; none: there are no triangles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub materials: Vec<Material>,
    /// Name of the file that it came from, for people.
    pub source: String,
    /// One record a brick, in index order; not looked at where there are pages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bricks: Vec<BrickRecord>,
    /// Name of what is said of its bricks; `None`: not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<Digest>,
    /// What is said of its bricks (`brick_table`).
    #[serde(default, skip_serializing_if = "Bytes::is_empty")]
    pub pages: Bytes,
}

impl ManifestParts {
    /// Of a volume cut into bricks of `brick_edge`, with the voxels that `bytes_of` gives of each stored
    /// box, x fastest; nothing more is said of its values.
    ///
    /// # Errors
    /// [`BrickGridError`] where it cannot be cut like this.
    ///
    /// # Panics
    /// Where the bytes are not as many as a stored box has voxels.
    pub fn cut(
        volume: VolumeDescription,
        brick_edge: u32,
        source: &str,
        mut bytes_of: impl FnMut(&VoxelBox) -> Vec<u8>,
    ) -> Result<Self, BrickGridError> {
        let grid = BrickGrid::new(volume.dims, brick_edge)?;
        let record = |brick| {
            let bytes = bytes_of(&grid.stored_box(brick));
            BrickRecord::of(&grid, brick, &volume, &bytes)
        };
        let bricks = grid.bricks().map(record).collect();
        Ok(Self::new(volume, brick_edge, source, bricks))
    }

    /// Most bytes of its pages; 0, where it has records, or a volume or an edge that cannot be.
    #[must_use]
    pub fn page_bytes_max(&self) -> u64 {
        let is_good = self.volume.validate().is_ok() && self.bricks.is_empty();
        let grid = BrickGrid::new(self.volume.dims, self.brick_edge);
        let count = grid.ok().filter(|_| is_good).map(|g| g.brick_count());
        let triangles = if self.materials.is_empty() {
            0
        } else {
            TRIANGLES_BYTES
        };
        u64::from(count.unwrap_or(0)) * (RECORD_BYTES_MAX + triangles) as u64
    }

    /// Of a volume that is cut into bricks of `brick_edge`, whose values nothing more is known of.
    #[must_use]
    pub fn new(
        volume: VolumeDescription,
        brick_edge: u32,
        source: &str,
        bricks: Vec<BrickRecord>,
    ) -> Self {
        let ranges = bricks.iter().filter_map(|b| b.range);
        Self {
            version: VERSION_OF_VOXELS,
            volume,
            brick_edge,
            range: ranges.reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])]),
            histogram: vec![0; HISTOGRAM_BINS],
            statistics: None,
            gradients: None,
            subject: None,
            columns: None,
            placement: None,
            kept_voxels: None,
            levels: Vec::new(),
            materials: Vec::new(),
            source: source.to_owned(),
            bricks,
            index: None,
            pages: Bytes::new(),
        }
    }
}

/// A checked manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "ManifestParts", into = "ManifestParts")]
pub struct Manifest {
    /// Without what is said of bricks.
    parts: ManifestParts,
    bricks: BrickTable,
    grid: BrickGrid,
    digest: Digest,
    /// Those of the brick that has most.
    triangles_max: u32,
}

/// What is wrong with a manifest.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// More voxels are kept of a brick than it has.
    #[error("kept_voxels of brick {brick} is {found}; it has {most} voxels")]
    Kept {
        /// The brick.
        brick: u32,
        /// What is there.
        found: u32,
        /// Its voxels.
        most: u64,
    },
    /// Written by another version.
    #[error(
        "manifest version is {found}, this program reads {MANIFEST_VERSION_MIN} to {MANIFEST_VERSION}; take one as new as that which wrote it"
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
    /// Pages that are not those of the grid.
    #[error(transparent)]
    Pages(#[from] BrickTableError),
    /// Other pages than were named.
    #[error("the digest of what is said of the bricks is {found}, expected {expected}")]
    Index {
        /// Name of what is there.
        found: Digest,
        /// Name that is given.
        expected: Digest,
    },
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
    /// Statistics that no values have.
    #[error("statistics have numbers that no voxels have, too few of them, or in a wrong order")]
    Statistics,
    /// A subject that is not in the volume.
    #[error("subject has points outside of the volume, none, or too many")]
    Subject,
    /// What rays come to, which these voxels cannot.
    #[error("columns have values outside of the volume's range, or in a wrong order")]
    Columns,
    /// Levels that the volume has not.
    #[error("there are {found} levels; a volume of this size has {most} at most")]
    Levels {
        /// Levels found.
        found: usize,
        /// Most levels.
        most: usize,
    },
    /// Triangles without materials, or with such as cannot be.
    #[error(
        "materials are {found} of at most {MATERIALS_MAX}, version {VERSION_OF_TRIANGLES}, without levels; each has a short name, colours of 0 to 1 and an opacity above 0, up to 1; bricks have triangles just where there are some, {BRICK_TRIANGLES_MAX} each at most, {BRICK_BYTES_MAX} bytes with their voxels"
    )]
    Materials {
        /// Materials found.
        found: usize,
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

    fn try_from(mut parts: ManifestParts) -> Result<Self, ManifestError> {
        if !(MANIFEST_VERSION_MIN..=MANIFEST_VERSION).contains(&parts.version) {
            return Err(ManifestError::Version {
                found: parts.version,
            });
        }
        parts.volume.validate()?;
        let grid = BrickGrid::new(parts.volume.dims, parts.brick_edge)?;
        check_counts(&parts, &grid)?;
        let counted = parts.histogram.iter().map(|&n| u128::from(n)).sum();
        let voxels: u64 = parts.volume.dims.iter().map(|&n| u64::from(n)).product();
        let expected = voxels * GHOSTS_COUNTED_MAX;
        if counted > u128::from(expected) {
            return Err(ManifestError::Histogram {
                found: counted,
                expected,
            });
        }
        if let Some(range) = parts.range.filter(|r| !is_range(r)) {
            let what = "the volume".to_owned();
            return Err(ManifestError::Range { what, range });
        }
        let bricks = take_bricks(&mut parts, &grid)?;
        // What they say of the numbers that devices compute with is in the name since version 3.
        let are_known = |s: &ValueStatistics| s.is_valid() && parts.version >= 3;
        if parts.statistics.as_ref().is_some_and(|s| !are_known(s)) {
            return Err(ManifestError::Statistics);
        }
        if parts.gradients.as_ref().is_some_and(|g| !g.is_valid()) {
            return Err(ManifestError::Statistics);
        }
        let subject = parts.subject.as_ref();
        if subject.is_some_and(|s| !s.is_valid(&parts.volume)) {
            return Err(ManifestError::Subject);
        }
        if parts
            .columns
            .is_some_and(|c| !parts.range.is_some_and(|range| c.is_within(range)))
        {
            return Err(ManifestError::Columns);
        }
        let counts = grid.bricks().filter_map(|b| bricks.triangles(b));
        let triangles_max = counts.map(|t| t.count).max().unwrap_or(0);
        let size = grid.largest_stored_size().map(u64::from);
        let voxels = size.iter().product::<u64>() * parts.volume.voxel.bytes() as u64;
        check_materials(&parts, voxels, triangles_max)?;
        let digest = digest(&parts, &grid, &bricks);
        Ok(Self {
            parts,
            bricks,
            grid,
            digest,
            triangles_max,
        })
    }
}

/// Whether these are a range. Every voxel type is read as f32; its bounds keep what follows from a range finite.
fn is_range([low, high]: &[f64; 2]) -> bool {
    let largest = f64::from(f32::MAX);
    -largest <= *low && low <= high && *high <= largest
}

/// Checks what is said of triangles; the voxels of a brick take so many bytes at most.
fn check_materials(
    parts: &ManifestParts,
    voxel_bytes: u64,
    triangles_max: u32,
) -> Result<(), ManifestError> {
    let found = parts.materials.len();
    let bytes = voxel_bytes + u64::from(triangles_max) * TRIANGLE_BYTES as u64;
    let are_good = found <= MATERIALS_MAX
        && parts.materials.iter().all(Material::is_valid)
        && (found > 0) == (triangles_max > 0)
        && triangles_max <= BRICK_TRIANGLES_MAX
        && (found == 0 || parts.version >= VERSION_OF_TRIANGLES)
        && (found == 0 || (parts.levels.is_empty() && bytes <= BRICK_BYTES_MAX));
    if are_good {
        return Ok(());
    }
    Err(ManifestError::Materials { found })
}

/// Takes what is said of bricks out of the parts, where its name stays.
fn take_bricks(parts: &mut ManifestParts, grid: &BrickGrid) -> Result<BrickTable, ManifestError> {
    let (records, pages) = (
        std::mem::take(&mut parts.bricks),
        std::mem::take(&mut parts.pages),
    );
    let wrong = |brick: usize, range| ManifestError::Range {
        what: format!("brick {brick}"),
        range,
    };
    let bricks = if pages.is_empty() {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "whether it is one is asked"
        )]
        let is_f32 = |n: &f64| f64::from(*n as f32).to_bits() == n.to_bits();
        for (brick, record) in records.iter().enumerate() {
            if let Some(range) = record.range.filter(|r| !r.iter().all(is_f32)) {
                return Err(wrong(brick, range));
            }
        }
        BrickTable::of(grid, &records)
    } else {
        BrickTable::checked(grid, pages)?
    };
    let found = bricks.name();
    if let Some(expected) = parts.index.replace(found).filter(|named| *named != found) {
        return Err(ManifestError::Index { found, expected });
    }
    for brick in grid.bricks() {
        if let Some(range) = bricks.range(brick).filter(|r| !is_range(r)) {
            return Err(wrong(brick.0 as usize, range));
        }
    }
    Ok(bricks)
}

/// Checks that there are as many entries of each kind as a volume cut like this has.
fn check_counts(parts: &ManifestParts, grid: &BrickGrid) -> Result<(), ManifestError> {
    let bricks = grid.brick_count() as usize;
    // Pages are looked at when they are taken.
    let records = if parts.pages.is_empty() {
        parts.bricks.len()
    } else {
        bricks
    };
    let counts = [
        ("bricks", records, bricks),
        ("histogram", parts.histogram.len(), HISTOGRAM_BINS),
        (
            "kept_voxels",
            parts.kept_voxels.as_ref().map_or(bricks, Vec::len),
            bricks,
        ),
    ];
    let wrong = counts
        .into_iter()
        .find(|(_, found, expected)| found != expected);
    if let Some((field, found, expected)) = wrong {
        return Err(ManifestError::Count {
            field,
            found,
            expected,
        });
    }
    for (brick, &found) in grid.bricks().zip(parts.kept_voxels.iter().flatten()) {
        let most = grid.owned_box(brick).voxel_count();
        if u64::from(found) > most {
            return Err(ManifestError::Kept {
                brick: brick.0,
                found,
                most,
            });
        }
    }
    let most = levels::levels(&parts.volume, parts.brick_edge).len() - 1;
    let found = parts.levels.len();
    if found > most {
        return Err(ManifestError::Levels { found, most });
    }
    Ok(())
}

impl From<Manifest> for ManifestParts {
    fn from(manifest: Manifest) -> Self {
        Self {
            pages: manifest.bricks.bytes().clone(),
            ..manifest.parts
        }
    }
}

impl Manifest {
    /// The same, with what its default transfer function shows.
    #[must_use]
    pub fn with_subject(mut self, subject: Option<Subject>) -> Self {
        self.parts.subject = subject;
        self
    }

    /// The same, its bricks placed like that.
    #[must_use]
    pub fn with_placement(mut self, placement: Option<PartitionMethod>) -> Self {
        self.parts.placement = placement;
        self
    }

    /// How its bricks are parted among peers at first; `None`: scattered.
    #[must_use]
    pub fn placement(&self) -> Option<PartitionMethod> {
        self.parts.placement
    }

    /// Names of its levels from level 1 on, finest first.
    #[must_use]
    pub fn levels(&self) -> &[Digest] {
        &self.parts.levels
    }

    /// Whether its import was told what is empty.
    #[must_use]
    pub fn knows_kept_voxels(&self) -> bool {
        self.parts.kept_voxels.is_some()
    }

    /// What each brick weighs: its voxels that are kept, where its import was told what is empty; else those that are not known to be
    /// background or no data, by its cells; and its triangles.
    #[must_use]
    pub fn occupied_voxels(&self) -> Vec<u64> {
        if let Some(kept) = &self.parts.kept_voxels {
            return kept.iter().map(|&n| n.into()).collect();
        }
        let background = self.parts.statistics.as_ref().and_then(|s| s.background);
        let is_empty = |range: Option<[f64; 2]>| {
            range.is_none_or(|[low, high]| {
                background
                    .is_some_and(|b| low.to_bits() == b.to_bits() && high.to_bits() == b.to_bits())
            })
        };
        let voxels = |brick: BrickIndex| {
            let owned = self.grid.owned_box(brick);
            let Some(range) = self.brick_range(brick) else {
                return 0;
            };
            let Some(cells) = self.brick_cells(brick) else {
                return if is_empty(Some(range)) {
                    0
                } else {
                    owned.voxel_count()
                };
            };
            let ranges = cells.ranges(range).enumerate();
            let kept = ranges.filter(|(_, range)| !is_empty(*range));
            kept.map(|(cell, _)| cell_box(&owned, cell).voxel_count())
                .sum()
        };
        let triangles = |brick| self.brick_triangles(brick).map_or(0, |t| t.count.into());
        let bricks = self.grid.bricks();
        bricks
            .map(|brick| voxels(brick) + triangles(brick))
            .collect()
    }

    /// Its parts without what is said of bricks, of which only the name is there.
    #[must_use]
    pub fn root(&self) -> &ManifestParts {
        &self.parts
    }

    /// What is said of bricks, as bytes (`brick_table`).
    #[must_use]
    pub fn pages(&self) -> &Bytes {
        self.bricks.bytes()
    }

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

    /// Smallest and largest number in the volume, as stored; `None`: all is no data.
    #[must_use]
    pub fn range(&self) -> Option<[f64; 2]> {
        self.parts.range
    }

    /// The same as data values, ascending.
    #[must_use]
    pub fn value_range(&self) -> Option<[f64; 2]> {
        self.range().map(|stored| self.values(stored))
    }

    /// A range of stored numbers as data values, ascending.
    #[must_use]
    pub fn values(&self, stored: [f64; 2]) -> [f64; 2] {
        let [a, b] = stored.map(|s| self.volume().value(s));
        [a.min(b), a.max(b)]
    }

    /// Voxels by value, in equal bins over [`Self::histogram_range`]; what lies outside is in the
    /// first and last.
    #[must_use]
    pub fn histogram(&self) -> &[u64] {
        &self.parts.histogram
    }

    /// What the histogram is over, as stored.
    #[must_use]
    pub fn histogram_range(&self) -> [f64; 2] {
        let of_statistics = self.parts.statistics.as_ref().map(|s| s.histogram_range);
        of_statistics.or(self.range()).unwrap_or([0.0; 2])
    }

    /// What the values are like, where it is known.
    #[must_use]
    pub fn statistics(&self) -> Option<&ValueStatistics> {
        self.parts.statistics.as_ref()
    }

    /// What the default transfer function shows; all of the volume where that is not known.
    #[must_use]
    pub fn subject(&self) -> Subject {
        let known = self.parts.subject.clone();
        known.unwrap_or_else(|| Subject::whole(self.volume()))
    }

    /// What bundles of rays along its axes come to, in stored numbers, as far as that is known.
    #[must_use]
    pub fn columns(&self) -> Option<ColumnValues> {
        self.parts.columns
    }

    /// The numbers that devices compute with.
    #[must_use]
    pub fn numbers(&self) -> VoxelNumbers {
        VoxelNumbers::of(self.volume(), self.range(), self.statistics())
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
        self.bricks.digest(brick)
    }

    /// Smallest and largest number in a brick's stored box, as stored; `None`: all is no data.
    ///
    /// # Panics
    /// Where the brick is not in the grid.
    #[must_use]
    pub fn brick_range(&self, brick: BrickIndex) -> Option<[f64; 2]> {
        self.bricks.range(brick)
    }

    /// Ranges of a brick's cells, where they are known.
    ///
    /// # Panics
    /// Where the brick is not in the grid.
    #[must_use]
    pub fn brick_cells(&self, brick: BrickIndex) -> Option<CellRanges> {
        self.bricks.cells(brick)
    }

    /// Length of a brick's bytes: of its voxels and its triangles.
    #[must_use]
    pub fn brick_bytes(&self, brick: BrickIndex) -> u64 {
        let triangles = self.brick_triangles(brick);
        self.voxel_bytes(brick) + triangles.map_or(0, |t| t.bytes())
    }

    /// Length of a brick's voxels, which its bytes begin with.
    #[must_use]
    pub fn voxel_bytes(&self, brick: BrickIndex) -> u64 {
        self.grid.stored_box(brick).voxel_count() * self.parts.volume.voxel.bytes() as u64
    }

    /// The triangles that stand behind a brick's voxels; `None`: there are none.
    ///
    /// # Panics
    /// Where the brick is not in the grid.
    #[must_use]
    pub fn brick_triangles(&self, brick: BrickIndex) -> Option<BrickTriangles> {
        if self.triangles_max == 0 {
            return None;
        }
        self.bricks.triangles(brick)
    }

    /// What its triangles look like; none: there are no triangles.
    #[must_use]
    pub fn materials(&self) -> &[Material] {
        &self.parts.materials
    }

    /// Most bytes of a brick's triangles.
    #[must_use]
    pub fn triangle_bytes_max(&self) -> u64 {
        u64::from(self.triangles_max) * TRIANGLE_BYTES as u64
    }

    /// The same volume with these materials and with further triangles, all of them in the order of leaves: `of` has each brick that gets
    /// some, or has some in no order, with the digest of all of its bytes and what is said of all of its triangles. It has no levels, and does not know any more what its import was told is empty.
    ///
    /// # Errors
    /// [`ManifestError`].
    pub fn with_triangles(
        &self,
        materials: Vec<Material>,
        of: &BTreeMap<BrickIndex, (Digest, BrickTriangles)>,
    ) -> Result<Self, ManifestError> {
        let record = |brick| {
            let new = of.get(&brick);
            BrickRecord {
                digest: new.map_or_else(|| self.brick_digest(brick), |(digest, _)| *digest),
                range: self.brick_range(brick),
                cells: self.brick_cells(brick),
                triangles: new
                    .map(|(_, triangles)| *triangles)
                    .or_else(|| self.brick_triangles(brick)),
            }
        };
        let bricks = self.grid.bricks().map(record).collect();
        Self::try_from(ManifestParts {
            version: VERSION_OF_LEAVES,
            materials,
            bricks,
            index: None,
            levels: Vec::new(),
            kept_voxels: None,
            ..self.parts.clone()
        })
    }

    /// The stored number of a voxel, of the bytes of a brick; `None` where the brick does not store it, or has
    /// other bytes than it should.
    #[must_use]
    pub fn stored_number(&self, brick: BrickIndex, bytes: &[u8], voxel: [u32; 3]) -> Option<f64> {
        if brick.0 >= self.grid().brick_count() || bytes.len() as u64 != self.brick_bytes(brick) {
            return None;
        }
        let stored = self.grid().stored_box(brick);
        if !stored.contains(voxel) {
            return None;
        }
        let [x, y, z] = [0, 1, 2].map(|a| (voxel[a] - stored.lo[a]) as usize);
        let [nx, ny, _] = stored.size().map(|n| n as usize);
        let of = self.volume().voxel;
        let at = (x + nx * (y + ny * z)) * of.bytes();
        Some(of.read(bytes, at).into())
    }

    /// Values and gradients of its voxels, if they are known.
    #[must_use]
    pub fn gradients(&self) -> Option<&GradientHistogram> {
        self.parts.gradients.as_ref()
    }

    /// Memory that it takes itself, in bytes, about.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let bricks = self.bricks.memory_bytes();
        let gradients = self.parts.gradients.as_ref();
        let gradients = gradients.map_or(0, |g| size_of_val(g.counts.as_slice()));
        bricks + gradients + size_of_val(self.parts.histogram.as_slice()) + self.parts.source.len()
    }

    /// Memory that the largest brick takes; a device may need more, see `brick_bytes`.
    #[must_use]
    pub fn largest_brick_bytes(&self) -> u64 {
        let size = self.grid.largest_stored_size().map(u64::from);
        let voxels = size.iter().product::<u64>() * self.device_voxel().bytes() as u64;
        voxels + self.triangle_memory_max()
    }

    /// How the triangles of its bricks follow each other.
    #[must_use]
    pub fn triangle_order(&self) -> TriangleOrder {
        if self.parts.version >= VERSION_OF_LEAVES {
            TriangleOrder::ByLeaves
        } else {
            TriangleOrder::AsTheyCame
        }
    }

    /// Memory that the triangles of a brick take in a device, at most: as they are stored, and what finds them.
    #[must_use]
    pub fn triangle_memory_max(&self) -> u64 {
        self.triangle_bytes_max() * self.triangle_order().memory()
    }

    /// The same of one brick.
    #[must_use]
    pub fn triangle_memory(&self, brick: BrickIndex) -> u64 {
        let triangles = self.brick_triangles(brick);
        triangles.map_or(0, |t| t.bytes()) * self.triangle_order().memory()
    }

    /// Type of a voxel in the memory of whatever device: those among which no data is told apart may be floats there.
    #[must_use]
    pub fn device_voxel(&self) -> VoxelType {
        if self.numbers().is_checked() {
            VoxelType::F32
        } else {
            self.parts.volume.voxel
        }
    }
}

/// The digest of what decides about voxels, their meaning and the numbers that devices compute with;
/// the source's name does not, and what else follows from the voxels need not. What may be missing
/// begins with a byte that says whether it is there. Manifests of older versions keep their names.
fn digest(parts: &ManifestParts, grid: &BrickGrid, bricks: &BrickTable) -> Digest {
    let volume = &parts.volume;
    let is_old = parts.version < 3;
    let mut bytes = match parts.version {
        ..3 => b"brickmesh manifest 2".to_vec(),
        3..7 => b"brickmesh manifest 3".to_vec(),
        7.. => b"brickmesh manifest 7".to_vec(),
    };
    let presence = |bytes: &mut Vec<u8>, is_there: bool| {
        if !is_old {
            bytes.push(is_there.into());
        }
    };
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
    presence(&mut bytes, volume.fill.is_some());
    if let Some(fill) = volume.fill {
        bytes.extend(fill.to_le_bytes());
    }
    if !is_old {
        let numbers = VoxelNumbers::of(volume, parts.range, parts.statistics.as_ref());
        let unit_and_shift = numbers.unit_and_shift();
        unit_and_shift
            .iter()
            .for_each(|x| bytes.extend(x.to_le_bytes()));
        bytes.push(numbers.is_checked().into());
    }
    let is_in_pages = parts.version >= 7;
    let index = parts.index.iter().filter(|_| is_in_pages);
    index.for_each(|name| bytes.extend(name.as_bytes()));
    for b in grid.bricks().filter(|_| !is_in_pages) {
        bytes.extend(bricks.digest(b).as_bytes());
        let range = bricks.range(b);
        presence(&mut bytes, range.is_some());
        (range.iter().flatten()).for_each(|x| bytes.extend(x.to_le_bytes()));
        let cells = bricks.cells(b);
        presence(&mut bytes, cells.is_some());
        if let Some(cells) = &cells {
            bytes.extend(cells.levels());
        }
    }
    // Of what has none the name is as it was.
    for level in &parts.levels {
        bytes.extend(level.as_bytes());
    }
    if !parts.materials.is_empty() {
        bytes.extend(b"materials");
        bytes.extend((parts.materials.len() as u64).to_le_bytes());
    }
    for material in &parts.materials {
        let numbers = material.premultiplied();
        numbers.iter().for_each(|x| bytes.extend(x.to_le_bytes()));
    }
    Digest::of(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::value_statistics::NoDataCounts;

    fn parts() -> ManifestParts {
        let record = BrickRecord {
            digest: Digest::of(b""),
            range: Some([0.0, 9.0]),
            cells: None,
            triangles: None,
        };
        let volume = VolumeDescription::new([8, 8, 9], VoxelType::U8);
        ManifestParts::new(volume, 8, "test", vec![record; 2])
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "numbers are copied")]
    fn a_manifest_of_the_version_before_is_read_under_its_name() {
        let mut json = serde_json::to_value(parts()).unwrap();
        json["version"] = 2.into();
        let old: Manifest = serde_json::from_value(json.clone()).unwrap();
        assert_ne!(old.digest(), Manifest::try_from(parts()).unwrap().digest());
        let statistics = ValueStatistics::of(NoDataCounts::default(), &[], &[]);
        json["statistics"] = serde_json::to_value(statistics).unwrap();
        let with_statistics = serde_json::from_value::<Manifest>(json);
        assert!(with_statistics.is_err(), "they would be in no name");
        assert_eq!(old.statistics(), None);
        assert_eq!(old.histogram_range(), [0.0, 9.0]);
        assert_eq!(old.numbers(), VoxelNumbers::from(VoxelType::U8));
    }

    #[test]
    fn data_sets_of_older_versions_keep_their_names() {
        for (version, name) in [
            (
                2,
                "663865db3b2f3e094178cc17afff1a20ddb1bcc88fc4578c8935eaebbebea3bd",
            ),
            (
                6,
                "4488c869a32d433902aaeadecfd93a8636a47e9fc42f5432c13314e87d5dd16c",
            ),
        ] {
            let mut parts = parts();
            parts.version = version;
            parts.bricks[1].range = None;
            let levels = [[255; 512], [0; 512]].concat();
            parts.bricks[1].cells = CellRanges::from_levels(levels.into());
            let manifest = Manifest::try_from(parts).unwrap();
            assert_eq!(manifest.digest().to_string(), name, "{version}");
            let again = Manifest::try_from(ManifestParts::from(manifest.clone()));
            assert_eq!(again, Ok(manifest), "from its pages");
        }
    }

    #[test]
    fn pages_are_those_that_were_named() {
        let manifest = Manifest::try_from(parts()).unwrap();
        let root = manifest.root().clone();
        assert!(root.index.is_some() && root.pages.is_empty() && root.bricks.is_empty());
        let bytes = manifest.pages().to_vec();
        assert!(root.page_bytes_max() >= bytes.len() as u64);
        let with = |pages: &[u8]| ManifestParts {
            pages: Bytes::copy_from_slice(pages),
            ..root.clone()
        };
        assert_eq!(Manifest::try_from(with(&bytes)), Ok(manifest));
        let mut other = bytes.clone();
        other[9] ^= 1;
        let error = Manifest::try_from(with(&other));
        assert!(
            matches!(error, Err(ManifestError::Index { .. })),
            "{error:?}"
        );
        for wrong in [&bytes[1..], &[&bytes[..], &[0]].concat()] {
            let error = Manifest::try_from(with(wrong));
            assert!(matches!(error, Err(ManifestError::Pages(_))), "{error:?}");
        }
        assert!(Manifest::try_from(root.clone()).is_err(), "without pages");
        let mut both = with(&bytes);
        both.bricks = parts().bricks[..1].to_vec();
        let both = Manifest::try_from(both).unwrap();
        assert_eq!(both.brick_range(BrickIndex(1)), Some([0.0, 9.0]));
    }

    #[test]
    fn what_decides_about_the_numbers_of_devices_is_in_the_name() {
        let of = |values: &[(f32, u64)], no_data: NoDataCounts| {
            let mut parts = parts();
            parts.volume.voxel = VoxelType::F32;
            parts.statistics = Some(ValueStatistics::of(no_data, values, &[]));
            Manifest::try_from(parts).unwrap().digest()
        };
        let none = NoDataCounts::default();
        let plain = of(&[(0.0, 9), (1.0, 9)], none);
        assert_eq!(plain, of(&[(0.0, 4), (1.0, 5)], none), "more of the same");
        assert_ne!(plain, of(&[(0.0, 9), (1e-30, 9)], none));
        assert_ne!(plain, of(&[(1e5, 9), (1e5 + 1.0, 9)], none));
        let nan = NoDataCounts { nan: 1, ..none };
        assert_ne!(plain, of(&[(0.0, 9), (1.0, 9)], nan));
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
        assert!(refused(|p| p.version = 11).contains("version is 11"));
        assert!(refused(|p| p.bricks.truncate(1)).contains("bricks has 1 entries, expected 2"));
        assert!(refused(|p| p.bricks[1].range = Some([f64::NAN, 1.0])).contains("brick 1"));
        assert!(refused(|p| p.range = Some([-1e308, 1e308])).contains("the volume"));
        assert!(refused(|p| p.bricks[0].range = Some([0.0, 0.1])).contains("brick 0"));
        let statistics = ValueStatistics::of(Default::default(), &[(1.0, 5), (2.0, 5)], &[]);
        let mut wrong = parts();
        wrong.statistics = Some(statistics);
        assert!(Manifest::try_from(wrong.clone()).is_ok());
        wrong.statistics.as_mut().unwrap().background = Some(f64::INFINITY);
        assert_eq!(Manifest::try_from(wrong), Err(ManifestError::Statistics));
        let columns = |means, least| Some(ColumnValues { means, least });
        let mut good = parts();
        good.columns = columns([1.0, 2.0], [0.0, 9.0]);
        assert_eq!(
            Manifest::try_from(good.clone()).unwrap().columns(),
            good.columns
        );
        good.range = None;
        good.bricks.iter_mut().for_each(|b| b.range = None);
        assert_eq!(Manifest::try_from(good), Err(ManifestError::Columns));
        for (means, least) in [
            ([1.0, 9.1], [0.0; 2]),
            ([2.0, 1.0], [0.0; 2]),
            ([1.0, 2.0], [-0.1, 0.0]),
            ([1.0, f64::NAN], [0.0; 2]),
        ] {
            let mut lies = parts();
            lies.columns = columns(means, least);
            assert_eq!(Manifest::try_from(lies), Err(ManifestError::Columns));
        }
        assert!(refused(|p| p.histogram[3] = u64::MAX).contains("3456 at most"));
        assert!(refused(|p| p.volume.dims = [0, 8, 9]).contains("dims"));
        assert!(refused(|p| p.brick_edge = 1).contains("edge"));
        let found = refused(|p| p.levels = vec![Digest::of(b"level")]);
        assert!(found.contains("1 levels"), "{found}");
    }

    #[test]
    fn triangles_are_in_the_name_and_need_materials() {
        let plain = Manifest::try_from(parts()).unwrap();
        let material = |opacity| Material {
            name: "ball.ply".to_owned(),
            color: [1.0, 0.5, 0.0],
            opacity,
        };
        let triangles = BrickTriangles {
            count: 7,
            cells: [1; 8],
        };
        let of = BTreeMap::from([(BrickIndex(1), (Digest::of(b"whole"), triangles))]);
        let with = plain.with_triangles(vec![material(0.5)], &of).unwrap();
        assert_eq!(with.brick_triangles(BrickIndex(1)), Some(triangles));
        assert_eq!(with.brick_triangles(BrickIndex(0)), None);
        assert_eq!(
            with.brick_digest(BrickIndex(0)),
            plain.brick_digest(BrickIndex(0))
        );
        assert_eq!(with.brick_digest(BrickIndex(1)), Digest::of(b"whole"));
        let voxels = plain.brick_bytes(BrickIndex(1));
        assert_eq!(with.voxel_bytes(BrickIndex(1)), voxels);
        assert_eq!(with.brick_bytes(BrickIndex(1)), voxels + 7 * 52);
        assert!(with.largest_brick_bytes() >= plain.largest_brick_bytes() + 7 * 52);
        let other = plain.with_triangles(vec![material(0.6)], &of).unwrap();
        let names = [&plain, &with, &other].map(Manifest::digest);
        assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2]);
        let again = Manifest::try_from(ManifestParts::from(with.clone()));
        assert_eq!(again.as_ref(), Ok(&with));
        let json = serde_json::to_string(&with).unwrap();
        assert_eq!(serde_json::from_str::<Manifest>(&json).unwrap(), with);
        let refused = |change: fn(&mut ManifestParts)| {
            let mut parts = ManifestParts::from(with.clone());
            change(&mut parts);
            Manifest::try_from(parts).unwrap_err().to_string()
        };
        assert!(refused(|p| p.materials.clear()).contains("materials are 0"));
        assert!(refused(|p| p.materials[0].opacity = 0.0).contains("materials are 1"));
        assert!(refused(|p| p.materials[0].color[2] = f32::NAN).contains("materials are 1"));
        assert!(refused(|p| p.version = 8).contains("version 9"));
        let mut as_they_came = ManifestParts::from(with.clone());
        as_they_came.version = 9;
        let as_they_came = Manifest::try_from(as_they_came).unwrap();
        let orders = [&as_they_came, &with].map(Manifest::triangle_order);
        assert_eq!(orders, [TriangleOrder::AsTheyCame, TriangleOrder::ByLeaves]);
        assert!(as_they_came.triangle_memory_max() > with.triangle_memory_max());
        assert!(
            refused(|p| p.materials = vec![p.materials[0].clone(); 257])
                .contains("257 of at most 256")
        );
        let none = plain.with_triangles(vec![material(1.0)], &BTreeMap::new());
        assert!(none.is_err(), "materials without triangles");
        let many = BrickTriangles {
            count: BRICK_TRIANGLES_MAX + 1,
            ..triangles
        };
        let many = BTreeMap::from([(BrickIndex(0), (Digest::of(b"whole"), many))]);
        assert!(plain.with_triangles(vec![material(1.0)], &many).is_err());
    }

    #[test]
    fn what_is_background_weighs_nothing() {
        let mut values = vec![0_u8; 16 * 16 * 8];
        // One voxel in the corner of the second brick: its cell has it, and those that interpolate it.
        values[15] = 9;
        let volume = VolumeDescription::new([16, 16, 8], VoxelType::U8);
        let bytes_of = |b: &VoxelBox| {
            let mut bytes = Vec::new();
            for z in b.lo[2]..b.hi[2] {
                for y in b.lo[1]..b.hi[1] {
                    let row = (16 * (y + 16 * z)) as usize;
                    bytes.extend(&values[row + b.lo[0] as usize..row + b.hi[0] as usize]);
                }
            }
            bytes
        };
        let mut parts = ManifestParts::cut(volume, 8, "test", bytes_of).unwrap();
        parts.statistics = Some(ValueStatistics::of(
            NoDataCounts::default(),
            &[(0.0, 2047), (9.0, 1)],
            &[(0.0, 999), (9.0, 1)],
        ));
        let manifest = Manifest::try_from(parts.clone()).unwrap();
        assert_eq!(manifest.statistics().unwrap().background, Some(0.0));
        let weights = manifest.occupied_voxels();
        assert_eq!([weights[0], weights[2], weights[3]], [0; 3]);
        assert!((1..=8).contains(&weights[1]), "{weights:?}");
        let parted = manifest
            .clone()
            .with_placement(Some(PartitionMethod::KdTree));
        assert_eq!(
            (parted.digest(), parted.placement()),
            (manifest.digest(), Some(PartitionMethod::KdTree))
        );
        parts.statistics = None;
        let unknown = Manifest::try_from(parts.clone()).unwrap().occupied_voxels();
        assert_eq!(unknown, [512; 4]);
        parts.kept_voxels = Some(vec![0, 7, 0, 1]);
        let told = Manifest::try_from(parts.clone()).unwrap();
        assert_eq!(told.occupied_voxels(), [0, 7, 0, 1]);
        parts.kept_voxels = None;
        let untold = Manifest::try_from(parts.clone()).unwrap();
        assert_eq!(told.digest(), untold.digest());
        parts.kept_voxels = Some(vec![0, 0, 513, 0]);
        let error = Manifest::try_from(parts.clone()).unwrap_err().to_string();
        assert!(error.contains("brick 2 is 513; it has 512"), "{error}");
        parts.kept_voxels = Some(vec![1]);
        let error = Manifest::try_from(parts).unwrap_err().to_string();
        assert!(error.contains("kept_voxels"), "{error}");
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
