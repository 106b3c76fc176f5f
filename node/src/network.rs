//! Peers on a local network: found by mDNS, an address or Kademlia, joined into a full mesh of
//! encrypted connections, with three lanes of messages to each. The [`Bus`] of the program.
//!
//! Life of a peer here: its address is learned → the lower id dials → both sides open one stream
//! per lane → [`BusEvent::Connected`] → messages → a stream or the connection breaks →
//! [`BusEvent::Lost`], the connection is closed, and dialled again.
//!
//! Invariants: the swarm runs on threads of its own, never in an actix arbiter. `Connected` comes
//! once per session and before its first message, `Lost` once and after its last. A broken stream
//! ends the whole session, because what was under way on it may be gone: whoever sees `Lost` and
//! then `Connected` knows that messages may be missing, and in no other case are any. Every
//! queue, table, retry and wait has a bound.
//!
//! Who may be a peer: whoever has the mesh key ([`MeshKey`]) and speaks [`PROTOCOL_VERSION`].
//! Everybody else is refused in the handshake, or right after it, and both sides are told why
//! ([`Refusal`]).
//!
//! Map: [`address`] which addresses make sense, `mesh_key` the key of the mesh, `identity` that of
//! the peer, both in a `secret_file`; `gate` who may begin a handshake, `admission` who may finish
//! it, `refusals` what the operator is told; `behaviour` the protocols, `protocol` their names,
//! `roster` whom to dial when, `directory` who announced what, `driver` the swarm's loop,
//! `session` one peer, `lane` frames.
//!
//! Not here: what messages mean (actors), relays.

pub mod address;
mod admission;
mod behaviour;
mod directory;
mod driver;
mod gate;
mod identity;
mod lane;
mod mesh_key;
mod protocol;
mod refusals;
mod roster;
mod secret_file;
mod session;

use self::{
    driver::{Command, Driver},
    lane::Outboxes,
    refusals::Refusals,
};
use brickmesh_actors::bus::{Bus, BusError, BusEvent, EVENTS_MAX, Lane};
use brickmesh_topology::PeerId;
use bytes::Bytes;
pub use libp2p::Multiaddr;
pub use mesh_key::{MeshKey, MeshKeyError};
pub use protocol::PROTOCOL_VERSION;
pub use refusals::Refusal;
pub use secret_file::SecretFileError;
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock, mpsc as blocking},
    thread,
    time::Duration,
};
use tokio::sync::{mpsc, oneshot, watch};

/// Where a peer listens if nothing else is asked for: every IPv4 interface, any free port, so
/// that several peers fit on one host; only private addresses are let in there.
pub const LISTEN_DEFAULT: &str = "/ip4/0.0.0.0/tcp/0";
/// Threads that carry connections: encryption of one fast link takes about one core. A machine
/// with few cores has one, for threads that wake each other cost more than they carry.
const WORKER_THREADS_MAX: usize = 4;
/// One such thread for so many cores.
const CORES_PER_WORKER: usize = 4;
/// Requests of the program that may wait for the swarm's loop.
const COMMANDS_MAX: usize = 64;
/// How long [`Network::start`] waits for the first address to listen on.
const FIRST_ADDRESS_MAX: Duration = Duration::from_secs(2);
/// How long [`Network::shutdown`] waits in all.
pub const SHUTDOWN_MAX: Duration = Duration::from_secs(2);
/// What of it the runtime's own tasks get, after the swarm has said goodbye.
const RUNTIME_SHUTDOWN_MAX: Duration = Duration::from_millis(300);

/// How a peer takes part in a network.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    /// The key of the mesh: only peers with the same one are connected to.
    pub key: MeshKey,
    /// File of the peer's own libp2p identity (ed25519); made with mode 0600 if it is missing.
    /// `None`: a new one at every start, which is all that a peer without a long memory needs.
    pub identity: Option<PathBuf>,
    /// Addresses to listen on; empty: [`LISTEN_DEFAULT`]. Connections from outside of private
    /// networks and this host are refused, unless an address given here is not private:
    /// `0.0.0.0` and `::` are not.
    pub listen: Vec<Multiaddr>,
    /// Addresses of peers to join, as [`address::parse`] gives them, with `/p2p/ID` if only that
    /// peer will do.
    /// Dialled for ever. Empty by default: mDNS finds the peers of a local network.
    pub join: Vec<Multiaddr>,
    /// Find peers by mDNS; on by default. It sees no peer behind a router and none on loopback.
    pub mdns: bool,
}

impl NetworkConfig {
    /// A peer of the mesh with this key, that listens as [`LISTEN_DEFAULT`] says and finds others
    /// by mDNS.
    #[must_use]
    pub fn new(key: MeshKey) -> Self {
        Self {
            key,
            identity: None,
            listen: Vec::new(),
            join: Vec::new(),
            mdns: true,
        }
    }

    /// Whether nobody asked to be reached from outside of private networks.
    fn is_private(&self) -> bool {
        self.listen.iter().all(address::is_private)
    }

    /// The configuration of a command line: addresses as [`address::parse`] reads them.
    ///
    /// # Errors
    /// [`NetworkError::BadAddress`] with the text of the first that is none.
    pub fn from_texts(
        key: MeshKey,
        identity: Option<PathBuf>,
        listen: &[String],
        join: &[String],
    ) -> Result<Self, NetworkError> {
        let parse = |texts: &[String]| -> Result<Vec<Multiaddr>, NetworkError> {
            texts.iter().map(|text| address::parse(text)).collect()
        };
        Ok(Self {
            identity,
            listen: parse(listen)?,
            join: parse(join)?,
            ..Self::new(key)
        })
    }
}

/// Why the network did not start, or did not take a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// The text is not an address that can be listened on or dialled.
    #[error(
        "{text:?} is not an address like 192.168.1.5:4001, lab-1:4001 or /ip4/192.168.1.5/tcp/4001"
    )]
    BadAddress {
        /// What was given.
        text: String,
    },
    /// The file with the peer's identity cannot be used.
    #[error("the identity {0}")]
    Identity(#[from] SecretFileError),
    /// The address cannot be listened on: taken, or not this host's.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// The address.
        address: Multiaddr,
        /// What the system said.
        reason: String,
    },
    /// Threads or protocols could not be started.
    #[error("cannot start the network: {reason}")]
    Start {
        /// What the system said.
        reason: String,
    },
    /// Too many requests wait, or the network has ended.
    #[error("the network takes no request now: busy or ended")]
    Busy,
}

/// A running peer of the network. Dropping it closes every connection.
#[derive(Debug)]
pub struct Network {
    bus: Arc<NetworkBus>,
    addresses: Arc<RwLock<Vec<Multiaddr>>>,
    refusals: Arc<Mutex<Refusals>>,
    commands: mpsc::Sender<Command>,
    stop: watch::Sender<bool>,
    ended: Mutex<blocking::Receiver<()>>,
}

impl Network {
    /// Starts listening, looking for peers and connecting. What happens comes out of the
    /// returned channel, at most [`EVENTS_MAX`] events ahead of its reader; a reader that stops
    /// reading stops the peers that send to it. Blocks up to about 2 s.
    ///
    /// # Errors
    /// [`NetworkError`]: addresses, the identity's file, or the system.
    pub fn start(config: NetworkConfig) -> Result<(Self, mpsc::Receiver<BusEvent>), NetworkError> {
        for address in &config.listen {
            address::check(address)?;
        }
        let key = identity::load(config.identity.as_deref())?;
        let local = peer_name(&key.public().to_peer_id());
        let outboxes = Arc::new(Outboxes::default());
        let addresses = Arc::new(RwLock::new(Vec::new()));
        let refusals = Arc::new(Mutex::new(Refusals::default()));
        let (events, received) = mpsc::channel(EVENTS_MAX);
        let (commands, requests) = mpsc::channel(COMMANDS_MAX);
        let (stop, stopped) = watch::channel(false);
        let (started, starting) = blocking::sync_channel(1);
        let (end, ended) = blocking::sync_channel(1);
        let links = driver::Links {
            outboxes: Arc::clone(&outboxes),
            addresses: Arc::clone(&addresses),
            refusals: Arc::clone(&refusals),
            events,
            requests,
            stopped,
        };
        thread::Builder::new()
            .name("brickmesh-network".into())
            .spawn(move || run(&config, key, links, &started, &end))
            .map_err(|error| start_error(&error))?;
        starting.recv().map_err(|error| start_error(&error))??;
        let network = Self {
            bus: Arc::new(NetworkBus { local, outboxes }),
            addresses,
            refusals,
            commands,
            stop,
            ended: Mutex::new(ended),
        };
        Ok((network, received))
    }

    /// What actors send through.
    #[must_use]
    pub fn bus(&self) -> Arc<dyn Bus> {
        Arc::clone(&self.bus) as Arc<dyn Bus>
    }

    /// Addresses at which this peer can be joined now, each with `/p2p/ID`.
    #[must_use]
    pub fn listen_addresses(&self) -> Vec<Multiaddr> {
        let addresses = self.addresses.read();
        addresses.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Peers that were refused within about the last minute, or that refused this one, and why;
    /// the oldest first, each once. Each was logged as a warning, too.
    #[must_use]
    pub fn refusals(&self) -> Vec<Refusal> {
        let refusals = self.refusals.lock();
        refusals.unwrap_or_else(PoisonError::into_inner).list()
    }

    /// The same of those at joined addresses: each that does not answer, or not as a peer of this
    /// mesh.
    #[must_use]
    pub fn refusals_of_joined(&self) -> Vec<Refusal> {
        let refusals = self.refusals.lock();
        refusals.unwrap_or_else(PoisonError::into_inner).of_joined()
    }

    /// Tells the network that this peer can give the content of `digest`. Returns at once; other
    /// peers learn of it within about a second.
    ///
    /// # Errors
    /// [`NetworkError::Busy`].
    pub fn provide(&self, digest: [u8; 32]) -> Result<(), NetworkError> {
        let command = Command::Provide(digest);
        self.commands
            .try_send(command)
            .map_err(|_| NetworkError::Busy)
    }

    /// Peers that can give the content of `digest`, in order of id; what was found until
    /// `timeout`. Needs no particular executor. Empty also if the network has ended or is busy.
    pub async fn find_providers(&self, digest: [u8; 32], timeout: Duration) -> Vec<PeerId> {
        let (reply, found) = oneshot::channel();
        let command = Command::FindProviders {
            digest,
            timeout,
            reply,
        };
        if self.commands.try_send(command).is_err() {
            return Vec::new();
        }
        found.await.unwrap_or_default()
    }

    /// Closes every connection and ends the network's threads; blocks up to 2 s. A second call
    /// does nothing. What was queued and not yet sent is gone.
    pub fn shutdown(&self) {
        self.stop.send_replace(true);
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(
            ended.recv_timeout(SHUTDOWN_MAX),
            Err(blocking::RecvTimeoutError::Timeout)
        ) {
            tracing::warn!(
                "the network's threads did not end in time; the program ends without them"
            );
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// The thread that owns the runtime, so that the runtime is never dropped inside of another one.
fn run(
    config: &NetworkConfig,
    key: libp2p::identity::Keypair,
    links: driver::Links,
    started: &blocking::SyncSender<Result<(), NetworkError>>,
    end: &blocking::SyncSender<()>,
) {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let workers = cores.div_ceil(CORES_PER_WORKER).min(WORKER_THREADS_MAX);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .thread_name("brickmesh-net-worker")
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return report(started, Err(start_error(&error))),
    };
    runtime.block_on(async {
        let mut driver = match Driver::new(config, key, links) {
            Ok(driver) => driver,
            Err(error) => return report(started, Err(error)),
        };
        driver.first_address(FIRST_ADDRESS_MAX).await;
        report(started, Ok(()));
        driver.run().await;
    });
    runtime.shutdown_timeout(RUNTIME_SHUTDOWN_MAX);
    if end.send(()).is_err() {
        tracing::debug!("nobody waited for the network's end");
    }
}

fn report(
    started: &blocking::SyncSender<Result<(), NetworkError>>,
    result: Result<(), NetworkError>,
) {
    if started.send(result).is_err() {
        tracing::debug!("nobody waited for the network's start");
    }
}

fn start_error(error: &dyn std::fmt::Display) -> NetworkError {
    NetworkError::Start {
        reason: error.to_string(),
    }
}

fn peer_name(peer: &libp2p::PeerId) -> PeerId {
    PeerId::new(&peer.to_base58())
}

/// The bus over connected peers' lane queues.
#[derive(Debug)]
struct NetworkBus {
    local: PeerId,
    outboxes: Arc<Outboxes>,
}

impl Bus for NetworkBus {
    fn local(&self) -> &PeerId {
        &self.local
    }

    fn send(&self, to: &PeerId, lane: Lane, message: Bytes) -> Result<(), BusError> {
        self.outboxes.send(to, lane, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_asks_for_more_than_private_addresses_is_reached_from_outside() {
        let is_private = |listen: &[&str]| {
            let listen: Vec<_> = listen.iter().map(|&text| text.to_owned()).collect();
            let key = MeshKey::random().unwrap();
            NetworkConfig::from_texts(key, None, &listen, &[])
                .unwrap()
                .is_private()
        };
        let private = ["/ip4/192.168.7.20/tcp/7070", "[fe80::1]:1", "127.0.0.1:0"];
        assert!(is_private(&[]) && is_private(&private));
        for asked in ["0.0.0.0:7070", "[::]:0", "8.8.8.8:1", "[::ffff:0.0.0.0]:1"] {
            assert!(!is_private(&[asked]), "{asked}");
            assert!(!is_private(&["10.0.0.1:1", asked]), "{asked}");
        }
    }
}
