//! Bricks on their way from the source or a peer into device memory, and out of it.

use super::BrickOwner;
use crate::{
    data_set::{ReadError, voxels},
    inputs::DeviceInput,
};
use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use brickmesh_shaders::{BrickKey, BrickVoxels, DeviceError, device::preparation::PreparedBrick};
use brickmesh_topology::{
    BrickIndex, Digest, Manifest,
    mesh::keeper::{KeeperInput, LoadResult},
};
use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::oneshot;

#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    /// What another peer has sent, or a bug.
    #[error("{0}")]
    Damaged(String),
    /// This peer's own source has not got it as it should be.
    #[error("{0}")]
    Source(String),
    /// This peer's disk does not give it for now.
    #[error("{0}")]
    Unreadable(String),
    #[error("{0}")]
    Device(DeviceError),
    #[error("the device's thread has ended")]
    Ended,
}

/// A brick that is to be loaded.
enum Loaded {
    /// It is for the device.
    Prepared(PreparedBrick),
    /// It is where the device reads it.
    InPages,
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
        let reader = self.reader(data_set, brick);
        let preparation = self.preparation.clone();
        let (raycaster, pages) = (self.addresses.raycaster.clone(), self.pages.clone());
        let key = BrickKey { data_set, brick };
        let work = async move {
            let prepared = tokio::task::spawn_blocking(move || {
                let voxels = match (bytes, reader) {
                    (Some(bytes), _) => check(&manifest, brick, bytes).map_err(LoadError::Damaged),
                    (None, Some(reader)) => match reader() {
                        // It is checked where it is read.
                        Ok(bytes) => voxels(&manifest, brick, bytes).map_err(LoadError::Source),
                        Err(ReadError::Lost(why)) => Err(LoadError::Source(why)),
                        Err(ReadError::Unreadable(why)) => Err(LoadError::Unreadable(why)),
                    },
                    (None, None) => Err(LoadError::Damaged("there is no source".to_owned())),
                };
                let voxels = voxels?;
                if let Some(pages) = pages {
                    pages.fill(key, &voxels).map_err(LoadError::Device)?;
                    return Ok(Loaded::InPages);
                }
                Ok(Loaded::Prepared(preparation.prepare(voxels)))
            });
            let prepared = prepared.await;
            let prepared = match prepared.map_err(|e| LoadError::Damaged(e.to_string()))?? {
                Loaded::Prepared(prepared) => prepared,
                Loaded::InPages => return Ok((None, 0)),
            };
            let copy = Some(prepared.voxels().whole().clone());
            let (answer, loaded) = oneshot::channel();
            if raycaster
                .try_send(DeviceInput::Load(key, prepared, answer))
                .is_err()
            {
                return Err(LoadError::Ended);
            }
            match loaded.await {
                Ok(Ok(generation)) => Ok((copy, generation)),
                Ok(Err(error)) => Err(LoadError::Device(error)),
                Err(_) => Err(LoadError::Ended),
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
        result: Result<(Option<Bytes>, u64), LoadError>,
        ctx: &mut Context<Self>,
    ) {
        let result = match result {
            // On a device that was lost since.
            Ok((_, generation)) if generation < self.device_generation => LoadResult::Failed,
            Ok((copy, _)) => {
                self.unreadable.remove(&(data_set, brick));
                self.keep(data_set, brick, copy);
                LoadResult::Done
            }
            Err(LoadError::Device(error @ DeviceError::OutOfMemory { .. })) => {
                if self.keeper.is_staging(data_set, brick) {
                    tracing::debug!(brick = brick.0, %error, "a frame's brick waits for room");
                } else {
                    tracing::warn!(brick = brick.0, %error, "this peer holds less than its share");
                }
                LoadResult::NoRoom
            }
            Err(LoadError::Device(error @ DeviceError::Unavailable { .. })) => {
                tracing::debug!(brick = brick.0, %error, "a brick waits for a device");
                LoadResult::Failed
            }
            // The peer is ending: nobody waits for the brick.
            Err(error @ LoadError::Ended) => {
                tracing::debug!(brick = brick.0, %error, "a brick was not loaded");
                LoadResult::Failed
            }
            Err(LoadError::Source(why)) if !self.sources.contains_key(&data_set) => {
                tracing::warn!("{why}; it is fetched again");
                LoadResult::Unreadable
            }
            Err(LoadError::Source(why)) => {
                self.source_failed((data_set, brick), why);
                LoadResult::Unreadable
            }
            Err(LoadError::Unreadable(why)) => {
                let error = ReadError::Unreadable(why);
                self.shelf_failed((data_set, brick), &error, ctx);
                LoadResult::Failed
            }
            Err(error) => {
                tracing::warn!(brick = brick.0, %error, "a brick was not loaded; it is tried again");
                LoadResult::Failed
            }
        };
        self.step(KeeperInput::Loaded(data_set, brick, result), None, ctx);
    }

    /// This peer's own source did not give a brick.
    pub(super) fn source_failed(&mut self, name: (Digest, BrickIndex), why: String) {
        let known = self.unreadable.get(&name);
        if known != Some(&why) {
            tracing::warn!("{why}; it is tried again");
            self.unreadable.insert(name, why);
        }
    }

    /// Keeps the host copy of a brick, or lets go of it; `None`: its bytes are in page memory.
    fn keep(&mut self, data_set: Digest, brick: BrickIndex, copy: Option<Bytes>) {
        let is_open = self.keeper.manifest(data_set).is_some();
        match self.sources.get(&data_set) {
            // Nobody else will ask: what the device has need not be kept twice, as long as it has room for all.
            Some(source) if !self.keep_copies && self.keeper.has_room_for_all(data_set) => {
                source.release(brick);
            }
            // What was read for a frame is on the shelf; what was fetched may come to be held.
            None if self.keep_copies
                && is_open
                && (self.keeper.is_fetching(data_set, brick)
                    || !self.keeper.is_staging(data_set, brick)) =>
            {
                let copy = copy.map(|copy| ((data_set, brick), copy));
                self.copies.extend(copy);
            }
            _ => {}
        }
    }

    /// Frees the memory of a brick.
    pub(super) fn unload(&self, data_set: Digest, brick: BrickIndex) {
        let key = BrickKey { data_set, brick };
        if let Some(pages) = &self.pages {
            pages.free(key);
        }
        let unload = DeviceInput::Unload(key);
        if self.addresses.raycaster.try_send(unload).is_err() {
            tracing::warn!(
                brick = brick.0,
                "a brick stays in device memory: the device is busy"
            );
        }
    }
}

/// Checks a brick against its manifest.
fn check(manifest: &Manifest, brick: BrickIndex, bytes: Bytes) -> Result<BrickVoxels, String> {
    check_digest(manifest, brick, &bytes)?;
    voxels(manifest, brick, bytes)
}

/// Checks a brick's bytes against its manifest.
pub(super) fn check_digest(
    manifest: &Manifest,
    brick: BrickIndex,
    bytes: &[u8],
) -> Result<(), String> {
    let (expected, found) = (manifest.brick_digest(brick), Digest::of(bytes));
    if expected == found {
        return Ok(());
    }
    Err(format!(
        "brick {} is damaged: its digest is {}, expected {}",
        brick.0,
        found.short(),
        expected.short()
    ))
}
