//! Bricks on this peer's shelf: listed and checked when a data set is opened, written when they come. Which ones is the
//! keeper's decision.
//!
//! Invariant: what changes the shelf is done in the order in which it was decided, by a thread of its own.

use super::{BrickOwner, loading::check_digest};
use crate::data_set::{BrickShelf, ReadError, WriteError};
use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture, fut::wrap_future};
use brickmesh_topology::{
    BrickIndex, Digest, Manifest,
    mesh::keeper::{KeeperInput, ShelfResult},
};
use bytes::Bytes;
use std::{
    collections::VecDeque,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};
use tokio::sync::oneshot;

/// Between two checks while frames are rendered.
const PAUSE: Duration = Duration::from_millis(50);
/// Until a brick is looked at again that could not be read.
const LATER: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce(&dyn BrickShelf) + Send>;

/// See the module.
#[derive(Debug)]
pub(super) struct Shelving {
    pub(super) shelf: Arc<dyn BrickShelf>,
    jobs: mpsc::Sender<Job>,
    /// Bricks that are to be checked, one after another.
    unchecked: VecDeque<(Digest, BrickIndex)>,
    is_checking: bool,
}

impl Shelving {
    /// Starts the thread; `None`: the system has none.
    pub(super) fn start(shelf: Arc<dyn BrickShelf>) -> Option<Self> {
        let (jobs, waiting) = mpsc::channel::<Job>();
        let at = Arc::clone(&shelf);
        let work = move || waiting.into_iter().for_each(|job| job(&*at));
        let started = thread::Builder::new().name("shelf".to_owned()).spawn(work);
        if let Err(error) = started {
            tracing::warn!(%error, "no bricks are kept on the disk");
            return None;
        }
        Some(Self {
            shelf,
            jobs,
            unchecked: VecDeque::new(),
            is_checking: false,
        })
    }

    /// Lets the thread do something, and hears what it comes to.
    fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&dyn BrickShelf) -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (answer, done) = oneshot::channel();
        let job = move |shelf: &dyn BrickShelf| {
            if answer.send(what(shelf)).is_err() {
                tracing::debug!("nobody waits for the shelf any more");
            }
        };
        if self.jobs.send(Box::new(job)).is_err() {
            tracing::warn!("the shelf's thread has ended");
        }
        done
    }
}

impl BrickOwner {
    /// Opens the data sets that have bricks on the shelf, for who may use them.
    pub(super) fn know_shelf(&self, ctx: &mut Context<Self>) {
        let Some(shelving) = &self.shelving else {
            return;
        };
        let known = shelving.ask(|shelf| shelf.manifests());
        ctx.spawn(wrap_future(known).map(|known, owner: &mut Self, ctx| {
            for manifest in known.unwrap_or_default() {
                owner.step(KeeperInput::Know(manifest), None, ctx);
            }
        }));
    }

    /// Says what of a data set that was opened is on the shelf, and checks that. Who has the source needs no shelf.
    pub(super) fn list_shelf(&self, manifest: Arc<Manifest>, ctx: &mut Context<Self>) {
        let Some(shelving) = &self.shelving else {
            return;
        };
        let data_set = manifest.digest();
        let has_source = self.sources.contains_key(&data_set);
        let listing = shelving.ask(move |shelf| {
            if has_source {
                Ok(Vec::new())
            } else {
                shelf.open(&manifest)
            }
        });
        ctx.spawn(listing.into_actor(self).map(move |listed, owner, ctx| {
            let there = listed.unwrap_or(Ok(Vec::new())).unwrap_or_else(|error| {
                tracing::warn!(%error, "the shelf takes nothing of a data set");
                Vec::new()
            });
            let bricks = KeeperInput::OnShelf(data_set, there.clone());
            owner.step(bricks, None, ctx);
            owner.check_later(there.into_iter().map(|b| (data_set, b)), ctx);
        }));
    }

    /// Checks bricks on the shelf when it is their turn.
    fn check_later(
        &mut self,
        bricks: impl IntoIterator<Item = (Digest, BrickIndex)>,
        ctx: &mut Context<Self>,
    ) {
        if let Some(shelving) = &mut self.shelving {
            shelving.unchecked.extend(bricks);
            self.check_next(ctx);
        }
    }

    fn check_next(&mut self, ctx: &mut Context<Self>) {
        let Some(shelving) = &mut self.shelving else {
            return;
        };
        if shelving.is_checking {
            return;
        }
        let Some((data_set, brick)) = shelving.unchecked.pop_front() else {
            return;
        };
        shelving.is_checking = true;
        let shelf = Arc::clone(&shelving.shelf);
        let read = tokio::task::spawn_blocking(move || shelf.read(data_set, brick));
        ctx.spawn(wrap_future(read).map(move |read, owner: &mut Self, ctx| {
            if let Some(shelving) = &mut owner.shelving {
                shelving.is_checking = false;
            }
            // Nothing: the peer is ending.
            let Ok(read) = read else {
                return;
            };
            match read {
                Ok(_) => {
                    let whole = KeeperInput::Shelved(data_set, brick, ShelfResult::Done);
                    owner.step(whole, None, ctx);
                }
                Err(error) => owner.shelf_failed((data_set, brick), &error, ctx),
            }
            if owner.keeper.is_rendering() {
                ctx.run_later(PAUSE, Self::check_next);
            } else {
                owner.check_next(ctx);
            }
        }));
    }

    /// The shelf does not give a brick.
    pub(super) fn shelf_failed(
        &mut self,
        (data_set, brick): (Digest, BrickIndex),
        error: &ReadError,
        ctx: &mut Context<Self>,
    ) {
        if self.keeper.manifest(data_set).is_none() {
            return;
        }
        let result = match error {
            ReadError::Lost(why) => {
                tracing::warn!("{why}; it is fetched again");
                ShelfResult::Lost
            }
            ReadError::Unreadable(why) => {
                tracing::warn!("{why}; it is tried again");
                ctx.run_later(LATER, move |owner, ctx| {
                    owner.check_later([(data_set, brick)], ctx);
                });
                ShelfResult::Unreadable
            }
        };
        let failed = KeeperInput::Shelved(data_set, brick, result);
        self.step(failed, None, ctx);
    }

    /// Checks a brick, whose bytes came or are in host memory, and puts it on the shelf.
    pub(super) fn shelve(
        &self,
        data_set: Digest,
        brick: BrickIndex,
        bytes: Option<Bytes>,
        ctx: &mut Context<Self>,
    ) {
        let manifest = self.keeper.manifest(data_set).map(Arc::clone);
        let (Some(shelving), Some(manifest)) = (&self.shelving, manifest) else {
            return;
        };
        let copy = self.copy(data_set, brick);
        let writing = shelving.ask(move |shelf| {
            let Some(bytes) = bytes.or_else(copy) else {
                return ShelfResult::Lost;
            };
            if let Err(why) = check_digest(&manifest, brick, &bytes) {
                tracing::debug!("{why}; it is not put on the shelf");
                return ShelfResult::Lost;
            }
            match shelf.write(data_set, brick, &bytes) {
                Ok(()) => ShelfResult::Done,
                Err(WriteError::NoRoom(why)) => {
                    tracing::warn!("{why}; the shelf takes nothing for a minute");
                    ShelfResult::NotTaken
                }
                Err(WriteError::Failed(why)) => {
                    tracing::warn!("{why}; the brick is not kept on the disk");
                    ShelfResult::Lost
                }
            }
        });
        ctx.spawn(
            wrap_future(writing).map(move |written, owner: &mut Self, ctx| {
                let result = written.unwrap_or(ShelfResult::NotTaken);
                let shelved = KeeperInput::Shelved(data_set, brick, result);
                owner.step(shelved, None, ctx);
            }),
        );
    }

    /// Lets the shelf do something for which nobody waits.
    pub(super) fn tell_shelf(&self, what: impl FnOnce(&dyn BrickShelf) + Send + 'static) {
        let sent = self.shelving.as_ref().map(|s| s.jobs.send(Box::new(what)));
        if matches!(sent, Some(Err(_))) {
            tracing::warn!("the shelf's thread has ended");
        }
    }
}
