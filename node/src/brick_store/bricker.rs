//! Cuts a stream of voxels into bricks: row by row, each row scattered to the bricks whose stored
//! box it crosses; a layer of bricks is finished as soon as its last slice has come.
//!
//! Invariants: at most the layers that overlap in z are open (three, where bricks are thinner
//! than their ghosts reach, two otherwise); rows of a brick's slice are gathered before they go to
//! the layer, so that a scratch file sees long writes.

use super::{BRICK_BYTES_MAX, BrickStoreError, OnProgress, layers::Layer};
use crate::volume_file::VolumeFile;
use brickmesh_topology::{
    BrickGrid, BrickIndex, Digest, Manifest, VoxelBox, VoxelType,
    manifest::{BrickRecord, HISTOGRAM_BINS, MANIFEST_VERSION, ManifestParts},
};
use std::collections::BTreeMap;

/// Takes a finished brick; bricks come layer by layer, in index order within one.
pub(super) type OnBrick<'a> =
    &'a mut dyn FnMut(BrickIndex, Digest, Vec<u8>) -> Result<(), BrickStoreError>;

/// Values that are counted exactly, before they are binned over the range that turns out.
const FINE_BINS: usize = 1 << 16;

/// Cuts a whole volume; returns its manifest.
pub(super) fn cut(
    file: &VolumeFile,
    edge: u32,
    layer_bytes_max: u64,
    progress: OnProgress<'_>,
    on_brick: OnBrick<'_>,
) -> Result<Manifest, BrickStoreError> {
    let volume = &file.description;
    let grid_error = |source| BrickStoreError::Grid {
        path: file.path.clone(),
        source,
    };
    let grid = BrickGrid::new(volume.dims, edge).map_err(grid_error)?;
    let voxel_bytes = volume.voxel.bytes();
    let found = grid
        .bricks()
        .map(|b| grid.stored_box(b).voxel_count() * voxel_bytes as u64)
        .max()
        .unwrap_or(0);
    if found > BRICK_BYTES_MAX {
        return Err(BrickStoreError::BrickTooLarge {
            path: file.path.clone(),
            edge,
            found,
        });
    }
    let mut cutter = Cutter::new(grid, volume.voxel, layer_bytes_max);
    let mut stream = file.voxels()?;
    let row_bytes = volume.dims[0] as usize * voxel_bytes;
    let mut row = vec![0; row_bytes];
    let (total, mut done) = (volume.voxel_bytes(), 0);
    let io = BrickStoreError::io(&file.path);
    for z in 0..volume.dims[2] {
        cutter.open_layers(z).map_err(&io)?;
        for y in 0..volume.dims[1] {
            stream.read(&mut row)?;
            cutter.scatter(y, z, &row).map_err(&io)?;
        }
        done += row_bytes as u64 * u64::from(volume.dims[1]);
        if !progress(done, total) {
            return Err(BrickStoreError::Stopped);
        }
        cutter.close_layers(z, &io, on_brick)?;
    }
    stream.finish()?;
    let source = file
        .path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    cutter
        .manifest(volume.clone(), source)
        .map_err(BrickStoreError::manifest(&file.path))
}

/// Bricks on their way.
struct Cutter {
    grid: BrickGrid,
    voxel: VoxelType,
    layer_bytes_max: u64,
    /// Open layers by bz.
    layers: BTreeMap<u32, Layer>,
    records: Vec<BrickRecord>,
    values: Values,
    /// Rows of one slice of one row of bricks, gathered by brick.
    slices: BTreeMap<BrickIndex, Vec<u8>>,
}

impl Cutter {
    fn new(grid: BrickGrid, voxel: VoxelType, layer_bytes_max: u64) -> Self {
        let nothing = BrickRecord {
            digest: Digest::of(b""),
            range: [0.0; 2],
        };
        Self {
            records: vec![nothing; grid.brick_count() as usize],
            values: Values::new(voxel),
            layers: BTreeMap::new(),
            slices: BTreeMap::new(),
            grid,
            voxel,
            layer_bytes_max,
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
        stored.voxel_count() * self.voxel.bytes() as u64
    }

    /// Opens the layers that begin at slice z.
    fn open_layers(&mut self, z: u32) -> std::io::Result<()> {
        for bz in 0..self.grid.counts()[2] {
            if self.z_span(bz).0 == z && !self.layers.contains_key(&bz) {
                let sizes: Vec<u64> = self
                    .layer_bricks(bz)
                    .map(|b| self.bytes_of(&self.grid.stored_box(b)))
                    .collect();
                self.layers
                    .insert(bz, Layer::new(&sizes, self.layer_bytes_max / 2)?);
            }
        }
        Ok(())
    }

    /// Gives a row of the volume to the bricks that store it.
    fn scatter(&mut self, y: u32, z: u32, row: &[u8]) -> std::io::Result<()> {
        self.values.count(row);
        let (grid, n) = (self.grid, self.voxel.bytes());
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
    fn close_layers(
        &mut self,
        z: u32,
        io: &impl Fn(std::io::Error) -> BrickStoreError,
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
            for (within, brick) in self.layer_bricks(bz).enumerate() {
                let bytes = layer.take(within).map_err(io)?;
                let digest = Digest::of(&bytes);
                self.records[brick.0 as usize] = BrickRecord {
                    digest,
                    range: range(self.voxel, &bytes),
                };
                on_brick(brick, digest, bytes)?;
            }
        }
        Ok(())
    }

    fn manifest(
        self,
        volume: brickmesh_topology::VolumeDescription,
        source: String,
    ) -> Result<Manifest, brickmesh_topology::manifest::ManifestError> {
        let ends = self.records.iter().map(|r| r.range);
        let range = ends
            .reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])])
            .unwrap_or([0.0; 2]);
        Manifest::try_from(ManifestParts {
            version: MANIFEST_VERSION,
            volume,
            brick_edge: self.grid.edge(),
            range,
            histogram: self.values.histogram(range),
            source,
            bricks: self.records,
        })
    }
}

fn range(voxel: VoxelType, bytes: &[u8]) -> [f64; 2] {
    let values = (0..bytes.len())
        .step_by(voxel.bytes())
        .map(|at| voxel.read(bytes, at));
    let (low, high) = values.fold((f32::INFINITY, f32::NEG_INFINITY), |(l, h), v| {
        (l.min(v), h.max(v))
    });
    [f64::from(low), f64::from(high)]
}

/// Counts values: exactly up to 16 bits; f32 by the upper half of their ordered bits, so that no
/// range need be known beforehand.
struct Values {
    voxel: VoxelType,
    counts: Vec<u64>,
}

impl Values {
    fn new(voxel: VoxelType) -> Self {
        Self {
            voxel,
            counts: vec![0; FINE_BINS],
        }
    }

    fn count(&mut self, row: &[u8]) {
        for at in (0..row.len()).step_by(self.voxel.bytes()) {
            let bin = fine_bin(self.voxel, self.voxel.read(row, at));
            self.counts[bin] += 1;
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to the bins before"
    )]
    fn histogram(&self, range: [f64; 2]) -> Vec<u64> {
        let mut out = vec![0; HISTOGRAM_BINS];
        let width = (range[1] - range[0]).max(f64::MIN_POSITIVE);
        for (bin, &n) in self.counts.iter().enumerate().filter(|(_, n)| **n > 0) {
            let share = (fine_value(self.voxel, bin) - range[0]) / width;
            let to = (share * HISTOGRAM_BINS as f64).clamp(0.0, (HISTOGRAM_BINS - 1) as f64);
            out[to as usize] += n;
        }
        out
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "stored numbers are 16 bits wide"
)]
fn fine_bin(voxel: VoxelType, v: f32) -> usize {
    match voxel {
        VoxelType::F32 => {
            let bits = v.to_bits();
            let ordered = if bits >> 31 == 1 {
                !bits
            } else {
                bits | 1 << 31
            };
            (ordered >> 16) as usize
        }
        VoxelType::U8 | VoxelType::U16 => v as usize,
        VoxelType::I8 | VoxelType::I16 => (v + 32_768.0) as usize,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "bins are below 2^16")]
fn fine_value(voxel: VoxelType, bin: usize) -> f64 {
    match voxel {
        VoxelType::F32 => {
            let ordered = (bin as u32) << 16 | 0x8000;
            let bits = if ordered >> 31 == 1 {
                ordered & !(1 << 31)
            } else {
                !ordered
            };
            f64::from(f32::from_bits(bits))
        }
        VoxelType::U8 | VoxelType::U16 => bin as f64,
        VoxelType::I8 | VoxelType::I16 => bin as f64 - 32_768.0,
    }
}
