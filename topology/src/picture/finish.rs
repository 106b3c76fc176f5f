//! From what rays come to, to the colours of a picture: exposure, gamma, background.
//!
//! Space: linear premultiplied RGBA in; out what is written, without a curve beside `gamma`.

/// Most that rays lose where they end, as a part of full scale of finished colours.
const LOST_MAX: f32 = 0.001;
/// What is lost gets so many times smaller at a time: few thresholds, so that what was rendered serves pictures of other exposures.
const LOST_STEP: f32 = 4.0;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finish {
    /// Background of the uppermost row, and of the lowest; linear between.
    pub background: [[f32; 3]; 2],
    /// There is no background: pixels keep their opacity, and colours are not premultiplied.
    pub is_transparent: bool,
    /// What colours are multiplied by.
    pub exposure: f32,
    /// Colours are raised to one over this, after the exposure.
    pub gamma: f32,
}

impl Finish {
    /// Colours as they are, before this.
    #[must_use]
    pub fn before(background: [f32; 3]) -> Self {
        Self {
            background: [background; 2],
            is_transparent: false,
            exposure: 1.0,
            gamma: 1.0,
        }
    }

    /// The background of a row of a picture of this height.
    #[must_use]
    pub fn background_at(&self, row: u32, height: u32) -> [f32; 3] {
        let [top, bottom] = self.background;
        let down = (row as f32 + 0.5) / height.max(1) as f32;
        // One colour stays what it is.
        std::array::from_fn(|c| top[c] + (bottom[c] - top[c]) * down)
    }

    /// The colour of a pixel before a background.
    #[must_use]
    pub fn pixel(&self, of_rays: [f32; 4], background: [f32; 3]) -> [f32; 4] {
        let [r, g, b, a] = of_rays;
        let mut color = [r, g, b];
        if self.is_toned() && a > 0.0 {
            let tone = |c: f32| {
                (c / a * self.exposure)
                    .clamp(0.0, 1.0)
                    .powf(1.0 / self.gamma)
            };
            color = color.map(|c| tone(c) * a);
        }
        if self.is_transparent {
            let part = if a > 0.0 { 1.0 / a } else { 0.0 };
            let [r, g, b] = color.map(|c| c * part);
            return [r, g, b, a];
        }
        let [r, g, b] = [0, 1, 2].map(|c| (1.0 - a) * background[c] + color[c]);
        [r, g, b, 1.0]
    }

    /// How opaque a ray is behind which nothing is seen: what is lost there is at most 1/1000 of full scale
    /// of finished colours, or what an opacity that is rounded to 1 hides, where that is more (with gamma above 2.4).
    #[must_use]
    pub fn opaque(&self) -> f32 {
        // A root is steepest from black, other curves where they come to full scale.
        let steepest = if self.gamma > 1.0 {
            LOST_MAX.powf(self.gamma)
        } else {
            LOST_MAX * self.gamma
        };
        let mut lost = LOST_MAX;
        while lost > steepest / self.exposure {
            lost /= LOST_STEP;
        }
        1.0 - lost
    }

    /// Whether colours are changed beside the background.
    #[must_use]
    pub fn is_toned(&self) -> bool {
        [self.exposure, self.gamma].map(f32::to_bits) != [1.0_f32.to_bits(); 2]
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "sums of powers of two are exact")]
mod tests {
    use super::*;

    #[test]
    fn what_is_half_seen_is_half_the_background() {
        let finish = Finish::before([1.0, 0.0, 0.5]);
        let background = finish.background_at(3, 7);
        assert_eq!(background, [1.0, 0.0, 0.5]);
        let pixel = finish.pixel([0.25, 0.5, 0.0, 0.5], background);
        assert_eq!(pixel, [0.75, 0.5, 0.25, 1.0]);
    }

    #[test]
    fn a_gradient_goes_from_the_top_to_the_bottom() {
        let mut finish = Finish::before([0.0; 3]);
        finish.background[0] = [1.0; 3];
        let rows = [0, 1, 2, 3].map(|row| finish.background_at(row, 4)[0]);
        assert_eq!(rows, [0.875, 0.625, 0.375, 0.125]);
    }

    #[test]
    fn transparent_pixels_over_a_background_are_the_opaque_ones() {
        let finish = Finish {
            exposure: 1.5,
            gamma: 2.2,
            ..Finish::before([0.2, 0.4, 0.6])
        };
        let transparent = Finish {
            is_transparent: true,
            ..finish
        };
        for of_rays in [[0.0; 4], [0.1, 0.2, 0.05, 0.4], [0.9, 0.3, 1.0, 1.0]] {
            let expected = finish.pixel(of_rays, [0.2, 0.4, 0.6]);
            let [r, g, b, a] = transparent.pixel(of_rays, [0.2, 0.4, 0.6]);
            for (c, color) in [r, g, b].into_iter().enumerate() {
                let over = color * a + [0.2, 0.4, 0.6][c] * (1.0 - a);
                assert!((over - expected[c]).abs() < 1e-6, "{over} {expected:?}");
            }
        }
        assert_eq!(transparent.pixel([0.0; 4], [1.0; 3]), [0.0; 4]);
    }

    #[test]
    fn what_is_lost_behind_opaque_rays_is_not_seen() {
        assert!(Finish::before([0.0; 3]).opaque() == 0.999);
        for exposure in [0.01, 0.5, 1.0, 1.1, 2.0, 17.0, 100.0] {
            for gamma in [0.1, 0.5, 1.0, 1.2, 2.2, 3.0] {
                let finish = Finish {
                    exposure,
                    gamma,
                    ..Finish::before([0.0; 3])
                };
                let opaque = finish.opaque();
                assert!((0.999..=1.0).contains(&opaque), "{exposure} {gamma}");
                for color in (0..=4096_u16).map(|c| f32::from(c) / 4096.0 * opaque) {
                    let whole = finish.pixel([color + (1.0 - opaque), color, 0.0, 1.0], [0.0; 3]);
                    let ended = finish.pixel([color, color, 0.0, opaque], [0.0; 3]);
                    for (whole, ended) in whole.into_iter().zip(ended) {
                        let off = (whole - ended).abs();
                        assert!(off < 0.0011, "{color} {exposure} {gamma}: {off}");
                    }
                }
            }
        }
        let bright = Finish {
            gamma: 10.0,
            ..Finish::before([0.0; 3])
        };
        assert!(
            bright.opaque() == 1.0,
            "what is left is less than a number tells"
        );
    }

    #[test]
    fn exposure_multiplies_and_gamma_brightens_what_is_opaque() {
        let finish = Finish {
            exposure: 2.0,
            gamma: 2.0,
            ..Finish::before([0.0; 3])
        };
        let [r, g, b, _] = finish.pixel([0.125, 0.02, 0.9, 1.0], [0.0; 3]);
        assert!((r - 0.5).abs() < 1e-6 && (g - 0.2).abs() < 1e-6, "{r} {g}");
        assert!((b - 1.0).abs() < 1e-6, "{b}");
    }
}
