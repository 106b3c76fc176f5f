//! What is to be seen: how the samples of a volume become a picture, whatever the camera.
//!
//! Space: data values, world units, linear colours. Invariant: beside the voxels and the rays, every
//! number that decides about a pixel is a field of [`RenderSettings`], and every field is in its digest,
//! which is part of a plan's: who does not know a field follows another plan, and is found out.

use crate::{
    base::digest::Digest,
    data::{
        default_transfer::{DefaultTransfer, Interest, default_transfer, interest, stretched},
        manifest::Manifest,
        presets::{self, GREY},
        transfer_function::{TransferFunction, TransferFunctionError, TransferPoint},
        transfer_shapes::{self, ShapeKind, TransferShape, TransferShapeError},
        volume::VolumeDescription,
    },
    picture::{
        clip::{Clip, ClipError},
        finish::Finish,
        isosurface::{self, Isosurface, IsosurfaceError},
        slice::{Slice, SliceError},
        surface_rays::{AmbientOcclusion, Reflections, SurfaceRaysError},
    },
};
use serde::{Deserialize, Serialize};

/// Smallest sample distance, in voxels: a smaller one shows no more and takes every peer for itself.
pub const STEP_VOXELS_MIN: f64 = 1e-3;
/// Part of the volume's diagonal on which the brightest value adds up to 1 in mode `additive`, by default.
const ADDITIVE_PART: f64 = 0.2;
/// What pre-integrated samples may show beyond their values, as a part of the function's width.
const SEGMENT_PART: f64 = 1.0 / 1000.0;
/// What rays come to is of interest if it differs by such a part of what voxels do.
const RAYS_DIFFER_MIN: f64 = 1e-5;
/// A requester multiplies in another order than who checks: so much less is let pass.
const STEP_ROUNDING: f64 = 1e-9;

/// How the samples of a ray become a pixel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Direct volume rendering: emission and absorption, front to back; with --iso, isosurfaces in it
    #[default]
    Dvr,
    /// Isosurfaces alone
    Iso,
    /// Maximum intensity projection: the greatest value of a ray, classified
    Mip,
    /// Minimum intensity projection: the least value of a ray, classified
    Minip,
    /// The mean of all values of a ray, classified
    Average,
    /// The sum of all colours of a ray, each times its opacity for a step
    Additive,
    /// The value on a plane, or the greatest one in a slab around it, classified
    Slice,
    /// The same, with the mean of the values in the slab
    SliceMean,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Dvr,
        Self::Iso,
        Self::Mip,
        Self::Minip,
        Self::Average,
        Self::Additive,
        Self::Slice,
        Self::SliceMean,
    ];

    /// Its name, as the command line knows it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dvr => "dvr",
            Self::Iso => "iso",
            Self::Mip => "mip",
            Self::Minip => "minip",
            Self::Average => "average",
            Self::Additive => "additive",
            Self::Slice => "slice",
            Self::SliceMean => "slice-mean",
        }
    }

    /// Whether samples are those of a slice alone.
    #[must_use]
    pub const fn is_slice(self) -> bool {
        matches!(self, Self::Slice | Self::SliceMean)
    }

    /// The mode in which the samples of a whole ray are combined as this one's are.
    #[must_use]
    pub const fn combination(self) -> Self {
        match self {
            Self::Slice => Self::Mip,
            Self::SliceMean => Self::Average,
            Self::Iso => Self::Dvr,
            other => other,
        }
    }

    /// The transfer function of pictures that come without one: what is faint so that what is behind
    /// it can be seen, hides nothing where values are combined, and need not be faint.
    #[must_use]
    pub fn default_transfer(self, manifest: &Manifest) -> DefaultTransfer {
        let preset = presets::by_name(GREY).map(presets::Preset::function);
        let (Some(grey), false) = (preset, self.hides()) else {
            return default_transfer(manifest);
        };
        let Interest { from, to } = self.interest(manifest);
        let mut function = stretched(&grey, [from, to]);
        if self.combines_values() {
            function.points.iter_mut().for_each(|p| p.opacity = 1.0);
        } else {
            // A way through a part of the volume adds up to what is bright.
            function.unit_distance = Some(manifest.volume().diagonal() * ADDITIVE_PART);
            for p in &mut function.points {
                p.opacity = ((p.value - from) / (to - from)).clamp(0.0, 1.0);
            }
        }
        DefaultTransfer {
            function,
            preset: GREY,
        }
    }

    /// The values that matter: of the voxels, or of what rays come to where that is another thing.
    fn interest(self, manifest: &Manifest) -> Interest {
        let of_voxels = interest(manifest);
        let columns = manifest.columns().filter(|_| self.needs_columns());
        let [low, high] = match columns {
            Some(columns) if self == Self::Average => manifest.values(columns.means),
            Some(columns) => manifest.values(columns.least),
            None => return of_voxels,
        };
        // Rays that all come to the same say nothing.
        let width = (high - low).abs();
        if width <= (of_voxels.to - of_voxels.from).abs() * RAYS_DIFFER_MIN {
            return of_voxels;
        }
        let is_turned = (of_voxels.to < of_voxels.from) != (high < low);
        let [from, to] = if is_turned { [high, low] } else { [low, high] };
        Interest { from, to }
    }

    /// Whether what rays come to is another thing than what voxels are.
    #[must_use]
    pub const fn needs_columns(self) -> bool {
        matches!(self, Self::Minip | Self::Average)
    }

    /// Whether values are combined along a ray, and classified after that; else colours are.
    #[must_use]
    pub const fn combines_values(self) -> bool {
        !matches!(self, Self::Dvr | Self::Iso | Self::Additive)
    }

    /// Whether samples are taken along rays.
    #[must_use]
    pub const fn has_samples(self) -> bool {
        !matches!(self, Self::Iso)
    }

    /// Whether what lies behind is hidden by what is opaque.
    #[must_use]
    pub const fn hides(self) -> bool {
        matches!(self, Self::Dvr | Self::Iso)
    }
}

/// Where a picture comes from, as colours say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Paint {
    /// A colour for each peer that rendered something.
    Renderer,
    /// A colour for each peer that has something, the first one of several.
    Owner,
    /// A colour for each brick, by its number.
    Order,
    /// What another peer rendered in the frame before is red, the rest is grey.
    Moved,
}

/// How surfaces answer a white light: Blinn-Phong, on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Light {
    /// Part of a colour that is seen whatever the direction.
    pub ambient: f32,
    /// Part that goes with the cosine between surface normal and light.
    pub diffuse: f32,
    /// Highlight.
    pub specular: f32,
    /// The greater, the smaller the highlight.
    pub exponent: u32,
    /// Where the light is, far away: to the right, up and towards the viewer, of any length; `None`: at the
    /// eye.
    #[serde(default)]
    pub direction: Option<[f32; 3]>,
}

impl Default for Light {
    fn default() -> Self {
        Self {
            ambient: 0.2,
            diffuse: 0.7,
            specular: 0.2,
            exponent: 10,
            direction: None,
        }
    }
}

impl Light {
    /// Checks what comes from a file, a command line or a peer.
    ///
    /// # Errors
    /// [`RenderSettingsError::Light`].
    pub fn validate(&self) -> Result<(), RenderSettingsError> {
        let parts = [
            ("ambient", self.ambient),
            ("diffuse", self.diffuse),
            ("specular", self.specular),
        ];
        let wrong = |field, found, bound| RenderSettingsError::Light {
            field,
            found,
            bound,
        };
        if let Some((field, found)) = parts.into_iter().find(|(_, p)| !(0.0..=1.0).contains(p)) {
            return Err(wrong(field, found.into(), "0 to 1"));
        }
        if !(1..=LIGHT_EXPONENT_MAX).contains(&self.exponent) {
            return Err(wrong("exponent", self.exponent.into(), "1 to 128"));
        }
        if let Some(direction) = self.direction {
            let length = direction.iter().map(|c| c * c).sum::<f32>().sqrt();
            let lengths = LIGHT_DIRECTION_LENGTHS;
            if !lengths.contains(&length) {
                let bound = "1e-6 to 1e6 long";
                return Err(wrong("direction's length", length.into(), bound));
            }
        }
        Ok(())
    }
}

/// What [`RenderSettings::exposure`] may be.
pub const EXPOSURES: std::ops::RangeInclusive<f32> = 0.01..=100.0;
/// What [`RenderSettings::gamma`] may be.
pub const GAMMAS: std::ops::RangeInclusive<f32> = 0.1..=10.0;
/// How long [`Light::direction`] may be.
const LIGHT_DIRECTION_LENGTHS: std::ops::RangeInclusive<f32> = 1e-6..=1e6;
/// Largest [`Light::exponent`].
pub const LIGHT_EXPONENT_MAX: u32 = 128;

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RenderSettings {
    /// Data value → colour and opacity.
    pub transfer: TransferFunction,
    /// Distance of neighbouring samples on a ray, world units.
    pub step: f64,
    /// How they become a pixel.
    pub mode: Mode,
    /// Whether surfaces, of central-difference gradients, are lit.
    pub shade: bool,
    /// How, where they are.
    pub light: Light,
    /// In mode dvr: a sample is transparent where the field's gradient is no longer than the first number,
    /// as opaque as its value says from the second on, and linearly between; data units per smallest
    /// spacing. What is uniform goes, borders stay (Levoy, IEEE CG&A 8(3), 1988).
    pub gradient_opacity: Option<[f64; 2]>,
    /// In mode dvr, in place of the transfer function but for its unit distance, where there are any.
    #[serde(default)]
    pub transfer_2d: Vec<TransferShape>,
    /// In mode dvr: a sample stands for all values between those half a step before and behind it, which
    /// are looked up no farther than a voxel away on each axis. Colours and opacities are those of a step
    /// through the mean of the transfer function's densities over these values, which are taken to change
    /// evenly from the sample's own to either end.
    ///
    /// After Engel, Kraus, Ertl, "High-quality pre-integrated volume rendering using hardware-accelerated
    /// pixel shading", Graphics Hardware 2001, section 4; here a step is around its sample, so that
    /// each belongs to one brick.
    #[serde(default)]
    pub preintegrate: bool,
    /// In modes dvr and iso.
    #[serde(default)]
    pub isosurfaces: Vec<Isosurface>,
    /// Whether what is between surfaces and the light dims it, in modes dvr and iso, where surfaces are lit from aside.
    #[serde(default)]
    pub shadows: bool,
    /// Of surfaces, in modes dvr and iso: dims the ambient part of their light.
    #[serde(default)]
    pub ambient_occlusion: Option<AmbientOcclusion>,
    /// Of surfaces, in modes dvr and iso.
    #[serde(default)]
    pub reflections: Option<Reflections>,
    /// Colours say where the picture comes from, where pixels are colours: in modes dvr, iso and additive.
    #[serde(default)]
    pub paint: Option<Paint>,
    /// What is cut away.
    #[serde(default)]
    pub clip: Clip,
    /// What is seen in modes that show a slice; they need one.
    #[serde(default)]
    pub slice: Option<Slice>,
    /// Whether the samples of each pixel are moved by another part of a step.
    pub jitter: bool,
    /// Colour behind the volume, linear RGB.
    pub background: [f32; 3],
    /// At the top, where it is another one there.
    #[serde(default)]
    pub background_top: Option<[f32; 3]>,
    /// What colours are multiplied by when a picture is finished.
    #[serde(default = "one")]
    pub exposure: f32,
    /// They are raised to one over this, after that.
    #[serde(default = "one")]
    pub gamma: f32,
}

fn one() -> f32 {
    1.0
}

/// What is wrong with render settings.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RenderSettingsError {
    /// The transfer function.
    #[error("transfer: {0}")]
    Transfer(#[from] TransferFunctionError),
    /// The sample distance.
    #[error("step is {found}; it must be a finite number, at least {least} for this volume")]
    Step {
        /// Found, world units.
        found: f64,
        /// Smallest, world units.
        least: f64,
    },
    /// The 2D transfer function.
    #[error("2D transfer function: {0}")]
    Transfer2d(#[from] TransferShapeError),
    /// Isosurfaces.
    #[error("isosurfaces: {0}")]
    Isosurfaces(#[from] IsosurfaceError),
    /// Ambient occlusion.
    #[error("ambient occlusion: {0}")]
    AmbientOcclusion(#[source] SurfaceRaysError),
    /// Reflections.
    #[error("reflections: {0}")]
    Reflections(#[source] SurfaceRaysError),
    /// What is cut away.
    #[error("clip: {0}")]
    Clip(#[from] ClipError),
    /// The slice.
    #[error("slice: {0}")]
    Slice(#[from] SliceError),
    /// A part of the light.
    #[error("light: {field} is {found}; it must be {bound}")]
    Light {
        /// Which.
        field: &'static str,
        /// Found.
        found: f64,
        /// What it must be.
        bound: &'static str,
    },
    /// Gradients that opacity follows.
    #[error(
        "gradient opacity is {found:?}; it must be two numbers from 0 to 1e100, the second greater"
    )]
    GradientOpacity {
        /// Found.
        found: [f64; 2],
    },
    /// How pictures are finished.
    #[error("{field} is {found}; it must be {} to {}", bound.start(), bound.end())]
    Finish {
        /// Which.
        field: &'static str,
        /// Found.
        found: f32,
        /// What it must be.
        bound: std::ops::RangeInclusive<f32>,
    },
    /// The background.
    #[error("background is {found:?}; its colours must be 0 to 1")]
    Background {
        /// Found.
        found: [f32; 3],
    },
}

impl RenderSettings {
    /// Settings with this transfer function and sample distance in world units; all else as by default:
    /// shaded, jittered, before black.
    #[must_use]
    pub fn new(transfer: TransferFunction, step: f64) -> Self {
        Self {
            transfer,
            step,
            mode: Mode::default(),
            shade: true,
            light: Light::default(),
            gradient_opacity: None,
            transfer_2d: Vec::new(),
            preintegrate: false,
            isosurfaces: Vec::new(),
            shadows: false,
            ambient_occlusion: None,
            reflections: None,
            paint: None,
            clip: Clip::default(),
            slice: None,
            jitter: true,
            background: [0.0; 3],
            background_top: None,
            exposure: 1.0,
            gamma: 1.0,
        }
    }

    /// Checks what comes from a file or a peer, for pictures of a volume.
    ///
    /// # Errors
    /// [`RenderSettingsError`], which names the field.
    pub fn validate(&self, volume: &VolumeDescription) -> Result<(), RenderSettingsError> {
        self.transfer.validate()?;
        let (found, least) = (self.step, STEP_VOXELS_MIN * volume.min_spacing());
        if !(found.is_finite() && found >= least * (1.0 - STEP_ROUNDING)) {
            return Err(RenderSettingsError::Step { found, least });
        }
        self.light.validate()?;
        transfer_shapes::validate(&self.transfer_2d)?;
        isosurface::validate(&self.isosurfaces)?;
        if self.mode == Mode::Iso && self.isosurfaces.is_empty() {
            return Err(IsosurfaceError::Missing.into());
        }
        let occlusion = self.ambient_occlusion.map_or(Ok(()), |o| o.validate());
        occlusion.map_err(RenderSettingsError::AmbientOcclusion)?;
        let reflections = self.reflections.map_or(Ok(()), |r| r.validate());
        reflections.map_err(RenderSettingsError::Reflections)?;
        self.clip.validate()?;
        match &self.slice {
            Some(slice) => slice.validate()?,
            None if self.mode.is_slice() => return Err(SliceError::Missing.into()),
            None => {}
        }
        if let Some(found) = self.gradient_opacity
            && !(0.0 <= found[0] && found[0] < found[1] && found[1] <= 1e100)
        {
            return Err(RenderSettingsError::GradientOpacity { found });
        }
        for found in [Some(self.background), self.background_top]
            .into_iter()
            .flatten()
        {
            if !found.iter().all(|c| (0.0..=1.0).contains(c)) {
                return Err(RenderSettingsError::Background { found });
            }
        }
        for (field, found, bound) in [
            ("exposure", self.exposure, EXPOSURES),
            ("gamma", self.gamma, GAMMAS),
        ] {
            if !bound.contains(&found) {
                return Err(RenderSettingsError::Finish {
                    field,
                    found,
                    bound,
                });
            }
        }
        Ok(())
    }

    /// Whether samples with values between these two, in either order, can contribute to a pixel.
    #[must_use]
    pub fn can_show(&self, [a, b]: [f64; 2]) -> bool {
        self.mode.combines_values()
            || self.surfaces().iter().any(|s| s.is_within([a, b]))
            || match self.shapes() {
                _ if !self.mode.has_samples() => false,
                [] => {
                    // Ranges that samples stand for count as wider, see `shaders`.
                    let [low, high] = self.transfer.ends();
                    let part = f64::from(u8::from(self.is_preintegrated())) * SEGMENT_PART;
                    let by = (high - low) * part;
                    self.transfer.max_opacity(a.min(b) - by, a.max(b) + by) > 0.0
                }
                shapes => transfer_shapes::can_show(shapes, [a, b]),
            }
    }

    /// Whether every value range that can contribute with `other` can with these, at the same places, and no
    /// further one.
    #[must_use]
    pub fn shows_as(&self, other: &Self) -> bool {
        let of = |s: &Self| (s.mode, s.is_preintegrated());
        of(self) == of(other)
            && self.transfer == other.transfer
            && self.transfer_2d == other.transfer_2d
            && self.surfaces() == other.surfaces()
            && self.clip == other.clip
            && self.slice() == other.slice()
            // How far beyond a slab samples may be.
            && (self.slice().is_none() || self.step.to_bits() == other.step.to_bits())
    }

    /// The slice that is seen, in modes that show one.
    #[must_use]
    pub fn slice(&self) -> Option<&Slice> {
        self.slice.as_ref().filter(|_| self.mode.is_slice())
    }

    /// The shapes of the 2D transfer function, where there is one.
    #[must_use]
    pub fn shapes(&self) -> &[TransferShape] {
        if self.mode == Mode::Dvr {
            &self.transfer_2d
        } else {
            &[]
        }
    }

    /// The step by which the work along rays is counted: where no samples are taken, of cells.
    #[must_use]
    pub fn counted_step(&self, volume: &VolumeDescription) -> f64 {
        if self.mode.has_samples() {
            self.step
        } else {
            volume.min_spacing()
        }
    }

    /// The isosurfaces that are seen.
    #[must_use]
    pub fn surfaces(&self) -> &[Isosurface] {
        if self.mode.hides() {
            &self.isosurfaces
        } else {
            &[]
        }
    }

    /// Whether surfaces are dimmed where something is between them and the light; one at the eye sees no shadows.
    #[must_use]
    pub fn casts_shadows(&self) -> bool {
        self.shadows && self.is_shaded() && self.light.direction.is_some()
    }

    /// What colours say of where the picture comes from, where they say so.
    #[must_use]
    pub fn paint(&self) -> Option<Paint> {
        self.paint.filter(|_| !self.mode.combines_values())
    }

    /// Whether rays go on from surfaces, through whatever bricks are on their way.
    #[must_use]
    pub fn has_secondary_rays(&self) -> bool {
        let has_others = self.ambient_occlusion.is_some() || self.reflections.is_some();
        self.casts_shadows() || (self.mode.hides() && has_others)
    }

    /// Whether triangles are seen.
    #[must_use]
    pub fn shows_triangles(&self) -> bool {
        self.mode.hides()
    }

    /// Whether samples stand for ranges of values.
    #[must_use]
    pub fn is_preintegrated(&self) -> bool {
        self.preintegrate && self.mode == Mode::Dvr
    }

    /// Whether colours are lit: values are not.
    #[must_use]
    pub fn is_shaded(&self) -> bool {
        self.shade && self.mode.hides()
    }

    /// Whether a sample's colour follows from the gradient, too.
    #[must_use]
    pub fn needs_gradients(&self) -> bool {
        match self.mode {
            Mode::Dvr => {
                self.shade || self.gradient_opacity.is_some() || !self.transfer_2d.is_empty()
            }
            Mode::Iso => self.shade,
            _ => false,
        }
    }

    /// The light of samples whose gradients are needed: all of a colour where they are not lit.
    #[must_use]
    pub fn effective_light(&self) -> Light {
        if self.is_shaded() {
            return self.light;
        }
        Light {
            ambient: 1.0,
            diffuse: 0.0,
            specular: 0.0,
            exponent: 1,
            direction: None,
        }
    }

    /// How a picture is finished.
    #[must_use]
    pub fn finish(&self) -> Finish {
        let top = self.background_top.unwrap_or(self.background);
        Finish {
            background: [top, self.background],
            is_transparent: false,
            exposure: self.exposure,
            gamma: self.gamma,
        }
    }

    /// How opaque a ray is behind which nothing is seen, where something is not.
    #[must_use]
    pub fn opaque(&self) -> Option<f32> {
        (self.mode.hides()).then(|| self.finish().opaque())
    }

    /// Name of what these say of data values between two, ascending: what else is changed makes no
    /// difference where a volume has no other values. Of how a picture is finished it says where rays end.
    #[must_use]
    pub fn digest_within(&self, [low, high]: [f64; 2]) -> Digest {
        let mut within = Self {
            background: [0.0; 3],
            background_top: None,
            exposure: 1.0,
            gamma: 1.0,
            ..self.clone()
        };
        let at = |value| {
            let (color, opacity) = self.transfer.classify(value);
            TransferPoint {
                value,
                color,
                opacity,
            }
        };
        let no_color = |value| TransferPoint {
            value,
            color: [0.0; 3],
            opacity: 0.0,
        };
        within.isosurfaces = self.surfaces().to_vec();
        within.isosurfaces.retain(|s| s.is_within([low, high]));
        let points = &mut within.transfer.points;
        if !self.mode.has_samples() {
            // Beside the surfaces only how long a gradient is that they are lit by in full, see `shaders`.
            points.iter_mut().for_each(|p| *p = no_color(p.value));
        } else if self.is_preintegrated() {
            // What is seen of a sample may follow from values outside.
        } else if self.mode.combines_values() {
            // Partials are places in a table that is laid over the values of its points, whatever is there.
            points.iter_mut().for_each(|p| *p = no_color(p.value));
        } else {
            points.retain(|p| low < p.value && p.value < high);
            points.insert(0, at(low));
            points.push(at(high));
        }
        let opaque = self.opaque().unwrap_or(1.0);
        Digest::of(&[&within.digest().as_bytes()[..], &opaque.to_le_bytes()].concat())
    }

    /// Name of all that these say.
    #[must_use]
    pub fn digest(&self) -> Digest {
        // Taken apart, so that no field is forgotten.
        let Self {
            transfer:
                TransferFunction {
                    unit_distance,
                    points,
                },
            step,
            mode,
            shade,
            light:
                Light {
                    ambient,
                    diffuse,
                    specular,
                    exponent,
                    direction,
                },
            gradient_opacity,
            transfer_2d,
            preintegrate,
            isosurfaces,
            shadows,
            ambient_occlusion,
            reflections,
            paint,
            clip: Clip { bounds, planes },
            slice,
            jitter,
            background,
            background_top,
            exposure,
            gamma,
        } = self;
        let mut numbers = vec![unit_distance.unwrap_or(f64::NAN), *step];
        let counts = [
            points.len(),
            transfer_2d.len(),
            isosurfaces.len(),
            planes.len(),
        ];
        for point in points {
            numbers.extend([point.value, point.opacity]);
            numbers.extend(point.color);
        }
        numbers.extend(background.map(f64::from));
        numbers.extend(background_top.map_or([f64::NAN; 3], |c| c.map(f64::from)));
        numbers.extend([exposure, gamma].map(|&n| f64::from(n)));
        numbers.extend([ambient, diffuse, specular].map(|&part| f64::from(part)));
        numbers.push(f64::from(*exponent));
        numbers.extend(gradient_opacity.unwrap_or([f64::NAN; 2]));
        numbers.extend(direction.map_or([f64::NAN; 3], |d| d.map(f64::from)));
        numbers.extend(transfer_2d.iter().flat_map(numbers_of_shape));
        numbers.extend(isosurfaces.iter().flat_map(numbers_of_surface));
        numbers.push(f64::from(u8::from(bounds.is_some())));
        numbers.extend(bounds.iter().flatten().flatten());
        numbers.extend(planes.iter().flatten());
        let of_slice = slice.map_or([f64::NAN; 5], |Slice { plane, thickness }| {
            let [x, y, z, d] = plane;
            [x, y, z, d, thickness]
        });
        numbers.extend(of_slice);
        numbers.extend(numbers_of_rays(*ambient_occlusion, *reflections));
        numbers.extend(paint.map(|paint| f64::from(paint as u8)));
        let switches = [*shade, *jitter, *preintegrate, *shadows];
        let mut bytes = vec![*mode as u8];
        bytes.extend(counts.iter().flat_map(|n| (*n as u64).to_le_bytes()));
        bytes.extend(switches.map(u8::from));
        bytes.extend(numbers.iter().flat_map(|n| n.to_bits().to_le_bytes()));
        Digest::of(&bytes)
    }
}

fn numbers_of_shape(shape: &TransferShape) -> [f64; 9] {
    let TransferShape {
        kind,
        value: [from, to],
        gradient: [flat, steep],
        color: [r, g, b],
        opacity,
    } = *shape;
    let kind = match kind {
        ShapeKind::Box => 0.0,
        ShapeKind::Gaussian => 1.0,
    };
    [kind, opacity, from, to, flat, steep, r, g, b]
}

/// Those of reflections are there only where there are some, and only the paint's follows them.
fn numbers_of_rays(
    occlusion: Option<AmbientOcclusion>,
    reflections: Option<Reflections>,
) -> impl Iterator<Item = f64> {
    let of_occlusion = occlusion.map_or([f64::NAN; 2], |o| {
        let AmbientOcclusion { rays, reach } = o;
        [rays.into(), reach]
    });
    let of_reflections = reflections.map(|r| {
        let Reflections { depth, part } = r;
        [depth.into(), part.into()]
    });
    let of_reflections = of_reflections.into_iter().flatten();
    of_occlusion.into_iter().chain(of_reflections)
}

fn numbers_of_surface(surface: &Isosurface) -> [f64; 5] {
    let Isosurface {
        value,
        color,
        opacity,
    } = *surface;
    let [r, g, b] = color.map(f64::from);
    [value, f64::from(opacity), r, g, b]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{manifest::ManifestParts, volume::VoxelType};

    fn settings() -> RenderSettings {
        RenderSettings::new(TransferFunction::ramp(0.0, 9.0), 0.5)
    }

    fn box_shape() -> TransferShape {
        TransferShape {
            kind: ShapeKind::Box,
            value: [5.0, 6.0],
            gradient: [0.0, 1.0],
            color: [1.0; 3],
            opacity: 0.5,
        }
    }

    fn across_z(thickness: f64) -> Slice {
        Slice {
            plane: [0.0, 0.0, 1.0, 2.0],
            thickness,
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let volume = VolumeDescription::new([4; 3], VoxelType::U8);
        let refused = |change: fn(&mut RenderSettings)| {
            let mut settings = settings();
            change(&mut settings);
            settings.validate(&volume).unwrap_err().to_string()
        };
        assert_eq!(settings().validate(&volume), Ok(()));
        assert!(refused(|s| s.step = f64::NAN).starts_with("step is NaN"));
        assert!(refused(|s| s.step = 1e-4).contains("at least 0.001"));
        assert!(refused(|s| s.transfer.points.clear()).starts_with("transfer: "));
        assert!(refused(|s| s.background[1] = f32::INFINITY).starts_with("background is"));
        assert!(refused(|s| s.background_top = Some([2.0; 3])).starts_with("background is"));
        assert!(refused(|s| s.exposure = 0.0).starts_with("exposure is 0; it must be 0.01 to 100"));
        assert!(refused(|s| s.gamma = f32::NAN).starts_with("gamma is NaN"));
        assert!(refused(|s| s.light.specular = f32::NAN).starts_with("light: specular is NaN"));
        assert!(refused(|s| s.gradient_opacity = Some([2.0, 1.0])).contains("[2.0, 1.0]"));
        assert!(refused(|s| s.light.direction = Some([0.0; 3])).contains("length is 0"));
        assert!(refused(|s| s.clip.planes = vec![[0.0; 4]]).starts_with("clip: plane 0"));
        assert!(refused(|s| s.transfer_2d = vec![box_shape(); 99]).contains("found 99"));
        assert!(refused(|s| s.mode = Mode::Slice).contains("slice: there is no plane"));
        assert!(refused(|s| s.slice = Some(across_z(-1.0))).starts_with("slice: the slab is -1"));
        assert!(refused(|s| s.mode = Mode::Iso).contains("mode iso needs one"));
        let many = |s: &mut RenderSettings| s.isosurfaces = vec![Isosurface::new(0.0); 9];
        assert!(refused(many).starts_with("isosurfaces: found 9"));
        fn occlusion(s: &mut RenderSettings, rays: u16, reach: f64) {
            s.ambient_occlusion = Some(AmbientOcclusion { rays, reach });
        }
        assert!(refused(|s| occlusion(s, 0, 1.0)).contains("number of rays is 0; it must be 1"));
        assert!(refused(|s| occlusion(s, 8, f64::NAN)).contains("reach is NaN; it must be above"));
        fn reflections(s: &mut RenderSettings, depth: u8, part: f32) {
            s.reflections = Some(Reflections { depth, part });
        }
        assert!(
            refused(|s| reflections(s, 9, 0.5)).contains("reflections: depth is 9; it must be 1")
        );
        assert!(
            refused(|s| reflections(s, 1, f32::NAN)).contains("part is NaN; it must be above 0")
        );
        assert!(refused(|s| s.light.exponent = 0).contains("exponent is 0; it must be 1 to 128"));
    }

    #[test]
    fn isosurfaces_are_seen_between_voxels_that_enclose_them() {
        let mut of = settings();
        of.transfer.points.iter_mut().for_each(|p| p.opacity = 0.0);
        of.isosurfaces = vec![Isosurface::new(4.0)];
        for (mode, is_seen) in [
            (Mode::Dvr, true),
            (Mode::Iso, true),
            (Mode::Additive, false),
        ] {
            of.mode = mode;
            assert_eq!(of.can_show([5.0, 3.0]), is_seen, "{mode:?}");
            assert!(!of.can_show([5.0, 6.0]), "{mode:?}");
        }
        let all = RenderSettings {
            mode: Mode::Iso,
            ..settings()
        };
        assert!(!all.can_show([1.0, 8.0]), "no sample is taken");
        let other = RenderSettings {
            isosurfaces: Vec::new(),
            ..of.clone()
        };
        assert!(other.shows_as(&of), "in this mode there are none");
        of.mode = Mode::Dvr;
        assert!(
            !RenderSettings {
                mode: Mode::Dvr,
                ..other
            }
            .shows_as(&of)
        );
    }

    #[test]
    fn every_field_is_in_the_name() {
        fn surface(change: fn(&mut Isosurface)) -> Vec<Isosurface> {
            let mut surface = Isosurface::new(1.0);
            change(&mut surface);
            vec![surface]
        }
        fn shape(change: fn(&mut TransferShape)) -> Vec<TransferShape> {
            let mut shape = box_shape();
            change(&mut shape);
            vec![shape]
        }
        fn occlusion(rays: u16, reach: f64) -> Option<AmbientOcclusion> {
            Some(AmbientOcclusion { rays, reach })
        }
        fn reflections(depth: u8, part: f32) -> Option<Reflections> {
            Some(Reflections { depth, part })
        }
        let changes: [fn(&mut RenderSettings); 43] = [
            |s| s.shadows = true,
            |s| s.ambient_occlusion = occlusion(8, 1.0),
            |s| s.ambient_occlusion = occlusion(9, 1.0),
            |s| s.ambient_occlusion = occlusion(8, 2.0),
            |s| s.paint = Some(Paint::Renderer),
            |s| s.paint = Some(Paint::Moved),
            |s| s.reflections = reflections(1, 0.5),
            |s| s.reflections = reflections(2, 0.5),
            |s| s.reflections = reflections(1, 0.25),
            |s| s.background_top = Some([0.0; 3]),
            |s| s.isosurfaces = surface(|_| {}),
            |s| s.isosurfaces = surface(|s| s.value = 2.0),
            |s| s.isosurfaces = surface(|s| s.opacity = 0.5),
            |s| s.isosurfaces = surface(|s| s.color = [0.5; 3]),
            |s| s.exposure = 2.0,
            |s| s.gamma = 2.0,
            |s| s.slice = Some(across_z(0.0)),
            |s| s.slice = Some(across_z(1.0)),
            |s| s.mode = Mode::SliceMean,
            |s| s.gradient_opacity = Some([0.0, 1.0]),
            |s| s.light.ambient = 0.1,
            |s| s.light.diffuse = 0.1,
            |s| s.light.specular = 0.1,
            |s| s.light.exponent = 11,
            |s| s.transfer.unit_distance = Some(2.0),
            |s| s.transfer.points[1].value += 0.1,
            |s| s.transfer.points[1].color[2] = 0.0,
            |s| s.transfer.points[1].opacity = 0.7,
            |s| s.step = 0.25,
            |s| s.shade = false,
            |s| s.jitter = false,
            |s| s.background[0] = 1.0,
            |s| s.preintegrate = true,
            |s| s.clip.bounds = Some([[0.0; 3], [1.0; 3]]),
            |s| s.clip.planes = vec![[0.0, 0.0, 1.0, 1.0]],
            |s| s.light.direction = Some([0.0, 1.0, 0.0]),
            |s| s.light.direction = Some([0.0, 1.0, 0.5]),
            |s| s.transfer_2d = shape(|_| {}),
            |s| s.transfer_2d = shape(|s| s.kind = ShapeKind::Gaussian),
            |s| s.transfer_2d = shape(|s| s.value[1] = 7.0),
            |s| s.transfer_2d = shape(|s| s.gradient[0] = 0.5),
            |s| s.transfer_2d = shape(|s| s.color = [0.5; 3]),
            |s| s.transfer_2d = shape(|s| s.opacity = 0.25),
        ];
        let mut found = std::collections::BTreeSet::from([settings().digest()]);
        for (n, change) in changes.into_iter().enumerate() {
            let mut changed = settings();
            change(&mut changed);
            assert!(found.insert(changed.digest()), "change {n}");
        }
        let json = serde_json::to_string(&settings()).unwrap();
        let back: RenderSettings = serde_json::from_str(&json).unwrap();
        assert_eq!(back.digest(), settings().digest());
    }

    #[test]
    fn within_a_range_only_what_is_seen_there_counts() {
        let of = |change: fn(&mut RenderSettings), range| {
            let mut settings = settings();
            settings.transfer.points[3].value = 7.0;
            change(&mut settings);
            settings.digest_within(range)
        };
        let as_it_was = |range| of(|_| {}, range);
        // Points stand at 0, 2.25, 4.5, 7 and 9.
        let low = [0.0, 4.0];
        assert_eq!(
            of(|s| s.transfer.points[3].opacity = 0.9, low),
            as_it_was(low)
        );
        assert_eq!(of(|s| s.background[1] = 0.5, low), as_it_was(low));
        assert_eq!(of(|s| s.exposure = 0.7, low), as_it_was(low));
        assert_ne!(of(|s| s.gamma = 2.0, low), as_it_was(low));
        assert_eq!(of(|s| s.exposure = 2.0, low), of(|s| s.exposure = 3.0, low));
        assert_ne!(
            of(|s| s.transfer.points[2].opacity = 0.9, low),
            as_it_was(low)
        );
        assert_ne!(of(|s| s.shade = false, low), as_it_was(low));
        assert_ne!(as_it_was([0.0, 4.1]), as_it_was(low));
        let mip: fn(&mut RenderSettings) = |s| s.mode = Mode::Mip;
        let other: fn(&mut RenderSettings) = |s| {
            s.mode = Mode::Mip;
            s.transfer.points[2].opacity = 0.1;
            s.transfer.points[0].color = [0.3; 3];
        };
        assert_eq!(of(mip, low), of(other, low));
        // What values of a ray come to is kept as a place among the function's points.
        let wider: fn(&mut RenderSettings) = |s| {
            s.mode = Mode::Mip;
            s.transfer.widen(2.0);
        };
        assert_ne!(of(mip, low), of(wider, low));
        let surface: fn(&mut RenderSettings) = |s| s.isosurfaces = vec![Isosurface::new(5.0)];
        assert_eq!(of(surface, low), as_it_was(low));
        assert_ne!(of(surface, [0.0, 6.0]), as_it_was([0.0, 6.0]));
    }

    #[test]
    fn functions_of_modes_without_hiding_reach_full_opacity() {
        let volume = VolumeDescription::new([8; 3], VoxelType::U8);
        let bytes = |stored: &crate::data::voxel_box::VoxelBox| {
            (0..stored.voxel_count()).map(|i| (i % 251) as u8).collect()
        };
        let parts = ManifestParts::cut(volume, 8, "test", bytes).unwrap();
        let manifest = Manifest::try_from(parts).unwrap();
        let of = |mode: Mode| mode.default_transfer(&manifest).function;
        assert_eq!(of(Mode::Dvr), default_transfer(&manifest).function);
        assert!(of(Mode::Mip).points.iter().all(|p| p.opacity >= 1.0));
        let additive = of(Mode::Additive);
        let ends = [&additive.points[0], additive.points.last().unwrap()].map(|p| p.opacity);
        assert!(ends[0] <= 0.0 && ends[1] >= 1.0, "{ends:?}");
        assert_eq!(additive.validate(), Ok(()));
    }
}
