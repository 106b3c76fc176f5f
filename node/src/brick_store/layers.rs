//! Where the bricks of an open layer gather: in memory, or in a scratch file where they do not
//! fit.
//!
//! Invariant: the scratch file is made where the data set is made, never in the system's folder
//! for temporary files: that may be kept in memory, or be too small.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
};

/// Where open layers may gather.
#[derive(Clone, Copy, Debug)]
pub(super) enum Gather<'a> {
    /// In memory, whatever they take: for bricks that stay there.
    Memory,
    /// In memory up to a bound, beyond it in a folder.
    Bounded {
        /// Bytes that one layer may take.
        layer_bytes_max: u64,
        /// Folder of the scratch files.
        scratch: &'a Path,
    },
}

/// The bricks of one layer in z, while rows are scattered into them.
#[derive(Debug)]
pub(super) enum Layer {
    /// A buffer a brick.
    Memory(Vec<Vec<u8>>),
    /// One after another in a file that has no name any more.
    Scratch {
        /// The file.
        file: File,
        /// Where each brick starts, and its end.
        starts: Vec<u64>,
    },
}

impl Layer {
    /// A layer of bricks of these sizes.
    pub(super) fn new(sizes: &[u64], gather: Gather<'_>) -> io::Result<Self> {
        let scratch = match gather {
            Gather::Bounded {
                layer_bytes_max,
                scratch,
            } if sizes.iter().sum::<u64>() > layer_bytes_max => scratch,
            _ => {
                let zeros = |&n: &u64| vec![0; usize::try_from(n).unwrap_or(usize::MAX)];
                return Ok(Self::Memory(sizes.iter().map(zeros).collect()));
            }
        };
        let mut starts = vec![0];
        for n in sizes {
            starts.push(starts[starts.len() - 1] + n);
        }
        Ok(Self::Scratch {
            file: tempfile::tempfile_in(scratch)?,
            starts,
        })
    }

    /// Writes a run of bytes into a brick.
    pub(super) fn write(&mut self, brick: usize, at: u64, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Memory(bricks) => {
                let at = usize::try_from(at).unwrap_or(usize::MAX);
                bricks[brick][at..at + bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
            Self::Scratch { file, starts } => {
                file.seek(SeekFrom::Start(starts[brick] + at))?;
                file.write_all(bytes)
            }
        }
    }

    /// Takes a finished brick out.
    pub(super) fn take(&mut self, brick: usize) -> io::Result<Vec<u8>> {
        match self {
            Self::Memory(bricks) => Ok(std::mem::take(&mut bricks[brick])),
            Self::Scratch { file, starts } => {
                let length =
                    usize::try_from(starts[brick + 1] - starts[brick]).unwrap_or(usize::MAX);
                let mut bytes = vec![0; length];
                file.seek(SeekFrom::Start(starts[brick]))?;
                file.read_exact(&mut bytes)?;
                Ok(bytes)
            }
        }
    }
}
