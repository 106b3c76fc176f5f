//! What a file or a folder is that this program does not read, known by its content, and which tool
//! converts it.

use std::{
    fs::{self, File},
    io::Read as _,
    path::Path,
};

/// Bytes of a file that are looked at.
const HEAD_BYTES: u64 = 512;
/// Entries of a folder that are looked at.
const ENTRIES_MAX: usize = 64;

/// Something that is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// What it is.
    pub what: &'static str,
    /// What to do.
    pub advice: &'static str,
}

/// A beginning of a file: bytes at a place, what the file is then, and what to do.
type Mark = (usize, &'static [u8], &'static str, &'static str);

const TO_NIFTI: &str =
    "convert the series with dcm2niix (`dcm2niix -z y FOLDER`), and give the .nii.gz that it makes";
const IN_FIJI: &str = "open it in Fiji (ImageJ) and save it with File > Save As > Nrrd";
const IN_PARAVIEW: &str =
    "open it in ParaView, resample it to an image where it is none, and save it as .vti";
const IN_PYTHON: &str =
    "read the array in Python and write it with pynrrd (`nrrd.write(\"out.nrrd\", array)`)";
const UNPACK: &str = "unpack it first";

const DICOM: Foreign = Foreign {
    what: "DICOM",
    advice: TO_NIFTI,
};
const ZARR: Foreign = Foreign {
    what: "a Zarr store",
    advice: IN_PYTHON,
};
const TIFF: Foreign = Foreign {
    what: "TIFF",
    advice: IN_FIJI,
};

/// What is none of ours, by its first bytes.
const MARKS: [Mark; 22] = [
    (128, b"DICM", DICOM.what, DICOM.advice),
    (0, b"II*\0", TIFF.what, TIFF.advice),
    (0, b"MM\0*", TIFF.what, TIFF.advice),
    (0, b"II+\0", "BigTIFF", IN_FIJI),
    (0, b"MM\0+", "BigTIFF", IN_FIJI),
    (
        0,
        b"\x89HDF\r\n\x1a\n",
        "HDF5 (.h5, NetCDF-4, Imaris, MATLAB 7.3)",
        IN_PYTHON,
    ),
    (0, b"CDF\x01", "NetCDF", IN_PYTHON),
    (0, b"CDF\x02", "NetCDF", IN_PYTHON),
    (0, b"CDF\x05", "NetCDF", IN_PYTHON),
    (0, b"MATLAB 5.0", "a MATLAB file", IN_PYTHON),
    (0, b"\x93NUMPY", "a NumPy array", IN_PYTHON),
    (0, b"# vtk DataFile", "a legacy VTK file", IN_PARAVIEW),
    (208, b"MAP ", "an MRC map", IN_PYTHON),
    (0, b" BDV", "OpenVDB", IN_PARAVIEW),
    (0, b"ZISRAWFILE", "Zeiss CZI", IN_FIJI),
    (0, b"\xda\xce\xbe\x0a", "Nikon ND2", IN_FIJI),
    (0, b"\x89PNG", "a PNG picture", IN_FIJI),
    (0, b"\xff\xd8\xff", "a JPEG picture", IN_FIJI),
    (0, b"PK\x03\x04", "a zip archive", UNPACK),
    (0, b"BZh", "compressed with bzip2", UNPACK),
    (0, b"\xfd7zXZ", "compressed with xz", UNPACK),
    (0, b"7z\xbc\xaf", "a 7-Zip archive", UNPACK),
];

/// Files that are read, when they are named as what they are.
const MISNAMED: [Mark; 5] = [
    (0, b"NRRD000", "NRRD", "give it a name that ends in .nrrd"),
    (
        0,
        b"ObjectType",
        "MetaImage",
        "give it a name that ends in .mha, or .mhd where it is a header alone",
    ),
    (344, b"n+1\0", "NIfTI", "give it a name that ends in .nii"),
    (
        344,
        b"ni1\0",
        "the header of a NIfTI pair",
        "convert the pair to one .nii file, such as with `fslchfiletype NIFTI`",
    ),
    (
        0,
        b"\x1f\x8b",
        "compressed with gzip",
        "give it the ending that it had, such as .nii.gz, or unpack it",
    ),
];

fn found(marks: &[Mark], head: &[u8]) -> Option<Foreign> {
    let is_there = |(at, bytes, ..): &&Mark| head.get(*at..*at + bytes.len()) == Some(*bytes);
    let mark = marks.iter().find(is_there);
    mark.map(|&(_, _, what, advice)| Foreign { what, advice })
}

fn head(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(HEAD_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// What a file is, if it is none of ours. `is_named`: its name says a format that is read.
pub(super) fn of_file(path: &Path, is_named: bool) -> Option<Foreign> {
    let head = head(path)?;
    // XML begins with any amount of white space and comments.
    let text = String::from_utf8_lossy(&head);
    // What is inside of a header that is ours says nothing.
    if is_named && (text.contains("<VTKFile") || found(&MISNAMED, &head).is_some()) {
        return None;
    }
    if let Some(foreign) = found(&MARKS, &head) {
        return Some(foreign);
    }
    if is_named {
        return None;
    }
    if let Some((_, rest)) = text.split_once("<VTKFile") {
        return Some(if rest.contains("type=\"ImageData\"") {
            Foreign {
                what: "VTK ImageData",
                advice: "give it a name that ends in .vti",
            }
        } else {
            Foreign {
                what: "a VTK XML file, and no ImageData",
                advice: IN_PARAVIEW,
            }
        });
    }
    found(&MISNAMED, &head)
}

/// What a folder is, if it is known.
pub(super) fn of_folder(path: &Path) -> Option<Foreign> {
    let has = |name: &str| path.join(name).exists();
    if [".zarray", ".zgroup", ".zattrs", "zarr.json"]
        .into_iter()
        .any(has)
    {
        return Some(ZARR);
    }
    if has("attributes.json") {
        return Some(Foreign {
            what: "an N5 store",
            advice: IN_PYTHON,
        });
    }
    if has("DICOMDIR") {
        return Some(DICOM);
    }
    let mut entries: Vec<_> = fs::read_dir(path)
        .ok()?
        .take(ENTRIES_MAX)
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    entries.sort();
    let of_first = |foreign: Foreign| {
        let of_files = entries.iter().filter(|entry| entry.is_file());
        let mut of_files = of_files.filter_map(|entry| of_file(entry, true));
        of_files.any(|found| found.what == foreign.what)
    };
    if of_first(DICOM) {
        return Some(Foreign {
            what: "a folder of DICOM files",
            ..DICOM
        });
    }
    of_first(TIFF).then_some(Foreign {
        what: "a folder of TIFF files",
        advice: "open it in Fiji (ImageJ) with File > Import > Image Sequence, and save it with File > Save As > Nrrd",
    })
}

/// Whether a folder is a `.brickmesh` folder of which a part is missing: it has bricks and no manifest.
pub(super) fn is_cut_short(path: &Path) -> bool {
    path.join("bricks").is_dir() && !path.join("manifest.json").exists()
}

#[cfg(test)]
mod tests {
    use crate::volume_file::open;
    use std::fs;

    /// What is said of a file with these bytes at a place.
    fn said(name: &str, at: usize, bytes: &[u8]) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let mut all = vec![0; at];
        all.extend_from_slice(bytes);
        all.extend_from_slice(&[0; 16]);
        fs::write(&path, all).unwrap();
        open(&path).unwrap_err().problem.to_string()
    }

    #[test]
    fn files_are_known_by_what_is_in_them_whatever_their_name() {
        for (name, at, bytes, what, tool) in [
            ("a.tif", 0, &b"II*\0"[..], "TIFF", "Fiji"),
            ("a", 0, b"MM\0*", "TIFF", "Fiji"),
            ("a.dcm", 128, b"DICM", "DICOM", "dcm2niix"),
            ("IM0001", 128, b"DICM", "DICOM", "dcm2niix"),
            ("a.nrrd", 128, b"DICM", "DICOM", "dcm2niix"),
            (
                "a.vtk",
                0,
                b"# vtk DataFile Version 3.0",
                "legacy VTK",
                "ParaView",
            ),
            (
                "a.vtu",
                0,
                b"<?xml?>\n<VTKFile type=\"UnstructuredGrid\">",
                "VTK XML",
                "ParaView",
            ),
            ("a.h5", 0, b"\x89HDF\r\n\x1a\n", "HDF5", "pynrrd"),
            ("a.npy", 0, b"\x93NUMPY", "NumPy", "pynrrd"),
            ("head", 0, b"NRRD0004\n", "NRRD", ".nrrd"),
            (
                "a.xml",
                0,
                b"<VTKFile type=\"ImageData\">",
                "ImageData",
                ".vti",
            ),
        ] {
            let words = said(name, at, bytes);
            assert!(
                words.contains(what) && words.contains(tool),
                "{name}: {words}"
            );
        }
        let words = said("a.txt", 0, b"hello");
        assert!(words.contains("no format that is known"), "{words}");
    }

    #[test]
    fn only_what_has_our_own_mark_is_to_be_removed() {
        let folder = |make: &dyn Fn(&std::path::Path)| {
            let dir = tempfile::tempdir().unwrap();
            make(dir.path());
            open(dir.path()).unwrap_err().problem.to_string()
        };
        let write = |path: &std::path::Path, bytes: &[u8]| fs::write(path, bytes).unwrap();
        let dicom = [[0; 128].as_slice(), b"DICM"].concat();
        let cases = [
            (
                folder(&|d| write(&d.join(".zgroup"), b"{}")),
                "Zarr",
                "pynrrd",
            ),
            (
                folder(&|d| write(&d.join("zarr.json"), b"{}")),
                "Zarr",
                "pynrrd",
            ),
            (
                folder(&|d| write(&d.join("1.2.840"), &dicom)),
                "DICOM",
                "dcm2niix",
            ),
            (
                folder(&|d| write(&d.join("z0001.tif"), b"II*\0")),
                "TIFF",
                "Image Sequence",
            ),
            (folder(&|_| ()), "folder", "manifest.json"),
        ];
        for (words, what, tool) in cases {
            assert!(words.contains(what) && words.contains(tool), "{words}");
            assert!(!words.contains("remove"), "{words}");
        }
        let cut = folder(&|d| fs::create_dir(d.join("bricks")).unwrap());
        assert!(cut.contains("remove the folder"), "{cut}");
    }
}
