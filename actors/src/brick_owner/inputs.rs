//! What the brick owner is told and asked, and what it answers.

use crate::data_set::BrickSource;
use brickmesh_topology::{
    BrickIndex, Digest, Manifest, PeerId,
    mesh::{
        announcement::Announcement,
        assignment::Safety,
        keeper::{Hello, Vitals},
        staging::StagingCounts,
    },
};
use std::{collections::BTreeMap, sync::Arc};

/// Opens a data set in the mesh; this peer can give every brick of it.
#[derive(Clone, Debug, actix::Message)]
#[rtype(result = "()")]
pub struct OpenSource {
    /// Where its bricks come from.
    pub source: Arc<dyn BrickSource>,
    /// Copies of each brick that are wanted, at least 1.
    pub redundancy: u32,
}

/// This peer needs a data set that is open in the mesh, or needs it no more. Peers hold what
/// nobody needs until they need its memory.
#[derive(Clone, Copy, Debug, actix::Message)]
#[rtype(result = "()")]
pub struct UseDataSet {
    /// The data set.
    pub data_set: Digest,
    /// Whether it is needed.
    pub in_use: bool,
}

/// Leaves the mesh politely: answered once others hold what only this peer held, or have no room for it, with the bricks of its
/// data sets that nobody holds who stays.
#[derive(Clone, Copy, Debug, actix::Message)]
#[rtype(result = "u32")]
pub struct LeaveMesh;

/// Asks who is in the mesh and what each holds.
#[derive(Clone, Copy, Debug, actix::Message)]
#[rtype(result = "MeshStatus")]
pub struct AskStatus;

/// Who is in the mesh and what each holds, as this peer knows it.
#[derive(Clone, Debug, Default)]
pub struct MeshStatus {
    /// Peers that spoke, this one included.
    pub peers: BTreeMap<PeerId, Hello>,
    /// How each of them is doing.
    pub vitals: BTreeMap<PeerId, Vitals>,
    /// Those of them that are silent or late.
    pub suspects: Vec<PeerId>,
    /// Open data sets.
    pub data_sets: Vec<DataSetStatus>,
    /// Others use data sets that are not known here yet: their manifests are on their way.
    pub awaits_data_sets: bool,
    /// How often frames needed bricks that this peer does not hold.
    pub staging: StagingCounts,
}

/// A data set, as one peer knows it.
#[derive(Clone, Debug)]
pub struct DataSetStatus {
    /// What it is.
    pub manifest: Arc<Manifest>,
    /// Who holds what, this peer included.
    pub residency: BTreeMap<PeerId, Announcement>,
    /// Copies of each brick that are wanted.
    pub redundancy: u32,
    /// How safe its copies are.
    pub safety: Safety,
    /// Bricks that this peer's own source does not give, and why.
    pub unreadable: BTreeMap<BrickIndex, String>,
    /// Memory that its largest brick takes on this peer's device.
    pub brick_bytes: u64,
    /// The same of one copy of all bricks.
    pub copy_bytes: u64,
}
