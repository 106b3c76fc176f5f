//! What is looked at, and which blocks the rays of each tile need: isosurfaces by formula under a hierarchy of macrocells, and a
//! triangle mesh on a ball under a grid.
//!
//! Space: the unit cube. Stand-ins: the paper's volumes and meshes are not here. `layer` is a mixing layer, as its figure 11; `ball` a
//! noisy sphere, as its figure 2.
//!
//! Source: DeMarle, Gribble, Boulos, Parker 2005, sections 4.1 to 4.3.

use super::access::Access;
use brickmesh_topology::base::seeded::mixed;
use glam::DVec3;
use std::{collections::BTreeMap, f64::consts::TAU, sync::LazyLock, thread};

/// Edge of a picture and of its tiles, pixels, as in the paper.
pub(super) const PICTURE: u32 = 512;
pub(super) const TILE: u32 = 16;
/// Tiles on an axis.
pub(super) const TILES: u32 = PICTURE / TILE;

/// A field whose zero is the surface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) shape: Shape,
    /// How high the waves are that the surface has.
    pub(super) roughness: f64,
}

/// What the waves are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Layer,
    Ball,
}

/// Amplitude of the widest wave, and waves over the cube; each next one is half as high and twice as dense.
const WAVES: [(f64, f64); 5] = [
    (0.05, 3.0),
    (0.025, 6.0),
    (0.0125, 12.0),
    (0.00625, 24.0),
    (0.003_125, 48.0),
];

/// A sine over one turn: what the fields are made of.
static SINE: LazyLock<Vec<f64>> = LazyLock::new(|| {
    (0..4096)
        .map(|i| (TAU * f64::from(i) / 4096.0).sin())
        .collect()
});

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a turn in steps of a 4096th"
)]
fn sine(turns: f64) -> f64 {
    SINE[(turns * 4096.0).rem_euclid(4096.0) as usize % 4096]
}

impl Field {
    fn at(self, p: DVec3) -> f64 {
        let wave = |&(high, turns): &(f64, f64)| {
            let [x, y, z] = (p * turns).to_array();
            high * sine(x) * sine(y + 0.25) * sine(z + 0.4)
        };
        let waves = self.roughness * WAVES.iter().map(wave).sum::<f64>();
        match self.shape {
            Shape::Layer => p.z - 0.5 + waves,
            Shape::Ball => (p - DVec3::splat(0.5)).length() - 0.33 + waves,
        }
    }

    /// How much the field changes at most over a length.
    fn steepest(self) -> f64 {
        let of = |&(high, turns): &(f64, f64)| high * turns * TAU * 3.0_f64.sqrt();
        1.0 + self.roughness * WAVES.iter().map(of).sum::<f64>()
    }

    /// Whether a box may hold a part of the surface: as if its least and greatest values were known.
    fn may_be_in(self, lo: DVec3, edge: f64, is_leaf: bool) -> bool {
        let middle = self.at(lo + DVec3::splat(edge / 2.0));
        if middle.abs() > self.steepest() * edge * 0.5 * 3.0_f64.sqrt() {
            return false;
        }
        // Where the box is small beside all waves its corners tell.
        let at = |c: u32| DVec3::new(f64::from(c & 1), f64::from(c >> 1 & 1), f64::from(c >> 2));
        let differs = |c: u32| (self.at(lo + at(c) * edge) > 0.0) != (middle > 0.0);
        !is_leaf || (0..8).any(differs)
    }
}

/// A volume of a number of voxels on each axis, in blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Volume {
    pub(super) field: Field,
    pub(super) edge: u32,
    /// Cells on an axis of the smallest macrocells; macrocells of the next level have four times as many.
    pub(super) macrocell: u32,
    /// Voxels on an axis of a block.
    pub(super) block: u32,
}

/// Where a picture is taken from: turns around the middle, and how much of the cube fills it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Eye {
    pub(super) turns: f64,
    pub(super) width: f64,
}

/// What a tile needs.
#[derive(Clone, Debug, Default)]
pub(super) struct TileNeeds {
    /// Blocks, each once, in the order in which they are needed first.
    pub(super) blocks: Vec<u32>,
    /// Acquires by [`Access::ALL`], of all rays that were sent.
    pub(super) acquires: [u64; 3],
    /// Cells that rays looked at.
    pub(super) cells: u64,
}

impl Volume {
    /// Number of blocks.
    pub(super) fn blocks(&self) -> u32 {
        self.edge.div_ceil(self.block).pow(3)
    }

    /// What the tiles of a picture need where so many rays are sent on each axis.
    pub(super) fn needs(&self, eye: Eye, rays: u32) -> Vec<TileNeeds> {
        by_tile(eye, rays, |origin, forward, needs| {
            self.go(origin, forward, needs);
        })
    }

    fn block_of(&self, voxel: [i64; 3]) -> u32 {
        let on = self.edge.div_ceil(self.block);
        let of = |v: i64| u32::try_from(v.max(0)).unwrap_or(0).min(self.edge - 1) / self.block;
        let [x, y, z] = voxel.map(of);
        (z * on + y) * on + x
    }

    /// Follows a ray to the surface.
    fn go(&self, origin: DVec3, forward: DVec3, needs: &mut TileNeeds) {
        let Some((mut t, end)) = through(origin, forward, DVec3::ZERO, 1.0) else {
            return;
        };
        let cell = 1.0 / f64::from(self.edge);
        let mut edges = vec![f64::from(self.macrocell) * cell];
        while let Some(next) = edges.last().map(|e| e * 4.0).filter(|&e| e < 0.5) {
            edges.push(next);
        }
        // Macrocells of each level that the ray is in, as long as it is: they may hold a part of it.
        let mut open: Vec<f64> = vec![f64::NEG_INFINITY; edges.len()];
        while t < end {
            let p = origin + forward * (t + cell * 1e-3);
            let mut empty_until = None;
            for (level, &edge) in edges.iter().enumerate().rev() {
                if t < open[level] {
                    continue;
                }
                let lo = (p / edge).floor() * edge;
                let exit = through(origin, forward, lo, edge).map_or(t, |s| s.1);
                if !self.field.may_be_in(lo, edge, level == 0) {
                    empty_until = Some(exit);
                    break;
                }
                if level > 0 {
                    open[level] = exit;
                } else if self.look(origin, forward, [t, exit], needs) {
                    return;
                } else {
                    empty_until = Some(exit);
                }
            }
            t = empty_until.unwrap_or(t).max(t + cell * 0.01);
        }
    }

    /// Looks at the cells of a macrocell; returns whether the surface is hit.
    fn look(
        &self,
        origin: DVec3,
        forward: DVec3,
        [from, to]: [f64; 2],
        needs: &mut TileNeeds,
    ) -> bool {
        let cell = 1.0 / f64::from(self.edge);
        let (mut t, mut cells, mut hit, mut last) = (from, Vec::new(), None, None);
        while t < to {
            let p = origin + forward * (t + cell * 1e-3);
            let lo = (p / cell).floor();
            // Along a face, where roundings decide, a part of a cell at a time.
            let exit = through(origin, forward, lo * cell, cell).map_or(t, |s| s.1);
            let exit = exit.max(t + cell * 0.1);
            let voxel = |c: i64| {
                let [x, y, z] = lo.to_array().map(whole);
                self.block_of([x + (c & 1), y + (c >> 1 & 1), z + (c >> 2)])
            };
            if last != Some(lo) {
                cells.push([0, 1, 2, 3, 4, 5, 6, 7].map(voxel));
            }
            last = Some(lo);
            let [a, b] = [t, exit].map(|t| self.field.at(origin + forward * t) > 0.0);
            if a != b && hit.is_none() {
                hit = Some(cells.len());
            }
            t = exit;
        }
        // By the last pattern all cells are listed before any is looked at.
        let looked_at = &cells[..hit.unwrap_or(cells.len())];
        for (sum, access) in needs.acquires.iter_mut().zip(Access::ALL) {
            let of = if access == Access::Many {
                &cells
            } else {
                looked_at
            };
            *sum += access.acquires(of) as u64;
        }
        needs.cells += looked_at.len() as u64;
        cells.as_flattened().iter().for_each(|&b| needs.add(b));
        hit.is_some()
    }
}

impl TileNeeds {
    fn add(&mut self, block: u32) {
        if self.blocks.last() != Some(&block) && !self.blocks.contains(&block) {
            self.blocks.push(block);
        }
    }
}

/// How the triangles of a mesh follow each other in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Order {
    /// By the octants of their middles (section 4.3).
    Octree,
    /// Strip by strip around the surface, as a scanner sees it.
    File,
    Random,
}

impl Order {
    pub(super) const ALL: [Self; 3] = [Self::Octree, Self::File, Self::Random];
}

/// Triangles on the surface of a ball, and a grid over them, in blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mesh {
    /// Triangles, and their bytes with those of the vertices.
    pub(super) triangles: u32,
    pub(super) bytes: u64,
    /// The grid's cells on an axis, and its bytes.
    pub(super) grid: u32,
    pub(super) grid_bytes: u64,
    pub(super) block_bytes: u64,
    pub(super) order: Order,
}

impl Mesh {
    /// Number of blocks.
    pub(super) fn blocks(&self) -> u32 {
        self.mesh_blocks() + blocks_of(self.grid_bytes, self.block_bytes)
    }

    fn mesh_blocks(&self) -> u32 {
        blocks_of(self.bytes, self.block_bytes)
    }

    /// What the tiles of a picture need where so many rays are sent on each axis.
    pub(super) fn needs(&self, eye: Eye, rays: u32) -> Vec<TileNeeds> {
        let radius = 0.45;
        by_tile(eye, rays, |origin, forward, needs| {
            let from = origin - DVec3::splat(0.5);
            let (b, c) = (from.dot(forward), from.length_squared() - radius * radius);
            let root = b * b - c;
            if root < 0.0 {
                return;
            }
            let p = (from + forward * (-b - root.sqrt())) / radius;
            // The cells in which the ray comes to the surface.
            for back in [0.02, 0.0] {
                let q = (p * radius - forward * back + DVec3::splat(0.5)) * f64::from(self.grid);
                let [x, y, z] = q
                    .to_array()
                    .map(|v| u64::try_from(whole(v.floor())).unwrap_or(0));
                let on = u64::from(self.grid);
                let bytes = ((z * on + y) * on + x) * self.grid_bytes / on.pow(3);
                let block = u32::try_from(bytes / self.block_bytes).unwrap_or(0);
                needs.add(self.mesh_blocks() + block.min(self.blocks() - self.mesh_blocks() - 1));
            }
            let at = u64::from(self.index(p)) * self.bytes / u64::from(self.triangles);
            needs.add(u32::try_from(at / self.block_bytes).unwrap_or(0));
            needs.acquires.iter_mut().for_each(|n| *n += 3);
            needs.cells += 3;
        })
    }

    /// Where the triangle at a place of the unit sphere is in memory.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 0 to below the number of triangles of a row"
    )]
    fn index(&self, p: DVec3) -> u32 {
        // Rows of equal area, so that triangles are alike.
        let on = f64::from(self.triangles).sqrt().floor();
        let cut = |v: f64| (v.clamp(0.0, 1.0 - 1e-9) * on) as u32;
        let (row, column) = (cut(p.z.midpoint(1.0)), cut(p.y.atan2(p.x) / TAU + 0.5));
        let on = on as u32;
        match self.order {
            Order::File => row * on + column,
            // Near each other on the surface is near each other in space.
            Order::Octree => {
                let spread =
                    |v: u32| (0..16).fold(0_u64, |s, b| s | u64::from(v >> b & 1) << (2 * b));
                let code = spread(row) | spread(column) << 1;
                let side = u64::from(on.next_power_of_two());
                let all = u64::from(self.triangles);
                u32::try_from(code * all / (side * side)).unwrap_or(0)
            }
            Order::Random => {
                let all = u64::from(self.triangles);
                u32::try_from(mixed(u64::from(row * on + column)) % all).unwrap_or(0)
            }
        }
    }
}

fn blocks_of(bytes: u64, block_bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(block_bytes)).unwrap_or(u32::MAX)
}

#[expect(clippy::cast_possible_truncation, reason = "places in a volume")]
fn whole(value: f64) -> i64 {
    value as i64
}

/// Where a ray is in a cube: from and to; `None`: it is not.
fn through(origin: DVec3, forward: DVec3, lo: DVec3, edge: f64) -> Option<(f64, f64)> {
    let a = (lo - origin) / forward;
    let b = (lo + DVec3::splat(edge) - origin) / forward;
    let (from, to) = (a.min(b).max_element().max(0.0), a.max(b).min_element());
    (from < to).then_some((from, to))
}

/// What all tiles need, of parallel rays from this eye.
fn by_tile(
    eye: Eye,
    rays: u32,
    follow: impl Fn(DVec3, DVec3, &mut TileNeeds) + Sync,
) -> Vec<TileNeeds> {
    let angle = TAU * eye.turns;
    // A little from above, and along no axis.
    let forward = DVec3::new(angle.cos() * 0.8, angle.sin() * 0.8, -0.6 + 1e-4);
    let right = DVec3::new(-angle.sin(), angle.cos(), 0.0);
    let down = forward.cross(right);
    let of_tile = rays / TILES;
    let tile = |n: u32| {
        let mut needs = TileNeeds::default();
        for ray in 0..of_tile * of_tile {
            let at = |tile: u32, ray: u32| {
                (f64::from(tile * of_tile + ray) + 0.5) / f64::from(rays) - 0.5
            };
            let (x, y) = (at(n % TILES, ray % of_tile), at(n / TILES, ray / of_tile));
            let place = DVec3::splat(0.5) + (right * x + down * y) * eye.width - forward * 2.0;
            follow(place, forward.normalize(), &mut needs);
        }
        needs
    };
    let tile = &tile;
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let threads = u32::try_from(threads).unwrap_or(1).min(TILES);
    // Rows in turn, so that all threads have of each part of the picture.
    let row = |y: u32| {
        (0..TILES)
            .map(move |x| tile(y * TILES + x))
            .collect::<Vec<_>>()
    };
    let mut rows: BTreeMap<u32, Vec<TileNeeds>> = BTreeMap::new();
    thread::scope(|scope| {
        let of_thread = |first: u32| {
            scope.spawn(move || {
                let own = (first..TILES).step_by(threads as usize);
                own.map(|y| (y, row(y))).collect::<Vec<_>>()
            })
        };
        let running: Vec<_> = (0..threads).map(of_thread).collect();
        for thread in running {
            match thread.join() {
                Ok(own) => rows.extend(own),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    rows.into_values().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BALL: Field = Field {
        shape: Shape::Ball,
        roughness: 1.0,
    };

    fn volume(edge: u32) -> Volume {
        Volume {
            field: BALL,
            edge,
            macrocell: 8,
            block: 32,
        }
    }

    const WHOLE: Eye = Eye {
        turns: 0.13,
        width: 1.5,
    };

    #[test]
    fn rays_end_where_the_field_changes_its_sign_and_not_before() {
        let volume = volume(256);
        let (mut hits, mut missing) = (0, 0);
        for i in 0..400 {
            let across = DVec3::new(0.0, f64::from(i % 20) / 20.0, f64::from(i / 20) / 20.0);
            let (origin, forward) = (across - DVec3::X, DVec3::new(1.0, 1e-4, 2e-4).normalize());
            let mut needs = TileNeeds::default();
            volume.go(origin, forward, &mut needs);
            let outside = |t: i32| BALL.at(origin + forward * (1.0 + f64::from(t) / 4096.0)) > 0.0;
            let is_hit = (1..4000).any(|t| outside(t) != outside(t - 1));
            hits += u32::from(is_hit);
            missing += u32::from(is_hit && needs.cells == 0);
        }
        assert!(hits > 100 && missing == 0, "{missing} of {hits}");
    }

    #[test]
    fn the_hierarchy_keeps_the_number_of_accesses_as_data_grow() {
        let acquires = |edge| {
            let needs = volume(edge).needs(WHOLE, 64);
            needs.iter().map(|n| n.acquires[2]).sum::<u64>()
        };
        let [small, large] = [acquires(256), acquires(1024)];
        assert!(large < small * 2 && small < large * 2, "{small} {large}");
    }

    #[test]
    fn the_order_of_a_mesh_decides_how_many_blocks_a_tile_needs() {
        let blocks = |order| {
            let mesh = Mesh {
                triangles: 4_000_000,
                bytes: 68_000_000,
                grid: 50,
                grid_bytes: 20_000_000,
                block_bytes: 32 << 10,
                order,
            };
            let needs = mesh.needs(WHOLE, 256);
            assert!(
                needs
                    .iter()
                    .flat_map(|n| &n.blocks)
                    .all(|&b| b < mesh.blocks())
            );
            needs.iter().map(|n| n.blocks.len()).sum::<usize>()
        };
        let [octree, file, random] = Order::ALL.map(blocks);
        assert!(octree < file && file < random, "{octree} {file} {random}");
    }
}
