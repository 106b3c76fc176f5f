//! Frames of which each peer renders a part of the picture: whatever peers hold, they show what one peer with one brick does.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail by a panic, also outside of its function"
)]

use brickmesh_actors::{
    brick_owner::AskStatus,
    bus::{Bus, BusError, Lane},
    data_set::BrickSource,
    device_slot::DeviceSupply,
    requester::Frame,
};
use brickmesh_shaders::{
    RenderDevice,
    device::{cpu::CpuDevice, vulkan::VulkanDevice},
    page_memory::PageMemory,
};
use brickmesh_tests::{
    compare::compare,
    mesh::{MEMORY_BYTES, Mesh, cpu, pages, peer_id, picture},
    reference::Field,
    scenes::{looks, mode_fields, settings, views},
    skip::vulkan_is_there,
    volumes::Bricks,
};
use brickmesh_topology::{
    PeerId, RenderSettings, View,
    balance::plan_rules::{Division, PlanRules, TileSharing},
    frame::frame_requests::BrickAccesses,
};
use bytes::Bytes;
use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Rules by which the picture is divided.
fn divided(tile: Option<u32>) -> PlanRules {
    PlanRules {
        division: Division::Image { tile },
        ..PlanRules::default()
    }
}

fn rgba(frame: &Frame, settings: &RenderSettings) -> Vec<u8> {
    assert_eq!(frame.stats.missing, []);
    let finish = brickmesh_topology::picture::finish::Finish {
        background: [[0.0; 3]; 2],
        ..settings.finish()
    };
    let height = frame.image.rect().height;
    frame.image.finished(&finish, 0, height)
}

/// How devices get bricks: before jobs are begun, and when they are read.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Object,
    Page,
}

const KINDS: [Kind; 2] = [Kind::Object, Kind::Page];

impl Kind {
    /// A CPU device with so much memory.
    fn supply(self, bytes: u64) -> DeviceSupply {
        match self {
            Self::Object => {
                let device = CpuDevice::new(Some(NonZeroUsize::MIN), bytes).unwrap();
                let device: Box<dyn RenderDevice> = Box::new(device);
                device.into()
            }
            Self::Page => pages(bytes),
        }
    }

    /// A CPU device with memory for so many of a volume's bricks.
    fn small(self, source: &dyn BrickSource, bricks: u32) -> DeviceSupply {
        let bytes = source.manifest().largest_brick_bytes();
        let bytes = match self {
            Self::Object => bytes,
            // Whole ones.
            Self::Page => bytes.next_multiple_of(PageMemory::page_bytes() as u64),
        };
        self.supply(bytes * u64::from(bricks))
    }
}

/// What all peers together needed for a frame.
fn accesses(frame: &Frame) -> BrickAccesses {
    let mut sum = BrickAccesses::default();
    frame.stats.accesses.values().for_each(|a| sum.add(a));
    sum
}

async fn frame(mesh: &Mesh, view: View, settings: &RenderSettings) -> Frame {
    mesh.frame_from(0, view, settings).await.unwrap()
}

#[test]
fn in_every_mode_a_divided_picture_is_that_of_one_peer_with_one_brick() {
    for (name, field) in mode_fields() {
        // Views and tiles in turn.
        let views = views(&field);
        for (n, (look, settings)) in looks(&field).into_iter().enumerate() {
            let (eye, view) = views[n % views.len()];
            let tile = [None, Some(24), Some(64)][n % 3];
            let tiles = [
                TileSharing::Planned,
                TileSharing::Steal,
                TileSharing::Demand,
            ];
            // Each with each edge.
            let tiles = tiles[(n + n / 3) % 3];
            let what = format!("{name}, {look}, {eye}, {tile:?}, {tiles:?}");
            let one = picture(Arc::new(Bricks::cut(&field, 128)), 1, &cpu, view, &settings);
            let many = actix::System::new().block_on(async {
                let source = Arc::new(Bricks::cut(&field, 32));
                let supply = |_: usize| KINDS[n % 2].supply(MEMORY_BYTES);
                let mut mesh = Mesh::start_supplied(5, 2, source, &supply, &|bus| bus).await;
                mesh.rules = PlanRules {
                    tile_sharing: tiles,
                    ..divided(tile)
                };
                if tiles == TileSharing::Steal {
                    // Tiles stay where they were.
                    drop(frame(&mesh, views[0].1, &settings).await);
                }
                let frame = frame(&mesh, view, &settings).await;
                assert!(frame.stats.image_tile.is_some(), "{what}");
                rgba(&frame, &settings)
            });
            let d = compare(&one, &many);
            assert!(d.max <= 1, "{what}: {d:?}");
        }
    }
}

#[test]
fn on_vulkan_a_divided_picture_is_that_of_one_peer_but_for_roundings() {
    if !vulkan_is_there("on_vulkan_a_divided_picture_is_that_of_one_peer_but_for_roundings") {
        return;
    }
    let vulkan =
        || -> Box<dyn RenderDevice> { Box::new(VulkanDevice::new(None, Some(256 << 20)).unwrap()) };
    let (_, field) = mode_fields().swap_remove(0);
    let settings = settings(&field, true);
    for (eye, view) in views(&field) {
        let one = Arc::new(Bricks::cut(&field, 128));
        let one = picture(one, 1, &vulkan, view, &settings);
        let many = actix::System::new().block_on(async {
            let source = Arc::new(Bricks::cut(&field, 32));
            let mut mesh = Mesh::start(3, 1, source, &vulkan).await;
            mesh.rules = divided(Some(32));
            let frame = frame(&mesh, view, &settings).await;
            let all = accesses(&frame);
            assert!(frame.stats.image_tile.is_some() && all.missed > 0);
            // Each job acquires its brick; of the last ones the word may come too late.
            let jobs = &frame.stats.jobs;
            let measured = jobs.iter().filter(|j| j.measured_micros > Some(0));
            assert!((measured.count()..=jobs.len()).contains(&(all.acquired as usize)));
            rgba(&frame, &settings)
        });
        let d = compare(&one, &many);
        // A texture unit may round: a thousandth of the pixels may differ by up to 3.
        assert!(d.max <= 3 && d.over_1 <= 0.001, "{eye}: {d:?}");
    }
}

/// A mesh of five peers, each with room for two thirds of the bricks, two copies of which are held.
async fn short_of_memory(
    field: &Field,
    kind: Kind,
    wire: &dyn Fn(Arc<dyn Bus>) -> Arc<dyn Bus>,
) -> (Mesh, u32) {
    let source = Arc::new(Bricks::cut(field, 16));
    let count = source.manifest().grid().brick_count();
    let supply = |_: usize| kind.small(&*source, 2 * count / 3);
    let mut mesh = Mesh::start_supplied(5, 2, source.clone(), &supply, wire).await;
    mesh.rules = divided(Some(32));
    (mesh, count)
}

#[test]
fn peers_fetch_what_they_lack_and_find_it_again() {
    let (_, field) = mode_fields().swap_remove(0);
    let settings = settings(&field, true);
    let (_, view) = views(&field).swap_remove(0);
    let one = picture(Arc::new(Bricks::cut(&field, 128)), 1, &cpu, view, &settings);
    for kind in KINDS {
        actix::System::new().block_on(async {
            let (mesh, count) = short_of_memory(&field, kind, &|bus| bus).await;
            let (mut missed, mut cached) = (Vec::new(), 0);
            for _ in 0..4 {
                let frame = frame(&mesh, view, &settings).await;
                assert_eq!(frame.stats.image_tile, Some(32));
                assert!(compare(&one, &rgba(&frame, &settings)).max <= 1);
                let all = accesses(&frame);
                assert!(all.held > 0 && all.held + all.cached + all.missed <= 5 * count);
                missed.push(all.missed);
                cached = all.cached;
            }
            assert!(missed[0] > 0, "{kind:?}: {missed:?}");
            // What each renders follows from what jobs took, and who had time: tiles move, as long as that is new.
            assert!(
                missed[1..].iter().all(|&m| m < missed[0]),
                "{kind:?}: {missed:?}"
            );
            assert!(cached > 0, "{kind:?}: {missed:?}");
        });
    }
}

#[test]
fn where_the_requester_chooses_both_divisions_give_the_same_picture() {
    let (_, field) = mode_fields().swap_remove(0);
    let settings = settings(&field, true);
    let (_, view) = views(&field).swap_remove(0);
    let one = picture(Arc::new(Bricks::cut(&field, 128)), 1, &cpu, view, &settings);
    actix::System::new().block_on(async {
        let (mut mesh, _) = short_of_memory(&field, Kind::Object, &|bus| bus).await;
        mesh.rules.division = Division::Auto { tile: Some(32) };
        let mut divided = Vec::new();
        for _ in 0..30 {
            let frame = frame(&mesh, view, &settings).await;
            assert!(compare(&one, &rgba(&frame, &settings)).max <= 1);
            divided.push(frame.stats.image_tile.is_some());
            if frame.stats.image_tile.is_some() {
                assert_eq!(frame.stats.forecasts.len(), 2);
            }
        }
        assert!(!divided[0] && divided.contains(&true), "{divided:?}");
    });
}

/// A bus that changes a byte of each brick that one peer gives.
#[derive(Debug)]
struct Forging {
    inner: Arc<dyn Bus>,
    count: Arc<AtomicUsize>,
}

impl Bus for Forging {
    fn local(&self) -> &PeerId {
        self.inner.local()
    }

    fn send(&self, to: &PeerId, lane: Lane, message: Bytes) -> Result<(), BusError> {
        let mut message = message.to_vec();
        if lane == Lane::Bricks {
            let middle = message.len() / 2;
            message[middle] ^= 1;
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        self.inner.send(to, lane, message.into())
    }
}

#[test]
fn forged_bricks_are_fetched_elsewhere() {
    let (_, field) = mode_fields().swap_remove(0);
    let settings = settings(&field, true);
    let (_, view) = views(&field).swap_remove(0);
    let one = picture(Arc::new(Bricks::cut(&field, 128)), 1, &cpu, view, &settings);
    for kind in KINDS {
        let count = Arc::new(AtomicUsize::new(0));
        let wire = |bus: Arc<dyn Bus>| -> Arc<dyn Bus> {
            if *bus.local() != peer_id(1) {
                return bus;
            }
            Arc::new(Forging {
                inner: bus,
                count: Arc::clone(&count),
            })
        };
        actix::System::new().block_on(async {
            let (mesh, _) = short_of_memory(&field, kind, &wire).await;
            // Those that came before were copies.
            count.store(0, Ordering::Relaxed);
            for _ in 0..3 {
                let frame = frame(&mesh, view, &settings).await;
                assert!(compare(&one, &rgba(&frame, &settings)).max <= 1);
            }
        });
        assert!(
            count.load(Ordering::Relaxed) > 0,
            "{kind:?}: one was forged"
        );
    }
}

#[test]
fn a_peer_that_dies_between_fetches_leaves_no_hole() {
    let (_, field) = mode_fields().swap_remove(0);
    let settings = settings(&field, true);
    let views = views(&field);
    for kind in KINDS {
        actix::System::new().block_on(async {
            let (mesh, _) = short_of_memory(&field, kind, &|bus| bus).await;
            for n in [3, 4] {
                let (_, view) = views[n - 3];
                let one = picture_of(&field, view, &settings).await;
                let asked = mesh.frame_from(0, view, &settings);
                let dies = async {
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                    mesh.hub.cut(&peer_id(n));
                };
                let (whole, ()) = tokio::join!(asked, dies);
                assert!(compare(&one, &rgba(&whole.unwrap(), &settings)).max <= 1);
                let again = frame(&mesh, view, &settings).await;
                assert!(compare(&one, &rgba(&again, &settings)).max <= 1);
            }
        });
    }
}

#[test]
fn what_nobody_has_room_to_hold_is_fetched_of_who_has_the_file() {
    let (_, field) = mode_fields().swap_remove(0);
    let settings = settings(&field, true);
    let (_, view) = views(&field).swap_remove(0);
    for kind in KINDS {
        actix::System::new().block_on(async {
            let one = picture_of(&field, view, &settings).await;
            let source = Arc::new(Bricks::cut(&field, 16));
            let count = source.manifest().grid().brick_count();
            // Four peers hold all of it, until one dies; who has the file has no memory.
            let supply = |n: usize| kind.small(&*source, if n == 0 { 0 } else { 3 * count / 10 });
            let mut mesh = Mesh::start_supplied(5, 1, source.clone(), &supply, &|bus| bus).await;
            mesh.rules = divided(Some(32));
            drop(frame(&mesh, view, &settings).await);
            mesh.hub.cut(&peer_id(4));
            for rules in [mesh.rules, PlanRules::default(), mesh.rules] {
                mesh.rules = rules;
                let whole = frame(&mesh, view, &settings).await;
                let d = compare(&one, &rgba(&whole, &settings));
                assert!(d.max <= 1, "{kind:?}: {d:?}");
            }
            let status = mesh.peers[0].owner.send(AskStatus).await.unwrap();
            let there = (1..4).map(|n| &status.data_sets[0].residency[&peer_id(n)]);
            let held: u32 = there.map(|r| r.held.len()).sum();
            assert!(held < count, "{kind:?}: {held} of {count} are held");
        });
    }
}

#[test]
fn what_is_read_and_cannot_be_had_is_named() {
    let (_, field) = mode_fields().swap_remove(0);
    let settings = settings(&field, true);
    let (_, view) = views(&field).swap_remove(0);
    for kind in KINDS {
        actix::System::new().block_on(async {
            let (mesh, _) = short_of_memory(&field, kind, &|bus| bus).await;
            drop(frame(&mesh, view, &settings).await);
            // Whoever is left has the file no more.
            for n in [0, 1, 3, 4] {
                mesh.hub.cut(&peer_id(n));
            }
            let asked = mesh.frame_from(2, view, &settings).await.unwrap();
            assert!(!asked.stats.missing.is_empty(), "{kind:?}");
        });
    }
}

/// The picture of one peer with one brick.
async fn picture_of(field: &Field, view: View, settings: &RenderSettings) -> Vec<u8> {
    let source = Arc::new(Bricks::cut(field, 128));
    let mesh = Mesh::start(1, 1, source, &cpu).await;
    mesh.picture(view, settings).await
}
