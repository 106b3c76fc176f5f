//! The coarser levels of a volume, made and cut while its voxels stream by.

use super::{
    BrickStoreError,
    checkpoint::{read_value, write_value},
    cutter::{Cutter, OnBrick},
    layers::Gather,
};
use brickmesh_topology::{
    BrickGrid, Manifest, VolumeDescription, VoxelBox,
    data::{
        levels::{self, Halving},
        manifest::ManifestError,
        number_rows::numbers_of,
        value_gathering::ValueGathering,
    },
};
use std::io::{self, Read, Write};

/// Memory that the slice of a level may take while it is made, bytes.
const SLICE_BYTES_MAX: u64 = 256 << 20;
/// Bytes of a sample of it, and of those of further levels: a sum, a count and a mean, and a third of that.
const SAMPLE_BYTES: u64 = 12;

/// A volume and the levels that are to be made of it, finest first, `levels_max` at most; none, where their slices are too large.
pub(super) fn volumes(
    volume: &VolumeDescription,
    edge: u32,
    levels_max: usize,
) -> Vec<VolumeDescription> {
    let mut all = levels::levels(volume, edge);
    all.truncate(levels_max.saturating_add(1));
    let bytes = |v: &VolumeDescription| u64::from(v.dims[0]) * u64::from(v.dims[1]) * SAMPLE_BYTES;
    if all.get(1).is_some_and(|v| bytes(v) > SLICE_BYTES_MAX) {
        let [x, y, _] = volume.dims;
        tracing::warn!("slices of {x}x{y} voxels are too large to make levels of: there are none");
        all.truncate(1);
    }
    all
}

/// The voxels of a box of level 1 of a volume; `read` gives those of the volume in a box.
pub(super) fn halved(
    exact: &VolumeDescription,
    level: &VolumeDescription,
    stored: &VoxelBox,
    mut read: impl FnMut(&VoxelBox) -> io::Result<Vec<u8>>,
) -> io::Result<Vec<u8>> {
    let of_size = |volume: &VolumeDescription, dims| VolumeDescription {
        dims,
        ..volume.clone()
    };
    let whole = levels::in_exact(stored, exact, level);
    let (from, to) = (of_size(exact, whole.size()), of_size(level, stored.size()));
    let mut halving = Halving::new(&from, &to);
    let (mut bytes, mut numbers, mut means) = (Vec::new(), Vec::new(), Vec::new());
    let [width, _, depth] = from.dims;
    for z in 0..depth {
        let mut slice = whole;
        (slice.lo[2], slice.hi[2]) = (whole.lo[2] + z, whole.lo[2] + z + 1);
        let voxels = read(&slice)?;
        let rows = voxels.chunks_exact(width as usize * from.voxel.bytes());
        for (y, row) in (0..).zip(rows) {
            numbers_of(&from, row, &mut numbers);
            halving.row(y, &numbers);
        }
        if halving.end_slice(z, &mut means).is_some() {
            levels::append_all(&means, &to, &mut bytes);
        }
    }
    Ok(bytes)
}

/// A level that is being made.
struct Stage<'a> {
    volume: &'a VolumeDescription,
    halving: Halving,
    cutter: Cutter<'a>,
    values: ValueGathering,
    /// Its slice that is whole.
    means: Vec<f32>,
}

/// See the module.
pub(super) struct LevelCutter<'a> {
    exact: &'a VolumeDescription,
    /// From level 1 on.
    stages: Vec<Stage<'a>>,
    numbers: Vec<f32>,
}

impl<'a> LevelCutter<'a> {
    /// Makes all of these volumes but the first, of the first.
    pub(super) fn new(volumes: &'a [VolumeDescription], edge: u32, gather: Gather<'a>) -> Self {
        let stage = |(level, pair): (usize, &'a [VolumeDescription])| {
            let (from, to) = (&pair[0], &pair[1]);
            // It has fewer bricks than the one before it, whose grid is good.
            let grid = BrickGrid::new(to.dims, edge).ok()?;
            Some(Stage {
                volume: to,
                halving: Halving::new(from, to),
                cutter: Cutter::new(level, grid, to, gather.of_level(level)),
                values: ValueGathering::new(to),
                means: Vec::new(),
            })
        };
        Self {
            exact: &volumes[0],
            stages: (1..).zip(volumes.windows(2)).map_while(stage).collect(),
            numbers: Vec::new(),
        }
    }

    /// Takes row y of the volume.
    pub(super) fn row(&mut self, y: u32, row: &[u8]) {
        if let Some(first) = self.stages.first_mut() {
            numbers_of(self.exact, row, &mut self.numbers);
            first.halving.row(y, &self.numbers);
        }
    }

    /// All rows of slice z have come.
    pub(super) fn end_slice(
        &mut self,
        z: u32,
        io: &impl Fn(io::Error) -> BrickStoreError,
        on_brick: OnBrick<'_>,
    ) -> Result<(), BrickStoreError> {
        let (mut stages, mut z) = (self.stages.as_mut_slice(), z);
        while let Some((stage, coarser)) = stages.split_first_mut() {
            let Some(at) = stage.halving.end_slice(z, &mut stage.means) else {
                return Ok(());
            };
            stage.cutter.open_layers(at).map_err(io)?;
            let mut bytes = Vec::new();
            let rows = stage.means.chunks_exact(stage.volume.dims[0] as usize);
            for (y, row) in (0..).zip(rows) {
                bytes.clear();
                levels::append_all(row, stage.volume, &mut bytes);
                stage.values.row(y, at, &bytes);
                stage.cutter.scatter(y, at, &bytes).map_err(io)?;
                if let Some(next) = coarser.first_mut() {
                    next.halving.row(y, row);
                }
            }
            stage.cutter.close_layers(at, io, None, on_brick)?;
            (stages, z) = (coarser, at);
        }
        Ok(())
    }

    /// Writes what has come, between two slices.
    pub(super) fn save(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.stages.iter_mut().try_for_each(|stage| {
            write_value(out, &(&stage.halving, &stage.values))?;
            stage.cutter.save(out)
        })
    }

    /// Goes on where that was written.
    pub(super) fn restore(&mut self, from: &mut dyn Read) -> io::Result<()> {
        self.stages.iter_mut().try_for_each(|stage| {
            (stage.halving, stage.values) = read_value(from)?;
            stage.cutter.restore(from)
        })
    }

    /// The manifests, from level 1 on, of a volume that came from this file.
    pub(super) fn manifests(self, source: &str) -> Result<Vec<Manifest>, ManifestError> {
        let manifest = |(level, stage): (usize, Stage<'_>)| {
            let source = format!("{source} level {level}");
            let values = stage.values.finish();
            stage.cutter.manifest(&source, values, None, Vec::new())
        };
        (1..).zip(self.stages).map(manifest).collect()
    }
}
