//! This process's peers in their mesh, before a data set is open: waiting for others, finding data
//! sets by name (which one is meant decides `search`).

use super::{
    POLL, SessionError, leave, machine_name,
    search::{FIND_WAIT, Found, Search, in_words},
    start_network_peer,
};
use crate::{
    args::{MeshArgs, PlacementArg, placement_name},
    brick_store::Placed,
    device_choice::{self, Chosen},
    network::{MeshKey, Network, Refusal},
    placement_choice::{Comparison, LINK_MBIT, room},
    progress::Progress,
    stop::Stop,
    terminal::note,
};
use actix::Addr;
use brickmesh_actors::{
    Peer, PeerConfig,
    brick_owner::{AskStatus, BrickOwner, DataSetStatus, MeshStatus, OpenSource, UseDataSet},
    data_set::BrickSource,
    local_bus::LocalHub,
};
use brickmesh_shaders::DeviceError;
use brickmesh_topology::{
    Digest, Manifest, PeerId,
    balance::{
        partition::PartitionMethod,
        placement::{
            comparison::{ComparedDevice, chosen},
            partitioned::place_partition,
        },
        roster::SPEED_MAX,
        schedule::SPEED_ONE,
    },
    mesh::keeper::Hello,
};
use futures::future::join_all;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// How long peers are waited for with `--mesh`.
const PEERS_WAIT: Duration = Duration::from_secs(30);
/// Peers in the room are found within this, if there are any.
const ROOM_WAIT: Duration = Duration::from_secs(3);
/// Pictures for which `--placement auto` chooses.
const AUTO_PIXELS: (u32, u32) = (1024, 1024);
/// How long a data set that belongs to one that was found may take to be known, too.
const BESIDE_WAIT: Duration = Duration::from_secs(1);
/// How long the mesh's directory may take to say who had a data set.
const DIRECTORY_WAIT: Duration = Duration::from_secs(2);

/// The peers that are there, as placements see them. Of one that has rendered nothing yet the speed is not known: it is taken for that of
/// the mean.
fn devices(manifest: &Manifest, status: &MeshStatus) -> Vec<ComparedDevice> {
    let device = |(peer, hello): (&PeerId, &Hello)| {
        let speed = status.vitals.get(peer).and_then(|v| v.speed_millionths);
        ComparedDevice {
            room: room(manifest, hello.memory_bytes),
            speed_millionths: speed.unwrap_or(SPEED_ONE).clamp(1, SPEED_MAX),
        }
    };
    status.peers.iter().map(device).collect()
}

/// Whether there is a part for each of the peers that are there.
fn can_be_parted(method: PartitionMethod, manifest: &Manifest, status: &MeshStatus) -> bool {
    let rooms = devices(manifest, status).into_iter().map(|d| d.room);
    let (rooms, weights) = (rooms.collect::<Vec<_>>(), manifest.occupied_voxels());
    place_partition(manifest.grid(), &weights, &rooms, method, 1).is_some()
}

/// What a session shows.
#[derive(Clone, Debug)]
pub enum DataSource {
    /// A volume of this machine.
    Own(Arc<dyn BrickSource>),
    /// A data set that the mesh holds: its digest or the first digits of it, or the name of the
    /// file it came from.
    Named(String),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Mesh {
    pub(super) peers: Vec<Peer>,
    pub(super) network: Option<Network>,
    pub(super) stop: Stop,
    /// Addresses that were given to join.
    given: usize,
}

impl Mesh {
    pub(super) fn start(args: &MeshArgs, alone: bool, stop: Stop) -> Result<Self, SessionError> {
        let (peers, network) = start_peers(args, alone)?;
        Ok(Self {
            peers,
            network,
            stop,
            given: args.network.join.len(),
        })
    }

    pub(super) fn owner(&self) -> &Addr<BrickOwner> {
        &self.peers[0].owner
    }

    pub(super) async fn status(&self) -> Result<MeshStatus, SessionError> {
        let status = self.owner().send(AskStatus).await;
        status.map_err(|_| SessionError::Ended)
    }

    /// The same, where bricks are missing with those that any peer of this process cannot read.
    pub(super) async fn status_with_unreadable(&self) -> Result<MeshStatus, SessionError> {
        let mut status = self.status().await?;
        let mut lacking: Vec<_> = (status.data_sets.iter_mut())
            .filter(|set| set.safety.missing > 0)
            .collect();
        if lacking.is_empty() {
            return Ok(status);
        }
        for peer in self.peers.iter().skip(1) {
            let other = peer.owner.send(AskStatus).await;
            for set in other.map_err(|_| SessionError::Ended)?.data_sets {
                let same =
                    |own: &&mut &mut DataSetStatus| own.manifest.digest() == set.manifest.digest();
                if let Some(own) = lacking.iter_mut().find(same) {
                    own.unreadable.extend(set.unreadable);
                }
            }
        }
        Ok(status)
    }

    /// Leaves the mesh where there is one beyond this process, ends the network, then the devices.
    pub(super) async fn leave(&self) {
        if let Some(network) = &self.network {
            leave(&self.peers[0]).await;
            network.shutdown();
        }
        join_all(self.peers.iter().map(Peer::end)).await;
    }

    /// The data set of this source, or that is found among the peers that are asked for; where it is this machine's, its bricks,
    /// as they are to be placed.
    pub(super) async fn data_set(
        &self,
        source: DataSource,
        args: &MeshArgs,
        redundancy: u32,
    ) -> Result<(Arc<Manifest>, Option<Arc<dyn BrickSource>>), SessionError> {
        // Who is not known when a data set is opened gets no part of its first placement.
        let wanted = if args.mesh {
            args.wait_peers
        } else {
            args.peers - 1
        };
        self.wait_for_peers(wanted).await?;
        match source {
            DataSource::Own(source) => {
                let source = if args.placement == Some(PlacementArg::Auto) {
                    self.placed(source, redundancy).await?
                } else {
                    source
                };
                Ok((Arc::clone(source.manifest()), Some(source)))
            }
            DataSource::Named(name) => Ok((self.find(name).await?, None)),
        }
    }

    /// Opens a data set of this machine.
    pub(super) async fn offer(
        &self,
        source: Arc<dyn BrickSource>,
        redundancy: u32,
    ) -> Result<Arc<Manifest>, SessionError> {
        let manifest = Arc::clone(source.manifest());
        let status = self.status().await?;
        let is_it = |set: &&DataSetStatus| set.manifest.digest() == manifest.digest();
        let known = status.data_sets.iter().find(is_it);
        if known.is_some_and(|set| set.manifest.placement() != manifest.placement()) {
            note("brickmesh: the data set is open in the mesh with another placement, which stays");
        } else if known.is_none()
            && let Some(method) = manifest.placement()
            && !can_be_parted(method, &manifest, &status)
        {
            note(format_args!(
                "brickmesh: placement {}: it has no parts for the peers that are there: their memory is too small for \
                         them, or there are more peers than parts. Bricks are scattered. Give peers more --memory, or ask for \
                         another --placement",
                placement_name(Some(method))
            ));
        }
        // All peers of this process can read it.
        for peer in &self.peers {
            let source = Arc::clone(&source);
            let opened = peer.owner.send(OpenSource { source, redundancy }).await;
            opened.map_err(|_| SessionError::Ended)?;
        }
        Ok(manifest)
    }

    /// The bricks placed as frames are expected to take least on the peers that are there.
    async fn placed(
        &self,
        source: Arc<dyn BrickSource>,
        redundancy: u32,
    ) -> Result<Arc<dyn BrickSource>, SessionError> {
        let status = self.status().await?;
        let manifest = Arc::clone(source.manifest());
        let devices = devices(&manifest, &status);
        let stop = self.stop.clone();
        // It may take seconds, in which this peer goes on.
        let choosing = tokio::task::spawn_blocking(move || {
            let comparison = Comparison {
                manifest: &manifest,
                devices: &devices,
                copies_max: redundancy,
                link_mbit: LINK_MBIT,
                size: AUTO_PIXELS,
            };
            let rows = comparison.rows(&|| !stop.is_said());
            let rows = rows.map_err(|e| e.to_string())?;
            Ok(chosen(&rows, redundancy, &devices))
        });
        let method = choosing.await.unwrap_or_else(|e| Err(e.to_string()));
        let method = method.map_err(SessionError::Placement)?;
        note(format_args!(
            "brickmesh: placement {}",
            placement_name(method)
        ));
        Ok(Arc::new(Placed::new(source, method)))
    }

    /// Waits until it is clear which data set of the mesh has this name, and uses it.
    pub(super) async fn find(&self, name: String) -> Result<Arc<Manifest>, SessionError> {
        let start = Instant::now();
        let mut search = Search::new(name.clone(), start);
        let mut progress = Progress::new("looking for the data set");
        loop {
            let status = self.status().await?;
            match search.look(&status, Instant::now()) {
                Found::NotYet => {}
                Found::One(manifest) => {
                    self.use_data_set(manifest.digest()).await?;
                    return Ok(manifest);
                }
                Found::Several(named) => {
                    let digests = in_words(&named);
                    return Err(SessionError::Ambiguous { name, digests });
                }
                Found::Nothing(others) => {
                    let directory = self.in_directory(&name).await;
                    return Err(SessionError::NotFound {
                        name,
                        known: in_words(&others),
                        directory,
                    });
                }
            }
            self.end_if_refused(&status, start)?;
            progress.show(start.elapsed().as_secs(), FIND_WAIT.as_secs());
            self.pause().await?;
        }
    }

    async fn use_data_set(&self, data_set: Digest) -> Result<(), SessionError> {
        let in_use = true;
        let used = self.owner().send(UseDataSet { data_set, in_use }).await;
        used.map_err(|_| SessionError::Ended)
    }

    /// A data set that belongs to one that was found, and uses it; `None`: nobody opened it.
    pub(super) async fn find_beside(
        &self,
        data_set: Digest,
    ) -> Result<Option<Arc<Manifest>>, SessionError> {
        let start = Instant::now();
        loop {
            let status = self.status().await?;
            let mut sets = status.data_sets.iter().map(|d| &d.manifest);
            if let Some(manifest) = sets.find(|m| m.digest() == data_set) {
                self.use_data_set(data_set).await?;
                return Ok(Some(Arc::clone(manifest)));
            }
            let waited = start.elapsed();
            if waited > FIND_WAIT || waited > BESIDE_WAIT && !status.awaits_data_sets {
                return Ok(None);
            }
            self.pause().await?;
        }
    }

    /// Who had a data set, by the mesh's directory (Kademlia), where nobody who is connected knows it;
    /// for people. The directory forgets after two days.
    async fn in_directory(&self, name: &str) -> String {
        let digest = name.parse::<Digest>().ok();
        let (Some(network), Some(digest)) = (&self.network, digest) else {
            return String::new();
        };
        let by = network.find_providers(*digest.as_bytes(), DIRECTORY_WAIT);
        let by: Vec<String> = by.await.iter().map(|p| p.short().to_owned()).collect();
        if by.is_empty() {
            return String::new();
        }
        let by = by.join(", ");
        format!(
            "; in the mesh's directory it is with {by}: gone since, or not to be reached from here"
        )
    }

    pub(super) async fn pause(&self) -> Result<(), SessionError> {
        let mut stop = self.stop.clone();
        tokio::select! {
            () = tokio::time::sleep(POLL) => Ok(()),
            () = stop.said() => Err(SessionError::Stopped),
        }
    }

    async fn wait_for_peers(&self, wanted: u32) -> Result<(), SessionError> {
        let start = Instant::now();
        let mut progress = Progress::new("looking for peers");
        loop {
            let status = self.status().await?;
            // In a mesh those that only look on are no help; of this process all count.
            let counts = |h: &Hello| self.network.is_none() || h.memory_bytes > 0;
            let others = status.peers.iter();
            let others = others
                .filter(|(id, hello)| **id != self.peers[0].id && counts(hello))
                .count();
            if others >= wanted as usize {
                return Ok(());
            }
            self.end_if_refused(&status, start)?;
            if start.elapsed() > PEERS_WAIT {
                return Err(SessionError::Peers {
                    found: others,
                    wanted,
                    seconds: PEERS_WAIT.as_secs(),
                    hint: self.hint(),
                });
            }
            progress.show(others as u64, u64::from(wanted));
            self.pause().await?;
        }
    }

    /// An error where nobody answers but those that are refused: at once where the addresses that
    /// were given are theirs, otherwise when those of this mesh in the room would have answered.
    fn end_if_refused(&self, status: &MeshStatus, start: Instant) -> Result<(), SessionError> {
        let Some(network) = &self.network else {
            return Ok(());
        };
        let is_alone = status.peers.len() <= 1;
        let (joined, all) = (network.refusals_of_joined(), network.refusals());
        if is_alone && only_others(self.given, &joined, &all, start.elapsed()) {
            let hint = self.hint();
            return Err(SessionError::Refused { hint });
        }
        Ok(())
    }

    /// What to do where peers are missing.
    fn hint(&self) -> String {
        let refusals = self.network.as_ref().map(Network::refusals);
        let refusals = refusals.unwrap_or_default();
        if refusals.is_empty() {
            return "start them with `brickmesh peer`, or give --join ADDR where multicast does not reach".to_owned();
        }
        super::in_words(&refusals)
    }
}

/// Whether only peers of other meshes or versions answer: at all of the `given` addresses, or, where
/// none was given, in the room, when those of this mesh would have answered.
fn only_others(given: usize, joined: &[Refusal], all: &[Refusal], waited: Duration) -> bool {
    let is_other = |refusal: &Refusal| !matches!(refusal, Refusal::NoAnswer { .. });
    if given > 0 {
        return joined.len() == given && joined.iter().all(is_other);
    }
    waited > ROOM_WAIT && all.iter().any(is_other)
}

/// The peers of this process: one on the network, or several on a hub.
fn start_peers(args: &MeshArgs, alone: bool) -> Result<(Vec<Peer>, Option<Network>), SessionError> {
    let memory_bytes = args
        .memory
        .unwrap_or_else(|| device_choice::default_memory_bytes(args.peers));
    let config = |name, is_viewer| PeerConfig {
        name,
        memory_bytes,
        cache_bytes: args.cache,
        keep_copies: !alone || args.is_viewer,
        is_viewer,
        shelf: None,
    };
    if args.mesh {
        let key = MeshKey::load(&args.network.key_file()?)?;
        let chosen = choose_device(args, memory_bytes)?;
        let name = args.name.clone().unwrap_or_else(machine_name);
        let (peer, network) =
            start_network_peer(config(name, args.is_viewer), chosen, key, &args.network)?;
        return Ok((vec![peer], Some(network)));
    }
    let hub = LocalHub::new();
    let mut peers = Vec::new();
    for n in 1..=args.peers {
        let name = format!("peer-{n:02}");
        let chosen = choose_device(args, memory_bytes)?;
        let (bus, events) = hub.join(&PeerId::new(&name));
        // The first one is who looks.
        let config = config(name, args.is_viewer && n == 1);
        peers.push(Peer::start(config, chosen, bus, events));
    }
    Ok((peers, None))
}

/// The device of one of this process's peers.
fn choose_device(args: &MeshArgs, memory_bytes: u64) -> Result<Chosen, DeviceError> {
    let chosen = device_choice::choose_shared(args.device, args.sharing, args.peers, memory_bytes)?;
    let info = chosen.device.info();
    tracing::info!(device = info.name, reason = chosen.reason, "device");
    if let Some(less) = device_choice::less_than_asked(args.memory, info) {
        tracing::warn!("{less}");
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_ends_when_only_others_answer_and_not_before() {
        let address: crate::network::Multiaddr = "/ip4/10.0.0.7/tcp/7".parse().unwrap();
        let key = Refusal::AnotherKey {
            address: address.clone(),
        };
        let dead = Refusal::NoAnswer {
            address,
            cause: "connection refused".to_owned(),
        };
        let (soon, late) = (Duration::ZERO, ROOM_WAIT * 2);
        let one = std::slice::from_ref(&key);
        assert!(only_others(1, one, one, soon));
        assert!(!only_others(2, one, one, late), "the other one may answer");
        let both = [key.clone(), dead];
        assert!(!only_others(2, &both, &both, late), "it may be started");
        assert!(!only_others(1, &[], one, late), "a stranger in the room");
        assert!(!only_others(0, &[], one, soon) && only_others(0, &[], one, late));
        assert!(!only_others(0, &[], &[], late));
    }
}
