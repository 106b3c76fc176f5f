//! Jobs that are rendered side by side: what there is of each, and the bands of whole rows of them that a
//! submission renders.
//!
//! A job of a brick has a few thousand rays, which keep a large GPU busy for as long as its longest ray takes
//! (NVIDIA H100, bricks of 64³ in 512²: half a millisecond each); bands of several jobs overlap.

use super::{gpu::TIMED_MAX, pictures::GROUP_EDGE, resident::Visibility};
use crate::{
    device::{DeviceError, Job, RenderedJob},
    secondary::LitPoint,
    sub_image::{PARALLEL_PIXELS, SubImage},
};
use brickmesh_topology::PixelRect;
use rayon::prelude::*;
use std::ops::Range;

/// Bands of a submission, at most.
const BANDS_MAX: usize = 256;
/// The first pixel of a band in the buffer is a multiple of this: a device wants no more than 256 bytes of
/// alignment (the bound of Vulkan's `minStorageBufferOffsetAlignment`).
pub(super) const ALIGNED_PIXELS: usize = 256 / 16;

/// A job that is rendered in bands, and what there is of it.
#[derive(Debug)]
pub(super) struct BandedJob {
    pub(super) job: Job,
    pub(super) visibility: Visibility,
    /// From above.
    pixels: Vec<[f32; 4]>,
    /// Of surfaces that are to be lit.
    pub(super) points: Vec<LitPoint>,
    micros: u64,
}

/// Rows of a job that a submission renders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Band {
    /// Which of the jobs.
    pub(super) of: usize,
    pub(super) rect: PixelRect,
    /// Where its pixels begin in the buffer.
    pub(super) first: u64,
}

impl BandedJob {
    /// Nothing of it is rendered; nothing is to be where it has no visible sample.
    pub(super) fn new(job: Job, visibility: Visibility) -> Self {
        let is_empty = matches!(visibility, Visibility::Nothing) || job.owned.is_empty();
        let pixels = if is_empty {
            vec![[0.0; 4]; job.rect.pixel_count()]
        } else {
            Vec::new()
        };
        Self {
            job,
            visibility,
            pixels,
            points: Vec::new(),
            micros: 0,
        }
    }

    /// The rows that are not rendered.
    fn rest(&self) -> PixelRect {
        let rect = self.job.rect;
        let rows = self.pixels.len() / (rect.width as usize).max(1);
        let rows = u32::try_from(rows).unwrap_or(u32::MAX).min(rect.height);
        PixelRect {
            y: rect.y + rows,
            height: rect.height - rows,
            ..rect
        }
    }

    /// Takes the rows that follow, and the time that they took.
    pub(super) fn add(&mut self, pixels: &[[f32; 4]], micros: u64) {
        if self.pixels.is_empty() {
            self.pixels.reserve_exact(self.job.rect.pixel_count());
        }
        if pixels.len() < PARALLEL_PIXELS {
            self.pixels.extend_from_slice(pixels);
        } else {
            self.pixels.par_extend(pixels);
        }
        self.micros += micros;
    }

    /// The job, if it is whole.
    pub(super) fn whole(self) -> Result<RenderedJob, DeviceError> {
        let image = SubImage::new(self.job.rect, self.pixels);
        let image = image.ok_or(DeviceError::CalledOff)?;
        Ok(RenderedJob::new(image, self.micros))
    }
}

/// The bands that are next, of jobs in their order: of so many pixels in all, and each of so many rows at most.
/// The first one has a row in any case.
pub(super) fn next_bands<'a>(
    jobs: impl IntoIterator<Item = (usize, &'a BandedJob)>,
    pixels_max: u64,
    rows_max: u32,
) -> Vec<Band> {
    let mut bands: Vec<Band> = Vec::new();
    let mut first = 0;
    for (of, begun) in jobs {
        let rest = begun.rest();
        if rest.pixel_count() == 0 {
            continue;
        }
        let width = u64::from(rest.width);
        let rows = pixels_max.saturating_sub(first) / width;
        let rows = rows.max(u64::from(bands.is_empty()));
        let rows = u32::try_from(rows).unwrap_or(u32::MAX).min(rows_max);
        // Groups are whole where a band ends within a job.
        let whole_groups = rows - rows % GROUP_EDGE;
        let height = match rows {
            rows if rows >= rest.height => rest.height,
            rows if bands.is_empty() && whole_groups == 0 => rows,
            _ => whole_groups,
        };
        let rect = PixelRect { height, ..rest };
        if rect.height == 0 || bands.len() == BANDS_MAX {
            break;
        }
        bands.push(Band { of, rect, first });
        first += (rect.pixel_count() as u64).next_multiple_of(ALIGNED_PIXELS as u64);
        if rect.height < rest.height {
            break;
        }
    }
    bands
}

/// The bands that are timed together: at least so many pixels; each band alone where they are few, else groups of about as
/// many pixels.
pub(super) fn timed_groups(bands: &[Band], pixels_min: usize) -> Vec<Range<usize>> {
    let all: usize = bands.iter().map(|b| b.rect.pixel_count()).sum();
    let most = all.div_ceil(TIMED_MAX);
    let mut groups: Vec<Range<usize>> = Vec::new();
    let (mut pixels, mut before) = (0, 0);
    for (at, band) in bands.iter().enumerate() {
        let is_full = bands.len() <= TIMED_MAX || pixels >= most * groups.len();
        // What follows is as much, or it joins.
        let is_enough = pixels - before >= pixels_min && all - pixels >= pixels_min;
        let is_full = is_full && is_enough && groups.len() < TIMED_MAX;
        match groups.last_mut() {
            Some(last) if !is_full => last.end = at + 1,
            _ => {
                groups.push(at..at + 1);
                before = pixels;
            }
        }
        pixels += band.rect.pixel_count();
    }
    groups
}

/// Microseconds of each band, of those that all took: by what the device's clock says of its group, in that by pixels; where the
/// device has no clock, by pixels. The clock's first group is what came before the bands, which is no band's time.
pub(super) fn shares(
    bands: &[Band],
    groups: &[Range<usize>],
    ticks: Option<Vec<u64>>,
    micros: u64,
) -> Vec<u64> {
    let pixels =
        |bands: &[Band]| -> u64 { bands.iter().map(|b| b.rect.pixel_count() as u64).sum() };
    let by_pixels = || groups.iter().map(|g| pixels(&bands[g.clone()]));
    let of_groups = ticks.filter(|t| t.iter().skip(1).any(|t| *t > 0));
    let of_groups: Vec<u64> =
        of_groups.unwrap_or_else(|| [0].into_iter().chain(by_pixels()).collect());
    let all: u128 = of_groups.iter().map(|n| u128::from(*n)).sum();
    let part = |of: u64, n: u64, all: u128| {
        u64::try_from(u128::from(of) * u128::from(n) / all.max(1)).unwrap_or(of)
    };
    let groups = groups.iter().zip(&of_groups[1..]);
    let shares = groups.flat_map(|(group, n)| {
        let (bands, of_group) = (&bands[group.clone()], part(micros, *n, all));
        let all = u128::from(pixels(bands));
        bands
            .iter()
            .map(move |b| part(of_group, b.rect.pixel_count() as u64, all))
    });
    shares.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use brickmesh_topology::{BrickIndex, VoxelBox};

    fn begun(width: u32, height: u32) -> BandedJob {
        let rect = PixelRect {
            x: 3,
            y: 5,
            width,
            height,
        };
        let owned = VoxelBox::new([0; 3], [4; 3]);
        let brick = BrickIndex(0);
        BandedJob::new(Job { brick, owned, rect }, Visibility::Everything)
    }

    /// Renders all, and returns the bands of each submission.
    fn all_bands(mut jobs: Vec<BandedJob>, pixels_max: u64, rows_max: u32) -> Vec<Vec<Band>> {
        let mut all = Vec::new();
        loop {
            let bands = next_bands(jobs.iter().enumerate(), pixels_max, rows_max);
            if bands.is_empty() {
                break;
            }
            for band in &bands {
                let pixel = [band.rect.y as f32; 4];
                jobs[band.of].add(&vec![pixel; band.rect.pixel_count()], 7);
            }
            all.push(bands);
        }
        for job in jobs {
            let rect = job.job.rect;
            let image = job.whole().unwrap().image;
            assert_eq!(image.rect(), rect);
            assert!(image.pixels().is_sorted_by(|a, b| a[0] <= b[0]));
        }
        all
    }

    #[test]
    fn jobs_share_a_submission_and_large_ones_take_several() {
        let small = all_bands((0..9).map(|_| begun(9, 3)).collect(), 1 << 17, 1 << 16);
        assert_eq!(small.len(), 1);
        let firsts: Vec<u64> = small[0].iter().map(|b| b.first).collect();
        assert_eq!(firsts, [0, 32, 64, 96, 128, 160, 192, 224, 256]);
        // The second job begins where the first one leaves room.
        let bands = all_bands(vec![begun(10, 6), begun(10, 20)], 200, 1 << 16);
        let of = |s: &Vec<Band>| -> Vec<_> { s.iter().map(|b| (b.of, b.rect.height)).collect() };
        let heights: Vec<_> = bands.iter().map(of).collect();
        assert_eq!(heights, [vec![(0, 6), (1, 8)], vec![(1, 12)]]);
        // A row that is larger than all that is allowed; jobs without pixels; more jobs than parts.
        assert_eq!(all_bands(vec![begun(0, 7), begun(500, 2)], 100, 9).len(), 2);
        assert_eq!(all_bands(vec![begun(2, 30)], 1 << 17, 8).len(), 4);
        let many = (0..=BANDS_MAX).map(|_| begun(1, 1)).collect();
        assert_eq!(all_bands(many, 1 << 17, 9).len(), 2);
    }

    #[test]
    fn time_is_shared_by_the_clock_or_by_pixels() {
        let jobs = [begun(10, 10), begun(10, 30)];
        let bands = next_bands(jobs.iter().enumerate(), 1 << 17, 1 << 16);
        let groups = timed_groups(&bands, 1);
        assert_eq!(groups, [0..1, 1..2], "few bands are timed each");
        let shares = |ticks, micros| shares(&bands, &groups, ticks, micros);
        assert_eq!(shares(None, 100), [25, 75]);
        assert_eq!(shares(Some(vec![9, 0, 0]), 100), [25, 75]);
        assert_eq!(shares(Some(vec![0, 30, 10]), 100), [75, 25]);
        assert_eq!(shares(Some(vec![40, 30, 10]), 100), [37, 12]);
        assert_eq!(shares(Some(vec![u64::MAX; 3]), u64::MAX)[0], u64::MAX / 3);
    }

    #[test]
    fn many_bands_are_timed_in_groups_of_about_as_many_pixels() {
        let groups_of = |jobs: &[BandedJob]| {
            let bands = next_bands(jobs.iter().enumerate(), 1 << 17, 1 << 16);
            assert_eq!(bands.len(), jobs.len());
            let groups = timed_groups(&bands, 1);
            (bands, groups)
        };
        let (bands, groups) = groups_of(&[(); 10].map(|()| begun(8, 8)));
        assert_eq!(groups, [0..3, 3..5, 5..8, 8..10]);
        let ticks = Some(vec![0, 30, 20, 0, 50]);
        let found = shares(&bands, &groups, ticks, 1_000);
        assert_eq!(found, [100, 100, 100, 100, 100, 0, 0, 0, 250, 250]);
        assert_eq!(shares(&bands, &groups, None, 1_000), [100; 10]);
        // One large band among small ones.
        let jobs = [
            begun(1, 1),
            begun(100, 100),
            begun(1, 1),
            begun(1, 1),
            begun(1, 1),
        ];
        let (_, groups) = groups_of(&jobs);
        assert_eq!(groups, [0..2, 2..3, 3..4, 4..5]);
        assert!(timed_groups(&[], 1).is_empty());
        // What a device has room for at a time is not timed apart, nor what is left over.
        let (bands, _) = groups_of(&jobs);
        assert_eq!(timed_groups(&bands, 10_000).len(), 1);
        let jobs = [100, 1, 100, 1, 1].map(|n| begun(n, n));
        let (bands, _) = groups_of(&jobs);
        assert_eq!(timed_groups(&bands, 10_000), [0..1, 1..5]);
        assert_eq!(timed_groups(&bands, 10_001), [0..2, 2..5]);
        assert_eq!(timed_groups(&bands, 10_003).len(), 1);
        for count in 1..200 {
            let jobs: Vec<BandedJob> = (0..count).map(|n| begun(1 + n * 7 % 13, 4)).collect();
            let (bands, groups) = groups_of(&jobs);
            assert!(groups.len() <= TIMED_MAX);
            let all: Vec<usize> = groups.into_iter().flatten().collect();
            assert!(all.into_iter().eq(0..bands.len()));
        }
    }
}
