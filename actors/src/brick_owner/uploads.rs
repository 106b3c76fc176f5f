//! Bricks on their way from memory or disk to others. Whose turn it is, is the keeper's decision.

use super::BrickOwner;
use crate::{bus::Lane, messages::Message};
use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture, fut::wrap_future};
use brickmesh_topology::{
    BrickIndex, Digest, PeerId,
    mesh::keeper::{KeeperInput, KeeperMessage, UploadResult},
};
use tokio::sync::oneshot;

impl BrickOwner {
    /// Uploads a brick to a peer, and tells the keeper what became of it.
    pub(super) fn upload(
        &self,
        to: PeerId,
        data_set: Digest,
        brick: BrickIndex,
        ctx: &mut Context<Self>,
    ) {
        let copy = self.copy(data_set, brick);
        let reader = self.reader(data_set, brick);
        let (outbox, receiver) = (self.outbox.clone(), to.clone());
        // It goes with the message, and is dropped with it.
        let (written, is_written) = oneshot::channel::<()>();
        let send = move || {
            let refused = |why: String| {
                Message::Keeper(KeeperMessage::BrickRefused {
                    data_set,
                    brick,
                    why,
                })
            };
            let (answer, failed) = match copy().map(Ok).or_else(|| reader.map(|read| read())) {
                Some(Ok(bytes)) => {
                    let data = Message::BrickData {
                        data_set,
                        brick,
                        bytes,
                    };
                    (data, None)
                }
                Some(Err(error)) => (refused(error.to_string()), Some(error)),
                None => (refused("the brick is not held here".to_owned()), None),
            };
            let sent = outbox.send_holding(&receiver, Lane::Bricks, answer, written);
            if let Err(error) = &sent {
                tracing::debug!(peer = receiver.short(), brick = brick.0, %error, "a brick was not sent");
            }
            (sent.is_ok(), failed)
        };
        let gave = move |result| KeeperInput::Uploaded(to.clone(), data_set, brick, result);
        let sending = wrap_future::<_, Self>(tokio::task::spawn_blocking(send));
        let sending = sending.then(move |sent, owner: &mut Self, ctx| {
            let (is_queued, failed) = sent.unwrap_or_else(|error| {
                tracing::error!(%error, "sending a brick failed");
                (false, None)
            });
            if let Some(error) = failed {
                if owner.sources.contains_key(&data_set) {
                    owner.source_failed((data_set, brick), error.to_string());
                    owner.step(KeeperInput::CannotGive(data_set, brick), None, ctx);
                } else {
                    owner.shelf_failed((data_set, brick), &error, ctx);
                }
            }
            let result = if is_queued {
                UploadResult::Queued
            } else {
                UploadResult::NotSent
            };
            owner.step(gave(result), None, ctx);
            // Nobody sends anything here: it ends when the message is dropped.
            is_written.into_actor(owner).map(move |_, owner, ctx| {
                if is_queued {
                    owner.step(gave(UploadResult::Written), None, ctx);
                }
            })
        });
        ctx.spawn(sending);
    }
}
