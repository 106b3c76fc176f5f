//! Named transfer functions, and the values that they mean: Hounsfield units, or the values of
//! interest of whatever volume it is.
//!
//! Opacities are per smallest spacing. The colours of `viridis` to `cividis` are Matplotlib's (CC0),
//! those of `cool-warm` Moreland's ("Diverging Color Maps for Scientific Visualization", ISVC 2009).

use crate::data::transfer_function::{TransferFunction, TransferPoint};

/// What the values of a preset are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresetValues {
    /// Hounsfield units: they mean themselves.
    Hounsfield,
    /// 0 to 1, to be stretched over a range of the data.
    Normalised,
}

/// A named transfer function.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// What it shows, for people.
    pub what: &'static str,
    /// What its values are.
    pub values: PresetValues,
    shape: Shape,
}

/// A point: value, colour, opacity.
type Point = (f64, [f64; 3], f64);

#[derive(Clone, Copy, Debug)]
enum Shape {
    Points(&'static [Point]),
    /// Colours at equal distances from 0 to 1, with these opacities.
    Colors(&'static [[f64; 3]; 9], &'static [(f64, f64)]),
}

/// The default where nothing is known of the data: little of the low values, more and more above, so
/// that what is rare and high is seen inside of what is common.
pub const STRUCTURE: &str = "structure";
/// The default for magnetic resonance of a body: its surface.
pub const MR: &str = "mr";
/// The default for computed tomography in Hounsfield units.
pub const CT: &str = "ct";
/// The default where values lie to both sides of the background.
pub const COOL_WARM: &str = "cool-warm";

/// The default where values or colours are combined without anything being hidden.
pub const GREY: &str = "grey";

/// All presets, in the order in which people are shown them.
pub const PRESETS: [Preset; 13] = [
    preset(
        CT,
        "skin and soft tissue, thin; vessels with contrast agent; bone",
        HU,
        Shape::Points(&CT_POINTS),
    ),
    preset("ct-bone", "bone alone", HU, Shape::Points(&CT_BONE)),
    preset(
        "ct-vessels",
        "vessels with contrast agent, and bone",
        HU,
        Shape::Points(&CT_VESSELS),
    ),
    preset(
        "ct-lung",
        "airways and vessels of the lung",
        HU,
        Shape::Points(&CT_LUNG),
    ),
    preset(
        MR,
        "the surface of a head or body",
        DATA,
        Shape::Points(&MR_POINTS),
    ),
    preset(
        STRUCTURE,
        "the higher, the more opaque; blue, sand, orange, white",
        DATA,
        Shape::Points(&STRUCTURE_POINTS),
    ),
    preset(
        GREY,
        "black to white",
        DATA,
        Shape::Colors(&BLACK_TO_WHITE, &RISING),
    ),
    preset(
        "viridis",
        "Matplotlib's map",
        DATA,
        Shape::Colors(&VIRIDIS, &RISING),
    ),
    preset(
        "plasma",
        "Matplotlib's map",
        DATA,
        Shape::Colors(&PLASMA, &RISING),
    ),
    preset(
        "inferno",
        "Matplotlib's map",
        DATA,
        Shape::Colors(&INFERNO, &RISING),
    ),
    preset(
        "magma",
        "Matplotlib's map",
        DATA,
        Shape::Colors(&MAGMA, &RISING),
    ),
    preset(
        "cividis",
        "Matplotlib's map, for every kind of colour vision",
        DATA,
        Shape::Colors(&CIVIDIS, &RISING),
    ),
    preset(
        COOL_WARM,
        "blue below the middle, red above it",
        DATA,
        Shape::Colors(&COOL_TO_WARM, &BOTH_ENDS),
    ),
];

const HU: PresetValues = PresetValues::Hounsfield;
const DATA: PresetValues = PresetValues::Normalised;

const fn preset(
    name: &'static str,
    what: &'static str,
    values: PresetValues,
    shape: Shape,
) -> Preset {
    Preset {
        name,
        what,
        values,
        shape,
    }
}

/// The preset of this name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|p| p.name == name)
}

impl Preset {
    /// First and last value, as they are.
    #[must_use]
    pub fn range(&self) -> [f64; 2] {
        match (self.values, self.shape) {
            (PresetValues::Hounsfield, Shape::Points([first, .., last])) => [first.0, last.0],
            _ => [0.0, 1.0],
        }
    }

    /// The function, its values as they are.
    #[must_use]
    pub fn function(&self) -> TransferFunction {
        let point = |&(value, color, opacity): &Point| TransferPoint {
            value,
            color,
            opacity,
        };
        let points = match self.shape {
            Shape::Points(points) => points.iter().map(point).collect(),
            Shape::Colors(colors, opacities) => {
                let last = (colors.len() - 1) as f64;
                let at = |(i, &color): (usize, &[f64; 3])| {
                    let value = i as f64 / last;
                    point(&(value, color, opacity_at(opacities, value)))
                };
                colors.iter().enumerate().map(at).collect()
            }
        };
        TransferFunction {
            unit_distance: None,
            points,
        }
    }
}

/// Linear between the points of a list from 0 to 1.
fn opacity_at(points: &[(f64, f64)], at: f64) -> f64 {
    let within = |p: &&[(f64, f64)]| p[0].0 <= at && at <= p[1].0;
    points.windows(2).find(within).map_or(0.0, |p| {
        let (a, b) = (p[0], p[1]);
        a.1 + (b.1 - a.1) * (at - a.0) / (b.0 - a.0)
    })
}

const SKIN: [f64; 3] = [0.92, 0.68, 0.56];
const FAT: [f64; 3] = [0.90, 0.75, 0.55];
const TISSUE: [f64; 3] = [0.75, 0.35, 0.30];
const VESSEL: [f64; 3] = [0.85, 0.25, 0.20];
const BONE: [f64; 3] = [0.95, 0.92, 0.82];
const WHITE: [f64; 3] = [1.0, 1.0, 0.97];
const AIR: [f64; 3] = [0.55, 0.65, 0.80];

/// Tables are of carbon and foam around 500 to 800 Hounsfield units: less opaque there than at the
/// border of bones and in their densest parts.
const CT_POINTS: [Point; 14] = [
    (-1000.0, SKIN, 0.0),
    (-450.0, SKIN, 0.0),
    (-300.0, SKIN, 0.18),
    (-150.0, SKIN, 0.07),
    (-50.0, FAT, 0.012),
    (20.0, TISSUE, 0.012),
    (90.0, TISSUE, 0.03),
    (150.0, VESSEL, 0.08),
    (220.0, BONE, 0.20),
    (350.0, BONE, 0.40),
    (450.0, WHITE, 0.27),
    (700.0, WHITE, 0.15),
    (1000.0, WHITE, 0.40),
    (1500.0, WHITE, 0.90),
];
const CT_BONE: [Point; 5] = [
    (-1000.0, BONE, 0.0),
    (150.0, BONE, 0.0),
    (250.0, BONE, 0.25),
    (450.0, BONE, 0.60),
    (1500.0, WHITE, 0.90),
];
const CT_VESSELS: [Point; 7] = [
    (-1000.0, VESSEL, 0.0),
    (110.0, VESSEL, 0.0),
    (160.0, VESSEL, 0.15),
    (300.0, [0.95, 0.55, 0.35], 0.45),
    (450.0, BONE, 0.10),
    (700.0, BONE, 0.25),
    (1500.0, WHITE, 0.60),
];
const CT_LUNG: [Point; 7] = [
    (-1000.0, AIR, 0.0),
    (-950.0, AIR, 0.0),
    (-850.0, AIR, 0.004),
    (-700.0, [0.80, 0.85, 0.90], 0.04),
    (-550.0, [0.95, 0.60, 0.50], 0.20),
    (-350.0, [0.85, 0.35, 0.30], 0.02),
    (-250.0, TISSUE, 0.0),
];
const MR_POINTS: [Point; 4] = [
    (0.0, [0.45, 0.25, 0.20], 0.0),
    (0.1, [0.65, 0.42, 0.35], 0.1),
    (0.3, [0.88, 0.68, 0.57], 0.5),
    (1.0, [1.0, 0.96, 0.90], 0.8),
];
const STRUCTURE_POINTS: [Point; 5] = [
    (0.0, [0.10, 0.15, 0.35], 0.0),
    (0.25, [0.25, 0.45, 0.80], 0.01),
    (0.5, [0.85, 0.80, 0.70], 0.06),
    (0.75, [0.95, 0.60, 0.25], 0.20),
    (1.0, [1.0, 0.95, 0.85], 0.50),
];
const RISING: [(f64, f64); 5] = [
    (0.0, 0.0),
    (0.25, 0.01),
    (0.5, 0.06),
    (0.75, 0.20),
    (1.0, 0.50),
];
const BOTH_ENDS: [(f64, f64); 5] = [
    (0.0, 0.5),
    (0.25, 0.06),
    (0.5, 0.0),
    (0.75, 0.06),
    (1.0, 0.5),
];
const BLACK_TO_WHITE: [[f64; 3]; 9] = [
    [0.0; 3], [0.125; 3], [0.25; 3], [0.375; 3], [0.5; 3], [0.625; 3], [0.75; 3], [0.875; 3],
    [1.0; 3],
];
const VIRIDIS: [[f64; 3]; 9] = [
    [0.267, 0.005, 0.329],
    [0.279, 0.175, 0.483],
    [0.230, 0.322, 0.546],
    [0.173, 0.449, 0.558],
    [0.128, 0.567, 0.551],
    [0.158, 0.684, 0.502],
    [0.369, 0.789, 0.383],
    [0.678, 0.864, 0.190],
    [0.993, 0.906, 0.144],
];
const PLASMA: [[f64; 3]; 9] = [
    [0.050, 0.030, 0.528],
    [0.300, 0.010, 0.632],
    [0.495, 0.012, 0.658],
    [0.665, 0.139, 0.586],
    [0.798, 0.280, 0.470],
    [0.902, 0.425, 0.360],
    [0.973, 0.586, 0.252],
    [0.993, 0.772, 0.155],
    [0.940, 0.975, 0.131],
];
const INFERNO: [[f64; 3]; 9] = [
    [0.001, 0.000, 0.014],
    [0.129, 0.047, 0.291],
    [0.342, 0.062, 0.429],
    [0.541, 0.135, 0.415],
    [0.736, 0.216, 0.330],
    [0.894, 0.353, 0.194],
    [0.978, 0.558, 0.035],
    [0.975, 0.798, 0.206],
    [0.988, 0.998, 0.645],
];
const MAGMA: [[f64; 3]; 9] = [
    [0.001, 0.000, 0.014],
    [0.113, 0.065, 0.277],
    [0.317, 0.072, 0.485],
    [0.513, 0.148, 0.508],
    [0.716, 0.215, 0.475],
    [0.904, 0.320, 0.388],
    [0.987, 0.536, 0.382],
    [0.997, 0.770, 0.535],
    [0.987, 0.991, 0.750],
];
const CIVIDIS: [[f64; 3]; 9] = [
    [0.000, 0.135, 0.305],
    [0.103, 0.220, 0.436],
    [0.264, 0.308, 0.423],
    [0.381, 0.395, 0.436],
    [0.489, 0.485, 0.471],
    [0.609, 0.580, 0.464],
    [0.736, 0.681, 0.424],
    [0.871, 0.790, 0.343],
    [0.996, 0.909, 0.218],
];
const COOL_TO_WARM: [[f64; 3]; 9] = [
    [0.230, 0.299, 0.754],
    [0.384, 0.510, 0.918],
    [0.554, 0.690, 0.996],
    [0.724, 0.815, 0.976],
    [0.867, 0.864, 0.863],
    [0.960, 0.767, 0.674],
    [0.957, 0.598, 0.477],
    [0.865, 0.371, 0.296],
    [0.706, 0.016, 0.150],
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    #[expect(clippy::float_cmp, reason = "numbers are copied")]
    fn every_preset_is_a_function_with_a_name_of_its_own() {
        let names: BTreeSet<&str> = PRESETS.iter().map(|p| p.name).collect();
        assert_eq!(names.len(), PRESETS.len());
        for preset in PRESETS {
            let function = preset.function();
            assert_eq!(function.validate(), Ok(()), "{}", preset.name);
            let ends = [
                &function.points[0],
                &function.points[function.points.len() - 1],
            ];
            assert_eq!(ends.map(|p| p.value), preset.range(), "{}", preset.name);
            assert!(function.points.iter().any(|p| p.opacity > 0.1));
        }
        assert!(
            [CT, MR, STRUCTURE, COOL_WARM]
                .into_iter()
                .all(|n| by_name(n).is_some())
        );
        assert!(by_name("none").is_none());
    }
}
