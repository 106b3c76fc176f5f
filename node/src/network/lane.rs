//! Lanes: bounded queues of messages to one peer, and their frames on a stream.
//!
//! Frame: length in bytes (u32, little-endian), then so many bytes. A lane has one stream in each
//! direction. Small messages are written together and flushed when the queue is empty.
//!
//! Invariants: a queue is bounded by messages and by bytes, counted until they are written; a
//! length above [`MESSAGE_BYTES_MAX`] ends the stream; memory is reserved as bytes arrive, at
//! most twice what has come, so that a length that lies costs nothing.
//! Not here: opening streams (`session`).

use super::PeerId;
use brickmesh_actors::bus::{BusError, BusEvent, Lane, MESSAGE_BYTES_MAX};
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
use tokio::sync::mpsc;

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

/// Messages and bytes that may wait: control messages are small, many and never large; bricks
/// are megabytes, and a few keep a link busy.
fn bounds(lane: Lane) -> (usize, usize) {
    match lane {
        Lane::Control => (1024, 16 << 20),
        Lane::Pixels => (1024, 512 << 20),
        Lane::Bricks => (64, 512 << 20),
    }
}

/// Sending end of one lane to one peer.
#[derive(Debug)]
struct Queue {
    messages: mpsc::Sender<Bytes>,
    waiting_bytes: Arc<AtomicUsize>,
    bytes_max: usize,
}

/// Why a queue refused.
enum Refusal {
    Full,
    Closed,
}

impl Queue {
    fn push(&self, message: Bytes) -> Result<(), Refusal> {
        let bytes = message.len();
        let fits = |waiting: usize| Some(waiting + bytes).filter(|sum| *sum <= self.bytes_max);
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
            let (messages_max, bytes_max) = bounds(lane);
            let (sender, messages) = mpsc::channel(messages_max);
            let waiting_bytes = Arc::new(AtomicUsize::new(0));
            let queue = Queue {
                messages: sender,
                waiting_bytes: Arc::clone(&waiting_bytes),
                bytes_max,
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
        if bytes > MESSAGE_BYTES_MAX {
            return Err(BusError::TooLarge { bytes });
        }
        let outboxes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let peer = || to.clone();
        let outbox = outboxes
            .get(to)
            .ok_or_else(|| BusError::NotConnected { peer: peer() })?;
        outbox.0[index(lane)]
            .push(message)
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

/// Reads frames into the events until one of them ends. Waits while the events are full, which
/// in the end stops the sender.
pub(super) async fn read(
    stream: impl AsyncRead + Unpin,
    from: PeerId,
    events: mpsc::Sender<BusEvent>,
) -> io::Result<()> {
    let mut stream = BufReader::with_capacity(BUFFER_BYTES, stream);
    loop {
        let message = match frame(&mut stream, MESSAGE_BYTES_MAX).await {
            Err(FrameError::TooLong { bytes }) => {
                tracing::warn!(peer = %from, bytes, "a message above the limit was announced");
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

async fn frame(stream: &mut (impl AsyncRead + Unpin), max: usize) -> Result<Bytes, FrameError> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await?;
    let bytes = u32::from_le_bytes(length) as usize;
    if bytes > max {
        return Err(FrameError::TooLong { bytes });
    }
    let mut message = Vec::new();
    while message.len() < bytes {
        let start = message.len();
        let end = bytes.min(start + start.max(BUFFER_BYTES));
        message.reserve_exact(end - start);
        message.resize(end, 0);
        stream.read_exact(&mut message[start..]).await?;
    }
    Ok(message.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{executor::block_on, io::Cursor};

    fn name(text: &str) -> PeerId {
        PeerId::new(text)
    }

    #[test]
    fn frames_come_out_as_they_went_in() {
        let (outbox, [outgoing, ..]) = Outbox::new();
        let lengths = [0, 1, 4, BUFFER_BYTES - 1, BUFFER_BYTES + 1, 1 << 20];
        for (value, length) in (0u8..).zip(lengths) {
            let sent = outbox.0[0].push(vec![value; length].into());
            assert!(sent.is_ok());
        }
        drop(outbox);
        let mut wire = Cursor::new(Vec::new());
        let bytes = Arc::clone(&outgoing.waiting_bytes);
        block_on(write(&mut wire, outgoing)).unwrap();
        assert_eq!(bytes.load(Ordering::Relaxed), 0);
        wire.set_position(0);
        for (value, length) in (0u8..).zip(lengths) {
            let message = block_on(frame(&mut wire, MESSAGE_BYTES_MAX)).unwrap();
            assert_eq!(message, vec![value; length]);
        }
    }

    #[test]
    fn a_length_that_lies_ends_the_stream_without_its_memory() {
        let mut wire = Cursor::new(100_u32.to_le_bytes().to_vec());
        let error = block_on(frame(&mut wire, 99)).unwrap_err();
        assert!(matches!(error, FrameError::TooLong { bytes: 100 }));
        let length = u32::try_from(MESSAGE_BYTES_MAX).unwrap();
        let mut wire = Cursor::new(length.to_le_bytes().to_vec());
        let error = block_on(frame(&mut wire, MESSAGE_BYTES_MAX)).unwrap_err();
        assert!(matches!(error, FrameError::Io(_)));
    }

    #[test]
    fn queues_are_bounded_by_messages_and_by_bytes() {
        let outboxes = Outboxes::default();
        let (outbox, outgoing) = Outbox::new();
        outboxes.insert(name("a"), outbox);
        let send = |lane, message: Bytes| outboxes.send(&name("a"), lane, message);
        for lane in LANES {
            let (messages_max, _) = bounds(lane);
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
        for _ in 0..4 {
            outboxes
                .send(&name("a"), Lane::Pixels, big.clone())
                .unwrap();
        }
        let full = outboxes.send(&name("a"), Lane::Pixels, Bytes::from_static(b"1"));
        assert!(matches!(full, Err(BusError::QueueFull { .. })));
        drop(outgoing);
        let closed = outboxes.send(&name("a"), Lane::Bricks, Bytes::new());
        assert!(matches!(closed, Err(BusError::NotConnected { .. })));
        let bytes = MESSAGE_BYTES_MAX + 1;
        let large = outboxes.send(&name("a"), Lane::Pixels, vec![0; bytes].into());
        assert_eq!(large, Err(BusError::TooLarge { bytes }));
    }
}
