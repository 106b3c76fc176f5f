//! How often a ray acquires blocks of shared memory for the cells that it looks at.
//!
//! Source: DeMarle, Gribble, Boulos, Parker 2005, section 4.2 and figure 6.

use serde::Serialize;

/// A pattern of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Access {
    /// A block is acquired for each value.
    One,
    /// The blocks of a cell's corners are acquired for each cell.
    Eight,
    /// The blocks of all cells that a ray looks at in a macrocell are acquired once.
    Many,
}

impl Access {
    pub(super) const ALL: [Self; 3] = [Self::One, Self::Eight, Self::Many];

    /// How many acquires cells in a row take, each given by the blocks of its corners.
    pub(super) fn acquires<const CORNERS: usize>(self, cells: &[[u32; CORNERS]]) -> usize {
        match self {
            Self::One => cells.len() * CORNERS,
            Self::Eight => cells.iter().map(|cell| distinct(cell)).sum(),
            Self::Many => distinct(cells.as_flattened()),
        }
    }
}

fn distinct(blocks: &[u32]) -> usize {
    let is_first = |(at, block): &(usize, &u32)| !blocks[..*at].contains(block);
    blocks.iter().enumerate().filter(is_first).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Seven cells of a ray in two blocks, as in figure 6.
    #[test]
    fn figure_6_takes_2_acquires_in_place_of_28() {
        let cells = [[0, 0], [1, 0], [2, 0], [3, 0], [3, 1], [4, 1], [5, 1]];
        let corners = |[x, y]: [u32; 2]| [[x, y], [x + 1, y], [x, y + 1], [x + 1, y + 1]];
        let block = |[x, _]: [u32; 2]| u32::from(x >= 3);
        let blocks = cells.map(|cell| corners(cell).map(block));
        assert_eq!(Access::One.acquires(&blocks), 28);
        // One of the cells lies across the border.
        assert_eq!(Access::Eight.acquires(&blocks), 7 + 1);
        assert_eq!(Access::Many.acquires(&blocks), 2);
        // "The first retrieves 6 scalar values, the second retrieves 10."
        let values: BTreeSet<[u32; 2]> = cells.into_iter().flat_map(corners).collect();
        let of = |b| values.iter().filter(|v| block(**v) == b).count();
        assert_eq!([of(0), of(1)], [6, 10]);
    }
}
