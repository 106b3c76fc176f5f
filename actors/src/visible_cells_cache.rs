//! Keeps the visible cells of the last settings: they stay the same while the camera moves, and cost
//! more than the rest of a plan.

use brickmesh_topology::{Digest, Manifest, RenderSettings, picture::visible_cells::VisibleCells};
use std::sync::Arc;

/// See the module.
#[derive(Debug, Default)]
pub struct VisibleCellsCache {
    last: Option<(Digest, RenderSettings, Arc<VisibleCells>)>,
}

impl VisibleCellsCache {
    /// What settings show of a data set.
    pub fn cells(&mut self, manifest: &Manifest, settings: &RenderSettings) -> Arc<VisibleCells> {
        let data_set = manifest.digest();
        match &self.last {
            Some((d, last, cells)) if *d == data_set && settings.shows_as(last) => {
                Arc::clone(cells)
            }
            _ => {
                let cells = Arc::new(VisibleCells::of(manifest, settings));
                self.last = Some((data_set, settings.clone(), Arc::clone(&cells)));
                cells
            }
        }
    }
}
