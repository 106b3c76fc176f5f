//! A volume file whose bricks are cut out of it when they are asked for: it is read once, for the manifest, and copied nowhere.
//!
//! Invariants: a row of bricks for each thread is in memory while it is read, whatever the volume's size; what is read later is checked
//! against what was read then, as files can change.

use super::{
    BrickStoreError, OnProgress, bricker,
    cutter::{Cutter, FINISHED_BYTES},
    layers::Gather,
};
use crate::volume_file::{PlainVoxels, Problem, VolumeFile, VolumeFileError, VoxelStream};
use brickmesh_actors::data_set::{BrickSource, SourceError};
use brickmesh_topology::{
    BrickGrid, BrickIndex, Digest, Manifest, VoxelBox, data::value_gathering::ValueGathering,
};
use bytes::Bytes;
use rayon::prelude::*;
use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    ops::Range,
    sync::Arc,
};

/// Rows of a volume up to so many bytes are read whole for a brick's part of them: disks give no less than some KiB.
const ROW_BYTES_WHOLE: usize = 16 << 10;

/// See the module.
#[derive(Debug)]
pub struct InPlaceStore {
    voxels: Voxels,
    manifest: Arc<Manifest>,
}

/// Boxes of a volume in its file.
#[derive(Debug)]
struct Voxels {
    file: PlainVoxels,
    grid: BrickGrid,
    voxel_bytes: usize,
}

/// Reads a file once.
pub(super) fn open(
    file: &VolumeFile,
    edge: u32,
    progress: OnProgress<'_>,
) -> Result<InPlaceStore, BrickStoreError> {
    let plain = file
        .plain_voxels()
        .map_err(BrickStoreError::io(&file.path))?;
    let plain = plain.ok_or_else(|| BrickStoreError::NotInPlace {
        path: file.path.clone(),
    })?;
    let volume = &file.description;
    let grid = bricker::grid(file, edge)?;
    let voxels = Voxels {
        file: plain,
        grid,
        voxel_bytes: volume.voxel.bytes(),
    };
    let mut cutter = Cutter::new(0, grid, volume, Gather::Memory);
    let mut values = ValueGathering::new(volume);
    check_length(file, &voxels.file)?;
    let mut stream = file.voxels()?;
    let (total, mut done) = (volume.voxel_bytes(), 0);
    let [cx, cy, cz] = grid.counts();
    for layer in 0..cz {
        let owned = grid.owned_box(BrickIndex(layer * cx * cy));
        let slices = owned.lo[2]..owned.hi[2];
        let cut = || cut(&mut cutter, &voxels, layer);
        let look_at = || look_at(&mut values, &mut stream, &voxels, slices.clone());
        let (cut, looked_at) = rayon::join(cut, look_at);
        looked_at?;
        cut?;
        done += total / u64::from(volume.dims[2]) * slices.len() as u64;
        if !progress(done, total) {
            return Err(BrickStoreError::Stopped);
        }
    }
    stream.finish()?;
    let name = bricker::source_name(file);
    let manifest = cutter.manifest(&name, values.finish(), None, Vec::new());
    let manifest = manifest.map_err(BrickStoreError::manifest(&file.path))?;
    Ok(InPlaceStore {
        voxels,
        manifest: Arc::new(manifest),
    })
}

/// Bricks are read before the stream comes to the end of a file that was cut off.
fn check_length(file: &VolumeFile, voxels: &PlainVoxels) -> Result<(), BrickStoreError> {
    let io = BrickStoreError::io(voxels.path());
    let length = File::open(voxels.path()).and_then(|f| f.metadata());
    let found = length.map_err(io)?.len().saturating_sub(voxels.offset());
    let expected = file.description.voxel_bytes();
    if found < expected {
        return Err(BrickStoreError::Volume(VolumeFileError {
            path: file.path.clone(),
            problem: Problem::Length { found, expected },
        }));
    }
    Ok(())
}

/// Gathers what the values of some slices are like.
fn look_at(
    values: &mut ValueGathering,
    stream: &mut VoxelStream,
    voxels: &Voxels,
    slices: Range<u32>,
) -> Result<(), VolumeFileError> {
    let mut bytes = Vec::new();
    let [nx, ny, _] = voxels.grid.dims();
    let row_bytes = nx as usize * voxels.voxel_bytes;
    for batch in bricker::batches([nx, ny, slices.end - slices.start], row_bytes) {
        bytes.resize(batch.rows * row_bytes, 0);
        stream.read(&mut bytes)?;
        let rows = (batch.y..).zip(bytes.chunks_exact(row_bytes));
        rows.for_each(|(y, row)| values.row(y, slices.start + batch.z, row));
    }
    Ok(())
}

/// Works out what is said of the bricks of a layer.
fn cut(cutter: &mut Cutter<'_>, voxels: &Voxels, layer: u32) -> Result<(), BrickStoreError> {
    let [cx, cy, _] = voxels.grid.counts();
    let row = |by: u32| (0..cx).map(move |bx| BrickIndex(bx + cx * (by + cy * layer)));
    let boxes = row(0).map(|b| voxels.grid.stored_box(b).voxel_count());
    let bytes = boxes.sum::<u64>() * voxels.voxel_bytes as u64;
    let rows = u32::try_from(FINISHED_BYTES as u64 / bytes.max(1)).unwrap_or(u32::MAX);
    let rows = rows.max(u32::try_from(rayon::current_num_threads()).unwrap_or(1));
    for first in (0..cy).step_by(rows as usize) {
        let rows = (first..cy.min(first.saturating_add(rows))).into_par_iter();
        let read = rows.map(|by| voxels.row_of_bricks(row(by).collect()));
        let read: io::Result<Vec<_>> = read.collect();
        let read = read.map_err(BrickStoreError::io(voxels.file.path()))?;
        cutter.finish(read.into_iter().flatten().collect(), &|_, _, _, _| Ok(()))?;
    }
    Ok(())
}

impl Voxels {
    /// The bricks of a row along x, all of it read together.
    fn row_of_bricks(&self, bricks: Vec<BrickIndex>) -> io::Result<Vec<(BrickIndex, Vec<u8>)>> {
        let mut file = File::open(self.file.path())?;
        let mut row: Vec<(BrickIndex, VoxelBox, Vec<u8>)> = Vec::new();
        for brick in bricks {
            row.push((brick, self.grid.stored_box(brick), Vec::new()));
        }
        let Some((_, first, _)) = row.first() else {
            return Ok(Vec::new());
        };
        let (ys, zs) = (first.lo[1]..first.hi[1], first.lo[2]..first.hi[2]);
        let row_bytes = self.grid.dims()[0] as usize * self.voxel_bytes;
        let mut slice = vec![0; ys.len() * row_bytes];
        for z in zs {
            self.seek(&mut file, [0, ys.start, z])?;
            file.read_exact(&mut slice)?;
            for (_, stored, bytes) in &mut row {
                let [low, high] =
                    [stored.lo[0], stored.hi[0]].map(|x| x as usize * self.voxel_bytes);
                let rows = slice.chunks_exact(row_bytes);
                rows.for_each(|row| bytes.extend_from_slice(&row[low..high]));
            }
        }
        let in_order = |bytes| self.file.little_endian(bytes, self.voxel_bytes);
        Ok(row
            .into_iter()
            .map(|(brick, _, bytes)| (brick, in_order(bytes)))
            .collect())
    }

    /// The voxels of a box.
    fn read(&self, stored: &VoxelBox) -> io::Result<Vec<u8>> {
        let mut file = File::open(self.file.path())?;
        let [width, height, _] = stored.size().map(|n| n as usize);
        let width = width * self.voxel_bytes;
        let row_bytes = self.grid.dims()[0] as usize * self.voxel_bytes;
        let [x, y, _] = stored.lo;
        let mut bytes = Vec::new();
        // From the first voxel of a slice to its last one, or row by row.
        let is_whole = row_bytes <= ROW_BYTES_WHOLE;
        let (rows, length) = if is_whole {
            (1, (height - 1) * row_bytes + width)
        } else {
            (height, width)
        };
        let mut part = vec![0; length];
        for (z, row) in
            (stored.lo[2]..stored.hi[2]).flat_map(|z| (y..).take(rows).map(move |y| (z, y)))
        {
            self.seek(&mut file, [x, row, z])?;
            file.read_exact(&mut part)?;
            let rows = part.chunks(row_bytes);
            rows.for_each(|row| bytes.extend_from_slice(&row[..width]));
        }
        Ok(self.file.little_endian(bytes, self.voxel_bytes))
    }

    /// Goes to a voxel.
    fn seek(&self, file: &mut File, voxel: [u32; 3]) -> io::Result<()> {
        let [nx, ny, _] = self.grid.dims().map(u64::from);
        let [x, y, z] = voxel.map(u64::from);
        let at = (x + nx * (y + ny * z)) * self.voxel_bytes as u64;
        file.seek(SeekFrom::Start(self.file.offset() + at))
            .map(drop)
    }
}

impl BrickSource for InPlaceStore {
    fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    fn read(&self, brick: BrickIndex) -> Result<Bytes, SourceError> {
        let grid = self.manifest.grid();
        if brick.0 >= grid.brick_count() {
            return Err(SourceError {
                what: format!("brick {} is not in the grid", brick.0),
            });
        }
        let path = self.voxels.file.path().display();
        let bytes = self.voxels.read(&grid.stored_box(brick));
        let bytes = bytes.map_err(|error| SourceError {
            what: format!("{path}: brick {} cannot be read: {error}", brick.0),
        })?;
        if Digest::of(&bytes) != self.manifest.brick_digest(brick) {
            return Err(SourceError {
                what: format!(
                    "{path}: brick {} is not what it was when the file was opened: it was changed; open it again",
                    brick.0
                ),
            });
        }
        Ok(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{brick_store::load, volume_file};
    use std::{fs, path::Path};

    /// A volume of this size and type, in a header's byte order.
    fn volume(folder: &Path, dims: [u32; 3], voxel: &str, is_big_endian: bool) -> VolumeFile {
        let [x, y, z] = dims;
        let endian = if is_big_endian { "big" } else { "little" };
        let header = format!(
            "NRRD0004\ntype: {voxel}\ndimension: 3\nsizes: {x} {y} {z}\nencoding: raw\nendian: {endian}\n\n"
        );
        let count = x * y * z * 4;
        let voxels = (0..count).map(|i| (i * i / 7 % 61) as u8);
        let path = folder.join(format!("v-{voxel}-{endian}-{x}-{y}-{z}.nrrd"));
        let count = count as usize / 4 * if voxel == "float" { 4 } else { 2 };
        let bytes: Vec<u8> = header
            .into_bytes()
            .into_iter()
            .chain(voxels.take(count))
            .collect();
        fs::write(&path, bytes).unwrap();
        volume_file::open(&path).unwrap()
    }

    #[test]
    fn what_is_read_in_place_is_what_is_kept_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        for (dims, edge) in [
            ([23, 17, 12], 5),
            ([1, 9, 30], 4),
            ([9000, 5, 3], 64),
            ([40, 1, 1], 8),
        ] {
            for (voxel, is_big_endian) in [("int16", false), ("uint16", true), ("float", true)] {
                let file = volume(folder.path(), dims, voxel, is_big_endian);
                let mut said = Vec::new();
                let store = open(&file, edge, &mut |done, total| {
                    said.push((done, total));
                    true
                });
                let store = store.unwrap();
                let total = file.description.voxel_bytes();
                assert_eq!(said.last(), Some(&(total, total)));
                let memory = load(&file, edge, u64::MAX, &mut |_, _| true).unwrap();
                assert!(store.manifest() == memory.manifest(), "{dims:?} {voxel}");
                for brick in store.manifest().grid().bricks() {
                    let [found, expected] = [store.read(brick), memory.read(brick)];
                    assert_eq!(
                        found.unwrap(),
                        expected.unwrap(),
                        "{dims:?} {voxel} {}",
                        brick.0
                    );
                }
                assert!(store.read(BrickIndex(u32::MAX)).is_err());
            }
        }
    }

    #[test]
    fn a_file_that_changes_is_found_out_and_what_is_packed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = volume(folder.path(), [23, 17, 12], "int16", false);
        let stopped = open(&file, 5, &mut |_, _| false);
        assert!(matches!(stopped, Err(BrickStoreError::Stopped)));
        let store = open(&file, 5, &mut |_, _| true).unwrap();
        let good = fs::read(&file.path).unwrap();
        let first = BrickIndex(0);
        let last = BrickIndex(store.manifest().grid().brick_count() - 1);
        let told = |brick: BrickIndex, words: &str| {
            let error = store.read(brick).unwrap_err().what;
            let parts = [
                words,
                &format!("brick {}", brick.0),
                &file.path.display().to_string(),
            ];
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        };
        let mut changed = good.clone();
        let end = changed.len() - 1;
        changed[end] ^= 1;
        fs::write(&file.path, &changed).unwrap();
        assert!(store.read(first).is_ok());
        told(last, "changed");
        fs::write(&file.path, &good[..end]).unwrap();
        told(last, "cannot be read");
        let cut = open(&file, 5, &mut |_, _| true).unwrap_err().to_string();
        assert!(cut.contains("bytes of voxels"), "{cut}");
        fs::remove_file(&file.path).unwrap();
        told(first, "cannot be read");
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data");
        let packed = volume_file::open(&data.join("neghip_64x64x64_uint8.raw.gz")).unwrap();
        let error = open(&packed, 16, &mut |_, _| true).unwrap_err().to_string();
        assert!(error.contains("brickmesh import"), "{error}");
    }
}
