//! A job that is rendered in bands of whole rows, each of about [`SLICE_MICROS`], or in one: bands cost some percent.

use brickmesh_shaders::{RenderedJob, SubImage};
use brickmesh_topology::{PixelRect, frame::worker::SLICE_MICROS};

/// Rows of a band, at least: fewer do not keep several cores busy.
const ROWS_MIN: u32 = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct BegunJob {
    rect: PixelRect,
    /// What all of it should take, microseconds; `None`: it is one band.
    expected: Option<u64>,
    /// What there is, from above.
    pixels: Vec<[f32; 4]>,
    rows: u32,
    micros: u64,
    /// Microseconds and rows of the last band.
    last: (u64, u32),
}

impl BegunJob {
    pub(super) fn new(rect: PixelRect, expected: Option<u64>) -> Self {
        Self {
            rect,
            expected,
            pixels: Vec::new(),
            rows: 0,
            micros: 0,
            last: (0, 0),
        }
    }

    /// How long the device has worked on it.
    pub(super) fn micros(&self) -> u64 {
        self.micros
    }

    /// The next band; none where it has all. A job without rows is one without pixels.
    pub(super) fn next_band(&self) -> Option<PixelRect> {
        let left = self.rect.height - self.rows;
        if left == 0 && self.rows > 0 {
            return None;
        }
        // Rows of a job are not alike: the first ones may be nearly empty.
        let of_slice = [(self.expected.unwrap_or(0), self.rect.height), self.last]
            .map(|(micros, rows)| u64::from(rows).saturating_mul(SLICE_MICROS) / micros.max(1));
        let of_slice = match self.rows {
            0 => of_slice[0],
            _ => of_slice[0].min(of_slice[1]),
        };
        let height = u32::try_from(of_slice).unwrap_or(u32::MAX).max(ROWS_MIN);
        // No sliver is left over.
        let height = if left.saturating_sub(height) < height / 2 {
            left
        } else {
            height
        };
        Some(PixelRect {
            y: self.rect.y + self.rows,
            height,
            ..self.rect
        })
    }

    /// Takes a band; the job, once it is whole.
    pub(super) fn add(&mut self, band: RenderedJob) -> Option<RenderedJob> {
        self.micros = self.micros.saturating_add(band.elapsed_micros);
        let rect = band.image.rect();
        if rect == self.rect {
            return Some(band);
        }
        self.last = (band.elapsed_micros, rect.height);
        self.rows += rect.height;
        self.pixels.extend_from_slice(band.image.pixels());
        if self.rows < self.rect.height {
            return None;
        }
        let image = SubImage::new(self.rect, std::mem::take(&mut self.pixels))?;
        Some(RenderedJob {
            image,
            elapsed_micros: self.micros,
            unlit: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECT: PixelRect = PixelRect {
        x: 3,
        y: 100,
        width: 4,
        height: 500,
    };

    /// The heights of the bands of a job whose rows take so long each, and what it became.
    fn bands(
        expected: impl Into<Option<u64>>,
        micros: impl Fn(u32) -> u64,
    ) -> (Vec<u32>, RenderedJob) {
        let mut job = BegunJob::new(RECT, expected.into());
        let mut heights = Vec::new();
        loop {
            let rect = job.next_band().expect("it is not whole");
            heights.push(rect.height);
            let rows = rect.y..rect.y + rect.height;
            let pixel = |y: u32| [[y as f32; 4]; RECT.width as usize];
            let band = RenderedJob {
                image: SubImage::new(rect, rows.clone().flat_map(pixel).collect()).unwrap(),
                elapsed_micros: rows.map(|y| micros(y - RECT.y)).sum(),
                unlit: None,
            };
            if let Some(whole) = job.add(band) {
                return (heights, whole);
            }
        }
    }

    #[test]
    fn short_jobs_are_one_band_and_long_ones_a_slice_each() {
        assert_eq!(bands(None, |_| 1_000).0, [500]);
        assert_eq!(bands(15_000, |_| 30).0, [500]);
        // Nearly two slices: no sliver is left over.
        assert_eq!(bands(28_000, |_| 56).0, [500]);
        let (heights, whole) = bands(500_000, |_| 1_000);
        assert_eq!(heights, [20; 25]);
        assert_eq!((whole.elapsed_micros, whole.image.rect()), (500_000, RECT));
        let ys = (100..600).flat_map(|y| [[y as f32; 4]; 4]);
        assert!(whole.image.pixels().iter().copied().eq(ys));
    }

    #[test]
    fn rows_that_cost_nothing_do_not_make_bands_long() {
        let micros = |y: u32| if y < 100 { 1 } else { 2_500 };
        let (heights, _) = bands(1_000_000, micros);
        assert!(heights.iter().all(|h| *h <= 24), "{heights:?}");
        // More than was expected: as short as they may be.
        let (heights, _) = bands(50_000, |_| 10_000);
        assert_eq!(heights[..3], [200, ROWS_MIN, ROWS_MIN]);
    }
}
