//! Who comes, goes and is back, for the log: by name, as the operator knows machines.

use brickmesh_topology::{
    PeerId,
    mesh::{
        keeper::{Hello, Keeper},
        membership::Change,
    },
};
use std::collections::BTreeMap;

/// What was known of peers while they were there.
#[derive(Debug, Default)]
pub(super) struct PeerLog(BTreeMap<PeerId, Hello>);

impl PeerLog {
    /// Logs a change. Who only looks on, as `status` does, comes and leaves unnoticed.
    pub(super) fn note(&mut self, change: &Change, keeper: &Keeper) {
        match change {
            Change::Joined(peer) => {
                if let Some(hello) = keeper.hello_of(peer) {
                    self.0.insert(peer.clone(), hello.clone());
                    joined(peer, hello);
                }
            }
            Change::Recovered(peer) => {
                let name = self.name(peer);
                tracing::info!(peer = peer.short(), name, "a peer is back");
            }
            Change::Suspected(peer) => {
                let name = self.name(peer);
                tracing::warn!(
                    peer = peer.short(),
                    name,
                    "a peer is silent or late: frames go on without it; look after that machine and its network if it lasts"
                );
            }
            Change::Gone(peer) => {
                let name = self.name(peer);
                tracing::warn!(
                    peer = peer.short(),
                    name,
                    "a peer is gone without a goodbye: its copies are made again; start it again there"
                );
                self.0.remove(peer);
            }
            Change::Left(peer) => {
                if let Some(hello) = self.0.remove(peer).filter(|h| h.memory_bytes > 0) {
                    tracing::info!(peer = peer.short(), name = hello.name, "a peer has left");
                }
            }
        }
    }

    fn name(&self, peer: &PeerId) -> &str {
        self.0.get(peer).map_or("", |hello| &hello.name)
    }
}

fn joined(peer: &PeerId, hello: &Hello) {
    if hello.memory_bytes > 0 {
        tracing::info!(
            peer = peer.short(),
            name = hello.name,
            device = hello.device,
            "a peer has joined"
        );
    }
}
