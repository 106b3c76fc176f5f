//! A peer: its actors, wired up.

use crate::{
    brick_owner::BrickOwner,
    bus::{Bus, BusEvent, EVENTS_MAX},
    compositor::Compositor,
    data_set::BrickShelf,
    device_slot::{DeviceSupply, Sharing},
    device_thread::{DeviceThread, on_thread},
    inputs::Addresses,
    outbox::Outbox,
    raycaster::Raycaster,
    requester::Requester,
    router::Router,
    scheduler::Scheduler,
    viewpoints::Viewpoints,
};
use actix::{
    Actor, Addr, Context,
    dev::channel::{AddressReceiver, channel},
};
use brickmesh_shaders::DeviceInfo;
use brickmesh_topology::{PeerId, mesh::keeper::Hello};
use std::sync::Arc;
use tokio::sync::mpsc;

/// What a peer is.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// Name for people.
    pub name: String,
    /// Memory that bricks may take, in bytes, less where the device has less; 0: it only looks on.
    pub memory_bytes: u64,
    /// What of that bricks may take that are read or fetched for frames, in bytes; `None`: what is left beside those held.
    pub cache_bytes: Option<u64>,
    /// Whether to keep a host copy of each brick, to give to others.
    pub keep_copies: bool,
    /// Whether it is a viewer.
    pub is_viewer: bool,
    /// Where it keeps bricks on a disk.
    pub shelf: Option<Arc<dyn BrickShelf>>,
}

/// A running peer; its actors end with the actix system, its device's thread before that: by
/// [`Peer::end`], or with the last clone of this.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its name in the mesh.
    pub id: PeerId,
    /// Data sets, bricks, other peers.
    pub owner: Addr<BrickOwner>,
    /// Frames.
    pub requester: Addr<Requester>,
    /// Cameras of viewers that follow each other.
    pub viewpoints: Addr<Viewpoints>,
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
        let sharing = supply.sharing.clone();
        let hello = hello(&config, info, &sharing);
        let (brick_bytes, preparation) = (info.brick_bytes.clone(), supply.device.preparation());
        let (owner, owner_inputs) = address::<BrickOwner>(EVENTS_MAX);
        let (scheduler, scheduler_inputs) = address::<Scheduler>(EVENTS_MAX);
        let (requester, requester_inputs) = address::<Requester>(EVENTS_MAX);
        let (viewpoints, viewpoint_inputs) = address::<Viewpoints>(EVENTS_MAX);
        // No bound of their own: loads, frames and partials under way are bounded where they come from,
        // and what is to be freed must be heard.
        let (raycaster, raycaster_inputs) = address::<Raycaster>(0);
        let (compositor, compositor_inputs) = address::<Compositor>(0);
        let id = bus.local().clone();
        let addresses = Addresses {
            local: id.clone(),
            owner: owner.clone().recipient(),
            scheduler: scheduler.recipient(),
            compositor: compositor.recipient(),
            requester: requester.clone().recipient(),
            viewpoints: viewpoints.clone().recipient(),
            raycaster: raycaster.recipient(),
        };
        if let Some(pages) = sharing.pages() {
            pages.asks(addresses.owner.clone());
        }
        let outbox = Outbox::new(bus, addresses.clone());
        let device_thread = {
            let (outbox, addresses) = (outbox.clone(), addresses.clone());
            let pages = sharing.pages().cloned();
            DeviceThread::start(raycaster_inputs, pages, |is_ending| {
                Raycaster::new(supply, outbox, addresses, is_ending)
            })
        };
        // On this thread: in a mesh of one process each further thread costs a frame tens of microseconds.
        let (memory, copies) = (config.memory_bytes, config.keep_copies);
        let pages = sharing.pages().cloned();
        let scheduling = Scheduler::new(outbox.clone(), addresses.clone(), memory, pages);
        Context::with_receiver(scheduler_inputs).run(scheduling);
        {
            let outbox = outbox.clone();
            on_thread(compositor_inputs, || Compositor::new(outbox));
        }
        let asking = Requester::new(outbox.clone(), addresses.clone());
        Context::with_receiver(requester_inputs).run(asking);
        Context::with_receiver(viewpoint_inputs).run(Viewpoints::new(outbox.clone()));
        let shelf = config.shelf;
        let owning = BrickOwner::new(
            outbox,
            addresses.clone(),
            hello,
            (brick_bytes, preparation, sharing),
            (memory, config.cache_bytes),
            copies,
            shelf,
        );
        Context::with_receiver(owner_inputs).run(owning);
        Router::new(events, addresses).start();
        Self {
            id,
            owner,
            requester,
            viewpoints,
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

/// What a peer says of itself at first.
fn hello(config: &PeerConfig, device: &DeviceInfo, sharing: &Sharing) -> Hello {
    Hello {
        name: config.name.clone(),
        device: device.name.clone(),
        is_device_lost: false,
        memory_bytes: config.memory_bytes.min(device.memory_bytes),
        shelf_bytes: config.shelf.as_ref().map_or(0, |s| s.room_bytes()),
        sharing: sharing.kind(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        is_viewer: config.is_viewer,
    }
}

/// Where an actor will be told things, before it is there: actors know each other. So much may wait;
/// 0: any number.
fn address<A: Actor>(waiting_max: usize) -> (Addr<A>, AddressReceiver<A>) {
    let (sender, receiver) = channel(waiting_max);
    (Addr::new(sender), receiver)
}
