//! Lanes: bounded queues of messages to one peer, and their frames on a stream.
//!
//! Frame: length in bytes (u32, little-endian), then so many bytes. A lane has one stream in each
//! direction. Small messages are written together and flushed when the queue is empty.
//!
//! Invariants: a queue is bounded by messages and by bytes, counted until they are written; what
//! is read is bounded by bytes for each peer and lane, counted until the message is dropped, so
//! that whoever sends faster than this peer works is held back; a length above the lane's bound
//! ends the stream; memory is reserved as bytes arrive, at most twice what has come, so that a
//! length that lies costs nothing.
//! Not here: opening streams (`session`).

use super::PeerId;
use brickmesh_actors::bus::{BusError, BusEvent, Lane};
use bytes::Bytes;
use futures::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt,
    io::{BufReader, BufWriter},
};
use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Every lane, in the order of [`index`].
pub(super) const LANES: [Lane; 3] = [Lane::Control, Lane::Pixels, Lane::Bricks];
/// Bytes written or read at once; larger messages go past the buffer.
const BUFFER_BYTES: usize = 64 << 10;

/// Place of the lane in arrays of one entry per lane.
pub(super) fn index(lane: Lane) -> usize {
    match lane {
        Lane::Control => 0,
        Lane::Pixels => 1,
        Lane::Bricks => 2,
    }
}

/// Messages that may wait to be sent to one peer on a lane: most are small.
const MESSAGES_MAX: usize = 1024;
/// Bricks that may wait: each is megabytes, and a few keep a link busy.
const BRICKS_MAX: usize = 64;
/// Bytes that may wait to be sent as pixels, and as many as bricks, to all peers together: each has
/// its share, so that one that takes nothing does not keep others from being sent to. A message
/// always fits when nothing else waits.
const BULK_BYTES_MAX: usize = 256 << 20;

/// Messages that may wait to be sent to one peer, and bytes to one of `peers` peers.
fn bounds(lane: Lane, peers: usize) -> (usize, usize) {
    let share = BULK_BYTES_MAX / peers.max(1);
    match lane {
        Lane::Control => (MESSAGES_MAX, lane.message_bytes_max()),
        Lane::Pixels => (MESSAGES_MAX, share),
        Lane::Bricks => (BRICKS_MAX, share),
    }
}

/// Sending end of one lane to one peer.
#[derive(Debug)]
struct Queue {
    messages: mpsc::Sender<Bytes>,
    waiting_bytes: Arc<AtomicUsize>,
}

/// Why a queue refused.
enum Refusal {
    Full,
    Closed,
}

impl Queue {
    fn push(&self, message: Bytes, bytes_max: usize) -> Result<(), Refusal> {
        let bytes = message.len();
        let fits = |waiting: usize| {
            let sum = waiting + bytes;
            (waiting == 0 || sum <= bytes_max).then_some(sum)
        };
        self.waiting_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .map_err(|_| Refusal::Full)?;
        self.messages.try_send(message).map_err(|error| {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            match error {
                mpsc::error::TrySendError::Full(_) => Refusal::Full,
                mpsc::error::TrySendError::Closed(_) => Refusal::Closed,
            }
        })
    }
}

/// Receiving end of a [`Queue`].
#[derive(Debug)]
pub(super) struct Outgoing {
    messages: mpsc::Receiver<Bytes>,
    waiting_bytes: Arc<AtomicUsize>,
}

/// Sending ends of every lane to one peer.
#[derive(Debug)]
pub(super) struct Outbox([Queue; 3]);

impl Outbox {
    pub(super) fn new() -> (Self, [Outgoing; 3]) {
        let [control, pixels, bricks] = LANES.map(|lane| {
            let (messages_max, _) = bounds(lane, 1);
            let (sender, messages) = mpsc::channel(messages_max);
            let waiting_bytes = Arc::new(AtomicUsize::new(0));
            let queue = Queue {
                messages: sender,
                waiting_bytes: Arc::clone(&waiting_bytes),
            };
            let outgoing = Outgoing {
                messages,
                waiting_bytes,
            };
            (queue, outgoing)
        });
        let outbox = Self([control.0, pixels.0, bricks.0]);
        (outbox, [control.1, pixels.1, bricks.1])
    }
}

/// Outboxes of the connected peers.
#[derive(Debug, Default)]
pub(super) struct Outboxes(RwLock<BTreeMap<PeerId, Outbox>>);

impl Outboxes {
    pub(super) fn insert(&self, peer: PeerId, outbox: Outbox) {
        let mut outboxes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        outboxes.insert(peer, outbox);
    }

    pub(super) fn remove(&self, peer: &PeerId) {
        let mut outboxes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        outboxes.remove(peer);
    }

    /// Queues a message, or says why not.
    pub(super) fn send(&self, to: &PeerId, lane: Lane, message: Bytes) -> Result<(), BusError> {
        let bytes = message.len();
        if bytes > lane.message_bytes_max() {
            return Err(BusError::TooLarge { bytes, lane });
        }
        let outboxes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let peer = || to.clone();
        let outbox = outboxes
            .get(to)
            .ok_or_else(|| BusError::NotConnected { peer: peer() })?;
        let (_, bytes_max) = bounds(lane, outboxes.len());
        outbox.0[index(lane)]
            .push(message, bytes_max)
            .map_err(|refusal| match refusal {
                Refusal::Full => BusError::QueueFull { peer: peer(), lane },
                Refusal::Closed => BusError::NotConnected { peer: peer() },
            })
    }
}

/// Writes the queue to the stream until one of them ends.
pub(super) async fn write(stream: impl AsyncWrite + Unpin, mut queue: Outgoing) -> io::Result<()> {
    let mut stream = BufWriter::with_capacity(BUFFER_BYTES, stream);
    while let Some(message) = queue.messages.recv().await {
        let length = u32::try_from(message.len()).map_err(io::Error::other)?;
        stream.write_all(&length.to_le_bytes()).await?;
        stream.write_all(&message).await?;
        if queue.messages.is_empty() {
            stream.flush().await?;
        }
        // Only now: what is being written still takes memory.
        queue
            .waiting_bytes
            .fetch_sub(message.len(), Ordering::Relaxed);
    }
    Ok(())
}

/// A message that was read. Whoever drops the last of it makes room for the next one.
struct Received {
    message: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Received {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

/// Reads frames into the events until one of them ends. Waits while the events are full, or too
/// many bytes of this peer's are not taken up yet, which in the end stops the sender.
pub(super) async fn read(
    stream: impl AsyncRead + Unpin,
    lane: Lane,
    from: PeerId,
    events: mpsc::Sender<BusEvent>,
) -> io::Result<()> {
    let mut stream = BufReader::with_capacity(BUFFER_BYTES, stream);
    // Of this peer's messages: being read, or read and not yet taken up by the program. One of the
    // largest always fits.
    let bytes_max = lane.message_bytes_max();
    let room = Arc::new(Semaphore::new(bytes_max));
    loop {
        let message = match frame(&mut stream, bytes_max, &room).await {
            Err(FrameError::TooLong { bytes }) => {
                tracing::warn!(
                    peer = %from,
                    ?lane,
                    bytes,
                    bytes_max,
                    "a peer announced a message above the limit; the connection is closed and made anew"
                );
                return Err(io::ErrorKind::InvalidData.into());
            }
            Err(FrameError::Io(error)) => return Err(error),
            Ok(message) => message,
        };
        let event = BusEvent::Received {
            from: from.clone(),
            message,
        };
        if events.send(event).await.is_err() {
            return Ok(());
        }
    }
}

/// Why no frame was read.
#[derive(Debug, thiserror::Error)]
enum FrameError {
    #[error("a frame of {bytes} bytes was announced")]
    TooLong { bytes: usize },
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// One frame, when there is room for it.
async fn frame(
    stream: &mut (impl AsyncRead + Unpin),
    bytes_max: usize,
    room: &Arc<Semaphore>,
) -> Result<Bytes, FrameError> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await?;
    let length = u32::from_le_bytes(length);
    let bytes = length as usize;
    if bytes > bytes_max {
        return Err(FrameError::TooLong { bytes });
    }
    let room = Arc::clone(room).acquire_many_owned(length).await;
    let room = room.map_err(io::Error::other)?;
    let mut message = Vec::new();
    while message.len() < bytes {
        let start = message.len();
        let end = bytes.min(start + start.max(BUFFER_BYTES));
        message.reserve_exact(end - start);
        message.resize(end, 0);
        stream.read_exact(&mut message[start..]).await?;
    }
    Ok(Bytes::from_owner(Received {
        message,
        _room: room,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use brickmesh_actors::bus::MESSAGE_BYTES_MAX;
    use futures::{FutureExt, executor::block_on, io::Cursor};

    fn name(text: &str) -> PeerId {
        PeerId::new(text)
    }

    fn frame_of(wire: &mut Cursor<Vec<u8>>, bytes_max: usize) -> Result<Bytes, FrameError> {
        let room = Arc::new(Semaphore::new(bytes_max));
        block_on(frame(wire, bytes_max, &room))
    }

    #[test]
    fn frames_come_out_as_they_went_in() {
        let (outbox, [outgoing, ..]) = Outbox::new();
        let lengths = [0, 1, 4, BUFFER_BYTES - 1, BUFFER_BYTES + 1, 1 << 20];
        for (value, length) in (0u8..).zip(lengths) {
            let sent = outbox.0[0].push(vec![value; length].into(), usize::MAX);
            assert!(sent.is_ok());
        }
        drop(outbox);
        let mut wire = Cursor::new(Vec::new());
        let bytes = Arc::clone(&outgoing.waiting_bytes);
        block_on(write(&mut wire, outgoing)).unwrap();
        assert_eq!(bytes.load(Ordering::Relaxed), 0);
        wire.set_position(0);
        for (value, length) in (0u8..).zip(lengths) {
            let message = frame_of(&mut wire, MESSAGE_BYTES_MAX).unwrap();
            assert_eq!(message, vec![value; length]);
        }
    }

    #[test]
    fn a_length_that_lies_ends_the_stream_without_its_memory() {
        let mut wire = Cursor::new(100_u32.to_le_bytes().to_vec());
        let error = frame_of(&mut wire, 99).unwrap_err();
        assert!(matches!(error, FrameError::TooLong { bytes: 100 }));
        let length = u32::try_from(MESSAGE_BYTES_MAX).unwrap();
        let mut wire = Cursor::new(length.to_le_bytes().to_vec());
        let error = frame_of(&mut wire, MESSAGE_BYTES_MAX).unwrap_err();
        assert!(matches!(error, FrameError::Io(_)));
    }

    #[test]
    fn what_is_read_waits_until_what_was_read_before_is_dropped() {
        let mut wire = Vec::new();
        for byte in 1..=4_u8 {
            wire.extend(40_u32.to_le_bytes());
            wire.extend([byte; 40]);
        }
        let mut wire = Cursor::new(wire);
        let room = Arc::new(Semaphore::new(100));
        let mut next = || frame(&mut wire, 100, &room).now_or_never();
        let first = next().unwrap().unwrap();
        let part = first.slice(10..20);
        let second = next().unwrap().unwrap();
        drop(first);
        // Its length is read, its room is not there: a part of the first is still held.
        assert!(next().is_none());
        drop(part);
        assert_eq!(room.available_permits(), 60);
        drop(second);
        assert_eq!(room.available_permits(), 100);
    }

    #[test]
    fn who_takes_nothing_leaves_others_their_share() {
        let outboxes = Outboxes::default();
        let mut kept = Vec::new();
        for peer in ["a", "b", "c", "d"] {
            let (outbox, outgoing) = Outbox::new();
            outboxes.insert(name(peer), outbox);
            kept.push(outgoing);
        }
        let message = Bytes::from(vec![0; 8 << 20]);
        let sent = |peer: &str| {
            let send = || outboxes.send(&name(peer), Lane::Pixels, message.clone());
            (0..100).filter(|_| send().is_ok()).count()
        };
        assert_eq!(sent("a"), BULK_BYTES_MAX / 4 / message.len());
        assert_eq!(sent("d"), BULK_BYTES_MAX / 4 / message.len());
        let large = Bytes::from(vec![0; MESSAGE_BYTES_MAX]);
        let send = || outboxes.send(&name("b"), Lane::Bricks, large.clone());
        assert!(send().is_ok(), "alone, the largest message fits");
        assert!(matches!(send(), Err(BusError::QueueFull { .. })));
    }

    #[test]
    fn queues_are_bounded_by_messages_and_by_bytes() {
        let outboxes = Outboxes::default();
        let (outbox, outgoing) = Outbox::new();
        outboxes.insert(name("a"), outbox);
        let send = |lane, message: Bytes| outboxes.send(&name("a"), lane, message);
        for lane in LANES {
            let (messages_max, _) = bounds(lane, 1);
            for _ in 0..messages_max {
                send(lane, Bytes::new()).unwrap();
            }
            let (peer, full) = (name("a"), send(lane, Bytes::new()));
            assert_eq!(full, Err(BusError::QueueFull { peer, lane }));
        }
        drop(outgoing);
        let (outbox, outgoing) = Outbox::new();
        outboxes.insert(name("a"), outbox);
        let big = Bytes::from(vec![0; MESSAGE_BYTES_MAX]);
        for _ in 0..BULK_BYTES_MAX / MESSAGE_BYTES_MAX {
            outboxes
                .send(&name("a"), Lane::Pixels, big.clone())
                .unwrap();
        }
        let full = outboxes.send(&name("a"), Lane::Pixels, Bytes::from_static(b"1"));
        assert!(matches!(full, Err(BusError::QueueFull { .. })));
        drop(outgoing);
        let closed = outboxes.send(&name("a"), Lane::Bricks, Bytes::new());
        assert!(matches!(closed, Err(BusError::NotConnected { .. })));
        for lane in LANES {
            let bytes = lane.message_bytes_max() + 1;
            let large = outboxes.send(&name("a"), lane, vec![0; bytes].into());
            assert_eq!(large, Err(BusError::TooLarge { bytes, lane }));
        }
    }
}
