//! Cuts rows of voxels into bricks: each row is scattered to the bricks whose stored box it crosses; a layer of bricks is
//! finished as soon as its last slice has come.
//!
//! Invariants: at most the two layers that overlap in z are open (a brick is at least four voxels
//! thick, its ghosts three); rows of a brick's slice are gathered before they go to
//! the layer, so that a scratch file sees long writes. Bricks of a layer are finished on all cores.

use super::{
    BrickStoreError,
    checkpoint::{read_value, write_value},
    empty_space::EmptySpaceGathering,
    layers::{Gather, Layer},
};
use brickmesh_topology::{
    BrickGrid, BrickIndex, Digest, Manifest, VolumeDescription, VoxelBox,
    data::{
        brick_table::BrickRecord,
        gradient_histogram::GradientGathering,
        manifest::{ManifestError, ManifestParts},
        value_gathering::GatheredValues,
    },
};
use rayon::prelude::*;
use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
};

/// Bytes of the bricks that are finished together, on all cores, if that is more than one brick: they are in memory
/// meanwhile, also of a layer that is in a scratch file, and five times as much while they are looked at.
pub(super) const FINISHED_BYTES: usize = 16 << 20;

/// Takes a finished brick of a level, on any thread and several at a time; of one level bricks come layer by layer.
pub(super) type OnBrick<'a> =
    &'a (dyn Fn(usize, BrickIndex, Digest, Vec<u8>) -> Result<(), BrickStoreError> + Sync);

/// Bricks on their way.
pub(super) struct Cutter<'a> {
    /// Of the volume: 0 is exact.
    level: usize,
    grid: BrickGrid,
    volume: &'a VolumeDescription,
    gather: Gather<'a>,
    /// Open layers by bz.
    layers: BTreeMap<u32, Layer>,
    /// Of the bricks that are finished, in index order.
    records: Vec<BrickRecord>,
    gradients: GradientGathering,
    /// Rows of one slice of one row of bricks, gathered by brick.
    slices: BTreeMap<BrickIndex, Vec<u8>>,
}

impl<'a> Cutter<'a> {
    /// Of a level of a volume.
    pub(super) fn new(
        level: usize,
        grid: BrickGrid,
        volume: &'a VolumeDescription,
        gather: Gather<'a>,
    ) -> Self {
        Self {
            level,
            records: Vec::new(),
            gradients: GradientGathering::new(volume),
            layers: BTreeMap::new(),
            slices: BTreeMap::new(),
            grid,
            volume,
            gather,
        }
    }

    fn layer_bricks(&self, bz: u32) -> impl Iterator<Item = BrickIndex> + use<> {
        let [cx, cy, _] = self.grid.counts();
        (bz * cx * cy..(bz + 1) * cx * cy).map(BrickIndex)
    }

    fn z_span(&self, bz: u32) -> (u32, u32) {
        let [cx, cy, _] = self.grid.counts();
        let stored = self.grid.stored_box(BrickIndex(bz * cx * cy));
        (stored.lo[2], stored.hi[2])
    }

    fn bytes_of(&self, stored: &VoxelBox) -> u64 {
        stored.voxel_count() * self.volume.voxel.bytes() as u64
    }

    /// Opens the layers that begin at slice z.
    pub(super) fn open_layers(&mut self, z: u32) -> io::Result<()> {
        // A layer begins with its ghosts, in the layer before.
        let near = z / self.grid.edge();
        for bz in near..(near + 2).min(self.grid.counts()[2]) {
            if self.z_span(bz).0 == z && !self.layers.contains_key(&bz) {
                let layer = Layer::new(&self.layer_sizes(bz), self.gather)?;
                self.layers.insert(bz, layer);
            }
        }
        Ok(())
    }

    fn layer_sizes(&self, bz: u32) -> Vec<u64> {
        self.layer_bricks(bz)
            .map(|b| self.bytes_of(&self.grid.stored_box(b)))
            .collect()
    }

    /// Writes what has come, between two slices.
    pub(super) fn save(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let open: Vec<u32> = self.layers.keys().copied().collect();
        write_value(out, &(&self.records, &self.gradients, open))?;
        self.layers
            .values_mut()
            .try_for_each(|layer| layer.save(out))
    }

    /// Goes on where that was written.
    pub(super) fn restore(&mut self, from: &mut dyn Read) -> io::Result<()> {
        let open: Vec<u32>;
        (self.records, self.gradients, open) = read_value(from)?;
        for bz in open {
            let layer = Layer::restore(&self.layer_sizes(bz), self.gather, from)?;
            self.layers.insert(bz, layer);
        }
        Ok(())
    }

    /// Gives a row of the volume to the bricks that store it.
    pub(super) fn scatter(&mut self, y: u32, z: u32, row: &[u8]) -> io::Result<()> {
        let (grid, n) = (self.grid, self.volume.voxel.bytes());
        let [cx, cy, _] = grid.counts();
        let open: Vec<u32> = self
            .layers
            .keys()
            .copied()
            .filter(|&bz| {
                let (lo, hi) = self.z_span(bz);
                (lo..hi).contains(&z)
            })
            .collect();
        for bz in open {
            for by in y.saturating_sub(2) / grid.edge()..=((y + 1) / grid.edge()).min(cy - 1) {
                for bx in 0..cx {
                    let Some(brick) = grid.index([bx, by, bz]) else {
                        continue;
                    };
                    let stored = grid.stored_box(brick);
                    if !(stored.lo[1]..stored.hi[1]).contains(&y) {
                        continue;
                    }
                    let slice = self.slices.entry(brick).or_default();
                    slice.extend_from_slice(
                        &row[stored.lo[0] as usize * n..stored.hi[0] as usize * n],
                    );
                    if y + 1 == stored.hi[1] {
                        let slice = self.slices.remove(&brick).unwrap_or_default();
                        let at = u64::from(z - stored.lo[2]) * slice.len() as u64;
                        let within = (brick.0 - bz * cx * cy) as usize;
                        if let Some(layer) = self.layers.get_mut(&bz) {
                            layer.write(within, at, &slice)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Finishes the layers whose last slice is z.
    pub(super) fn close_layers(
        &mut self,
        z: u32,
        io: &impl Fn(io::Error) -> BrickStoreError,
        empty: Option<&EmptySpaceGathering<'_>>,
        on_brick: OnBrick<'_>,
    ) -> Result<(), BrickStoreError> {
        let done: Vec<u32> = self
            .layers
            .keys()
            .copied()
            .filter(|&bz| self.z_span(bz).1 == z + 1)
            .collect();
        for bz in done {
            let Some(mut layer) = self.layers.remove(&bz) else {
                continue;
            };
            let (mut bricks, mut bytes_taken) = (Vec::new(), 0);
            for (within, brick) in self.layer_bricks(bz).enumerate() {
                let bytes = layer.take(within).map_err(io)?;
                let other = empty.and_then(|empty| empty.in_place_of(brick, &bytes));
                let bytes = other.unwrap_or(bytes);
                bytes_taken += bytes.len();
                bricks.push((brick, bytes));
                if bytes_taken >= FINISHED_BYTES {
                    self.finish(std::mem::take(&mut bricks), on_brick)?;
                    bytes_taken = 0;
                }
            }
            self.finish(bricks, on_brick)?;
        }
        Ok(())
    }

    /// Finishes bricks that have all their voxels, in index order.
    pub(super) fn finish(
        &mut self,
        bricks: Vec<(BrickIndex, Vec<u8>)>,
        on_brick: OnBrick<'_>,
    ) -> Result<(), BrickStoreError> {
        let finish = |(brick, bytes): (BrickIndex, Vec<u8>)| {
            let record = BrickRecord::of(&self.grid, brick, self.volume, &bytes);
            let gradients = self.gradients.of_brick(&self.grid, brick, &bytes);
            on_brick(self.level, brick, record.digest, bytes)?;
            Ok((record, gradients))
        };
        let finished = bricks.into_par_iter().map(finish);
        for (record, gradients) in finished.collect::<Result<Vec<_>, BrickStoreError>>()? {
            self.gradients.add(gradients);
            self.records.push(record);
        }
        Ok(())
    }

    /// Its manifest, where these are the values of all its voxels.
    pub(super) fn manifest(
        self,
        source: &str,
        values: GatheredValues,
        kept_voxels: Option<Vec<u32>>,
        levels: Vec<Digest>,
    ) -> Result<Manifest, ManifestError> {
        let edge = self.grid.edge();
        let mut parts = ManifestParts::new(self.volume.clone(), edge, source, self.records);
        parts.kept_voxels = kept_voxels;
        parts.levels = levels;
        parts.gradients = self.gradients.finish(values.statistics.histogram_range);
        values.manifest(parts)
    }
}
