//! Bricks for others: one at a time to each, and while frames are under way one at a time to all.
//!
//! Invariant: whoever does not take what it asked for keeps nobody else from theirs for long.

use super::BrickOwner;
use crate::{
    budget::{Budget, Room},
    bus::Lane,
    messages::Message,
};
use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use brickmesh_topology::{BrickIndex, Digest, PeerId, keeper::KeeperMessage};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// Bytes of bricks that may be on their way from memory or disk into the bus, and as much again
/// while they are encoded.
const GIVEN_BYTES_MAX: u32 = 128 << 20;
/// Bricks that a peer may wait for: many times what it fetches at a time, as it asks elsewhere and
/// again when it has waited for long.
const REQUESTS_MAX: u32 = 128;
/// While frames are under way, one brick is given at a time, to whomever; one that is not written by
/// then is not waited for any longer. Who hangs is found out long before.
const ALONE_MAX: Duration = Duration::from_secs(30);

/// Bricks that are given to others: to each peer one at a time, so that one that does not take
/// them keeps nobody else from theirs. While frames are under way, one at a time to all peers together,
/// with a pause after it, so that those who make copies of what only this peer has leave its link to
/// the frames.
#[derive(Debug)]
pub(super) struct Giving {
    bytes: Budget,
    beside_frames: Budget,
    peers: BTreeMap<PeerId, Requests>,
}

/// The bricks that one peer waits for.
#[derive(Debug)]
struct Requests {
    waiting: Budget,
    now: Budget,
    bricks: BTreeSet<(Digest, BrickIndex)>,
}

/// A place in the queue for bricks.
struct Turn {
    now: Budget,
    bytes: (Budget, u64),
    _waiting: Room,
}

impl Default for Giving {
    fn default() -> Self {
        Self {
            bytes: Budget::new(GIVEN_BYTES_MAX),
            beside_frames: Budget::new(1),
            peers: BTreeMap::new(),
        }
    }
}

impl Giving {
    /// A place in the queue for a brick of so many bytes; `None` where a peer has too many.
    fn queue(&mut self, to: &PeerId, bytes: u64) -> Option<Turn> {
        let new = || Requests {
            waiting: Budget::new(REQUESTS_MAX),
            now: Budget::new(1),
            bricks: BTreeSet::new(),
        };
        let requests = self.peers.entry(to.clone()).or_insert_with(new);
        let waiting = requests.waiting.try_take(1)?;
        Some(Turn {
            _waiting: waiting,
            now: requests.now.clone(),
            bytes: (self.bytes.clone(), bytes),
        })
    }

    /// From now on a peer waits for this brick. Returns whether that is news.
    fn begin_wait(&mut self, to: &PeerId, brick: (Digest, BrickIndex)) -> bool {
        let requests = self.peers.get_mut(to);
        requests.is_some_and(|r| r.bricks.insert(brick))
    }

    /// A peer waits for this brick no more. Returns whether it can be reached still.
    fn end_wait(&mut self, to: &PeerId, brick: (Digest, BrickIndex)) -> bool {
        let requests = self.peers.get_mut(to);
        requests.map(|r| r.bricks.remove(&brick)).is_some()
    }

    /// A peer cannot be reached any more.
    pub(super) fn forget(&mut self, peer: &PeerId) {
        self.peers.remove(peer);
    }
}

impl Turn {
    /// Waits until it is this brick's turn; that ends with what is returned.
    async fn come(self) -> (Self, [Room; 2]) {
        let now = self.now.take(1).await;
        let (budget, bytes) = &self.bytes;
        let bytes = budget.take(*bytes).await;
        (self, [now, bytes])
    }
}

impl BrickOwner {
    /// Gives a brick to a peer that asked for it.
    pub(super) fn give(
        &mut self,
        to: PeerId,
        data_set: Digest,
        brick: BrickIndex,
        ctx: &mut Context<Self>,
    ) {
        let refuse = move |why: &str| {
            Message::Keeper(KeeperMessage::BrickRefused {
                data_set,
                brick,
                why: why.to_owned(),
            })
        };
        let manifest = self.keeper.manifest(data_set);
        let manifest = manifest.filter(|m| brick.0 < m.grid().brick_count());
        let Some(bytes) = manifest.map(|m| m.brick_bytes(brick)) else {
            self.outbox
                .send_or_log(&to, Lane::Control, refuse("no such brick is known here"));
            return;
        };
        let Some(turn) = self.giving.queue(&to, bytes) else {
            self.outbox.send_or_log(
                &to,
                Lane::Control,
                refuse("too many bricks were asked for at a time"),
            );
            return;
        };
        if !self.giving.begin_wait(&to, (data_set, brick)) {
            // It asked again, having waited for long.
            return;
        }
        let copy = self.copies.get(&(data_set, brick)).cloned();
        let source = self.sources.get(&data_set).cloned();
        let outbox = self.outbox.clone();
        let receiver = to.clone();
        let give = move |written: oneshot::Sender<()>| {
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
            let sent = outbox.send_holding(&receiver, Lane::Bricks, answer, written);
            if let Err(error) = &sent {
                tracing::debug!(peer = receiver.short(), brick = brick.0, %error, "a brick was not sent");
            }
            sent.is_ok()
        };
        let sending = turn.come().into_actor(self).then(move |came, owner, _| {
            let beside_frames = owner.keeper.is_rendering();
            let beside_frames = beside_frames.then(|| owner.giving.beside_frames.clone());
            send_in_turn(beside_frames, give)
                .into_actor(owner)
                .then(move |sent, owner, _| {
                    drop(came);
                    let is_there = owner.giving.end_wait(&to, (data_set, brick));
                    let sent = sent.filter(|_| is_there);
                    let pause = sent.as_ref().map_or(0, |(_, took)| {
                        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                        owner.keeper.pause_after(took)
                    });
                    let pause = async move {
                        tokio::time::sleep(Duration::from_micros(pause)).await;
                        drop(sent);
                    };
                    pause.into_actor(owner)
                })
        });
        ctx.spawn(sending);
    }
}

/// Gives a brick; `beside_frames`: once no other is given. Returns that place and how long it took to
/// write it, [`ALONE_MAX`] at most; `None`: it was not sent, or no place was asked for.
async fn send_in_turn(
    beside_frames: Option<Budget>,
    give: impl FnOnce(oneshot::Sender<()>) -> bool + Send + 'static,
) -> Option<(Room, Duration)> {
    let alone = match beside_frames {
        Some(budget) => Some(budget.take(1).await),
        None => None,
    };
    let start = Instant::now();
    let (written, is_written) = oneshot::channel();
    let given = tokio::task::spawn_blocking(|| give(written)).await;
    if given.is_err() {
        tracing::error!("sending a brick failed");
    }
    let alone = alone.filter(|_| given.is_ok_and(|is_sent| is_sent))?;
    // The sender goes with the message.
    if tokio::time::timeout(ALONE_MAX, is_written).await.is_err() {
        tracing::debug!("a brick takes long to be written");
    }
    Some((alone, start.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn a_peer_gets_one_brick_at_a_time_and_waits_for_so_many_at_most() {
        let mut giving = Giving::default();
        let (a, b) = (PeerId::new("a"), PeerId::new("b"));
        let turns: Vec<Turn> = std::iter::from_fn(|| giving.queue(&a, 10)).collect();
        assert_eq!(turns.len(), REQUESTS_MAX as usize);
        let mut turns = turns.into_iter();
        let first = turns.next().unwrap().come().now_or_never().unwrap();
        let mut second = Box::pin(turns.next().unwrap().come());
        assert!(second.as_mut().now_or_never().is_none());
        // Another peer does not wait for this one, as long as there is memory.
        let large = u64::from(GIVEN_BYTES_MAX) - 10;
        let other = giving.queue(&b, large).unwrap().come().now_or_never();
        assert!(other.is_some());
        drop(first);
        assert!(second.as_mut().now_or_never().is_some());
        assert!(giving.queue(&a, 10).is_some(), "one place is free");
        let full = giving.queue(&PeerId::new("c"), large).unwrap().come();
        assert!(full.now_or_never().is_none());
    }

    #[test]
    fn a_brick_that_a_peer_waits_for_is_not_given_to_it_twice() {
        let mut giving = Giving::default();
        let (a, b) = (PeerId::new("a"), PeerId::new("b"));
        let brick = (Digest::of(b"data"), BrickIndex(1));
        let turns = [&a, &b].map(|peer| giving.queue(peer, 10));
        assert!(turns.iter().all(Option::is_some));
        assert!(giving.begin_wait(&a, brick));
        assert!(!giving.begin_wait(&a, brick) && giving.begin_wait(&b, brick));
        assert!(giving.end_wait(&a, brick));
        assert!(giving.begin_wait(&a, brick), "it may ask again");
        giving.forget(&b);
        assert!(!giving.end_wait(&b, brick), "it is gone");
    }

    #[test]
    fn beside_frames_a_brick_waits_until_the_one_before_is_taken() {
        let beside_frames = Budget::new(1);
        let (sent, mut bricks) = tokio::sync::mpsc::channel(4);
        let give = |sent: &tokio::sync::mpsc::Sender<_>| {
            let sent = sent.clone();
            move |written| sent.try_send(written).is_ok()
        };
        actix::System::new().block_on(async {
            let mut first = Box::pin(send_in_turn(Some(beside_frames.clone()), give(&sent)));
            assert!((&mut first).now_or_never().is_none());
            let written = bricks.recv().await.unwrap();
            let mut second = Box::pin(send_in_turn(Some(beside_frames.clone()), give(&sent)));
            assert!((&mut second).now_or_never().is_none());
            // Where nobody renders, none waits.
            assert!(send_in_turn(None, give(&sent)).await.is_none());
            drop(bricks.recv().await);
            drop(written);
            let turn = first.await.expect("it was taken");
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!((&mut second).now_or_never().is_none(), "a pause follows");
            assert!(bricks.try_recv().is_err());
            drop(turn);
            let taking = async { drop(bricks.recv().await) };
            let (taken, ()) = futures::future::join(second, taking).await;
            assert!(taken.is_some());
        });
    }
}
