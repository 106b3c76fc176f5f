//! One session with one peer: opens the lanes, carries messages, notices the end.
//!
//! Each side opens one stream per lane and accepts one per lane; a stream counts when its acceptor
//! has sent one byte, because libp2p-stream drops inbound streams that come while another waits.
//! When all six count, the peer is connected. Any stream that ends, or is opened anew, ends the
//! session: what was under way on it may be gone.
//!
//! Invariants: `Connected` before the first message, `Lost` after the last, both once; sessions
//! with one peer follow each other, never overlap. Readers wait for room in the events, so a
//! session may end late, but never with an event missing.

use super::{
    PeerId,
    lane::{self, LANES, Outbox, Outboxes},
    protocol,
};
use brickmesh_actors::bus::{BusEvent, Lane};
use brickmesh_topology::base::backoff::Backoff;
use futures::{AsyncReadExt, AsyncWriteExt, future::join_all};
use libp2p::Stream;
use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    sync::mpsc,
    task::{JoinHandle, JoinSet},
    time::{sleep, timeout},
};

/// Inbound streams that may wait for a session: the three lanes, and retries of each.
pub(super) const DOOR_MAX: usize = 8;
/// The acceptor's byte.
const ACCEPTED: u8 = 1;
/// How long an opener waits for it.
const ACCEPT_MAX: Duration = Duration::from_secs(2);
/// Waits between attempts to open a lane.
const RETRIES: Backoff = Backoff::new(10_000, 500_000);
/// A peer that has not opened its lanes by then is none of ours.
const SETUP_MAX: Duration = Duration::from_secs(10);

/// Which session of which peer, so that an old one cannot close a new one's connection.
pub(super) type SessionId = (libp2p::PeerId, u64);

/// What a session needs.
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) name: PeerId,
    pub(super) control: libp2p_stream::Control,
    /// Streams that the peer opened; its end means that the last connection is closed.
    pub(super) door: mpsc::Receiver<(Lane, Stream)>,
    pub(super) outboxes: Arc<Outboxes>,
    pub(super) events: mpsc::Sender<BusEvent>,
    /// Where the session says that its connection is of no use any more.
    pub(super) ended: mpsc::Sender<SessionId>,
}

/// Streams of every lane.
struct Streams {
    outbound: [Stream; 3],
    inbound: [Stream; 3],
}

impl Session {
    /// The whole session; `previous` is an earlier one with the same peer.
    pub(super) async fn run(mut self, previous: Option<JoinHandle<()>>) {
        if let Some(Err(error)) = match previous {
            Some(previous) => Some(previous.await),
            None => None,
        } {
            tracing::error!(peer = %self.name, %error, "the session with a peer panicked and begins anew: this is a bug, please report it with the log (-vv)");
        }
        match timeout(SETUP_MAX, self.open()).await {
            Ok(Some(streams)) => self.carry(streams).await,
            Ok(None) => tracing::debug!(peer = %self.name, "connection closed before its lanes"),
            Err(_) => {
                tracing::debug!(peer = %self.name, "the peer did not open its lanes in time");
                self.give_up().await;
            }
        }
    }

    /// Opens and accepts every lane; `None` if the connection ends first.
    async fn open(&mut self) -> Option<Streams> {
        let (peer, control) = (self.id.0, self.control.clone());
        let opening = join_all(LANES.map(|lane| open(control.clone(), peer, lane)));
        tokio::pin!(opening);
        let mut outbound = None;
        let mut inbound = [None, None, None];
        while outbound.is_none() || inbound.iter().any(Option::is_none) {
            tokio::select! {
                opened = &mut opening, if outbound.is_none() => outbound = Some(opened),
                arrived = self.door.recv() => {
                    let (lane, stream) = arrived?;
                    // A second stream of a lane replaces the first: its opener gave that one up.
                    inbound[lane::index(lane)] = accept(stream).await;
                }
            }
        }
        let [Some(control), Some(pixels), Some(bricks)] = inbound else {
            return None;
        };
        Some(Streams {
            outbound: outbound?.try_into().ok()?,
            inbound: [control, pixels, bricks],
        })
    }

    async fn carry(mut self, streams: Streams) {
        let since = Instant::now();
        let (outbox, queues) = Outbox::new();
        self.outboxes.insert(self.name.clone(), outbox);
        tracing::debug!(peer = %self.name, "connected");
        self.tell(BusEvent::Connected(self.name.clone())).await;
        let mut tasks = JoinSet::new();
        for (stream, queue) in streams.outbound.into_iter().zip(queues) {
            tasks.spawn(lane::write(stream, queue));
        }
        for (stream, lane) in streams.inbound.into_iter().zip(LANES) {
            let (name, events) = (self.name.clone(), self.events.clone());
            tasks.spawn(lane::read(stream, lane, name, events));
        }
        let reason = tokio::select! {
            ended = tasks.join_next() => match ended {
                Some(Ok(Err(error))) => format!("stream broken: {error}"),
                Some(Err(error)) => format!("lane failed: {error}"),
                Some(Ok(Ok(()))) | None => "lane ended".to_owned(),
            },
            arrived = self.door.recv() => match arrived {
                Some((lane, _)) => format!("the peer opened {lane:?} anew"),
                None => "connection closed".to_owned(),
            },
        };
        self.outboxes.remove(&self.name);
        tasks.shutdown().await;
        self.give_up().await;
        let seconds = since.elapsed().as_secs();
        tracing::debug!(peer = %self.name, reason, seconds, "disconnected");
        self.tell(BusEvent::Lost(self.name.clone())).await;
    }

    /// Waits for room; nobody listening any more is no error, the program is ending.
    async fn tell(&self, event: BusEvent) {
        if self.events.send(event).await.is_err() {
            tracing::debug!(peer = %self.name, "nobody listens to the network's events");
        }
    }

    async fn give_up(&self) {
        if self.ended.send(self.id).await.is_err() {
            tracing::debug!(peer = %self.name, "the network ended first");
        }
    }
}

/// Opens a lane, again and again; the caller sets the limit.
async fn open(mut control: libp2p_stream::Control, peer: libp2p::PeerId, lane: Lane) -> Stream {
    let mut earlier = 0_u32;
    loop {
        match timeout(ACCEPT_MAX, open_once(&mut control, peer, lane)).await {
            Ok(Ok(stream)) => return stream,
            Ok(Err(error)) => tracing::trace!(%peer, ?lane, %error, "lane not accepted"),
            Err(_) => tracing::trace!(%peer, ?lane, "lane not accepted in time"),
        }
        sleep(Duration::from_micros(RETRIES.micros(earlier))).await;
        earlier = earlier.saturating_add(1);
    }
}

async fn open_once(
    control: &mut libp2p_stream::Control,
    peer: libp2p::PeerId,
    lane: Lane,
) -> io::Result<Stream> {
    let opened = control.open_stream(peer, protocol::of_lane(lane)).await;
    let mut stream = opened.map_err(io::Error::other)?;
    let mut byte = [0];
    stream.read_exact(&mut byte).await?;
    if byte != [ACCEPTED] {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(stream)
}

/// Tells the opener that its stream has arrived; `None` if it is gone by now.
async fn accept(mut stream: Stream) -> Option<Stream> {
    let answer = async {
        stream.write_all(&[ACCEPTED]).await?;
        stream.flush().await
    };
    match timeout(ACCEPT_MAX, answer).await {
        Ok(Ok(())) => Some(stream),
        Ok(Err(_)) | Err(_) => None,
    }
}
