//! Volumes as files: what a header says, and its voxels as a stream in bounded memory.
//!
//! Shapes: voxels come x fastest, then y, then z, little-endian, in the type of the file.
//! Invariants: nothing is allocated from an unchecked number of a file; whatever the size, only a
//! buffer is held; a bad file gives an error that names file, field, found and expected.
//!
//! Formats: NRRD, MetaImage, NIfTI-1, VTK ImageData (.vti), raw with its Open SciVis name.
//! Not here: cutting into bricks (`brick_store`), several components, time series.

mod foreign;
mod header;
#[cfg(test)]
mod layouts;
mod meta_image;
mod nifti;
mod nrrd;
mod raw;
mod stream;
mod vti;

pub use foreign::Foreign;
pub use stream::VoxelStream;

use crate::{scene_file::is_scene, surface_file::is_surface};
use brickmesh_actors::plain_text::shortened;
use brickmesh_topology::{VolumeDescription, VoxelType, data::volume::VolumeError};
use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};
use stream::DataPlan;
pub(crate) use stream::PlainVoxels;

/// Largest header, in bytes.
pub(crate) const HEADER_BYTES_MAX: u64 = 1 << 20;
/// The endings that are known, for people.
const KNOWN: &str = ".nrrd, .nhdr, .mha, .mhd, .nii, .nii.gz, .vti, name_WxHxD_type.raw, name_WxHxD_type.raw.gz, or a .brickmesh folder";

/// A volume file whose header has been read.
#[derive(Clone, Debug)]
pub struct VolumeFile {
    /// The file that was named.
    pub path: PathBuf,
    /// Name of its format.
    pub format: &'static str,
    /// What it holds.
    pub description: VolumeDescription,
    pub(crate) data: DataPlan,
}

/// A file that cannot be read as a volume.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct VolumeFileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a volume file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// It cannot be opened or read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// There is no such data set.
    #[error(
        "there is no such folder; an import leaves it only when it is whole: import the volume again"
    )]
    NoStore,
    /// There is a folder where a file must be.
    #[error("it is a folder; expected a volume file, or a .brickmesh folder with a manifest.json")]
    Folder,
    /// A `.brickmesh` folder that lacks its manifest.
    #[error(
        "it has bricks and no manifest.json: it was copied in part, or an import was cut short; copy it again, or remove the folder and import the volume again"
    )]
    CutShort,
    /// A format that is not read.
    #[error("it is {}; that is not read here: {}", .0.what, .0.advice)]
    Foreign(Foreign),
    /// There is a pipe or a device where a file must be: it has no size, and need not end.
    #[error("it is no regular file; write the volume to a file first")]
    NotAFile,
    /// It is a scene.
    #[error("it is a scene; this takes a volume: `render`, `view` and `import` take scenes")]
    Scene,
    /// There are triangles in it.
    #[error(
        "it is a triangle mesh; this takes a volume: bring it in with `brickmesh import`, and give the folder"
    )]
    Triangles,
    /// Its name says no format.
    #[error("its name ends in no format that is known: {KNOWN}")]
    UnknownFormat,
    /// A field that must be there is not.
    #[error("field {field:?} is missing; expected {expected}")]
    Missing {
        /// Field.
        field: &'static str,
        /// What it must be.
        expected: &'static str,
    },
    /// A field that says what cannot be.
    #[error("field {field:?} is {found:?}; expected {expected}")]
    Field {
        /// Field.
        field: String,
        /// What it says.
        found: String,
        /// What it must say.
        expected: String,
    },
    /// A voxel type that is not rendered.
    #[error(
        "field {field:?}: voxel type {found:?} is not supported; convert the volume to u8, i8, u16, i16 or f32"
    )]
    VoxelType {
        /// Field.
        field: &'static str,
        /// Type found.
        found: String,
    },
    /// The data are in another file, and that cannot be opened.
    #[error("field {field:?} names the data file {}, which cannot be opened: {source}", data.display())]
    Detached {
        /// Field.
        field: &'static str,
        /// File named.
        data: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Fewer or more data than the header says.
    #[error("data: found {found} bytes of voxels, expected {expected}{}", if found < expected { ": the file is cut off, or its header is wrong" } else { "" })]
    Length {
        /// Bytes found; at least, where there are more than expected.
        found: u64,
        /// Bytes that the header asks for.
        expected: u64,
    },
    /// Compressed data that cannot be decoded.
    #[error("data: cannot be decoded at byte {at} of the voxels: {source}")]
    Decode {
        /// Decoded bytes before.
        at: u64,
        /// What the decoder said.
        source: io::Error,
    },
    /// A fill value that no voxel can have.
    #[error("--fill {value}: no voxel of type {voxel} has this value in this file")]
    Fill {
        /// Value asked for.
        value: f64,
        /// Type of the voxels.
        voxel: &'static str,
    },
    /// A description that is out of bounds.
    #[error("{0}")]
    Volume(#[from] VolumeError),
}

impl Problem {
    pub(crate) fn field(
        field: &str,
        found: impl std::fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Self::Field {
            field: field.to_owned(),
            found: shortened(&found.to_string()),
            expected: expected.into(),
        }
    }

    pub(crate) fn voxel_type(field: &'static str, found: &str) -> Self {
        Self::VoxelType {
            field,
            found: shortened(found),
        }
    }
}

/// What a format's reader returns.
pub(crate) struct Header {
    pub(crate) format: &'static str,
    pub(crate) description: VolumeDescription,
    pub(crate) data: DataPlan,
}

/// Reads the header of a volume file.
///
/// # Errors
/// [`VolumeFileError`], with file, field, found and expected.
pub fn open(path: &Path) -> Result<VolumeFile, VolumeFileError> {
    let named = |problem| VolumeFileError {
        path: path.to_owned(),
        problem,
    };
    let header = read_header(path).map_err(named)?;
    header.description.validate().map_err(|e| named(e.into()))?;
    let Header {
        format,
        description,
        data,
    } = header;
    Ok(VolumeFile {
        path: path.to_owned(),
        format,
        description,
        data,
    })
}

/// As [`open`], with a data value that stands for no data.
///
/// # Errors
/// [`VolumeFileError`]; also where no voxel can have the value.
pub fn open_with_fill(path: &Path, fill: Option<f64>) -> Result<VolumeFile, VolumeFileError> {
    let mut file = open(path)?;
    if let Some(value) = fill {
        let stored = file.description.stored(value);
        file.description.fill = Some(stored.ok_or_else(|| VolumeFileError {
            path: path.to_owned(),
            problem: Problem::Fill {
                value,
                voxel: file.voxel().name(),
            },
        })?);
    }
    Ok(file)
}

fn read_header(path: &Path) -> Result<Header, Problem> {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase();
    let is = |endings: &[&str]| endings.iter().any(|e| name.ends_with(e));
    // A folder, or a file that is not there, is said so whatever its name.
    let file = match open_regular(path) {
        Err(Problem::Io(e)) if e.kind() == io::ErrorKind::NotFound && is(&[".brickmesh"]) => {
            return Err(Problem::NoStore);
        }
        opened => opened?,
    };
    let known = [
        ".nrrd", ".nhdr", ".mha", ".mhd", ".nii", ".nii.gz", ".vti", ".raw", ".raw.gz",
    ];
    if is_surface(path) {
        return Err(Problem::Triangles);
    }
    if is_scene(path) {
        return Err(Problem::Scene);
    }
    // Raw voxels may begin with anything.
    if !is(&[".raw", ".raw.gz"])
        && let Some(foreign) = foreign::of_file(path, is(&known))
    {
        return Err(Problem::Foreign(foreign));
    }
    if is(&[".nrrd", ".nhdr"]) {
        nrrd::read(path, file)
    } else if is(&[".mha", ".mhd"]) {
        meta_image::read(path, file)
    } else if is(&[".nii", ".nii.gz"]) {
        nifti::read(path, file)
    } else if is(&[".vti"]) {
        vti::read(path, file)
    } else if is(&[".raw", ".raw.gz"]) {
        raw::read(path)
    } else {
        Err(Problem::UnknownFormat)
    }
}

/// Opens a file that has a size; a pipe is not opened, as that could wait for ever.
pub(crate) fn open_regular(path: &Path) -> Result<File, Problem> {
    let kind = std::fs::metadata(path)?.file_type();
    if kind.is_dir() {
        Err(match foreign::of_folder(path) {
            _ if foreign::is_cut_short(path) => Problem::CutShort,
            Some(foreign) => Problem::Foreign(foreign),
            None => Problem::Folder,
        })
    } else if kind.is_file() {
        Ok(File::open(path)?)
    } else {
        Err(Problem::NotAFile)
    }
}

impl VolumeFile {
    /// The voxels, from the first on.
    ///
    /// # Errors
    /// [`VolumeFileError`] where the data cannot be opened.
    pub fn voxels(&self) -> Result<VoxelStream, VolumeFileError> {
        VoxelStream::open(self)
    }

    /// Its voxels from a byte of them on, where any part of them can be read.
    pub(crate) fn voxels_from(
        &self,
        plain: &PlainVoxels,
        done: u64,
    ) -> Result<VoxelStream, VolumeFileError> {
        VoxelStream::open_from(self, plain, done)
    }

    /// Its voxels, where any part of them can be read.
    pub(crate) fn plain_voxels(&self) -> io::Result<Option<PlainVoxels>> {
        PlainVoxels::of(&self.data, self.description.voxel_bytes())
    }

    /// Size of a voxel, in bytes.
    pub(crate) fn voxel(&self) -> VoxelType {
        self.description.voxel
    }
}
