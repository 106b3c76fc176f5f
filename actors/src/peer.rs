//! A peer: its actors, wired up.

use crate::{
    brick_owner::{BrickOwner, OwnerLines},
    bus::{Bus, BusEvent},
    compositor::Compositor,
    device_slot::DeviceSupply,
    device_thread::DeviceThread,
    outbox::Outbox,
    raycaster::{MeetOwner, Raycaster},
    render_queue::RenderQueue,
    requester::{Requester, RequesterInput},
    router::{Lines, Router},
    scheduler::Scheduler,
};
use actix::{Actor, Addr, SyncArbiter};
use brickmesh_topology::mesh::keeper::Hello;
use std::sync::Arc;
use tokio::sync::mpsc;

/// What a peer is.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// Name for people.
    pub name: String,
    /// Memory that bricks may take, in bytes, less where the device has less; 0: it only looks on.
    pub memory_bytes: u64,
    /// Whether to keep a host copy of each brick, to give to others.
    pub keep_copies: bool,
}

/// A running peer; its actors end with the actix system, its device's thread before that: by
/// [`Peer::end`], or with the last clone of this.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Data sets, bricks, other peers.
    pub owner: Addr<BrickOwner>,
    /// Frames.
    pub requester: Addr<Requester>,
    /// Where this peer's messages come in.
    pub router: Addr<Router>,
    device_thread: Arc<DeviceThread>,
}

impl Peer {
    /// Starts the actors of a peer in the current actix system; `device` alone, or with where
    /// another one comes from when it is lost.
    ///
    /// # Panics
    /// Outside of an actix system.
    #[must_use]
    pub fn start(
        config: PeerConfig,
        device: impl Into<DeviceSupply>,
        bus: Arc<dyn Bus>,
        events: mpsc::Receiver<BusEvent>,
    ) -> Self {
        let supply = device.into();
        let info = supply.device.info();
        let hello = Hello {
            name: config.name,
            device: info.name.clone(),
            memory_bytes: config.memory_bytes.min(info.memory_bytes),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let mut started = None;
        let router = Router::create(|ctx| {
            use actix::AsyncContext as _;
            let outbox = Outbox::new(bus, ctx.address());
            let local = outbox.local().clone();
            let queue = RenderQueue::default();
            let (device_thread, raycaster) = start_raycaster(supply, &outbox, &queue);
            let compositor = {
                let outbox = outbox.clone();
                SyncArbiter::start(1, move || Compositor::new(outbox.clone()))
            };
            let requester = Requester::new(outbox.clone()).start();
            let scheduler = Scheduler::new(
                outbox.clone(),
                queue.clone(),
                raycaster.clone(),
                compositor.clone(),
            )
            .start();
            let owner_lines = OwnerLines {
                raycaster: raycaster.clone(),
                scheduler: scheduler.clone(),
                requester: requester.clone(),
                queue,
            };
            let (memory, copies) = (config.memory_bytes, config.keep_copies);
            let owner = BrickOwner::new(outbox, owner_lines, hello, memory, copies).start();
            let met = raycaster.try_send(MeetOwner(owner.clone().recipient()));
            if met.is_err() {
                tracing::warn!("the raycaster does not know the owner");
            }
            let meet = RequesterInput::Owner(owner.clone().recipient());
            if requester.try_send(meet).is_err() {
                tracing::warn!("the requester does not know the owner");
            }
            let all = Lines {
                owner,
                scheduler,
                compositor,
                requester,
            };
            started = Some((all.clone(), device_thread));
            Router::new(local, events, all)
        });
        let (lines, device_thread) = started.expect("the router's constructor has run");
        Self {
            owner: lines.owner,
            requester: lines.requester,
            router,
            device_thread: Arc::new(device_thread),
        }
    }

    /// Ends the thread of this peer's device, which is dropped there. Returns when that is done, or
    /// took too long; frames that are under way do not come any more.
    ///
    /// To be awaited before the process ends: see [`brickmesh_shaders::device::process_end`].
    pub async fn end(&self) {
        self.device_thread.end().await;
    }
}

/// The raycaster on a thread of its own, with the one device.
fn start_raycaster(
    supply: DeviceSupply,
    outbox: &Outbox,
    queue: &RenderQueue,
) -> (DeviceThread, Addr<Raycaster>) {
    let (outbox, jobs) = (outbox.clone(), queue.clone());
    DeviceThread::start(queue.clone(), || Raycaster::new(supply, outbox, jobs))
}
