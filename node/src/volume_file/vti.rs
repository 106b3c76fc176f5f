//! VTK ImageData (.vti): an XML header whose arrays stand inline or appended, in base64 or raw,
//! in zlib blocks or as they are.
//!
//! Source: VTK's file formats document, section "XML File Formats". An array begins with its
//! length in bytes, or, compressed, with the number of blocks, their size, the last one's size,
//! and each one's compressed size; all in the header's word type.
//! Tags are scanned one by one and never held with their contents, so that an array of any length
//! costs a buffer.

use super::{
    HEADER_BYTES_MAX, Header, Problem,
    header::{floats, floats_n},
    stream::{DataPlan, Packing, at, skip_past},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use brickmesh_topology::{VolumeDescription, VoxelType};
use flate2::bufread::ZlibDecoder;
use quick_xml::events::BytesStart;
use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek as _},
    path::{Path, PathBuf},
};

/// Longest tag, in bytes.
const TAG_BYTES_MAX: u64 = 64 << 10;
/// Most blocks of a compressed array: their sizes take 32 MiB; 128 GiB of voxels in the 32 KiB that
/// VTK writes.
const BLOCKS_MAX: u64 = 1 << 22;
/// Characters of base64 that are decoded at a time; whole groups of four.
const BASE64_CHARACTERS: usize = 16 << 10;

/// Where an array is and how it is packed.
#[derive(Clone, Debug)]
pub(crate) struct ArrayPlan {
    offset: u64,
    base64: bool,
    compressed: bool,
    wide_words: bool,
    big_endian: bool,
}

/// What the tags have said so far.
#[derive(Default)]
struct Found {
    file: BTreeMap<String, String>,
    image: BTreeMap<String, String>,
    point_data: Option<BTreeMap<String, String>>,
    array: Option<(BTreeMap<String, String>, u64)>,
    appended: Option<(String, u64)>,
}

pub(super) fn read(path: &Path, file: File) -> Result<Header, Problem> {
    let found = scan(BufReader::new(file))?;
    let get = |map: &BTreeMap<String, String>, name: &str| map.get(name).cloned();
    let kind = get(&found.file, "type").unwrap_or_default();
    if kind != "ImageData" {
        return Err(Problem::field("VTKFile type", kind, "ImageData"));
    }
    let (compressed, wide_words, big_endian) = words(&found.file)?;
    let missing = |field, expected| Problem::Missing { field, expected };
    let (array, inline_at) = found
        .array
        .ok_or_else(|| missing("DataArray", "a point data array with one component"))?;
    let voxel = voxel(&get(&array, "type").unwrap_or_default())?;
    let mut description = VolumeDescription::new(dims(&found.image)?, voxel);
    place(&found.image, &mut description)?;
    let (offset, base64) = match get(&array, "format").as_deref() {
        Some("binary") => (inline_at, true),
        Some("appended") => {
            let text = get(&array, "offset")
                .ok_or_else(|| missing("DataArray offset", "a whole number"))?;
            let offset: u64 = text
                .parse()
                .map_err(|_| Problem::field("DataArray offset", &text, "a whole number"))?;
            let (encoding, start) = found
                .appended
                .ok_or_else(|| missing("AppendedData", "the appended arrays"))?;
            (start.saturating_add(offset), encoding == "base64")
        }
        other => {
            return Err(Problem::field(
                "DataArray format",
                other.unwrap_or("nothing"),
                "binary or appended; save the file in binary form",
            ));
        }
    };
    let plan = ArrayPlan {
        offset,
        base64,
        compressed,
        wide_words,
        big_endian,
    };
    let data = DataPlan {
        path: path.to_owned(),
        packing: Packing::Vti(plan),
        big_endian,
    };
    Ok(Header {
        format: "VTK ImageData",
        description,
        data,
    })
}

/// Whether arrays are compressed, lengths have 64 bits, and the high byte comes first.
fn words(file: &BTreeMap<String, String>) -> Result<(bool, bool, bool), Problem> {
    let get = |name: &str| file.get(name).map(String::as_str);
    let compressed = match get("compressor") {
        None | Some("") => false,
        Some("vtkZLibDataCompressor") => true,
        Some(other) => {
            return Err(Problem::field(
                "compressor",
                other,
                "vtkZLibDataCompressor, or none",
            ));
        }
    };
    let wide_words = match get("header_type") {
        None | Some("UInt32") => false,
        Some("UInt64") => true,
        Some(other) => return Err(Problem::field("header_type", other, "UInt32 or UInt64")),
    };
    let big_endian = match get("byte_order") {
        None | Some("LittleEndian") => false,
        Some("BigEndian") => true,
        Some(other) => {
            return Err(Problem::field(
                "byte_order",
                other,
                "LittleEndian or BigEndian",
            ));
        }
    };
    Ok((compressed, wide_words, big_endian))
}

/// Reads tags until the wanted array, and the appended data if it is there, are found.
fn scan(mut reader: BufReader<File>) -> Result<Found, Problem> {
    let mut found = Found::default();
    let mut in_point_data = false;
    while skip_past(&mut reader, b'<')? {
        let mut tag = Vec::new();
        let length = reader
            .by_ref()
            .take(TAG_BYTES_MAX)
            .read_until(b'>', &mut tag)?;
        if tag.pop() != Some(b'>') {
            return Err(Problem::field(
                "XML",
                format!("a tag of {length} bytes without an end"),
                "tags that end",
            ));
        }
        let position = reader.stream_position()?;
        let text = String::from_utf8_lossy(&tag).into_owned();
        if text.starts_with(['?', '!']) {
            continue;
        }
        let name: String = text
            .chars()
            .take_while(|c| !c.is_whitespace() && *c != '/')
            .collect();
        match name.as_str() {
            "VTKFile" => found.file = attributes(&text, &name)?,
            "ImageData" => found.image = attributes(&text, &name)?,
            "PointData" => {
                in_point_data = !text.ends_with('/');
                found.point_data = Some(attributes(&text, &name)?);
            }
            "" if text.starts_with("/PointData") => in_point_data = false,
            "DataArray" if in_point_data && found.array.is_none() => {
                let array = attributes(&text, &name)?;
                let inline = array.get("format").is_none_or(|f| f != "appended");
                if is_wanted(&array, found.point_data.as_ref()) {
                    found.array = Some((array, position));
                    if inline {
                        return Ok(found);
                    }
                }
            }
            "AppendedData" => {
                let encoding = attributes(&text, &name)?
                    .remove("encoding")
                    .unwrap_or_default();
                if !skip_past(&mut reader, b'_')? {
                    return Err(Problem::field("AppendedData", "no _", "_ before the data"));
                }
                found.appended = Some((encoding, reader.stream_position()?));
                return Ok(found);
            }
            _ => {}
        }
        if found.array.is_none() && position > HEADER_BYTES_MAX && found.file.is_empty() {
            break;
        }
    }
    Ok(found)
}

/// The array that PointData names as scalars, or the first, if it has one component.
fn is_wanted(
    array: &BTreeMap<String, String>,
    point_data: Option<&BTreeMap<String, String>>,
) -> bool {
    let scalar = array.get("NumberOfComponents").is_none_or(|n| n == "1");
    let active = point_data.and_then(|p| p.get("Scalars"));
    scalar && active.is_none_or(|name| array.get("Name") == Some(name))
}

fn attributes(text: &str, name: &str) -> Result<BTreeMap<String, String>, Problem> {
    let tag = BytesStart::from_content(text.trim_end_matches('/'), name.len());
    let mut out = BTreeMap::new();
    for attribute in tag.attributes() {
        let attribute =
            attribute.map_err(|e| Problem::field(name, e, "attributes name=\"value\""))?;
        let key = attribute.key.as_ref().to_owned();
        out.insert(key, attribute.value.into_owned());
    }
    Ok(out)
}

fn dims(image: &BTreeMap<String, String>) -> Result<[u32; 3], Problem> {
    let field = "WholeExtent";
    let text = image.get(field).ok_or(Problem::Missing {
        field,
        expected: "six whole numbers",
    })?;
    let numbers: Result<Vec<i64>, _> = text.split_whitespace().map(str::parse).collect();
    let wrong = || {
        Problem::field(
            field,
            text,
            "six whole numbers x0 x1 y0 y1 z0 z1, ascending",
        )
    };
    let e: [i64; 6] = numbers
        .ok()
        .and_then(|n| n.try_into().ok())
        .ok_or_else(wrong)?;
    let mut dims = [0; 3];
    for a in 0..3 {
        let n = e[2 * a + 1]
            .checked_sub(e[2 * a])
            .and_then(|d| d.checked_add(1));
        dims[a] = n.and_then(|n| u32::try_from(n).ok()).ok_or_else(wrong)?;
    }
    Ok(dims)
}

fn place(image: &BTreeMap<String, String>, volume: &mut VolumeDescription) -> Result<(), Problem> {
    if let Some(text) = image.get("Spacing") {
        volume.spacing = floats_n("Spacing", text)?;
    }
    if let Some(text) = image.get("Direction") {
        // Row by row; ours are columns.
        let m = floats_n::<9>("Direction", text)?;
        volume.direction = [[m[0], m[3], m[6]], [m[1], m[4], m[7]], [m[2], m[5], m[8]]];
    }
    let origin = image
        .get("Origin")
        .map_or(Ok([0.0; 3]), |t| floats_n("Origin", t))?;
    // An extent may begin elsewhere than at 0: sample (0,0,0) stands there.
    let extent = floats(
        "WholeExtent",
        image.get("WholeExtent").map_or("", String::as_str),
    )?;
    volume.origin = origin;
    let first = glam::DVec3::new(extent[0], extent[2], extent[4]);
    volume.origin = volume.world_from_grid().transform_point3(first).to_array();
    Ok(())
}

fn voxel(text: &str) -> Result<VoxelType, Problem> {
    match text {
        "UInt8" => Ok(VoxelType::U8),
        "Int8" => Ok(VoxelType::I8),
        "UInt16" => Ok(VoxelType::U16),
        "Int16" => Ok(VoxelType::I16),
        "Float32" => Ok(VoxelType::F32),
        other => Err(Problem::voxel_type("DataArray type", other)),
    }
}

/// The array's voxels.
pub(super) fn reader(path: &PathBuf, plan: &ArrayPlan) -> Result<Box<dyn Read + Send>, Problem> {
    let file = at(path, plan.offset)?;
    let mut bytes: Box<dyn BufRead + Send> = if plan.base64 {
        Box::new(BufReader::new(Base64Text::new(file)))
    } else {
        Box::new(file)
    };
    let mut word = || -> Result<u64, Problem> {
        let mut w = [0; 8];
        let n = if plan.wide_words { 8 } else { 4 };
        bytes
            .read_exact(&mut w[..n])
            .map_err(|e| Problem::field("array header", e, "lengths before the data"))?;
        if plan.big_endian {
            w[..n].reverse();
        }
        Ok(u64::from_le_bytes(w))
    };
    if !plan.compressed {
        let length = word()?;
        return Ok(Box::new(bytes.take(length)));
    }
    let count = word()?;
    if count > BLOCKS_MAX {
        return Err(Problem::field(
            "array header",
            format!("{count} blocks"),
            format!("at most {BLOCKS_MAX}"),
        ));
    }
    let (_block, _last) = (word()?, word()?);
    let mut sizes = VecDeque::new();
    for _ in 0..count {
        sizes.push_back(word()?);
    }
    Ok(Box::new(Blocks {
        rest: Some(bytes),
        block: None,
        sizes,
    }))
}

/// zlib blocks, one after another.
struct Blocks {
    rest: Option<Box<dyn BufRead + Send>>,
    block: Option<ZlibDecoder<io::Take<Box<dyn BufRead + Send>>>>,
    sizes: VecDeque<u64>,
}

impl Read for Blocks {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(block) = &mut self.block {
                let n = block.read(out)?;
                if n > 0 || out.is_empty() {
                    return Ok(n);
                }
            }
            if let Some(block) = self.block.take() {
                let mut left = block.into_inner();
                io::copy(&mut left, &mut io::sink())?;
                self.rest = Some(left.into_inner());
            }
            let (Some(size), Some(rest)) = (self.sizes.pop_front(), self.rest.take()) else {
                return Ok(0);
            };
            self.block = Some(ZlibDecoder::new(rest.take(size)));
        }
    }
}

/// Decodes base64 text up to the next tag; white space does not count, and padding may stand
/// between two pieces.
struct Base64Text {
    text: BufReader<File>,
    decoded: Vec<u8>,
    used: usize,
}

impl Base64Text {
    fn new(text: BufReader<File>) -> Self {
        Self {
            text,
            decoded: Vec::new(),
            used: 0,
        }
    }

    /// Decodes the next groups; false at the end.
    fn refill(&mut self) -> io::Result<bool> {
        let mut characters = Vec::with_capacity(BASE64_CHARACTERS);
        while characters.len() < BASE64_CHARACTERS {
            let buffer = self.text.fill_buf()?;
            let Some(&next) = buffer.first() else { break };
            if next == b'<' {
                break;
            }
            let room = BASE64_CHARACTERS - characters.len();
            let end = buffer
                .iter()
                .take(room)
                .position(|&b| b == b'<')
                .unwrap_or(buffer.len().min(room));
            characters.extend(buffer[..end].iter().filter(|b| !b.is_ascii_whitespace()));
            self.text.consume(end);
        }
        if !characters.len().is_multiple_of(4) {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "base64 is cut off",
            ));
        }
        (self.used, self.decoded) = (0, Vec::new());
        let mut rest = characters.as_slice();
        while !rest.is_empty() {
            // A piece ends with the group that holds its padding.
            let padding = rest.iter().position(|&b| b == b'=');
            let end = padding.map_or(rest.len(), |at| (at / 4 * 4 + 4).min(rest.len()));
            STANDARD
                .decode_vec(&rest[..end], &mut self.decoded)
                .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, format!("base64: {e}")))?;
            rest = &rest[end..];
        }
        Ok(!self.decoded.is_empty())
    }
}

impl Read for Base64Text {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.used == self.decoded.len() && !self.refill()? {
            return Ok(0);
        }
        let n = out.len().min(self.decoded.len() - self.used);
        out[..n].copy_from_slice(&self.decoded[self.used..self.used + n]);
        self.used += n;
        Ok(n)
    }
}
