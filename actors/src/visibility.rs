//! Keeps the visible cells of the last transfer function: they stay the same while the camera
//! moves, and cost more than the rest of a plan.

use brickmesh_topology::{Digest, Manifest, TransferFunction, cell_ranges::VisibleCells};
use std::sync::Arc;

/// See the module.
#[derive(Debug, Default)]
pub struct Visibility {
    last: Option<(Digest, TransferFunction, Arc<VisibleCells>)>,
}

impl Visibility {
    /// What a transfer function shows of a data set.
    pub fn cells(&mut self, manifest: &Manifest, transfer: &TransferFunction) -> Arc<VisibleCells> {
        let data_set = manifest.digest();
        match &self.last {
            Some((d, t, cells)) if *d == data_set && t == transfer => Arc::clone(cells),
            _ => {
                let cells = Arc::new(VisibleCells::of(manifest, transfer));
                self.last = Some((data_set, transfer.clone(), Arc::clone(&cells)));
                cells
            }
        }
    }
}
