//! What a volume is: dims, voxel type, where its samples stand in the world, what its values mean.
//!
//! Convention (as in VTK and OSPRay): sample (i,j,k) stands at
//! `origin + direction · ((i,j,k) · spacing)`; the field is defined between first and last sample
//! centres, trilinear in between; on an axis of one voxel it is constant, half a spacing to either
//! side. `value = stored · value_scale + value_offset` (data units).
//! NaN, infinities and the declared fill value are no data: transparent, and in no range.

use crate::data::{brick_grid::DIM_MAX, voxel_box::VoxelBox};
use glam::{DAffine3, DMat3, DVec3};
use serde::{Deserialize, Serialize};

/// Type of a stored voxel. All are little-endian in memory, in stores and on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VoxelType {
    /// Unsigned 8 bit.
    U8,
    /// Signed 8 bit.
    I8,
    /// Unsigned 16 bit.
    U16,
    /// Signed 16 bit.
    I16,
    /// IEEE 754 binary32.
    F32,
}

impl VoxelType {
    /// Size of a voxel in bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::F32 => 4,
        }
    }

    /// The name in files and messages: `u8`, `i8`, `u16`, `i16`, `f32`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::F32 => "f32",
        }
    }

    /// Appends a voxel to little-endian `bytes`: a number rounded towards 0, at most as far out as the
    /// type goes.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturating, as wanted"
    )]
    pub fn append(self, number: f64, bytes: &mut Vec<u8>) {
        match self {
            Self::U8 => bytes.push(number as u8),
            Self::I8 => bytes.extend((number as i8).to_le_bytes()),
            Self::U16 => bytes.extend((number as u16).to_le_bytes()),
            Self::I16 => bytes.extend((number as i16).to_le_bytes()),
            Self::F32 => bytes.extend((number as f32).to_le_bytes()),
        }
    }

    /// Whether a voxel of this type can be this number.
    #[must_use]
    pub fn can_be(self, number: f64) -> bool {
        let (low, high) = match self {
            Self::U8 => (0.0, 255.0),
            Self::I8 => (-128.0, 127.0),
            Self::U16 => (0.0, 65_535.0),
            Self::I16 => (-32_768.0, 32_767.0),
            Self::F32 => (f64::from(f32::MIN), f64::from(f32::MAX)),
        };
        (low..=high).contains(&number) && (self == Self::F32 || number.fract().abs() <= 0.0)
    }

    /// The voxel that starts at `at` in little-endian `bytes`, as a number.
    ///
    /// # Panics
    /// Where fewer than [`Self::bytes`] bytes are left.
    #[must_use]
    pub fn read(self, bytes: &[u8], at: usize) -> f32 {
        match self {
            Self::U8 => f32::from(bytes[at]),
            Self::I8 => f32::from(bytes[at].cast_signed()),
            Self::U16 => f32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]])),
            Self::I16 => f32::from(i16::from_le_bytes([bytes[at], bytes[at + 1]])),
            Self::F32 => {
                f32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
            }
        }
    }
}

/// What a length of 1 in the world is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LengthUnit {
    /// 1e-9 m.
    Nanometre,
    /// 1e-6 m.
    Micrometre,
    /// 1e-3 m.
    Millimetre,
    /// 1e-2 m.
    Centimetre,
    /// 1 m.
    Metre,
}

impl LengthUnit {
    /// All of them, with their symbols and what files call them, in lower case.
    const NAMES: [(Self, &'static str, &'static [&'static str]); 5] = [
        (Self::Nanometre, "nm", &["nanometer", "nanometre"]),
        (
            Self::Micrometre,
            "µm",
            &["um", "μm", "micron", "microns", "micrometer", "micrometre"],
        ),
        (Self::Millimetre, "mm", &["millimeter", "millimetre"]),
        (Self::Centimetre, "cm", &["centimeter", "centimetre"]),
        (Self::Metre, "m", &["meter", "metre"]),
    ];

    /// What a file calls it; `None`: nothing that is known here.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let name = name.trim().to_lowercase();
        let is_it = |symbol: &str, names: &[&str]| {
            let singular = name.strip_suffix('s').unwrap_or(&name);
            symbol == name || names.contains(&name.as_str()) || names.contains(&singular)
        };
        let mut all = Self::NAMES.into_iter();
        all.find(|(_, symbol, names)| is_it(symbol, names))
            .map(|(unit, ..)| unit)
    }

    /// Its symbol.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        let mut all = Self::NAMES.into_iter();
        all.find(|(unit, ..)| *unit == self)
            .map_or("", |(_, symbol, _)| symbol)
    }
}

/// Where the world's x, y and z axes point in a patient, in this order. Only right-handed ones: in
/// any other, left and right would be exchanged in a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PatientAxes {
    /// Right, anterior, superior: NIfTI.
    Ras,
    /// Left, posterior, superior: DICOM, ITK.
    Lps,
}

impl PatientAxes {
    /// The usual abbreviation.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ras => "RAS",
            Self::Lps => "LPS",
        }
    }

    /// Unit directions in the world towards the patient's left and front; the head is at +z.
    #[must_use]
    pub fn left_and_front(self) -> [DVec3; 2] {
        match self {
            Self::Ras => [DVec3::NEG_X, DVec3::Y],
            Self::Lps => [DVec3::X, DVec3::NEG_Y],
        }
    }
}

/// A volume without its voxels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VolumeDescription {
    /// Voxels on each axis, x fastest in memory.
    pub dims: [u32; 3],
    /// Type of the stored voxels.
    pub voxel: VoxelType,
    /// Distance of neighbouring samples on each axis, in world units; positive.
    pub spacing: [f64; 3],
    /// World position of sample (0,0,0).
    pub origin: [f64; 3],
    /// Columns: the unit directions of the grid's x, y and z axes in the world.
    pub direction: [[f64; 3]; 3],
    /// Data units per stored unit.
    pub value_scale: f64,
    /// Data value of a stored 0.
    pub value_offset: f64,
    /// Stored number that stands for no data, beside NaN and infinities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill: Option<f64>,
    /// Where the world's axes point in a patient, if it is one and the file says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patient: Option<PatientAxes>,
    /// Of lengths in the world, if the file says so or its kind has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<LengthUnit>,
}

/// Bounds of spacings, and of how far a scale may be from 1: beyond them squares and inverses of
/// world coordinates and values, which cameras and devices form, are not finite any more.
const SIZE_BOUNDS: (f64, f64) = (1e-30, 1e30);
/// Largest offset of values.
const OFFSET_MAX: f64 = 1e36;
/// Farthest that the origin may be from 0 on each axis, in the smallest spacing: world coordinates tell
/// places apart there that are a ten-thousandth of a voxel apart.
const ORIGIN_VOXELS_MAX: f64 = 1e12;
/// Largest part of a direction: directions are of length 1, but for what a file's writer rounded
/// or scaled.
const DIRECTION_MAX: f64 = 1e3;

/// What is wrong with a [`VolumeDescription`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeError {
    /// An axis has no voxels, or too many.
    #[error("dims are {}x{}x{}; each axis must have 1 to {DIM_MAX} voxels", dims[0], dims[1], dims[2])]
    Dims {
        /// Dims found.
        dims: [u32; 3],
    },
    /// A spacing that is no positive number, or beyond reason.
    #[error("spacing is {spacing:?}; each must be a positive number, {:e} to {:e}", SIZE_BOUNDS.0, SIZE_BOUNDS.1)]
    Spacing {
        /// Spacing found.
        spacing: [f64; 3],
    },
    /// The axes do not span space.
    #[error("direction {direction:?} is not invertible, or not of unit vectors")]
    Direction {
        /// Direction found, by columns.
        direction: [[f64; 3]; 3],
    },
    /// An origin, scale or offset that is not finite, or beyond reason.
    #[error("{field} is {found}; {expected}")]
    Number {
        /// Name of the field.
        field: &'static str,
        /// Number found.
        found: f64,
        /// What it must be.
        expected: &'static str,
    },
}

impl VolumeDescription {
    /// A volume with spacing 1, origin 0, axes along the world's, values as stored.
    #[must_use]
    pub fn new(dims: [u32; 3], voxel: VoxelType) -> Self {
        Self {
            dims,
            voxel,
            spacing: [1.0; 3],
            origin: [0.0; 3],
            direction: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
            value_scale: 1.0,
            value_offset: 0.0,
            fill: None,
            patient: None,
            unit: None,
        }
    }

    /// Checks every field; what comes from a file or a peer goes through here before use.
    ///
    /// # Errors
    /// [`VolumeError`] with the first field that is out of bounds.
    pub fn validate(&self) -> Result<(), VolumeError> {
        if self.dims.iter().any(|&n| n == 0 || n > DIM_MAX) {
            return Err(VolumeError::Dims { dims: self.dims });
        }
        let sizes = SIZE_BOUNDS.0..=SIZE_BOUNDS.1;
        if self.spacing.iter().any(|s| !sizes.contains(s)) {
            return Err(VolumeError::Spacing {
                spacing: self.spacing,
            });
        }
        let det = self.direction_matrix().determinant();
        let mut parts = self.direction.iter().flatten();
        if !(det.abs() > 1e-6 && parts.all(|d| d.abs() <= DIRECTION_MAX)) {
            return Err(VolumeError::Direction {
                direction: self.direction,
            });
        }
        let number = |field, found, good, expected| {
            let wrong = VolumeError::Number {
                field,
                found,
                expected,
            };
            if good { Ok(()) } else { Err(wrong) }
        };
        let origin_max = ORIGIN_VOXELS_MAX * self.min_spacing();
        let near = "it must be finite, and not farther from 0 than 1e12 of the smallest spacing";
        for found in self.origin {
            number("origin", found, found.abs() <= origin_max, near)?;
        }
        let (scale, offset) = (self.value_scale, self.value_offset);
        let scales = "it must be finite and not 0: 1e-30 to 1e30, either sign";
        number("value_scale", scale, sizes.contains(&scale.abs()), scales)?;
        let bounded = "it must be finite, and not beyond 1e36";
        number("value_offset", offset, offset.abs() <= OFFSET_MAX, bounded)?;
        let Some(fill) = self.fill else {
            return Ok(());
        };
        let expected = "it must be a number that a voxel of this type can be, as stored";
        number("fill", fill, self.voxel.can_be(fill), expected)
    }

    /// Whether a stored number stands for no data.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::float_cmp,
        reason = "a fill value is one that a voxel can be: it is found by its bits"
    )]
    pub fn is_no_data(&self, stored: f32) -> bool {
        !stored.is_finite() || self.fill.is_some_and(|fill| fill as f32 == stored)
    }

    /// The stored number of a data value, as near as the voxel type has one; `None` beyond it.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounded to what a voxel can be"
    )]
    pub fn stored(&self, value: f64) -> Option<f64> {
        let exact = (value - self.value_offset) / self.value_scale;
        let rounded = match self.voxel {
            VoxelType::F32 => f64::from(exact as f32),
            // What is no whole number is none of the voxels, but for what rounding has done to it.
            _ if (exact - exact.round()).abs() < 1e-3 => exact.round(),
            _ => return None,
        };
        Some(rounded).filter(|&s| self.voxel.can_be(s))
    }

    fn direction_matrix(&self) -> DMat3 {
        DMat3::from_cols_array_2d(&self.direction)
    }

    /// Maps grid (voxels) to world.
    #[must_use]
    pub fn world_from_grid(&self) -> DAffine3 {
        let linear =
            self.direction_matrix() * DMat3::from_diagonal(DVec3::from_array(self.spacing));
        DAffine3 {
            matrix3: linear,
            translation: DVec3::from_array(self.origin),
        }
    }

    /// Maps world to grid (voxels).
    #[must_use]
    pub fn grid_from_world(&self) -> DAffine3 {
        self.world_from_grid().inverse()
    }

    /// Smallest spacing, in world units: the unit of `--step` and the default unit of opacity.
    #[must_use]
    pub fn min_spacing(&self) -> f64 {
        self.spacing.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// World position of the middle of the field.
    #[must_use]
    pub fn center_in_world(&self) -> DVec3 {
        let middle = DVec3::from_array(self.dims.map(|n| f64::from(n - 1) * 0.5));
        self.world_from_grid().transform_point3(middle)
    }

    /// The voxel whose centre is the nearest to a point of the world; `None` outside of the volume.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "inside the volume"
    )]
    pub fn nearest_voxel(&self, world: DVec3) -> Option<[u32; 3]> {
        let at = self.grid_from_world().transform_point3(world).round();
        let is_inside = |a: usize| (0.0..f64::from(self.dims[a])).contains(&at[a]);
        (0..3)
            .all(is_inside)
            .then(|| at.to_array().map(|v| v as u32))
    }

    /// Where the field begins and ends, in grid space.
    #[must_use]
    pub fn field_in_grid(&self) -> [DVec3; 2] {
        VoxelBox::new([0; 3], self.dims).field_corners(self.dims)
    }

    /// Size of the field along each of its axes in world units; an axis of one voxel is as long as
    /// its spacing.
    #[must_use]
    pub fn extent(&self) -> DVec3 {
        DVec3::from_array(std::array::from_fn(|a| {
            f64::from((self.dims[a] - 1).max(1)) * self.spacing[a]
        }))
    }

    /// Length of the field's diagonal in world units.
    #[must_use]
    pub fn diagonal(&self) -> f64 {
        self.extent().length()
    }

    /// Whether some axis has one voxel: the volume is a plane, a line or a point.
    #[must_use]
    pub fn is_thin(&self) -> bool {
        self.dims.contains(&1)
    }

    /// Type of a voxel in the memory of whatever device, as long as nothing is known of the voxels: those among which no
    /// data is told apart are floats there.
    #[must_use]
    pub fn device_voxel(&self) -> VoxelType {
        match self.fill {
            Some(_) => VoxelType::F32,
            None => self.voxel,
        }
    }

    /// Size of all voxels in bytes, ghosts not counted.
    #[must_use]
    pub fn voxel_bytes(&self) -> u64 {
        self.dims.iter().map(|&n| u64::from(n)).product::<u64>() * self.voxel.bytes() as u64
    }

    /// The data value of a stored number.
    #[must_use]
    pub fn value(&self, stored: f64) -> f64 {
        stored * self.value_scale + self.value_offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_stand_at_origin_plus_direction_times_spacing() {
        let volume = VolumeDescription {
            spacing: [0.5, 2.0, 3.0],
            origin: [10.0, 20.0, 30.0],
            direction: [[-1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]],
            ..VolumeDescription::new([4, 5, 6], VoxelType::I16)
        };
        let at = volume
            .world_from_grid()
            .transform_point3(DVec3::new(2.0, 1.0, 1.0));
        assert!(at.abs_diff_eq(DVec3::new(9.0, 23.0, 32.0), 1e-12));
        let back = volume.grid_from_world().transform_point3(at);
        assert!(back.abs_diff_eq(DVec3::new(2.0, 1.0, 1.0), 1e-12));
    }

    #[test]
    fn bad_fields_are_named() {
        let good = VolumeDescription::new([4, 5, 6], VoxelType::U8);
        assert_eq!(good.validate(), Ok(()));
        let spacing = VolumeDescription {
            spacing: [1.0, f64::NAN, 1.0],
            ..good.clone()
        };
        assert!(matches!(
            spacing.validate(),
            Err(VolumeError::Spacing { .. })
        ));
        // A determinant of 1, with squares beyond f64.
        let stretched = [[1e200, 0.0, 0.0], [0.0, 1e-200, 0.0], [0.0, 0.0, 1.0]];
        for direction in [[[1.0, 0.0, 0.0]; 3], stretched] {
            let flat = VolumeDescription {
                direction,
                ..good.clone()
            };
            assert!(matches!(
                flat.validate(),
                Err(VolumeError::Direction { .. })
            ));
        }
    }

    #[test]
    fn numbers_whose_squares_or_inverses_are_not_finite_are_refused() {
        let good = VolumeDescription::new([4, 5, 6], VoxelType::F32);
        let error = |change: fn(&mut VolumeDescription)| {
            let mut volume = good.clone();
            change(&mut volume);
            volume.validate().unwrap_err().to_string()
        };
        assert!(error(|v| v.spacing = [1e200; 3]).contains("spacing"));
        assert!(error(|v| v.spacing[1] = 1e-310).contains("spacing"));
        assert!(error(|v| v.origin[2] = 1e300).contains("origin is"));
        assert!(error(|v| v.origin[2] = -1e13).contains("smallest spacing"));
        assert!(error(|v| v.value_scale = -1e300).contains("value_scale"));
        assert!(error(|v| v.value_offset = f64::NAN).contains("value_offset"));
        assert!(error(|v| v.fill = Some(1e39)).contains("fill is"));
    }

    #[test]
    fn a_fill_value_is_what_a_voxel_can_be_and_no_data_whatever_its_scale() {
        let mut volume = VolumeDescription::new([4; 3], VoxelType::I16);
        (volume.value_scale, volume.value_offset) = (0.1, -100.0);
        assert_eq!(volume.stored(-300.0), Some(-2000.0));
        assert_eq!(volume.stored(-300.05), None, "no voxel is that");
        assert_eq!(volume.stored(1e6), None);
        volume.fill = volume.stored(-300.0);
        assert_eq!(volume.validate(), Ok(()));
        assert!(volume.is_no_data(-2000.0) && !volume.is_no_data(-1999.0));
        let mut floats = VolumeDescription::new([4; 3], VoxelType::F32);
        assert!(floats.is_no_data(f32::NAN) && floats.is_no_data(f32::NEG_INFINITY));
        floats.fill = floats.stored(-1e30);
        assert!(floats.is_no_data(-1e30) && !floats.is_no_data(-1e29));
        floats.voxel = VoxelType::U8;
        assert!(floats.validate().is_err());
    }

    #[test]
    fn an_axis_of_one_voxel_is_as_thick_as_its_spacing() {
        let mut plane = VolumeDescription::new([9, 5, 1], VoxelType::U8);
        plane.spacing = [1.0, 2.0, 3.0];
        assert_eq!(plane.extent(), DVec3::new(8.0, 8.0, 3.0));
        assert!(plane.is_thin());
        let point = VolumeDescription::new([1; 3], VoxelType::U8);
        assert!((point.diagonal() - 3.0_f64.sqrt()).abs() < 1e-12);
    }
}
