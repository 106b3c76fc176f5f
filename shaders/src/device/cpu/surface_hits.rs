//! What a ray meets of surfaces of both kinds, isosurfaces and triangles, in a job.
//!
//! Space: grid; distances along rays in world units.

use super::{
    field::Field,
    frame::{Frame, SURFACE_FLOOR, Shading, Slope},
    ray::Ray,
    scalar::difference,
    surfaces::{Hit, Walk},
    voxel::StoredVoxel,
};
use crate::{
    constants::DARK,
    modes::ModeStages,
    secondary::LitPoint,
    triangle_tree::{TriangleHit, TriangleRay},
};
use glam::DVec3;

/// The hits of a ray, near ones first.
pub(super) struct SurfaceHits<'a, V> {
    /// `None`: there are no isosurfaces.
    walk: Option<Walk<'a, V>>,
    triangles: std::vec::IntoIter<TriangleHit>,
}

/// Where a ray meets a surface.
#[derive(Clone, Copy, Debug)]
pub(super) enum SurfaceHit {
    Isosurface(Hit),
    Triangle(TriangleHit),
}

impl Field<'_> {
    /// Whether a ray may meet a surface there.
    pub(super) fn may_have_surfaces(&self, frame: &Frame) -> bool {
        self.triangles.is_some() || self.may_have_isosurfaces(frame)
    }

    fn may_have_isosurfaces(&self, frame: &Frame) -> bool {
        let [lo, hi] = self.cells;
        !frame.surfaces.is_empty() && (0..3).all(|a| lo[a] < hi[a])
    }
}

impl<'a, V: StoredVoxel> SurfaceHits<'a, V> {
    #[inline(always)]
    pub(super) fn new(frame: &'a Frame, field: &'a Field<'a>, ray: &Ray) -> Self {
        let way = ray.exact.way(frame.clip_bounds, &frame.clip_planes);
        let mut triangles = Vec::new();
        if let Some(tree) = field.triangles {
            let ray = TriangleRay {
                eye: DVec3::from_array(ray.exact.eye),
                direction: DVec3::from_array(ray.exact.direction),
                way,
                points: field.points,
            };
            let color = |material: u32| frame.materials.get(material as usize);
            let is_opaque = |material| color(material).is_some_and(|c| c[3] >= 1.0);
            tree.hits(&ray, &is_opaque, &mut triangles);
        }
        Self {
            walk: (field.may_have_isosurfaces(frame))
                .then(|| Walk::new(field, &frame.surfaces, &ray.exact, way)),
            triangles: triangles.into_iter(),
        }
    }

    /// The next hit before a distance; one is told once.
    pub(super) fn next_before(&mut self, until: f64) -> Option<SurfaceHit> {
        let ahead = self.triangles.as_slice().first().map(|hit| hit.at);
        let ahead = ahead.filter(|at| *at < until);
        let before = ahead.unwrap_or(until);
        if let Some(hit) = self.walk.as_mut().and_then(|w| w.next_before(before)) {
            return Some(SurfaceHit::Isosurface(hit));
        }
        ahead?;
        self.triangles.next().map(SurfaceHit::Triangle)
    }
}

impl SurfaceHit {
    /// World units from where the ray begins.
    pub(super) fn at(&self) -> f64 {
        match self {
            Self::Isosurface(hit) => hit.at,
            Self::Triangle(hit) => hit.at,
        }
    }

    /// Puts the surface behind what a ray has met before it. Where rays go on from it, its light comes later: what it is to light is
    /// noted as a point of `lit`.
    pub(super) fn put<V: StoredVoxel, M: ModeStages>(
        &self,
        (frame, field): (&Frame, &Field<'_>),
        ray: &Ray,
        partial: &mut [f32; 4],
        lit: &mut LitPixel<'_>,
    ) {
        let color = self.unlit(frame);
        let seen = 1.0 - partial[3];
        if frame.sends_rays && lit.weight * seen * color[3] > DARK {
            let seen = lit.weight * seen;
            lit.points
                .push(self.point::<V>(frame, field, ray, (lit.pixel, seen)));
            M::combine(partial, [0.0, 0.0, 0.0, color[3]]);
        } else if let Some(shading) = &frame.shading {
            let slope = self.slope(shading, self.normal::<V>(field, ray), ray);
            M::combine(partial, shading.lit_surface(color, &slope));
        } else {
            M::combine(partial, color);
        }
    }

    /// Premultiplied colour of the surface.
    fn unlit(&self, frame: &Frame) -> [f32; 4] {
        match self {
            Self::Isosurface(hit) => frame.surfaces[hit.surface].color,
            Self::Triangle(hit) => {
                let material = frame.materials.get(hit.material as usize);
                material.copied().unwrap_or_default()
            }
        }
    }

    /// Where it is.
    fn place(&self, ray: &Ray) -> [f64; 3] {
        std::array::from_fn(|a| self.at() * ray.exact.direction[a] + ray.exact.eye[a])
    }

    /// A covector of the grid that stands on it, on whichever side.
    #[expect(clippy::cast_possible_truncation, reason = "kernels work in f32")]
    fn normal<V: StoredVoxel>(&self, field: &Field<'_>, ray: &Ray) -> [f32; 3] {
        match self {
            Self::Isosurface(_) => difference::<V>(field, self.place(ray).map(|p| p as f32)),
            Self::Triangle(hit) => hit.normal,
        }
    }

    fn slope(&self, shading: &Shading, normal: [f32; 3], ray: &Ray) -> Slope {
        match self {
            Self::Isosurface(_) => shading.slope(normal, ray.direction, SURFACE_FLOOR),
            Self::Triangle(_) => shading.facing(normal, ray.direction),
        }
    }

    /// The point of a pixel to be lit; `seen`: what of the pixel a ray has left there.
    fn point<V: StoredVoxel>(
        &self,
        frame: &Frame,
        field: &Field<'_>,
        ray: &Ray,
        (pixel, seen): ([u32; 2], f32),
    ) -> LitPoint {
        let (color, normal) = (self.unlit(frame), self.normal::<V>(field, ray));
        let [r, g, b, a] = color;
        let [ambient, direct] = match &frame.shading {
            Some(shading) => shading.light_parts(color, &self.slope(shading, normal, ray)),
            None => [[r, g, b], [0.0; 3]],
        };
        let grid_from_world = frame.volume.grid_from_world().matrix3;
        let covector = DVec3::from_array(normal.map(f64::from));
        let direction = DVec3::from_array(ray.exact.direction);
        let to_viewer = (grid_from_world.inverse() * -direction).normalize();
        let normal = (grid_from_world.transpose() * covector).try_normalize();
        let normal = normal.unwrap_or(to_viewer);
        LitPoint {
            pixel,
            at: DVec3::from_array(self.place(ray)),
            normal: if normal.dot(to_viewer) < 0.0 {
                -normal
            } else {
                normal
            },
            ambient: ambient.map(|c| c * seen),
            direct: direct.map(|c| c * seen),
            through: 1.0 - a,
            along: -to_viewer.as_vec3(),
            weight: seen * a,
        }
    }
}

/// Where the points of a pixel go that are to be lit.
pub(super) struct LitPixel<'a> {
    pub(super) pixel: [u32; 2],
    /// What of it the ray is, 0 to 1.
    pub(super) weight: f32,
    pub(super) points: &'a mut Vec<LitPoint>,
}
