//! How a peer's device ends: dropped, on its own thread, before whoever ends the peer goes on.

use brickmesh_shaders::{IsWanted, RenderDevice, device::process_end};
use brickmesh_tests::{
    hooked_device::hooked,
    mesh::{Mesh, cpu},
    reference::Field,
    volumes::{Bricks, waves},
};
use brickmesh_topology::{Camera, RenderSettings, TransferFunction, View, VoxelType};
use std::{
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

/// No wait is as long as this unless the test fails.
const FAILED: Duration = Duration::from_secs(60);

/// Tells on which thread it is dropped.
struct Tells(mpsc::Sender<ThreadId>);

impl Drop for Tells {
    fn drop(&mut self) {
        self.0.send(thread::current().id()).ok();
    }
}

/// A mesh of one peer whose device does as `wait` says before it renders on, and the thread that
/// the device was dropped on, once it is.
async fn mesh(
    field: &Field,
    wait: impl Fn(IsWanted<'_>) + Send + 'static,
) -> (Mesh, mpsc::Receiver<ThreadId>) {
    let (sender, dropped) = mpsc::channel();
    let tells = Tells(sender);
    let device = hooked(cpu(), move |inner, job, is_wanted| {
        let _with_the_device = &tells;
        wait(is_wanted);
        inner.render_while(job, is_wanted)
    });
    let device = Mutex::new(Some(device));
    let only = || -> Box<dyn RenderDevice> {
        let device = device.lock().unwrap_or_else(PoisonError::into_inner).take();
        device.expect("one peer has one device")
    };
    let bricks = Arc::new(Bricks::cut(field, 16));
    (Mesh::start(1, 1, bricks, &only).await, dropped)
}

fn scene() -> (Field, View, RenderSettings) {
    let field = waves([32, 32, 32], VoxelType::U16, false);
    let view = Camera::whole(&field.volume).view(64, 64).expect("a view");
    let settings = RenderSettings {
        shade: false,
        jitter: false,
        ..RenderSettings::new(TransferFunction::ramp(20_000.0, 60_000.0), 0.5)
    };
    (field, view, settings)
}

#[test]
fn a_peer_that_has_ended_has_dropped_its_device_on_another_thread() {
    actix::System::new().block_on(async {
        let (field, view, settings) = scene();
        for awaited in [true, false] {
            let (mesh, dropped) = mesh(&field, |_| {}).await;
            mesh.picture(view, &settings).await;
            assert!(dropped.try_recv().is_err(), "it is there still");
            if awaited {
                mesh.peers[0].end().await;
            } else {
                // As after an error: with its last owner.
                drop(mesh);
            }
            let thread_of_device = dropped.try_recv().expect("it was dropped by then");
            assert_ne!(thread_of_device, thread::current().id());
        }
    });
}

#[test]
fn a_peer_that_ends_in_the_middle_of_a_picture_calls_it_off() {
    actix::System::new().block_on(async {
        let (field, view, settings) = scene();
        let (begun, rendering) = mpsc::channel();
        let (mesh, dropped) = mesh(&field, move |is_wanted| {
            begun.send(()).ok();
            let start = Instant::now();
            while is_wanted() && start.elapsed() < FAILED {
                thread::sleep(Duration::from_millis(1));
            }
        })
        .await;
        let frame = mesh.frame_from(0, view, &settings);
        let end = async {
            while rendering.try_recv().is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            mesh.peers[0].end().await;
            dropped.try_recv().expect("it was dropped by then");
        };
        tokio::select! {
            frame = frame => assert!(frame.is_err(), "its picture was never rendered"),
            () = end => {}
        }
    });
}

#[test]
fn a_device_that_hangs_is_left_at_work_after_a_while() {
    actix::System::new().block_on(async {
        let (field, view, settings) = scene();
        let (begun, rendering) = mpsc::channel();
        let hang = move |_: IsWanted<'_>| {
            begun.send(()).ok();
            loop {
                thread::park();
            }
        };
        let (mesh, dropped) = mesh(&field, hang).await;
        let end = async {
            while rendering.try_recv().is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            assert!(!process_end::is_left_at_work());
            let start = Instant::now();
            mesh.peers[0].end().await;
            assert!(start.elapsed() < FAILED && process_end::is_left_at_work());
            assert!(dropped.try_recv().is_err());
        };
        tokio::select! {
            _ = mesh.frame_from(0, view, &settings) => panic!("its picture was never rendered"),
            () = end => {}
        }
    });
}
