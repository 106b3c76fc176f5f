//! Where the bricks of an open layer gather: in memory, or in a scratch file where they do not
//! fit.
//!
//! Invariants: memory follows the voxels that have come, so that a header that lies costs nothing;
//! the scratch file is made where the data set is made, not in the system's folder
//! for temporary files, which may be kept in memory, or be too small; there only for levels of a file that stays in place.

use std::{
    fs::File,
    io::{self, Read, Seek as _, SeekFrom, Write},
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

impl<'a> Gather<'a> {
    /// The folder of the scratch files, or else another path.
    pub(super) fn folder_or(self, other: &'a Path) -> &'a Path {
        match self {
            Self::Memory => other,
            Self::Bounded { scratch, .. } => scratch,
        }
    }

    /// Where the layers of a level gather, of which each is a quarter of those before it.
    pub(super) fn of_level(self, level: usize) -> Self {
        match self {
            Self::Memory => Self::Memory,
            Self::Bounded {
                layer_bytes_max,
                scratch,
            } => Self::Bounded {
                layer_bytes_max: layer_bytes_max >> (2 * level),
                scratch,
            },
        }
    }
}

/// The bricks of one layer in z, while rows are scattered into them.
#[derive(Debug)]
pub(super) enum Layer {
    /// A buffer a brick, and what it will hold.
    Memory(Vec<(Vec<u8>, usize)>),
    /// One after another in a file that has no name any more.
    Scratch {
        /// The file.
        file: File,
        /// Where each brick starts, and its end.
        starts: Vec<u64>,
        /// How much of each has come.
        filled: Vec<u64>,
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
                let empty = |&n: &u64| (Vec::new(), usize::try_from(n).unwrap_or(usize::MAX));
                return Ok(Self::Memory(sizes.iter().map(empty).collect()));
            }
        };
        let mut starts = vec![0];
        for n in sizes {
            starts.push(starts[starts.len() - 1] + n);
        }
        Ok(Self::Scratch {
            file: tempfile::tempfile_in(scratch)?,
            starts,
            filled: vec![0; sizes.len()],
        })
    }

    /// Writes the next run of bytes of a brick, which starts `at` bytes from its first.
    pub(super) fn write(&mut self, brick: usize, at: u64, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Memory(bricks) => {
                let (gathered, whole) = &mut bricks[brick];
                debug_assert_eq!(gathered.len() as u64, at, "runs come in order");
                let needed = gathered.len() + bytes.len();
                if gathered.capacity() < needed {
                    // Doubled, but never beyond the whole brick: nothing is left over at the end.
                    let room = needed.max(2 * gathered.len()).min(needed.max(*whole));
                    gathered.reserve_exact(room - gathered.len());
                }
                gathered.extend_from_slice(bytes);
                Ok(())
            }
            Self::Scratch {
                file,
                starts,
                filled,
            } => {
                file.seek(SeekFrom::Start(starts[brick] + at))?;
                filled[brick] = at + bytes.len() as u64;
                file.write_all(bytes)
            }
        }
    }

    /// Writes what has come.
    pub(super) fn save(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Memory(bricks) => bricks.iter().try_for_each(|(gathered, _)| {
                out.write_all(&(gathered.len() as u64).to_le_bytes())?;
                out.write_all(gathered)
            }),
            Self::Scratch {
                file,
                starts,
                filled,
            } => starts.iter().zip(filled).try_for_each(|(start, filled)| {
                out.write_all(&filled.to_le_bytes())?;
                file.seek(SeekFrom::Start(*start))?;
                io::copy(&mut file.take(*filled), out).map(drop)
            }),
        }
    }

    /// The layer of bricks of these sizes that was written ([`Self::save`]).
    pub(super) fn restore(
        sizes: &[u64],
        gather: Gather<'_>,
        from: &mut dyn Read,
    ) -> io::Result<Self> {
        let mut layer = Self::new(sizes, gather)?;
        for (brick, &size) in sizes.iter().enumerate() {
            let mut length = [0; 8];
            from.read_exact(&mut length)?;
            let length = u64::from_le_bytes(length);
            let mut bytes = Vec::new();
            from.take(length.min(size)).read_to_end(&mut bytes)?;
            if bytes.len() as u64 != length {
                return Err(io::ErrorKind::InvalidData.into());
            }
            layer.write(brick, 0, &bytes)?;
        }
        Ok(layer)
    }

    /// Takes a finished brick out.
    pub(super) fn take(&mut self, brick: usize) -> io::Result<Vec<u8>> {
        match self {
            Self::Memory(bricks) => Ok(std::mem::take(&mut bricks[brick].0)),
            Self::Scratch { file, starts, .. } => {
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
