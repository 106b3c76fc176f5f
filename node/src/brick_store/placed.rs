//! A data set whose bricks are placed otherwise than it says itself.

use brickmesh_actors::data_set::{BrickSource, SourceError};
use brickmesh_topology::{BrickIndex, Manifest, data::partition_method::PartitionMethod};
use bytes::Bytes;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(crate) struct Placed {
    source: Arc<dyn BrickSource>,
    manifest: Arc<Manifest>,
}

impl Placed {
    /// The bricks of a source, placed like that.
    pub(crate) fn new(source: Arc<dyn BrickSource>, placement: Option<PartitionMethod>) -> Self {
        let manifest = Arc::clone(source.manifest());
        let manifest = if manifest.placement() == placement {
            manifest
        } else {
            Arc::new(Manifest::clone(&manifest).with_placement(placement))
        };
        Self { source, manifest }
    }
}

impl BrickSource for Placed {
    fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    fn read(&self, brick: BrickIndex) -> Result<Bytes, SourceError> {
        self.source.read(brick)
    }

    fn level(&self, level: usize) -> Result<Arc<dyn BrickSource>, SourceError> {
        let source = self.source.level(level)?;
        Ok(Arc::new(Self::new(source, self.manifest.placement())))
    }

    fn release(&self, brick: BrickIndex) {
        self.source.release(brick);
    }
}
