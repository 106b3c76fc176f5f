//! Meshes of peers in one process: frames are whole whoever dies, times come back, costs balance.

use brickmesh_actors::{
    brick_owner::{AskStatus, ReadVoxel},
    bus::{Bus, BusError, Lane},
    device_slot::DeviceSupply,
    messages::{FrameMessage, Message, decode},
    requester::{self, FrameError, JobStats},
    viewpoints::{FollowViewer, ShowViewpoint},
};
use brickmesh_shaders::{DeviceError, IsWanted, Job, RenderDevice, RenderedJob, SubImage};
use brickmesh_tests::{
    compare::compare,
    hooked_device::hooked,
    mesh::{Mesh, cpu, peer_id},
    volumes::{Bricks, waves},
};
use brickmesh_topology::{
    BrickGrid, Camera, Digest, PeerId, RenderSettings, TransferFunction, VoxelType,
    balance::{placement::comparison::PLACED_PARTITIONS, prediction::Prediction},
    data::{brick_set::BrickSet, partition_method::PartitionMethod},
    mesh::followers::Viewpoint,
};
use bytes::Bytes;
use std::{
    cell::Cell,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use tokio::sync::watch;

fn field_and_settings() -> (brickmesh_tests::reference::Field, RenderSettings) {
    let field = waves([60, 50, 40], VoxelType::U16, false);
    let transfer = TransferFunction::ramp(20_000.0, 60_000.0);
    (
        field,
        RenderSettings {
            shade: false,
            jitter: false,
            ..RenderSettings::new(transfer, 0.5)
        },
    )
}

#[test]
fn voxels_are_read_from_other_peers_exactly_as_they_are_stored() {
    for voxel in [VoxelType::U8, VoxelType::I16, VoxelType::F32] {
        let field = waves([45, 38, 41], voxel, true);
        let source = Arc::new(Bricks::cut(&field, 16));
        actix::System::new().block_on(async {
            let mesh = Mesh::start(3, 1, source, &cpu).await;
            let status = mesh.peers[2].owner.send(AskStatus).await.unwrap();
            let set = &status.data_sets[0];
            let (data_set, grid) = (set.manifest.digest(), set.manifest.grid());
            let read = |voxel, of: Option<usize>| {
                let of = of.map(peer_id);
                let read = ReadVoxel {
                    data_set,
                    voxel,
                    of,
                };
                mesh.peers[2].owner.send(read)
            };
            let mut others = 0;
            for n in 0..50_u32 {
                let voxel = [7 * n % 45, 11 * n % 38, 17 * n % 41];
                let [x, y, z] = voxel.map(|v| v as usize);
                let brick = grid.index(voxel.map(|v| v / 16)).unwrap();
                let holds = |of| set.residency[&peer_id(of)].held.contains(brick);
                let of = (0..3).find(|&of| holds(of)).unwrap();
                others += usize::from(of != 2);
                let found = read(voxel, Some(of).filter(|of| *of != 2)).await.unwrap();
                let stored = field.stored[x + 45 * (y + 38 * z)];
                assert_eq!(found.map(f64::to_bits), Ok(stored.to_bits()), "{voxel:?}");
                if !holds(2) {
                    let own = read(voxel, None).await.unwrap();
                    assert_eq!(own, Err("the brick is not held here".to_owned()));
                }
            }
            assert!(others > 10, "of other peers: {others}");
            let outside = read([45, 0, 0], Some(0)).await.unwrap();
            assert!(outside.is_err(), "{outside:?}");
            mesh.hub.cut(&peer_id(1));
            let gone = read([0; 3], Some(1)).await.unwrap().unwrap_err();
            assert!(gone.contains("peer"), "{gone}");
        });
    }
}

#[test]
fn a_peer_that_dies_leaves_no_hole_and_frames_go_on() {
    let (field, settings) = field_and_settings();
    let view = Camera::whole(&field.volume).view(64, 64).unwrap();
    actix::System::new().block_on(async {
        let mesh = Mesh::start(4, 2, Arc::new(Bricks::cut(&field, 16)), &cpu).await;
        let before = mesh.picture(view, &settings).await;
        mesh.hub.cut(&peer_id(3));
        let after = mesh.picture(view, &settings).await;
        assert!(
            compare(&before, &after).max <= 1,
            "the same picture by other peers"
        );
        mesh.settle(3).await;
        assert!(compare(&before, &mesh.picture(view, &settings).await).max <= 1);
    });
}

#[test]
fn every_placement_gives_the_same_picture_and_no_hole_where_a_copy_is_left() {
    let (field, settings) = field_and_settings();
    let view = Camera::whole(&field.volume).view(64, 64).unwrap();
    actix::System::new().block_on(async {
        let alone = Mesh::start(1, 1, Arc::new(Bricks::cut(&field, 64)), &cpu).await;
        let expected = alone.picture(view, &settings).await;
        for method in PLACED_PARTITIONS {
            let bricks = || Arc::new(Bricks::cut(&field, 16).placed(Some(method)));
            let once = Mesh::start_met(3, 1, bricks(), &cpu).await;
            let status = once.peers[0].owner.send(AskStatus).await.unwrap();
            let set = &status.data_sets[0];
            let held: Vec<_> = set.residency.values().map(|r| r.held.clone()).collect();
            let copies: u32 = held.iter().map(BrickSet::len).sum();
            assert_eq!(copies, set.manifest.grid().brick_count(), "{method:?}");
            for held in &held {
                assert!(is_box(set.manifest.grid(), held), "{method:?}: {held:?}");
            }
            let picture = once.picture(view, &settings).await;
            assert!(compare(&expected, &picture).max <= 1, "{method:?}");
            let twice = Mesh::start_met(3, 2, bricks(), &cpu).await;
            twice.hub.cut(&peer_id(2));
            let picture = twice.picture(view, &settings).await;
            assert!(
                compare(&expected, &picture).max <= 1,
                "{method:?}, one dead"
            );
        }
    });
}

#[test]
fn peers_without_work_copy_a_few_of_the_bricks_that_are_seen() {
    let (field, mut settings) = field_and_settings();
    // One side of the volume, so a part of it.
    settings.clip.bounds = Some([[0.0; 3], [12.0, 50.0, 40.0]]);
    let view = Camera::whole(&field.volume).view(64, 64).unwrap();
    let renderers = |jobs: &[JobStats]| {
        let peers: std::collections::BTreeSet<_> = jobs.iter().map(|j| &j.peer).collect();
        peers.len()
    };
    actix::System::new().block_on(async {
        let bricks = Bricks::cut(&field, 8).placed(Some(PartitionMethod::SlabsEqual));
        let mesh = Mesh::start_met(5, 1, Arc::new(bricks), &cpu).await;
        let copies = async || {
            let status = mesh.peers[0].owner.send(AskStatus).await.unwrap();
            let residency = &status.data_sets[0].residency;
            residency.values().map(|r| r.held.len()).sum::<u32>()
        };
        let all = copies().await;
        let before = mesh.picture(view, &settings).await;
        let frame = || mesh.frame_from(0, view, &settings);
        assert!(renderers(&frame().await.unwrap().stats.jobs) < 5);
        let start = Instant::now();
        while renderers(&frame().await.unwrap().stats.jobs) < 5 {
            assert!(start.elapsed() < Duration::from_secs(30), "nobody helps");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        mesh.settle(5).await;
        assert!(compare(&before, &mesh.picture(view, &settings).await).max <= 1);
        let more = copies().await - all;
        assert!((1..=all / 4).contains(&more), "{more} of {all}");
    });
}

/// Whether bricks are all of a box.
fn is_box(grid: &BrickGrid, held: &BrickSet) -> bool {
    let at: Vec<[u32; 3]> = held.iter().map(|b| grid.coordinates(b)).collect();
    let edge = |axis: usize| {
        let along = at.iter().map(|at| at[axis]);
        along
            .clone()
            .max()
            .zip(along.min())
            .map_or(0, |(high, low)| high - low + 1)
    };
    edge(0) * edge(1) * edge(2) == held.len()
}

/// A bus that loses the times of jobs.
#[derive(Debug)]
struct Untimed(Arc<dyn Bus>);

impl Bus for Untimed {
    fn local(&self) -> &PeerId {
        self.0.local()
    }

    fn send(&self, to: &PeerId, lane: Lane, message: Bytes) -> Result<(), BusError> {
        match decode(&message) {
            Ok(Message::Reply {
                reply: FrameMessage::JobsDone { .. },
                ..
            }) => Ok(()),
            _ => self.0.send(to, lane, message),
        }
    }
}

#[test]
fn a_frame_whose_times_are_lost_ends_with_its_picture_whole() {
    let (field, settings) = field_and_settings();
    let view = Camera::whole(&field.volume).view(64, 64).unwrap();
    actix::System::new().block_on(async {
        let bricks = Arc::new(Bricks::cut(&field, 16));
        let lose = |bus| -> Arc<dyn Bus> { Arc::new(Untimed(bus)) };
        let mesh = Mesh::start_through(2, 2, bricks, &cpu, &lose).await;
        let asked = mesh.frame_from(0, view, &settings);
        let frame = tokio::time::timeout(Duration::from_secs(60), asked).await;
        let frame = frame.expect("the wait has an end").unwrap();
        assert_eq!(frame.stats.failed_attempts, 0);
        let timed = |of: usize| {
            let of_peer = frame.stats.jobs.iter().filter(|j| j.peer == peer_id(of));
            of_peer.filter(|j| j.measured_micros.is_some()).count()
        };
        assert!(timed(0) > 0 && timed(1) == 0);
        let alone = Mesh::start(1, 1, Arc::new(Bricks::cut(&field, 16)), &cpu).await;
        let expected = alone.picture(view, &settings).await;
        assert!(compare(&expected, &frame.image.to_rgba8([0.0; 3])).max <= 1);
    });
}

/// An opaque volume, which is rendered quickly however large the picture is.
fn solid() -> (brickmesh_tests::reference::Field, RenderSettings) {
    let mut field = waves([20; 3], VoxelType::U8, false);
    field.stored.fill(200.0);
    let mut transfer = TransferFunction::ramp(0.0, 100.0);
    transfer.points.iter_mut().for_each(|p| p.opacity = 1.0);
    let settings = RenderSettings {
        shade: false,
        jitter: false,
        ..RenderSettings::new(transfer, 0.5)
    };
    (field, settings)
}

#[test]
fn a_picture_larger_than_a_peers_own_queue_comes() {
    let (field, settings) = solid();
    for peers in [1, 3] {
        // Four tiles of 32 MiB, one of which alone is half of what may be under way inside of a peer.
        let view = Camera::whole(&field.volume).view(4096, 4096).unwrap();
        actix::System::new().block_on(async {
            let mesh = Mesh::start(peers, 1, Arc::new(Bricks::cut(&field, 32)), &cpu).await;
            let asked = mesh.frame_from(0, view, &settings);
            let frame = tokio::time::timeout(Duration::from_secs(120), asked).await;
            let frame = frame.expect("the wait has an end").unwrap();
            let opaque = frame.image.pixels().iter().filter(|p| p[3] > 0.99).count();
            assert!(opaque > 4096 * 4096 / 8, "{peers} peers: {opaque} pixels");
        });
    }
}

/// A device that renders pixels which are no numbers.
fn no_numbers() -> Box<dyn RenderDevice> {
    hooked(cpu(), |inner, job, is_wanted| {
        let rendered = inner.render_while(job, is_wanted)?;
        let pixels = vec![[f32::NAN; 4]; rendered.image.pixels().len()];
        let image = SubImage::new(rendered.image.rect(), pixels);
        Ok(RenderedJob {
            image: image.expect("as many pixels as before"),
            ..rendered
        })
    })
}

#[test]
fn pixels_that_are_no_numbers_end_a_frame_with_the_cause_or_are_rendered_by_others() {
    let (field, settings) = field_and_settings();
    let view = Camera::whole(&field.volume).view(64, 64).unwrap();
    let bricks = Arc::new(Bricks::cut(&field, 16));
    actix::System::new().block_on(async {
        let alone = Mesh::start(1, 1, bricks.clone(), &no_numbers).await;
        let asked = alone.frame_from(0, view, &settings);
        let frame = tokio::time::timeout(Duration::from_secs(20), asked).await;
        let error = frame.expect("the wait has an end").unwrap_err().to_string();
        assert!(error.contains("not finite"), "{error}");
        let supply = |n: usize| -> DeviceSupply {
            let device = if n == 2 { no_numbers() } else { cpu() };
            device.into()
        };
        let mesh = Mesh::start_supplied(3, 2, bricks.clone(), &supply, &|bus| bus).await;
        let asked = mesh.frame_from(0, view, &settings);
        let frame = tokio::time::timeout(Duration::from_secs(20), asked).await;
        let frame = frame.expect("the wait has an end").unwrap();
        assert!(frame.stats.failed_attempts > 0 && frame.stats.missing.is_empty());
        let well = Mesh::start(1, 1, bricks, &cpu).await;
        let expected = well.picture(view, &settings).await;
        assert!(compare(&expected, &frame.image.to_rgba8([0.0; 3])).max <= 1);
    });
}

#[test]
fn every_job_is_timed_and_rendered_by_a_holder() {
    let (field, settings) = field_and_settings();
    let view = Camera::whole(&field.volume).view(64, 64).unwrap();
    actix::System::new().block_on(async {
        let mut mesh = Mesh::start(3, 2, Arc::new(Bricks::cut(&field, 16)), &cpu).await;
        mesh.rules.prediction = Prediction::LastFrame;
        let first = mesh.frame_from(0, view, &settings).await.unwrap().stats;
        assert!(first.jobs.iter().all(|j| j.measured_micros.is_some()));
        let second = mesh.frame_from(0, view, &settings).await.unwrap().stats;
        // The last frame's times, at the speed that was found for who took them, are the next
        // costs: what was dear is expected to be dear on the same peer's jobs.
        let mut ratios = std::collections::BTreeMap::<_, Vec<f64>>::new();
        // A brick that took long, on a busy machine, may have been cut since.
        let same = |a: &&JobStats, b: &&JobStats| (a.brick, a.owned) == (b.brick, b.owned);
        let both = first.jobs.iter().filter_map(|a| {
            let b = second.jobs.iter().find(|b| same(&a, b))?;
            Some((a, b))
        });
        assert!(2 * both.clone().count() > first.jobs.len());
        for (a, b) in both {
            let ratio = b.estimate_micros as f64 / a.measured_micros.unwrap().max(1) as f64;
            ratios.entry(a.peer.clone()).or_default().push(ratio);
        }
        for (peer, ratios) in ratios {
            let spread = ratios
                .iter()
                .fold(0.0, |s: f64, r| s.max((r / ratios[0] - 1.0).abs()));
            assert!(spread < 0.1, "{peer}: {ratios:?}");
        }
        // A peer that others hold up, on a busy machine, may lose all its jobs to them.
        let planned = |j: &JobStats| j.stolen_from.clone().unwrap_or_else(|| j.peer.clone());
        let peers: std::collections::BTreeSet<_> = first.jobs.iter().map(planned).collect();
        assert_eq!(peers.len(), 3, "all take part");
        assert!(second.bytes_sent > 0);
    });
}

#[test]
fn two_requesters_share_the_bricks_each_with_its_own_camera() {
    let (field, settings) = field_and_settings();
    let here = Camera::orbit(&field.volume, 20.0, 10.0, 1.0)
        .view(48, 48)
        .unwrap();
    let there = Camera::orbit(&field.volume, 200.0, -30.0, 1.0)
        .view(40, 56)
        .unwrap();
    actix::System::new().block_on(async {
        let mesh = Mesh::start(3, 2, Arc::new(Bricks::cut(&field, 16)), &cpu).await;
        let alone = mesh.frame_from(0, here, &settings).await.unwrap();
        // The other peer's roster comes with its residency messages; all are settled by now.
        let (a, b) = tokio::join!(
            mesh.frame_from(0, here, &settings),
            mesh.frame_from(1, there, &settings)
        );
        // Thefts may group the blending otherwise: the same picture, not the same last bits.
        let rgba = |f: &requester::Frame| f.image.to_rgba8([0.0; 3]);
        assert!(compare(&rgba(&a.unwrap()), &rgba(&alone)).max <= 1);
        assert_eq!(b.unwrap().image.rect().width, 40);
    });
}

#[test]
fn more_frames_than_may_be_under_way_are_refused_not_queued() {
    let (field, settings) = field_and_settings();
    let view = Camera::whole(&field.volume).view(64, 64).unwrap();
    actix::System::new().block_on(async {
        let mesh = Mesh::start(1, 1, Arc::new(Bricks::cut(&field, 64)), &cpu).await;
        let frame = || mesh.frame_from(0, view, &settings);
        let (a, b, c, d, e) = tokio::join!(frame(), frame(), frame(), frame(), frame());
        let all = [a, b, c, d, e];
        assert_eq!(
            all.iter()
                .filter(|f| matches!(f, Err(FrameError::TooMany)))
                .count(),
            1
        );
        assert_eq!(all.iter().filter(|f| f.is_ok()).count(), 4);
    });
}

#[test]
fn a_step_that_would_take_all_devices_for_itself_is_refused() {
    let (field, settings) = field_and_settings();
    let view = Camera::whole(&field.volume).view(64, 64).unwrap();
    actix::System::new().block_on(async {
        let mesh = Mesh::start(2, 2, Arc::new(Bricks::cut(&field, 32)), &cpu).await;
        let tiny = RenderSettings {
            step: 1e-9,
            ..settings.clone()
        };
        let error = mesh.frame_from(0, view, &tiny).await.unwrap_err();
        let said = error.to_string();
        assert!(said.contains("step is 0.000000001"), "{said}");
        mesh.picture(view, &settings).await;
    });
}

/// A device whose jobs end when they are called off, which is counted, and not before.
fn endless(inner: Box<dyn RenderDevice>, called_off: &Arc<AtomicUsize>) -> Box<dyn RenderDevice> {
    let called_off = Arc::clone(called_off);
    let render = move |_: &mut dyn RenderDevice, _: &Job, is_wanted: IsWanted<'_>| {
        while is_wanted() {
            thread::sleep(Duration::from_millis(1));
        }
        called_off.fetch_add(1, Ordering::Relaxed);
        Err(DeviceError::CalledOff)
    };
    hooked(inner, render)
}

#[test]
fn a_job_that_nobody_waits_for_any_more_is_given_up_in_the_middle() {
    let (field, settings) = field_and_settings();
    let view = Camera::whole(&field.volume).view(64, 64).unwrap();
    let (made, called_off) = (Cell::new(0), Arc::new(AtomicUsize::new(0)));
    let device = || -> Box<dyn RenderDevice> {
        made.set(made.get() + 1);
        if made.get() == 3 {
            endless(cpu(), &called_off)
        } else {
            cpu()
        }
    };
    actix::System::new().block_on(async {
        let mesh = Mesh::start(3, 2, Arc::new(Bricks::cut(&field, 16)), &device).await;
        // Two attempts: the second without the peer whose jobs do not end.
        mesh.picture(view, &settings).await;
        let start = Instant::now();
        while called_off.load(Ordering::Relaxed) == 0 {
            assert!(start.elapsed() < Duration::from_secs(60));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn a_frame_that_nobody_waits_for_is_called_off_on_all_peers() {
    let (field, settings) = field_and_settings();
    let view = Camera::whole(&field.volume).view(64, 64).unwrap();
    let called_off = Arc::new(AtomicUsize::new(0));
    actix::System::new().block_on(async {
        let device = || endless(cpu(), &called_off);
        let mesh = Mesh::start(2, 1, Arc::new(Bricks::cut(&field, 16)), &device).await;
        // More than a requester has under way at a time: each makes room for the next.
        for asked in 0..2 * requester::FRAMES_IN_FLIGHT_MAX {
            let frame = mesh.frame_from(0, view, &settings);
            let waited = tokio::time::timeout(Duration::from_millis(100), frame).await;
            assert!(waited.is_err(), "frame {asked} ended: {waited:?}");
        }
        let start = Instant::now();
        while called_off.load(Ordering::Relaxed) < 2 {
            assert!(start.elapsed() < Duration::from_secs(60));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn a_viewer_hears_the_camera_of_the_one_that_it_follows_and_of_no_other() {
    let (field, _) = field_and_settings();
    let at = |eye: f64| {
        let mut camera = Camera::whole(&field.volume);
        camera.eye.x += eye;
        let data_set = Digest::of(b"data");
        Viewpoint { data_set, camera }
    };
    actix::System::new().block_on(async {
        let mesh = Mesh::start(3, 1, Arc::new(Bricks::cut(&field, 64)), &cpu).await;
        let show = |n: usize, viewpoint| mesh.peers[n].viewpoints.send(ShowViewpoint(viewpoint));
        show(0, at(1.0)).await.unwrap();
        let (to, mut come) = watch::channel(None);
        let viewer = mesh.peers[0].id.clone();
        let follow = FollowViewer { viewer, to };
        mesh.peers[1].viewpoints.send(follow).await.unwrap();
        let wait = Duration::from_secs(20);
        for (eye, shown) in [(1.0, true), (2.0, false), (3.0, false)] {
            if !shown {
                // Another one is not followed; a camera that sees nothing is none.
                show(2, at(9.0)).await.unwrap();
                show(0, at(f64::NAN)).await.unwrap();
                show(0, at(eye)).await.unwrap();
            }
            let heard = come.wait_for(|v| *v == Some(at(eye)));
            let heard = tokio::time::timeout(wait, heard).await;
            heard.expect("the wait has an end").unwrap();
        }
        let seen = *come.borrow();
        assert_eq!(seen, Some(at(3.0)));
    });
}

/// A device that takes a millisecond for each row of what is right of column `right`; what it rendered, in
/// order: whether it was of that.
fn slow_right_of(right: u32, rendered: &Arc<Mutex<Vec<bool>>>) -> Box<dyn RenderDevice> {
    let rendered = Arc::clone(rendered);
    hooked(cpu(), move |inner, job, is_wanted| {
        let is_slow = job.rect.x + job.rect.width > right;
        rendered
            .lock()
            .expect("no thread has panicked")
            .push(is_slow);
        let took = if is_slow {
            u64::from(job.rect.height)
        } else {
            1
        };
        thread::sleep(Duration::from_millis(took));
        Ok(RenderedJob {
            elapsed_micros: took * 1_000,
            ..inner.render_while(job, is_wanted)?
        })
    })
}

#[test]
fn a_slow_frame_of_one_viewer_is_put_aside_for_that_of_another_and_comes_whole() {
    let (field, settings) = field_and_settings();
    let camera = Camera::whole(&field.volume);
    let [large, small] = [512, 64].map(|size| camera.view(size, size).unwrap());
    let rendered = Arc::new(Mutex::new(Vec::new()));
    actix::System::new().block_on(async {
        let device = || slow_right_of(64, &rendered);
        let mut mesh = Mesh::start(2, 2, Arc::new(Bricks::cut(&field, 64)), &device).await;
        mesh.rules.min_job_micros = 10_000_000;
        // Then it is known what it costs, and that there are two who ask.
        mesh.frame_from(1, small, &settings).await.unwrap();
        let whole = mesh.frame_from(0, large, &settings).await.unwrap();
        rendered.lock().unwrap().clear();
        let slow = mesh.frame_from(0, large, &settings);
        let fast = async {
            tokio::time::sleep(Duration::from_millis(60)).await;
            let frame = mesh.frame_from(1, small, &settings).await;
            (frame.unwrap(), rendered.lock().unwrap().len())
        };
        let (slow, (_, before)) = tokio::join!(slow, fast);
        let rendered = rendered.lock().unwrap();
        let is_slow = |of: &[bool]| of.iter().any(|slow| *slow);
        assert!(is_slow(&rendered[before..]), "{before} {rendered:?}");
        assert_eq!(slow.unwrap().image, whole.image);
    });
}

#[test]
fn tiles_come_one_by_one_and_are_the_picture() {
    let (field, settings) = field_and_settings();
    let view = Camera::whole(&field.volume).view(200, 160).unwrap();
    actix::System::new().block_on(async {
        let mesh = Mesh::start(3, 1, Arc::new(Bricks::cut(&field, 16)), &cpu).await;
        let (to_here, mut tiles) = tokio::sync::mpsc::channel(1024);
        let ask = requester::AskFrame {
            tiles: Some(to_here),
            ..mesh.ask(view, &settings)
        };
        let frame = mesh.peers[0].requester.send(ask).await.unwrap().unwrap();
        let mut image = SubImage::transparent(view.rect());
        image.paste(&tiles.try_recv().unwrap());
        assert_ne!(image, frame.image, "one tile is not all");
        while let Ok(tile) = tiles.try_recv() {
            image.paste(&tile);
        }
        assert_eq!(image, frame.image);
    });
}

#[test]
fn a_frame_of_a_data_set_that_nobody_holds_is_an_error() {
    let (field, settings) = field_and_settings();
    let view = Camera::whole(&field.volume).view(8, 8).unwrap();
    actix::System::new().block_on(async {
        let mesh = Mesh::start(2, 1, Arc::new(Bricks::cut(&field, 32)), &cpu).await;
        let ask = requester::AskFrame {
            data_set: Digest::of(b"another"),
            view,
            settings,
            rules: Default::default(),
            is_traced: false,
            tiles: None,
        };
        let error = mesh.peers[0]
            .requester
            .send(ask)
            .await
            .unwrap()
            .unwrap_err();
        assert!(matches!(error, FrameError::NobodyHolds { .. }), "{error}");
    });
}

#[test]
fn peers_say_how_fast_they_are_and_how_their_last_frame_went() {
    let (field, settings) = field_and_settings();
    let view = Camera::whole(&field.volume).view(64, 64).unwrap();
    actix::System::new().block_on(async {
        let mesh = Mesh::start(3, 2, Arc::new(Bricks::cut(&field, 16)), &cpu).await;
        let frame = mesh.frame_from(0, view, &settings).await.unwrap();
        let total = frame.stats.total_micros;
        let start = Instant::now();
        // They say so with their heartbeats; another peer hears it.
        loop {
            let status = mesh.peers[1].owner.send(AskStatus).await.unwrap();
            let of = |n: usize| status.vitals.get(&peer_id(n)).cloned();
            let times = of(0).and_then(|v| v.last_frame);
            let speeds = (0..3).filter(|&n| of(n).is_some_and(|v| v.speed_millionths.is_some()));
            if let Some(times) = times
                && speeds.count() == 3
            {
                assert_eq!(times.total_micros, total);
                assert!(times.schedule_micros <= total);
                break;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{status:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}
