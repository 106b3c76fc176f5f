//! A data set that is open at this peer: what topology's [`Holding`] decides on, and the bytes and
//! the source that it knows nothing of.

use crate::{data_set::BrickSource, messages::Message};
use brickmesh_topology::{BrickIndex, Manifest, PeerId, holding::Holding};
use bytes::Bytes;
use std::{collections::BTreeMap, sync::Arc};

/// See the module.
#[derive(Debug)]
pub(super) struct OpenSet {
    pub(super) manifest: Arc<Manifest>,
    pub(super) holding: Holding,
    pub(super) source: Option<Arc<dyn BrickSource>>,
    /// Host copies, to give to others.
    pub(super) copies: BTreeMap<BrickIndex, Bytes>,
}

impl OpenSet {
    pub(super) fn new(local: &PeerId, manifest: Arc<Manifest>, redundancy: u32) -> Self {
        let (grid, name) = (*manifest.grid(), manifest.digest());
        Self {
            holding: Holding::new(local.clone(), grid, redundancy, 0, name),
            manifest,
            source: None,
            copies: BTreeMap::new(),
        }
    }

    /// What tells another peer of it.
    pub(super) fn opening(&self) -> Message {
        Message::Open {
            manifest: Box::new(Manifest::clone(&self.manifest)),
            redundancy: self.holding.redundancy(),
        }
    }

    /// How many of its bricks fit into so many bytes.
    pub(super) fn room_in(&self, bytes: u64) -> u32 {
        let brick = self.manifest.largest_brick_bytes().max(1);
        u32::try_from(bytes / brick).unwrap_or(u32::MAX)
    }

    /// Bytes that its bricks take here, or will.
    pub(super) fn bytes(&self) -> u64 {
        let own = self.holding.announcement();
        let bricks = own.held.len().max(own.pledged.len());
        u64::from(bricks) * self.manifest.largest_brick_bytes()
    }
}
