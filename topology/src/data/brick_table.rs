//! What a manifest says of its bricks, in pages of 8³ neighbours, which are read, sent and named as bytes.
//!
//! Shapes: a page has, of its bricks, x fastest, at the borders of the grid fewer than 8 on an axis: a byte each that says what there is
//! (1: a range, 2: levels of cells, 4: those of which all are 0, 8: triangles), the digests, the ranges (smallest and largest number as stored, f32, little-endian; zeros are written where there is none), then
//! the levels of the cells of those that have some, and the triangles of those that have some: how many, u32, and the cells that they meet. Pages go x fastest, too.
//! Pages stand one behind the other.
//! Invariant: pages of a table are as long as they say.

use crate::{
    base::digest::Digest,
    data::{
        brick_grid::{BrickGrid, BrickIndex},
        cell_ranges::{CELL_LEVELS_BYTES, CellRanges, NONE},
        triangles::BrickTriangles,
        volume::VolumeDescription,
    },
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Bricks of a page on each axis.
const PAGE_EDGE: u32 = 8;
/// Nodes of the tree of names that one above has on each axis.
const NODE_EDGE: u32 = 8;
/// There are voxels that are data, and their range.
const HAS_RANGE: u8 = 1;
/// The levels of its cells are known; those that are all 0 are written as [`HAS_EVEN_CELLS`].
const HAS_CELLS: u8 = 2;
/// The levels of its cells are all 0, as in a brick of one value.
const HAS_EVEN_CELLS: u8 = 4;
/// There are triangles behind its voxels.
const HAS_TRIANGLES: u8 = 8;
const DIGEST_BYTES: usize = 32;
const RANGE_BYTES: usize = 8;
/// Bytes of a brick beside the levels of its cells.
const FIXED_BYTES: usize = 1 + DIGEST_BYTES + RANGE_BYTES;
/// Bytes of what is said of a brick's triangles.
pub(crate) const TRIANGLES_BYTES: usize = 4 + size_of_val(&NONE);
/// Most bytes of a brick without triangles.
pub const RECORD_BYTES_MAX: usize = FIXED_BYTES + CELL_LEVELS_BYTES;

/// What is said of one brick.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BrickRecord {
    /// Digest of the bytes of its stored box.
    pub digest: Digest,
    /// Smallest and largest number in its stored box (ghosts too), as stored; `None`: all is no data.
    pub range: Option<[f64; 2]>,
    /// Ranges of its cells; `None`: not known, all may be visible.
    #[serde(default)]
    pub cells: Option<CellRanges>,
    /// The triangles that stand behind its voxels; `None`: there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub triangles: Option<BrickTriangles>,
}

impl BrickRecord {
    /// The record of a brick of a volume with these bytes, the voxels of its stored box.
    ///
    /// # Panics
    /// Where `bytes` are not as many as the stored box has voxels.
    #[must_use]
    pub fn of(
        grid: &BrickGrid,
        brick: BrickIndex,
        volume: &VolumeDescription,
        bytes: &[u8],
    ) -> Self {
        let (range, cells) = CellRanges::of(grid, brick, volume, bytes);
        Self {
            digest: Digest::of(bytes),
            range,
            cells: Some(cells),
            triangles: None,
        }
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BrickTable {
    grid: BrickGrid,
    /// All pages, one behind the other.
    bytes: Bytes,
    /// Where each begins, and the last one ends.
    starts: Vec<usize>,
}

/// Bytes that are not the pages of a grid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrickTableError {
    /// They end within a page.
    #[error("page {page} of the bricks has {found} bytes, expected {expected}")]
    Length {
        /// The page.
        page: usize,
        /// Its bytes.
        found: usize,
        /// What it has by its first bytes.
        expected: usize,
    },
    /// They do not end with the last page.
    #[error("{found} bytes stand behind the last page of the bricks")]
    Rest {
        /// Bytes behind it.
        found: usize,
    },
    /// A byte that says what no brick has.
    #[error(
        "page {page} of the bricks says {found} of its brick {place}, expected 0 to 5, or 8 more"
    )]
    Flags {
        /// The page.
        page: usize,
        /// The brick in it.
        place: usize,
        /// The byte.
        found: u8,
    },
}

impl BrickTable {
    /// Of all bricks of a grid, in index order; ranges are such as f32 can be.
    pub(crate) fn of(grid: &BrickGrid, records: &[BrickRecord]) -> Self {
        let (mut bytes, mut starts) = (Vec::new(), vec![0]);
        for page in places(page_counts(grid)) {
            let record = |within: [u32; 3]| {
                let place = std::array::from_fn(|a| page[a] * PAGE_EDGE + within[a]);
                records.get(grid.index(place)?.0 as usize)
            };
            let records = places(page_size(grid, page)).filter_map(record);
            append_page(&records.collect::<Vec<_>>(), &mut bytes);
            starts.push(bytes.len());
        }
        Self {
            grid: *grid,
            bytes: bytes.into(),
            starts,
        }
    }

    /// Checks pages that come from a file or a peer; not the numbers of the ranges.
    pub(crate) fn checked(grid: &BrickGrid, bytes: Bytes) -> Result<Self, BrickTableError> {
        let (mut end, mut starts) = (0, vec![0]);
        for (page, place) in places(page_counts(grid)).enumerate() {
            let bricks = bricks_of(grid, place);
            let rest = &bytes[end..];
            let flags = rest.get(..bricks).unwrap_or_default();
            let expected = bytes_of(flags).max(bricks * FIXED_BYTES);
            if rest.len() < expected {
                let found = rest.len();
                return Err(BrickTableError::Length {
                    page,
                    found,
                    expected,
                });
            }
            let is_known = |flags: u8| {
                let flags = flags & !HAS_TRIANGLES;
                flags <= HAS_RANGE | HAS_CELLS || flags & !HAS_RANGE == HAS_EVEN_CELLS
            };
            if let Some((place, &found)) = flags.iter().enumerate().find(|(_, f)| !is_known(**f)) {
                return Err(BrickTableError::Flags { page, place, found });
            }
            end += expected;
            starts.push(end);
        }
        match bytes.len() - end {
            0 => Ok(Self {
                grid: *grid,
                bytes,
                starts,
            }),
            found => Err(BrickTableError::Rest { found }),
        }
    }

    /// All pages, one behind the other.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.len() + size_of_val(self.starts.as_slice())
    }

    fn pages(&self) -> impl Iterator<Item = &[u8]> {
        self.starts
            .windows(2)
            .map(|ends| &self.bytes[ends[0]..ends[1]])
    }

    pub(crate) fn digest(&self, brick: BrickIndex) -> Digest {
        let (page, place, bricks) = self.at(brick);
        let start = bricks + place * DIGEST_BYTES;
        let bytes = page[start..].first_chunk().copied();
        Digest::from(bytes.unwrap_or_default())
    }

    /// As stored.
    pub(crate) fn range(&self, brick: BrickIndex) -> Option<[f64; 2]> {
        let (page, place, bricks) = self.at(brick);
        (page[place] & HAS_RANGE != 0).then(|| range_at(page, bricks, place).map(f64::from))
    }

    pub(crate) fn cells(&self, brick: BrickIndex) -> Option<CellRanges> {
        let (page, place, bricks) = self.at(brick);
        let flags = page[place];
        if flags & HAS_EVEN_CELLS != 0 {
            return Some(CellRanges::even());
        }
        if flags & HAS_CELLS == 0 {
            return None;
        }
        let start = bricks * FIXED_BYTES + having(HAS_CELLS, &page[..place]) * CELL_LEVELS_BYTES;
        let levels = &page[start..start + CELL_LEVELS_BYTES];
        CellRanges::from_levels(self.bytes.slice_ref(levels))
    }

    pub(crate) fn triangles(&self, brick: BrickIndex) -> Option<BrickTriangles> {
        let (page, place, bricks) = self.at(brick);
        if page[place] & HAS_TRIANGLES == 0 {
            return None;
        }
        let before = bricks * FIXED_BYTES + having(HAS_CELLS, &page[..bricks]) * CELL_LEVELS_BYTES;
        let start = before + having(HAS_TRIANGLES, &page[..place]) * TRIANGLES_BYTES;
        let (count, cells) = page[start..start + TRIANGLES_BYTES].split_first_chunk()?;
        let (layers, _) = cells.as_chunks();
        Some(BrickTriangles {
            count: u32::from_le_bytes(*count),
            cells: std::array::from_fn(|z| u64::from_le_bytes(layers[z])),
        })
    }

    /// Name of all that it says: of the uppermost node of a tree whose leaves are the pages. A node has, of those below it, x
    /// fastest: the name, the range of all bricks below, and how many of them have one.
    pub(crate) fn name(&self) -> Digest {
        let mut counts = page_counts(&self.grid);
        let mut nodes: Vec<Node> = places(counts)
            .zip(self.pages())
            .map(|(page, bytes)| Node::of_page(bytes, bricks_of(&self.grid, page)))
            .collect();
        loop {
            let above = counts.map(|n| n.div_ceil(NODE_EDGE));
            let mut below = vec![Vec::new(); places(above).count()];
            for (place, node) in places(counts).zip(nodes) {
                below[number_in(above, place.map(|p| p / NODE_EDGE))].push(node);
            }
            nodes = below.iter().map(|nodes| Node::above(nodes)).collect();
            counts = above;
            if let [top] = nodes.as_slice() {
                return top.name;
            }
        }
    }

    /// The page of a brick, which of its bricks it is, and how many there are.
    fn at(&self, brick: BrickIndex) -> (&[u8], usize, usize) {
        let place = self.grid.coordinates(brick);
        let page = place.map(|p| p / PAGE_EDGE);
        let number = number_in(page_counts(&self.grid), page);
        let size = page_size(&self.grid, page);
        let within = number_in(size, place.map(|p| p % PAGE_EDGE));
        let bytes = &self.bytes[self.starts[number]..self.starts[number + 1]];
        (bytes, within, bricks_of(&self.grid, page))
    }
}

/// What is said of pages below a node, or of a page.
#[derive(Clone, Debug)]
struct Node {
    name: Digest,
    range: [f32; 2],
    /// Bricks that have a range.
    with_range: u32,
}

impl Node {
    fn of_page(page: &[u8], bricks: usize) -> Self {
        let places = (0..bricks).filter(|&place| page[place] & HAS_RANGE != 0);
        let ranges = places.clone().map(|place| range_at(page, bricks, place));
        Self {
            name: Digest::of(page),
            range: ranges.fold(NO_RANGE, around),
            with_range: u32::try_from(places.count()).unwrap_or(u32::MAX),
        }
    }

    fn above(below: &[Self]) -> Self {
        let bytes = below.iter().flat_map(|node| {
            let numbers = node.range.map(f32::to_le_bytes).into_iter().flatten();
            let name = node.name.as_bytes().iter().copied();
            name.chain(numbers).chain(node.with_range.to_le_bytes())
        });
        let bytes: Vec<u8> = bytes.collect();
        Self {
            name: Digest::of(&bytes),
            range: below.iter().map(|node| node.range).fold(NO_RANGE, around),
            with_range: below.iter().map(|node| node.with_range).sum(),
        }
    }
}

/// That of no brick: any other widens it.
const NO_RANGE: [f32; 2] = [f32::INFINITY, f32::NEG_INFINITY];

fn around(a: [f32; 2], b: [f32; 2]) -> [f32; 2] {
    [a[0].min(b[0]), a[1].max(b[1])]
}

/// Writes a page of these bricks.
fn append_page(records: &[&BrickRecord], bytes: &mut Vec<u8>) {
    for record in records {
        let range = if record.range.is_some() { HAS_RANGE } else { 0 };
        let cells = match &record.cells {
            None => 0,
            Some(cells) if cells.is_even() => HAS_EVEN_CELLS,
            Some(_) => HAS_CELLS,
        };
        let triangles = if record.triangles.is_some() {
            HAS_TRIANGLES
        } else {
            0
        };
        bytes.push(range | cells | triangles);
    }
    (records.iter()).for_each(|r| bytes.extend(r.digest.as_bytes()));
    for record in records {
        let range = record.range.unwrap_or_default();
        #[expect(clippy::cast_possible_truncation, reason = "checked: an f32 can be it")]
        let numbers = range.map(|n| (n as f32).to_le_bytes());
        bytes.extend(numbers.as_flattened());
    }
    let cells = records.iter().filter_map(|r| r.cells.as_ref());
    let uneven = cells.filter(|cells| !cells.is_even());
    uneven.for_each(|cells| bytes.extend(cells.levels()));
    for triangles in records.iter().filter_map(|r| r.triangles.as_ref()) {
        bytes.extend(triangles.count.to_le_bytes());
        let layers = triangles.cells.map(u64::to_le_bytes);
        bytes.extend(layers.as_flattened());
    }
}

fn range_at(page: &[u8], bricks: usize, place: usize) -> [f32; 2] {
    let start = bricks * (1 + DIGEST_BYTES) + place * RANGE_BYTES;
    [0, 4].map(|at| {
        let bytes = page[start + at..].first_chunk().copied();
        f32::from_le_bytes(bytes.unwrap_or_default())
    })
}

/// Bytes of a page that begins with these.
fn bytes_of(flags: &[u8]) -> usize {
    flags.len() * FIXED_BYTES
        + having(HAS_CELLS, flags) * CELL_LEVELS_BYTES
        + having(HAS_TRIANGLES, flags) * TRIANGLES_BYTES
}

/// How many have something.
fn having(what: u8, flags: &[u8]) -> usize {
    flags.iter().map(|f| usize::from(f & what != 0)).sum()
}

/// Pages on each axis.
fn page_counts(grid: &BrickGrid) -> [u32; 3] {
    grid.counts().map(|n| n.div_ceil(PAGE_EDGE))
}

/// Bricks of a page on each axis.
fn page_size(grid: &BrickGrid, page: [u32; 3]) -> [u32; 3] {
    let counts = grid.counts();
    std::array::from_fn(|a| (counts[a] - page[a] * PAGE_EDGE).min(PAGE_EDGE))
}

fn bricks_of(grid: &BrickGrid, page: [u32; 3]) -> usize {
    let size = page_size(grid, page).map(|n| n as usize);
    size.iter().product()
}

/// All places of a box, x fastest.
fn places([nx, ny, nz]: [u32; 3]) -> impl Iterator<Item = [u32; 3]> {
    (0..nz).flat_map(move |z| (0..ny).flat_map(move |y| (0..nx).map(move |x| [x, y, z])))
}

/// Which place of a box it is.
fn number_in([nx, ny, _]: [u32; 3], [x, y, z]: [u32; 3]) -> usize {
    (x + nx * (y + ny * z)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::volume::VoxelType;
    use proptest::prelude::*;

    /// A grid of up to three pages on an axis, and something said of each of its bricks.
    fn tables() -> impl Strategy<Value = (BrickGrid, Vec<BrickRecord>)> {
        let dims = prop::array::uniform3(prop_oneof![4..40_u32, 30..90_u32]);
        (dims, any::<u64>()).prop_map(|(dims, seed)| {
            let grid = BrickGrid::new(dims, 4).unwrap();
            let record = |brick: BrickIndex| {
                let bytes = [u64::from(brick.0), seed].map(u64::to_le_bytes).concat();
                let digest = Digest::of(&bytes);
                let [a, b, c, ..] = *digest.as_bytes();
                let levels = || {
                    let mut levels = vec![a; CELL_LEVELS_BYTES];
                    levels[usize::from(b)] = b;
                    CellRanges::from_levels(levels.into())
                };
                BrickRecord {
                    digest,
                    range: (a % 3 > 0).then(|| [f64::from(-f32::from(b) / 3.0), f64::from(c)]),
                    cells: match b % 3 {
                        0 => None,
                        1 => Some(CellRanges::even()),
                        _ => levels(),
                    },
                    triangles: (c % 3 == 0).then(|| BrickTriangles {
                        count: u32::from(b) << 8,
                        cells: [seed; 8],
                    }),
                }
            };
            (grid, grid.bricks().map(record).collect())
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn a_table_says_what_it_was_told_also_out_of_its_bytes((grid, records) in tables()) {
            let table = BrickTable::of(&grid, &records);
            for (brick, record) in grid.bricks().zip(&records) {
                prop_assert_eq!(table.digest(brick), record.digest);
                prop_assert_eq!(table.range(brick), record.range);
                prop_assert_eq!(table.cells(brick), record.cells.clone());
                prop_assert_eq!(table.triangles(brick), record.triangles);
            }
            let bytes = table.bytes().clone();
            prop_assert!(bytes.len() <= records.len() * (RECORD_BYTES_MAX + TRIANGLES_BYTES));
            let back = BrickTable::checked(&grid, bytes);
            prop_assert_eq!(back.as_ref().map(BrickTable::name), Ok(table.name()));
            prop_assert_eq!(back, Ok(table));
        }

        #[test]
        fn whatever_the_bytes_a_table_can_be_asked_or_is_refused(
            (grid, records) in tables(), at in any::<prop::sample::Index>(), byte in any::<u8>(), is_cut in any::<bool>(),
        ) {
            let table = BrickTable::of(&grid, &records);
            let mut bytes = table.bytes().to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= byte;
            if is_cut {
                bytes.truncate(at);
            }
            let other = BrickTable::checked(&grid, bytes.into());
            prop_assert!(!(is_cut && other.is_ok()));
            if let Ok(other) = other {
                grid.bricks().for_each(|b| {
                    let _ = (other.digest(b), other.range(b), other.cells(b));
                });
                prop_assert_eq!(other.name() == table.name(), byte == 0);
            }
        }
    }

    #[test]
    fn what_is_wrong_with_pages_is_said() {
        let grid = BrickGrid::new([40, 4, 4], 4).unwrap();
        let volume = VolumeDescription::new([40, 4, 4], VoxelType::U8);
        let record = |brick| {
            let voxels = grid.stored_box(brick).voxel_count();
            let bytes: Vec<u8> = (0..=255)
                .cycle()
                .take(usize::try_from(voxels).unwrap())
                .collect();
            BrickRecord::of(&grid, brick, &volume, &bytes)
        };
        let records: Vec<_> = grid.bricks().map(record).collect();
        let good = BrickTable::of(&grid, &records).bytes().to_vec();
        let page = 8 * RECORD_BYTES_MAX;
        assert_eq!(good.len(), 10 * RECORD_BYTES_MAX);
        let refused = |bytes: &[u8]| {
            let bytes = Bytes::copy_from_slice(bytes);
            BrickTable::checked(&grid, bytes).unwrap_err().to_string()
        };
        assert!(refused(&[]).contains("page 0 of the bricks has 0 bytes"));
        assert!(refused(&good[..page]).contains("page 1 of the bricks has 0 bytes"));
        assert!(refused(&good[..page + 99]).contains("has 99 bytes"));
        assert!(refused(&[&good[..], &[0; 7]].concat()).contains("7 bytes stand behind"));
        for wrong in [6, 7, 8, 255] {
            let mut changed = good.clone();
            changed[page + 1] = wrong;
            changed.resize(page + 2 * RECORD_BYTES_MAX, 0);
            let error = refused(&changed);
            let parts = ["page 1", &format!("says {wrong} of its brick 1")];
            assert!(
                parts.iter().all(|part| error.contains(part)) || error.contains("bytes"),
                "{error}"
            );
        }
    }
}
