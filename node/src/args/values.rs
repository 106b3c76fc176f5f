//! Values of options: from their text, or with what is wrong with it.

use super::{
    CameraArg, CostArg, DeviceChoice, Orbit, PlacementArg, QualityArg, SliceArg, TransferRange,
};
use crate::{
    network::address,
    overlay::{Note, Overlay},
    surface_file::{Look, is_surface},
};
use brickmesh_actors::plain_text::counted;
use brickmesh_topology::data::{
    partition_method::PartitionMethod, slab_projections::SLAB_SLICES_MAX, triangles::Material,
};
use brickmesh_topology::picture::{
    clip::Clip,
    isosurface::{self, Isosurface},
    render_settings::{EXPOSURES, GAMMAS, Light, STEP_VOXELS_MIN},
    slice::Slice,
    surface_rays::{AmbientOcclusion, Reflections},
};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use glam::DAffine3;
use std::{
    net::SocketAddr,
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

/// Reads `on` or `off`.
pub(crate) fn switch() -> impl TypedValueParser<Value = bool> {
    PossibleValuesParser::new(["on", "off"]).map(|value| value == "on")
}

/// The placements by name.
const PLACEMENTS: [(&str, Option<PartitionMethod>); 6] = [
    ("redundant", None),
    ("grid", Some(PartitionMethod::Grid)),
    ("slabs-equal", Some(PartitionMethod::SlabsEqual)),
    ("slabs-min-max", Some(PartitionMethod::SlabsMinMax)),
    (
        "slabs-least-squares",
        Some(PartitionMethod::SlabsLeastSquares),
    ),
    ("kd-tree", Some(PartitionMethod::KdTree)),
];

/// Reads the name of a placement.
pub(crate) fn placement() -> impl TypedValueParser<Value = Option<PartitionMethod>> {
    let names = PossibleValuesParser::new(PLACEMENTS.map(|(name, _)| name));
    names.map(|name| named_placement(&name))
}

/// The same, or `auto`.
pub(crate) fn placement_or_auto() -> impl TypedValueParser<Value = PlacementArg> {
    let names = ["auto"].into_iter().chain(PLACEMENTS.map(|(name, _)| name));
    PossibleValuesParser::new(names).map(|name| match name.as_str() {
        "auto" => PlacementArg::Auto,
        name => PlacementArg::Method(named_placement(name)),
    })
}

/// The name of a placement.
pub(crate) fn placement_name(method: Option<PartitionMethod>) -> &'static str {
    let named = PLACEMENTS.iter().find(|(_, m)| *m == method);
    named.map_or("another method", |(name, _)| name)
}

fn named_placement(name: &str) -> Option<PartitionMethod> {
    let found = PLACEMENTS.iter().find(|(n, _)| *n == name);
    found.and_then(|(_, method)| *method)
}

/// Reads the speeds of machines, such as `1,1,0.5`.
pub(crate) fn parse_speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.trim().parse().map_err(|e| format!("{text:?}: {e}"))?;
    if (0.001..=1000.0).contains(&speed) {
        Ok(speed)
    } else {
        Err(format!("{speed}: it must be 0.001 to 1000"))
    }
}

pub(crate) fn parse_device(text: &str) -> Result<DeviceChoice, String> {
    match text.split_once(':') {
        None if text == "auto" => Ok(DeviceChoice::Auto),
        None if text == "cpu" => Ok(DeviceChoice::Cpu),
        None if text == "vulkan" => Ok(DeviceChoice::Vulkan(None)),
        Some(("vulkan", index)) => {
            let index = index
                .parse()
                .map_err(|_| format!("{index:?} is no device number"))?;
            Ok(DeviceChoice::Vulkan(Some(index)))
        }
        _ => Err("it must be auto, cpu, vulkan or vulkan:N".to_owned()),
    }
}

pub(crate) fn parse_size(text: &str) -> Result<(u32, u32), String> {
    let wrong = || "it must be WIDTHxHEIGHT in pixels, such as 512x512".to_owned();
    let (w, h) = text.split_once('x').ok_or_else(wrong)?;
    let size = (
        w.parse().map_err(|_| wrong())?,
        h.parse().map_err(|_| wrong())?,
    );
    let max = brickmesh_topology::picture::camera::PICTURE_EDGE_MAX;
    if [size.0, size.1].iter().all(|n| (1..=max).contains(n)) {
        Ok(size)
    } else {
        Err(format!("each edge must be 1 to {max} pixels"))
    }
}

fn numbers<const N: usize>(text: &str) -> Result<[f64; N], String> {
    let parsed: Result<Vec<f64>, _> = text.split(',').map(|n| n.trim().parse::<f64>()).collect();
    let values = parsed.map_err(|e| format!("{text:?}: {e}"))?;
    if values.iter().any(|v| !v.is_finite()) {
        return Err(format!("{text:?}: numbers must be finite"));
    }
    values
        .try_into()
        .map_err(|v: Vec<f64>| format!("{text:?}: {} numbers, expected {N}", v.len()))
}

/// Reads the value of `--camera`.
///
/// # Errors
/// What is wrong with it.
pub fn parse_camera(text: &str) -> Result<CameraArg, String> {
    let mut camera = CameraArg::default();
    for part in text.split_whitespace() {
        match part.split_once('=') {
            Some(("eye", v)) => camera.eye = Some(numbers(v)?),
            Some(("at", v)) => camera.at = Some(numbers(v)?),
            Some(("up", v)) => camera.up = Some(numbers(v)?),
            Some(("fov", v)) => match numbers::<1>(v)? {
                [fov] if fov > 0.0 && fov < 180.0 => camera.fov = Some(fov),
                [fov] => {
                    return Err(format!(
                        "fov is {fov} degrees; it must be above 0 and below 180"
                    ));
                }
            },
            _ => return Err(format!("{part:?}: expected eye=, at=, up= or fov=")),
        }
    }
    Ok(camera)
}

/// Reads the value of `--orbit`.
///
/// # Errors
/// What is wrong with it.
pub fn parse_orbit(text: &str) -> Result<Orbit, String> {
    let two_or_three = |why: String| {
        format!("{why}; it must be AZIMUTH,ELEVATION in degrees, or AZIMUTH,ELEVATION,ZOOM")
    };
    let [azimuth, elevation, zoom] = match text.split(',').count() {
        2 => numbers::<2>(text).map(|[a, e]| [a, e, 1.0]),
        3 => numbers::<3>(text),
        n => Err(format!(
            "{text:?}: {n} {}",
            if n == 1 { "number" } else { "numbers" }
        )),
    }
    .map_err(two_or_three)?;
    if zoom > 0.0 {
        Ok(Orbit {
            azimuth,
            elevation,
            zoom,
        })
    } else {
        Err(format!("zoom is {zoom}; it must be above 0"))
    }
}

pub(crate) fn parse_finite(text: &str) -> Result<f64, String> {
    numbers::<1>(text).map(|[value]| value)
}

pub(crate) fn parse_transfer_range(text: &str) -> Result<TransferRange, String> {
    match text {
        "data" => return Ok(TransferRange::Data),
        "preset" => return Ok(TransferRange::Preset),
        _ => {}
    }
    match numbers::<2>(text) {
        Ok([low, high]) if low < high => Ok(TransferRange::Given(low, high)),
        _ => Err("it must be data, preset, or two values, the lower one first: LO,HI".to_owned()),
    }
}

/// Longest name of a peer, in characters: it stands in logs, tables and metrics.
const NAME_CHARACTERS_MAX: usize = 64;

pub(crate) fn parse_name(text: &str) -> Result<String, String> {
    let count = text.chars().count();
    if (1..=NAME_CHARACTERS_MAX).contains(&count) && !text.chars().any(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "it must be 1 to {NAME_CHARACTERS_MAX} characters, no line breaks or the like"
        ))
    }
}

pub(crate) fn parse_address(text: &str) -> Result<String, String> {
    let parsed = address::parse(text).map_err(|error| error.to_string());
    parsed.map(|_| text.to_owned())
}

pub(crate) fn parse_listen_address(text: &str) -> Result<String, String> {
    let parsed = address::parse(text).map_err(|error| error.to_string())?;
    let is_number = address::check(&parsed).is_ok();
    is_number.then(|| text.to_owned()).ok_or_else(|| {
        "it names a host; listen on a number, such as 192.168.1.5:4001, or 0.0.0.0:4001 for all"
            .to_owned()
    })
}

pub(crate) fn parse_socket(text: &str) -> Result<SocketAddr, String> {
    let parsed = text.parse();
    parsed.map_err(|_| "it must be like 127.0.0.1:9464".to_owned())
}

pub(crate) fn parse_milliseconds(text: &str) -> Result<f64, String> {
    let [ms] = numbers::<1>(text)?;
    if (0.0..=60_000.0).contains(&ms) {
        Ok(ms)
    } else {
        Err("it must be 0 to 60000".to_owned())
    }
}

pub(crate) fn parse_rate(text: &str) -> Result<f64, String> {
    let [rate] = numbers::<1>(text)?;
    if (0.1..=1000.0).contains(&rate) {
        Ok(rate)
    } else {
        Err("it must be 0.1 to 1000".to_owned())
    }
}

pub(crate) fn parse_step(text: &str) -> Result<f64, String> {
    let [step] = numbers::<1>(text)?;
    if (STEP_VOXELS_MIN..=1e3).contains(&step) {
        Ok(step)
    } else {
        Err(format!("it must be {STEP_VOXELS_MIN} to 1000"))
    }
}

pub(crate) fn parse_seconds(text: &str) -> Result<f64, String> {
    let [seconds] = numbers::<1>(text)?;
    if seconds > 0.0 && seconds <= 3600.0 {
        Ok(seconds)
    } else {
        Err("it must be above 0, at most 3600".to_owned())
    }
}

pub(crate) fn parse_quality(text: &str) -> Result<QualityArg, String> {
    Ok(match text {
        "exact" => QualityArg::Exact,
        "auto" => QualityArg::Auto,
        level => QualityArg::Level(level.parse().map_err(|_| {
            "it must be exact, auto, or the number of a level: 0 is exact, 1 the next".to_owned()
        })?),
    })
}

pub(crate) fn parse_overlay(text: &str) -> Result<Overlay, String> {
    if text == "none" {
        return Ok(Overlay::default());
    }
    Overlay::of_parts(text)
}

pub(crate) fn parse_note(text: &str) -> Result<Note, String> {
    let (at, text) = text
        .split_once(':')
        .ok_or("it must be three numbers, a colon and a text: 10,20,30:tip")?;
    Ok(Note {
        at: numbers::<3>(at)?,
        text: text.to_owned(),
    })
}

pub(crate) fn parse_exposure(text: &str) -> Result<f32, String> {
    within(text, &EXPOSURES)
}

pub(crate) fn parse_gamma(text: &str) -> Result<f32, String> {
    within(text, &GAMMAS)
}

fn within(text: &str, bounds: &RangeInclusive<f32>) -> Result<f32, String> {
    let number: f32 = text.parse().map_err(|_| "it must be a number".to_owned())?;
    let wrong = || format!("it must be {} to {}", bounds.start(), bounds.end());
    bounds.contains(&number).then_some(number).ok_or_else(wrong)
}

#[expect(clippy::cast_possible_truncation, reason = "colours are f32")]
pub(crate) fn parse_color(text: &str) -> Result<[f32; 3], String> {
    let color = numbers::<3>(text)?;
    if color.iter().all(|c| (0.0..=1.0).contains(c)) {
        Ok(color.map(|c| c as f32))
    } else {
        Err("each must be 0 to 1".to_owned())
    }
}

/// How far rays of ambient occlusion reach, world units.
///
/// # Errors
/// No number, or none above 0.
pub(crate) fn parse_reach(text: &str) -> Result<f64, String> {
    let [reach] = numbers::<1>(text)?;
    let occlusion = AmbientOcclusion { rays: 1, reach };
    occlusion.validate().map_err(|e| e.to_string())?;
    Ok(reach)
}

/// The part that surfaces mirror.
///
/// # Errors
/// No number, or none above 0, up to 1.
#[expect(
    clippy::cast_possible_truncation,
    reason = "casts of floats saturate; what is out of bounds is refused"
)]
pub(crate) fn parse_mirrored_part(text: &str) -> Result<f32, String> {
    let [part] = numbers::<1>(text)?;
    let part = part as f32;
    let reflections = Reflections { depth: 1, part };
    reflections.validate().map_err(|e| e.to_string())?;
    Ok(part)
}

/// An isosurface: V, V,R,G,B or V,R,G,B,OPACITY.
#[expect(
    clippy::cast_possible_truncation,
    reason = "casts of floats saturate; what is out of bounds is refused"
)]
pub(crate) fn parse_isosurface(text: &str) -> Result<Isosurface, String> {
    let surface = match text.split(',').count() {
        1 => Isosurface::new(numbers::<1>(text)?[0]),
        4 => {
            let [value, color @ ..] = numbers::<4>(text)?;
            let color = color.map(|c| c as f32);
            Isosurface {
                color,
                ..Isosurface::new(value)
            }
        }
        5 => {
            let [value, r, g, b, opacity] = numbers::<5>(text)?;
            Isosurface {
                value,
                color: [r, g, b].map(|c| c as f32),
                opacity: opacity as f32,
            }
        }
        found => {
            return Err(format!(
                "found {found} numbers; expected a value, or with colour 4, or with colour and opacity 5"
            ));
        }
    };
    isosurface::validate(&[surface]).map_err(|e| e.to_string())?;
    Ok(surface)
}

/// A triangle mesh that is to be seen: a file, and what its triangles look like.
#[derive(Clone, Debug, PartialEq)]
pub struct SurfaceArg {
    /// The file.
    pub path: PathBuf,
    /// Linear RGB; `None`: what the file says, or by its number.
    pub color: Option<[f32; 3]>,
    /// Above 0, up to 1; of what is opaque in the file.
    pub opacity: f32,
    /// From the places in the file to the world.
    pub place: DAffine3,
}

/// Colours of surfaces for which nobody says one, by number.
const SURFACE_COLORS: [[f32; 3]; 6] = [
    [0.87, 0.79, 0.65],
    [0.35, 0.6, 0.85],
    [0.9, 0.45, 0.35],
    [0.5, 0.75, 0.4],
    [0.75, 0.55, 0.85],
    [0.95, 0.8, 0.35],
];

impl SurfaceArg {
    /// Reads FILE, FILE,R,G,B or FILE,R,G,B,OPACITY.
    ///
    /// # Errors
    /// What is wrong with it.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "what is out of bounds is refused"
    )]
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.rsplit(',');
        let numbers: Vec<f64> = words
            .by_ref()
            .map_while(|word| word.trim().parse().ok())
            .take(4)
            .collect();
        let path = |words: usize| {
            let parts: Vec<&str> = text.split(',').collect();
            PathBuf::from(parts[..parts.len() - words].join(","))
        };
        let found = match numbers[..] {
            [] => Self::new(path(0)),
            [b, g, r] => Self {
                color: Some([r, g, b].map(|c| c as f32)),
                ..Self::new(path(3))
            },
            [opacity, b, g, r] => Self {
                color: Some([r, g, b].map(|c| c as f32)),
                opacity: opacity as f32,
                ..Self::new(path(4))
            },
            _ => {
                return Err(format!(
                    "found {} behind the file; expected none, a colour of 3, or with opacity 4",
                    counted(numbers.len(), "number")
                ));
            }
        };
        if !is_surface(&found.path) {
            return Err(format!(
                "{} is named like no triangle mesh; expected .ply, .stl, .obj, .gltf or .glb, then colour (3 numbers) and opacity, if any",
                found.path.display()
            ));
        }
        if !found.material(0, None).is_valid() {
            return Err("a colour must be of 0 to 1 each, an opacity above 0, up to 1".to_owned());
        }
        Ok(found)
    }

    /// A file in whatever colour, opaque.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            color: None,
            opacity: 1.0,
            place: DAffine3::IDENTITY,
        }
    }

    /// What its triangles look like of which the file says so, where it is the n-th, from 0; its own colour goes before the file's.
    #[must_use]
    pub fn material(&self, n: usize, look: Option<Look>) -> Material {
        let color = self.color.or(look.map(|l| l.color));
        let name = self.path.file_name().unwrap_or_default();
        Material {
            name: name.to_string_lossy().into_owned(),
            color: color.unwrap_or(SURFACE_COLORS[n % SURFACE_COLORS.len()]),
            opacity: look.map_or(self.opacity, |l| {
                (self.opacity * l.opacity).max(f32::MIN_POSITIVE)
            }),
        }
    }
}

/// A volume that is there, or that may be elsewhere; what is named like a triangle mesh with a colour has a good one.
pub(crate) fn checked_volume(path: PathBuf) -> Result<PathBuf, String> {
    let text = path.to_str().filter(|_| !path.exists());
    let is_colored = |text: &&str| {
        let file = text.split_once(',').map(|(file, _)| Path::new(file));
        file.is_some_and(|file| is_surface(file) && file.exists())
    };
    text.filter(is_colored)
        .map_or(Ok(()), |text| SurfaceArg::parse(text).map(|_| ()))?;
    Ok(path)
}

/// A triangle mesh: FILE, FILE,R,G,B or FILE,R,G,B,OPACITY.
pub(crate) fn parse_surface(text: &str) -> Result<SurfaceArg, String> {
    SurfaceArg::parse(text)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts of floats saturate; what is out of bounds is refused"
)]
pub(crate) fn parse_light(text: &str) -> Result<Light, String> {
    let [ambient, diffuse, specular, exponent] = numbers::<4>(text)?;
    if exponent.fract() != 0.0 {
        return Err("the exponent must be a whole number".to_owned());
    }
    let [ambient, diffuse, specular] = [ambient, diffuse, specular].map(|part| part as f32);
    let light = Light {
        ambient,
        diffuse,
        specular,
        exponent: exponent as u32,
        direction: None,
    };
    light.validate().map_err(|e| e.to_string())?;
    Ok(light)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "casts of floats saturate; what is out of bounds is refused"
)]
pub(crate) fn parse_light_direction(text: &str) -> Result<[f32; 3], String> {
    let direction = numbers::<3>(text)?.map(|part| part as f32);
    let light = Light {
        direction: Some(direction),
        ..Light::default()
    };
    light.validate().map_err(|e| e.to_string())?;
    Ok(direction)
}

/// Two ends, `A..B`.
fn ends(text: &str) -> Result<(&str, &str), String> {
    text.split_once("..")
        .ok_or_else(|| format!("{text:?}: it must be two ends, A..B"))
}

pub(crate) fn parse_keep(text: &str) -> Result<[f64; 2], String> {
    let (low, high) = ends(text)?;
    let end = |text: &str| numbers(text).map(|[end]: [f64; 1]| end);
    let (low, high) = (end(low)?, end(high)?);
    if low > high {
        return Err(format!("{low} is above {high}: the lower end comes first"));
    }
    Ok([low, high])
}

pub(crate) fn parse_slab_slices(text: &str) -> Result<(u32, u32), String> {
    let (least, most) = ends(text)?;
    let number = |text: &str| {
        text.trim()
            .parse::<u32>()
            .map_err(|e| format!("{text:?}: {e}"))
    };
    let (least, most) = (number(least)?, number(most)?);
    if !(1..=SLAB_SLICES_MAX).contains(&least) || !(least..=SLAB_SLICES_MAX).contains(&most) {
        return Err(format!(
            "{text:?}: it must be 1 to {SLAB_SLICES_MAX} slices, and the fewest first"
        ));
    }
    Ok((least, most))
}

pub(crate) fn parse_direction(text: &str) -> Result<[f64; 3], String> {
    let direction = numbers(text)?;
    if direction.iter().all(|d| d.abs() <= 0.0) {
        return Err(format!("{text:?}: one of them must not be 0"));
    }
    Ok(direction)
}

pub(crate) fn parse_prices(text: &str) -> Result<CostArg, String> {
    let four = numbers::<4>(text);
    let (prices, further) = match four {
        Ok([render, local, send, further]) => ([render, local, send], Some(further)),
        Err(_) => (numbers::<3>(text)?, None),
    };
    if prices.into_iter().chain(further).any(|p| p < 0.0) {
        return Err(format!("{text:?}: no price may be below 0"));
    }
    let [render, local, send] = prices;
    Ok(CostArg {
        render,
        local,
        send,
        further,
    })
}

pub(crate) fn parse_clip(text: &str) -> Result<[[f64; 3]; 2], String> {
    let [x0, x1, y0, y1, z0, z1] = numbers::<6>(text)?;
    let bounds = [[x0, y0, z0], [x1, y1, z1]];
    let clip = Clip {
        bounds: Some(bounds),
        planes: Vec::new(),
    };
    clip.validate().map_err(|e| e.to_string())?;
    Ok(bounds)
}

pub(crate) fn parse_clip_plane(text: &str) -> Result<[f64; 4], String> {
    let plane = numbers::<4>(text)?;
    let clip = Clip {
        bounds: None,
        planes: vec![plane],
    };
    clip.validate().map_err(|e| e.to_string())?;
    Ok(plane)
}

pub(crate) fn parse_slice(text: &str) -> Result<SliceArg, String> {
    if let Some((axis, at)) = text.split_once('=') {
        let axis = ["x", "y", "z"].iter().position(|name| *name == axis.trim());
        let axis = axis.ok_or("the axis must be x, y or z")?;
        let [at] = numbers(at)?;
        return Ok(SliceArg::Axis(axis, at));
    }
    let plane = numbers(text).map_err(|e| format!("{e}; or x=I, y=I, z=I"))?;
    let slice = Slice {
        plane,
        thickness: 0.0,
    };
    slice.validate().map_err(|e| e.to_string())?;
    Ok(SliceArg::Plane(plane))
}

pub(crate) fn parse_slab(text: &str) -> Result<f64, String> {
    let [thickness] = numbers(text)?;
    let slice = Slice {
        plane: [0.0, 0.0, 1.0, 0.0],
        thickness,
    };
    slice.validate().map_err(|e| e.to_string())?;
    Ok(thickness)
}

pub(crate) fn parse_gradients(text: &str) -> Result<[f64; 2], String> {
    let found = numbers::<2>(text)?;
    if 0.0 <= found[0] && found[0] < found[1] {
        Ok(found)
    } else {
        Err("it must be two numbers from 0 on, the second greater".to_owned())
    }
}

pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let upper = text.trim().to_ascii_uppercase();
    let digits = upper.trim_end_matches(['B', 'I']);
    let (number, shift) = match digits.char_indices().last() {
        Some((at, 'K')) => (&digits[..at], 10),
        Some((at, 'M')) => (&digits[..at], 20),
        Some((at, 'G')) => (&digits[..at], 30),
        Some((at, 'T')) => (&digits[..at], 40),
        _ => (digits, 0),
    };
    let n: u64 = number
        .parse()
        .map_err(|_| "it must be bytes, or a number with K, M, G or T".to_owned())?;
    n.checked_mul(1 << shift)
        .ok_or_else(|| "it is too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mesh_in_place_of_a_volume_has_a_good_colour() {
        let folder = tempfile::tempdir().unwrap();
        let mesh = folder.path().join("a.stl");
        std::fs::write(&mesh, "").unwrap();
        let of = |colour: &str| {
            let name = format!("{}{colour}", mesh.display());
            checked_volume(name.into())
        };
        assert!(of("").is_ok() && of(",1,0,0").is_ok());
        assert!(of(",2,0,0").unwrap_err().contains("0 to 1"));
        assert!(of(",1,0").unwrap_err().contains("expected none, a colour"));
        // What else is not there may be in the mesh, by name or digest.
        assert!(checked_volume("b.stl,2,0,0".into()).is_ok());
    }

    #[test]
    fn a_colour_goes_before_that_of_the_file_and_an_opacity_is_a_factor_of_its() {
        let look = Some(Look {
            color: [0.0, 0.5, 1.0],
            opacity: 0.5,
        });
        let plain = SurfaceArg::new("a.glb".into());
        let clear = SurfaceArg {
            opacity: 0.5,
            ..plain.clone()
        };
        let of = |surface: &SurfaceArg, look| {
            let material = surface.material(0, look);
            (material.color, material.opacity)
        };
        assert_eq!(of(&plain, look), ([0.0, 0.5, 1.0], 0.5));
        assert_eq!(of(&clear, look), ([0.0, 0.5, 1.0], 0.25));
        assert_eq!(of(&clear, None), (SURFACE_COLORS[0], 0.5));
        let red = SurfaceArg::parse("a.glb,1,0,0").unwrap();
        assert_eq!(of(&red, None), ([1.0, 0.0, 0.0], 1.0));
        assert!(SurfaceArg::parse("a.glb,1,0,0,0").is_err());
    }

    #[test]
    fn values_are_read() {
        assert_eq!(parse_bytes("2GiB"), Ok(2 << 30));
        assert_eq!(parse_bytes("512M"), Ok(512 << 20));
        assert!(parse_bytes("many").is_err());
        assert_eq!(parse_device("vulkan:1"), Ok(DeviceChoice::Vulkan(Some(1))));
        assert!(parse_device("gpu").is_err());
        assert_eq!(
            parse_orbit("30,-10").map(|o| (o.elevation, o.zoom)),
            Ok((-10.0, 1.0))
        );
        assert_eq!(
            parse_camera("eye=1,2,3 fov=20").map(|c| (c.eye, c.fov)),
            Ok((Some([1.0, 2.0, 3.0]), Some(20.0)))
        );
        assert!(parse_camera("eye=1,2").is_err());
        assert!(parse_size("0x5").is_err());
        assert_eq!(parse_name("Evas Rechner"), Ok("Evas Rechner".to_owned()));
        assert!(parse_name("").is_err() && parse_name("a\nb").is_err());
        assert!(parse_name(&"ä".repeat(64)).is_ok() && parse_name(&"ä".repeat(65)).is_err());
    }
}
