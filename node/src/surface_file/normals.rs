//! Normals at the corners of triangles: the file's, or the mean of the triangles around a corner.

use super::{Rows, ScratchError, SurfaceMesh};
use glam::DVec3;

/// Cosine of the angle between triangles beyond which there is an edge to be seen: 50°.
const CREASE: f64 = 0.643;
/// Triangles around a corner whose normals are mixed, at most: a hub of more is a fan that is as even as can be seen.
const AROUND_MAX: u32 = 256;
/// Memory of a vertex of which the triangles around it are looked at, and of each of those.
const VERTEX_BYTES: u64 = 3 * size_of::<u32>() as u64;
const NORMAL_BYTES: u64 = size_of::<DVec3>() as u64;

/// Normals at corners, by triangle; see the module.
#[derive(Debug)]
pub(super) struct CornerNormals {
    /// Where the file lacks some: unit vectors, or 0.
    means: Option<Rows<[[f32; 3]; 3]>>,
}

impl CornerNormals {
    pub(super) fn of(mesh: &mut SurfaceMesh) -> Result<Self, ScratchError> {
        let means = if lacks_some(mesh)? {
            Some(means(mesh)?)
        } else {
            None
        };
        Ok(Self { means })
    }

    /// Of a triangle, of whatever length.
    pub(super) fn get(
        &mut self,
        mesh: &mut SurfaceMesh,
        triangle: usize,
    ) -> Result<[DVec3; 3], ScratchError> {
        let mut found = [DVec3::ZERO; 3];
        if let Some(means) = &mut self.means {
            let of_f32 = |n: [f32; 3]| n.map(f64::from).into();
            found = means.get(triangle)?.map(of_f32);
        }
        if mesh.normals.len() > 0 {
            for (normal, corner) in found.iter_mut().zip(mesh.triangles.get(triangle)?) {
                let told = mesh.normals.get(corner as usize)?.into();
                if is_normal(told) {
                    *normal = told;
                }
            }
        }
        Ok(found)
    }
}

fn is_normal(n: DVec3) -> bool {
    n.is_finite() && n != DVec3::ZERO
}

/// Whether the file has no normal for some vertex.
fn lacks_some(mesh: &mut SurfaceMesh) -> Result<bool, ScratchError> {
    if mesh.normals.len() == 0 {
        return Ok(true);
    }
    for vertex in 0..mesh.normals.len() {
        if !is_normal(mesh.normals.get(vertex)?.into()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Of each corner, the mean of the triangles around it that are bent from its own by less than a crease: vertex by vertex, as many at once as
/// fit into memory.
fn means(mesh: &mut SurfaceMesh) -> Result<Rows<[[f32; 3]; 3]>, ScratchError> {
    let (mut means, mut faces) = (Rows::new(&mesh.spill), Rows::new(&mesh.spill));
    for triangle in 0..mesh.triangles.len() {
        means.push([[0.0; 3]; 3])?;
        faces.push(face_normal(mesh.corners(triangle)?).to_array())?;
    }
    let mut first = 0;
    while first < mesh.vertices.len() {
        let around = Around::of(mesh, &mut faces, first)?;
        means.update(|triangle, normals| {
            let corners = mesh.triangles.get(triangle)?;
            if !corners.iter().any(|c| around.has(*c)) {
                return Ok(false);
            }
            let own = faces.get(triangle)?.into();
            for (normal, corner) in normals.iter_mut().zip(corners) {
                if around.has(corner) {
                    let mean = around.mean(corner, own).normalize_or_zero();
                    *normal = mean.as_vec3().into();
                }
            }
            Ok::<bool, ScratchError>(true)
        })?;
        first = around.end();
    }
    Ok(means)
}

/// The normals of the triangles around some vertices.
struct Around {
    first: usize,
    /// Where those of each vertex begin, and the end of the last.
    starts: Vec<u32>,
    normals: Vec<DVec3>,
}

impl Around {
    /// Of vertices from a first one on: at least that, and as many as there is memory for.
    fn of(
        mesh: &mut SurfaceMesh,
        faces: &mut Rows<[f64; 3]>,
        first: usize,
    ) -> Result<Self, ScratchError> {
        let room = mesh.spill.table_bytes_max();
        let most = usize::try_from(room / 8 / VERTEX_BYTES).unwrap_or(usize::MAX);
        let count = (mesh.vertices.len() - first).min(most.max(1));
        let mut counts = vec![0_u32; count];
        for triangle in 0..mesh.triangles.len() {
            for corner in mesh.triangles.get(triangle)? {
                let at = (corner as usize).wrapping_sub(first);
                if let Some(count) = counts.get_mut(at) {
                    *count = count.saturating_add(1);
                }
            }
        }
        let most = u32::try_from(room / 8 * 7 / NORMAL_BYTES).unwrap_or(u32::MAX);
        let most = most.min(u32::MAX - AROUND_MAX);
        let mut starts = Vec::with_capacity(counts.len() + 1);
        starts.push(0_u32);
        let mut sum = 0;
        for count in counts {
            // A hub has none: its triangles keep their own.
            sum += if count > AROUND_MAX { 0 } else { count };
            if sum > most && starts.len() > 1 {
                break;
            }
            starts.push(sum);
        }
        let mut around = Self {
            first,
            normals: vec![DVec3::ZERO; starts[starts.len() - 1] as usize],
            starts,
        };
        around.fill(mesh, faces)?;
        Ok(around)
    }

    fn fill(
        &mut self,
        mesh: &mut SurfaceMesh,
        faces: &mut Rows<[f64; 3]>,
    ) -> Result<(), ScratchError> {
        let mut next = self.starts.clone();
        for triangle in 0..mesh.triangles.len() {
            let corners = mesh.triangles.get(triangle)?;
            let of_vertices = corners.map(|c| self.at(c).filter(|&at| !self.around(at).is_empty()));
            if of_vertices.iter().all(Option::is_none) {
                continue;
            }
            let normal = faces.get(triangle)?.into();
            for at in of_vertices.into_iter().flatten() {
                self.normals[next[at] as usize] = normal;
                next[at] += 1;
            }
        }
        Ok(())
    }

    /// The first vertex behind these.
    fn end(&self) -> usize {
        self.first + self.starts.len() - 1
    }

    fn at(&self, vertex: u32) -> Option<usize> {
        let at = (vertex as usize).checked_sub(self.first)?;
        (at + 1 < self.starts.len()).then_some(at)
    }

    fn has(&self, vertex: u32) -> bool {
        self.at(vertex).is_some()
    }

    fn around(&self, at: usize) -> &[DVec3] {
        &self.normals[self.starts[at] as usize..self.starts[at + 1] as usize]
    }

    /// The mean around one of these vertices for a triangle with this normal; all have the lengths of twice their areas.
    fn mean(&self, vertex: u32, own: DVec3) -> DVec3 {
        let all = self.at(vertex).map_or(&[][..], |at| self.around(at));
        if all.is_empty() {
            return own;
        }
        let is_near = |n: &&DVec3| n.dot(own) >= CREASE * n.length() * own.length();
        all.iter().filter(is_near).sum()
    }
}

/// Of the length of twice its area.
fn face_normal([a, b, c]: [DVec3; 3]) -> DVec3 {
    (b - a).cross(c - a)
}
