//! Cuts a stream of voxels into bricks: row by row, each row scattered to the bricks whose stored
//! box it crosses; a layer of bricks is finished as soon as its last slice has come.
//!
//! Invariants: at most the two layers that overlap in z are open (a brick is at least four voxels
//! thick, its ghosts three); rows of a brick's slice are gathered before they go to
//! the layer, so that a scratch file sees long writes.

use super::{
    BRICK_BYTES_MAX, BrickStoreError, OnProgress, check_brick_count,
    empty_space::{EmptySpace, EmptySpaceGathering},
    layers::{Gather, Layer},
};
use crate::volume_file::VolumeFile;
use brickmesh_topology::{
    BrickGrid, BrickIndex, Digest, Manifest, VolumeDescription, VoxelBox,
    data::{
        gradient_histogram::GradientGathering,
        manifest::{BrickRecord, ManifestError, ManifestParts},
        value_gathering::ValueGathering,
    },
};
use std::{collections::BTreeMap, path::Path};

/// Takes a finished brick; bricks come layer by layer, in index order within one.
pub(super) type OnBrick<'a> =
    &'a mut dyn FnMut(BrickIndex, Digest, Vec<u8>) -> Result<(), BrickStoreError>;

/// The grid of a volume cut into bricks of `edge`, if peers can share it.
fn grid(file: &VolumeFile, edge: u32) -> Result<BrickGrid, BrickStoreError> {
    let volume = &file.description;
    let grid = BrickGrid::new(volume.dims, edge).map_err(|source| BrickStoreError::Grid {
        path: file.path.clone(),
        source,
    })?;
    check_brick_count(&file.path, &grid)?;
    let voxels = grid.bricks().map(|b| grid.stored_box(b).voxel_count());
    let found = voxels.max().unwrap_or(0) * volume.voxel.bytes() as u64;
    if found > BRICK_BYTES_MAX {
        return Err(BrickStoreError::BrickTooLarge {
            path: file.path.clone(),
            edge,
            found,
        });
    }
    Ok(grid)
}

/// Bytes of all bricks of a volume, ghosts included.
pub(super) fn brick_bytes(file: &VolumeFile, edge: u32) -> Result<u64, BrickStoreError> {
    let grid = grid(file, edge)?;
    let voxels = grid.bricks().map(|b| grid.stored_box(b).voxel_count());
    Ok(voxels.sum::<u64>() * file.description.voxel.bytes() as u64)
}

/// Cuts a whole volume; returns its manifest. `empty`: what is empty, and the file that the slab projections go to.
pub(super) fn cut(
    file: &VolumeFile,
    edge: u32,
    gather: Gather<'_>,
    empty: Option<(&EmptySpace, &Path)>,
    progress: OnProgress<'_>,
    on_brick: OnBrick<'_>,
) -> Result<Manifest, BrickStoreError> {
    let volume = &file.description;
    let voxel_bytes = volume.voxel.bytes();
    let grid = grid(file, edge)?;
    let mut cutter = Cutter::new(grid, volume, gather);
    let mut empty = empty
        .map(|(empty, path)| EmptySpaceGathering::new(empty, volume, grid, path))
        .transpose()?;
    let mut stream = file.voxels()?;
    let row_bytes = volume.dims[0] as usize * voxel_bytes;
    let mut row = vec![0; row_bytes];
    let (total, mut done) = (volume.voxel_bytes(), 0);
    // Only a scratch file can fail here.
    let io = BrickStoreError::io(match gather {
        Gather::Bounded { scratch, .. } => scratch,
        Gather::Memory => &file.path,
    });
    for z in 0..volume.dims[2] {
        cutter.open_layers(z).map_err(&io)?;
        for y in 0..volume.dims[1] {
            stream.read(&mut row)?;
            cutter.scatter(y, z, &row).map_err(&io)?;
            if let Some(empty) = &mut empty {
                empty.row(&row);
            }
        }
        if let Some(empty) = &mut empty {
            empty.slice(z)?;
        }
        done += row_bytes as u64 * u64::from(volume.dims[1]);
        if !progress(done, total) {
            return Err(BrickStoreError::Stopped);
        }
        cutter.close_layers(z, &io, empty.as_ref(), on_brick)?;
    }
    stream.finish()?;
    let source = file
        .path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let kept_voxels = empty.map(EmptySpaceGathering::finish).transpose()?;
    cutter
        .manifest(&source, kept_voxels)
        .map_err(BrickStoreError::manifest(&file.path))
}

/// Bricks on their way.
struct Cutter<'a> {
    grid: BrickGrid,
    volume: &'a VolumeDescription,
    gather: Gather<'a>,
    /// Open layers by bz.
    layers: BTreeMap<u32, Layer>,
    /// Of the bricks that are finished, in index order.
    records: Vec<BrickRecord>,
    values: ValueGathering,
    gradients: GradientGathering,
    /// Rows of one slice of one row of bricks, gathered by brick.
    slices: BTreeMap<BrickIndex, Vec<u8>>,
}

impl<'a> Cutter<'a> {
    fn new(grid: BrickGrid, volume: &'a VolumeDescription, gather: Gather<'a>) -> Self {
        Self {
            records: Vec::new(),
            values: ValueGathering::new(volume),
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
    fn open_layers(&mut self, z: u32) -> std::io::Result<()> {
        // A layer begins with its ghosts, in the layer before.
        let near = z / self.grid.edge();
        for bz in near..(near + 2).min(self.grid.counts()[2]) {
            if self.z_span(bz).0 == z && !self.layers.contains_key(&bz) {
                let sizes: Vec<u64> = self
                    .layer_bricks(bz)
                    .map(|b| self.bytes_of(&self.grid.stored_box(b)))
                    .collect();
                self.layers.insert(bz, Layer::new(&sizes, self.gather)?);
            }
        }
        Ok(())
    }

    /// Gives a row of the volume to the bricks that store it.
    fn scatter(&mut self, y: u32, z: u32, row: &[u8]) -> std::io::Result<()> {
        self.values.row(y, z, row);
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
    fn close_layers(
        &mut self,
        z: u32,
        io: &impl Fn(std::io::Error) -> BrickStoreError,
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
            for (within, brick) in self.layer_bricks(bz).enumerate() {
                let bytes = layer.take(within).map_err(io)?;
                let other = empty.and_then(|empty| empty.in_place_of(brick, &bytes));
                let bytes = other.unwrap_or(bytes);
                let record = BrickRecord::of(&self.grid, brick, self.volume, &bytes);
                self.gradients.brick(&self.grid, brick, &bytes);
                let digest = record.digest;
                debug_assert_eq!(self.records.len(), brick.0 as usize, "in index order");
                self.records.push(record);
                on_brick(brick, digest, bytes)?;
            }
        }
        Ok(())
    }

    fn manifest(
        self,
        source: &str,
        kept_voxels: Option<Vec<u32>>,
    ) -> Result<Manifest, ManifestError> {
        let edge = self.grid.edge();
        let mut parts = ManifestParts::new(self.volume.clone(), edge, source, self.records);
        parts.kept_voxels = kept_voxels;
        let values = self.values.finish();
        parts.gradients = self.gradients.finish(values.statistics.histogram_range);
        values.manifest(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume_file;
    use brickmesh_topology::{VoxelType, data::value_statistics::HISTOGRAM_BINS};
    use std::{fs, path::Path};

    const TYPES: [(VoxelType, &str); 5] = [
        (VoxelType::U8, "uint8"),
        (VoxelType::I8, "int8"),
        (VoxelType::U16, "uint16"),
        (VoxelType::I16, "int16"),
        (VoxelType::F32, "float32"),
    ];

    /// Bytes that look random and are the same in every run.
    fn noise(seed: u32, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        let mut hash = blake3::Hasher::new();
        hash.update(&seed.to_le_bytes());
        hash.finalize_xof().fill(&mut bytes);
        bytes
    }

    /// A volume of noise as a file, and its bytes.
    fn volume(folder: &Path, seed: u32, dims: [u32; 3]) -> (VolumeFile, Vec<u8>) {
        let (voxel, name) = TYPES[seed as usize % TYPES.len()];
        let count: u32 = dims.iter().product();
        let mut bytes = noise(seed, count as usize * voxel.bytes());
        if voxel == VoxelType::F32 {
            // The exponent's low bit cleared: every number is finite.
            bytes.chunks_exact_mut(4).for_each(|b| b[2] &= 0x7f);
        }
        let [x, y, z] = dims;
        let path = folder.join(format!("noise-{seed}_{x}x{y}x{z}_{name}.raw"));
        fs::write(&path, &bytes).unwrap();
        (volume_file::open(&path).unwrap(), bytes)
    }

    /// The voxels of a box, cut from the whole volume.
    fn direct(whole: &[u8], dims: [u32; 3], n: usize, stored: &VoxelBox) -> Vec<u8> {
        let mut out = Vec::new();
        for z in stored.lo[2]..stored.hi[2] {
            for y in stored.lo[1]..stored.hi[1] {
                let at = |x: u32| ((z * dims[1] + y) * dims[0] + x) as usize * n;
                out.extend_from_slice(&whole[at(stored.lo[0])..at(stored.hi[0])]);
            }
        }
        out
    }

    fn cut_all(file: &VolumeFile, edge: u32, gather: Gather<'_>) -> (Manifest, Vec<Vec<u8>>) {
        let mut bricks = Vec::new();
        let manifest = cut(
            file,
            edge,
            gather,
            None,
            &mut |_, _| true,
            &mut |b, _, bytes| {
                assert_eq!(b.0 as usize, bricks.len(), "bricks come in index order");
                bricks.push(bytes);
                Ok(())
            },
        );
        (manifest.unwrap(), bricks)
    }

    #[test]
    fn every_brick_is_its_box_of_the_volume_in_memory_and_through_a_scratch_file() {
        let folder = tempfile::tempdir().unwrap();
        for seed in 0..120 {
            let pick = noise(seed + 1000, 4);
            let dims = [0, 1, 2].map(|a| 1 + u32::from(pick[a]) % 26);
            let edge = 4 + u32::from(pick[3]) % 12;
            let (file, whole) = volume(folder.path(), seed, dims);
            let (manifest, bricks) = cut_all(&file, edge, Gather::Memory);
            let voxel = file.description.voxel;
            for (brick, bytes) in manifest.grid().bricks().zip(&bricks) {
                let stored = manifest.grid().stored_box(brick);
                let expected = direct(&whole, dims, voxel.bytes(), &stored);
                assert_eq!(bytes, &expected, "{dims:?} edge {edge} brick {}", brick.0);
                assert_eq!(manifest.brick_digest(brick), Digest::of(&expected));
                assert_eq!(manifest.brick_bytes(brick), expected.len() as u64);
            }
            let scratch = Gather::Bounded {
                layer_bytes_max: u64::from(pick[0]),
                scratch: folder.path(),
            };
            let through_file = cut_all(&file, edge, scratch);
            assert_eq!(through_file, (manifest, bricks), "{dims:?} edge {edge}");
        }
    }

    #[test]
    fn range_and_histogram_are_those_of_the_voxels() {
        let folder = tempfile::tempdir().unwrap();
        for seed in 0..10 {
            let (file, whole) = volume(folder.path(), seed, [13, 9, 11]);
            let (manifest, _) = cut_all(&file, 5, Gather::Memory);
            let voxel = file.description.voxel;
            let values: Vec<f64> = (0..whole.len())
                .step_by(voxel.bytes())
                .map(|at| f64::from(voxel.read(&whole, at)))
                .collect();
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            assert_eq!(manifest.range(), Some([low, high]), "{voxel:?}");
            let histogram = manifest.histogram();
            assert_eq!(histogram.iter().sum::<u64>(), 13 * 9 * 11);
            assert!(histogram[0] > 0 && histogram[HISTOGRAM_BINS - 1] > 0);
            if voxel != VoxelType::F32 {
                let half = f64::midpoint(low, high);
                let below = values.iter().filter(|&&v| v < half).count() as u64;
                let counted = histogram[..HISTOGRAM_BINS / 2].iter().sum::<u64>();
                assert_eq!(counted, below, "{voxel:?}");
            }
        }
    }

    #[test]
    fn a_scratch_file_that_cannot_be_made_is_told_with_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (file, _) = volume(folder.path(), 0, [9; 3]);
        let gone = folder.path().join("gone");
        let gather = Gather::Bounded {
            layer_bytes_max: 0,
            scratch: &gone,
        };
        let error = cut(&file, 8, gather, None, &mut |_, _| true, &mut |_, _, _| {
            Ok(())
        })
        .unwrap_err();
        assert!(error.to_string().contains("gone"), "{error}");
    }

    #[test]
    fn bricks_that_are_too_large_to_send_are_refused_before_anything_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large_512x512x512_uint8.raw");
        fs::File::create(&path).unwrap().set_len(512 << 18).unwrap();
        let file = volume_file::open(&path).unwrap();
        let cut = |edge| {
            let mut progress = |_, _| false;
            cut(
                &file,
                edge,
                Gather::Memory,
                None,
                &mut progress,
                &mut |_, _, _| Ok(()),
            )
        };
        let error = cut(512).unwrap_err().to_string();
        assert!(
            error.contains("edge 512") && error.contains("smaller"),
            "{error}"
        );
        let grid = cut(3).unwrap_err().to_string();
        assert!(
            grid.contains("large_512") && grid.contains("edge is 3"),
            "{grid}"
        );
    }
}
