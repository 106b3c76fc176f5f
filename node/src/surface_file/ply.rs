//! PLY files: vertices with places and normals, faces as lists of vertices.

use super::{Spill, SurfaceMesh, SurfaceProblem};
use ply_rs_bw::{
    parser::{Parser, Reader},
    ply::{ElementDef, Encoding, Property, PropertyAccess, PropertyAccessResult},
};
use std::io::{BufRead, Read as _};

/// Longest line or row, in bytes: a face of some million corners.
const LINE_BYTES_MAX: u64 = 16 << 20;
/// Longest head, in bytes.
const HEADER_BYTES_MAX: u64 = 1 << 20;

/// What a line of whatever element says of what is read here.
#[derive(Default)]
struct Row {
    place: [Option<f64>; 3],
    normal: [Option<f64>; 3],
    corners: Option<Vec<i64>>,
}

impl PropertyAccess for Row {
    fn new() -> Self {
        Self::default()
    }

    fn set_property(&mut self, name: &str, property: Property) -> PropertyAccessResult {
        let number = |to: &mut Option<f64>| {
            *to = number_of(&property);
            match to {
                Some(_) => PropertyAccessResult::Set,
                None => PropertyAccessResult::UnsupportedType,
            }
        };
        match name {
            "x" => number(&mut self.place[0]),
            "y" => number(&mut self.place[1]),
            "z" => number(&mut self.place[2]),
            "nx" => number(&mut self.normal[0]),
            "ny" => number(&mut self.normal[1]),
            "nz" => number(&mut self.normal[2]),
            "vertex_indices" | "vertex_index" => {
                self.corners = corners_of(property);
                match self.corners {
                    Some(_) => PropertyAccessResult::Set,
                    None => PropertyAccessResult::UnsupportedType,
                }
            }
            _ => PropertyAccessResult::Ignored,
        }
    }
}

fn number_of(property: &Property) -> Option<f64> {
    Some(match *property {
        Property::Char(n) => n.into(),
        Property::UChar(n) => n.into(),
        Property::Short(n) => n.into(),
        Property::UShort(n) => n.into(),
        Property::Int(n) => n.into(),
        Property::UInt(n) => n.into(),
        Property::Float(n) => n.into(),
        Property::Double(n) => n,
        _ => return None,
    })
}

fn corners_of(property: Property) -> Option<Vec<i64>> {
    fn whole<T: Into<i64>>(list: Vec<T>) -> Vec<i64> {
        list.into_iter().map(Into::into).collect()
    }
    Some(match property {
        Property::ListChar(list) => whole(list),
        Property::ListUChar(list) => whole(list),
        Property::ListShort(list) => whole(list),
        Property::ListUShort(list) => whole(list),
        Property::ListInt(list) => whole(list),
        Property::ListUInt(list) => whole(list),
        _ => return None,
    })
}

/// Reads one row of an element after the other, so that no more of it is kept than is needed.
fn rows<T: BufRead>(
    file: &mut T,
    (element, encoding): (&ElementDef, Encoding),
    mut take: impl FnMut(usize, Row) -> Result<(), SurfaceProblem>,
) -> Result<(), SurfaceProblem> {
    let parser = Parser::<Row>::new();
    let wrong = |at: usize, why: String| bad(format!("{} {at}: {why}", element.name));
    if element.properties.is_empty() && element.count > 0 {
        return Err(bad(format!("element {} has no properties", element.name)));
    }
    let mut line = String::new();
    for at in 0..element.count {
        let row = match encoding {
            Encoding::Ascii => {
                line.clear();
                if file.take(LINE_BYTES_MAX).read_line(&mut line)? == 0 {
                    return Err(wrong(
                        at,
                        format!("the file ends; expected {} of them", element.count),
                    ));
                }
                parser.read_ascii_element(&line, element)
            }
            Encoding::BinaryBigEndian => {
                parser.read_big_endian_element(&mut file.take(LINE_BYTES_MAX), element)
            }
            Encoding::BinaryLittleEndian => {
                parser.read_little_endian_element(&mut file.take(LINE_BYTES_MAX), element)
            }
        };
        take(at, row.map_err(|e| wrong(at, e.to_string()))?)?;
    }
    Ok(())
}

fn bad(why: String) -> SurfaceProblem {
    SurfaceProblem::Format { format: "PLY", why }
}

pub(super) fn read(file: &mut impl BufRead, spill: &Spill) -> Result<SurfaceMesh, SurfaceProblem> {
    let mut reader = Reader::new(file.take(HEADER_BYTES_MAX));
    let header = Parser::<Row>::new().read_header(&mut reader);
    let header = header.map_err(|e| bad(e.to_string()))?;
    let file = reader.into_inner().into_inner();
    let mut mesh = SurfaceMesh::new(spill);
    let vertices = header.elements.get("vertex").map_or(0, |e| e.count);
    for (name, element) in &header.elements {
        rows(file, (element, header.encoding), |at, row| {
            match name.as_str() {
                "vertex" => {
                    let [Some(x), Some(y), Some(z)] = row.place else {
                        return Err(bad(format!("vertex {at} lacks x, y or z")));
                    };
                    mesh.add_vertex([x, y, z])?;
                    let normal = match row.normal {
                        [Some(x), Some(y), Some(z)] => [x, y, z],
                        _ => return Ok(()),
                    };
                    Ok(mesh.normals.push(normal)?)
                }
                "face" => {
                    let corners = row.corners;
                    let corners =
                        corners.ok_or_else(|| bad(format!("face {at} lacks vertex_indices")))?;
                    let is_there = |c: &&i64| usize::try_from(**c).is_ok_and(|c| c < vertices);
                    if let Some(&found) = corners.iter().find(|c| !is_there(c)) {
                        return Err(SurfaceProblem::Corner {
                            face: at,
                            found,
                            vertices: vertices.max(1),
                        });
                    }
                    let fan = corners.windows(2).skip(1);
                    let fan = fan.map(|pair| [corners[0], pair[0], pair[1]]);
                    let fan = fan.map(|t| t.map(|c| u32::try_from(c).unwrap_or(u32::MAX)));
                    Ok(mesh.triangles.extend(fan)?)
                }
                _ => Ok(()),
            }
        })?;
    }
    if mesh.triangles.len() == 0 && header.elements.keys().any(|name| name == "tristrips") {
        let why = "it has tristrips, which are not read here; write its faces as triangles";
        return Err(bad(why.to_owned()));
    }
    Ok(mesh)
}
