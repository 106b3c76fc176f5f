//! Triangles by brick: in memory while they fit into their share, beyond that in a scratch file.
//!
//! Invariant: a brick's are in the order in which they came, wherever they are.

use super::BrickStoreError;
use crate::{
    scratch::Scratch,
    surface_file::{ScratchError, Spill},
};
use brickmesh_topology::{
    BrickGrid, BrickIndex,
    data::triangles::{BRICK_TRIANGLES_MAX, BrickTriangles, Triangle, TriangleBins},
};
use std::{borrow::Cow, collections::BTreeMap, io, mem};

/// See the module.
#[derive(Debug)]
pub(super) struct BrickedTriangles {
    spill: Spill,
    empty: TriangleBins,
    /// Those that are not in the file.
    bins: TriangleBins,
    file: Option<Scratch>,
    bricks: BTreeMap<BrickIndex, InFile>,
    outside: u64,
}

/// A brick's triangles in the file.
#[derive(Debug)]
struct InFile {
    what: BrickTriangles,
    last: Part,
}

/// Some of a brick's triangles in the file; the last [`Part::LINK`] bytes say where those before them are.
#[derive(Clone, Copy, Debug)]
struct Part {
    start: u64,
    /// With its link; 0: there is none.
    length: u64,
}

impl Part {
    const LINK: usize = 16;
    const NONE: Self = Self {
        start: 0,
        length: 0,
    };

    fn link(self) -> [u8; Self::LINK] {
        let mut link = [0; Self::LINK];
        link[..8].copy_from_slice(&self.start.to_le_bytes());
        link[8..].copy_from_slice(&self.length.to_le_bytes());
        link
    }

    /// The part that a link names.
    fn of(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        Some(Self {
            start: word(0)?,
            length: word(8)?,
        })
    }
}

impl BrickedTriangles {
    /// Of the bricks of a volume of these dims; none yet.
    pub(super) fn new(grid: BrickGrid, dims: [u32; 3], spill: &Spill) -> Self {
        let empty = TriangleBins::new(grid, dims);
        Self {
            spill: spill.clone(),
            bins: empty.clone(),
            empty,
            file: None,
            bricks: BTreeMap::new(),
            outside: 0,
        }
    }

    /// Puts a triangle into the bricks that it meets.
    pub(super) fn add(&mut self, triangle: &Triangle) -> Result<(), BrickStoreError> {
        self.bins.add(triangle);
        if self.bins.memory_bytes() > self.spill.cut_bytes_max() {
            self.spill.check()?;
            self.write_out().map_err(|e| self.spill.error(e))?;
            // Before more of them are written.
            let mut all = self.bricks.iter();
            if let Some((&brick, found)) = all.find(|(_, f)| f.what.count > BRICK_TRIANGLES_MAX) {
                return Err(too_many(brick, found.what.count));
            }
        }
        Ok(())
    }

    /// Takes those in memory to the file.
    fn write_out(&mut self) -> io::Result<()> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(Scratch::new(self.spill.folder())?),
        };
        let bins = mem::replace(&mut self.bins, self.empty.clone());
        self.outside += bins.outside();
        for (brick, mut bytes, what) in bins.into_bricks() {
            let before = self.bricks.get(&brick);
            bytes.extend(before.map_or(Part::NONE, |b| b.last).link());
            let what = before.map_or(what, |b| b.what.with(&what));
            let last = Part {
                start: file.add(&bytes)?,
                length: bytes.len() as u64,
            };
            self.bricks.insert(brick, InFile { what, last });
        }
        Ok(())
    }

    /// How many triangles met no brick.
    pub(super) fn outside(&self) -> u64 {
        self.outside + self.bins.outside()
    }

    /// What a manifest says of each brick that has some.
    pub(super) fn said(&self) -> BTreeMap<BrickIndex, BrickTriangles> {
        let mut said: BTreeMap<_, _> = self.bins.said().collect();
        for (brick, InFile { what, .. }) in &self.bricks {
            let whole = said.get(brick).map_or(*what, |more| what.with(more));
            said.insert(*brick, whole);
        }
        said
    }

    /// The bytes of a brick's triangles, if it has some.
    pub(super) fn of(&self, brick: BrickIndex) -> Result<Option<Cow<'_, [u8]>>, ScratchError> {
        let in_memory = self.bins.of(brick);
        let (Some(InFile { last, .. }), Some(file)) = (self.bricks.get(&brick), &self.file) else {
            return Ok(in_memory.map(Cow::Borrowed));
        };
        let mut parts = Vec::new();
        let mut next = *last;
        while next.length > 0 {
            let mut part = file
                .read(next.start, next.length)
                .map_err(|e| self.spill.error(e))?;
            let rest = part.len().saturating_sub(Part::LINK);
            next = Part::of(&part[rest..]).unwrap_or(Part::NONE);
            part.truncate(rest);
            parts.push(part);
        }
        parts.reverse();
        let mut all = parts.concat();
        all.extend_from_slice(in_memory.unwrap_or_default());
        Ok(Some(all.into()))
    }
}

/// More triangles than a brick may have.
pub(super) fn too_many(brick: BrickIndex, count: u32) -> BrickStoreError {
    BrickStoreError::Surfaces {
        why: format!(
            "brick {} gets {count} of them, more than {BRICK_TRIANGLES_MAX}; take smaller bricks, or fewer triangles",
            brick.0
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brickmesh_topology::data::triangles::PackedNormal;
    use glam::Vec3;
    use std::sync::Arc;

    #[test]
    fn triangles_are_the_same_in_memory_and_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let dims = [32; 3];
        let grid = BrickGrid::new(dims, 8).unwrap();
        let bricked = |bytes_max| {
            let spill = Spill::new(bytes_max, folder.path().to_owned(), Arc::new(|| true));
            let mut all = BrickedTriangles::new(grid, dims, &spill);
            for n in 0..1000_u16 {
                let at = |s: u16| f32::from(n * s % 997) / 997.0 * 36.0;
                let corner = Vec3::new(at(31), at(57), at(101));
                let corners = [corner, corner + Vec3::X, corner + Vec3::new(0.0, 9.0, 0.5)];
                let normals = [PackedNormal::new(Vec3::Z); 3];
                let material = u32::from(n);
                let added = all.add(&Triangle {
                    corners,
                    normals,
                    material,
                });
                added.unwrap();
            }
            all
        };
        let [in_memory, in_file] = [u64::MAX, 32 << 10].map(bricked);
        assert!(in_memory.file.is_none() && in_file.bricks.len() > 60 && in_file.file.is_some());
        assert_eq!(in_memory.said(), in_file.said());
        assert_eq!(in_memory.outside(), in_file.outside());
        assert!(in_file.outside() > 0);
        for brick in grid.bricks() {
            let found = in_file.of(brick).unwrap();
            assert_eq!(found, in_memory.of(brick).unwrap());
            let count = in_file.said().get(&brick).map(BrickTriangles::bytes);
            assert_eq!(found.map(|f| f.len() as u64), count);
        }
    }

    #[test]
    fn where_there_is_no_room_it_is_said_where() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone");
        let grid = BrickGrid::new([8; 3], 8).unwrap();
        let mut all = BrickedTriangles::new(
            grid,
            [8; 3],
            &Spill::new(0, gone.clone(), Arc::new(|| true)),
        );
        let corners = [Vec3::ZERO, Vec3::X, Vec3::Y];
        let normals = [PackedNormal::new(Vec3::Z); 3];
        let material = 0;
        let error = all.add(&Triangle {
            corners,
            normals,
            material,
        });
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with(&gone.display().to_string()), "{error}");
    }
}
