//! What is empty in a volume, worked out in the pass in which it is cut into bricks: how much of each brick is kept, and the slab
//! projections, which go to a file beside the manifest as they end.
//!
//! The file: gzip of [`MAGIC`], the dims as three u32, then a slab after the other: its first slice and the one past its
//! last as u32, its nx·ny counts as u16; all little-endian.
//! Invariants: memory follows the size of a slice, not of the volume: one slab is open at a time. A brick of whose stored voxels none is kept is
//! empty, so that no sample of what is kept misses a voxel. What is read is checked: by gzip's sum, and against the manifest.
//!
//! Source: Frank, Kaufman 2009, sections 4.1 and 4.2.

use super::BrickStoreError;
use crate::kept_voxels::{Keep, Sieve};
use brickmesh_topology::{
    BrickGrid, BrickIndex, VolumeDescription, VoxelType,
    balance::partition::volume_partition::GATHERED_BYTES_MAX,
    data::slab_projections::{Slab, SlabGathering, SlabProjections},
};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufReader, BufWriter, Read as _, Write as _},
    ops::RangeInclusive,
    path::Path,
};

/// Bytes of memory that a pixel of a slice takes: its value, whether it is kept, the open slab's count, its regions.
const PIXEL_BYTES: u64 = 32;
/// Most memory of a slice.
const SLICE_BYTES_MAX: u64 = 1 << 30;
/// Voxels of a slice that are looked at for the most frequent value.
const SAMPLED: usize = 4096;
/// Different values that are counted.
const VALUES_MAX: usize = 1 << 16;

const MAGIC: &[u8] = b"brickmesh slab projections 1\n";

/// What an import is told of empty space.
#[derive(Clone, Debug)]
pub(crate) struct EmptySpace {
    /// What is kept.
    pub(crate) keep: Keep,
    /// Fewest and most slices of a slab.
    pub(crate) slab_slices: RangeInclusive<u32>,
}

/// See the module.
pub(super) struct EmptySpaceGathering<'a> {
    sieve: Sieve<'a>,
    volume: VolumeDescription,
    grid: BrickGrid,
    voxel: VoxelType,
    /// The slice that is coming, as stored numbers.
    values: Vec<f32>,
    slabs: SlabGathering,
    file: GzEncoder<BufWriter<File>>,
    path: &'a Path,
    /// Kept voxels of each brick's owned box.
    owned: Vec<u32>,
    /// Whether any of its stored box is.
    is_kept: Vec<bool>,
    /// How often values are met that are not kept, by their bits; of some of the voxels.
    empty_values: BTreeMap<u32, u64>,
}

impl<'a> EmptySpaceGathering<'a> {
    /// Of a volume of which no slice has come; projections go to a new file at `path`.
    pub(super) fn new(
        empty: &'a EmptySpace,
        volume: &VolumeDescription,
        grid: BrickGrid,
        path: &'a Path,
    ) -> Result<Self, BrickStoreError> {
        check_size(volume, &empty.slab_slices)?;
        let io = BrickStoreError::io(path);
        let file = BufWriter::new(File::create_new(path).map_err(&io)?);
        let mut file = GzEncoder::new(file, Compression::fast());
        file.write_all(MAGIC).map_err(&io)?;
        for n in volume.dims {
            file.write_all(&n.to_le_bytes()).map_err(&io)?;
        }
        let bricks = grid.brick_count() as usize;
        Ok(Self {
            sieve: Sieve::new(volume, &empty.keep)?,
            voxel: volume.voxel,
            values: Vec::with_capacity(volume.dims[0] as usize * volume.dims[1] as usize),
            slabs: SlabGathering::new(volume.dims, empty.slab_slices.clone()),
            owned: vec![0; bricks],
            is_kept: vec![false; bricks],
            empty_values: BTreeMap::new(),
            volume: volume.clone(),
            grid,
            file,
            path,
        })
    }

    /// Takes the next row of the slice that is coming.
    pub(super) fn row(&mut self, row: &[u8]) {
        let bytes = self.voxel.bytes();
        let values = (0..row.len() / bytes).map(|x| self.voxel.read(row, x * bytes));
        self.values.extend(values);
    }

    /// Slice z is whole.
    pub(super) fn slice(&mut self, z: u32) -> Result<(), BrickStoreError> {
        let kept = self.sieve.slice(&self.values)?;
        self.slabs.slice(kept);
        let step = kept.len().div_ceil(SAMPLED);
        for (&value, _) in self
            .values
            .iter()
            .zip(kept)
            .step_by(step)
            .filter(|(_, k)| !**k)
        {
            let is_known = self.empty_values.contains_key(&value.to_bits());
            if !self.volume.is_no_data(value) && (is_known || self.empty_values.len() < VALUES_MAX)
            {
                *self.empty_values.entry(value.to_bits()).or_default() += 1;
            }
        }
        for (y, row) in (0..).zip(kept.chunks(self.grid.dims()[0] as usize)) {
            if row.contains(&true) {
                let [cx, ..] = self.grid.counts();
                for brick in rows_of_bricks(&self.grid, y, z).flat_map(|first| first..first + cx) {
                    count(
                        &self.grid,
                        brick,
                        [y, z],
                        row,
                        &mut self.owned,
                        &mut self.is_kept,
                    );
                }
            }
        }
        self.values.clear();
        let ended = self.slabs.take_ended();
        write(&mut self.file, &ended).map_err(BrickStoreError::io(self.path))
    }

    /// What is stored of a brick in place of its bytes, where nothing of it is kept: the most frequent of the values that were not kept so far, so
    /// that it is like others, which are one file. `None`: something is kept, or would be between its voxels, or some is no data.
    pub(super) fn in_place_of(&self, brick: BrickIndex, bytes: &[u8]) -> Option<Vec<u8>> {
        if self.is_kept[brick.0 as usize] {
            return None;
        }
        let size = self.voxel.bytes();
        let voxels = || {
            (0..bytes.len())
                .step_by(size)
                .map(|at| self.voxel.read(bytes, at))
        };
        if voxels().any(|v| self.volume.is_no_data(v)) {
            return None;
        }
        let low = voxels().fold(f32::INFINITY, f32::min);
        if self
            .sieve
            .may_keep_between(low, voxels().fold(f32::NEG_INFINITY, f32::max))
        {
            return None;
        }
        let most = self.empty_values.iter();
        let (&bits, _) = most.max_by_key(|&(bits, count)| (count, std::cmp::Reverse(bits)))?;
        let mut voxel = Vec::new();
        self.voxel.append(f32::from_bits(bits).into(), &mut voxel);
        Some(voxel.repeat(bytes.len() / size))
    }

    /// Kept voxels of each brick; the file is whole, and on the disk.
    pub(super) fn finish(self) -> Result<Vec<u32>, BrickStoreError> {
        let (io, mut file) = (BrickStoreError::io(self.path), self.file);
        write(&mut file, &self.slabs.finish().slabs).map_err(&io)?;
        let file = file.finish().map_err(&io)?;
        let file = file.into_inner().map_err(|e| io(e.into_error()))?;
        file.sync_all().map_err(&io)?;
        self.sieve.finish()?;
        if self.owned.iter().all(|&kept| kept == 0) {
            return Err(BrickStoreError::EmptySpace {
                why: "no voxel is kept, all are empty".to_owned(),
            });
        }
        Ok(self.owned)
    }
}

fn write(file: &mut impl io::Write, slabs: &[Slab]) -> io::Result<()> {
    for slab in slabs {
        file.write_all(&slab.first.to_le_bytes())?;
        file.write_all(&slab.end.to_le_bytes())?;
        let counts = slab.counts.iter().flat_map(|c| c.to_le_bytes());
        file.write_all(&counts.collect::<Vec<u8>>())?;
    }
    Ok(())
}

/// Refuses what would take too much memory, or be more than is read again.
fn check_size(
    volume: &VolumeDescription,
    slab_slices: &RangeInclusive<u32>,
) -> Result<(), BrickStoreError> {
    let [x, y, z] = volume.dims.map(u64::from);
    let refuse = |why: String| Err(BrickStoreError::EmptySpace { why });
    if x * y * PIXEL_BYTES > SLICE_BYTES_MAX {
        return refuse(format!(
            "a slice of {x} x {y} voxels takes more than {} MiB of memory",
            SLICE_BYTES_MAX >> 20
        ));
    }
    let bytes = x * y * 2 * z.div_ceil(u64::from(*slab_slices.start()).max(1));
    if bytes > GATHERED_BYTES_MAX {
        return refuse(format!(
            "slab projections may take {bytes} bytes, {GATHERED_BYTES_MAX} are read again; take thicker slabs (--slab)"
        ));
    }
    Ok(())
}

/// The first brick of each row of bricks that stores (y,z).
fn rows_of_bricks(grid: &BrickGrid, y: u32, z: u32) -> impl Iterator<Item = u32> + use<> {
    let (edge, [cx, cy, cz]) = (grid.edge(), grid.counts());
    let near = move |v: u32, count: u32| (v / edge).saturating_sub(1)..(v / edge + 2).min(count);
    near(z, cz).flat_map(move |bz| near(y, cy).map(move |by| (bz * cy + by) * cx))
}

fn count(
    grid: &BrickGrid,
    brick: u32,
    [y, z]: [u32; 2],
    row: &[bool],
    owned: &mut [u32],
    is_kept: &mut [bool],
) {
    let at = brick as usize;
    let has = |b: &brickmesh_topology::VoxelBox| {
        (b.lo[1]..b.hi[1]).contains(&y) && (b.lo[2]..b.hi[2]).contains(&z)
    };
    let of = |b: &brickmesh_topology::VoxelBox| &row[b.lo[0] as usize..b.hi[0] as usize];
    let own = grid.owned_box(BrickIndex(brick));
    if has(&own) {
        let kept = of(&own).iter().filter(|&&k| k).count();
        owned[at] += u32::try_from(kept).unwrap_or(u32::MAX);
    }
    if !is_kept[at] {
        let stored = grid.stored_box(BrickIndex(brick));
        is_kept[at] = has(&stored) && of(&stored).contains(&true);
    }
}

/// The slab projections of a file, which may take `bytes_max`.
pub(super) fn read(path: &Path, dims: [u32; 3], bytes_max: u64) -> Result<SlabProjections, String> {
    let file = File::open(path).map_err(|e| e.to_string())?;
    let mut file = GzDecoder::new(BufReader::new(file));
    let cut_off = |e: io::Error| format!("it is damaged: {e}");
    let mut magic = vec![0; MAGIC.len()];
    file.read_exact(&mut magic).map_err(cut_off)?;
    let found = [0; 3].map(|_: u32| number(&mut file));
    if magic != MAGIC
        || found
            .iter()
            .zip(dims)
            .any(|(n, d)| n.as_ref().ok() != Some(&d))
    {
        return Err("it is damaged, or of another volume".to_owned());
    }
    let columns = dims[0] as usize * dims[1] as usize;
    let mut projections = SlabProjections {
        dims,
        slabs: Vec::new(),
    };
    let mut at = 0;
    while at < dims[2] {
        let (first, end) = (
            number(&mut file).map_err(cut_off)?,
            number(&mut file).map_err(cut_off)?,
        );
        if first != at || end <= first || end > dims[2] {
            return Err(format!(
                "it is damaged: a slab of slices {first} to {end} follows slice {at}"
            ));
        }
        if (projections.slabs.len() as u64 + 1) * columns as u64 * 2 > bytes_max {
            return Err(format!(
                "it has more than {bytes_max} bytes; import with thicker slabs (--slab)"
            ));
        }
        let mut bytes = vec![0; columns * 2];
        file.read_exact(&mut bytes).map_err(cut_off)?;
        let counts = bytes
            .chunks_exact(2)
            .map(|c| u16::from_le_bytes([c[0], c[1]]));
        let counts: Vec<u16> = counts.collect();
        if counts.iter().any(|&c| u32::from(c) > end - first) {
            return Err(format!(
                "it is damaged: a column of slices {first} to {end} has more voxels than slices"
            ));
        }
        projections.slabs.push(Slab { first, end, counts });
        at = end;
    }
    // The end of the stream is where its sum is looked at.
    match file.read(&mut [0]).map_err(cut_off)? {
        0 => Ok(projections),
        _ => Err("it is damaged: it goes on after the last slice".to_owned()),
    }
}

fn number(file: &mut impl io::Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    file.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        brick_store::{self, DirectoryStore, ImportOptions},
        volume_file,
    };
    use brickmesh_actors::data_set::BrickSource as _;

    /// Values of 1 to 3 with a 9 at (20,5,5), 77 in the first slice; NaN where x < 4.
    fn import(folder: &Path, keep: Keep) -> [DirectoryStore; 2] {
        let path = folder.join("v_40x24x24_float32.raw");
        let value = |i: usize| match [i % 40, i / 40 % 24, i / 960] {
            [20, 5, 5] => 9.0,
            [0..4, ..] => f32::NAN,
            [.., 0] => 77.0,
            [x, y, z] => [1.0, 2.0, 2.0, 3.0][(x + y + z) % 4],
        };
        let bytes = (0..23_040).flat_map(|i| value(i).to_le_bytes());
        std::fs::write(&path, bytes.collect::<Vec<u8>>()).unwrap();
        let file = volume_file::open(&path).unwrap();
        let empty = EmptySpace {
            keep,
            slab_slices: 4..=8,
        };
        [("plain", None), ("told", Some(empty))].map(|(name, empty)| {
            let how = ImportOptions {
                empty,
                ..ImportOptions::default()
            };
            let out = folder.join(name);
            brick_store::import_as(&file, 4, &how, &out, &mut |_, _| true).unwrap()
        })
    }

    #[test]
    fn just_the_bricks_of_which_no_stored_voxel_is_kept_become_alike() {
        let folder = tempfile::tempdir().unwrap();
        let [plain, told] = import(folder.path(), Keep::Values([9.0, 9.0]));
        let grid = *plain.manifest().grid();
        let (mut same, mut changed) = (0, 0);
        for brick in grid.bricks() {
            let stored = grid.stored_box(brick);
            let is_kept = (0..3).all(|a| (stored.lo[a]..stored.hi[a]).contains(&[20, 5, 5][a]));
            let [before, after] = [&plain, &told].map(|s| s.read_checked(brick).unwrap());
            let values = before
                .chunks_exact(4)
                .map(|v| f32::from_le_bytes(v.try_into().unwrap()));
            let has_no_data = values.clone().any(f32::is_nan);
            // From 2 to 77 a 9 may be interpolated.
            let spans = values.clone().any(|v| v <= 9.0) && values.clone().any(|v| v >= 9.0);
            if is_kept || has_no_data || spans {
                same += 1;
                assert_eq!(before, after, "brick {brick:?} of {stored:?}");
            } else {
                // What is empty is 2 mostly.
                changed += 1;
                assert!(after.chunks_exact(4).all(|v| v == 2.0_f32.to_le_bytes()));
            }
        }
        assert!(same > 4 && changed > 100, "{same} {changed}");
        let kept: u64 = told.manifest().occupied_voxels().into_iter().sum();
        assert_eq!(kept, 1);
        assert_eq!(told.projections().unwrap().unwrap().voxels(), 1);
    }

    #[test]
    fn ends_are_as_precise_as_voxels_and_nothing_kept_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v_8x8x8_float32.raw");
        let bytes = (0..512).flat_map(|i| [0.0_f32, 0.7][i % 2].to_le_bytes());
        std::fs::write(&path, bytes.collect::<Vec<u8>>()).unwrap();
        let file = volume_file::open(&path).unwrap();
        let kept = |ends| {
            let how = ImportOptions {
                empty: Some(EmptySpace {
                    keep: Keep::Values(ends),
                    slab_slices: 1..=8,
                }),
                ..ImportOptions::default()
            };
            let out = folder.path().join(format!("{ends:?}"));
            let store = brick_store::import_as(&file, 8, &how, &out, &mut |_, _| true)?;
            Ok::<u64, BrickStoreError>(store.manifest().occupied_voxels().into_iter().sum())
        };
        assert_eq!(kept([0.7, 1.0]).unwrap(), 256);
        let error = kept([2.0, 3.0]).unwrap_err().to_string();
        assert!(error.contains("no voxel is kept"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn damaged_projections_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let [plain, told] = import(folder.path(), Keep::Values([2.0, 9.0]));
        assert!(plain.projections().unwrap().is_none());
        let path = folder.path().join("told/slab-projections.gz");
        let good = std::fs::read(&path).unwrap();
        let whole = told.projections().unwrap();
        for at in (10..good.len()).step_by(good.len().div_ceil(64)) {
            let mut bytes = good.clone();
            bytes[at] ^= 4;
            std::fs::write(&path, &bytes).unwrap();
            // Some bits of gzip mean nothing.
            let is_told = told.projections().map_or(true, |read| read == whole);
            assert!(is_told, "byte {at} of {}", good.len());
        }
        std::fs::write(&path, &good[..good.len() - 4]).unwrap();
        assert!(told.projections().is_err());
        std::fs::remove_file(&path).unwrap();
        let error = told.projections().unwrap_err().to_string();
        assert!(error.contains("import the volume again"), "{error}");
    }
}
