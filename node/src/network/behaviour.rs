//! The protocols of a peer, put together, and their limits.
//!
//! Limits per peer: connections, streams and handshakes here and in `gate`; bytes of messages in
//! `lane`. Whoever goes beyond one loses that connection; nobody else does, but where several
//! addresses together fill all places for handshakes, or members all those for connections.
//! Not here: what follows from the protocols' events (`driver`).

use super::{
    NetworkConfig, NetworkError, admission::Admission, directory, gate::Gate, protocol, start_error,
};
use libp2p::{
    PeerId, Swarm, SwarmBuilder,
    connection_limits::{self, ConnectionLimits},
    identify,
    identity::Keypair,
    kad::{self, store::MemoryStore, store::MemoryStoreConfig},
    mdns, ping,
    swarm::{NetworkBehaviour, behaviour::toggle::Toggle},
    tcp, yamux,
};
use std::time::Duration;

/// A query among some hundred peers of a local network ends long before.
const KAD_QUERY_MAX: Duration = Duration::from_secs(10);
/// Refreshes far buckets; near peers are looked up by the driver much more often.
const KAD_BOOTSTRAP_INTERVAL: Duration = Duration::from_secs(60);
/// Silence is noticed after at most this and [`PING_MAX`].
const PING_INTERVAL: Duration = Duration::from_secs(3);
/// A busy host may answer late; a dead one never does.
const PING_MAX: Duration = Duration::from_secs(5);
/// Asks again in case a multicast packet was lost; libp2p's 5 minutes is long for a person.
const MDNS_INTERVAL: Duration = Duration::from_secs(20);
/// Longer than a session takes to open its streams, which then keep the connection.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Connections in all: with the handshakes, fewer than the 1024 files that a process may open.
const CONNECTIONS_MAX: u32 = 512;
/// Connections of one peer: two that cross, and one that is closing.
const CONNECTIONS_PER_PEER_MAX: u32 = 4;
/// Streams of one connection, of both sides: six of the lanes and their retries, and some for the
/// questions of Kademlia, identify and ping. Yamux closes a connection that goes beyond.
const STREAMS_PER_CONNECTION_MAX: usize = 128;
/// Handshakes that others began and that are under way; how many of one address says the gate.
const PENDING_MAX: u32 = 256;
/// Who has not finished his handshake by then gives up his place; a busy host may need a while.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);

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
    let prologue = config.key.noise_prologue();
    let admission = move |identity: &Keypair| Admission::new(identity, prologue);
    Ok(SwarmBuilder::with_existing_identity(key)
        .with_tokio()
        .with_tcp(tcp, admission, multiplexer)
        .map_err(|error| start_error(&error))?
        .with_behaviour(|key| behaviour(config, key))
        .map_err(|error| start_error(&error))?
        .with_swarm_config(|swarm| swarm.with_idle_connection_timeout(IDLE_MAX))
        .with_connection_timeout(HANDSHAKE_MAX)
        .build())
}

fn multiplexer() -> yamux::Config {
    let mut config = yamux::Config::default();
    config.set_max_num_streams(STREAMS_PER_CONNECTION_MAX);
    config
}

fn behaviour(config: &NetworkConfig, key: &Keypair) -> Behaviour {
    let local = key.public().to_peer_id();
    let limits = ConnectionLimits::default()
        .with_max_pending_incoming(Some(PENDING_MAX))
        .with_max_established_per_peer(Some(CONNECTIONS_PER_PEER_MAX))
        .with_max_established(Some(CONNECTIONS_MAX));
    let about = identify::Config::new(protocol::IDENTIFY.into(), key.public())
        .with_push_listen_addr_updates(true);
    let ping = ping::Config::new()
        .with_interval(PING_INTERVAL)
        .with_timeout(PING_MAX);
    Behaviour {
        gate: Gate::new(config.is_private()),
        limits: connection_limits::Behaviour::new(limits),
        mdns: Toggle::from(config.mdns.then(|| multicast(local)).flatten()),
        kad: kademlia(local),
        identify: identify::Behaviour::new(about),
        ping: ping::Behaviour::new(ping),
        streams: libp2p_stream::Behaviour::new(),
    }
}

fn kademlia(local: PeerId) -> kad::Behaviour<MemoryStore> {
    let mut config = kad::Config::new(protocol::KAD);
    config
        .set_query_timeout(KAD_QUERY_MAX)
        .set_periodic_bootstrap_interval(Some(KAD_BOOTSTRAP_INTERVAL))
        .set_provider_record_ttl(Some(directory::FORGET_AFTER))
        // What others announce the driver stores, as far as the directory has room for it.
        .set_record_filtering(kad::StoreInserts::FilterBoth);
    let store = MemoryStoreConfig {
        max_provided_keys: directory::OTHERS_MAX + directory::OWN_MAX,
        // Nothing but announcements is stored.
        max_records: 0,
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
            tracing::warn!(%error, "no mDNS on this host: name a peer with --join ADDR, for none is found without");
            None
        }
    }
}
