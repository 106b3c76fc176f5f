//! A session: this process's peers, a data set that is open among them and whoever they find, and
//! frames of it.

mod mesh;
mod search;

pub use mesh::DataSource;

use self::mesh::Mesh;
use crate::{
    args::{MeshArgs, NetworkArgs},
    network::{MeshKey, MeshKeyError, Network, NetworkConfig, NetworkError, Refusal},
    peer_names,
    progress::Progress,
    stop::Stop,
};
use brickmesh_actors::{
    Peer, PeerConfig,
    brick_owner::{DataSetStatus, LeaveMesh, MeshStatus},
    device_slot::DeviceSupply,
    requester::{AskFrame, Frame, FrameError},
};
use brickmesh_shaders::DeviceError;
use brickmesh_topology::{Digest, Manifest, PeerId, plain_text::plain_text};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// How often the state of the mesh is looked at while waiting.
const POLL: Duration = Duration::from_millis(20);
/// How long a peer that leaves waits for others to take what only it holds.
pub const LEAVE_MAX: Duration = Duration::from_secs(30);
/// How long a goodbye of a peer that holds nothing may take.
const GOODBYE_MAX: Duration = Duration::from_secs(1);
/// A mesh that holds too little for so long, and gets nothing more, is too small; one that holds
/// every brick, though not all copies, and gets nothing more, will do.
const SETTLED: Duration = Duration::from_secs(5);
/// Refusals that one error repeats.
const REFUSALS_TOLD_MAX: usize = 2;
/// How long bricks may make no progress.
const STALL: Duration = Duration::from_secs(60);

/// A session that cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// No device.
    #[error("device: {0}")]
    Device(#[from] DeviceError),
    /// No network.
    #[error("network: {0}")]
    Network(#[from] NetworkError),
    /// No mesh key.
    #[error(transparent)]
    MeshKey(#[from] MeshKeyError),
    /// Too few peers came.
    #[error("{found} other peers were found within {seconds} s, {wanted} were asked for; {hint}")]
    Peers {
        /// Peers found.
        found: usize,
        /// Peers asked for.
        wanted: u32,
        /// Seconds waited.
        seconds: u64,
        /// What to do: about those that were refused, if any were.
        hint: String,
    },
    /// The mesh is too small for the data set.
    #[error(
        "{missing} of {bricks} bricks have no place: the mesh offers too little memory ({rooms}); start more peers, or give more with --memory"
    )]
    TooSmall {
        /// Bricks without a holder.
        missing: u32,
        /// Bricks of the data set.
        bricks: u32,
        /// Memory by peer, for people.
        rooms: String,
    },
    /// Bricks do not arrive.
    #[error("no brick has arrived for {} s; {missing} of {bricks} are missing", STALL.as_secs())]
    Stalled {
        /// Bricks without a holder.
        missing: u32,
        /// Bricks of the data set.
        bricks: u32,
    },
    /// A frame that did not come; why may be what another peer says.
    #[error("frame: {}", plain_text(&.0.to_string()))]
    Frame(#[from] FrameError),
    /// No peer knows the data set.
    #[error(
        "no data set {name:?} was found in the mesh within {} s; it has {known}{directory}", search::FIND_WAIT.as_secs()
    )]
    NotFound {
        /// What was asked for.
        name: String,
        /// The data sets that are there, for people.
        known: String,
        /// Who had it, by the mesh's directory, for people; empty: nobody.
        directory: String,
    },
    /// Several data sets have the name.
    #[error("{name:?} is the name of several data sets, say which: {digests}")]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// Their digests.
        digests: String,
    },
    /// Ctrl-C.
    #[error("stopped")]
    Stopped,
    /// A bug: an actor is gone.
    #[error("a part of this peer has ended; please report this with the log (-vv)")]
    Ended,
}

/// See the module.
#[derive(Debug)]
pub struct Session {
    mesh: Mesh,
    manifest: Arc<Manifest>,
    names: BTreeMap<PeerId, String>,
}

/// Starts the peer of this process in the mesh with this key; returns it with its network.
///
/// # Errors
/// [`SessionError::Network`].
pub fn start_network_peer(
    config: PeerConfig,
    device: impl Into<DeviceSupply>,
    key: MeshKey,
    network: &NetworkArgs,
) -> Result<(Peer, Network), SessionError> {
    let identity = network.identity.clone();
    let network_config = NetworkConfig::from_texts(key, identity, &network.listen, &network.join)?;
    let (network, events) = Network::start(network_config)?;
    let peer = Peer::start(config, device, network.bus(), events);
    Ok((peer, network))
}

/// Hands over what only this peer holds and somebody needs, or with `unused` all of it, and says
/// goodbye. Returns when that is done, or took too long.
pub async fn leave(peer: &Peer, unused: bool) {
    let leaving = tokio::time::timeout(LEAVE_MAX, peer.owner.send(LeaveMesh { unused }));
    match leaving.await {
        Ok(Ok(())) => {}
        Ok(Err(_)) => tracing::debug!("the peer has ended before"),
        Err(_) => tracing::warn!(
            "after {} s others do not hold all that this peer held; it leaves nevertheless, and what nobody else holds is missing until it is back",
            LEAVE_MAX.as_secs()
        ),
    }
    // The goodbye is on its way.
    tokio::time::sleep(POLL).await;
}

/// Says goodbye for a peer that holds nothing, so that nobody takes it for a silent one.
pub async fn say_goodbye(peer: &Peer) {
    let leave = LeaveMesh { unused: false };
    if tokio::time::timeout(GOODBYE_MAX, peer.owner.send(leave))
        .await
        .is_err()
    {
        tracing::debug!("the goodbye took too long");
    }
    // It is on its way.
    tokio::time::sleep(POLL).await;
}

/// What this machine is called.
#[must_use]
pub fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() {
        "peer".to_owned()
    } else {
        name.to_owned()
    }
}

impl Session {
    /// Starts peers, opens the data set or finds it in the mesh, and waits until every peer holds
    /// its share.
    ///
    /// # Errors
    /// [`SessionError`], any but a frame's.
    pub async fn open(
        source: DataSource,
        args: &MeshArgs,
        stop: Stop,
    ) -> Result<Self, SessionError> {
        let alone = args.peers == 1 && !args.mesh;
        let is_own = matches!(source, DataSource::Own(_));
        let mut mesh = Mesh::start(args, alone, stop)?;
        // From here on others know this peer: without a goodbye they would wait for it.
        let manifest = match mesh.data_set(source, args, alone).await {
            Ok(manifest) => manifest,
            Err(error) => {
                mesh.leave().await;
                return Err(error);
            }
        };
        let mut session = Self {
            mesh,
            manifest,
            names: BTreeMap::new(),
        };
        if let Err(error) = session.wait_for_bricks(is_own).await {
            session.close().await;
            return Err(error);
        }
        session.provide();
        Ok(session)
    }

    /// Makes a provider record: the data set can be found by its name alone.
    fn provide(&self) {
        if let Some(network) = &self.mesh.network
            && let Err(error) = network.provide(*self.data_set().as_bytes())
        {
            tracing::warn!(%error, "the data set is not in the mesh's directory; peers that are connected know it all the same");
        }
    }

    /// The data set.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Name of the data set.
    #[must_use]
    pub fn data_set(&self) -> Digest {
        self.manifest.digest()
    }

    /// Hears when the session is to stop.
    #[must_use]
    pub fn stop(&self) -> Stop {
        self.mesh.stop.clone()
    }

    /// A peer's name for people; see [`peer_names::distinct`].
    #[must_use]
    pub fn name(&self, peer: &PeerId) -> String {
        self.names
            .get(peer)
            .cloned()
            .unwrap_or_else(|| peer.short().to_owned())
    }

    /// Renders a frame.
    ///
    /// # Errors
    /// [`SessionError::Frame`], [`SessionError::Stopped`].
    pub async fn frame(&self, ask: AskFrame) -> Result<Frame, SessionError> {
        let mut stop = self.mesh.stop.clone();
        let frame = self.mesh.peers[0].requester.send(ask);
        tokio::select! {
            frame = frame => Ok(frame.map_err(|_| SessionError::Ended)??),
            () = stop.said() => Err(SessionError::Stopped),
        }
    }

    /// Who is in the mesh and what each holds.
    ///
    /// # Errors
    /// [`SessionError::Ended`].
    pub async fn status(&self) -> Result<MeshStatus, SessionError> {
        self.mesh.status().await
    }

    /// Leaves the mesh politely, and ends the devices of this process's peers. Frames that are under
    /// way do not come any more.
    pub async fn close(&self) {
        self.mesh.leave().await;
    }

    /// Waits until every peer with memory holds what its placement asks for, or every brick is held
    /// and nothing more comes. Of a data set that is not this machine's own, bricks may be missing:
    /// frames say which.
    async fn wait_for_bricks(&mut self, is_own: bool) -> Result<(), SessionError> {
        let mut progress = Progress::new("loading bricks");
        let (mut last_change, mut last_held) = (Instant::now(), 0);
        let mut full_since = None;
        loop {
            let status = self.status().await?;
            self.names = peer_names::distinct(&status);
            let data_set = status
                .data_sets
                .iter()
                .find(|d| d.manifest.digest() == self.data_set());
            let data_set = data_set.ok_or(SessionError::Ended)?;
            let holding = status.peers.iter().filter(|(_, h)| h.memory_bytes > 0);
            let settled = holding
                .clone()
                .all(|(p, _)| data_set.residency.get(p).is_some_and(|r| r.settled));
            let bricks = data_set.manifest.grid().brick_count();
            let missing = data_set.safety.missing;
            let held = held(data_set);
            if held != last_held {
                (last_change, last_held) = (Instant::now(), held);
            }
            // Whoever says that it will hold bricks and gets none is not waited for.
            if missing == 0 && (settled || last_change.elapsed() > SETTLED) {
                return Ok(());
            }
            if !settled {
                full_since = None;
            }
            // Peers that learn of each other one by one are settled in between.
            if settled && full_since.get_or_insert_with(Instant::now).elapsed() > SETTLED {
                if !is_own {
                    tracing::warn!(missing, bricks, "nobody holds some of the bricks");
                    return Ok(());
                }
                return Err(SessionError::TooSmall {
                    missing,
                    bricks,
                    rooms: rooms(&status),
                });
            }
            if last_change.elapsed() > STALL {
                return Err(SessionError::Stalled { missing, bricks });
            }
            progress.show(u64::from(bricks - missing), u64::from(bricks));
            self.mesh.pause().await?;
        }
    }
}

/// Why peers were refused, in one line; all of them are in the log.
pub(crate) fn in_words(refusals: &[Refusal]) -> String {
    let told = refusals.len().min(REFUSALS_TOLD_MAX);
    let mut words: Vec<String> = refusals[..told].iter().map(ToString::to_string).collect();
    if refusals.len() > told {
        words.push(format!("{} more like this", refusals.len() - told));
    }
    words.join("; ")
}

fn held(data_set: &DataSetStatus) -> u64 {
    data_set
        .residency
        .values()
        .map(|r| u64::from(r.held.len()))
        .sum()
}

fn rooms(status: &MeshStatus) -> String {
    let each = status
        .peers
        .values()
        .map(|h| format!("{} {} MiB", plain_text(&h.name), h.memory_bytes >> 20));
    each.collect::<Vec<_>>().join(", ")
}
