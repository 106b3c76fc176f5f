//! Surfaces before, between and behind the samples of packets: each ray meets them on its own.

use super::{
    field::Field,
    frame::Frame,
    ray::Ray,
    surface_hits::{LitPixel, SurfaceHit, SurfaceHits},
    voxel::StoredVoxel,
};
use crate::{modes::ModeStages, secondary::LitPoint};
use brickmesh_topology::PixelRect;

/// The rays of some pixels; none where there are no surfaces.
pub(super) struct PacketHits<'a, V> {
    rays: Vec<RayHits<'a, V>>,
    /// The first sample before which one of them meets a surface.
    due: f32,
    /// Points that are to be lit.
    pub(super) points: Vec<LitPoint>,
}

struct RayHits<'a, V> {
    /// Which of the partials is its.
    at: usize,
    pixel: [u32; 2],
    ray: Ray,
    hits: SurfaceHits<'a, V>,
    /// The next hit, and the first sample behind it.
    next: Option<(SurfaceHit, f32)>,
}

impl<'a, V: StoredVoxel> RayHits<'a, V> {
    fn go_on(&mut self) {
        let hit = self.hits.next_before(f64::INFINITY);
        self.next = hit.map(|hit| (hit, self.ray.exact.first_behind(hit.at())));
    }

    fn due(&self) -> f32 {
        self.next.map_or(f32::INFINITY, |(_, k)| k)
    }
}

impl<'a, V: StoredVoxel> PacketHits<'a, V> {
    /// Partials are in rows of so many.
    pub(super) fn new(
        frame: &'a Frame,
        field: &'a Field<'a>,
        pixels: &PixelRect,
        row_pixels: usize,
    ) -> Self {
        let of = |n: u32| {
            let (x, y) = (n % pixels.width, n / pixels.width);
            let at = y as usize * row_pixels + x as usize;
            let pixel = [pixels.x + x, pixels.y + y];
            let (ray, _) = field.ray(frame, pixel);
            let hits = SurfaceHits::new(frame, field, &ray);
            let next = None;
            let mut hits = RayHits {
                at,
                pixel,
                ray,
                hits,
                next,
            };
            hits.go_on();
            hits
        };
        let mut rays = Vec::new();
        if field.may_have_surfaces(frame) {
            rays.extend((0..pixels.width * pixels.height).map(of));
        }
        let mut hits = Self {
            rays,
            due: 0.0,
            points: Vec::new(),
        };
        hits.find_due();
        hits
    }

    fn find_due(&mut self) {
        self.due = self
            .rays
            .iter()
            .map(RayHits::due)
            .fold(f32::INFINITY, f32::min);
    }

    /// Whether a ray meets a surface before sample `k`.
    #[inline(always)]
    pub(super) fn is_due(&self, k: f32) -> bool {
        self.due <= k
    }

    /// Puts what rays meet before sample `k` into their partials.
    pub(super) fn pass<M: ModeStages>(
        &mut self,
        frame: &Frame,
        field: &Field<'_>,
        k: f32,
        partials: &mut [[f32; 4]],
    ) {
        for hits in &mut self.rays {
            let partial = &mut partials[hits.at];
            while let Some((hit, _)) = hits.next.filter(|(_, behind)| *behind <= k) {
                if M::is_done(partial, frame.opaque) {
                    hits.next = None;
                } else {
                    let points = &mut self.points;
                    let pixel = hits.pixel;
                    let lit = &mut LitPixel {
                        pixel,
                        weight: 1.0,
                        points,
                    };
                    hit.put::<V, M>((frame, field), &hits.ray, partial, lit);
                    hits.go_on();
                }
            }
        }
        self.find_due();
    }
}
