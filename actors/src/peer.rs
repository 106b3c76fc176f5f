//! A peer: its actors, wired up.

use crate::{
    brick_owner::{BrickOwner, OwnerLines},
    bus::{Bus, BusEvent},
    compositor::Compositor,
    outbox::Outbox,
    raycaster::Raycaster,
    render_queue::RenderQueue,
    requester::{Requester, RequesterInput},
    scheduler::Scheduler,
    switchboard::{Lines, Switchboard},
};
use actix::{Actor, Addr, SyncArbiter};
use brickmesh_shaders::RenderDevice;
use brickmesh_topology::keeper::Hello;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// What a peer is.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// Name for people.
    pub name: String,
    /// Memory that bricks may take, in bytes; 0: it only looks on.
    pub memory_bytes: u64,
    /// Whether to keep a host copy of each brick, to give to others.
    pub keep_copies: bool,
}

/// A running peer; its actors end with the actix system.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Data sets, bricks, other peers.
    pub owner: Addr<BrickOwner>,
    /// Frames.
    pub requester: Addr<Requester>,
    /// Where this peer's messages come in.
    pub switchboard: Addr<Switchboard>,
}

impl Peer {
    /// Starts the actors of a peer in the current actix system.
    ///
    /// # Panics
    /// Outside of an actix system.
    #[must_use]
    pub fn start(
        config: PeerConfig,
        device: Box<dyn RenderDevice>,
        bus: Arc<dyn Bus>,
        events: mpsc::Receiver<BusEvent>,
    ) -> Self {
        let hello = Hello {
            name: config.name,
            device: device.info().name.clone(),
            memory_bytes: config.memory_bytes,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let mut lines = None;
        let switchboard = Switchboard::create(|ctx| {
            use actix::AsyncContext as _;
            let outbox = Outbox::new(bus, ctx.address());
            let queue = RenderQueue::default();
            let raycaster = start_raycaster(device, &outbox, &queue);
            let compositor = {
                let outbox = outbox.clone();
                SyncArbiter::start(1, move || Compositor::new(outbox.clone()))
            };
            let requester = Requester::new(outbox.clone()).start();
            let scheduler =
                Scheduler::new(outbox.clone(), queue, raycaster.clone(), compositor.clone())
                    .start();
            let owner_lines = OwnerLines {
                raycaster,
                scheduler: scheduler.clone(),
                requester: requester.clone(),
            };
            let owner = BrickOwner::new(outbox, owner_lines, hello, config.keep_copies).start();
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
            lines = Some(all.clone());
            Switchboard::new(events, all)
        });
        let lines = lines.expect("the switchboard's constructor has run");
        Self {
            owner: lines.owner,
            requester: lines.requester,
            switchboard,
        }
    }
}

/// The raycaster on a thread of its own, with the one device.
fn start_raycaster(
    device: Box<dyn RenderDevice>,
    outbox: &Outbox,
    queue: &RenderQueue,
) -> Addr<Raycaster> {
    let device = Mutex::new(Some(device));
    let (outbox, queue) = (outbox.clone(), queue.clone());
    SyncArbiter::start(1, move || {
        let taken = device.lock().unwrap_or_else(PoisonError::into_inner).take();
        let device = taken.expect("one thread is started, once");
        Raycaster::new(device, outbox.clone(), queue.clone())
    })
}
