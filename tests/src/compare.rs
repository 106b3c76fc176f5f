//! Comparing pictures, 8 bits a channel.

/// How two pictures differ.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// Largest difference of a channel, of 255.
    pub max: u8,
    /// Share of pixels with a channel that differs by more than 1.
    pub over_1: f64,
    /// Share of pixels with a channel that differs by more than 4.
    pub over_4: f64,
    /// Peak signal-to-noise ratio in decibels over all channels; infinite where equal.
    pub psnr: f64,
}

/// Compares two RGBA pictures.
///
/// # Panics
/// Where their sizes differ.
#[must_use]
pub fn compare(a: &[u8], b: &[u8]) -> Difference {
    assert_eq!(a.len(), b.len(), "pictures of one size");
    let pixels = (a.len() / 4) as f64;
    let (mut max, mut over_1, mut over_4, mut square) = (0, 0_u32, 0_u32, 0.0);
    for (p, q) in a.chunks_exact(4).zip(b.chunks_exact(4)) {
        let worst = p
            .iter()
            .zip(q)
            .map(|(x, y)| x.abs_diff(*y))
            .max()
            .unwrap_or(0);
        max = max.max(worst);
        over_1 += u32::from(worst > 1);
        over_4 += u32::from(worst > 4);
        square += p
            .iter()
            .zip(q)
            .map(|(x, y)| f64::from(x.abs_diff(*y)).powi(2))
            .sum::<f64>();
    }
    let mean = square / a.len() as f64;
    Difference {
        max,
        over_1: f64::from(over_1) / pixels,
        over_4: f64::from(over_4) / pixels,
        psnr: 10.0 * (255.0 * 255.0 / mean).log10(),
    }
}

/// Premultiplied float64 pixels over black, as 8-bit RGBA.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 0…255 before"
)]
pub fn to_rgba8(pixels: &[[f64; 4]]) -> Vec<u8> {
    let channel = |c: f64| (c.clamp(0.0, 1.0) * 255.0 + 0.5) as u8;
    pixels
        .iter()
        .flat_map(|p| [channel(p[0]), channel(p[1]), channel(p[2]), 255])
        .collect()
}
