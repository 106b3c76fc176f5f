//! Frames on a virtual cluster: nodes with a cache each render tiles, which one of three strategies gives them.
//!
//! Source: DeMarle, Gribble, Boulos, Parker 2005, section 4.4. `planned` is ours: [`TileGrid::divide`], as the live mesh has it, and
//! stealing at the end.

use super::{
    memory::{Memory, Policy},
    scene::{PICTURE, TILE, TILES, TileNeeds},
};
use brickmesh_topology::{
    PixelRect,
    balance::{image_division::TileGrid, schedule::SPEED_ONE},
    base::seeded::Seeded,
};
use serde::Serialize;
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

/// Who renders which tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Sharing {
    /// The next one of a queue at the supervisor.
    Demand,
    /// What a node had in the last frame, then what it takes from others.
    Steal,
    /// By the last costs, side by side.
    Planned,
}

impl Sharing {
    pub(super) const ALL: [Self; 3] = [Self::Demand, Self::Steal, Self::Planned];
}

/// What things take, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prices {
    /// A pixel, with all that it takes where nothing is shared.
    pub(super) pixel: u64,
    /// The same of a tile in which no ray looks at anything.
    pub(super) empty_pixel: u64,
    pub(super) acquire: u64,
    pub(super) miss: u64,
    /// A message.
    pub(super) latency: u64,
}

/// A cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cluster {
    pub(super) nodes: u32,
    /// Blocks that a node's cache has places for.
    pub(super) capacity: usize,
    pub(super) policy: Policy,
    pub(super) sharing: Sharing,
    pub(super) prices: Prices,
}

/// What came of the frames of a path.
#[derive(Clone, Debug, Default)]
pub(super) struct Frames {
    /// Of each, nanoseconds.
    pub(super) nanos: Vec<u64>,
    /// Blocks that all nodes fetched for each.
    pub(super) misses: Vec<u64>,
    /// Tiles of each that another node had before.
    pub(super) moved: Vec<u32>,
    /// Sum over the frames of the busiest node's time over the mean.
    imbalance: f64,
}

impl Frames {
    pub(super) fn per_second(&self) -> f64 {
        let all: u64 = self.nanos.iter().sum();
        float(self.nanos.len() as u64) / (float(all.max(1)) / 1e9)
    }

    /// Of a node and frame.
    pub(super) fn misses_of(&self, nodes: u32) -> f64 {
        let all: u64 = self.misses.iter().sum();
        float(all) / float(self.misses.len().max(1) as u64) / f64::from(nodes)
    }

    pub(super) fn moved_share(&self) -> f64 {
        let all: u64 = self.moved.iter().skip(1).map(|&m| u64::from(m)).sum();
        float(all)
            / float(self.moved.len().saturating_sub(1).max(1) as u64)
            / f64::from(TILES * TILES)
    }

    pub(super) fn imbalance(&self) -> f64 {
        self.imbalance / float(self.nanos.len().max(1) as u64)
    }
}

#[expect(clippy::cast_precision_loss, reason = "times and counts below 2^53")]
pub(super) fn float(number: u64) -> f64 {
    number as f64
}

/// A frame under way.
struct Turn<'a> {
    cluster: &'a Cluster,
    needs: &'a [TileNeeds],
    /// Index in [`TileNeeds::acquires`], and how many rays stand for one.
    access: usize,
    scale: u64,
    memories: &'a mut [Memory],
    misses: u64,
}

impl Turn<'_> {
    /// How long a node takes for a tile, without and with what it fetches, nanoseconds.
    fn render(&mut self, node: usize, tile: usize) -> [u64; 2] {
        let (prices, needs) = (self.cluster.prices, &self.needs[tile]);
        let memory = &mut self.memories[node];
        let missed = needs.blocks.iter().filter(|&&b| memory.misses(b)).count() as u64;
        self.misses += missed;
        let pixel = if needs.cells == 0 {
            prices.empty_pixel
        } else {
            prices.pixel
        };
        let own = u64::from(TILE * TILE) * pixel
            + needs.acquires[self.access] * self.scale * prices.acquire;
        [own, own + missed * prices.miss]
    }
}

impl Cluster {
    /// Renders a path, each picture of which is shown for `repeats` frames.
    pub(super) fn run(
        &self,
        path: &[Vec<TileNeeds>],
        repeats: usize,
        (access, scale): (usize, u64),
    ) -> Frames {
        let nodes = self.nodes as usize;
        let memory = |n| Memory::new([n, self.nodes], self.capacity, self.policy);
        let mut memories: Vec<Memory> = (0..self.nodes).map(memory).collect();
        let mut frames = Frames::default();
        let mut draws = Seeded::new(self.nodes.into());
        let tiles = (TILES * TILES) as usize;
        let mut had: Vec<usize> = (0..tiles).map(|t| t * nodes / tiles).collect();
        let mut costs = vec![1_u64; tiles];
        // The slowest of the last frame gives a tile to another one.
        let mut slowest = None;
        for needs in path.iter().flat_map(|p| std::iter::repeat_n(p, repeats)) {
            let mut lists = self.lists(&had, &costs, slowest, &mut draws);
            let mut turn = Turn {
                cluster: self,
                needs,
                access,
                scale,
                memories: &mut memories,
                misses: 0,
            };
            let mut busy = vec![0_u64; nodes];
            let mut free: BinaryHeap<Reverse<(u64, usize)>> =
                (0..nodes).map(|n| Reverse((0, n))).collect();
            let mut end = 0;
            let mut moved = 0;
            while let Some(Reverse((now, node))) = free.pop() {
                let Some((tile, waits)) = self.next(&mut lists, node, &mut draws) else {
                    continue;
                };
                let [own, takes] = turn.render(node, tile);
                costs[tile] = own.max(1);
                busy[node] += takes;
                let done = now + waits + takes;
                end = end.max(done);
                moved += u32::from(had[tile] != node);
                had[tile] = node;
                free.push(Reverse((done, node)));
            }
            // The supervisor gets each tile, and has asked for it where it keeps the queue.
            let messages = if self.sharing == Sharing::Demand {
                2
            } else {
                1
            };
            let network = messages * self.prices.latency * tiles as u64;
            frames.nanos.push(end.max(network));
            frames.misses.push(turn.misses);
            frames.moved.push(moved);
            let all: u64 = busy.iter().sum();
            let most = busy.iter().copied().max().unwrap_or(0);
            frames.imbalance += float(most) * f64::from(self.nodes) / float(all.max(1));
            slowest = (0..nodes).max_by_key(|&n| busy[n]);
        }
        frames
    }

    /// What each node begins a frame with; with a queue, what that has.
    fn lists(
        &self,
        had: &[usize],
        costs: &[u64],
        slowest: Option<usize>,
        draws: &mut Seeded,
    ) -> Vec<VecDeque<usize>> {
        let nodes = self.nodes as usize;
        let mut lists = vec![VecDeque::new(); nodes];
        match self.sharing {
            Sharing::Demand => lists[0].extend(0..had.len()),
            Sharing::Steal => {
                for (tile, &node) in had.iter().enumerate() {
                    lists[node].push_back(tile);
                }
                if let Some(tile) = slowest.and_then(|s| lists[s].pop_back()) {
                    lists[draw(draws, nodes)].push_back(tile);
                }
            }
            Sharing::Planned => {
                let picture = PixelRect {
                    x: 0,
                    y: 0,
                    width: PICTURE,
                    height: PICTURE,
                };
                let grid = TileGrid::new(picture, TILE);
                let speeds = vec![SPEED_ONE; nodes];
                for (tile, node) in grid.divide(costs, &speeds).into_iter().enumerate() {
                    lists[node].push_back(tile);
                }
            }
        }
        lists
    }

    /// The next tile of a node, and how long it waits for it.
    fn next(
        &self,
        lists: &mut [VecDeque<usize>],
        node: usize,
        draws: &mut Seeded,
    ) -> Option<(usize, u64)> {
        if self.sharing == Sharing::Demand {
            return Some((lists[0].pop_front()?, self.prices.latency));
        }
        if let Some(tile) = lists[node].pop_front() {
            return Some((tile, 0));
        }
        // Peers at random, until one has a tile.
        let mut waits = 0;
        while lists.iter().any(|l| !l.is_empty()) {
            waits += 2 * self.prices.latency;
            let victim = draw(draws, lists.len());
            if let Some(tile) = lists[victim].pop_back() {
                return Some((tile, waits));
            }
        }
        None
    }
}

fn draw(draws: &mut Seeded, below: usize) -> usize {
    usize::try_from(draws.below(below.max(1) as u64)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A picture each of whose tiles needs blocks of its own, and one with its neighbour.
    fn picture(per_tile: u32) -> Vec<TileNeeds> {
        let tile = |t: u32| TileNeeds {
            blocks: (t * per_tile..=(t + 1) * per_tile).collect(),
            acquires: [800, 110, 13],
            cells: 100,
        };
        (0..TILES * TILES).map(tile).collect()
    }

    fn cluster(nodes: u32, capacity: usize, sharing: Sharing) -> Cluster {
        Cluster {
            nodes,
            capacity,
            policy: Policy::Lru,
            sharing,
            prices: Prices {
                pixel: 20_000,
                empty_pixel: 5_000,
                acquire: 2_000,
                miss: 600_000,
                latency: 10_000,
            },
        }
    }

    #[test]
    fn where_all_fits_each_block_is_fetched_once_by_who_keeps_its_tiles() {
        let path = vec![picture(4)];
        for sharing in [Sharing::Steal, Sharing::Planned] {
            let frames = cluster(8, 10_000, sharing).run(&path, 6, (2, 1));
            assert!(frames.misses[0] > 3_000);
            let later: u64 = frames.misses[3..].iter().sum();
            assert!(
                later * 20 < frames.misses[0],
                "{sharing:?} {:?}",
                frames.misses
            );
            assert!(frames.moved_share() < 0.2, "{}", frames.moved_share());
        }
    }

    #[test]
    fn a_queue_deals_tiles_anew_each_time_and_misses_more_where_memory_is_short() {
        let path: Vec<_> = (0..4).map(|_| picture(4)).collect();
        let misses = |sharing| {
            let frames = cluster(8, 700, sharing).run(&path, 4, (2, 1));
            frames.misses_of(8)
        };
        let [demand, steal, planned] = Sharing::ALL.map(misses);
        assert!(
            steal * 2.0 < demand && planned * 2.0 < demand,
            "{demand} {steal} {planned}"
        );
    }

    #[test]
    fn messages_bound_the_frame_time() {
        let mut path = vec![picture(1)];
        path[0].iter_mut().for_each(|t| *t = TileNeeds::default());
        let frames = |sharing| {
            let mut cluster = cluster(64, 10, sharing);
            cluster.prices.empty_pixel = 1;
            cluster.run(&path, 1, (2, 1)).nanos[0]
        };
        let tiles = u64::from(TILES * TILES);
        assert_eq!(frames(Sharing::Demand), 2 * 10_000 * tiles);
        assert_eq!(frames(Sharing::Planned), 10_000 * tiles);
    }
}
