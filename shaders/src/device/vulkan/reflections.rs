//! Reflected rays on this device: the host says which goes through which brick next, the device what they have seen then, and which
//! surfaces they met. Mirrors: `wgsl/secondary.wgsl`.

use super::{
    BandDispatch, VulkanDevice,
    bands::{ALIGNED_PIXELS, Band},
    gpu::Commands,
    kernels::Purpose,
    lighting::{GROUP_RAYS, PartOfJob, RAYS_SUBMITTED, row_of},
    resident::Visibility,
};
use crate::{
    device::{DeviceError, IsWanted},
    secondary::{DueReflection, LitPoint, SecondaryRays},
};
use brickmesh_topology::{BrickIndex, VoxelBox};
use rayon::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use vulkano::descriptor_set::WriteDescriptorSet;

/// Vectors of a reflected ray.
pub(super) const REFLECTED_VECTORS: usize = 4;

/// A reflected ray, with the number of its part.
type OfPart = (usize, DueReflection);

/// Reflected rays that go through a brick.
struct ThroughBrick {
    brick: BrickIndex,
    owned: VoxelBox,
    visibility: Visibility,
    rays: Vec<OfPart>,
}

/// Of each brick: what its rays have seen, and the points that they met, each with the number of its ray in the place of the pixel.
type Seen = Vec<(Vec<[f32; 4]>, Vec<LitPoint>)>;

impl VulkanDevice {
    /// Sends reflected rays through those of the bricks on their way that are there, each in depth order; the points that those of each part
    /// meet.
    pub(super) fn reflect(
        &mut self,
        parts: &mut [PartOfJob],
        rays: &SecondaryRays,
        is_wanted: IsWanted<'_>,
    ) -> Result<Vec<Vec<LitPoint>>, DeviceError> {
        let data_set = self.scene.as_ref().ok_or(DeviceError::NoScene)?.data_set;
        let mut met = vec![Vec::new(); parts.len()];
        loop {
            let there = self.sets.get(&data_set);
            let is_there = |brick| there.is_some_and(|set| set.get(brick).is_some());
            let due = |(_, part): &mut PartOfJob| part.due_reflections(rays, is_there);
            let due: Vec<_> = parts.par_iter_mut().map(due).collect();
            let mut by_brick: BTreeMap<BrickIndex, Vec<OfPart>> = BTreeMap::new();
            for (part, due) in due.into_iter().enumerate() {
                for (brick, rays) in due {
                    let of_brick = by_brick.entry(brick).or_default();
                    of_brick.extend(rays.into_iter().map(|ray| (part, ray)));
                }
            }
            if by_brick.is_empty() {
                return Ok(met);
            }
            let mut sent = VecDeque::new();
            for (brick, of_brick) in by_brick {
                let (owned, visibility) = self.visibility_of(brick)?;
                if matches!(visibility, Visibility::Nothing) {
                    for (part, ray) in of_brick {
                        parts[part].1.was_reflected(ray.number, ray.seen, rays);
                    }
                } else {
                    sent.push_back(ThroughBrick {
                        brick,
                        owned,
                        visibility,
                        rays: of_brick,
                    });
                }
            }
            while !sent.is_empty() {
                if !is_wanted() {
                    return Err(DeviceError::CalledOff);
                }
                let together = self.take_together(&mut sent);
                let seen = match self.submit_reflected(&together) {
                    Err(DeviceError::OutOfMemory { .. }) if self.go_on_with_less() => None,
                    seen => seen?,
                };
                let Some(seen) = seen else {
                    // There was no room for so many points; fewer rays go together now.
                    together.into_iter().rev().for_each(|t| sent.push_front(t));
                    continue;
                };
                for (through, (seen, points)) in together.iter().zip(seen) {
                    for (&(part, ray), seen) in through.rays.iter().zip(seen) {
                        parts[part].1.was_reflected(ray.number, seen, rays);
                    }
                    for mut point in points {
                        let (part, ray) = through.rays[ray_of(&point)];
                        point.pixel = ray.pixel;
                        met[part].push(point);
                    }
                }
            }
        }
    }

    /// Takes rays for a submission, one at least.
    fn take_together(&self, sent: &mut VecDeque<ThroughBrick>) -> Vec<ThroughBrick> {
        let most = usize::try_from(self.points.pixels_max()).unwrap_or(usize::MAX);
        let mut room = most.clamp(1, RAYS_SUBMITTED);
        let mut together = Vec::new();
        while room > 0
            && let Some(mut first) = sent.pop_front()
        {
            let count = first.rays.len().min(room);
            let rest = first.rays.split_off(count);
            if !rest.is_empty() {
                sent.push_front(ThroughBrick {
                    visibility: first.visibility.clone(),
                    rays: rest,
                    ..first
                });
            }
            room -= count.next_multiple_of(ALIGNED_PIXELS).min(room);
            together.push(first);
        }
        together
    }

    /// Sends rays through bricks; `None`: there was no room for all points that they met.
    fn submit_reflected(&mut self, sent: &[ThroughBrick]) -> Result<Option<Seen>, DeviceError> {
        let (mut vectors, mut bands) = (Vec::new(), Vec::new());
        for (of, through) in sent.iter().enumerate() {
            let first = vectors.len() as u64;
            let rect = row_of(through.rays.len());
            bands.push(Band { of, rect, first });
            let rays = through.rays.par_iter();
            vectors.par_extend(rays.map(|(_, ray)| ray_vectors(ray)));
            // Those of each begin where devices let buffers begin.
            let length = vectors.len().next_multiple_of(ALIGNED_PIXELS);
            vectors.resize(length, [[0.0; 4]; REFLECTED_VECTORS]);
        }
        let all = vectors.len() as u64;
        let buffers = self.pictures.buffers(&self.gpu, all)?;
        let points = self.points.of(&self.gpu, &bands)?;
        let rays = self.ray_buffer(vectors.as_flattened())?;
        let mut dispatches = Vec::with_capacity(sent.len());
        for (through, band) in sent.iter().zip(&bands) {
            let [first, end] = [band.first, band.first + through.rays.len() as u64];
            let of_rays = [first, end].map(|n| n * REFLECTED_VECTORS as u64);
            let (points, points_max) = points.binding(band.of);
            let writes = [
                WriteDescriptorSet::buffer(3, buffers.written.clone().slice(first..end)),
                points,
                WriteDescriptorSet::buffer(9, rays.clone().slice(of_rays[0]..of_rays[1])),
            ];
            let seen = (through.brick, &through.owned, &through.visibility);
            let mut dispatch = self.dispatch_of(seen, &band.rect, Purpose::Reflected, writes)?;
            dispatch.groups = [band.rect.width.div_ceil(GROUP_RAYS), 1];
            dispatch.params.points_max = points_max;
            dispatches.push(dispatch);
        }
        self.gpu.submit(|commands: &mut Commands| {
            self.uploads.record(commands)?;
            points.clear(commands)?;
            let mut dispatches = dispatches.iter();
            dispatches.try_for_each(|d| BandDispatch::record(commands, d))?;
            buffers.copy_back(commands, all)?;
            points.copy_back(commands)
        })?;
        self.uploads.were_carried_out();
        let Some(points) = self.points.take(&points)? else {
            return Ok(None);
        };
        let pixels = buffers.read()?;
        let of_band = |(band, points): (&Band, Vec<LitPoint>)| {
            let first = usize::try_from(band.first).unwrap_or(usize::MAX);
            (pixels[first..][..band.rect.pixel_count()].to_vec(), points)
        };
        Ok(Some(bands.iter().zip(points).map(of_band).collect()))
    }
}

/// The number of the ray that met a point, which the kernel keeps in the place of the pixel.
fn ray_of(point: &LitPoint) -> usize {
    let [low, high] = point.pixel;
    (high << 14 | low) as usize
}

/// A ray as the kernel reads it.
fn ray_vectors(due: &DueReflection) -> [[f32; 4]; REFLECTED_VECTORS] {
    let [x, y, z] = due.ray.start.as_vec3().to_array();
    let [dx, dy, dz] = due.ray.direction.as_vec3().to_array();
    let [wx, wy, wz] = due.ray.toward.as_vec3().to_array();
    [
        [x, y, z, due.weight],
        [dx, dy, dz, 0.0],
        [wx, wy, wz, 0.0],
        due.seen,
    ]
}
