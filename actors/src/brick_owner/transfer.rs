//! Bricks on their way: from the source or a peer into device memory, and to peers that ask.

use super::BrickOwner;
use crate::{
    bus::Lane,
    messages::Message,
    raycaster::{LoadBrick, UnloadBrick},
};
use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use brickmesh_shaders::{BrickKey, BrickVoxels, DeviceError};
use brickmesh_topology::{
    BrickIndex, Digest, Manifest, PeerId,
    keeper::{KeeperInput, KeeperMessage, LoadResult},
};
use bytes::Bytes;
use std::sync::Arc;

#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    #[error("{0}")]
    Damaged(String),
    #[error("{0}")]
    Device(DeviceError),
}

impl BrickOwner {
    /// Checks a brick's bytes, or reads them from the source, and loads them.
    pub(super) fn load(
        &self,
        data_set: Digest,
        brick: BrickIndex,
        bytes: Option<Bytes>,
        ctx: &mut Context<Self>,
    ) {
        let Some(manifest) = self.keeper.manifest(data_set).map(Arc::clone) else {
            return;
        };
        let source = self.sources.get(&data_set).cloned();
        let raycaster = self.raycaster.clone();
        let work = async move {
            let checked = tokio::task::spawn_blocking(move || {
                let bytes = match (bytes, source) {
                    (Some(bytes), _) => bytes,
                    (None, Some(source)) => source
                        .read(brick)
                        .map_err(|e| LoadError::Damaged(e.to_string()))?,
                    (None, None) => {
                        return Err(LoadError::Damaged("there is no source".to_owned()));
                    }
                };
                check(&manifest, brick, bytes)
            });
            let voxels = checked
                .await
                .map_err(|e| LoadError::Damaged(e.to_string()))??;
            let copy = voxels.bytes().clone();
            let load = LoadBrick {
                key: BrickKey { data_set, brick },
                voxels,
            };
            match raycaster.send(load).await {
                Ok(Ok(())) => Ok(copy),
                Ok(Err(error)) => Err(LoadError::Device(error)),
                Err(_) => Err(LoadError::Damaged(
                    "the device's thread has ended".to_owned(),
                )),
            }
        };
        ctx.spawn(work.into_actor(self).map(move |result, owner, ctx| {
            owner.loaded(data_set, brick, result, ctx);
        }));
    }

    fn loaded(
        &mut self,
        data_set: Digest,
        brick: BrickIndex,
        result: Result<Bytes, LoadError>,
        ctx: &mut Context<Self>,
    ) {
        let result = match result {
            Ok(copy) => {
                self.keep(data_set, brick, copy);
                LoadResult::Done
            }
            Err(LoadError::Device(error @ DeviceError::OutOfMemory { .. })) => {
                tracing::warn!(brick = brick.0, %error, "this peer holds less than its share");
                LoadResult::NoRoom
            }
            Err(error) => {
                tracing::warn!(brick = brick.0, %error, "a brick was not loaded; it is tried again");
                LoadResult::Failed
            }
        };
        self.step(KeeperInput::Loaded(data_set, brick, result), None, ctx);
    }

    /// Keeps the host copy of a brick, or lets go of it.
    fn keep(&mut self, data_set: Digest, brick: BrickIndex, copy: Bytes) {
        let is_open = self.keeper.manifest(data_set).is_some();
        match self.sources.get(&data_set) {
            // Nobody else will ask: what the device has need not be kept twice.
            Some(source) if !self.keep_copies => source.release(brick),
            None if self.keep_copies && is_open => {
                self.copies.insert((data_set, brick), copy);
            }
            _ => {}
        }
    }

    /// Frees the memory of a brick.
    pub(super) fn unload(&self, data_set: Digest, brick: BrickIndex) {
        let key = BrickKey { data_set, brick };
        if self.raycaster.try_send(UnloadBrick { key }).is_err() {
            tracing::warn!(
                brick = brick.0,
                "a brick stays in device memory: the device is busy"
            );
        }
    }

    /// Gives a brick to a peer that asked for it.
    pub(super) fn give(
        &self,
        to: PeerId,
        data_set: Digest,
        brick: BrickIndex,
        ctx: &mut Context<Self>,
    ) {
        let refuse = move |why: &str| {
            Message::Keeper(Box::new(KeeperMessage::BrickRefused {
                data_set,
                brick,
                why: why.to_owned(),
            }))
        };
        let manifest = self.keeper.manifest(data_set);
        if manifest.is_none_or(|m| brick.0 >= m.grid().brick_count()) {
            self.outbox
                .send_or_log(&to, Lane::Control, refuse("no such brick is known here"));
            return;
        }
        let copy = self.copies.get(&(data_set, brick)).cloned();
        let source = self.sources.get(&data_set).cloned();
        let outbox = self.outbox.clone();
        let give = move || {
            let bytes = copy.map(Ok).or_else(|| source.map(|s| s.read(brick)));
            let answer = match bytes {
                Some(Ok(bytes)) => Message::BrickData {
                    data_set,
                    brick,
                    bytes,
                },
                Some(Err(error)) => refuse(&error.to_string()),
                None => refuse("the brick is not held here"),
            };
            if let Err(error) = outbox.send_patiently(&to, Lane::Bricks, answer) {
                tracing::debug!(peer = to.short(), brick = brick.0, %error, "a brick was not sent");
            }
        };
        let sending = async move {
            if tokio::task::spawn_blocking(give).await.is_err() {
                tracing::error!("sending a brick failed");
            }
        };
        ctx.spawn(sending.into_actor(self));
    }
}

/// Checks a brick against its manifest.
fn check(manifest: &Manifest, brick: BrickIndex, bytes: Bytes) -> Result<BrickVoxels, LoadError> {
    let (expected, found) = (manifest.brick_digest(brick), Digest::of(&bytes));
    if expected != found {
        let why = format!(
            "its digest is {}, expected {}",
            found.short(),
            expected.short()
        );
        return Err(LoadError::Damaged(why));
    }
    let grid = manifest.grid();
    let (owned, stored) = (grid.owned_box(brick), grid.stored_box(brick));
    BrickVoxels::new(owned, stored, manifest.volume().voxel, bytes)
        .map_err(|e| LoadError::Damaged(e.to_string()))
}
