//! Peers that are not as fast as the plan believed: others take their jobs, and the picture stays
//! that of one peer.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail by a panic, also outside of its function"
)]

use brickmesh_shaders::{IsWanted, Job, RenderDevice};
use brickmesh_tests::{
    compare::compare,
    hooked_device::hooked,
    mesh::{Mesh, cpu},
    scenes::{fields, settings},
    volumes::Bricks,
};
use brickmesh_topology::{Camera, RenderSettings, View};
use std::{cell::Cell, sync::Arc, thread, time::Duration};

/// A device that takes `delay` longer for each job, as on a machine that does something else.
fn slow(inner: Box<dyn RenderDevice>, delay: Duration) -> Box<dyn RenderDevice> {
    let render = move |inner: &mut dyn RenderDevice, job: &Job, is_wanted: IsWanted<'_>| {
        let mut rendered = inner.render_while(job, is_wanted)?;
        thread::sleep(delay);
        rendered.elapsed_micros += u64::try_from(delay.as_micros()).unwrap();
        Ok(rendered)
    };
    hooked(inner, render)
}

/// Four peers with all bricks of this edge; the last one takes longer for each job.
async fn mesh(brick: u32, delay: Duration) -> (Mesh, View, RenderSettings) {
    let (_, field) = fields().remove(0);
    let settings = settings(&field, true);
    let view = Camera::orbit(&field.volume, 30.0, 25.0, 1.1)
        .view(96, 80)
        .unwrap();
    let made = Cell::new(0);
    let device = || -> Box<dyn RenderDevice> {
        made.set(made.get() + 1);
        if made.get() == 4 {
            slow(cpu(), delay)
        } else {
            cpu()
        }
    };
    let mut mesh = Mesh::start(4, 4, Arc::new(Bricks::cut(&field, brick)), &device).await;
    // Jobs of this small volume are far below what is worth a split by default.
    mesh.rules.min_job_micros = 100;
    (mesh, view, settings)
}

#[test]
fn others_take_the_jobs_of_a_slow_peer_and_the_picture_stays() {
    actix::System::new().block_on(async {
        let (mut mesh, view, settings) = mesh(16, Duration::from_millis(15)).await;
        mesh.rules.steal = false;
        let alone = mesh.frame_from(0, view, &settings).await.unwrap();
        assert!(alone.stats.jobs.iter().all(|j| j.stolen_from.is_none()));
        let expected = alone.image.to_rgba8([0.0; 3]);
        // A new requester knows nothing of speeds: its first plan is wrong.
        mesh.rules.steal = true;
        let frame = mesh.frame_from(1, view, &settings).await.unwrap();
        assert!(compare(&expected, &frame.image.to_rgba8([0.0; 3])).max <= 1);
        let slow = brickmesh_tests::mesh::peer_id(3);
        let stolen =
            |j: &&brickmesh_actors::requester::JobStats| j.stolen_from.as_ref() == Some(&slow);
        let taken = frame.stats.jobs.iter().filter(stolen).count();
        assert!(taken > 0, "of {} jobs", frame.stats.jobs.len());
        let kept = |stats: &brickmesh_actors::requester::FrameStats| {
            stats.jobs.iter().filter(|j| j.peer == slow).count()
        };
        let planned = |stats: &brickmesh_actors::requester::FrameStats| {
            kept(stats) + stats.jobs.iter().filter(stolen).count()
        };
        let first = planned(&frame.stats);
        // Its speed is known now: the next plans give it less to begin with.
        let mut last = first;
        for _ in 0..4 {
            let frame = mesh.frame_from(1, view, &settings).await.unwrap();
            assert!(compare(&expected, &frame.image.to_rgba8([0.0; 3])).max <= 1);
            last = planned(&frame.stats);
        }
        assert!(
            last * 2 <= first,
            "{first} jobs planned at first, {last} at last"
        );
    });
}

#[test]
fn bricks_cut_into_many_jobs_make_the_same_picture() {
    actix::System::new().block_on(async {
        let (mut mesh, view, settings) = mesh(32, Duration::ZERO).await;
        mesh.rules.min_job_micros = u64::MAX;
        let whole = mesh.frame_from(0, view, &settings).await.unwrap();
        let expected = whole.image.to_rgba8([0.0; 3]);
        mesh.rules.min_job_micros = 1;
        let mut jobs = 0;
        for _ in 0..3 {
            let split = mesh.frame_from(0, view, &settings).await.unwrap();
            assert!(compare(&expected, &split.image.to_rgba8([0.0; 3])).max <= 1);
            jobs = split.stats.jobs.len();
        }
        assert!(jobs > whole.stats.jobs.len(), "{jobs} jobs");
    });
}
