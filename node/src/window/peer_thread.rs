//! The thread of the peer behind a window: renders what is wanted, always the latest.

use super::{Shown, Slot, Told, Wanted, missing};
use crate::{
    args::ViewArgs,
    camera_choice::camera,
    picture_settings::PictureSettings,
    session::{Session, SessionError},
    transfer::TransferFileError,
};
use brickmesh_actors::plain_text::plain_text;
use brickmesh_actors::requester::Frame;
use brickmesh_topology::{
    Camera, Manifest, View,
    picture::quality::{Choice, Level, Quality},
};
use std::{
    sync::PoisonError,
    thread,
    time::{Duration, Instant},
};
use tokio::sync::watch;
use winit::event_loop::EventLoopProxy;

/// A camera that the wheel moved rests after this.
const REST: Duration = Duration::from_millis(150);
/// After this, what did not come or had holes is asked for again.
const AGAIN: Duration = Duration::from_secs(1);

/// What all frames have in common, and the camera of the first.
pub(super) fn prepare(
    manifest: &Manifest,
    args: &ViewArgs,
) -> Result<(PictureSettings, Camera), TransferFileError> {
    let settings = PictureSettings::of(&args.picture, args.mesh.rules.rules(), manifest)?;
    settings.tell();
    Ok((settings, camera(&args.picture, manifest)))
}

/// Why the peer's work ended.
type PeerError = Box<dyn std::error::Error + Send + Sync>;

/// The thread of the peer; what it answers is why it has ended, where it should not have.
pub(super) type PeerThread = thread::JoinHandle<Option<String>>;

/// Runs a peer's work in an actix system on a thread of its own.
pub(super) fn start_peer(
    work: impl Future<Output = Result<(), PeerError>> + Send + 'static,
    proxy: EventLoopProxy<Told>,
) -> std::io::Result<PeerThread> {
    let run = move || {
        let result = actix::System::new().block_on(work);
        let is_stop = |e: &PeerError| matches!(e.downcast_ref(), Some(SessionError::Stopped));
        let why = result.err().filter(|e| !is_stop(e));
        let why = why.map(|e| e.to_string());
        tell(&proxy, Told::Ended(why.clone()));
        why
    };
    thread::Builder::new().name("peer".to_owned()).spawn(run)
}

/// Waits for the end of the peer's thread.
pub(super) fn ended(peer: PeerThread) -> Result<(), Box<dyn std::error::Error>> {
    match peer.join() {
        Ok(why) => why.map_or(Ok(()), |why| Err(why.into())),
        Err(_) => Err("the peer's thread has failed".into()),
    }
}

fn tell(proxy: &EventLoopProxy<Told>, told: Told) {
    if proxy.send_event(told).is_err() {
        tracing::debug!("the window is closed");
    }
}

/// The pictures of a session for a window.
pub(super) struct Pictures<'a> {
    session: &'a Session,
    settings: &'a PictureSettings,
    quality: Quality,
    slot: Slot,
    proxy: EventLoopProxy<Told>,
    /// What is shown, and how fine.
    shown: Option<(Wanted, Choice)>,
    /// What has not changed for a while: the camera rests.
    rested: Option<Wanted>,
    /// What is wrong with what is shown.
    trouble: Option<String>,
}

/// A frame, its view, and how long it took.
type Come = (View, Frame, Duration);

impl<'a> Pictures<'a> {
    pub(super) fn new(
        session: &'a Session,
        settings: &'a PictureSettings,
        quality: Quality,
        slot: Slot,
        proxy: EventLoopProxy<Told>,
    ) -> Self {
        Self {
            session,
            settings,
            quality,
            slot,
            proxy,
            shown: None,
            rested: None,
            trouble: None,
        }
    }

    /// Renders what is wanted, always the latest, until the window is gone: as fast as asked for while
    /// the camera moves, in passes up to full quality once it rests. What did not come, or came with
    /// holes, is asked for again: the mesh may heal.
    pub(super) async fn show(
        mut self,
        mut wanted: watch::Receiver<Wanted>,
    ) -> Result<(), SessionError> {
        let mut stop = self.session.stop();
        loop {
            let now = *wanted.borrow_and_update();
            let rests = !now.moving || self.rested == Some(now);
            let gone = if let Some(choice) = self.next(now, rests) {
                tokio::select! {
                    biased;
                    come = self.frame(now, choice) => {
                        self.came(now, choice, come)?;
                        false
                    }
                    // A picture of a camera that rested is not waited for any more, and called off. One of
                    // a moving camera is: it takes little time, and without any nothing would move.
                    changed = wanted.changed(), if rests => changed.is_err(),
                }
            } else {
                let until = async {
                    match (&self.trouble, rests) {
                        (Some(_), _) => tokio::time::sleep(AGAIN).await,
                        (None, false) => tokio::time::sleep(REST).await,
                        (None, true) => std::future::pending().await,
                    }
                };
                tokio::select! {
                    changed = wanted.changed() => changed.is_err(),
                    () = until => {
                        self.rested = Some(now);
                        if self.trouble.is_some() {
                            self.shown = None;
                        }
                        false
                    }
                    () = stop.said() => return Err(SessionError::Stopped),
                }
            };
            if gone {
                return Ok(());
            }
        }
    }

    /// How fine the next picture is; `None`: what is shown is as good as it gets.
    fn next(&mut self, now: Wanted, rests: bool) -> Option<Choice> {
        let still = |w: Wanted| Wanted { moving: false, ..w };
        let shown = self.shown.filter(|(w, _)| still(*w) == still(now));
        let shown = shown.map(|(_, choice)| choice);
        match (rests, shown) {
            (true, shown) => self.quality.resting(shown),
            (false, Some(_)) => None,
            (false, None) => Some(self.quality.moving()),
        }
    }

    async fn frame(&self, now: Wanted, choice: Choice) -> Result<Option<Come>, SessionError> {
        let start = Instant::now();
        let level = choice.level();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "pixels of a window"
        )]
        let size = [now.width, now.height].map(|n| ((f64::from(n) * level.scale) as u32).max(1));
        let view = match now.camera.view(size[0], size[1]) {
            Ok(view) => view,
            Err(error) => {
                tracing::debug!(%error, "a camera that shows nothing");
                return Ok(None);
            }
        };
        let mut ask = self.settings.ask(self.session.data_set(), view);
        ask.settings.step *= level.step;
        let frame = self.session.frame(ask).await?;
        Ok(Some((view, frame, start.elapsed())))
    }

    /// Shows what came, and says what is wrong with it.
    fn came(
        &mut self,
        now: Wanted,
        choice: Choice,
        come: Result<Option<Come>, SessionError>,
    ) -> Result<(), SessionError> {
        let trouble = match come {
            Ok(Some((view, frame, took))) => {
                self.quality.took(choice, took);
                let Level { scale, step, .. } = choice.level();
                tracing::debug!(scale, step, ?took, now.moving, "shown");
                self.shown = Some((now, choice));
                self.present(&view, &frame)
            }
            Ok(None) => {
                self.shown = Some((now, Choice::FULL));
                None
            }
            Err(SessionError::Frame(error)) => {
                let why = plain_text(&error.to_string());
                tracing::warn!(why, "a frame did not come; it is asked for again");
                // After a while.
                self.shown = Some((now, Choice::FULL));
                Some(why)
            }
            Err(error) => return Err(error),
        };
        if trouble != self.trouble {
            tell(&self.proxy, Told::Trouble(trouble.clone()));
            self.trouble = trouble;
        }
        Ok(())
    }

    /// Puts a frame into the slot; what is missing in it, for people.
    fn present(&self, view: &View, frame: &Frame) -> Option<String> {
        let rect = frame.image.rect();
        let rgba = frame.image.to_rgba8(self.settings.render.background);
        let pixel = |p: &[u8]| u32::from_be_bytes([0, p[0], p[1], p[2]]);
        let mut pixels: Vec<u32> = rgba.chunks_exact(4).map(pixel).collect();
        let missing = &frame.stats.missing;
        let volume = self.session.manifest().volume();
        missing::outline(&mut pixels, view, volume, missing);
        let shown = Shown {
            width: rect.width,
            height: rect.height,
            pixels,
        };
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(shown);
        tell(&self.proxy, Told::Frame);
        let some = format!("{} boxes are missing: nobody holds them", missing.len());
        (!missing.is_empty()).then_some(some)
    }
}
