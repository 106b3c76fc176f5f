//! The protocols of a peer, put together, and the gate in front of them.
//!
//! Invariant: protocol names carry their version; a change of the wire changes the name.
//! Not here: what follows from their events (`driver`).

use super::{NetworkConfig, NetworkError, address, start_error};
use libp2p::{
    Multiaddr, PeerId, StreamProtocol, Swarm, SwarmBuilder,
    connection_limits::{self, ConnectionLimits},
    core::{Endpoint, transport::PortUse},
    identify,
    identity::Keypair,
    kad::{self, store::MemoryStore, store::MemoryStoreConfig},
    mdns, noise, ping,
    swarm::{
        ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent,
        THandlerOutEvent, ToSwarm, behaviour::toggle::Toggle, dummy,
    },
    tcp, yamux,
};
use std::{
    convert::Infallible,
    task::{Context, Poll},
    time::Duration,
};

/// Kademlia among brickmesh peers only.
const KAD_PROTOCOL: StreamProtocol = StreamProtocol::new("/brickmesh/kad/1");
/// What peers tell about themselves; others are not brickmesh peers.
pub(super) const IDENTIFY_PROTOCOL: &str = "/brickmesh/2";
/// A query among some hundred peers of a local network ends long before.
const KAD_QUERY_MAX: Duration = Duration::from_secs(10);
/// Refreshes far buckets; near peers are looked up by the driver much more often.
const KAD_BOOTSTRAP_INTERVAL: Duration = Duration::from_secs(60);
/// Contents that one peer can announce: bricks of a large volume.
const PROVIDED_MAX: usize = 1 << 16;
/// Silence is noticed after at most this and [`PING_MAX`].
const PING_INTERVAL: Duration = Duration::from_secs(3);
/// A busy host may answer late; a dead one never does.
const PING_MAX: Duration = Duration::from_secs(5);
/// Asks again in case a multicast packet was lost; libp2p's 5 minutes is long for a person.
const MDNS_INTERVAL: Duration = Duration::from_secs(20);
/// Longer than a session takes to open its streams, which then keep the connection.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Connections in all, and of one peer: two that cross, and one that is closing.
const CONNECTIONS_MAX: u32 = 512;
const CONNECTIONS_PER_PEER_MAX: u32 = 4;
/// Handshakes under way.
const PENDING_MAX: u32 = 64;

/// Protocols of one peer.
#[derive(NetworkBehaviour)]
pub(super) struct Behaviour {
    gate: Gate,
    limits: connection_limits::Behaviour,
    pub(super) mdns: Toggle<mdns::tokio::Behaviour>,
    pub(super) kad: kad::Behaviour<MemoryStore>,
    pub(super) identify: identify::Behaviour,
    pub(super) ping: ping::Behaviour,
    pub(super) streams: libp2p_stream::Behaviour,
}

/// A swarm that listens nowhere yet. Needs a tokio context.
pub(super) fn swarm(
    config: &NetworkConfig,
    key: Keypair,
) -> Result<Swarm<Behaviour>, NetworkError> {
    let tcp = tcp::Config::default().nodelay(true);
    Ok(SwarmBuilder::with_existing_identity(key)
        .with_tokio()
        .with_tcp(tcp, noise::Config::new, yamux::Config::default)
        .map_err(|error| start_error(&error))?
        .with_behaviour(|key| behaviour(config, key))
        .map_err(|error| start_error(&error))?
        .with_swarm_config(|swarm| swarm.with_idle_connection_timeout(IDLE_MAX))
        .build())
}

fn behaviour(config: &NetworkConfig, key: &Keypair) -> Behaviour {
    let local = key.public().to_peer_id();
    let limits = ConnectionLimits::default()
        .with_max_pending_incoming(Some(PENDING_MAX))
        .with_max_established_per_peer(Some(CONNECTIONS_PER_PEER_MAX))
        .with_max_established(Some(CONNECTIONS_MAX));
    let about = identify::Config::new(IDENTIFY_PROTOCOL.into(), key.public())
        .with_push_listen_addr_updates(true);
    let ping = ping::Config::new()
        .with_interval(PING_INTERVAL)
        .with_timeout(PING_MAX);
    Behaviour {
        gate: Gate {
            private_only: config.listen.is_empty(),
        },
        limits: connection_limits::Behaviour::new(limits),
        mdns: Toggle::from(config.mdns.then(|| multicast(local)).flatten()),
        kad: kademlia(local),
        identify: identify::Behaviour::new(about),
        ping: ping::Behaviour::new(ping),
        streams: libp2p_stream::Behaviour::new(),
    }
}

fn kademlia(local: PeerId) -> kad::Behaviour<MemoryStore> {
    let mut config = kad::Config::new(KAD_PROTOCOL);
    config
        .set_query_timeout(KAD_QUERY_MAX)
        .set_periodic_bootstrap_interval(Some(KAD_BOOTSTRAP_INTERVAL));
    let store = MemoryStoreConfig {
        max_provided_keys: PROVIDED_MAX,
        ..MemoryStoreConfig::default()
    };
    let store = MemoryStore::with_config(local, store);
    let mut kad = kad::Behaviour::with_config(local, store, config);
    kad.set_mode(Some(kad::Mode::Server));
    kad
}

/// A host without multicast can still join by address, so this is no error.
fn multicast(local: PeerId) -> Option<mdns::tokio::Behaviour> {
    let config = mdns::Config {
        query_interval: MDNS_INTERVAL,
        ..mdns::Config::default()
    };
    match mdns::tokio::Behaviour::new(config, local) {
        Ok(mdns) => Some(mdns),
        Err(error) => {
            tracing::warn!(%error, "no mDNS on this host, peers must be joined by address");
            None
        }
    }
}

/// Refuses connections from outside of private networks, except from this host itself, before any
/// handshake.
#[derive(Debug)]
pub(super) struct Gate {
    private_only: bool,
}

/// The remote address is not in a private network.
#[derive(Debug, thiserror::Error)]
#[error("{remote} is not a private address, and no address to listen on was asked for")]
struct NotPrivate {
    remote: Multiaddr,
}

impl NetworkBehaviour for Gate {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = Infallible;

    fn handle_pending_inbound_connection(
        &mut self,
        _: ConnectionId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<(), ConnectionDenied> {
        let welcome = address::is_private(remote) || address::is_same_host(local, remote);
        if self.private_only && !welcome {
            let remote = remote.clone();
            return Err(ConnectionDenied::new(NotPrivate { remote }));
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

    fn on_swarm_event(&mut self, _: FromSwarm<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_lets_strangers_in_only_where_asked_to_listen() {
        let id = ConnectionId::new_unchecked(0);
        let local = address::parse("8.8.8.7:1").unwrap();
        let remotes = [
            ("10.0.0.1:9", true),
            ("8.8.8.8:9", false),
            ("8.8.8.7:9", true),
        ];
        for (remote, private) in remotes {
            let remote = address::parse(remote).unwrap();
            for private_only in [false, true] {
                let mut gate = Gate { private_only };
                let passed = gate.handle_pending_inbound_connection(id, &local, &remote);
                assert_eq!(passed.is_ok(), private || !private_only);
            }
        }
    }
}
