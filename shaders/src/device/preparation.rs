//! What a device needs of a brick besides its voxels: macrocells, and which of them a scene shows. Worked out on
//! any thread beforehand, so that the device's own has less to do; what was not, the device works out.

use crate::{
    brick::BrickVoxels,
    macrocells::{Macrocells, SkipGrid, VisibleValues},
    triangle_tree::TriangleTree,
};
use std::sync::{Arc, PoisonError, RwLock};

/// A brick, and what is known of its macrocells.
#[derive(Clone, Debug)]
pub struct PreparedBrick {
    voxels: BrickVoxels,
    cells: Option<Box<BrickCells>>,
    /// Of its triangles, if it has some.
    tree: Option<Arc<TriangleTree>>,
}

/// Macrocells of a brick, and what of them is visible.
#[derive(Clone, Debug)]
pub struct BrickCells {
    cells: Macrocells,
    skip: Option<(Arc<VisibleValues>, SkipGrid)>,
}

/// Prepares bricks for a device; a clone does it for the same one.
#[derive(Clone, Debug)]
pub struct Preparation {
    cell_edge: u32,
    /// Of the device's scene.
    values: Arc<RwLock<Option<Arc<VisibleValues>>>>,
}

impl Preparation {
    /// For a device whose macrocells have this edge.
    #[must_use]
    pub fn new(cell_edge: u32) -> Self {
        Self {
            cell_edge,
            values: Arc::default(),
        }
    }

    /// The device's scene shows these from now on.
    pub fn set_values(&self, values: &Arc<VisibleValues>) {
        let mut known = self.values.write().unwrap_or_else(PoisonError::into_inner);
        *known = Some(Arc::clone(values));
    }

    /// Works out what the device will need. Reads every voxel once; in the current rayon pool if there is one, else on this thread.
    #[must_use]
    pub fn prepare(&self, voxels: BrickVoxels) -> PreparedBrick {
        let mut cells = BrickCells::new(Macrocells::with_edge(&voxels, self.cell_edge));
        let known = self.values.read().unwrap_or_else(PoisonError::into_inner);
        let values = known.clone();
        drop(known);
        if let Some(values) = values {
            cells.show(&values);
        }
        PreparedBrick {
            cells: Some(Box::new(cells)),
            ..voxels.into()
        }
    }

    /// A brick's voxels and cells; cells are worked out now where they were not, or for another device.
    pub(crate) fn complete(&self, brick: PreparedBrick) -> (BrickVoxels, BrickCells) {
        match brick {
            PreparedBrick {
                voxels,
                cells: Some(cells),
                ..
            } if cells.cells.edge() == self.cell_edge => (voxels, *cells),
            PreparedBrick { voxels, .. } => {
                let cells = Macrocells::with_edge(&voxels, self.cell_edge);
                (voxels, BrickCells::new(cells))
            }
        }
    }
}

impl PreparedBrick {
    /// Its voxels.
    #[must_use]
    pub fn voxels(&self) -> &BrickVoxels {
        &self.voxels
    }

    /// Its triangles, where it has some.
    #[must_use]
    pub fn tree(&self) -> Option<&Arc<TriangleTree>> {
        self.tree.as_ref()
    }
}

/// A brick of which nothing is worked out but where its triangles are.
impl From<BrickVoxels> for PreparedBrick {
    fn from(voxels: BrickVoxels) -> Self {
        let (triangles, order) = voxels.triangles();
        let tree = (!triangles.is_empty()).then(|| Arc::new(TriangleTree::new(triangles, order)));
        Self {
            voxels,
            cells: None,
            tree,
        }
    }
}

impl BrickCells {
    fn new(cells: Macrocells) -> Self {
        Self { cells, skip: None }
    }

    /// The macrocells.
    pub(crate) fn cells(&self) -> &Macrocells {
        &self.cells
    }

    /// Works out what is visible of these values, where that is not known.
    pub(crate) fn show(&mut self, values: &Arc<VisibleValues>) {
        if self.shown(values).is_none() {
            let grid = SkipGrid::new(&self.cells, values);
            self.skip = Some((Arc::clone(values), grid));
        }
    }

    /// What is visible of these values, if it is known.
    pub(crate) fn shown(&self, values: &Arc<VisibleValues>) -> Option<&SkipGrid> {
        let (of, grid) = self.skip.as_ref()?;
        Arc::ptr_eq(of, values).then_some(grid)
    }

    /// Forgets what is visible; returns it for these values.
    pub(crate) fn take_shown(&mut self, values: &Arc<VisibleValues>) -> SkipGrid {
        match self.skip.take() {
            Some((of, grid)) if Arc::ptr_eq(&of, values) => grid,
            _ => SkipGrid::new(&self.cells, values),
        }
    }
}
