//! Meshes of peers in one process, for tests: every message is encoded, every wait ends.

use brickmesh_actors::{
    Peer, PeerConfig,
    brick_owner::{AskStatus, OpenSource},
    bus::Bus,
    data_set::BrickSource,
    device_slot::{DeviceSupply, Sharing},
    local_bus::LocalHub,
    pager::Pager,
    requester::{AskFrame, Frame, FrameError},
};
use brickmesh_shaders::{RenderDevice, device::cpu::CpuDevice};
use brickmesh_topology::{
    PeerId, RenderSettings, View, balance::plan_rules::PlanRules, picture::finish::Finish,
};
use std::{
    num::NonZeroUsize,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long a mesh may take to settle.
const SETTLE: Duration = Duration::from_secs(60);
/// Memory of each peer.
pub const MEMORY_BYTES: u64 = 1 << 30;

/// A mesh of this process.
#[derive(Debug)]
pub struct Mesh {
    /// Its peers, the opener first.
    pub peers: Vec<Peer>,
    /// What they are connected by.
    pub hub: LocalHub,
    /// How frames are planned.
    pub rules: PlanRules,
    source: Arc<dyn BrickSource>,
}

/// Makes the device of a peer.
pub type MakeDevice<'a> = &'a dyn Fn() -> Box<dyn RenderDevice>;

/// A CPU device with one thread.
///
/// # Panics
/// Where threads cannot be started.
#[must_use]
pub fn cpu() -> Box<dyn RenderDevice> {
    Box::new(CpuDevice::new(Some(NonZeroUsize::MIN), MEMORY_BYTES).expect("a CPU device"))
}

/// The same with the portable kernel.
///
/// # Panics
/// Where threads cannot be started.
#[must_use]
pub fn scalar() -> Box<dyn RenderDevice> {
    let device = CpuDevice::scalar(Some(NonZeroUsize::MIN), MEMORY_BYTES);
    Box::new(device.expect("a CPU device"))
}

/// A CPU device with one thread, which reads bricks that come then, in so much memory.
///
/// # Panics
/// Where threads cannot be started, or the system does not let it.
#[must_use]
pub fn pages(bytes: u64) -> DeviceSupply {
    let device = CpuDevice::new(Some(NonZeroUsize::MIN), bytes).expect("a CPU device");
    let pager = Pager::new(bytes).expect("userfaultfd");
    let device: Box<dyn RenderDevice> = Box::new(device.reading(pager.clone()));
    DeviceSupply {
        sharing: Sharing::Page(pager),
        ..device.into()
    }
}

/// The id of the n-th peer.
#[must_use]
pub fn peer_id(n: usize) -> PeerId {
    PeerId::new(&format!("peer-{n}"))
}

impl Mesh {
    /// Starts peers in the current actix system, opens the data set in the first, and waits until
    /// all hold their share.
    ///
    /// # Panics
    /// Where that takes too long.
    pub async fn start(
        count: usize,
        redundancy: u32,
        source: Arc<dyn BrickSource>,
        device: MakeDevice<'_>,
    ) -> Self {
        Self::start_through(count, redundancy, source, device, &|bus| bus).await
    }

    /// The same; the data set is opened once all know each other, so that its first placement is for all of them.
    ///
    /// # Panics
    /// Where that takes too long.
    pub async fn start_met(
        count: usize,
        redundancy: u32,
        source: Arc<dyn BrickSource>,
        device: MakeDevice<'_>,
    ) -> Self {
        let mesh = Self::peers(count, source, &|_| device().into(), &|bus| bus);
        let start = Instant::now();
        loop {
            let status = mesh.peers[0].owner.send(AskStatus).await;
            if status.expect("the opener lives").peers.len() == count {
                break;
            }
            assert!(start.elapsed() < SETTLE, "peers did not meet");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        mesh.open(redundancy).await;
        mesh
    }

    /// The same, with what `wire` makes of each peer's bus between it and the others.
    ///
    /// # Panics
    /// Where that takes too long.
    pub async fn start_through(
        count: usize,
        redundancy: u32,
        source: Arc<dyn BrickSource>,
        device: MakeDevice<'_>,
        wire: &dyn Fn(Arc<dyn Bus>) -> Arc<dyn Bus>,
    ) -> Self {
        Self::start_supplied(count, redundancy, source, &|_| device().into(), wire).await
    }

    /// The same, with each peer's device by its number, and where others come from when it is lost.
    ///
    /// # Panics
    /// Where that takes too long.
    pub async fn start_supplied(
        count: usize,
        redundancy: u32,
        source: Arc<dyn BrickSource>,
        supply: &dyn Fn(usize) -> DeviceSupply,
        wire: &dyn Fn(Arc<dyn Bus>) -> Arc<dyn Bus>,
    ) -> Self {
        let mesh = Self::peers(count, source, supply, wire);
        mesh.open(redundancy).await;
        mesh
    }

    fn peers(
        count: usize,
        source: Arc<dyn BrickSource>,
        supply: &dyn Fn(usize) -> DeviceSupply,
        wire: &dyn Fn(Arc<dyn Bus>) -> Arc<dyn Bus>,
    ) -> Self {
        let hub = LocalHub::new();
        let mut peers = Vec::new();
        for n in 0..count {
            let (bus, events) = hub.join(&peer_id(n));
            let config = PeerConfig {
                name: format!("peer-{n}"),
                memory_bytes: MEMORY_BYTES,
                cache_bytes: None,
                keep_copies: true,
                is_viewer: false,
                shelf: None,
            };
            peers.push(Peer::start(config, supply(n), wire(bus), events));
        }
        Self {
            peers,
            hub,
            rules: PlanRules::default(),
            source,
        }
    }

    /// Opens the data set in the first peer, and waits until all hold their share.
    async fn open(&self, redundancy: u32) {
        let source = Arc::clone(&self.source);
        let open = OpenSource { source, redundancy };
        let opened = self.peers[0].owner.send(open).await;
        opened.expect("the opener lives");
        self.settle(self.peers.len()).await;
    }

    /// Waits until `count` peers hold their share.
    ///
    /// # Panics
    /// Where that takes too long.
    pub async fn settle(&self, count: usize) {
        let start = Instant::now();
        loop {
            let status = self.peers[0]
                .owner
                .send(AskStatus)
                .await
                .expect("the opener lives");
            let data_set = &status.data_sets[0];
            let settled = data_set.residency.values().filter(|r| r.settled).count();
            if status.peers.len() == count && settled == count && data_set.safety.missing == 0 {
                return;
            }
            assert!(
                start.elapsed() < SETTLE,
                "the mesh did not settle: {status:?}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// What asks for a frame.
    #[must_use]
    pub fn ask(&self, view: View, settings: &RenderSettings) -> AskFrame {
        AskFrame {
            data_set: self.source.manifest().digest(),
            view,
            settings: settings.clone(),
            rules: self.rules,
            is_traced: false,
            tiles: None,
        }
    }

    /// Asks peer `n` for a frame.
    ///
    /// # Errors
    /// Where it did not come.
    ///
    /// # Panics
    /// Where the peer has ended.
    pub async fn frame_from(
        &self,
        n: usize,
        view: View,
        settings: &RenderSettings,
    ) -> Result<Frame, FrameError> {
        self.peers[n]
            .requester
            .send(self.ask(view, settings))
            .await
            .expect("the peer lives")
    }

    /// A frame over black, as RGBA.
    ///
    /// # Panics
    /// Where it did not come whole.
    pub async fn picture(&self, view: View, settings: &RenderSettings) -> Vec<u8> {
        let frame = self.frame_from(0, view, settings).await.expect("a frame");
        assert!(frame.stats.missing.is_empty(), "boxes are missing");
        let finish = Finish {
            background: [[0.0; 3]; 2],
            ..settings.finish()
        };
        frame.image.finished(&finish, 0, frame.image.rect().height)
    }
}

/// The picture of a source by a mesh of `peers` peers.
///
/// # Panics
/// Where it did not come whole.
#[must_use]
pub fn picture(
    source: Arc<dyn BrickSource>,
    peers: usize,
    device: MakeDevice<'_>,
    view: View,
    settings: &RenderSettings,
) -> Vec<u8> {
    actix::System::new().block_on(async {
        let mesh = Mesh::start(
            peers,
            2.min(u32::try_from(peers).unwrap_or(2)),
            source,
            device,
        )
        .await;
        mesh.picture(view, settings).await
    })
}
