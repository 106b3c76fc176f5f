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
    args::{MeshArgs, NetworkArgs, QualityArg},
    network::{MeshKey, MeshKeyError, Network, NetworkConfig, NetworkError, Refusal},
    progress::Progress,
    stop::Stop,
    terminal::note,
};
use brickmesh_actors::plain_text::plain_text;
use brickmesh_actors::{
    Peer, PeerConfig,
    brick_owner::{DataSetStatus, LeaveMesh, MeshStatus, ReadVoxel},
    data_set::BrickSource,
    device_slot::DeviceSupply,
    requester::{AskFrame, Frame, FrameError},
    viewpoints::{FollowViewer, ShowViewpoint},
};
use brickmesh_shaders::DeviceError;
use brickmesh_topology::{
    Camera, Digest, Manifest, PeerId, RenderSettings, View, VolumeDescription,
    balance::plan_rules::PlanRules,
    data::levels,
    mesh::followers::Viewpoint,
    picture::{
        clip::Clip,
        level_choice::{level_for, settings_at},
    },
};
pub use shortage::Shortage;
pub(crate) use shortage::bytes_in_words;
use std::{
    collections::BTreeMap,
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
    /// A level that cannot be seen.
    #[error("level {level}: {why}")]
    Level {
        /// The level.
        level: usize,
        /// Why.
        why: String,
    },
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
    /// Of level 0, whether that is open or not.
    manifest: Arc<Manifest>,
    /// Of the same; nothing: the mesh holds the data set.
    source: Option<Arc<dyn BrickSource>>,
    /// Copies of each brick that are wanted.
    redundancy: u32,
    /// Missing bricks are an error.
    whole: bool,
    /// The volume and its levels, finest first.
    volumes: Vec<VolumeDescription>,
    /// Levels that can be seen, and their manifests.
    open: watch::Sender<OpenLevels>,
}

/// Levels of a data set that are open, whose bricks have come, by their numbers.
pub(crate) type OpenLevels = BTreeMap<usize, Arc<Manifest>>;

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
        Ok(Ok(0)) => {}
        Ok(Ok(missing)) => tracing::warn!(
            "nobody who stays has {missing} bricks that this peer had: they are missing until it is back"
        ),
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
    /// Starts peers, and finds the data set in the mesh where it is none of this machine's. None of its levels can be seen
    /// yet: [`Self::open_level`].
    ///
    /// # Errors
    /// [`SessionError`], any but a frame's.
    pub async fn open(
        source: DataSource,
        args: &MeshArgs,
        stop: Stop,
    ) -> Result<Self, SessionError> {
        let alone = args.peers == 1 && !args.mesh;
        let redundancy = args.redundancy.unwrap_or(if alone { 1 } else { 2 });
        let mesh = Mesh::start(args, alone, stop)?;
        // From here on others know this peer: without a goodbye they would wait for it.
        let (manifest, source) = match mesh.data_set(source, args, redundancy).await {
            Ok(found) => found,
            Err(error) => {
                mesh.leave().await;
                return Err(error);
            }
        };
        let mut volumes = levels::levels(manifest.volume(), manifest.grid().edge());
        volumes.truncate(manifest.levels().len() + 1);
        Ok(Self {
            mesh,
            manifest,
            source,
            redundancy,
            whole: args.whole,
            volumes,
            open: watch::channel(BTreeMap::new()).0,
        })
    }

    /// Opens a level, if it is not open, and waits until every peer holds its share of it; 0 is the data set itself.
    ///
    /// # Errors
    /// [`SessionError`], any but a frame's.
    pub async fn open_level(&self, level: usize) -> Result<Arc<Manifest>, SessionError> {
        self.open_level_once(level, Arriving::new).await
    }

    /// As [`Self::open_level`], as soon as each brick is held by some peer or can be read for frames, for pictures that are wanted soon.
    ///
    /// # Errors
    /// As [`Self::open_level`].
    pub(crate) async fn open_level_soon(
        &self,
        level: usize,
    ) -> Result<Arc<Manifest>, SessionError> {
        self.open_level_once(level, Arriving::of_first_copies).await
    }

    async fn open_level_once(
        &self,
        level: usize,
        arriving: fn(Instant) -> Arriving,
    ) -> Result<Arc<Manifest>, SessionError> {
        if let Some(open) = self.open.borrow().get(&level) {
            return Ok(Arc::clone(open));
        }
        let wrong = |why| SessionError::Level { level, why };
        let manifest = match &self.source {
            Some(source) => {
                let source = Arc::clone(source);
                let opening = tokio::task::spawn_blocking(move || match level {
                    0 => Ok(source),
                    _ => source.level(level).map_err(|e| e.what),
                });
                let opened = opening.await.map_err(|e| e.to_string()).flatten();
                self.mesh
                    .offer(opened.map_err(wrong)?, self.redundancy)
                    .await?
            }
            None if level == 0 => Arc::clone(&self.manifest),
            None => {
                let name = self.manifest.levels().get(level - 1);
                let name = name.ok_or_else(|| wrong(self.coarsest_in_words()))?;
                let found = self.mesh.find_beside(*name).await?;
                let nobody = "no peer of the mesh offers it; see another one, or exact";
                found.ok_or_else(|| wrong(nobody.to_owned()))?
            }
        };
        if self.volumes.get(level) != Some(manifest.volume()) {
            return Err(wrong(
                "it is of another volume; import the volume again".to_owned(),
            ));
        }
        self.wait_for_bricks(&manifest, arriving).await?;
        self.provide(&manifest);
        self.open.send_modify(|open| {
            open.insert(level, Arc::clone(&manifest));
        });
        Ok(manifest)
    }

    /// The same with the next finer level where this one cannot be had; which it is.
    ///
    /// # Errors
    /// As [`Self::open_level`], where the data set itself cannot be opened.
    pub(crate) async fn open_level_or_finer(
        &self,
        mut level: usize,
    ) -> Result<(usize, Arc<Manifest>), SessionError> {
        loop {
            match self.open_level(level).await {
                Err(error @ SessionError::Level { .. }) if level > 0 => {
                    tracing::warn!("{error}; the next finer one is seen");
                    level -= 1;
                }
                opened => return opened.map(|manifest| (level, manifest)),
            }
        }
    }

    /// Hears which levels are open.
    pub(crate) fn open_levels(&self) -> watch::Receiver<OpenLevels> {
        self.open.subscribe()
    }

    /// The volume and its levels, finest first.
    #[must_use]
    pub fn volumes(&self) -> &[VolumeDescription] {
        &self.volumes
    }

    /// The finest level that is open; the data set itself where none is.
    pub(crate) fn finest(&self) -> Arc<Manifest> {
        let open = self.open.borrow();
        Arc::clone(open.values().next().unwrap_or(&self.manifest))
    }

    fn coarsest_in_words(&self) -> String {
        match self.volumes.len() - 1 {
            0 => "the data set has none; `brickmesh import` makes them of a volume that is longer than a brick, without --keep, --mask and --slab".to_owned(),
            coarsest => format!("the coarsest is {coarsest}"),
        }
    }

    /// The level that pictures of this quality and view need.
    ///
    /// # Errors
    /// [`SessionError::Level`] where there is no such level.
    pub fn level_of(
        &self,
        quality: QualityArg,
        view: &View,
        clip: &Clip,
    ) -> Result<usize, SessionError> {
        match quality {
            QualityArg::Exact => Ok(0),
            QualityArg::Auto => Ok(level_for(view, &self.volumes, clip)),
            QualityArg::Level(level) => {
                let level = usize::from(level);
                let why = || self.coarsest_in_words();
                (level < self.volumes.len())
                    .then_some(level)
                    .ok_or_else(|| SessionError::Level { level, why: why() })
            }
        }
    }

    /// Asks for a frame of a level: what is seen of the volume with these settings.
    #[must_use]
    pub fn ask(
        &self,
        level: &Manifest,
        view: View,
        settings: &RenderSettings,
        rules: PlanRules,
    ) -> AskFrame {
        AskFrame {
            data_set: level.digest(),
            view,
            settings: if level.digest() == self.data_set() {
                settings.clone()
            } else {
                settings_at(settings, self.manifest.volume(), level.volume())
            },
            rules,
            is_traced: false,
            tiles: None,
        }
    }

    /// Makes a provider record: the data set can be found by its name alone.
    fn provide(&self, manifest: &Manifest) {
        if let Some(network) = &self.mesh.network
            && let Err(error) = network.provide(*manifest.digest().as_bytes())
        {
            tracing::warn!(%error, "the data set is not in the mesh's directory; peers that are connected know it all the same");
        }
    }

    /// The data set, which is level 0.
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
        let value_of = |stored: f64| {
            #[expect(clippy::cast_possible_truncation, reason = "a voxel is an f32")]
            let is_data = !volume.is_no_data(stored as f32);
            is_data.then(|| volume.value(stored))
        };
        let read = async |of| {
            let data_set = self.data_set();
            let read = ReadVoxel {
                data_set,
                voxel,
                of,
            };
            let found = self.mesh.peers[0].owner.send(read).await;
            let stored = found.map_err(|e| e.to_string()).flatten()?;
            Ok(value_of(stored))
        };
        let is_open = self.open.borrow().contains_key(&0);
        if let Some(source) = self.source.as_ref().filter(|_| !is_open) {
            // Coarser levels are seen, and nobody holds this one.
            let source = Arc::clone(source);
            let reading = tokio::task::spawn_blocking(move || source.read(brick));
            let bytes = reading.await.map_err(|e| e.to_string())?;
            let bytes = bytes.map_err(|e| e.what)?;
            let stored = self.manifest.stored_number(brick, &bytes, voxel);
            return stored
                .map(value_of)
                .ok_or_else(|| "its brick is damaged".to_owned());
        }
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
            .filter(|(_, has)| has.gives(brick))
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

    /// Waits until every peer with memory holds what its placement asks for (where bricks are read for frames: those that have
    /// the source), or until it is clear that no more comes. Where bricks are missing then, frames say which; with `whole` that is an
    /// error.
    async fn wait_for_bricks(
        &self,
        manifest: &Manifest,
        arriving: fn(Instant) -> Arriving,
    ) -> Result<(), SessionError> {
        let (is_own, whole) = (self.source.is_some(), self.whole);
        let mut progress = Progress::new("loading bricks");
        let mut arriving = arriving(Instant::now());
        loop {
            let status = self.mesh.status_with_unreadable().await?;
            let of_set = |d: &&DataSetStatus| d.manifest.digest() == manifest.digest();
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
