//! What a ray meets of surfaces of both kinds, isosurfaces and triangles, in a job.
//!
//! Space: grid; distances along rays in world units.

use super::{
    field::Field,
    frame::Frame,
    ray::Ray,
    scalar::surface_color,
    surfaces::{Hit, Walk},
    voxel::StoredVoxel,
};
use crate::triangle_tree::{TriangleHit, TriangleRay};
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

    /// Premultiplied colour of the surface there, lit.
    pub(super) fn color<V: StoredVoxel>(
        &self,
        frame: &Frame,
        field: &Field<'_>,
        ray: &Ray,
    ) -> [f32; 4] {
        match self {
            Self::Isosurface(hit) => surface_color::<V>(frame, field, ray, *hit),
            Self::Triangle(hit) => {
                let material = frame.materials.get(hit.material as usize);
                let color = material.copied().unwrap_or_default();
                let Some(shading) = &frame.shading else {
                    return color;
                };
                shading.lit_surface(color, &shading.facing(hit.normal, ray.direction))
            }
        }
    }
}
