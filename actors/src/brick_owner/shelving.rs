//! Bricks on this peer's shelf: listed and checked when a data set is opened, written when they come. Which ones is the
//! keeper's decision.

use super::{BrickOwner, loading::check_digest};
use crate::data_set::{BrickShelf, SourceError};
use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture, fut::wrap_future};
use brickmesh_topology::{
    BrickIndex, Digest, Manifest,
    mesh::keeper::{KeeperInput, ShelfResult},
};
use bytes::Bytes;
use std::sync::Arc;

impl BrickOwner {
    /// Opens the data sets that have bricks on the shelf, for who may use them.
    pub(super) fn know_shelf(&self, ctx: &mut Context<Self>) {
        let Some(shelf) = self.shelf.clone() else {
            return;
        };
        let known = tokio::task::spawn_blocking(move || shelf.manifests());
        ctx.spawn(wrap_future(known).map(|known, owner: &mut Self, ctx| {
            for manifest in known.unwrap_or_default() {
                owner.step(KeeperInput::Know(Arc::new(manifest)), None, ctx);
            }
        }));
    }

    /// Says what of a data set that was opened is on the shelf, and checks that. Who has the source needs no shelf.
    pub(super) fn list_shelf(&self, manifest: Arc<Manifest>, ctx: &mut Context<Self>) {
        let data_set = manifest.digest();
        let shelf = self.shelf.clone();
        let shelf = shelf.filter(|_| !self.sources.contains_key(&data_set));
        let listing = async move {
            let Some(shelf) = shelf else {
                return Ok(Vec::new());
            };
            let opening = tokio::task::spawn_blocking(move || shelf.open(&manifest));
            opening
                .await
                .map_err(|e| SourceError {
                    what: e.to_string(),
                })
                .flatten()
        };
        ctx.spawn(listing.into_actor(self).map(move |listed, owner, ctx| {
            let there = listed.unwrap_or_else(|error| {
                tracing::warn!(%error, "the shelf takes nothing of a data set");
                Vec::new()
            });
            let bricks = KeeperInput::OnShelf(data_set, there.clone());
            owner.step(bricks, None, ctx);
            owner.check_shelf(data_set, there, ctx);
        }));
    }

    /// Checks bricks on the shelf, one after another.
    fn check_shelf(&self, data_set: Digest, mut bricks: Vec<BrickIndex>, ctx: &mut Context<Self>) {
        let is_open = self.keeper.manifest(data_set).is_some();
        let (Some(shelf), Some(brick), true) = (self.shelf.clone(), bricks.pop(), is_open) else {
            return;
        };
        let read = tokio::task::spawn_blocking(move || shelf.read(data_set, brick));
        ctx.spawn(wrap_future(read).map(move |read, owner: &mut Self, ctx| {
            let result = match read {
                Ok(Ok(_)) => ShelfResult::Done,
                Ok(Err(error)) => {
                    tracing::warn!("{error}");
                    ShelfResult::Damaged
                }
                // The peer is ending.
                Err(_) => return,
            };
            let checked = KeeperInput::Shelved(data_set, brick, result);
            owner.step(checked, None, ctx);
            owner.check_shelf(data_set, bricks, ctx);
        }));
    }

    /// Checks a brick that came and puts it on the shelf.
    pub(super) fn shelve(
        &self,
        data_set: Digest,
        brick: BrickIndex,
        bytes: Option<Bytes>,
        ctx: &mut Context<Self>,
    ) {
        let manifest = self.keeper.manifest(data_set).map(Arc::clone);
        let (Some(shelf), Some(manifest), Some(bytes)) = (self.shelf.clone(), manifest, bytes)
        else {
            return;
        };
        let write = move || {
            if let Err(why) = check_digest(&manifest, brick, &bytes) {
                tracing::debug!("{why}; it is not put on the shelf");
                return ShelfResult::Damaged;
            }
            match shelf.write(data_set, brick, &bytes) {
                Ok(()) => ShelfResult::Done,
                Err(error) => {
                    tracing::warn!("{error}; the shelf takes nothing for a minute");
                    ShelfResult::NotTaken
                }
            }
        };
        let writing = wrap_future(tokio::task::spawn_blocking(write));
        ctx.spawn(writing.map(move |written, owner: &mut Self, ctx| {
            let result = written.unwrap_or(ShelfResult::NotTaken);
            let shelved = KeeperInput::Shelved(data_set, brick, result);
            owner.step(shelved, None, ctx);
        }));
    }

    /// Lets the shelf do something for which nobody waits.
    pub(super) fn tell_shelf(&self, what: impl FnOnce(&dyn BrickShelf) + Send + 'static) {
        if let Some(shelf) = self.shelf.clone() {
            tokio::task::spawn_blocking(move || what(&*shelf));
        }
    }
}
