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
use brickmesh_topology::{Camera, Manifest};
use std::{sync::PoisonError, thread, time::Duration};
use tokio::sync::watch;
use winit::event_loop::EventLoopProxy;

/// While the camera moves, pictures are this many times smaller on each edge.
const MOVING_SCALE: u32 = 2;
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

/// Renders what is wanted, always the latest, until the window is gone. What did not come, or
/// came with holes, is asked for again: the mesh may heal.
pub(super) async fn show_frames(
    session: &Session,
    settings: &PictureSettings,
    mut wanted: watch::Receiver<Wanted>,
    slot: &Slot,
    proxy: &EventLoopProxy<Told>,
) -> Result<(), SessionError> {
    let mut stop = session.stop();
    let mut shown_trouble = None;
    loop {
        let now = *wanted.borrow_and_update();
        let trouble = match show(session, settings, now, slot, proxy).await {
            Ok(trouble) => trouble,
            Err(SessionError::Frame(error)) => {
                let why = plain_text(&error.to_string());
                tracing::warn!(why, "a frame did not come; it is asked for again");
                Some(why)
            }
            Err(error) => return Err(error),
        };
        if trouble != shown_trouble {
            tell(proxy, Told::Trouble(trouble.clone()));
            shown_trouble.clone_from(&trouble);
        }
        let again = async {
            match trouble {
                Some(_) => tokio::time::sleep(AGAIN).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = wanted.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
            }
            () = again => {}
            () = stop.said() => return Err(SessionError::Stopped),
        }
    }
}

/// Renders one frame and shows it; returns what is wrong with it.
async fn show(
    session: &Session,
    settings: &PictureSettings,
    now: Wanted,
    slot: &Slot,
    proxy: &EventLoopProxy<Told>,
) -> Result<Option<String>, SessionError> {
    let scale = if now.moving { MOVING_SCALE } else { 1 };
    let size = [now.width, now.height].map(|n| (n / scale).max(1));
    let view = match now.camera.view(size[0], size[1]) {
        Ok(view) => view,
        Err(error) => {
            tracing::debug!(%error, "a camera that shows nothing");
            return Ok(None);
        }
    };
    let ask = settings.ask(session.data_set(), view);
    let frame = session.frame(ask).await?;
    let rect = frame.image.rect();
    let rgba = frame.image.to_rgba8(settings.render.background);
    let pixel = |p: &[u8]| u32::from_be_bytes([0, p[0], p[1], p[2]]);
    let mut pixels: Vec<u32> = rgba.chunks_exact(4).map(pixel).collect();
    let missing = &frame.stats.missing;
    let volume = session.manifest().volume();
    missing::outline(&mut pixels, &view, volume, missing);
    let shown = Shown {
        width: rect.width,
        height: rect.height,
        pixels,
    };
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(shown);
    tell(proxy, Told::Frame);
    let some = format!("{} boxes are missing: nobody holds them", missing.len());
    Ok((!missing.is_empty()).then_some(some))
}
