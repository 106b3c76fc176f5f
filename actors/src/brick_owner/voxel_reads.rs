//! Single voxels, exactly as they are stored, for who looks at them: of bricks that are held here, and of
//! those that another peer holds.

use super::BrickOwner;
use crate::{bus::Lane, messages::Message};
use actix::{Context, Handler, ResponseFuture};
use brickmesh_topology::{Digest, PeerId};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::{Semaphore, oneshot};

/// Voxels that are read at a time; each may need a whole brick from disk.
const READS_MAX: usize = 8;
/// How long a peer may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// Asks a peer, or this one, for the stored number of a voxel; why there is none, for people.
#[derive(Clone, Debug, actix::Message)]
#[rtype(result = "Result<f64, String>")]
pub struct ReadVoxel {
    /// The data set.
    pub data_set: Digest,
    /// The voxel.
    pub voxel: [u32; 3],
    /// Who is asked; `None`: this peer.
    pub of: Option<PeerId>,
}

/// Questions that are under way.
#[derive(Debug)]
pub(super) struct VoxelReads {
    reading: Arc<Semaphore>,
    next: u64,
    asked: BTreeMap<u64, (PeerId, oneshot::Sender<Result<f64, String>>)>,
}

impl Default for VoxelReads {
    fn default() -> Self {
        Self {
            reading: Arc::new(Semaphore::new(READS_MAX)),
            next: 0,
            asked: BTreeMap::new(),
        }
    }
}

impl BrickOwner {
    /// Reads a voxel of a brick that this peer has.
    fn read_voxel(
        &self,
        data_set: Digest,
        voxel: [u32; 3],
    ) -> impl Future<Output = Result<f64, String>> + use<> {
        let room = Arc::clone(&self.voxel_reads.reading).try_acquire_owned();
        let known = self.keeper.manifest(data_set).map(Arc::clone);
        let known = known.and_then(|manifest| {
            let grid = manifest.grid();
            let brick = grid.index(voxel.map(|v| v / grid.edge()))?;
            let copy = self.copy(data_set, brick);
            Some((manifest, brick, copy, self.reader(data_set, brick)))
        });
        async move {
            let room = room.map_err(|_| "too many voxels are asked for at a time".to_owned())?;
            let (manifest, brick, copy, reader) = known.ok_or("there is no such voxel here")?;
            let read = move || {
                let bytes = match (copy(), reader) {
                    (Some(copy), _) => copy,
                    (None, Some(reader)) => reader().map_err(|e| e.to_string())?,
                    (None, None) => return Err("the brick is not held here".to_owned()),
                };
                drop(room);
                let found = manifest.stored_number(brick, &bytes, voxel);
                found.ok_or_else(|| "the brick is damaged".to_owned())
            };
            let read = tokio::task::spawn_blocking(read).await;
            read.map_err(|e| e.to_string()).flatten()
        }
    }

    /// Takes what a peer asks, or answers.
    pub(super) fn voxel_said(&mut self, from: PeerId, message: Message) {
        match message {
            Message::AskVoxel {
                number,
                data_set,
                voxel,
            } => {
                let (found, outbox) = (self.read_voxel(data_set, voxel), self.outbox.clone());
                actix::spawn(async move {
                    let found = found.await;
                    let answer = Message::Voxel { number, found };
                    outbox.send_or_log(&from, Lane::Control, answer);
                });
            }
            Message::Voxel { number, found } => {
                let asked = &mut self.voxel_reads.asked;
                if asked.get(&number).is_some_and(|(of, _)| *of == from)
                    && let Some((_, answer)) = asked.remove(&number)
                    && answer.send(found).is_err()
                {
                    tracing::debug!(peer = from.short(), "a voxel came too late");
                }
            }
            _ => tracing::warn!(peer = from.short(), "a message came to the wrong actor"),
        }
    }
}

impl Handler<ReadVoxel> for BrickOwner {
    type Result = ResponseFuture<Result<f64, String>>;

    fn handle(&mut self, read: ReadVoxel, _: &mut Context<Self>) -> Self::Result {
        let ReadVoxel {
            data_set,
            voxel,
            of,
        } = read;
        let Some(of) = of else {
            return Box::pin(self.read_voxel(data_set, voxel));
        };
        let reads = &mut self.voxel_reads;
        // Who is not waited for any more.
        reads.asked.retain(|_, (_, answer)| !answer.is_closed());
        let number = reads.next;
        reads.next += 1;
        let (answer, come) = oneshot::channel();
        reads.asked.insert(number, (of.clone(), answer));
        let ask = Message::AskVoxel {
            number,
            data_set,
            voxel,
        };
        let sent = self.outbox.send(&of, Lane::Control, ask);
        Box::pin(async move {
            sent.map_err(|e| e.to_string())?;
            match tokio::time::timeout(ANSWER_MAX, come).await {
                Ok(Ok(found)) => found,
                _ => Err(format!("peer {} does not answer", of.short())),
            }
        })
    }
}
