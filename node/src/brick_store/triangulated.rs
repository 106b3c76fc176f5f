//! A data set with triangles behind the voxels of its bricks: those of surface files, put into the bricks of a volume, or into
//! those of a volume without data where there is none.

use super::{
    BRICK_BYTES_MAX, BrickStoreError, OnProgress,
    bricked_triangles::{BrickedTriangles, too_many},
};
use crate::surface_file::{Spill, SurfaceMesh};
use brickmesh_actors::data_set::{BrickSource, SourceError};
use brickmesh_shaders::triangle_tree::by_leaves;
use brickmesh_topology::{
    BrickIndex, Digest, Manifest, VolumeDescription, VoxelType,
    data::{
        manifest::ManifestParts,
        subject::PointGathering,
        triangles::{
            BRICK_TRIANGLES_MAX, BrickTriangles, CORNER_MAX, MATERIALS_MAX, Material, PackedNormal,
            Triangle, TriangleOrder,
        },
    },
};
use bytes::Bytes;
use glam::DVec3;
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// Bytes of what a manifest says of bricks, at most: it travels as one message, with some more.
const PAGE_BYTES_MAX: usize = 120 << 20;
/// Triangles of a brick of a mesh that several peers share, and of one that a peer has alone, about.
const TRIANGLES_SHARED: usize = 1 << 11;
const TRIANGLES_ALONE: usize = 1 << 16;
/// Triangles between two looks whether to go on.
const TOLD_EVERY: u64 = 1 << 10;
/// Smallest edge of the bricks of a volume without data, voxels: a cell of the manifest for each.
const EDGE_MIN: u32 = 8;
/// Bricks along its longest axis, at most, and voxels, at least.
const BRICKS_ALONG_MAX: u32 = 48;
const VOXELS_ALONG_MIN: u32 = 64;

/// A surface that is to be seen.
#[derive(Debug)]
pub(crate) struct Surface {
    /// Its triangles.
    pub(crate) mesh: SurfaceMesh,
    /// What they look like: one for each of the mesh's looks.
    pub(crate) materials: Vec<Material>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Triangulated {
    source: Arc<dyn BrickSource>,
    manifest: Arc<Manifest>,
    triangles: BrickedTriangles,
}

impl Triangulated {
    /// The bricks of a source, with further triangles; those that do not fit into memory are in a scratch file. Reads the bricks that get
    /// some, and all that have some in no order, once; progress is in triangles.
    ///
    /// # Errors
    /// Where a brick cannot be read, or no triangle is in the volume.
    pub(crate) fn new(
        source: Arc<dyn BrickSource>,
        mut surfaces: Vec<Surface>,
        spill: &Spill,
        progress: OnProgress<'_>,
    ) -> Result<Self, BrickStoreError> {
        let manifest = source.manifest();
        let new = surfaces.iter().flat_map(|s| s.materials.iter());
        let materials: Vec<Material> = manifest.materials().iter().chain(new).cloned().collect();
        if materials.len() > MATERIALS_MAX {
            return Err(BrickStoreError::Surfaces {
                why: format!(
                    "they are of {} colours, of {MATERIALS_MAX} at most; give a file of many one for all: FILE,R,G,B",
                    materials.len()
                ),
            });
        }
        let triangles = binned(manifest, &mut surfaces, spill, progress)?;
        // Their memory is free again.
        drop(surfaces);
        let mut all = triangles.said();
        if all.is_empty() {
            return Err(BrickStoreError::SurfacesOutside);
        }
        let order = manifest.triangle_order();
        for brick in manifest.grid().bricks() {
            if let Some(before) = manifest.brick_triangles(brick)
                && (order == TriangleOrder::AsTheyCame || all.contains_key(&brick))
            {
                let new = all.entry(brick).or_insert(BrickTriangles::NONE);
                *new = new.with(&before);
            }
        }
        let mut said = BTreeMap::new();
        for (brick, what) in all {
            spill.check()?;
            let voxel_bytes = manifest.voxel_bytes(brick);
            let bytes = voxel_bytes.saturating_add(what.bytes());
            if what.count > BRICK_TRIANGLES_MAX || bytes > BRICK_BYTES_MAX {
                return Err(too_many(brick, what.count));
            }
            let new = triangles.of(brick)?;
            let whole = source.read(brick)?;
            let whole = with_triangles((whole, voxel_bytes), order, new.as_deref());
            said.insert(brick, (Digest::of(&whole), what));
        }
        let manifest = manifest.with_triangles(materials, &said);
        let manifest =
            Arc::new(manifest.map_err(|e| BrickStoreError::Surfaces { why: e.to_string() })?);
        if manifest.pages().len() > PAGE_BYTES_MAX {
            return Err(BrickStoreError::Surfaces {
                why: "they are in too many bricks for a manifest, which is one message; take larger bricks".to_owned(),
            });
        }
        Ok(Self {
            source,
            manifest,
            triangles,
        })
    }

    /// The triangles alone, in larger bricks where one peer has all. They are in the same places of the same volume then, so that
    /// pictures are the same.
    ///
    /// # Errors
    /// Where they have no extent.
    pub(crate) fn alone(
        mut surfaces: Vec<Surface>,
        (name, is_of_one): (&Path, bool),
        spill: &Spill,
        progress: OnProgress<'_>,
    ) -> Result<Self, BrickStoreError> {
        let source = NoVoxels::around(&mut surfaces, name, is_of_one)?;
        Self::new(Arc::new(source), surfaces, spill, progress)
    }

    /// Triangles that are outside of the volume, and not seen.
    pub(crate) fn outside(&self) -> u64 {
        self.triangles.outside()
    }
}

impl BrickSource for Triangulated {
    fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    fn read(&self, brick: BrickIndex) -> Result<Bytes, SourceError> {
        let voxels = self.source.read(brick)?;
        let triangles = self.triangles.of(brick);
        let triangles = triangles.map_err(|error| SourceError {
            what: format!("brick {}: its triangles cannot be read: {error}", brick.0),
        })?;
        let voxel_bytes = self.manifest.voxel_bytes(brick);
        let order = self.source.manifest().triangle_order();
        let new = triangles.as_deref();
        Ok(with_triangles((voxels, voxel_bytes), order, new))
    }

    fn release(&self, brick: BrickIndex) {
        self.source.release(brick);
    }
}

/// The triangles in the bricks that they meet.
fn binned(
    manifest: &Manifest,
    surfaces: &mut [Surface],
    spill: &Spill,
    progress: OnProgress<'_>,
) -> Result<BrickedTriangles, BrickStoreError> {
    let volume = manifest.volume();
    let grid_from_world = volume.grid_from_world();
    // Covectors of the grid: what a way of the world has along a normal, its way in the grid has.
    let normals_to_grid = volume.world_from_grid().matrix3.transpose();
    let all: usize = surfaces.iter().map(|s| s.mesh.triangle_count()).sum();
    let (mut done, all) = (0_u64, all as u64);
    // Behind those that there are.
    let mut first = manifest.materials().len();
    let mut triangles = BrickedTriangles::new(*manifest.grid(), volume.dims, spill);
    for Surface { mesh, materials } in surfaces {
        mesh.each_triangle(|corners, normals, look| {
            let triangle = Triangle {
                corners: corners.map(|p| grid_from_world.transform_point3(p).as_vec3()),
                normals: normals.map(|n| {
                    let n = (normals_to_grid * n.normalize_or_zero()).normalize_or_zero();
                    PackedNormal::new(n.as_vec3())
                }),
                material: u32::try_from(first + look).unwrap_or(u32::MAX),
            };
            if !triangle.is_in_reach() {
                return Err(BrickStoreError::Surfaces {
                    why: format!(
                        "one of {} has a corner at {:?}, farther than {CORNER_MAX} voxels from the volume",
                        materials[look].name, corners
                    ),
                });
            }
            triangles.add(&triangle)?;
            done += 1;
            if done % TOLD_EVERY == 0 && !progress(done, all) {
                return Err(BrickStoreError::Stopped);
            }
            Ok(())
        })?;
        first += materials.len();
    }
    Ok(triangles)
}

/// A brick, whose voxels take so many bytes, with further triangles; all of them are in order afterwards. `order`: that of those that it has.
fn with_triangles(
    (brick, voxel_bytes): (Bytes, u64),
    order: TriangleOrder,
    new: Option<&[u8]>,
) -> Bytes {
    let voxel_bytes = usize::try_from(voxel_bytes).unwrap_or(usize::MAX);
    let (voxels, before) = brick.split_at(voxel_bytes.min(brick.len()));
    let all = match new {
        Some(new) if before.is_empty() => by_leaves(new),
        Some(new) => by_leaves(&[before, new].concat()),
        None if before.is_empty() || order == TriangleOrder::ByLeaves => return brick,
        None => by_leaves(before),
    };
    [voxels, &all].concat().into()
}

/// A volume in which every voxel is no data.
#[derive(Debug)]
struct NoVoxels(Arc<Manifest>);

impl NoVoxels {
    /// Around some surfaces, with a voxel to spare on each side.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "some thousand voxels, and counts of triangles"
    )]
    fn around(
        surfaces: &mut [Surface],
        name: &Path,
        is_of_one: bool,
    ) -> Result<Self, BrickStoreError> {
        let bounds = surfaces.iter().map(|s| s.mesh.bounds());
        let [low, high] = bounds
            .reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])])
            .unwrap_or_default();
        let extent = high - low;
        let longest = extent.max_element();
        let count: usize = surfaces.iter().map(|s| s.mesh.triangle_count()).sum();
        // A surface meets some two of three bricks on each of two axes.
        let along = |per_brick: usize| {
            let along = (count as f64 / (2 * per_brick) as f64).sqrt().ceil() as u32;
            along.clamp(1, BRICKS_ALONG_MAX)
        };
        let shared = along(TRIANGLES_SHARED);
        let edge = VOXELS_ALONG_MIN.div_ceil(shared).max(EDGE_MIN);
        let voxels = edge * shared;
        let edge = if is_of_one {
            edge * (shared / along(TRIANGLES_ALONE)).max(1)
        } else {
            edge
        };
        let spacing = longest / f64::from(voxels - 4);
        let far = low.abs().max(high.abs()).max_element();
        if spacing <= far * f64::EPSILON * 1e3 {
            return Err(BrickStoreError::Surfaces {
                why: format!(
                    "its corners are {longest} apart at most, {far} from the origin: no extent can be told"
                ),
            });
        }
        let dims = extent.to_array().map(|e| (e / spacing).ceil() as u32 + 3);
        let volume = VolumeDescription {
            spacing: [spacing; 3],
            fill: Some(0.0),
            ..VolumeDescription::new(dims, VoxelType::U8)
        };
        // Around the same place, whatever the bricks: cameras turn around that.
        let half = DVec3::from_array(dims.map(|n| f64::from(n - 1))) * (0.5 * spacing);
        let volume = VolumeDescription {
            origin: ((low + high) * 0.5 - half).to_array(),
            ..volume
        };
        let grid_from_world = volume.grid_from_world();
        let mut points = PointGathering::new(volume.spacing);
        for surface in surfaces {
            let add = |p| points.add(grid_from_world.transform_point3(p));
            surface.mesh.each_corner_point(add)?;
        }
        let subject = points.subject();
        let name = name.file_name().unwrap_or_default().to_string_lossy();
        let bad = |why: String| BrickStoreError::Surfaces { why };
        let no_voxels = |b: &brickmesh_topology::VoxelBox| vec![0; b.voxel_count() as usize];
        let parts = ManifestParts::cut(volume, edge, &name, no_voxels);
        let mut parts = parts.map_err(|e| bad(e.to_string()))?;
        // Of each cell it would say that there is nothing.
        parts.bricks.iter_mut().for_each(|b| b.cells = None);
        let manifest = Manifest::try_from(parts);
        let manifest = manifest.map_err(|e| bad(e.to_string()))?;
        Ok(Self(Arc::new(manifest.with_subject(subject))))
    }
}

impl BrickSource for NoVoxels {
    fn manifest(&self) -> &Arc<Manifest> {
        &self.0
    }

    fn read(&self, brick: BrickIndex) -> Result<Bytes, SourceError> {
        let bytes = usize::try_from(self.0.voxel_bytes(brick)).unwrap_or(usize::MAX);
        Ok(vec![0; bytes].into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{args::SurfaceArg, brick_store, surface_file, volume_file};
    use brickmesh_topology::data::triangles;
    use glam::Vec3;
    use std::{fs, path::PathBuf};

    /// A tetrahedron around a place.
    fn surface(folder: &Path, [x, y, z]: [f64; 3], size: f64) -> PathBuf {
        let path = folder.join("tetrahedron.obj");
        let corner = |dx: f64, dy: f64, dz: f64| {
            format!("v {} {} {}\n", x + dx * size, y + dy * size, z + dz * size)
        };
        let corners = [
            corner(1., 1., 1.),
            corner(1., -1., -1.),
            corner(-1., 1., -1.),
            corner(-1., -1., 1.),
        ];
        fs::write(
            &path,
            corners.concat() + "f 1 2 3\nf 1 4 2\nf 1 3 4\nf 2 4 3\n",
        )
        .unwrap();
        path
    }

    fn spill(bytes_max: u64) -> Spill {
        Spill::in_temp(bytes_max, Arc::new(|| true))
    }

    fn alone(path: &Path, is_of_one: bool) -> Result<Triangulated, BrickStoreError> {
        let how = (Path::new("t.obj"), is_of_one);
        let spill = spill(u64::MAX);
        Triangulated::alone(read(path), how, &spill, &mut |_, _| true)
    }

    fn within(
        source: Arc<dyn BrickSource>,
        path: &Path,
        bytes_max: u64,
    ) -> Result<Triangulated, BrickStoreError> {
        let spill = spill(bytes_max);
        Triangulated::new(source, read(path), &spill, &mut |_, _| true)
    }

    fn read(path: &Path) -> Vec<Surface> {
        let mesh = surface_file::read(path, &spill(1 << 30), &mut |_, _| true).unwrap();
        let materials = vec![SurfaceArg::new(path.to_owned()).material(0, None)];
        vec![Surface { mesh, materials }]
    }

    #[test]
    fn alone_they_are_in_the_middle_of_a_volume_without_data() {
        let folder = tempfile::tempdir().unwrap();
        for (at, size) in [([5.0, -3.0, 1e6], 2.0), ([0.0; 3], 1e-20), ([0.0; 3], 1e20)] {
            let path = surface(folder.path(), at, size);
            for is_of_one in [false, true] {
                let found = alone(&path, is_of_one).unwrap();
                let (manifest, volume) = (found.manifest(), found.manifest().volume());
                assert_eq!((found.outside(), manifest.range()), (0, None));
                let off = volume.center_in_world() - DVec3::from_array(at);
                assert!(off.length() < size * 1e-6, "{off}");
                for brick in manifest.grid().bricks() {
                    let bytes = found.read(brick).unwrap();
                    assert_eq!(Digest::of(&bytes), manifest.brick_digest(brick));
                    assert_eq!(bytes.len() as u64, manifest.brick_bytes(brick));
                    let voxels = usize::try_from(manifest.voxel_bytes(brick)).unwrap();
                    triangles::check(&bytes[voxels..], 1, TriangleOrder::ByLeaves).unwrap();
                    let triangles = triangles::read(&bytes[voxels..]);
                    let said = manifest.brick_triangles(brick).map_or(0, |t| t.count);
                    assert_eq!(triangles.len(), said as usize);
                }
            }
        }
        let path = surface(folder.path(), [1e9; 3], 1e-6);
        let flat = alone(&path, true).unwrap_err().to_string();
        assert!(flat.contains("no extent can be told"), "{flat}");
    }

    /// Bricks as folders of version 9 have them.
    #[derive(Debug)]
    struct AsTheyCame(Arc<Manifest>, Vec<Bytes>);

    impl AsTheyCame {
        /// Those of another source, each brick's triangles from the last to the first.
        fn of(source: &dyn BrickSource) -> Self {
            let (mut said, mut bricks) = (BTreeMap::new(), Vec::new());
            let manifest = source.manifest();
            for brick in manifest.grid().bricks() {
                let mut bytes = source.read(brick).unwrap().to_vec();
                let voxels = usize::try_from(manifest.voxel_bytes(brick)).unwrap();
                let (triangles, _) = bytes[voxels..].as_chunks_mut();
                triangles.reverse();
                triangles.iter_mut().for_each(|t| triangles::set_cut(t, 0));
                if let Some(what) = manifest.brick_triangles(brick) {
                    said.insert(brick, (Digest::of(&bytes), what));
                }
                bricks.push(bytes.into());
            }
            let manifest = manifest.with_triangles(manifest.materials().to_vec(), &said);
            let mut parts = ManifestParts::from(manifest.unwrap());
            parts.version = 9;
            Self(Arc::new(Manifest::try_from(parts).unwrap()), bricks)
        }
    }

    impl BrickSource for AsTheyCame {
        fn manifest(&self) -> &Arc<Manifest> {
            &self.0
        }

        fn read(&self, brick: BrickIndex) -> Result<Bytes, SourceError> {
            Ok(self.1[brick.0 as usize].clone())
        }
    }

    #[test]
    fn with_further_ones_those_of_an_older_folder_are_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let volume = folder.path().join("v_20x20x20_uint8.raw");
        fs::write(&volume, vec![7; 8000]).unwrap();
        let file = volume_file::open(&volume).unwrap();
        let plain = brick_store::load(&file, 8, u64::MAX, &mut |_, _| true).unwrap();
        let large = surface(folder.path(), [10.0; 3], 6.0);
        let found = within(Arc::new(plain), &large, u64::MAX).unwrap();
        let old = AsTheyCame::of(&found);
        assert_eq!(old.0.triangle_order(), TriangleOrder::AsTheyCame);
        let (old, small) = (Arc::new(old), surface(folder.path(), [4.0; 3], 1.0));
        let more = within(Arc::clone(&old) as Arc<_>, &small, u64::MAX).unwrap();
        let mut without_new = 0;
        for brick in found.manifest().grid().bricks() {
            let (old, new) = (old.read(brick).unwrap(), more.read(brick).unwrap());
            assert_eq!(Digest::of(&new), more.manifest().brick_digest(brick));
            let voxels = usize::try_from(more.manifest().voxel_bytes(brick)).unwrap();
            triangles::check(&new[voxels..], 2, TriangleOrder::ByLeaves).unwrap();
            if new.len() == old.len() && new.len() > voxels {
                assert_eq!(new[voxels..], by_leaves(&old[voxels..]));
                without_new += 1;
            }
        }
        assert!(without_new > 0);
        assert_eq!(more.manifest().triangle_order(), TriangleOrder::ByLeaves);
    }

    #[test]
    fn in_a_volume_they_stand_behind_its_voxels_also_in_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let volume = folder.path().join("v_20x20x20_uint8.raw");
        fs::write(&volume, vec![7; 8000]).unwrap();
        let file = volume_file::open(&volume).unwrap();
        let load = || Arc::new(brick_store::load(&file, 8, u64::MAX, &mut |_, _| true).unwrap());
        let path = surface(folder.path(), [10.0; 3], 6.0);
        let found = within(load(), &path, u64::MAX).unwrap();
        let plain = load();
        for brick in found.manifest().grid().bricks() {
            let voxels = plain.read(brick).unwrap();
            assert_eq!(found.read(brick).unwrap()[..voxels.len()], voxels[..]);
        }
        let out = folder.path().join("out.brickmesh");
        let store = brick_store::write(&found, &out, &mut |_, _| true).unwrap();
        assert_eq!(store.manifest().digest(), found.manifest().digest());
        let again = brick_store::DirectoryStore::open(&out).unwrap();
        for brick in found.manifest().grid().bricks() {
            assert_eq!(again.read(brick).unwrap(), found.read(brick).unwrap());
        }
        let stopped = brick_store::write(&found, &folder.path().join("other"), &mut |_, _| false);
        assert!(matches!(stopped, Err(BrickStoreError::Stopped)));
        assert!(
            brick_store::write(&found, &out, &mut |_, _| true).is_err(),
            "it is there"
        );
        // Further ones stand behind those that are there.
        let more = within(Arc::new(again), &path, u64::MAX).unwrap();
        assert_eq!(more.manifest().materials().len(), 2);
        for brick in found.manifest().grid().bricks() {
            let (old, new) = (found.read(brick).unwrap(), more.read(brick).unwrap());
            assert_eq!(Digest::of(&new), more.manifest().brick_digest(brick));
            assert_eq!(new.len() as u64, more.manifest().brick_bytes(brick));
            let voxels = usize::try_from(more.manifest().voxel_bytes(brick)).unwrap();
            assert_eq!(new[..voxels], old[..voxels]);
            triangles::check(&new[voxels..], 2, TriangleOrder::ByLeaves).unwrap();
            let of = |bytes: &[u8], material| {
                let all = triangles::read(&bytes[voxels..]).filter(|t| t.material == material);
                let mut all: Vec<_> = all.map(|t| t.corners.map(|c: Vec3| c.to_array())).collect();
                all.sort_by(|a, b| a.as_flattened().partial_cmp(b.as_flattened()).unwrap());
                all
            };
            assert_eq!(of(&new, 0), of(&old, 0));
            assert_eq!(of(&new, 1), of(&old, 0));
        }
        let in_file = within(load(), &path, 100).unwrap();
        assert_eq!(in_file.manifest().digest(), found.manifest().digest());
        for brick in found.manifest().grid().bricks() {
            assert_eq!(in_file.read(brick).unwrap(), found.read(brick).unwrap());
        }
        let beside = surface(folder.path(), [99.0; 3], 6.0);
        assert!(matches!(
            within(load(), &beside, u64::MAX),
            Err(BrickStoreError::SurfacesOutside)
        ));
        let far = surface(folder.path(), [0.0; 3], 1e14);
        let far = within(load(), &far, u64::MAX).unwrap_err().to_string();
        assert!(far.contains("farther than"), "{far}");
        let names: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(names.len(), 3, "{names:?}");
    }
}
