//! The gate in front of the protocols: who may begin a handshake.
//!
//! Invariants: where no address to listen on beyond private ones was asked for, connections from
//! outside of private networks, except from this host itself, are refused before any handshake;
//! the unfinished handshakes of one address leave room for those of others. Several addresses
//! together can take all the room (`PENDING_MAX` in `behaviour`), each place for as long as a
//! handshake may take: while they go on, who dials this peer competes with them for what gets
//! free. Who is connected does not notice, and whom this peer dials is not counted.
//! Not here: who may finish one (`admission`).

use super::address;
use libp2p::{
    Multiaddr, PeerId,
    core::{Endpoint, transport::PortUse},
    swarm::{
        ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent,
        THandlerOutEvent, ToSwarm, dummy,
    },
};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    net::IpAddr,
    task::{Context, Poll},
};

/// Handshakes under way that one address began. A peer begins one at a time, several peers may
/// share a host; the rest, three quarters of all room for handshakes, is for other addresses.
const PENDING_PER_ADDRESS_MAX: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct Gate {
    private_only: bool,
    /// Handshakes that others began and that are under way.
    pending: BTreeMap<ConnectionId, IpAddr>,
}

/// The remote address is not in a private network.
#[derive(Debug, thiserror::Error)]
#[error("{remote} is not a private address, and no other address to listen on was asked for")]
struct NotPrivate {
    remote: Multiaddr,
}

/// The remote address is busy with other handshakes.
#[derive(Debug, thiserror::Error)]
#[error("{PENDING_PER_ADDRESS_MAX} handshakes with {remote} are under way")]
struct TooManyPending {
    remote: Multiaddr,
}

impl Gate {
    /// `private_only`: nobody asked to be reached from outside of private networks.
    pub(super) fn new(private_only: bool) -> Self {
        Self {
            private_only,
            pending: BTreeMap::new(),
        }
    }
}

impl NetworkBehaviour for Gate {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = Infallible;

    fn handle_pending_inbound_connection(
        &mut self,
        connection: ConnectionId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<(), ConnectionDenied> {
        let welcome = address::is_private(remote) || address::is_same_host(local, remote);
        if self.private_only && !welcome {
            let remote = remote.clone();
            return Err(ConnectionDenied::new(NotPrivate { remote }));
        }
        if let Some(ip) = address::ip_of(remote) {
            let pending = self.pending.values().filter(|other| **other == ip);
            if pending.count() >= PENDING_PER_ADDRESS_MAX {
                let remote = remote.clone();
                return Err(ConnectionDenied::new(TooManyPending { remote }));
            }
            self.pending.insert(connection, ip);
        }
        Ok(())
    }

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
    }

    fn on_connection_handler_event(
        &mut self,
        _: PeerId,
        _: ConnectionId,
        event: THandlerOutEvent<Self>,
    ) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Infallible, THandlerInEvent<Self>>> {
        Poll::Pending
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ConnectionEstablished(made) => self.pending.remove(&made.connection_id),
            FromSwarm::ListenFailure(failed) => self.pending.remove(&failed.connection_id),
            _ => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libp2p::swarm::{ListenError, behaviour::ListenFailure};

    fn at(text: &str) -> Multiaddr {
        address::parse(text).unwrap()
    }

    fn connection(number: usize) -> ConnectionId {
        ConnectionId::new_unchecked(number)
    }

    #[test]
    fn the_gate_lets_strangers_in_only_where_asked_to_listen() {
        let local = at("8.8.8.7:1");
        let remotes = [
            ("10.0.0.1:9", true),
            ("8.8.8.8:9", false),
            ("8.8.8.7:9", true),
        ];
        for (remote, private) in remotes {
            for private_only in [false, true] {
                let mut gate = Gate::new(private_only);
                let passed =
                    gate.handle_pending_inbound_connection(connection(0), &local, &at(remote));
                assert_eq!(passed.is_ok(), private || !private_only);
            }
        }
    }

    #[test]
    fn one_address_cannot_take_all_the_room_for_handshakes() {
        let (local, mut gate) = (at("10.0.0.7:1"), Gate::new(true));
        let knock = |gate: &mut Gate, number: usize, remote: &str| {
            gate.handle_pending_inbound_connection(connection(number), &local, &at(remote))
                .is_ok()
        };
        for number in 0..PENDING_PER_ADDRESS_MAX {
            assert!(knock(
                &mut gate,
                number,
                &format!("10.0.0.8:{}", number + 1)
            ));
        }
        assert!(!knock(&mut gate, 1000, "10.0.0.8:1000"));
        assert!(knock(&mut gate, 1001, "10.0.0.9:1000"));
        gate.on_swarm_event(FromSwarm::ListenFailure(ListenFailure {
            local_addr: &local,
            send_back_addr: &at("10.0.0.8:1"),
            error: &ListenError::Aborted,
            connection_id: connection(0),
            peer_id: None,
        }));
        assert!(knock(&mut gate, 1002, "10.0.0.8:1002"));
    }
}
