//! Cuts an uncompressed file into bricks without gathering rows: a row of bricks is read together, out of the file, on each core, while the
//! values pass by and coarser levels are made of them.
//!
//! Invariant: a row of bricks for each thread is in memory, whatever the volume's size.

use super::{
    BrickStoreError, OnProgress, bricker,
    checkpoint::{Checkpoint, read_value, write_value},
    cutter::{Cutter, FINISHED_BYTES, OnBrick},
    layers::Gather,
    level_cutter::{self, LevelCutter},
};
use crate::volume_file::{PlainVoxels, Problem, VolumeFile, VolumeFileError, VoxelStream};
use brickmesh_topology::{
    BrickGrid, BrickIndex, Manifest, VoxelBox, data::value_gathering::ValueGathering,
};
use rayon::prelude::*;
use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    ops::Range,
    path::Path,
};

/// Rows of a volume up to so many bytes are read whole for a brick's part of them: disks give no less than some KiB.
const ROW_BYTES_WHOLE: usize = 16 << 10;

/// Boxes of a volume in its file.
#[derive(Debug)]
pub(super) struct Voxels {
    file: PlainVoxels,
    grid: BrickGrid,
    voxel_bytes: usize,
}

impl Voxels {
    /// Those of a file cut into bricks of `edge`; `None`: no part of them can be read alone.
    pub(super) fn of(file: &VolumeFile, edge: u32) -> Result<Option<Self>, BrickStoreError> {
        let plain = file.plain_voxels();
        let Some(plain) = plain.map_err(BrickStoreError::io(&file.path))? else {
            return Ok(None);
        };
        check_length(file, &plain)?;
        Ok(Some(Self {
            file: plain,
            grid: bricker::grid(file, edge)?,
            voxel_bytes: file.description.voxel.bytes(),
        }))
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }
}

/// As `bricker::cut`, of a file with these voxels of which nothing is told to be empty; it goes on where a checkpoint was written.
pub(super) fn cut(
    file: &VolumeFile,
    voxels: &Voxels,
    levels_max: usize,
    gather: Gather<'_>,
    mut checkpoint: Option<&mut Checkpoint<'_>>,
    progress: OnProgress<'_>,
    on_brick: OnBrick<'_>,
) -> Result<(Manifest, Vec<Manifest>), BrickStoreError> {
    let (volume, grid) = (&file.description, voxels.grid);
    let mut cutter = Cutter::new(0, grid, volume, gather);
    let volumes = level_cutter::volumes(volume, grid.edge(), levels_max);
    let mut passing = Passing {
        values: ValueGathering::new(volume),
        levels: LevelCutter::new(&volumes, grid.edge(), gather),
        stream: file.voxels()?,
        scratch: gather.folder_or(voxels.path()),
        on_brick,
    };
    let total = volume.voxel_bytes();
    let [cx, cy, cz] = grid.counts();
    let slices_of = |layer| {
        let owned = grid.owned_box(BrickIndex(layer * cx * cy));
        owned.lo[2]..owned.hi[2]
    };
    let bytes_before = |z: u32| total / u64::from(volume.dims[2]) * u64::from(z);
    let mut first = 0;
    if let Some(checkpoint) = &checkpoint
        && checkpoint.restore(|from| {
            (first, passing.values) = read_value(from)?;
            passing.levels.restore(from)?;
            cutter.restore(from)
        })?
    {
        let done = bytes_before(slices_of(first).start);
        passing.stream = file.voxels_from(&voxels.file, done)?;
        tracing::info!(layer = first, "going on with an import that was killed");
    }
    for layer in first..cz {
        let slices = slices_of(layer);
        let cut = || cut_layer(&mut cutter, voxels, layer, on_brick);
        let pass = || passing.slices(voxels, slices.clone());
        let (cut, passed) = rayon::join(cut, pass);
        passed?;
        cut?;
        if !progress(bytes_before(slices.end), total) {
            return Err(BrickStoreError::Stopped);
        }
        let next = layer + 1;
        if let Some(checkpoint) = checkpoint.as_mut().filter(|_| next < cz) {
            checkpoint.save_if_due(|out| {
                write_value(out, &(next, &passing.values))?;
                passing.levels.save(out)?;
                cutter.save(out)
            })?;
        }
    }
    let Passing {
        values,
        levels,
        stream,
        ..
    } = passing;
    stream.finish()?;
    let source = bricker::source_name(file);
    let wrong = BrickStoreError::manifest(&file.path);
    let coarser = levels.manifests(&source).map_err(&wrong)?;
    let names = coarser.iter().map(Manifest::digest).collect();
    let exact = cutter.manifest(&source, values.finish(), None, names);
    Ok((exact.map_err(wrong)?, coarser))
}

/// What is made of a volume as it passes by.
struct Passing<'a> {
    values: ValueGathering,
    levels: LevelCutter<'a>,
    stream: VoxelStream,
    /// Only this can fail as levels are made.
    scratch: &'a Path,
    on_brick: OnBrick<'a>,
}

impl Passing<'_> {
    /// Takes the next slices.
    fn slices(&mut self, voxels: &Voxels, slices: Range<u32>) -> Result<(), BrickStoreError> {
        let mut bytes = Vec::new();
        let [nx, ny, _] = voxels.grid.dims();
        let row_bytes = nx as usize * voxels.voxel_bytes;
        let io = BrickStoreError::io(self.scratch);
        let Self {
            values,
            levels,
            stream,
            on_brick,
            ..
        } = self;
        for batch in bricker::batches([nx, ny, slices.end - slices.start], row_bytes) {
            bytes.resize(batch.rows * row_bytes, 0);
            stream.read(&mut bytes)?;
            let z = slices.start + batch.z;
            let rows = || (batch.y..).zip(bytes.chunks_exact(row_bytes));
            let look_at = || rows().for_each(|(y, row)| values.row(y, z, row));
            let halve = || rows().for_each(|(y, row)| levels.row(y, row));
            rayon::join(look_at, halve);
            if batch.is_last {
                levels.end_slice(z, &io, *on_brick)?;
            }
        }
        Ok(())
    }
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

/// Cuts and finishes the bricks of a layer.
fn cut_layer(
    cutter: &mut Cutter<'_>,
    voxels: &Voxels,
    layer: u32,
    on_brick: OnBrick<'_>,
) -> Result<(), BrickStoreError> {
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
        cutter.finish(read.into_iter().flatten().collect(), on_brick)?;
    }
    Ok(())
}

impl Voxels {
    /// The bricks of a row along x, all of it read together.
    fn row_of_bricks(&self, bricks: Vec<BrickIndex>) -> io::Result<Vec<(BrickIndex, Vec<u8>)>> {
        let mut file = self.open()?;
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

    /// The file, opened.
    pub(super) fn open(&self) -> io::Result<File> {
        File::open(self.file.path())
    }

    /// The voxels of a box.
    pub(super) fn read(&self, file: &mut File, stored: &VoxelBox) -> io::Result<Vec<u8>> {
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
            self.seek(file, [x, row, z])?;
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
