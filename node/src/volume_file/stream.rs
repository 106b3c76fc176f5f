//! The voxels of a file as a stream: decompressed, in little-endian order, counted and checked.

use super::{Problem, VolumeFile, VolumeFileError, vti};
use brickmesh_topology::VoxelType;
use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

/// Bytes that are read from disk at a time.
const BUFFER_BYTES: usize = 256 << 10;

/// Where the voxels are and how they are packed.
#[derive(Clone, Debug)]
pub(crate) struct DataPlan {
    /// File with the voxels.
    pub(crate) path: PathBuf,
    /// How they are packed there.
    pub(crate) packing: Packing,
    /// Whether the most significant byte comes first.
    pub(crate) big_endian: bool,
}

/// How voxels are packed in a file.
#[derive(Clone, Debug)]
pub(crate) enum Packing {
    /// As they are, from an offset.
    Raw {
        /// Byte of the file.
        offset: u64,
    },
    /// As they are, the last bytes of the file.
    RawAtEnd,
    /// gzip from an offset; some decoded bytes are skipped.
    Gzip {
        /// Byte of the file.
        offset: u64,
        /// Decoded bytes before the first voxel.
        skip: u64,
    },
    /// zlib from an offset.
    Zlib {
        /// Byte of the file.
        offset: u64,
    },
    /// An array of a VTK XML file.
    Vti(vti::ArrayPlan),
}

/// Voxels that lie in a file as they are, so that any part of them can be read.
#[derive(Clone, Debug)]
pub(crate) struct PlainVoxels {
    path: PathBuf,
    offset: u64,
    big_endian: bool,
}

impl PlainVoxels {
    /// `None`: they are compressed, or packed in another way.
    pub(super) fn of(data: &DataPlan, total: u64) -> io::Result<Option<Self>> {
        let offset = match data.packing {
            Packing::Raw { offset } => offset,
            // What is too short is told when it is read.
            Packing::RawAtEnd => File::open(&data.path)?
                .metadata()?
                .len()
                .saturating_sub(total),
            Packing::Gzip { .. } | Packing::Zlib { .. } | Packing::Vti(_) => return Ok(None),
        };
        Ok(Some(Self {
            path: data.path.clone(),
            offset,
            big_endian: data.big_endian,
        }))
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Byte of the first voxel.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Some of its voxels, of so many bytes each, in little-endian order.
    pub(crate) fn little_endian(&self, mut voxels: Vec<u8>, voxel_bytes: usize) -> Vec<u8> {
        if self.big_endian {
            voxels
                .chunks_exact_mut(voxel_bytes)
                .for_each(<[u8]>::reverse);
        }
        voxels
    }
}

/// Voxels, from the first on. Little-endian, exactly as many as the header says.
pub struct VoxelStream {
    path: PathBuf,
    reader: Box<dyn Read + Send>,
    voxel: VoxelType,
    big_endian: bool,
    done: u64,
    total: u64,
}

impl std::fmt::Debug for VoxelStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VoxelStream")
            .field("path", &self.path)
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
}

impl VoxelStream {
    pub(super) fn open(file: &VolumeFile) -> Result<Self, VolumeFileError> {
        let named = |problem| VolumeFileError {
            path: file.path.clone(),
            problem,
        };
        let total = file.description.voxel_bytes();
        let reader = reader(&file.data, total).map_err(named)?;
        Ok(Self {
            path: file.path.clone(),
            reader,
            voxel: file.voxel(),
            big_endian: file.data.big_endian,
            done: 0,
            total,
        })
    }

    /// From byte `done` of these voxels of the file on.
    pub(super) fn open_from(
        file: &VolumeFile,
        plain: &PlainVoxels,
        done: u64,
    ) -> Result<Self, VolumeFileError> {
        let reader = at(&plain.path, plain.offset + done).map_err(|problem| VolumeFileError {
            path: file.path.clone(),
            problem,
        })?;
        Ok(Self {
            path: file.path.clone(),
            reader: Box::new(reader),
            voxel: file.voxel(),
            big_endian: plain.big_endian,
            done,
            total: file.description.voxel_bytes(),
        })
    }

    /// Fills `voxels`, whose length is a whole number of voxels, with the next ones.
    ///
    /// # Errors
    /// [`VolumeFileError`] where the file ends early or cannot be decoded.
    pub fn read(&mut self, voxels: &mut [u8]) -> Result<(), VolumeFileError> {
        let mut filled = 0;
        while filled < voxels.len() {
            match self.reader.read(&mut voxels[filled..]) {
                Ok(0) => {
                    let found = self.done + filled as u64;
                    return Err(self.error(Problem::Length {
                        found,
                        expected: self.total,
                    }));
                }
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(self.broken(self.done + filled as u64, source)),
            }
        }
        if self.big_endian {
            voxels
                .chunks_exact_mut(self.voxel.bytes())
                .for_each(<[u8]>::reverse);
        }
        self.done += voxels.len() as u64;
        Ok(())
    }

    /// Ends the stream: there must be no voxels left.
    ///
    /// # Errors
    /// [`VolumeFileError`] where the file has more voxels than its header says.
    pub fn finish(mut self) -> Result<(), VolumeFileError> {
        let mut more = [0; 1];
        let read = self.reader.read(&mut more);
        match read {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.error(Problem::Length {
                found: self.done + 1,
                expected: self.total,
            })),
            Err(source) => Err(self.broken(self.done, source)),
        }
    }

    fn broken(&self, at: u64, source: io::Error) -> VolumeFileError {
        if source.kind() == io::ErrorKind::UnexpectedEof && at < self.total {
            return self.error(Problem::Length {
                found: at,
                expected: self.total,
            });
        }
        self.error(Problem::Decode { at, source })
    }

    fn error(&self, problem: Problem) -> VolumeFileError {
        VolumeFileError {
            path: self.path.clone(),
            problem,
        }
    }
}

/// A buffered reader of a file from an offset.
pub(super) fn at(path: &PathBuf, offset: u64) -> Result<BufReader<File>, Problem> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    if offset > length {
        let expected = format!("at most {length}, the size of {}", path.display());
        return Err(Problem::field("offset of the voxels", offset, expected));
    }
    file.seek(SeekFrom::Start(offset))?;
    Ok(BufReader::with_capacity(BUFFER_BYTES, file))
}

fn reader(data: &DataPlan, total: u64) -> Result<Box<dyn Read + Send>, Problem> {
    Ok(match &data.packing {
        Packing::Raw { offset } => Box::new(at(&data.path, *offset)?),
        Packing::RawAtEnd => {
            let length = File::open(&data.path)?.metadata()?.len();
            let offset = length.checked_sub(total);
            let offset = offset.ok_or(Problem::Length {
                found: length,
                expected: total,
            })?;
            Box::new(at(&data.path, offset)?)
        }
        Packing::Gzip { offset, skip } => {
            let mut decoder = MultiGzDecoder::new(at(&data.path, *offset)?);
            skip_bytes(&mut decoder, *skip)?;
            Box::new(decoder)
        }
        Packing::Zlib { offset } => Box::new(ZlibDecoder::new(at(&data.path, *offset)?)),
        Packing::Vti(plan) => vti::reader(&data.path, plan)?,
    })
}

/// Reads and drops some bytes.
pub(super) fn skip_bytes(reader: &mut impl Read, count: u64) -> Result<(), Problem> {
    let skipped = io::copy(&mut reader.take(count), &mut io::sink())?;
    if skipped < count {
        return Err(Problem::Length {
            found: 0,
            expected: count,
        });
    }
    Ok(())
}

/// Skips bytes of a buffered reader up to and including `byte`; true if it was there.
pub(super) fn skip_past(reader: &mut impl BufRead, byte: u8) -> io::Result<bool> {
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(false);
        }
        let found = buffer.iter().position(|&b| b == byte);
        let used = found.map_or(buffer.len(), |at| at + 1);
        reader.consume(used);
        if found.is_some() {
            return Ok(true);
        }
    }
}
