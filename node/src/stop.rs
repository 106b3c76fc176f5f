//! Ctrl-C and SIGTERM: said once, heard by everything that waits.

use brickmesh_shaders::device::process_end::end_at_once;
use std::sync::Arc;
use tokio::sync::watch;

/// Hears that the program is to stop. Clones hear the same.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

/// Says whether long work is to go on.
pub type GoesOn = Arc<dyn Fn() -> bool + Send + Sync>;

/// The second Ctrl-C ends the program at once, with the status that shells expect.
const STATUS_INTERRUPTED: u8 = 130;

impl Stop {
    /// Installs the handler of this process; the second signal ends it at once.
    #[must_use]
    pub fn on_signals() -> Self {
        let (sender, receiver) = watch::channel(false);
        let installed = ctrlc::set_handler(move || {
            if sender.send_replace(true) {
                // Whatever the device is doing: nobody waits for it any more.
                end_at_once(STATUS_INTERRUPTED);
            }
        });
        if let Err(error) = installed {
            tracing::warn!(%error, "Ctrl-C ends the program without tidying up");
        }
        Self(receiver)
    }

    /// For what only works something out: a signal ends the process as it ends any.
    #[must_use]
    pub fn never() -> Self {
        Self(watch::channel(false).1)
    }

    /// Says whether to go on.
    #[must_use]
    pub fn goes_on(&self) -> GoesOn {
        let stop = self.clone();
        Arc::new(move || !stop.is_said())
    }

    /// Whether it has been said.
    #[must_use]
    pub fn is_said(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is said; for ever where nobody can say it.
    pub async fn said(&mut self) {
        if self.0.wait_for(|said| *said).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
