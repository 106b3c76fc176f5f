//! A session: this process's peers, a data set that is open among them and whoever they find, and
//! frames of it.

mod mesh;
mod search;
mod shortage;

pub use mesh::DataSource;

use self::{
    mesh::Mesh,
    shortage::{Arrival, Arriving, read_for_frames},
};
use crate::{
    args::{MeshArgs, NetworkArgs},
    network::{MeshKey, MeshKeyError, Network, NetworkConfig, NetworkError, Refusal},
    progress::Progress,
    stop::Stop,
    terminal::note,
};
use brickmesh_actors::plain_text::plain_text;
use brickmesh_actors::{
    Peer, PeerConfig,
    brick_owner::{DataSetStatus, LeaveMesh, MeshStatus, ReadVoxel},
    device_slot::DeviceSupply,
    requester::{AskFrame, Frame, FrameError},
    viewpoints::{FollowViewer, ShowViewpoint},
};
use brickmesh_shaders::DeviceError;
use brickmesh_topology::{Camera, Digest, Manifest, PeerId, mesh::followers::Viewpoint};
pub use shortage::Shortage;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// How often the state of the mesh is looked at while waiting.
const POLL: Duration = Duration::from_millis(20);
/// How long a peer that leaves waits for others to take what only it holds.
pub const LEAVE_MAX: Duration = Duration::from_secs(30);
/// How long a goodbye of a peer that holds nothing may take.
const GOODBYE_MAX: Duration = Duration::from_secs(1);
/// Refusals that one error repeats.
const REFUSALS_TOLD_MAX: usize = 2;
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
    /// Whoever answers is of another mesh, or of another version.
    #[error("no peer of this mesh answers: {hint}")]
    Refused {
        /// Who was refused, and what to do about it.
        hint: String,
    },
    /// No placement could be chosen.
    #[error("--placement auto: {0}; name a placement")]
    Placement(String),
    /// Not all of the data set can be had, and all of it was asked for.
    #[error("{0}; --whole was asked for")]
    NotWhole(Shortage),
    /// Nothing of the data set can be had.
    #[error("{0}")]
    Nothing(Shortage),
    /// A frame that did not come; why may be what another peer says.
    #[error("frame: {}", plain_text(&.0.to_string()))]
    Frame(#[from] FrameError),
    /// No peer knows the data set.
    #[error("no data set {name:?} was found in the mesh; it has {known}{directory}")]
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

/// Hands over what only this peer holds, and says goodbye. Returns when that is done, or took too long.
pub async fn leave(peer: &Peer) {
    let leaving = tokio::time::timeout(LEAVE_MAX, peer.owner.send(LeaveMesh));
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
    if tokio::time::timeout(GOODBYE_MAX, peer.owner.send(LeaveMesh))
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
        let mut session = Self { mesh, manifest };
        if let Err(error) = session.wait_for_bricks(is_own, args.whole).await {
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
    pub fn manifest(&self) -> &Arc<Manifest> {
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

    /// The name of this process's peer.
    #[must_use]
    pub fn local(&self) -> &PeerId {
        &self.mesh.peers[0].id
    }

    /// Tells who follows this viewer from where it looks now.
    ///
    /// # Errors
    /// [`SessionError::Ended`].
    pub async fn show_camera(&self, camera: Camera) -> Result<(), SessionError> {
        let data_set = self.data_set();
        let show = ShowViewpoint(Viewpoint { data_set, camera });
        let shown = self.mesh.peers[0].viewpoints.send(show).await;
        shown.map_err(|_| SessionError::Ended)
    }

    /// Follows a viewer for a while: see [`FollowViewer`].
    ///
    /// # Errors
    /// [`SessionError::Ended`].
    pub async fn follow(
        &self,
        viewer: PeerId,
        to: watch::Sender<Option<Viewpoint>>,
    ) -> Result<(), SessionError> {
        let follow = FollowViewer { viewer, to };
        let asked = self.mesh.peers[0].viewpoints.send(follow).await;
        asked.map_err(|_| SessionError::Ended)
    }

    /// The value of a voxel as its holders have it, exactly: this peer, or another one. `None` where it is no
    /// data.
    ///
    /// # Errors
    /// Why it cannot be had, for people.
    pub async fn voxel(&self, voxel: [u32; 3]) -> Result<Option<f64>, String> {
        let (grid, volume) = (self.manifest.grid(), self.manifest.volume());
        let brick = grid.index(voxel.map(|v| v / grid.edge()));
        let brick = brick.ok_or("it is outside of the volume")?;
        let read = async |of| {
            let data_set = self.data_set();
            let read = ReadVoxel {
                data_set,
                voxel,
                of,
            };
            let found = self.mesh.peers[0].owner.send(read).await;
            let stored = found.map_err(|e| e.to_string()).flatten()?;
            #[expect(clippy::cast_possible_truncation, reason = "a voxel is an f32")]
            let is_data = !volume.is_no_data(stored as f32);
            Ok(is_data.then(|| volume.value(stored)))
        };
        let mut why = match read(None).await {
            Ok(found) => return Ok(found),
            Err::<_, String>(why) => why,
        };
        let status = self.status().await.map_err(|e| e.to_string())?;
        let mut of_set = status.data_sets.iter();
        let of_set = of_set.find(|d| d.manifest.digest() == self.data_set());
        let mut holders: Vec<_> = of_set
            .into_iter()
            .flat_map(|d| &d.residency)
            .filter(|(_, has)| has.source || has.held.contains(brick))
            .map(|(peer, _)| peer.clone())
            .collect();
        holders.sort_by_key(|peer| status.suspects.contains(peer));
        for of in holders {
            match read(Some(of)).await {
                Ok(found) => return Ok(found),
                Err(failed) => why = failed,
            }
        }
        Err(why)
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

    /// Waits until every peer with memory holds what its placement asks for, or until it is clear
    /// that no more comes. Where bricks are missing then, frames say which; with `whole` that is an
    /// error.
    async fn wait_for_bricks(&mut self, is_own: bool, whole: bool) -> Result<(), SessionError> {
        let mut progress = Progress::new("loading bricks");
        let mut arriving = Arriving::new(Instant::now());
        loop {
            let status = self.status().await?;
            let of_set = |d: &&DataSetStatus| d.manifest.digest() == self.data_set();
            let data_set = status.data_sets.iter().find(of_set);
            let data_set = data_set.ok_or(SessionError::Ended)?;
            match arriving.look(&status, data_set, is_own, Instant::now()) {
                Arrival::UnderWay => {}
                Arrival::Done => {
                    if let Some(read) = read_for_frames(data_set) {
                        note(format_args!("brickmesh: {read}"));
                    }
                    return Ok(());
                }
                Arrival::Short(shortage) if whole => return Err(SessionError::NotWhole(shortage)),
                Arrival::Short(shortage) if shortage.is_all() => {
                    return Err(SessionError::Nothing(shortage));
                }
                Arrival::Short(shortage) => {
                    tracing::warn!("{shortage}; what there is is shown");
                    return Ok(());
                }
            }
            let bricks = data_set.manifest.grid().brick_count();
            progress.show(
                u64::from(bricks - data_set.safety.missing),
                u64::from(bricks),
            );
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
