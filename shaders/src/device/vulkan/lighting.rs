//! Secondary rays on this device: it keeps the points at which rays from the eye meet surfaces, and says what bricks let
//! through of the rays that the host sends from there. Mirrors: `wgsl/secondary.wgsl`.
//!
//! Threads of the whole process work out which ray goes through which brick, as only they know how many there are of them.
//! Invariant: points are in an order of their own, not in that in which the device met them: equal scenes give equal pictures.

use super::{
    BandDispatch, VulkanDevice,
    bands::{ALIGNED_PIXELS, Band},
    choice::VulkanKind,
    explain::Explain,
    gpu::{Commands, Gpu, Home},
    kernels::Purpose,
    pictures::{KeptBuffers, ReadBuffers},
    reflections::REFLECTED_VECTORS,
    resident::Visibility,
};
use crate::{
    device::{DeviceError, IsWanted, RenderedJob},
    secondary::{LitPoint, LitPoints, SecondaryRay, SecondaryRays, UnlitJob},
};
use brickmesh_topology::{BrickIndex, PixelRect, VoxelBox};
use glam::DVec3;
use rayon::prelude::*;
use std::{collections::BTreeMap, ops::Range, sync::Arc, time::Instant};
use vulkano::{
    buffer::{BufferUsage, Subbuffer},
    descriptor_set::WriteDescriptorSet,
};

/// Vectors of a point, and before the points of a band.
const POINT_VECTORS: u64 = 5;
const HEADER_VECTORS: u64 = 1;
/// Before the points of a band where there are none.
const NO_POINTS: [[f32; 4]; 1] = [[0.0; 4]];
/// Points of a submission, as far as they are not those of a single row of pixels.
pub(super) const POINTS_MAX: u64 = 1 << 18;
/// What these take where the device writes them, and where the host reads them, with headers and what is between bands: a row's may take more.
pub(super) const POINTS_BYTES_MAX: u64 = 4 * VECTOR_BYTES * POINT_VECTORS * POINTS_MAX;
/// Points that there is room for in the pixels of a band, on average, at first and at last: each hides more than
/// [`DARK`](crate::constants::DARK) of its pixel, and all of them no more than that.
const PER_PIXEL: [u64; 2] = [2, 1024];
/// The same of a band, at least: few pixels, or rays, may have many.
const BAND_POINTS_MIN: u64 = 64;
/// Rays that are sent together, each through several bricks, to processors that are Vulkan devices, and to GPUs: what comes on top of
/// each submission counts there. Not by how long they take: so that light is added in the same order whenever it is.
const RAYS_TOGETHER: [usize; 2] = [1 << 14, 1 << 16];
/// Rays of points that a thread works at.
const RAYS_OF_PART: usize = 1 << 10;
/// Rays of a submission, counted once for each brick; those of one brick are fewer.
pub(super) const RAYS_SUBMITTED: usize = 1 << 17;
/// What these take.
pub(super) const RAYS_BYTES_MAX: u64 =
    (RAYS_SUBMITTED * REFLECTED_VECTORS * size_of::<[f32; 4]>()) as u64;
/// Vectors of a ray.
const RAY_VECTORS: usize = 2;
/// Rays of a workgroup; as in `wgsl/secondary.wgsl`.
pub(super) const GROUP_RAYS: u32 = 64;

/// Farther than any ray goes, world units.
const REACH_MAX: f64 = 1e30;
/// Bytes of a vector.
const VECTOR_BYTES: u64 = 16;

/// A ray as the kernel reads it.
type RayVectors = [[f32; 4]; RAY_VECTORS];

/// Rays of a part, by the numbers of both.
type RaysOfPart = (usize, Vec<(u32, RayVectors)>);

/// Rays that are sent through a brick.
struct SentRays {
    /// The brick's number among those that rays go through together.
    number: usize,
    rays: Range<usize>,
    brick: BrickIndex,
    owned: VoxelBox,
    visibility: Visibility,
}

/// Where the points of bands go.
#[derive(Debug)]
pub(super) struct PointBuffers {
    kept: KeptBuffers,
    per_pixel: u64,
    /// Of a submission, as memory allows.
    points_max: u64,
}

/// The points of one band in their buffers.
#[derive(Clone, Copy, Debug)]
struct PointsOf {
    first: u64,
    most: u64,
}

impl PointsOf {
    fn end(&self) -> u64 {
        self.first + HEADER_VECTORS + POINT_VECTORS * self.most
    }
}

/// Buffers with room for the points of some bands.
pub(super) struct BandPoints {
    buffers: ReadBuffers,
    of: Vec<PointsOf>,
}

impl PointBuffers {
    /// Nothing is allocated yet.
    pub(super) fn new(copies_back: bool) -> Self {
        Self {
            kept: KeptBuffers::new(copies_back),
            per_pixel: PER_PIXEL[0],
            points_max: POINTS_MAX,
        }
    }

    /// Another picture follows: it may have fewer surfaces.
    pub(super) fn begin(&mut self) {
        self.per_pixel = PER_PIXEL[0];
    }

    /// Room for points of a pixel, on average; to be set again after rays that have more.
    pub(super) fn per_pixel(&self) -> u64 {
        self.per_pixel
    }

    /// See [`Self::per_pixel`].
    pub(super) fn set_per_pixel(&mut self, per_pixel: u64) {
        self.per_pixel = per_pixel;
    }

    /// Pixels of a submission whose points have room.
    pub(super) fn pixels_max(&self) -> u64 {
        self.points_max / self.per_pixel
    }

    /// Goes on with less, as memory was short; false where it is as little as can be.
    pub(super) fn halve(&mut self) -> bool {
        self.kept.free();
        let smaller = self.points_max > PER_PIXEL[1];
        self.points_max /= if smaller { 2 } else { 1 };
        smaller
    }

    /// Room for the points of bands.
    pub(super) fn of(&mut self, gpu: &Gpu, bands: &[Band]) -> Result<BandPoints, DeviceError> {
        let mut first = 0;
        let of = bands.iter().map(|band| {
            let most = (band.rect.pixel_count() as u64 * self.per_pixel).max(BAND_POINTS_MIN);
            let of = PointsOf { first, most };
            first = of.end().next_multiple_of(ALIGNED_PIXELS as u64);
            of
        });
        let of: Vec<PointsOf> = of.collect();
        let range = u64::from(gpu.physical().properties().max_storage_buffer_range);
        if of
            .iter()
            .any(|of| (of.end() - of.first) * VECTOR_BYTES > range)
        {
            return Err(DeviceError::Failed {
                what: format!(
                    "a row of pixels shows {} surfaces each that are to be lit, more than a buffer of this device holds; \
                     take a smaller --tile",
                    self.per_pixel
                ),
            });
        }
        let buffers = self.kept.of(gpu, first)?;
        Ok(BandPoints { buffers, of })
    }

    /// Takes the points of each band; `None`: there were more than there was room for, and there is more now.
    pub(super) fn take(
        &mut self,
        points: &BandPoints,
    ) -> Result<Option<Vec<Vec<LitPoint>>>, DeviceError> {
        let vectors = points.buffers.read()?;
        let vectors: &[[f32; 4]] = &vectors;
        let at = |n: u64| vectors[usize::try_from(n).unwrap_or(usize::MAX)];
        let count = |of: &PointsOf| u64::from(at(of.first)[0].to_bits());
        let fullness = |of| (count(of) * self.per_pixel).div_ceil(of.most.max(1));
        let fullest = points.of.iter().map(fullness).max().unwrap_or(0);
        if fullest <= self.per_pixel {
            let of_band = |of: &PointsOf| {
                let first = of.first + HEADER_VECTORS;
                let vectors = |n| [0, 1, 2, 3, 4].map(|v| at(first + POINT_VECTORS * n + v));
                let mut all: Vec<_> = (0..count(of)).into_par_iter().map(vectors).collect();
                // By pixels, as neighbours meet the same bricks; else in any order that is the same again.
                let bits = |p: &[[f32; 4]; 5]| p.map(|v| v.map(f32::to_bits));
                all.par_sort_unstable_by(|a, b| {
                    let pixels = a[0][3].to_bits().cmp(&b[0][3].to_bits());
                    pixels.then_with(|| bits(a).cmp(&bits(b)))
                });
                all.into_par_iter().map(point).collect()
            };
            return Ok(Some(points.of.iter().map(of_band).collect()));
        }
        if self.per_pixel >= PER_PIXEL[1] {
            return Err(DeviceError::Failed {
                what: format!("pixels show {fullest} surfaces each that are to be lit"),
            });
        }
        self.per_pixel = fullest.next_power_of_two().min(PER_PIXEL[1]);
        Ok(None)
    }
}

impl BandPoints {
    /// Where the points of a band go, and how many have room.
    pub(super) fn binding(&self, band: usize) -> (WriteDescriptorSet, u32) {
        let of = self.of[band];
        let buffer = self.buffers.written.clone().slice(of.first..of.end());
        let most = u32::try_from(of.most).unwrap_or(u32::MAX);
        (WriteDescriptorSet::buffer(8, buffer), most)
    }

    /// There are no points yet.
    pub(super) fn clear(&self, commands: &mut Commands) -> Result<(), DeviceError> {
        for of in &self.of {
            let header = self.buffers.written.clone();
            let header = header.slice(of.first..of.first + HEADER_VECTORS);
            commands
                .update_buffer(header, &NO_POINTS[..])
                .explain("clearing points")?;
        }
        Ok(())
    }

    /// Copies them to where they are read from.
    pub(super) fn copy_back(&self, commands: &mut Commands) -> Result<(), DeviceError> {
        let count = self.of.last().map_or(0, PointsOf::end);
        self.buffers.copy_back(commands, count)
    }
}

/// A point as the kernel keeps it.
fn point([place, normal, ambient, direct, ray]: [[f32; 4]; 5]) -> LitPoint {
    let vector = |[x, y, z, _]: [f32; 4]| DVec3::new(x.into(), y.into(), z.into());
    let color = |[r, g, b, _]: [f32; 4]| [r, g, b];
    let pixel = place[3].to_bits();
    LitPoint {
        pixel: [pixel, pixel >> 14].map(|n| n & 0x3fff),
        at: vector(place),
        normal: vector(normal),
        ambient: color(ambient),
        direct: color(direct),
        through: normal[3],
        along: vector(ray).as_vec3(),
        weight: ray[3],
    }
}

/// Rays that are sent together to such a device.
pub(super) fn rays_together(kind: VulkanKind) -> usize {
    RAYS_TOGETHER[usize::from(kind != VulkanKind::Cpu)]
}

/// Some points of a job, by its number.
pub(super) type PartOfJob = (usize, LitPoints);

/// Points of a part, so that it has rays for a thread.
fn points_of_part(rays: &SecondaryRays) -> usize {
    (RAYS_OF_PART / rays.per_point_max().max(1)).max(1)
}

/// Points of a job, as many as have rays for a thread.
pub(super) enum Part<'a> {
    /// None of their rays went through any brick yet.
    New(&'a [LitPoint]),
    Begun(LitPoints),
}

impl<'a> Part<'a> {
    /// New points in parts.
    pub(super) fn all_of(
        points: &'a [LitPoint],
        rays: &SecondaryRays,
    ) -> impl Iterator<Item = Self> + use<'a> {
        points.chunks(points_of_part(rays)).map(Part::New)
    }

    /// Its rays, in number, at most.
    fn ray_count(&self, rays: &SecondaryRays) -> usize {
        match self {
            Part::New(points) => points.len() * rays.per_point_max().max(1),
            Part::Begun(points) => points.ray_count(),
        }
    }

    fn begun(self, rays: &SecondaryRays) -> LitPoints {
        match self {
            Part::New(points) => LitPoints::new(points.to_vec(), rays),
            Part::Begun(points) => points,
        }
    }
}

impl VulkanDevice {
    /// Sends the rays of points through those of the bricks on their way that are there. What is lit is added to its job, what lacks
    /// bricks is noted there.
    pub(super) fn light<'a>(
        &mut self,
        jobs: &mut [RenderedJob],
        parts: impl Iterator<Item = (usize, Part<'a>)>,
        rays: &Arc<SecondaryRays>,
        is_wanted: IsWanted<'_>,
    ) -> Result<(), DeviceError> {
        let (mut parts, mut following) = (parts, Vec::new());
        loop {
            if !is_wanted() {
                return Err(DeviceError::CalledOff);
            }
            let (begun, compiled) = (Instant::now(), self.compiled);
            let (mut together, mut count) = (Vec::new(), 0);
            // First those that reflected rays met, so that they are few at any time.
            while count < self.rays_together
                && let Some(part) = following.pop().or_else(|| parts.next())
            {
                count += part.1.ray_count(rays);
                together.push(part);
            }
            if together.is_empty() {
                return Ok(());
            }
            let begun_all = together.into_par_iter();
            let begun_all = begun_all.map(|(job, part)| (job, part.begun(rays)));
            let mut together: Vec<PartOfJob> = begun_all.collect();
            self.send(&mut together, rays, is_wanted)?;
            let per_pixel = self.points.per_pixel();
            let met = self.reflect(&mut together, rays, is_wanted)?;
            self.points.set_per_pixel(per_pixel);
            for ((job, part), met) in together.iter().zip(met) {
                let parts = part.following(&met, points_of_part(rays), rays);
                following.extend(parts.map(|part| (*job, Part::Begun(part))));
            }
            // To compile kernels is no job's time.
            let took = begun.elapsed().saturating_sub(self.compiled - compiled);
            let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            let light = |(_, part): &PartOfJob| {
                let is_lit = part.is_lit();
                is_lit.then(|| part.light_up(rays).collect::<Vec<_>>())
            };
            let lit: Vec<_> = together.par_iter().map(light).collect();
            let all: usize = together.iter().map(|(_, part)| part.ray_count()).sum();
            for ((job, part), lit) in together.into_iter().zip(lit) {
                let job = &mut jobs[job];
                job.elapsed_micros += micros * part.ray_count() as u64 / all.max(1) as u64;
                if let Some(colors) = lit {
                    let colors = colors.into_iter();
                    colors.for_each(|(pixel, color)| job.image.add(pixel, color));
                } else {
                    let unlit = job.unlit.get_or_insert_with(UnlitJob::none);
                    unlit.parts.push(part);
                }
            }
        }
    }

    /// Sends rays: first through the bricks that they begin in, as most that meet something do so there.
    fn send(
        &mut self,
        parts: &mut [PartOfJob],
        rays: &Arc<SecondaryRays>,
        is_wanted: IsWanted<'_>,
    ) -> Result<(), DeviceError> {
        let data_set = self.scene.as_ref().ok_or(DeviceError::NoScene)?.data_set;
        for is_first in [true, false] {
            let there = self.sets.get(&data_set);
            let is_there = |brick| there.is_some_and(|set| set.get(brick).is_some());
            let due = |(_, part): &mut PartOfJob| {
                let begin = is_first.then(|| part.begin_in(rays));
                let is_due = |b| begin.as_ref().is_none_or(|begin| begin.contains(&b));
                part.due(rays, is_there, is_due, ray_vectors)
            };
            let due: Vec<_> = parts.par_iter_mut().map(due).collect();
            // Of each brick the rays of all parts.
            let mut by_brick: BTreeMap<BrickIndex, Vec<RaysOfPart>> = BTreeMap::new();
            for (part, due) in due.into_iter().enumerate() {
                for (brick, rays) in due {
                    by_brick.entry(brick).or_default().push((part, rays));
                }
            }
            let through = self.go_through(&by_brick, is_wanted)?;
            for ((brick, of_parts), through) in by_brick.into_iter().zip(through) {
                let mut through = through.into_iter();
                for (part, rays) in of_parts {
                    let numbers = rays.into_iter().map(|(number, _)| number as usize);
                    let through = numbers.zip(&mut through);
                    parts[part].1.went(brick, through.collect::<Vec<_>>());
                }
            }
        }
        // Rays that have become dark lack nothing any more.
        let there = self.sets.get(&data_set);
        let is_there = |brick| there.is_some_and(|set| set.get(brick).is_some());
        let unlit = parts.par_iter_mut().filter(|(_, part)| !part.is_lit());
        unlit.for_each(|(_, part)| drop(part.due(rays, is_there, |_| false, |_| ())));
        Ok(())
    }

    /// What bricks let through of rays, 0 to 1, in their order.
    fn go_through(
        &mut self,
        by_brick: &BTreeMap<BrickIndex, Vec<RaysOfPart>>,
        is_wanted: IsWanted<'_>,
    ) -> Result<Vec<Vec<f32>>, DeviceError> {
        let mut through = Vec::with_capacity(by_brick.len());
        let (mut sent, mut vectors) = (Vec::new(), Vec::new());
        for (&brick, of) in by_brick {
            let count = of.iter().map(|(_, rays)| rays.len()).sum::<usize>();
            through.push(vec![1.0; count]);
            let (owned, visibility) = self.visibility_of(brick)?;
            if matches!(visibility, Visibility::Nothing) {
                continue;
            }
            let length = vectors.len() + count.next_multiple_of(ALIGNED_PIXELS);
            if length > RAYS_SUBMITTED {
                self.submit_rays(std::mem::take(&mut sent), &vectors, &mut through)?;
                vectors.clear();
                if !is_wanted() {
                    return Err(DeviceError::CalledOff);
                }
            }
            let rays = of.iter().flat_map(|(_, rays)| rays);
            let first = vectors.len();
            vectors.extend(rays.map(|(_, ray)| ray));
            // Those of each begin where devices let buffers begin.
            let length = vectors.len().next_multiple_of(ALIGNED_PIXELS);
            vectors.resize(length, [[0.0; 4]; RAY_VECTORS]);
            sent.push(SentRays {
                number: through.len() - 1,
                rays: first..first + count,
                brick,
                owned,
                visibility,
            });
        }
        self.submit_rays(sent, &vectors, &mut through)?;
        Ok(through)
    }

    /// Sends rays through bricks, and takes what comes through of those of each.
    fn submit_rays(
        &mut self,
        sent: Vec<SentRays>,
        vectors: &[RayVectors],
        through: &mut [Vec<f32>],
    ) -> Result<(), DeviceError> {
        if sent.is_empty() {
            return Ok(());
        }
        let all = vectors.len() as u64;
        let buffers = self.pictures.buffers(&self.gpu, all)?;
        let rays = self.ray_buffer(vectors.as_flattened())?;
        let mut dispatches = Vec::with_capacity(sent.len());
        for of in &sent {
            let [first, end] = [of.rays.start as u64, of.rays.end as u64];
            let vectors = RAY_VECTORS as u64;
            let writes = [
                WriteDescriptorSet::buffer(3, buffers.written.clone().slice(first..end)),
                WriteDescriptorSet::buffer(9, rays.clone().slice(first * vectors..end * vectors)),
            ];
            let row = row_of(of.rays.len());
            let seen = (of.brick, &of.owned, &of.visibility);
            let mut dispatch = self.dispatch_of(seen, &row, Purpose::GoThrough, writes)?;
            dispatch.groups = [row.width.div_ceil(GROUP_RAYS), 1];
            dispatches.push(dispatch);
        }
        self.gpu.submit(|commands| {
            self.uploads.record(commands)?;
            let mut dispatches = dispatches.iter();
            dispatches.try_for_each(|d| BandDispatch::record(commands, d))?;
            buffers.copy_back(commands, all)
        })?;
        self.uploads.were_carried_out();
        let opacities = buffers.read()?;
        for of in sent {
            through[of.number] = opacities[of.rays].iter().map(|p| 1.0 - p[3]).collect();
        }
        Ok(())
    }

    /// The buffer that rays are sent in, with these; it is kept.
    pub(super) fn ray_buffer(
        &mut self,
        vectors: &[[f32; 4]],
    ) -> Result<Subbuffer<[[f32; 4]]>, DeviceError> {
        let length = vectors.len().next_power_of_two() as u64;
        let kept = self.rays.take().filter(|rays| rays.len() >= length);
        let rays = match kept {
            Some(rays) => rays,
            None => (self.gpu).buffer(BufferUsage::STORAGE_BUFFER, Home::Upload, length)?,
        };
        let mut written = rays.write().explain("writing rays")?;
        written[..vectors.len()].copy_from_slice(vectors);
        drop(written);
        Ok(self.rays.insert(rays).clone())
    }
}

/// As many pixels as there are rays.
pub(super) fn row_of(rays: usize) -> PixelRect {
    PixelRect {
        x: 0,
        y: 0,
        width: u32::try_from(rays).unwrap_or(u32::MAX),
        height: 1,
    }
}

/// See [`RayVectors`].
#[expect(clippy::cast_possible_truncation, reason = "kernels work in f32")]
fn ray_vectors(ray: &SecondaryRay) -> RayVectors {
    let [x, y, z] = ray.start.as_vec3().to_array();
    let [dx, dy, dz] = ray.direction.as_vec3().to_array();
    let reach = ray.reach.min(REACH_MAX) as f32;
    [[x, y, z, reach], [dx, dy, dz, 0.0]]
}
