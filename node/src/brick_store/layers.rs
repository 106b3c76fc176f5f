//! Where the bricks of an open layer gather: in memory, or in a scratch file where they do not
//! fit.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
};

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
    /// A layer of bricks of these sizes, in memory up to `bytes_max` in all.
    pub(super) fn new(sizes: &[u64], bytes_max: u64) -> io::Result<Self> {
        if sizes.iter().sum::<u64>() <= bytes_max {
            let zeros = |&n: &u64| vec![0; usize::try_from(n).unwrap_or(usize::MAX)];
            return Ok(Self::Memory(sizes.iter().map(zeros).collect()));
        }
        let mut starts = vec![0];
        for n in sizes {
            starts.push(starts[starts.len() - 1] + n);
        }
        Ok(Self::Scratch {
            file: tempfile::tempfile()?,
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
