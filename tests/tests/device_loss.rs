//! Devices that are lost or short of memory: frames are whole and right before, during and after,
//! and at each time the peer says what it holds, no more.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail by a panic, also outside of its function"
)]

use brickmesh_actors::brick_owner::{AskStatus, DataSetStatus, MeshStatus};
use brickmesh_shaders::{RenderDevice, device::cpu::CpuDevice};
use brickmesh_tests::{
    compare::compare,
    failing_device::{Call, Cues, lost, out_of_memory},
    mesh::{Mesh, cpu, peer_id},
    reference::Field,
    volumes::{Bricks, waves},
};
use brickmesh_topology::{
    Camera, RenderSettings, TransferFunction, View, VoxelType, data::brick_set::BrickSet,
    mesh::device_recovery::Attempt,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The peer whose device fails.
const FAILING: usize = 1;

/// What all tests look at, and the picture that one peer makes of it.
struct Shown {
    field: Field,
    settings: RenderSettings,
    view: View,
    alone: Vec<u8>,
}

impl Shown {
    async fn new() -> Self {
        let field = waves([60, 50, 40], VoxelType::U16, false);
        let settings = RenderSettings {
            shade: false,
            jitter: false,
            ..RenderSettings::new(TransferFunction::ramp(20_000.0, 60_000.0), 0.5)
        };
        let view = Camera::whole(&field.volume).view(64, 64).unwrap();
        let mesh = Mesh::start(1, 1, Arc::new(Bricks::cut(&field, 16)), &cpu).await;
        let alone = mesh.picture(view, &settings).await;
        Self {
            field,
            settings,
            view,
            alone,
        }
    }

    /// A mesh of three peers, one of whose devices follows the cues.
    async fn mesh(&self, redundancy: u32, cues: &Cues) -> Mesh {
        let bricks = Arc::new(Bricks::cut(&self.field, 16));
        let supply = |n| match n {
            FAILING => cues.supply(cpu),
            _ => cpu().into(),
        };
        Mesh::start_supplied(3, redundancy, bricks, &supply, &|bus| bus).await
    }

    /// Asks for a frame, which must be whole and right.
    async fn check(&self, mesh: &Mesh) {
        let picture = mesh.picture(self.view, &self.settings).await;
        assert!(compare(&self.alone, &picture).max <= 1);
    }
}

async fn status(mesh: &Mesh) -> MeshStatus {
    mesh.peers[0].owner.send(AskStatus).await.unwrap()
}

/// What the failing peer says that it holds, as another peer hears it.
async fn held(mesh: &Mesh) -> BrickSet {
    let status = status(mesh).await;
    let of = |d: &DataSetStatus| d.residency[&peer_id(FAILING)].held.clone();
    of(&status.data_sets[0])
}

/// Waits until a status is as wanted.
async fn until(mesh: &Mesh, wanted: impl Fn(&MeshStatus) -> bool) {
    let start = Instant::now();
    loop {
        let status = status(mesh).await;
        if wanted(&status) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{status:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn device_name(status: &MeshStatus) -> &str {
    &status.peers[&peer_id(FAILING)].device
}

/// Asks for frames until the failing peer renders again: it is left out for a while.
async fn takes_part_again(shown: &Shown, mesh: &Mesh) {
    let start = Instant::now();
    loop {
        let frame = mesh
            .frame_from(0, shown.view, &shown.settings)
            .await
            .unwrap();
        assert!(frame.stats.missing.is_empty());
        assert!(compare(&shown.alone, &frame.image.to_rgba8([0.0; 3])).max <= 1);
        if frame.stats.jobs.iter().any(|j| j.peer == peer_id(FAILING)) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "it does not render again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn a_lost_device_costs_no_hole_and_is_opened_again() {
    actix::System::new().block_on(async {
        let shown = Shown::new().await;
        let cues = Cues::default();
        let mesh = shown.mesh(2, &cues).await;
        shown.check(&mesh).await;
        assert!(!held(&mesh).await.is_empty());
        assert_eq!(device_name(&status(&mesh).await), "device 0");

        cues.let_open(false);
        cues.fail(Call::Render, 1, lost());
        shown.check(&mesh).await;
        assert!(cues.is_over(), "the device was lost in this frame");
        // It says so, and frames go on without it.
        until(&mesh, |s| device_name(s).contains("lost: on cue")).await;
        assert!(held(&mesh).await.is_empty());
        shown.check(&mesh).await;
        assert!(
            held(&mesh).await.is_empty(),
            "there is nothing to hold it on"
        );

        cues.let_open(true);
        until(&mesh, |s| device_name(s) == "device 1").await;
        mesh.settle(3).await;
        let says = status(&mesh).await.data_sets[0].residency[&peer_id(FAILING)].clone();
        assert!(!says.held.is_empty() && says.assigned.iter().all(|b| says.held.contains(b)));
        assert_eq!(cues.attempts()[0], Attempt::Again);
        takes_part_again(&shown, &mesh).await;
    });
}

#[test]
fn bricks_that_only_the_lost_device_held_come_back_from_the_hosts_copies() {
    actix::System::new().block_on(async {
        let shown = Shown::new().await;
        let cues = Cues::default();
        let mesh = shown.mesh(1, &cues).await;
        // The opener has the source, and is gone.
        mesh.hub.cut(&peer_id(0));
        let ask = async || mesh.peers[FAILING].owner.send(AskStatus).await.unwrap();
        let of = |s: &MeshStatus, n| s.data_sets[0].residency[&peer_id(n)].held.clone();
        let before = of(&ask().await, FAILING);
        assert!(!before.is_empty());
        cues.fail(Call::SetScene, 0, lost());
        let start = Instant::now();
        while !cues.is_over() {
            // Of what is left; whether it is whole depends on when.
            let frame = mesh.frame_from(FAILING, shown.view, &shown.settings).await;
            let jobs = frame.map(|f| f.stats.jobs.len());
            assert!(start.elapsed() < PATIENCE, "{jobs:?}");
        }
        // Without frames, which bricks keep out of the way of. Some may go to the other peer.
        loop {
            let status = ask().await;
            let (own, other) = (of(&status, FAILING), of(&status, 2));
            let is_held = |b| own.contains(b) || other.contains(b);
            if device_name(&status) == "device 1" && before.iter().all(is_held) {
                break;
            }
            assert!(start.elapsed() < PATIENCE, "{own:?} {other:?} {before:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(cues.attempts(), [Attempt::Again]);
    });
}

#[test]
fn a_device_that_is_lost_while_bricks_are_loaded_gets_them_all_again() {
    actix::System::new().block_on(async {
        let shown = Shown::new().await;
        let cues = Cues::default();
        cues.fail(Call::Load, 3, lost());
        let mesh = shown.mesh(2, &cues).await;
        assert!(cues.is_over());
        until(&mesh, |s| device_name(s) == "device 1").await;
        assert!(held(&mesh).await.len() > 3);
        shown.check(&mesh).await;
    });
}

#[test]
fn a_device_that_is_full_holds_less_and_says_so() {
    actix::System::new().block_on(async {
        let shown = Shown::new().await;
        let cues = Cues::default();
        cues.fail(Call::Load, 3, out_of_memory());
        let mesh = shown.mesh(2, &cues).await;
        assert!(cues.is_over());
        let status = status(&mesh).await;
        let says = &status.data_sets[0].residency[&peer_id(FAILING)];
        // Two of three peers hold each of 48 bricks; some were under way when it was full.
        assert!((3..32).contains(&says.capacity), "{says:?}");
        assert_eq!((says.held.len(), says.settled), (says.capacity, true));
        assert_eq!(device_name(&status), "device 0");
        shown.check(&mesh).await;
    });
}

#[test]
fn a_brick_is_given_up_where_memory_is_short_for_a_picture() {
    actix::System::new().block_on(async {
        let shown = Shown::new().await;
        let cues = Cues::default();
        let mesh = shown.mesh(2, &cues).await;
        let says = |s: &MeshStatus| s.data_sets[0].residency[&peer_id(FAILING)].clone();
        // So far its memory has room for all of them.
        let mut room = 48;
        assert!(says(&status(&mesh).await).capacity >= room);
        for call in [Call::Render, Call::SetScene] {
            cues.fail(call, 0, out_of_memory());
            let start = Instant::now();
            // While it is left out of frames, nothing fails.
            while !cues.is_over() {
                shown.check(&mesh).await;
                assert!(start.elapsed() < PATIENCE, "it does not render");
            }
            until(&mesh, |s| {
                says(s).capacity < room && says(s).held.len() <= says(s).capacity
            })
            .await;
            room = says(&status(&mesh).await).capacity;
            shown.check(&mesh).await;
        }
        takes_part_again(&shown, &mesh).await;
    });
}

#[test]
fn a_device_that_is_lost_again_and_again_gives_way_to_the_fallback() {
    actix::System::new().block_on(async {
        let shown = Shown::new().await;
        let cues = Cues::default();
        let mesh = shown.mesh(3, &cues).await;
        for n in 1..=3 {
            cues.fail(Call::Render, 0, lost());
            let start = Instant::now();
            while !cues.is_over() {
                shown.check(&mesh).await;
                assert!(start.elapsed() < PATIENCE, "it does not render");
            }
            let name = format!("device {n}");
            until(&mesh, |s| device_name(s) == name).await;
            mesh.settle(3).await;
        }
        let again = Attempt::Again;
        assert_eq!(cues.attempts(), [again, again, Attempt::Fallback]);
        shown.check(&mesh).await;
    });
}

#[test]
fn a_device_with_less_memory_than_was_promised_is_announced_with_what_it_has() {
    actix::System::new().block_on(async {
        let shown = Shown::new().await;
        let small =
            || -> Box<dyn RenderDevice> { Box::new(CpuDevice::new(None, 1 << 18).unwrap()) };
        let bricks = Arc::new(Bricks::cut(&shown.field, 16));
        let supply = |n| {
            if n == FAILING {
                small().into()
            } else {
                cpu().into()
            }
        };
        let mesh = Mesh::start_supplied(3, 2, bricks, &supply, &|bus| bus).await;
        let status = status(&mesh).await;
        assert_eq!(status.peers[&peer_id(FAILING)].memory_bytes, 1 << 18);
        let room = status.data_sets[0].residency[&peer_id(FAILING)].capacity;
        // A brick stores up to 19³ voxels of two bytes.
        assert!((10..24).contains(&room), "{room}");
        shown.check(&mesh).await;
    });
}
