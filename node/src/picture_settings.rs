//! What the pictures of a command have in common, whatever the camera.

use crate::{
    args::{PictureArgs, QualityArg, SliceArg},
    overlay::Overlay,
    saved_session::SavedSession,
    short_numbers::{short, short_range},
    terminal::note,
    transfer,
};
use brickmesh_actors::plain_text::plain_text;
use brickmesh_topology::{
    Manifest, RenderSettings, VolumeDescription, VoxelType,
    balance::plan_rules::PlanRules,
    picture::{
        clip::Clip,
        isosurface::{self, Isosurface},
        render_settings::{Light, Mode, Paint},
        slice::Slice,
        slice_views::SliceViews,
        surface_rays::{AmbientOcclusion, Reflections},
    },
};
use std::path::Path;

/// Samples from one corner of a volume to the other, at most: kernels count those up to an eight times
/// as distant eye.
const SAMPLES_ACROSS_MAX: f64 = 2_097_152.0;

/// Fewer steps between dark and bright than these can be seen as bands.
const FLOATS_MIN: u32 = 256;

/// See the module.
#[derive(Clone, Debug)]
pub struct PictureSettings {
    /// What is to be seen.
    pub render: RenderSettings,
    /// How fine the volume is seen.
    pub quality: QualityArg,
    /// How frames are planned.
    pub rules: PlanRules,
    /// What is drawn over them.
    pub overlay: Overlay,
    /// Slices beside them in a window, where a session has some.
    pub slices: Option<SliceViews>,
    /// What was decided for who did not say, in lines for people.
    pub told: Vec<String>,
}

impl PictureSettings {
    /// What the command line asks for, of a data set.
    ///
    /// # Errors
    /// Where the transfer function or the session cannot be loaded.
    pub fn of(args: &PictureArgs, rules: PlanRules, manifest: &Manifest) -> Result<Self, String> {
        let volume = manifest.volume();
        if let Some(path) = &args.session {
            let saved = SavedSession::read(path, manifest)?;
            let rules = rules_for(&saved.settings, rules);
            return Ok(Self {
                render: saved.settings,
                quality: args.quality,
                rules,
                overlay: overlay(args, saved.overlay)?,
                slices: saved.slices,
                told: vec![as_in_session(path)],
            });
        }
        let chosen = transfer::choose(
            args.transfer.as_deref(),
            args.transfer_range,
            args.mode(),
            manifest,
        )
        .map_err(|e| e.to_string())?;
        let mut told = Vec::new();
        let has_triangles = !manifest.materials().is_empty();
        if args.mode().has_samples() && !(has_triangles && manifest.range().is_none()) {
            told.push(chosen.told);
        }
        told.extend(triangles(args.mode(), manifest)?);
        let isosurfaces = isosurfaces(args, manifest, &mut told)?;
        told.extend(facts(args, manifest));
        let step = step(args, volume, &mut told);
        let light = Light {
            direction: args.light_from,
            ..args.light.unwrap_or_default()
        };
        let shapes = args.transfer_2d.as_deref().map(transfer::shapes);
        let shapes = shapes.transpose().map_err(|e| e.to_string())?;
        // In a plane or a line there are no surfaces to be lit.
        let shade = args.shade.unwrap_or(!volume.is_thin());
        rays_have_surfaces(args, shade, has_triangles || !isosurfaces.is_empty())?;
        let render = RenderSettings {
            transfer: chosen.function,
            step,
            shade,
            light,
            gradient_opacity: args.gradient_opacity,
            transfer_2d: shapes.unwrap_or_default(),
            preintegrate: args.preintegrate,
            isosurfaces,
            shadows: args.has_shadows(),
            ambient_occlusion: occlusion(args, volume),
            reflections: reflections(args),
            paint: paint(args)?,
            clip: Clip {
                bounds: args.clip,
                planes: args.clip_plane.clone(),
            },
            slice: slice(args, volume)?,
            mode: args.mode(),
            jitter: args.jitter,
            background: args.background,
            background_top: args.background_top,
            exposure: args.exposure,
            gamma: args.gamma,
        };
        Ok(Self {
            rules: rules_for(&render, rules),
            render,
            quality: args.quality,
            overlay: overlay(args, Overlay::default())?,
            slices: None,
            told,
        })
    }

    /// Says what was decided.
    pub fn tell(&self) {
        for line in &self.told {
            note(format_args!("brickmesh: {line}"));
        }
    }
}

/// Part of the volume's diagonal that rays of ambient occlusion reach, by default.
const OCCLUSION_PART: f64 = 0.1;
/// Part that surfaces mirror, by default.
const MIRRORED_PART: f32 = 0.2;

fn as_in_session(path: &Path) -> String {
    format!("all that is seen is as in session {}", path.display())
}

/// The ambient occlusion that the command line asks for.
fn occlusion(args: &PictureArgs, volume: &VolumeDescription) -> Option<AmbientOcclusion> {
    let rays = args.ao?;
    let reach = args.ao_reach;
    let reach = reach.unwrap_or_else(|| volume.diagonal() * OCCLUSION_PART);
    Some(AmbientOcclusion { rays, reach })
}

/// The reflections that the command line asks for.
fn reflections(args: &PictureArgs) -> Option<Reflections> {
    let depth = args.reflect?;
    let part = args.reflect_part.unwrap_or(MIRRORED_PART);
    Some(Reflections { depth, part })
}

/// What colours are to say, if anything.
fn paint(args: &PictureArgs) -> Result<Option<Paint>, String> {
    if args.paint.is_some() && args.mode().combines_values() {
        return Err(
            "--paint is for --mode dvr, iso and additive: in others pixels are values, not colours"
                .to_owned(),
        );
    }
    Ok(args.paint)
}

/// The rules by which such pictures can be planned.
fn rules_for(settings: &RenderSettings, rules: PlanRules) -> PlanRules {
    if settings.has_secondary_rays() {
        rules.for_rays()
    } else {
        rules
    }
}

/// Checks that there are surfaces for what the command line asks to be sent from them.
fn rays_have_surfaces(args: &PictureArgs, shade: bool, are_there: bool) -> Result<(), String> {
    if !args.sends_rays() {
        return Ok(());
    }
    if !args.mode().hides() {
        return Err("--shadows, --ao and --reflect are for --mode dvr and iso".to_owned());
    }
    if !are_there {
        return Err("--shadows, --ao and --reflect are for surfaces, and there are none: give --iso VALUE or --surface FILE".to_owned());
    }
    if args.has_shadows() && !shade {
        return Err("--shadows dims the light of surfaces, which are not lit: give --shade on (where an axis has one voxel it is off by itself)".to_owned());
    }
    if args.has_shadows() && args.light_from.is_none() {
        return Err("--shadows: a light at the eye sees none; say where it is, --light-from RIGHT,UP,NEARER".to_owned());
    }
    Ok(())
}

/// The step, world units; it is told where that is longer than the command line asks for.
fn step(args: &PictureArgs, volume: &VolumeDescription, told: &mut Vec<String>) -> f64 {
    let asked = args.step * volume.min_spacing();
    let least = least_step(volume);
    if least > asked {
        told.push(format!(
            "the step is {} in place of {}: the spacing of the shortest axis is too short beside the size of the volume",
            short(least),
            short(asked)
        ));
    }
    asked.max(least)
}

/// What the command line asks to be drawn over pictures, or else `saved`, and its notes.
///
/// # Errors
/// Where there are too many notes.
fn overlay(args: &PictureArgs, saved: Overlay) -> Result<Overlay, String> {
    let mut overlay = args.overlay.clone().unwrap_or(saved);
    overlay.notes.extend(args.note.iter().cloned());
    overlay.validate().map(|()| overlay)
}

/// The isosurfaces that the command line asks for; of each beyond all values it is told.
///
/// # Errors
/// Where the mode shows none, there is none, or none can be seen and nothing else is.
fn isosurfaces(
    args: &PictureArgs,
    manifest: &Manifest,
    told: &mut Vec<String>,
) -> Result<Vec<Isosurface>, String> {
    let mode = args.mode();
    if args.iso.is_empty() && mode == Mode::Iso {
        return Err("--mode iso shows isosurfaces: say of which value, --iso VALUE".to_owned());
    }
    if !args.iso.is_empty() && !mode.hides() {
        return Err("--iso is for --mode dvr and iso".to_owned());
    }
    isosurface::validate(&args.iso).map_err(|e| format!("--iso: {e}"))?;
    let Some(range) = manifest.value_range() else {
        return Ok(args.iso.clone());
    };
    let beyond = |surface: &&Isosurface| !surface.is_within(range);
    let line = |surface: &Isosurface| {
        let (value, range) = (short(surface.value), short_range(range));
        format!("there is no isosurface of {value}: values are {range}, and some must be less")
    };
    let lines: Vec<String> = args.iso.iter().filter(beyond).map(line).collect();
    if mode == Mode::Iso && lines.len() == args.iso.len() {
        return Err(lines.join("; "));
    }
    told.extend(lines);
    Ok(args.iso.clone())
}

/// The isosurfaces by their values, for people.
pub(crate) fn isosurfaces_of(settings: &RenderSettings) -> String {
    let values: Vec<String> = (settings.surfaces().iter())
        .map(|surface| short(surface.value))
        .collect();
    format!("the isosurfaces of {}", values.join(", "))
}

/// The slice that the command line asks for, in modes that show one.
///
/// # Errors
/// Where it is beside the volume, or the mode shows none.
pub(crate) fn slice(
    args: &PictureArgs,
    volume: &VolumeDescription,
) -> Result<Option<Slice>, String> {
    let mode = args.mode();
    if !mode.is_slice() {
        let is_given = args.slice.is_some() || args.slab.is_some();
        let why = "--slice and --slab are for --mode slice and slice-mean";
        return if is_given {
            Err(why.to_owned())
        } else {
            Ok(None)
        };
    }
    let dims = volume.dims;
    let slice = match args.slice {
        None => Slice::on_axis(volume, 2, f64::from(dims[2] / 2)),
        Some(SliceArg::Plane(plane)) => Slice {
            plane,
            thickness: 0.0,
        },
        Some(SliceArg::Axis(axis, at)) => {
            let last = f64::from(dims[axis] - 1);
            if !(0.0..=last).contains(&at) {
                let axis = ["x", "y", "z"][axis];
                return Err(format!(
                    "--slice {axis}={at} is beside the volume, which has voxels 0 to {last} on {axis}"
                ));
            }
            Slice::on_axis(volume, axis, at)
        }
    };
    Ok(Some(Slice {
        thickness: args.slab.unwrap_or(0.0),
        ..slice
    }))
}

/// The shortest step that pictures of a volume are made with, world units.
pub(crate) fn least_step(volume: &VolumeDescription) -> f64 {
    volume.diagonal() / SAMPLES_ACROSS_MAX
}

/// What floats have lost of the values, if that can be seen.
fn lost_in_floats(manifest: &Manifest) -> Option<String> {
    let volume = manifest.volume();
    let statistics = manifest
        .statistics()
        .filter(|_| volume.voxel == VoxelType::F32)?;
    let [low, high] = statistics.robust_range()?.map(|v| volume.value(v));
    let range = if low < high || high < low {
        [low.min(high), low.max(high)]
    } else {
        manifest.value_range()?
    };
    let steps = statistics.floats_in_range().filter(|&n| n < FLOATS_MIN)?;
    Some(format!(
        "the values ({}) are large beside their differences: 32-bit floats tell only {steps} steps apart among most of them; subtract an offset before the volume is written",
        short_range(range)
    ))
}

/// What is to be known of the values, in lines for people.
fn facts(args: &PictureArgs, manifest: &Manifest) -> impl Iterator<Item = String> {
    let columns = no_columns(args.mode(), manifest).filter(|_| args.transfer.is_none());
    let facts = [no_data(manifest), columns, lost_in_floats(manifest)];
    facts.into_iter().flatten()
}

/// The files that the triangles of a data set came from, for people.
pub(crate) fn surface_names(manifest: &Manifest) -> String {
    let names = manifest.materials().iter().map(|m| plain_text(&m.name));
    let mut names: Vec<_> = names.collect();
    names.dedup();
    names.join(", ")
}

/// Whose triangles are seen, or that they are not; an error where there is nothing else.
fn triangles(mode: Mode, manifest: &Manifest) -> Result<Option<String>, String> {
    let names = surface_names(manifest);
    if names.is_empty() {
        return Ok(None);
    }
    if mode.hides() {
        return Ok(Some(format!("triangles of {names}")));
    }
    let name = mode.name();
    if manifest.range().is_none() {
        return Err(format!(
            "--mode {name} shows values, and there are triangles alone ({names}): take dvr"
        ));
    }
    Ok(Some(format!(
        "--mode {name} shows values: the triangles of {names} are seen in modes dvr and iso"
    )))
}

/// That an older program has not looked at what rays come to, where the mode asks for it.
fn no_columns(mode: Mode, manifest: &Manifest) -> Option<String> {
    let is_lacking =
        mode.needs_columns() && manifest.columns().is_none() && manifest.range().is_some();
    is_lacking.then(|| "the folder does not say what rays come to: import the volume again, and the transfer function follows that".to_owned())
}

/// How many voxels are no data, if any are.
pub(crate) fn no_data(manifest: &Manifest) -> Option<String> {
    let statistics = manifest.statistics()?;
    if manifest.volume().fill.is_some() && statistics.filled == 0 {
        return Some("no voxel has the value that --fill declares".to_owned());
    }
    let counts = [
        (statistics.nan, "NaN"),
        (statistics.infinite, "infinite"),
        (statistics.filled, "the fill value"),
    ];
    let some = counts.iter().filter(|(n, _)| *n > 0);
    let words: Vec<String> = some.map(|(n, what)| format!("{n} {what}")).collect();
    let all: u64 = manifest
        .volume()
        .dims
        .iter()
        .map(|&n| u64::from(n))
        .product();
    let words = words.join(", ");
    (!words.is_empty()).then(|| format!("no data: of {all} voxels {words}; they are transparent"))
}
