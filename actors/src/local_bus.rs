//! A bus between peers of one process: channels bounded by messages and by bytes, no sockets. For
//! `demo`, `--peers N` and tests; every message is encoded and decoded as on a network.

use crate::{
    budget::{Budget, Room},
    bus::{Bus, BusError, BusEvent, EVENTS_MAX, Lane},
};
use brickmesh_topology::PeerId;
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::mpsc;

/// Bytes that may be under way to one peer.
const INBOX_BYTES_MAX: u32 = 256 << 20;

type Inboxes = Arc<Mutex<BTreeMap<PeerId, Inbox>>>;

/// The way to a peer.
#[derive(Clone, Debug)]
struct Inbox {
    events: mpsc::Sender<BusEvent>,
    bytes: Budget,
}

/// A message under way; its room is free again when the last of it is dropped.
struct UnderWay {
    message: Bytes,
    _room: Room,
}

impl AsRef<[u8]> for UnderWay {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

/// The hub of an in-process mesh.
#[derive(Clone, Debug, Default)]
pub struct LocalHub {
    inboxes: Inboxes,
}

#[derive(Debug)]
struct LocalBus {
    local: PeerId,
    inboxes: Inboxes,
}

impl LocalHub {
    /// A hub without peers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Connects a peer to all others; returns its bus and what comes from it.
    pub fn join(&self, peer: &PeerId) -> (Arc<dyn Bus>, mpsc::Receiver<BusEvent>) {
        let (sender, receiver) = mpsc::channel(EVENTS_MAX);
        let mut inboxes = self.inboxes.lock().unwrap_or_else(PoisonError::into_inner);
        for (other, inbox) in inboxes.iter() {
            // The channels are fresh or drained: a mesh larger than their bound is not local.
            notify(&inbox.events, BusEvent::Connected(peer.clone()));
            notify(&sender, BusEvent::Connected(other.clone()));
        }
        let inbox = Inbox {
            events: sender,
            bytes: Budget::new(INBOX_BYTES_MAX),
        };
        inboxes.insert(peer.clone(), inbox);
        let bus = LocalBus {
            local: peer.clone(),
            inboxes: Arc::clone(&self.inboxes),
        };
        (Arc::new(bus), receiver)
    }

    /// Cuts a peer off, as if its machine had died.
    pub fn cut(&self, peer: &PeerId) {
        let mut inboxes = self.inboxes.lock().unwrap_or_else(PoisonError::into_inner);
        inboxes.remove(peer);
        inboxes
            .values()
            .for_each(|inbox| notify(&inbox.events, BusEvent::Lost(peer.clone())));
    }
}

fn notify(inbox: &mpsc::Sender<BusEvent>, event: BusEvent) {
    if let Err(error) = inbox.try_send(event) {
        tracing::warn!(%error, "a peer of this process misses an event");
    }
}

impl Bus for LocalBus {
    fn local(&self) -> &PeerId {
        &self.local
    }

    fn send(&self, to: &PeerId, lane: Lane, message: Bytes) -> Result<(), BusError> {
        let bytes = message.len();
        if bytes > lane.message_bytes_max() {
            return Err(BusError::TooLarge { bytes, lane });
        }
        let inboxes = self.inboxes.lock().unwrap_or_else(PoisonError::into_inner);
        // A peer that was cut off is heard by nobody.
        let inbox = inboxes
            .get(to)
            .filter(|_| inboxes.contains_key(&self.local));
        let inbox = inbox.ok_or_else(|| BusError::NotConnected { peer: to.clone() })?;
        let full = || BusError::QueueFull {
            peer: to.clone(),
            lane,
        };
        let room = inbox.bytes.try_take(message.len()).ok_or_else(full)?;
        let message = UnderWay {
            message,
            _room: room,
        };
        let event = BusEvent::Received {
            from: self.local.clone(),
            message: Bytes::from_owner(message),
        };
        inbox.events.try_send(event).map_err(|e| match e {
            mpsc::error::TrySendError::Full(_) => full(),
            mpsc::error::TrySendError::Closed(_) => BusError::NotConnected { peer: to.clone() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::MESSAGE_BYTES_MAX;

    #[test]
    fn messages_arrive_in_order_until_the_queue_is_full() {
        let hub = LocalHub::new();
        let (a, b) = (PeerId::new("a"), PeerId::new("b"));
        let (bus_a, _inbox_a) = hub.join(&a);
        let (_bus_b, mut inbox_b) = hub.join(&b);
        assert!(matches!(inbox_b.try_recv(), Ok(BusEvent::Connected(p)) if p == a));
        let mut sent = 0_usize;
        while bus_a
            .send(&b, Lane::Control, Bytes::from(sent.to_string()))
            .is_ok()
        {
            sent += 1;
        }
        assert_eq!(sent, EVENTS_MAX);
        for n in 0..sent {
            let Ok(BusEvent::Received { message, .. }) = inbox_b.try_recv() else {
                panic!("lost {n}")
            };
            assert_eq!(message, n.to_string());
        }
    }

    #[test]
    fn bytes_under_way_are_bounded_until_they_are_taken_up() {
        let hub = LocalHub::new();
        let (a, b) = (PeerId::new("a"), PeerId::new("b"));
        let (bus_a, _inbox_a) = hub.join(&a);
        let (_bus_b, mut inbox_b) = hub.join(&b);
        assert!(matches!(inbox_b.try_recv(), Ok(BusEvent::Connected(p)) if p == a));
        let large = Bytes::from(vec![0; MESSAGE_BYTES_MAX]);
        let send = || bus_a.send(&b, Lane::Bricks, large.clone());
        assert!(send().is_ok() && send().is_ok());
        assert!(matches!(send(), Err(BusError::QueueFull { .. })));
        let Ok(BusEvent::Received { message, .. }) = inbox_b.try_recv() else {
            panic!("nothing came")
        };
        assert!(send().is_err(), "it is still held");
        drop(message);
        assert!(send().is_ok());
    }

    #[test]
    fn a_peer_that_is_cut_off_is_reported_and_unreachable() {
        let hub = LocalHub::new();
        let (a, b) = (PeerId::new("a"), PeerId::new("b"));
        let (bus_a, mut inbox_a) = hub.join(&a);
        let (bus_b, _inbox_b) = hub.join(&b);
        hub.cut(&b);
        assert!(matches!(inbox_a.try_recv(), Ok(BusEvent::Connected(_))));
        assert!(matches!(inbox_a.try_recv(), Ok(BusEvent::Lost(p)) if p == b));
        assert!(matches!(
            bus_a.send(&b, Lane::Control, Bytes::new()),
            Err(BusError::NotConnected { .. })
        ));
        assert!(matches!(
            bus_b.send(&a, Lane::Control, Bytes::new()),
            Err(BusError::NotConnected { .. })
        ));
    }
}
