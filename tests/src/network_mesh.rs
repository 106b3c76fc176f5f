//! Meshes of whole peers over loopback: each has a network of its own, as the program has it, and
//! frames of theirs are held against the pictures that one peer makes alone.
//!
//! What a member sends can be twisted on its way out, so that a member with the right key lies;
//! all else of it is the real thing. Every wait has a deadline.

use crate::{
    compare::compare,
    mesh::{self, Mesh},
    network_peer::{NetworkPeer, SECOND, config, key, until_async},
    volumes::{Bricks, waves},
};
use brickmesh_actors::{
    Peer, PeerConfig,
    brick_owner::{AskStatus, DataSetStatus, LeaveMesh, MeshStatus, OpenSource, UseDataSet},
    bus::{Bus, BusError, Lane},
    data_set::BrickSource,
    messages::{Message, decode, encode},
    requester::{AskFrame, Frame, FrameError},
};
use brickmesh_node::network::{Multiaddr, Network, NetworkConfig};
use brickmesh_topology::{
    Camera, Digest, PeerId, RenderSettings, TransferFunction, View, VoxelType,
    balance::plan_rules::PlanRules, mesh::announcement::Announcement,
};
use bytes::Bytes;
use std::{fmt, future::Future, sync::Arc, time::Duration};

/// Memory of a member that has enough of it.
pub const MEMORY: u64 = 1 << 30;
/// How long a mesh may take to hold what it should.
pub const SETTLE: Duration = Duration::from_secs(60);
/// Frames that are asked for after what happens is over.
const FRAMES_AFTER: u32 = 3;
/// Edge of the bricks, voxels: 48 bricks.
const BRICK_EDGE: u32 = 16;
/// Edge of the pictures, pixels: nine tiles, so that every member composites some.
const PICTURE_EDGE: u32 = 96;

/// What becomes of a message to a peer on its way out: nothing, itself, others.
pub type Twist = Arc<dyn Fn(&PeerId, Message) -> Vec<Message> + Send + Sync>;

/// A bus that twists what goes out.
struct Twisted {
    bus: Arc<dyn Bus>,
    twist: Twist,
}

impl fmt::Debug for Twisted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Twisted").field(&self.bus).finish()
    }
}

impl Bus for Twisted {
    fn local(&self) -> &PeerId {
        self.bus.local()
    }

    fn send(&self, to: &PeerId, lane: Lane, message: Bytes) -> Result<(), BusError> {
        let message = decode(&message).expect("a message of this peer's own");
        let twisted = (self.twist)(to, message).into_iter();
        let mut sent = twisted.map(|t| self.bus.send(to, lane, encode(&t)));
        sent.find(Result::is_err).unwrap_or(Ok(()))
    }
}

/// A whole peer with its network.
#[derive(Debug)]
pub struct Member {
    /// Its actors.
    pub peer: Peer,
    /// Its network.
    pub network: Network,
    id: PeerId,
}

impl Member {
    /// An honest member of this process's mesh, that joins these addresses.
    #[must_use]
    pub fn join(addresses: &[Multiaddr], memory_bytes: u64) -> Self {
        Self::start(config(key(), addresses), memory_bytes, None)
    }

    /// A member that twists what it sends.
    #[must_use]
    pub fn join_twisted(addresses: &[Multiaddr], memory_bytes: u64, twist: Twist) -> Self {
        Self::start(config(key(), addresses), memory_bytes, Some(twist))
    }

    /// A member with this network, in the current actix system.
    #[must_use]
    pub fn start(config: NetworkConfig, memory_bytes: u64, twist: Option<Twist>) -> Self {
        let NetworkPeer {
            network,
            bus,
            events,
        } = NetworkPeer::start(config);
        let id = bus.local().clone();
        let config = PeerConfig {
            name: id.short().to_owned(),
            memory_bytes,
            cache_bytes: None,
            keep_copies: true,
            is_viewer: false,
            shelf: None,
        };
        let bus = match twist {
            Some(twist) => Arc::new(Twisted { bus, twist }),
            None => bus,
        };
        let peer = Peer::start(config, mesh::cpu(), bus, events);
        Self { peer, network, id }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &PeerId {
        &self.id
    }

    /// Where it can be joined.
    #[must_use]
    pub fn addresses(&self) -> Vec<Multiaddr> {
        self.network.listen_addresses()
    }

    /// Who is in the mesh and what each holds, as it knows it.
    ///
    /// # Panics
    /// Where it has ended.
    pub async fn status(&self) -> MeshStatus {
        let status = self.peer.owner.send(AskStatus).await;
        status.expect("the member lives")
    }

    /// What it knows of a data set.
    pub async fn data_set(&self, data_set: Digest) -> Option<DataSetStatus> {
        let mut sets = self.status().await.data_sets.into_iter();
        sets.find(|d| d.manifest.digest() == data_set)
    }

    /// What it knows another member, or itself, to hold of a data set.
    pub async fn residency(&self, data_set: Digest, of: &PeerId) -> Option<Announcement> {
        self.data_set(data_set).await?.residency.remove(of)
    }

    /// Waits until it holds its share of a data set; returns what it says of it.
    ///
    /// # Panics
    /// Where it does not in time.
    pub async fn has_its_share(&self, data_set: Digest) -> Announcement {
        until_async(SETTLE, "share", async || {
            let its = self.residency(data_set, &self.id).await;
            its.filter(|r| r.settled && !r.held.is_empty())
        })
        .await
    }

    /// Offers a data set to the mesh.
    ///
    /// # Panics
    /// Where it has ended.
    pub async fn open(&self, source: Arc<dyn BrickSource>, redundancy: u32) {
        let open = OpenSource { source, redundancy };
        let opened = self.peer.owner.send(open).await;
        opened.expect("the member lives");
    }

    /// Needs a data set from now on, once it knows it.
    ///
    /// # Panics
    /// Where it does not learn of it in time.
    pub async fn look_at(&self, data_set: Digest) {
        let wish = UseDataSet {
            data_set,
            in_use: true,
        };
        until_async(SETTLE, "data set", async || {
            self.data_set(data_set).await?;
            Some(self.peer.owner.send(wish).await)
        })
        .await
        .expect("the member lives");
    }

    /// Leaves politely, as the program does when it is told to stop.
    ///
    /// # Panics
    /// Where it cannot hand over what it holds in time.
    pub async fn leave(&self) {
        let leave = self.peer.owner.send(LeaveMesh);
        let left = tokio::time::timeout(SETTLE, leave).await;
        left.expect("a goodbye in time").expect("the member lives");
        // The goodbye is on its way.
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.network.shutdown();
    }

    /// Ends without a word, as if killed.
    pub fn die(&self) {
        self.network.shutdown();
    }
}

/// Members and the data set that they render.
#[derive(Debug)]
pub struct NetworkMesh {
    /// Its members; the first has the source, and asks for the frames.
    pub members: Vec<Member>,
}

impl NetworkMesh {
    /// So many members with enough memory, the data set open, every member's share with it.
    pub async fn start(scene: &Scene, count: usize, redundancy: u32) -> Self {
        let first = Member::join(&[], MEMORY);
        let known = first.addresses();
        let mut members = vec![first];
        members.extend((1..count).map(|_| Member::join(&known, MEMORY)));
        // Who is known before the data set is opened has a part in its first placement.
        met(&members).await;
        members[0].open(scene.source(), redundancy).await;
        let mesh = Self { members };
        mesh.settle(scene).await;
        mesh
    }

    /// Whom frames are asked of.
    #[must_use]
    pub fn viewer(&self) -> &Member {
        &self.members[0]
    }

    /// Where to join.
    #[must_use]
    pub fn addresses(&self) -> Vec<Multiaddr> {
        self.viewer().addresses()
    }

    /// Waits until all members know that all of them hold their share, and no brick lacks a copy.
    pub async fn settle(&self, scene: &Scene) {
        settled(&self.members, scene.data_set()).await;
    }
}

/// Whether a member does not hear another one.
async fn is_deaf(member: &Member) -> bool {
    let status = member.status().await;
    let own = status.vitals.get(member.id());
    own.is_some_and(|v| !v.suspects.is_empty())
}

/// Waits until these members know each other.
pub async fn met(members: &[Member]) {
    for member in members {
        until_async(SETTLE, "mesh", async || {
            let status = member.status().await;
            let knows = |m: &Member| status.peers.contains_key(m.id());
            members.iter().all(knows).then_some(())
        })
        .await;
    }
}

/// Waits until these members know of each other that they hold their share, and that no brick
/// lacks a copy.
pub async fn settled(members: &[Member], data_set: Digest) {
    for member in members {
        until_async(SETTLE, "settled mesh", async || {
            let set = member.data_set(data_set).await?;
            let settled = |m: &Member| set.residency.get(m.id()).is_some_and(|r| r.settled);
            (set.safety.endangered == 0 && members.iter().all(settled)).then_some(())
        })
        .await;
    }
}

/// A small volume, a look at it, and the pictures that one peer makes of it.
#[derive(Debug)]
pub struct Scene {
    source: Arc<Bricks>,
    settings: RenderSettings,
    pictures: Vec<(View, Vec<u8>)>,
    /// Whether boxes may be missing while the viewer does not hear a member that is well: on a busy
    /// machine it may be silent for a second, and what it alone holds is missing, rightly.
    pub bears_silence: bool,
}

/// What was seen of frames while something happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watched {
    /// Frames.
    pub frames: u32,
    /// Those that took more than one attempt.
    pub repeated: u32,
}

impl Scene {
    /// Renders the pictures, in an actix system of their own.
    ///
    /// # Panics
    /// Where they do not come.
    #[must_use]
    pub fn new() -> Self {
        let field = waves([60, 50, 40], VoxelType::U16, false);
        let settings = RenderSettings {
            shade: false,
            jitter: false,
            ..RenderSettings::new(TransferFunction::ramp(20_000.0, 60_000.0), 0.5)
        };
        let source = Arc::new(Bricks::cut(&field, BRICK_EDGE));
        let pictures = actix::System::new().block_on(async {
            let alone = Mesh::start(1, 1, source.clone(), &mesh::cpu).await;
            let mut pictures = Vec::new();
            for azimuth in [20.0, 110.0, 200.0, 290.0] {
                let camera = Camera::orbit(&field.volume, azimuth, 15.0, 1.0);
                let view = camera.view(PICTURE_EDGE, PICTURE_EDGE).expect("a view");
                pictures.push((view, alone.picture(view, &settings).await));
            }
            pictures
        });
        Self {
            source,
            settings,
            pictures,
            bears_silence: false,
        }
    }

    /// Its bricks.
    #[must_use]
    pub fn source(&self) -> Arc<dyn BrickSource> {
        Arc::clone(&self.source) as Arc<dyn BrickSource>
    }

    /// Name of its data set.
    #[must_use]
    pub fn data_set(&self) -> Digest {
        self.source.manifest().digest()
    }

    /// Bytes of memory that so many of its bricks take.
    #[must_use]
    pub fn memory_of(&self, bricks: u64) -> u64 {
        bricks * self.source.manifest().largest_brick_bytes()
    }

    /// Asks a member for the n-th frame of a turn.
    ///
    /// # Errors
    /// Where it did not come.
    ///
    /// # Panics
    /// Where the member has ended, or the frame does not.
    pub async fn frame(&self, of: &Member, n: u32) -> Result<Frame, FrameError> {
        let ask = AskFrame {
            data_set: self.data_set(),
            view: self.picture(n).0,
            settings: self.settings.clone(),
            rules: PlanRules::default(),
            is_traced: false,
            tiles: None,
        };
        let frame = tokio::time::timeout(SETTLE, of.peer.requester.send(ask)).await;
        let frame = frame.unwrap_or_else(|_| panic!("frame {n} has not ended after {SETTLE:?}"));
        frame.expect("the member lives")
    }

    /// The n-th frame is whole, and what one peer makes of it.
    ///
    /// # Panics
    /// Where it is not.
    pub fn assert_whole(&self, n: u32, frame: &Frame) {
        let missing = &frame.stats.missing;
        assert!(missing.is_empty(), "frame {n}: {missing:?} are missing");
        let times = frame.stats.jobs.iter().filter_map(|j| j.measured_micros);
        let longest = times.max().unwrap_or(0);
        assert!(
            longest <= frame.stats.total_micros,
            "{longest} µs for a job"
        );
        let difference = compare(&self.picture(n).1, &frame.image.to_rgba8([0.0; 3]));
        assert!(difference.max <= 1, "frame {n}: {difference:?}");
    }

    /// Asks a member for frames while something happens, and for some after; every one is whole.
    ///
    /// # Panics
    /// Where a frame is not.
    pub async fn watch<T>(&self, of: &Member, happens: impl Future<Output = T>) -> (T, Watched) {
        tokio::pin!(happens);
        let (mut over, mut after) = (None, 0);
        let mut watched = Watched::default();
        while after < FRAMES_AFTER {
            let n = watched.frames;
            let asked = self.frame(of, n);
            tokio::pin!(asked);
            let frame = loop {
                tokio::select! {
                    frame = &mut asked => break frame,
                    result = &mut happens, if over.is_none() => over = Some(result),
                }
            };
            let frame = frame.unwrap_or_else(|error| panic!("frame {n}: {error}"));
            if self.bears_silence && !frame.stats.missing.is_empty() && is_deaf(of).await {
                continue;
            }
            self.assert_whole(n, &frame);
            watched.frames += 1;
            watched.repeated += u32::from(frame.stats.failed_attempts > 0);
            after += u32::from(over.is_some());
            // What happens has its turn also where frames come at once.
            tokio::time::sleep(SECOND / 200).await;
        }
        let result = over.expect("it is over before the last frames");
        (result, watched)
    }

    fn picture(&self, n: u32) -> &(View, Vec<u8>) {
        &self.pictures[n as usize % self.pictures.len()]
    }
}

impl Default for Scene {
    fn default() -> Self {
        Self::new()
    }
}
