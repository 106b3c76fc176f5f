//! Peers on loopback, each with its network and nothing else; and strangers, which speak libp2p
//! but are no peers. Every wait has a deadline.

use brickmesh_actors::bus::{Bus, BusEvent};
use brickmesh_node::network::{MeshKey, Multiaddr, Network, NetworkConfig, address};
use brickmesh_topology::PeerId;
use bytes::Bytes;
use libp2p::{
    Swarm, SwarmBuilder, identify, identity::Keypair, noise, ping, swarm::NetworkBehaviour, tcp,
    yamux,
};
use std::{
    fmt::{self, Debug},
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

/// A second.
pub const SECOND: Duration = Duration::from_secs(1);
/// How often [`until`] looks.
const LOOK: Duration = Duration::from_millis(10);

/// The key of this process's mesh.
///
/// # Panics
/// Where the system gives no random numbers.
#[must_use]
pub fn key() -> MeshKey {
    static KEY: OnceLock<MeshKey> = OnceLock::new();
    KEY.get_or_init(another_key).clone()
}

/// A key that nobody else has.
///
/// # Panics
/// Where the system gives no random numbers.
#[must_use]
pub fn another_key() -> MeshKey {
    MeshKey::random().expect("random numbers")
}

/// A peer on loopback with this key, that joins these addresses.
///
/// # Panics
/// Never: loopback has an address.
#[must_use]
pub fn config(key: MeshKey, join: &[Multiaddr]) -> NetworkConfig {
    NetworkConfig {
        listen: vec![address::parse("127.0.0.1:0").expect("an address")],
        join: join.to_vec(),
        mdns: false,
        ..NetworkConfig::new(key)
    }
}

/// A running peer.
#[derive(Debug)]
pub struct NetworkPeer {
    /// Its network.
    pub network: Network,
    /// What it sends through.
    pub bus: Arc<dyn Bus>,
    /// What happens to it.
    pub events: mpsc::Receiver<BusEvent>,
}

impl NetworkPeer {
    /// A peer of this process's mesh.
    #[must_use]
    pub fn join(addresses: &[Multiaddr]) -> Self {
        Self::start(config(key(), addresses))
    }

    /// A peer.
    ///
    /// # Panics
    /// Where it does not start.
    #[must_use]
    pub fn start(config: NetworkConfig) -> Self {
        let (network, events) = Network::start(config).expect("a network");
        let bus = network.bus();
        Self {
            network,
            bus,
            events,
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> PeerId {
        self.bus.local().clone()
    }

    /// What happens next.
    ///
    /// # Panics
    /// Where nothing does in time.
    pub async fn next(&mut self, max: Duration) -> BusEvent {
        let event = timeout(max, self.events.recv()).await;
        event.expect("an event in time").expect("a running network")
    }

    /// Whom it is connected to next.
    ///
    /// # Panics
    /// Where something else happens, or nothing in time.
    pub async fn connected(&mut self, max: Duration) -> PeerId {
        match self.next(max).await {
            BusEvent::Connected(peer) => peer,
            other => panic!("{other:?} instead of a connection"),
        }
    }

    /// The next message.
    ///
    /// # Panics
    /// Where something else happens, or nothing in time.
    pub async fn received(&mut self, max: Duration) -> Bytes {
        match self.next(max).await {
            BusEvent::Received { message, .. } => message,
            other => panic!("{other:?} instead of a message"),
        }
    }

    /// Whom it loses next.
    ///
    /// # Panics
    /// Where it loses nobody in time.
    pub async fn lost(&mut self, max: Duration) -> PeerId {
        loop {
            if let BusEvent::Lost(peer) = self.next(max).await {
                return peer;
            }
        }
    }

    /// Nothing has happened to it.
    ///
    /// # Panics
    /// Where something has.
    pub fn assert_quiet(&mut self) {
        if let Ok(event) = self.events.try_recv() {
            panic!("{event:?} instead of nothing");
        }
    }
}

/// Two peers that are connected.
///
/// # Panics
/// Where they are not in time.
pub async fn pair() -> (NetworkPeer, NetworkPeer) {
    let mut a = NetworkPeer::join(&[]);
    let mut b = NetworkPeer::join(&a.network.listen_addresses());
    assert_eq!(a.connected(10 * SECOND).await, b.id());
    assert_eq!(b.connected(10 * SECOND).await, a.id());
    (a, b)
}

/// Waits until the question has an answer.
///
/// # Panics
/// Where it has none in time.
pub async fn until<T>(max: Duration, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < max, "no {what} within {max:?}");
        sleep(LOOK).await;
    }
}

/// Waits until the question, which takes its time, has an answer.
///
/// # Panics
/// Where it has none in time.
pub async fn until_async<T>(
    max: Duration,
    what: &str,
    mut ask: impl AsyncFnMut() -> Option<T>,
) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(start.elapsed() < max, "no {what} within {max:?}");
        sleep(LOOK).await;
    }
}

/// The protocols of a stranger.
#[derive(NetworkBehaviour)]
#[behaviour(to_swarm = "Heard")]
pub struct Stranger {
    /// Streams of any name.
    pub streams: libp2p_stream::Behaviour,
    /// What it says it speaks.
    pub identify: identify::Behaviour,
    /// It lives.
    pub ping: ping::Behaviour,
}

/// What a stranger hears.
#[derive(Debug)]
pub enum Heard {
    /// What a peer says it speaks.
    Version(String),
    /// Anything else.
    Other,
}

impl From<identify::Event> for Heard {
    fn from(event: identify::Event) -> Self {
        match event {
            identify::Event::Received { info, .. } => Self::Version(info.protocol_version),
            _ => Self::Other,
        }
    }
}

impl From<ping::Event> for Heard {
    fn from(_: ping::Event) -> Self {
        Self::Other
    }
}

impl From<()> for Heard {
    fn from((): ()) -> Self {
        Self::Other
    }
}

impl Debug for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stranger")
    }
}

/// A swarm that says it speaks `version`, and mixes this prologue into its handshakes.
///
/// # Panics
/// Where there is no tokio context.
#[must_use]
pub fn stranger(version: &str, prologue: Vec<u8>) -> Swarm<Stranger> {
    let noise = |identity: &Keypair| {
        noise::Config::new(identity).map(|noise| noise.with_prologue(prologue))
    };
    let behaviour = |identity: &Keypair| Stranger {
        streams: libp2p_stream::Behaviour::new(),
        identify: identify::Behaviour::new(identify::Config::new(
            version.to_owned(),
            identity.public(),
        )),
        ping: ping::Behaviour::default(),
    };
    SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_tcp(tcp::Config::default(), noise, yamux::Config::default)
        .expect("a swarm")
        .with_behaviour(behaviour)
        .expect("a swarm")
        .with_swarm_config(|swarm| swarm.with_idle_connection_timeout(60 * SECOND))
        .build()
}
