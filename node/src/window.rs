//! The window of a viewer peer: shows the mesh's frames, and moves the camera as hands say (`hands`,
//! `keys`).
//!
//! Threads: the window's event loop needs the main thread; the peer's actix system runs on
//! another. Between them: a slot for the camera that is wanted next (only the latest counts) and
//! a slot for the latest frame, so neither waits for the other.

mod app;
mod hands;
mod keys;
mod missing;
mod peer_thread;

use self::{
    app::App,
    peer_thread::{Pictures, ended, prepare, start_peer},
};
use crate::{args::ViewArgs, open_source::open_source, session::Session, stop::Stop};
use brickmesh_topology::{Camera, Manifest, RenderSettings, picture::quality::Quality};
use std::sync::{Arc, Mutex};
use tokio::sync::{oneshot, watch};
use winit::event_loop::EventLoop;

/// What the window wants to see.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Wanted {
    camera: Camera,
    width: u32,
    height: u32,
    /// A coarser picture does, while the camera moves.
    moving: bool,
}

/// What the window has to know of the session.
#[derive(Debug)]
struct Opened {
    manifest: Arc<Manifest>,
    settings: RenderSettings,
    /// The first camera.
    camera: Camera,
}

/// A picture for the window: 0x00RRGGBB, row by row.
#[derive(Debug)]
struct Shown {
    width: u32,
    height: u32,
    pixels: Vec<u32>,
}

/// What the peer's thread tells the window.
#[derive(Debug)]
enum Told {
    /// A new frame is in the slot.
    Frame,
    /// What is wrong with what is shown, for the title; nothing: all is well.
    Trouble(Option<String>),
    /// The peer has ended.
    Ended(Option<String>),
}

type Slot = Arc<Mutex<Option<Shown>>>;

/// Runs `view` until the window is closed.
///
/// # Errors
/// Where the volume cannot be opened, there is no display, or the mesh fails.
pub fn view(args: &ViewArgs, stop: Stop) -> Result<(), Box<dyn std::error::Error>> {
    let mut mesh = args.mesh.clone();
    let source = open_source(&args.source, &mut mesh, &stop)?;
    let event_loop = EventLoop::<Told>::with_user_event().build().map_err(|e| {
        let text = e.to_string();
        // The library says where in its own code that was.
        let why = text
            .split_once(": ")
            .filter(|(at, _)| at.starts_with("os error at"));
        let why = why.map_or(text.as_str(), |(_, why)| why);
        format!(
            "no window can be opened ({why}); on a machine without a display use `brickmesh render`"
        )
    })?;
    let slot = Slot::default();
    let proxy = event_loop.create_proxy();
    let (opened, start) = oneshot::channel();
    let (show, shown) = oneshot::channel();
    let work = {
        let (slot, proxy, args) = (Arc::clone(&slot), proxy.clone(), args.clone());
        async move {
            let session = Session::open(source, &mesh, stop).await?;
            let result = async {
                let (settings, camera) = prepare(session.manifest(), &args)?;
                let start = Opened {
                    manifest: Arc::clone(session.manifest()),
                    settings: settings.render.clone(),
                    camera,
                };
                if let (Ok(()), Ok(wanted)) = (opened.send(start), shown.await) {
                    let quality = Quality::new(args.target_fps);
                    let pictures = Pictures::new(&session, &settings, quality, slot, proxy);
                    pictures.show(wanted).await?;
                }
                Ok(())
            };
            let result = result.await;
            session.close().await;
            result
        }
    };
    let peer = start_peer(work, proxy)?;
    let Ok(start) = start.blocking_recv() else {
        return ended(peer);
    };
    let (width, height) = args.picture.size;
    let wanted = Wanted {
        camera: start.camera,
        width,
        height,
        moving: false,
    };
    let (want, wanted) = watch::channel(wanted);
    if show.send(wanted).is_err() {
        tracing::debug!("the peer has ended before");
    }
    let mut app = App::new(
        want,
        slot,
        start,
        (width, height),
        event_loop.owned_display_handle(),
    );
    let ran = event_loop.run_app(&mut app);
    // The peer's thread hears that nobody wants frames any more, says goodbye and ends.
    let failed = app.failed.take();
    drop(app);
    if peer.join().is_err() {
        return Err("the peer's thread has failed".into());
    }
    ran?;
    failed.map_or(Ok(()), |why| Err(why.into()))
}
