//! What a manifest says of its bricks, in pages of 8³ neighbours, which are read, sent and named as bytes.
//!
//! Shapes: a page has, of its bricks, x fastest, at the borders of the grid fewer than 8 on an axis: a byte each that says what there is
//! (1: a range, 2: levels of cells, 4: those of which all are 0), the digests, the ranges (smallest and largest number as stored, f32, little-endian; zeros where there is none), then
//! the levels of the cells of those that have some. Pages go x fastest, too.
//! Invariant: pages of a table are as long as they say, and their numbers are numbers.

use crate::{
    base::digest::Digest,
    data::{
        brick_grid::{BrickGrid, BrickIndex},
        cell_ranges::{CELL_LEVELS_BYTES, CellRanges},
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
/// The levels of its cells are known, and not all 0.
const HAS_CELLS: u8 = 2;
/// The levels of its cells are all 0, as in a brick of one value.
const HAS_EVEN_CELLS: u8 = 4;
const DIGEST_BYTES: usize = 32;
const RANGE_BYTES: usize = 8;
/// Bytes of a brick beside the levels of its cells.
const FIXED_BYTES: usize = 1 + DIGEST_BYTES + RANGE_BYTES;
/// Most bytes of a brick.
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
        }
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BrickTable {
    grid: BrickGrid,
    pages: Vec<Bytes>,
}

/// Pages that are not those of a grid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrickTableError {
    /// More or fewer pages.
    #[error("there are {found} pages of bricks, expected {expected}")]
    Pages {
        /// Pages found.
        found: usize,
        /// Pages of the grid.
        expected: usize,
    },
    /// A page that is shorter or longer than it says.
    #[error("page {page} of the bricks has {found} bytes, expected {expected}")]
    Length {
        /// The page.
        page: usize,
        /// Its bytes.
        found: usize,
        /// What it has by its first bytes.
        expected: usize,
    },
    /// A byte that says what no brick has.
    #[error("page {page} of the bricks says {found} of its brick {place}, expected 0 to 3, 4 or 5")]
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
        let page = |page: [u32; 3]| {
            let record = |within: [u32; 3]| {
                let place = std::array::from_fn(|a| page[a] * PAGE_EDGE + within[a]);
                records.get(grid.index(place)?.0 as usize)
            };
            let records: Vec<&BrickRecord> =
                places(page_size(grid, page)).filter_map(record).collect();
            page_of(&records)
        };
        Self {
            grid: *grid,
            pages: places(page_counts(grid)).map(page).collect(),
        }
    }

    /// Checks pages that come from a file or a peer.
    pub(crate) fn checked(grid: &BrickGrid, pages: Vec<Bytes>) -> Result<Self, BrickTableError> {
        let expected = places(page_counts(grid)).count();
        if pages.len() != expected {
            let found = pages.len();
            return Err(BrickTableError::Pages { found, expected });
        }
        for ((page, bytes), place) in pages.iter().enumerate().zip(places(page_counts(grid))) {
            let bricks = bricks_of(grid, place);
            let flags = bytes.get(..bricks).unwrap_or_default();
            let expected = bytes_of(flags).max(bricks * FIXED_BYTES);
            if bytes.len() != expected {
                let found = bytes.len();
                return Err(BrickTableError::Length {
                    page,
                    found,
                    expected,
                });
            }
            let is_known =
                |flags: u8| flags <= HAS_RANGE | HAS_CELLS || flags & !HAS_RANGE == HAS_EVEN_CELLS;
            if let Some((place, &found)) = flags.iter().enumerate().find(|(_, f)| !is_known(**f)) {
                return Err(BrickTableError::Flags { page, place, found });
            }
        }
        Ok(Self { grid: *grid, pages })
    }

    /// Takes the pages of a grid from bytes in which one stands behind the other; those of the last one may be too few or
    /// too many.
    pub(crate) fn parted(grid: &BrickGrid, mut bytes: Bytes) -> Vec<Bytes> {
        let mut pages = Vec::new();
        let mut of_pages = places(page_counts(grid)).peekable();
        while let Some(page) = of_pages.next() {
            let flags = bytes.get(..bricks_of(grid, page)).unwrap_or_default();
            let length = bytes_of(flags).min(bytes.len());
            let is_last = of_pages.peek().is_none();
            let page = bytes.split_to(if is_last { bytes.len() } else { length });
            pages.push(page);
        }
        pages
    }

    pub(crate) fn pages(&self) -> &[Bytes] {
        &self.pages
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.pages.iter().map(|p| size_of_val(p) + p.len()).sum()
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
        if page[place] & HAS_EVEN_CELLS != 0 {
            return Some(CellRanges::even());
        }
        if page[place] & HAS_CELLS == 0 {
            return None;
        }
        let start = bricks * FIXED_BYTES + cells_in(&page[..place]) * CELL_LEVELS_BYTES;
        CellRanges::from_levels(page.slice(start..start + CELL_LEVELS_BYTES))
    }

    /// Name of all that it says: of the uppermost node of a tree whose leaves are the pages. A node has, of those below it, x
    /// fastest: the name, the range of all bricks below, and how many of them have one.
    pub(crate) fn name(&self) -> Digest {
        let mut counts = page_counts(&self.grid);
        let mut nodes: Vec<Node> = places(counts)
            .zip(&self.pages)
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
    fn at(&self, brick: BrickIndex) -> (&Bytes, usize, usize) {
        let place = self.grid.coordinates(brick);
        let page = place.map(|p| p / PAGE_EDGE);
        let number = number_in(page_counts(&self.grid), page);
        let size = page_size(&self.grid, page);
        let within = number_in(size, place.map(|p| p % PAGE_EDGE));
        (&self.pages[number], within, bricks_of(&self.grid, page))
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

/// The bytes of a page.
fn page_of(records: &[&BrickRecord]) -> Bytes {
    let flags = records.iter().map(|r| {
        let cells = r.cells.as_ref().map(|cells| {
            if cells.is_even() {
                HAS_EVEN_CELLS
            } else {
                HAS_CELLS
            }
        });
        let range = if r.range.is_some() { HAS_RANGE } else { 0 };
        range | cells.unwrap_or(0)
    });
    let mut bytes: Vec<u8> = flags.collect();
    let length = bytes_of(&bytes);
    bytes.reserve_exact(length - bytes.len());
    (records.iter()).for_each(|r| bytes.extend(r.digest.as_bytes()));
    for record in records {
        let range = record.range.unwrap_or_default();
        #[expect(clippy::cast_possible_truncation, reason = "checked: an f32 can be it")]
        range
            .iter()
            .for_each(|&n| bytes.extend((n as f32).to_le_bytes()));
    }
    let cells = records.iter().filter_map(|r| r.cells.as_ref());
    let uneven = cells.filter(|cells| !cells.is_even());
    uneven.for_each(|cells| bytes.extend(cells.levels()));
    bytes.into()
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
    flags.len() * FIXED_BYTES + cells_in(flags) * CELL_LEVELS_BYTES
}

fn cells_in(flags: &[u8]) -> usize {
    flags.iter().map(|f| usize::from(f & HAS_CELLS != 0)).sum()
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
            }
            let bytes = table.pages().concat();
            prop_assert!(bytes.len() <= records.len() * RECORD_BYTES_MAX);
            let pages = BrickTable::parted(&grid, bytes.into());
            let back = BrickTable::checked(&grid, pages);
            prop_assert_eq!(back.as_ref().map(BrickTable::name), Ok(table.name()));
            prop_assert_eq!(back, Ok(table));
        }

        #[test]
        fn whatever_the_bytes_a_table_can_be_asked_or_is_refused(
            (grid, records) in tables(), at in any::<prop::sample::Index>(), byte in any::<u8>(), is_cut in any::<bool>(),
        ) {
            let table = BrickTable::of(&grid, &records);
            let mut bytes = table.pages().concat();
            let at = at.index(bytes.len());
            bytes[at] ^= byte;
            if is_cut {
                bytes.truncate(at);
            }
            let other = BrickTable::checked(&grid, BrickTable::parted(&grid, bytes.into()));
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
        let good = BrickTable::of(&grid, &records).pages().to_vec();
        let refused = |change: fn(&mut Vec<Bytes>)| {
            let mut pages = good.clone();
            change(&mut pages);
            BrickTable::checked(&grid, pages).unwrap_err().to_string()
        };
        assert!(refused(|p| p.truncate(1)).contains("1 pages of bricks, expected 2"));
        assert!(refused(|p| p[1] = p[1].slice(1..)).contains("page 1"));
        assert!(refused(|p| p[0] = Bytes::new()).contains("has 0 bytes"));
        let flags = |flags: u8| [&[flags; 2], &[0; 80][..]].concat();
        for wrong in [6, 7, 8, 255] {
            let mut pages = good.clone();
            pages[1] = flags(wrong).into();
            let cells = cells_in(&[wrong; 2]) * CELL_LEVELS_BYTES;
            pages[1] = [&pages[1][..], &vec![0; cells]].concat().into();
            let error = BrickTable::checked(&grid, pages).unwrap_err().to_string();
            assert!(
                error.contains(&format!("says {wrong} of its brick 0")),
                "{error}"
            );
        }
    }
}
