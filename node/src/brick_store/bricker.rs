//! Cuts a stream of voxels into bricks (`cutter`), and the coarser levels that are made of it (`level_cutter`): while
//! some rows are cut, looked at and halved on several cores, the next ones are read.

use super::{
    BRICK_BYTES_MAX, BrickStoreError, OnProgress, check_brick_count,
    cutter::{Cutter, OnBrick},
    empty_space::{EmptySpace, EmptySpaceGathering},
    layers::Gather,
    level_cutter::{self, LevelCutter},
};
use crate::volume_file::VolumeFile;
use brickmesh_topology::{BrickGrid, Manifest, data::value_gathering::ValueGathering};
use std::path::Path;

/// Bytes of the rows that are taken at a time, about; as much is read meanwhile.
const BATCH_BYTES: usize = 2 << 20;

/// Rows of a slice that are taken together.
pub(super) struct Batch {
    pub(super) z: u32,
    /// The first one.
    pub(super) y: u32,
    pub(super) rows: usize,
    /// Of its slice.
    pub(super) is_last: bool,
}

/// All rows of a volume, in their order.
pub(super) fn batches(
    [_, height, depth]: [u32; 3],
    row_bytes: usize,
) -> impl Iterator<Item = Batch> {
    let rows = u32::try_from(BATCH_BYTES / row_bytes.max(1)).unwrap_or(u32::MAX);
    let rows = rows.clamp(1, height);
    let of_slice = move |z| (0..height).step_by(rows as usize).map(move |y| (z, y));
    (0..depth).flat_map(of_slice).map(move |(z, y)| Batch {
        z,
        y,
        rows: rows.min(height - y) as usize,
        is_last: y + rows >= height,
    })
}

/// The grid of a volume cut into bricks of `edge`, if peers can share it.
pub(super) fn grid(file: &VolumeFile, edge: u32) -> Result<BrickGrid, BrickStoreError> {
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

/// The name of a file, for people.
pub(super) fn source_name(file: &VolumeFile) -> String {
    let name = file.path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Bytes of all bricks of a volume, ghosts included.
pub(super) fn brick_bytes(file: &VolumeFile, edge: u32) -> Result<u64, BrickStoreError> {
    let grid = grid(file, edge)?;
    let voxels = grid.bricks().map(|b| grid.stored_box(b).voxel_count());
    Ok(voxels.sum::<u64>() * file.description.voxel.bytes() as u64)
}

/// Cuts a whole volume and `levels_max` of its levels; returns its manifest, and theirs from level 1 on. `empty`: what is empty, and the
/// file that the slab projections go to; then no levels are made, as their means would be of what is cut away.
pub(super) fn cut(
    file: &VolumeFile,
    edge: u32,
    levels_max: usize,
    gather: Gather<'_>,
    empty: Option<(&EmptySpace, &Path)>,
    progress: OnProgress<'_>,
    on_brick: OnBrick<'_>,
) -> Result<(Manifest, Vec<Manifest>), BrickStoreError> {
    let volume = &file.description;
    let grid = grid(file, edge)?;
    let mut cutter = Cutter::new(0, grid, volume, gather);
    let mut empty = empty
        .map(|(empty, path)| EmptySpaceGathering::new(empty, volume, grid, path))
        .transpose()?;
    let levels_max = if empty.is_some() { 0 } else { levels_max };
    let volumes = level_cutter::volumes(volume, edge, levels_max);
    let mut levels = LevelCutter::new(&volumes, edge, gather);
    let mut values = ValueGathering::new(volume);
    let row_bytes = volume.dims[0] as usize * volume.voxel.bytes();
    let (total, mut done) = (volume.voxel_bytes(), 0);
    // Only a scratch file can fail here.
    let io = BrickStoreError::io(gather.folder_or(&file.path));
    let mut stream = file.voxels()?;
    let mut batches = batches(volume.dims, row_bytes).peekable();
    let (mut bytes, mut next_bytes) = (Vec::new(), Vec::new());
    let mut read = |batch: Option<&Batch>, bytes: &mut Vec<u8>| {
        bytes.resize(batch.map_or(0, |batch| batch.rows * row_bytes), 0);
        stream.read(bytes)
    };
    read(batches.peek(), &mut bytes)?;
    while let Some(Batch { z, y, is_last, .. }) = batches.next() {
        if y == 0 {
            cutter.open_layers(z).map_err(&io)?;
        }
        let rows = || (y..).zip(bytes.chunks_exact(row_bytes));
        let cut = || rows().try_for_each(|(y, row)| cutter.scatter(y, z, row));
        let look_at = || rows().for_each(|(y, row)| values.row(y, z, row));
        let halve = || rows().for_each(|(y, row)| levels.row(y, row));
        let take = || rayon::join(cut, || rayon::join(look_at, halve)).0;
        let (taken, next) = rayon::join(take, || read(batches.peek(), &mut next_bytes));
        taken.map_err(&io)?;
        if let Some(empty) = &mut empty {
            rows().for_each(|(_, row)| empty.row(row));
        }
        done += bytes.len() as u64;
        if is_last {
            if let Some(empty) = &mut empty {
                empty.slice(z)?;
            }
            if !progress(done, total) {
                return Err(BrickStoreError::Stopped);
            }
            cutter.close_layers(z, &io, empty.as_ref(), on_brick)?;
            levels.end_slice(z, &io, on_brick)?;
        }
        next?;
        std::mem::swap(&mut bytes, &mut next_bytes);
    }
    stream.finish()?;
    let source = source_name(file);
    let kept_voxels = empty.map(EmptySpaceGathering::finish).transpose()?;
    let wrong = BrickStoreError::manifest(&file.path);
    let coarser = levels.manifests(&source).map_err(&wrong)?;
    let names = coarser.iter().map(Manifest::digest).collect();
    let exact = cutter.manifest(&source, values.finish(), kept_voxels, names);
    Ok((exact.map_err(wrong)?, coarser))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume_file;
    use brickmesh_topology::{
        Digest, VolumeDescription, VoxelBox, VoxelType,
        data::{levels, value_statistics::HISTOGRAM_BINS},
    };
    use std::{collections::BTreeMap, fs, path::Path, sync::Mutex};

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
        let bricks: Mutex<BTreeMap<_, _>> = Mutex::default();
        let manifests = cut(
            file,
            edge,
            0,
            gather,
            None,
            &mut |_, _| true,
            &|_, brick, _, bytes| {
                let before = bricks.lock().unwrap().insert(brick, bytes);
                assert_eq!(before, None, "each comes once");
                Ok(())
            },
        );
        let bricks = bricks.into_inner().unwrap();
        (manifests.unwrap().0, bricks.into_values().collect())
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

    /// The voxels of level 1 as bytes, made with the whole volume at hand.
    fn halved(whole: &[u8], from: &VolumeDescription, to: &VolumeDescription) -> Vec<u8> {
        let n = from.voxel.bytes();
        let times: [u32; 3] = std::array::from_fn(|a| from.dims[a].div_ceil(to.dims[a]));
        let mut bytes = Vec::new();
        for z in 0..to.dims[2] {
            for y in 0..to.dims[1] {
                for x in 0..to.dims[0] {
                    let span =
                        |a: usize, at: u32| at * times[a]..((at + 1) * times[a]).min(from.dims[a]);
                    let mut found = Vec::new();
                    for (i, j) in span(2, z).flat_map(|i| span(1, y).map(move |j| (i, j))) {
                        for k in span(0, x) {
                            let at = ((i * from.dims[1] + j) * from.dims[0] + k) as usize * n;
                            found.push(from.voxel.read(whole, at) / 8.0);
                        }
                    }
                    let mean = found.iter().sum::<f32>() * (8.0 / found.len() as f32);
                    levels::append(mean, to, &mut bytes);
                }
            }
        }
        bytes
    }

    #[test]
    fn levels_are_cut_in_the_same_pass_and_each_is_the_mean_of_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        for (seed, dims) in (0..5).map(|seed| (seed, [67, 34 + seed, 40])) {
            let (file, bytes) = volume(folder.path(), seed, dims);
            let gather = Gather::Bounded {
                layer_bytes_max: if seed % 2 == 0 { 0 } else { u64::MAX },
                scratch: folder.path(),
            };
            let bricks = Mutex::new(Vec::new());
            let (exact, coarser) = cut(
                &file,
                16,
                usize::MAX,
                gather,
                None,
                &mut |_, _| true,
                &|level, brick, _, bytes| {
                    bricks.lock().unwrap().push(((level, brick), bytes));
                    Ok(())
                },
            )
            .unwrap();
            let bricks = bricks.into_inner().unwrap();
            let volumes = levels::levels(&file.description, 16);
            assert_eq!(volumes.len(), 3, "{volumes:?}");
            let names: Vec<Digest> = coarser.iter().map(Manifest::digest).collect();
            assert_eq!(exact.levels(), names);
            let of_volumes: Vec<_> = coarser.iter().map(|m| m.volume().clone()).collect();
            assert_eq!(of_volumes, volumes[1..]);
            let whole = halved(&bytes, &volumes[0], &volumes[1]);
            let level = &coarser[0];
            for brick in level.grid().bricks() {
                let stored = level.grid().stored_box(brick);
                let expected = direct(&whole, volumes[1].dims, volumes[1].voxel.bytes(), &stored);
                let found = bricks.iter().find(|(of, _)| *of == (1, brick)).unwrap();
                assert_eq!(found.1, expected, "{seed} {brick:?}");
                assert_eq!(level.brick_digest(brick), Digest::of(&expected));
            }
            let expected: u32 = [&exact]
                .into_iter()
                .chain(&coarser)
                .map(|m| m.grid().brick_count())
                .sum();
            assert_eq!(bricks.len(), expected as usize);
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
        let on_brick = &|_, _, _, _| Ok(());
        let cut = cut(&file, 8, 0, gather, None, &mut |_, _| true, on_brick);
        let error = cut.unwrap_err();
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
                0,
                Gather::Memory,
                None,
                &mut progress,
                &|_, _, _, _| Ok(()),
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
