//! The thread of a peer's device, and its end.
//!
//! Invariant: the device is used and dropped on this thread, and whoever ends the peer waits until
//! the thread is gone. A `main` that returned meanwhile was in the exit handlers of the driver's
//! libraries while their code ran: with Mesa's llvmpipe 2 of 100 runs of `render` ended with SIGSEGV on
//! a busy machine, their pictures written.
//! The bound on that wait is [`END_MAX`]; then the device is left at work (`process_end`).

use crate::{pager::Pager, raycaster::Raycaster};
use actix::{Actor, Arbiter, Context, dev::channel::AddressReceiver};
use brickmesh_shaders::device::process_end;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

/// How long its end may take: the device is called off between two bands of a picture, and then
/// dropped, which takes tens of milliseconds. A driver that hangs would take for ever.
const END_MAX: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug)]
pub(crate) struct DeviceThread {
    is_ending: Arc<AtomicBool>,
    /// What its device may wait for.
    pages: Option<Arc<Pager>>,
    /// `None` once it is being ended.
    arbiter: Mutex<Option<Arbiter>>,
}

impl DeviceThread {
    /// Starts a raycaster on a thread of its own, which hears what comes to `inputs`; it is given what
    /// is set when it is to end.
    ///
    /// # Panics
    /// Outside of an actix system, or where the system starts no thread.
    pub(crate) fn start(
        inputs: AddressReceiver<Raycaster>,
        pages: Option<Arc<Pager>>,
        raycaster: impl FnOnce(Arc<AtomicBool>) -> Raycaster + Send + 'static,
    ) -> Self {
        let is_ending = Arc::new(AtomicBool::new(false));
        let ending = Arc::clone(&is_ending);
        let arbiter = on_thread(inputs, || raycaster(ending));
        Self {
            is_ending,
            pages,
            arbiter: Mutex::new(Some(arbiter)),
        }
    }

    /// Ends the thread and waits for that, while the other actors go on: they take what the
    /// raycaster still has to send. Does nothing from the second time on.
    pub(crate) async fn end(&self) {
        let Some(arbiter) = self.stop() else {
            return;
        };
        if let Err(error) = tokio::task::spawn_blocking(|| join(arbiter)).await {
            tracing::debug!(%error, "nobody waits for the device's thread");
        }
    }

    /// Calls the device off and asks the thread to end.
    fn stop(&self) -> Option<Arbiter> {
        let mut arbiter = self.arbiter.lock().unwrap_or_else(PoisonError::into_inner);
        let arbiter = arbiter.take()?;
        arbiter.stop();
        self.is_ending.store(true, Ordering::Relaxed);
        if let Some(pages) = &self.pages {
            pages.end();
        }
        Some(arbiter)
    }
}

/// For whoever could not await [`DeviceThread::end`], after an error for instance.
impl Drop for DeviceThread {
    fn drop(&mut self) {
        if let Some(arbiter) = self.stop() {
            join(arbiter);
        }
    }
}

/// Starts an actor on a thread of its own.
pub(crate) fn on_thread<A: Actor<Context = Context<A>>>(
    inputs: AddressReceiver<A>,
    actor: impl FnOnce() -> A + Send + 'static,
) -> Arbiter {
    let arbiter = Arbiter::new();
    arbiter.spawn_fn(move || {
        Context::with_receiver(inputs).run(actor());
    });
    arbiter
}

/// Waits until a thread is gone, or for too long.
fn join(arbiter: Arbiter) {
    let (ended, end) = mpsc::sync_channel(1);
    // Nothing in the standard library waits for a thread with a bound.
    let joining = thread::Builder::new().spawn(move || {
        let ended_well = arbiter.join().is_ok();
        ended.send(ended_well)
    });
    match joining.map(|_| end.recv_timeout(END_MAX)) {
        Ok(Ok(true)) => {}
        // A panic on it ends the process: see `VitalThread`.
        Ok(Ok(false)) => tracing::error!("the device's thread ended by a panic"),
        Ok(Err(_)) | Err(_) => {
            tracing::warn!(
                "the device did not end within {} s; the program ends without it",
                END_MAX.as_secs()
            );
            process_end::leave_at_work();
        }
    }
}
