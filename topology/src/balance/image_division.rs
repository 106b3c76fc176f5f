//! Image-parallel frames: the picture is divided among the peers. Each renders all that its tiles show of the volume,
//! brick by brick, and fetches the bricks that it lacks.
//!
//! Space: pixel. Jobs of a tile are the parts of bricks that it shows, so that a peer goes through the bricks in depth order,
//! with all of its tiles at once, where tiles are not drawn from a queue: but for what is stolen, or asked for again, each brick is needed once a frame, however little memory there is.
//! Tiles follow each other on a Hilbert curve, which is cut where the work is shared out by speeds: a peer's tiles are
//! side by side, and from frame to frame the cuts move little, so that it needs mostly what it had.
//! Invariant: whole numbers only; equal inputs give equal bytes on every machine.
//!
//! Source: DeMarle, Gribble, Boulos, Parker 2005, sections 1 and 4.4: image-parallel tiles that stay where they were. The curve
//! is ours; tiles that are drawn from a queue, or kept and stolen, are theirs ([`TileSharing`](super::plan_rules::TileSharing)).

use crate::{
    balance::roster::{ROSTER_PEERS_MAX, put_text},
    base::peer::PeerId,
    picture::{
        camera::{PICTURE_EDGE_MAX, PixelRect},
        tiles::TILE_EDGE_MAX,
    },
};
use serde::{Deserialize, Serialize};

/// Smallest tile edge, pixels.
pub const TILE_EDGE_MIN: u32 = 8;
/// Most tiles of a picture that is divided.
pub const TILES_MAX: usize = 1 << 15;
/// Tiles that each peer gets, about, where nobody says how large they are: loads are as even as tiles are small.
const TILES_PER_PEER: u64 = 16;
/// Tile edges that are chosen, pixels: jobs of smaller ones cost more than they render.
const CHOSEN: (u32, u32) = (32, 256);

/// The tiles of a picture, row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TileGrid {
    picture: PixelRect,
    edge: u32,
}

impl TileGrid {
    /// Tiles of this edge, in pixels; those at the right and at the bottom may be smaller.
    #[must_use]
    pub fn new(picture: PixelRect, edge: u32) -> Self {
        let edge = edge.clamp(TILE_EDGE_MIN, TILE_EDGE_MAX);
        Self { picture, edge }
    }

    /// Tiles for so many peers; one shares nothing out.
    #[must_use]
    pub fn for_peers(picture: PixelRect, peers: usize) -> Self {
        if peers <= 1 {
            return Self::new(picture, TILE_EDGE_MAX);
        }
        let pixels = u64::from(picture.width) * u64::from(picture.height);
        let edge = (pixels / (TILES_PER_PEER * peers.max(1) as u64)).isqrt();
        let edge = u32::try_from(edge).unwrap_or(CHOSEN.1);
        Self::new(picture, edge.next_multiple_of(16).clamp(CHOSEN.0, CHOSEN.1))
    }

    /// The same picture in tiles twice as large; `None`: they are as large as may be.
    #[must_use]
    pub fn coarser(self) -> Option<Self> {
        let edge = self.edge.saturating_mul(2).min(TILE_EDGE_MAX);
        (edge > self.edge).then_some(Self { edge, ..self })
    }

    /// Edge of a tile, pixels.
    #[must_use]
    pub fn edge(&self) -> u32 {
        self.edge
    }

    fn columns(&self) -> u32 {
        self.picture.width.div_ceil(self.edge)
    }

    fn rows(&self) -> u32 {
        self.picture.height.div_ceil(self.edge)
    }

    /// Number of tiles.
    #[must_use]
    pub fn len(&self) -> usize {
        self.columns() as usize * self.rows() as usize
    }

    /// Whether the picture has no pixels.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pixels of all tiles, row by row.
    pub fn rects(&self) -> impl Iterator<Item = PixelRect> + '_ {
        let of_row = move |row| (0..self.columns()).map(move |column| self.rect(column, row));
        (0..self.rows()).flat_map(of_row)
    }

    fn rect(&self, column: u32, row: u32) -> PixelRect {
        let (x, y) = (column * self.edge, row * self.edge);
        PixelRect {
            x: self.picture.x + x,
            y: self.picture.y + y,
            width: self.edge.min(self.picture.width - x),
            height: self.edge.min(self.picture.height - y),
        }
    }

    /// Columns and rows of the tiles that a rectangle meets.
    fn met(&self, rect: &PixelRect) -> [std::ops::Range<u32>; 2] {
        let Some(inside) = self.picture.intersection(rect) else {
            return [0..0, 0..0];
        };
        let of = |from: u32, length: u32| from / self.edge..(from + length).div_ceil(self.edge);
        [
            of(inside.x - self.picture.x, inside.width),
            of(inside.y - self.picture.y, inside.height),
        ]
    }

    /// How many tiles a rectangle meets.
    #[must_use]
    pub fn count_met(&self, rect: &PixelRect) -> u64 {
        let [columns, rows] = self.met(rect);
        columns.len() as u64 * rows.len() as u64
    }

    /// The parts of a rectangle, each with the number of its tile.
    pub fn parts_of(&self, rect: PixelRect) -> impl Iterator<Item = (usize, PixelRect)> + '_ {
        let [columns, rows] = self.met(&rect);
        let of_row = move |row| columns.clone().map(move |column| (column, row));
        let part = move |(column, row): (u32, u32)| {
            let tile = row as usize * self.columns() as usize + column as usize;
            Some((tile, self.rect(column, row).intersection(&rect)?))
        };
        rows.flat_map(of_row).filter_map(part)
    }

    /// The tiles in the order of a Hilbert curve.
    fn along_curve(&self) -> Vec<usize> {
        let side = self.columns().max(self.rows()).max(1).next_power_of_two();
        let of_row = |row| (0..self.columns()).map(move |column| (column, row));
        let all = (0..self.rows()).flat_map(of_row);
        let mut order: Vec<(u64, usize)> = all
            .zip(0..)
            .map(|((column, row), tile)| (place_on_curve(side, column, row), tile))
            .collect();
        order.sort_unstable();
        order.into_iter().map(|(_, tile)| tile).collect()
    }

    /// The peer of each tile, of those with these speeds, where tiles cost so much on a device of speed 1, microseconds: as much
    /// as its part of all speeds, about.
    ///
    /// `speeds`: at least one above 0.
    #[must_use]
    pub fn divide(&self, costs: &[u64], speeds: &[u64]) -> Vec<usize> {
        let mut peers = vec![0; self.len()];
        let all_speeds: u128 = speeds.iter().map(|&s| u128::from(s)).sum();
        // What costs nothing has its place on the curve, too.
        let cost = |tile: usize| u128::from(costs.get(tile).copied().unwrap_or(0)) + 1;
        let all: u128 = (0..self.len()).map(cost).sum();
        let (mut peer, mut before) = (0, 0_u128);
        let mut speeds_until = u128::from(speeds.first().copied().unwrap_or(0));
        for tile in self.along_curve() {
            // The middle of the tile decides: twice the cost before it, and once its own.
            let middle = 2 * before + cost(tile);
            while peer + 1 < speeds.len()
                && middle.saturating_mul(all_speeds) > (2 * all).saturating_mul(speeds_until)
            {
                peer += 1;
                speeds_until += u128::from(speeds[peer]);
            }
            peers[tile] = peer;
            before += cost(tile);
        }
        peers
    }
}

/// Who rendered the tiles of a frame: what the next one begins with, where tiles stay where they were.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TileRenderers {
    grid: TileGrid,
    peers: Vec<PeerId>,
    /// Of each tile, as an index into `peers`.
    by: Vec<u32>,
}

/// Renderers of tiles that cannot be those of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the renderers of the last frame's tiles are not those of a picture's tiles")]
pub struct BadTileRenderers;

impl TileRenderers {
    /// Those of a grid's tiles; `by`: index of each one's among `peers`.
    #[must_use]
    pub fn new(grid: TileGrid, peers: Vec<PeerId>, by: &[usize]) -> Self {
        let number = |&n: &usize| u32::try_from(n).unwrap_or(u32::MAX);
        let by = by.iter().map(number).collect();
        Self { grid, peers, by }
    }

    /// Checks what comes from a peer.
    ///
    /// # Errors
    /// [`BadTileRenderers`]: not one of these peers for each tile.
    pub fn validate(&self) -> Result<(), BadTileRenderers> {
        let TileGrid { picture, edge } = self.grid;
        let edges = 1..=PICTURE_EDGE_MAX;
        let is_picture = edges.contains(&picture.width) && edges.contains(&picture.height);
        let is_picture = is_picture && picture.x.max(picture.y) <= PICTURE_EDGE_MAX;
        let is_tile = (TILE_EDGE_MIN..=TILE_EDGE_MAX).contains(&edge);
        let is_there = |by: &u32| (*by as usize) < self.peers.len();
        let fits = is_picture && is_tile && self.by.len() == self.grid.len();
        let fits = fits && self.by.len() <= TILES_MAX && self.peers.len() <= ROSTER_PEERS_MAX;
        let fits = fits && self.by.iter().all(is_there);
        fits.then_some(()).ok_or(BadTileRenderers)
    }

    /// Who rendered each tile, as an index into these peers, which ascend; `None`: nobody of them. Of another grid nobody is known.
    pub fn among(&self, grid: &TileGrid, peers: &[PeerId]) -> impl Iterator<Item = Option<usize>> {
        let now: Vec<_> = self
            .peers
            .iter()
            .map(|p| peers.binary_search(p).ok())
            .collect();
        let is_same = self.grid == *grid;
        let by = self.by.iter().filter(move |_| is_same);
        by.map(move |&by| now.get(by as usize).copied().flatten())
    }

    /// Memory that it takes, in bytes, about.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let names: usize = self.peers.iter().map(|p| p.as_str().len()).sum();
        size_of_val(self.by.as_slice()) + size_of_val(self.peers.as_slice()) + names
    }

    /// Adds what its name follows from.
    pub(crate) fn put(&self, bytes: &mut Vec<u8>) {
        let TileGrid { picture, edge } = self.grid;
        let numbers = [picture.x, picture.y, picture.width, picture.height, edge];
        let all = numbers.iter().chain(&self.by);
        all.for_each(|n| bytes.extend(n.to_le_bytes()));
        bytes.extend((self.by.len() as u64).to_le_bytes());
        self.peers.iter().for_each(|p| put_text(bytes, p.as_str()));
    }
}

/// Where a Hilbert curve over a square of this side, a power of two, comes to a cell.
fn place_on_curve(side: u32, column: u32, row: u32) -> u64 {
    let (mut x, mut y, mut place) = (column, row, 0_u64);
    let mut half = side / 2;
    while half > 0 {
        let right = u32::from(x & half > 0);
        let below = u32::from(y & half > 0);
        place += u64::from(half) * u64::from(half) * u64::from((3 * right) ^ below);
        if below == 0 {
            if right == 1 {
                x = (side - 1) - x;
                y = (side - 1) - y;
            }
            std::mem::swap(&mut x, &mut y);
        }
        half /= 2;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::schedule::SPEED_ONE;
    use proptest::prelude::*;

    fn picture(width: u32, height: u32) -> PixelRect {
        PixelRect {
            x: 3,
            y: 5,
            width,
            height,
        }
    }

    proptest! {
        #[test]
        fn parts_cover_a_rectangle_each_pixel_once(
            (width, height, edge) in (1u32..200, 1u32..200, 8u32..90), (x, y, w, h) in (0u32..250, 0u32..250, 1u32..250, 1u32..250)) {
            let grid = TileGrid::new(picture(width, height), edge);
            let rect = PixelRect { x, y, width: w, height: h };
            let inside = picture(width, height).intersection(&rect);
            let rects: Vec<PixelRect> = grid.rects().collect();
            prop_assert_eq!(rects.len(), grid.len());
            let parts: Vec<_> = grid.parts_of(rect).collect();
            prop_assert_eq!(parts.len() as u64, grid.count_met(&rect));
            let pixels: usize = parts.iter().map(|(_, part)| part.pixel_count()).sum();
            prop_assert_eq!(pixels, inside.map_or(0, |i| i.pixel_count()));
            for (tile, part) in parts {
                prop_assert_eq!(rects[tile].intersection(&rect), Some(part));
            }
        }

        #[test]
        fn each_peer_has_its_part_of_the_work_but_for_a_tile(
            costs in prop::collection::vec(0u64..5_000, 192), speeds in prop::collection::vec(200_000u64..4_000_000, 1..9)) {
            let grid = TileGrid::new(picture(256, 192), 16);
            prop_assert_eq!(grid.len(), 192);
            let peers = grid.divide(&costs, &speeds);
            let all: u64 = costs.iter().sum();
            let all_speeds: u64 = speeds.iter().sum();
            for (peer, speed) in speeds.iter().enumerate() {
                let has: u64 = costs.iter().zip(&peers).filter(|(_, p)| **p == peer).map(|(c, _)| c).sum();
                let share = all * speed / all_speeds;
                prop_assert!(has.abs_diff(share) <= 5_000 + 192, "{has} of {share}");
            }
        }
    }

    #[test]
    fn renderers_of_tiles_that_are_those_of_no_picture_are_refused() {
        let grid = TileGrid::new(picture(40, 20), 16);
        let peers = ["a", "b"].map(PeerId::new);
        let good = TileRenderers::new(grid, peers.to_vec(), &[0, 1, 0, 1, 1, 0]);
        assert_eq!(good.validate(), Ok(()));
        let ascending = ["a", "c"].map(PeerId::new);
        let now: Vec<_> = good.among(&grid, &ascending).collect();
        assert_eq!(now, [Some(0), None, Some(0), None, None, Some(0)]);
        let of_picture = |change: &dyn Fn(&mut TileGrid)| {
            let mut bad = good.clone();
            change(&mut bad.grid);
            assert_eq!(bad.among(&grid, &ascending).count(), 0, "of another grid");
            bad
        };
        let huge = |g: &mut TileGrid| {
            (g.picture.width, g.picture.height, g.edge) = (PICTURE_EDGE_MAX, PICTURE_EDGE_MAX, 8);
        };
        let mut all = vec![
            of_picture(&|g| g.edge = 0),
            of_picture(&|g| g.edge = TILE_EDGE_MAX + 1),
            of_picture(&|g| g.picture.width = 0),
            of_picture(&|g| g.picture.height = PICTURE_EDGE_MAX + 1),
            of_picture(&|g| g.picture.x = u32::MAX),
            of_picture(&huge),
        ];
        all[5].by = vec![0; all[5].grid.len()];
        for by in [&[0, 1, 0, 1, 1][..], &[0; 7], &[0, 1, 2, 0, 0, 0]] {
            all.push(TileRenderers::new(grid, peers.to_vec(), by));
        }
        let many = vec![PeerId::new("a"); ROSTER_PEERS_MAX + 1];
        all.push(TileRenderers::new(grid, many, &[0; 6]));
        for bad in all {
            assert_eq!(bad.validate(), Err(BadTileRenderers), "{:?}", bad.grid);
        }
    }

    #[test]
    fn the_curve_goes_from_neighbour_to_neighbour() {
        for side in [1, 2, 4, 8, 32] {
            let grid = TileGrid::new(picture(side * 8, side * 8), 8);
            let rects: Vec<PixelRect> = grid.rects().collect();
            let order = grid.along_curve();
            assert_eq!(order.len(), rects.len());
            for pair in order.windows(2) {
                let [a, b] = [rects[pair[0]], rects[pair[1]]];
                assert_eq!(a.x.abs_diff(b.x) + a.y.abs_diff(b.y), 8, "{side}");
            }
        }
    }

    #[test]
    fn tiles_move_little_when_costs_change_a_little() {
        let grid = TileGrid::new(picture(512, 512), 32);
        let speeds = [SPEED_ONE; 5];
        let before = grid.divide(&[100; 256], &speeds);
        let costs: Vec<u64> = (0..256).map(|t| if t < 128 { 104 } else { 100 }).collect();
        let after = grid.divide(&costs, &speeds);
        let moved = before.iter().zip(&after).filter(|(a, b)| a != b).count();
        assert!(moved <= 8, "{moved}");
    }
}
