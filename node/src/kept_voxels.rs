//! Which voxels of a volume are kept, slice by slice, in one pass over a file or a `.brickmesh` folder.
//!
//! Invariant: a slice at a time, or a layer of bricks of a folder, is in memory.
//! Source: Frank, Kaufman 2009, section 4.1 (a mask, or empty space by itself).

use crate::{
    args::EmptySpaceArgs,
    brick_store::{BrickStoreError, DirectoryStore, OnProgress},
    volume_file::{self, VolumeFile},
};
use brickmesh_actors::data_set::BrickSource as _;
use brickmesh_topology::{BrickIndex, VolumeDescription};
use std::collections::BTreeMap;

/// What is kept.
#[derive(Clone, Debug)]
pub(crate) enum Keep {
    /// Values in data units, the ends included.
    Values([f64; 2]),
    /// Where this volume of the same size is not 0.
    Mask(Box<VolumeFile>),
    /// All but the value that most voxels of the first slice's border have.
    NotTheBorder,
}

impl Keep {
    /// What is said to be kept of a volume.
    ///
    /// # Errors
    /// Where the mask cannot be read, or is of another size.
    pub(crate) fn new(
        args: &EmptySpaceArgs,
        volume: &VolumeDescription,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let Some(path) = &args.mask else {
            return Ok(args.keep.map_or(Self::NotTheBorder, Self::Values));
        };
        if path.is_dir() {
            let path = path.display();
            return Err(
                format!("--mask {path}: it is a folder; a mask must be a volume file").into(),
            );
        }
        let mask = volume_file::open(path)?;
        let (found, [x, y, z]) = (mask.description.dims, volume.dims);
        if found != volume.dims {
            return Err(format!(
                "--mask {}: it has {} x {} x {} voxels; the volume has {x} x {y} x {z}",
                path.display(),
                found[0],
                found[1],
                found[2]
            )
            .into());
        }
        Ok(Self::Mask(Box::new(mask)))
    }
}

/// Voxels that can be read once, from the first slice to the last.
#[derive(Debug)]
pub(crate) enum VoxelSource {
    /// A volume file.
    File(Box<VolumeFile>),
    /// A folder.
    Folder(Box<DirectoryStore>),
}

impl VoxelSource {
    /// The volume.
    pub(crate) fn volume(&self) -> &VolumeDescription {
        match self {
            Self::File(file) => &file.description,
            Self::Folder(store) => store.manifest().volume(),
        }
    }

    /// Calls `of` with each slice, as stored.
    fn slices(
        &self,
        progress: OnProgress<'_>,
        of: &mut dyn FnMut(&[f32]) -> Result<(), BrickStoreError>,
    ) -> Result<(), BrickStoreError> {
        match self {
            Self::File(file) => {
                let mut reader = SliceReader::new(file)?;
                for z in 0..file.description.dims[2] {
                    of(reader.next()?)?;
                    report(progress, z, file.description.dims[2])?;
                }
                Ok(reader.finish()?)
            }
            Self::Folder(store) => {
                let grid = store.manifest().grid();
                for bz in 0..grid.counts()[2] {
                    let layer = layer(store, bz)?;
                    let dims = grid.dims();
                    let slice = dims[0] as usize * dims[1] as usize;
                    layer.chunks(slice).try_for_each(&mut *of)?;
                    report(progress, bz, grid.counts()[2])?;
                }
                Ok(())
            }
        }
    }
}

fn report(progress: OnProgress<'_>, done: u32, of: u32) -> Result<(), BrickStoreError> {
    if progress(u64::from(done) + 1, of.into()) {
        Ok(())
    } else {
        Err(BrickStoreError::Stopped)
    }
}

/// The voxels that a layer of bricks owns.
fn layer(store: &DirectoryStore, bz: u32) -> Result<Vec<f32>, BrickStoreError> {
    let manifest = store.manifest();
    let (grid, voxel) = (manifest.grid(), manifest.volume().voxel);
    let [cx, cy, _] = grid.counts();
    let [nx, ny, _] = grid.dims().map(|n| n as usize);
    let first = grid.owned_box(BrickIndex(bz * cx * cy));
    let mut voxels = vec![0.0; nx * ny * first.size()[2] as usize];
    for brick in (bz * cx * cy..(bz + 1) * cx * cy).map(BrickIndex) {
        let (owned, stored) = (grid.owned_box(brick), grid.stored_box(brick));
        let bytes = store.read_checked(brick)?;
        let [sx, sy, _] = stored.size().map(|n| n as usize);
        let from = |a: usize| (owned.lo[a] - stored.lo[a]) as usize;
        let [ox, oy, oz] = owned.size().map(|n| n as usize);
        for z in 0..oz {
            for y in 0..oy {
                let source = from(0) + sx * (from(1) + y + sy * (from(2) + z));
                let target = owned.lo[0] as usize + nx * (owned.lo[1] as usize + y + ny * z);
                for x in 0..ox {
                    voxels[target + x] = voxel.read(&bytes, (source + x) * voxel.bytes());
                }
            }
        }
    }
    Ok(voxels)
}

/// Slices of a file, one after the other.
pub(crate) struct SliceReader<'a> {
    file: &'a VolumeFile,
    stream: volume_file::VoxelStream,
    row: Vec<u8>,
    slice: Vec<f32>,
}

impl<'a> SliceReader<'a> {
    fn new(file: &'a VolumeFile) -> Result<Self, BrickStoreError> {
        let [nx, ny, _] = file.description.dims.map(|n| n as usize);
        Ok(Self {
            stream: file.voxels()?,
            row: vec![0; nx * file.description.voxel.bytes()],
            slice: vec![0.0; nx * ny],
            file,
        })
    }

    fn next(&mut self) -> Result<&[f32], BrickStoreError> {
        let voxel = self.file.description.voxel;
        let nx = self.file.description.dims[0] as usize;
        for row in self.slice.chunks_mut(nx) {
            self.stream.read(&mut self.row)?;
            for (x, value) in row.iter_mut().enumerate() {
                *value = voxel.read(&self.row, x * voxel.bytes());
            }
        }
        Ok(&self.slice)
    }

    fn finish(self) -> Result<(), volume_file::VolumeFileError> {
        self.stream.finish()
    }
}

/// The values of a file's voxels, x fastest; NaN is no data.
///
/// # Errors
/// Where it cannot be read.
pub(crate) fn values(file: &VolumeFile) -> Result<Vec<f32>, BrickStoreError> {
    let volume = &file.description;
    let mut reader = SliceReader::new(file)?;
    let mut values = Vec::new();
    for _ in 0..volume.dims[2] {
        let slice = reader.next()?.iter();
        #[expect(clippy::cast_possible_truncation, reason = "a value of a picture")]
        let value = |&v: &f32| {
            if volume.is_no_data(v) {
                f32::NAN
            } else {
                volume.value(v.into()) as f32
            }
        };
        values.extend(slice.map(value));
    }
    reader.finish()?;
    Ok(values)
}

/// Tells which voxels are kept, slice after slice; what is no data never is.
pub(crate) struct Sieve<'a> {
    volume: VolumeDescription,
    keep: &'a Keep,
    mask: Option<SliceReader<'a>>,
    /// Most frequent value of the border, as stored, once the first slice has come.
    border: Option<Option<f32>>,
    kept: Vec<bool>,
}

impl<'a> Sieve<'a> {
    /// For a volume of which no slice has come.
    ///
    /// # Errors
    /// Where the mask cannot be read.
    pub(crate) fn new(volume: &VolumeDescription, keep: &'a Keep) -> Result<Self, BrickStoreError> {
        Ok(Self {
            volume: volume.clone(),
            mask: match keep {
                Keep::Mask(file) => Some(SliceReader::new(file)?),
                _ => None,
            },
            keep,
            border: None,
            kept: Vec::new(),
        })
    }

    /// Which voxels of the next slice are kept, x fastest.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn slice(&mut self, slice: &[f32]) -> Result<&[bool], BrickStoreError> {
        let volume = &self.volume;
        let border = self
            .border
            .get_or_insert_with(|| most_frequent(volume, slice));
        let is_data = |v: f32| !volume.is_no_data(v);
        self.kept.clear();
        match (self.keep, &mut self.mask) {
            (Keep::Values(ends), _) => self.kept.extend(slice.iter().map(|&v| {
                let value = single(volume.value(v.into()));
                is_data(v) && single(ends[0]) <= value && value <= single(ends[1])
            })),
            (_, Some(mask)) => {
                let mask = mask.next()?;
                let both = slice.iter().zip(mask);
                self.kept
                    .extend(both.map(|(&v, &m)| is_data(v) && m.abs() > 0.0));
            }
            _ => {
                let empty = border.map(bits);
                let is_empty = |v: f32| empty == Some(bits(v));
                self.kept
                    .extend(slice.iter().map(|&v| is_data(v) && !is_empty(v)));
            }
        }
        Ok(&self.kept)
    }

    /// Whether values between these stored numbers, ends included, may be kept where they are interpolated.
    pub(crate) fn may_keep_between(&self, low: f32, high: f32) -> bool {
        let [a, b] = [low, high].map(|v| single(self.volume.value(v.into())));
        let ends = |ends: &[f64; 2]| a.max(b) >= single(ends[0]) && a.min(b) <= single(ends[1]);
        matches!(self.keep, Keep::Values(values) if ends(values))
    }

    /// Ends the mask.
    ///
    /// # Errors
    /// Where it goes on.
    pub(crate) fn finish(self) -> Result<(), BrickStoreError> {
        match self.mask {
            Some(mask) => Ok(mask.finish()?),
            None => Ok(()),
        }
    }
}

/// Calls `of` with which voxels of each slice are kept, x fastest; what is no data never is.
///
/// # Errors
/// Where the volume or the mask cannot be read, or `progress` says that it is to stop.
pub(crate) fn kept_slices(
    source: &VoxelSource,
    keep: &Keep,
    progress: OnProgress<'_>,
    of: &mut dyn FnMut(&[bool]),
) -> Result<(), BrickStoreError> {
    let mut sieve = Sieve::new(source.volume(), keep)?;
    source.slices(progress, &mut |slice| {
        of(sieve.slice(slice)?);
        Ok(())
    })?;
    sieve.finish()
}

/// The value that most voxels of a slice have that is on the volume's border: all of the first one, or the rim of a single
/// one.
fn most_frequent(volume: &VolumeDescription, slice: &[f32]) -> Option<f32> {
    let [nx, ny, nz] = volume.dims.map(|n| n as usize);
    let is_border = |i: &usize| {
        let [x, y] = [i % nx, i / nx];
        nz > 1 || x == 0 || y == 0 || x + 1 == nx || y + 1 == ny
    };
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for i in (0..slice.len()).filter(is_border) {
        if !volume.is_no_data(slice[i]) {
            *counts.entry(bits(slice[i])).or_default() += 1;
        }
    }
    let most = counts.into_iter();
    let most = most.max_by_key(|&(bits, count)| (count, std::cmp::Reverse(bits)));
    most.map(|(bits, _)| f32::from_bits(bits))
}

/// As precise as values are printed and stored: 0.7 is the voxel 0.7.
#[expect(clippy::cast_possible_truncation, reason = "as meant")]
fn single(value: f64) -> f32 {
    value as f32
}

/// Equal numbers have equal bits: those of -0 are those of 0.
fn bits(value: f32) -> u32 {
    (value + 0.0).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{brick_store, volume_file};

    /// A cube of values 9 and 5 in zeros, as a file and as a folder.
    fn sources(folder: &std::path::Path) -> [VoxelSource; 2] {
        let path = folder.join("v_20x10x9_uint8.raw");
        let inside = |i: usize| {
            let [x, y, z] = [i % 20, i / 20 % 10, i / 200];
            (4..9).contains(&x) && (3..6).contains(&y) && (2..7).contains(&z)
        };
        let value = |i: usize| {
            if inside(i) {
                5 + 4 * u8::from(i.is_multiple_of(2))
            } else {
                0
            }
        };
        std::fs::write(&path, (0..1800).map(value).collect::<Vec<u8>>()).unwrap();
        let file = volume_file::open(&path).unwrap();
        let store = folder.join("v.brickmesh");
        brick_store::import(&file, 6, &store, &mut |_, _| true).unwrap();
        let store = DirectoryStore::open(&store).unwrap();
        [
            VoxelSource::File(Box::new(file)),
            VoxelSource::Folder(Box::new(store)),
        ]
    }

    fn kept(source: &VoxelSource, keep: &Keep) -> Vec<bool> {
        let mut all = Vec::new();
        kept_slices(source, keep, &mut |_, _| true, &mut |slice| {
            all.extend_from_slice(slice)
        })
        .unwrap();
        all
    }

    #[test]
    fn files_and_folders_give_the_same_voxels() {
        let folder = tempfile::tempdir().unwrap();
        let sources = sources(folder.path());
        let mask = folder.path().join("m_20x10x9_uint8.raw");
        let in_mask = |i: usize| u8::from(i % 20 < 6);
        std::fs::write(&mask, (0..1800).map(in_mask).collect::<Vec<u8>>()).unwrap();
        let mask = Keep::Mask(Box::new(volume_file::open(&mask).unwrap()));
        let cases = [
            (Keep::NotTheBorder, 75),
            (Keep::Values([9.0, 9.0]), 45),
            (Keep::Values([0.0, 0.0]), 1725),
            (mask, 9 * 10 * 6),
        ];
        for (keep, count) in cases {
            let [file, store] = [0, 1].map(|i| kept(&sources[i], &keep));
            assert_eq!(file.len(), 1800);
            assert_eq!(file.iter().filter(|&&k| k).count(), count, "{keep:?}");
            assert_eq!(file, store, "{keep:?}");
        }
    }

    #[test]
    fn who_stops_it_is_heard() {
        let folder = tempfile::tempdir().unwrap();
        for source in sources(folder.path()) {
            let stopped = kept_slices(&source, &Keep::NotTheBorder, &mut |_, _| false, &mut |_| ());
            assert!(matches!(stopped, Err(BrickStoreError::Stopped)));
        }
    }
}
