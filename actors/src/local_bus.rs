//! A bus between peers of one process: bounded channels, no sockets. For `demo`, `--peers N` and
//! tests; every message is encoded and decoded as on a network.

use crate::bus::{Bus, BusError, BusEvent, EVENTS_MAX, Lane, MESSAGE_BYTES_MAX};
use brickmesh_topology::PeerId;
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::mpsc;

type Inboxes = Arc<Mutex<BTreeMap<PeerId, mpsc::Sender<BusEvent>>>>;

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
            notify(inbox, BusEvent::Connected(peer.clone()));
            notify(&sender, BusEvent::Connected(other.clone()));
        }
        inboxes.insert(peer.clone(), sender);
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
            .for_each(|inbox| notify(inbox, BusEvent::Lost(peer.clone())));
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
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(BusError::TooLarge {
                bytes: message.len(),
            });
        }
        let inboxes = self.inboxes.lock().unwrap_or_else(PoisonError::into_inner);
        // A peer that was cut off is heard by nobody.
        let inbox = inboxes
            .get(to)
            .filter(|_| inboxes.contains_key(&self.local));
        let inbox = inbox.ok_or_else(|| BusError::NotConnected { peer: to.clone() })?;
        let event = BusEvent::Received {
            from: self.local.clone(),
            message,
        };
        inbox.try_send(event).map_err(|e| match e {
            mpsc::error::TrySendError::Full(_) => BusError::QueueFull {
                peer: to.clone(),
                lane,
            },
            mpsc::error::TrySendError::Closed(_) => BusError::NotConnected { peer: to.clone() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
