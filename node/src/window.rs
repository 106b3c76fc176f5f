//! The window of a viewer peer: shows the mesh's frames; drag turns, right drag pans, the wheel
//! zooms, Esc closes.
//!
//! Threads: the window's event loop needs the main thread; the peer's actix system runs on
//! another. Between them: a slot for the camera that is wanted next (only the latest counts) and
//! a slot for the latest frame, so neither waits for the other.

mod missing;
mod orbit_control;

use crate::{
    args::ViewArgs,
    camera_choice::camera,
    commands::{CommandResult, open_source},
    picture_settings::PictureSettings,
    session::{Session, SessionError},
    stop::Stop,
    transfer::TransferFileError,
};
use brickmesh_topology::{Camera, Manifest, plain_text::plain_text};
use orbit_control::OrbitControl;
use softbuffer::{Context, Surface};
use std::{
    num::NonZeroU32,
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};
use tokio::sync::{oneshot, watch};
use winit::{
    application::ApplicationHandler,
    dpi::PhysicalSize,
    event::{ElementState, MouseButton, MouseScrollDelta, WindowEvent},
    event_loop::{ActiveEventLoop, EventLoop, EventLoopProxy, OwnedDisplayHandle},
    keyboard::{Key, NamedKey},
    window::{Window, WindowId},
};

/// While the camera moves, pictures are this many times smaller on each edge.
const MOVING_SCALE: u32 = 2;
/// What the window is called.
const TITLE: &str = "brickmesh";
/// After this, what did not come or had holes is asked for again.
const AGAIN: Duration = Duration::from_secs(1);
/// Pixels that a notch of the wheel counts for.
const NOTCH_PIXELS: f64 = 40.0;

/// What the window wants to see.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Wanted {
    camera: Camera,
    width: u32,
    height: u32,
    /// A smaller picture does, while the camera moves.
    moving: bool,
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
pub fn view(args: &ViewArgs, stop: Stop) -> CommandResult {
    let mut mesh = args.mesh.clone();
    let source = open_source(&args.source, &mut mesh, &stop)?;
    let event_loop = EventLoop::<Told>::with_user_event().build().map_err(|e| {
        format!(
            "no window can be opened ({e}); on a machine without a display use `brickmesh render`"
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
                let (settings, start) = prepare(session.manifest(), &args)?;
                if let (Ok(()), Ok(wanted)) = (opened.send(start), shown.await) {
                    show_frames(&session, &settings, wanted, &slot, &proxy).await?;
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
        camera: start,
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
        OrbitControl::new(start),
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

/// What all frames have in common, and the camera of the first.
fn prepare(
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
type PeerThread = thread::JoinHandle<Option<String>>;

/// Runs a peer's work in an actix system on a thread of its own.
fn start_peer(
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
fn ended(peer: PeerThread) -> CommandResult {
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
async fn show_frames(
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

/// What the window is called while this is wrong. It may be what another peer says, and a window
/// system takes no title with a NUL in it.
fn title(trouble: Option<&str>) -> String {
    trouble.map_or_else(
        || TITLE.to_owned(),
        |trouble| format!("{TITLE}: {}", plain_text(trouble)),
    )
}

type Pixels = Surface<OwnedDisplayHandle, Rc<Window>>;

struct App {
    want: watch::Sender<Wanted>,
    slot: Slot,
    control: OrbitControl,
    size: (u32, u32),
    display: OwnedDisplayHandle,
    window: Option<(Rc<Window>, Pixels)>,
    shown: Option<Shown>,
    failed: Option<String>,
}

impl App {
    fn new(
        want: watch::Sender<Wanted>,
        slot: Slot,
        control: OrbitControl,
        size: (u32, u32),
        display: OwnedDisplayHandle,
    ) -> Self {
        Self {
            want,
            slot,
            control,
            size,
            display,
            window: None,
            shown: None,
            failed: None,
        }
    }

    fn open(&mut self, event_loop: &ActiveEventLoop) -> Result<(), String> {
        let size = PhysicalSize::new(self.size.0, self.size.1);
        let attributes = Window::default_attributes()
            .with_title(TITLE)
            .with_inner_size(size);
        let window = Rc::new(
            event_loop
                .create_window(attributes)
                .map_err(|e| e.to_string())?,
        );
        let context = Context::new(self.display.clone()).map_err(|e| e.to_string())?;
        let surface = Surface::new(&context, Rc::clone(&window)).map_err(|e| e.to_string())?;
        window.request_redraw();
        self.window = Some((window, surface));
        Ok(())
    }

    fn want(&self, moving: bool) {
        let (width, height) = self.size;
        let wanted = Wanted {
            camera: self.control.camera(),
            width,
            height,
            moving,
        };
        self.want.send_if_modified(|w| {
            let new = *w != wanted;
            *w = wanted;
            new
        });
    }

    /// Draws the latest frame, scaled to the window by nearest pixels.
    fn draw(&mut self) -> Result<(), String> {
        let Some((_, surface)) = &mut self.window else {
            return Ok(());
        };
        let (Some(width), Some(height)) =
            (NonZeroU32::new(self.size.0), NonZeroU32::new(self.size.1))
        else {
            return Ok(());
        };
        surface.resize(width, height).map_err(|e| e.to_string())?;
        let mut buffer = surface.buffer_mut().map_err(|e| e.to_string())?;
        match &self.shown {
            None => buffer.fill(0),
            Some(shown) => {
                let (w, h) = (width.get() as usize, height.get() as usize);
                let (from_w, from_h) = (shown.width as usize, shown.height as usize);
                for (y, row) in buffer.chunks_exact_mut(w).enumerate() {
                    let from = y * from_h / h * from_w;
                    for (x, pixel) in row.iter_mut().enumerate() {
                        *pixel = shown.pixels[from + x * from_w / w];
                    }
                }
            }
        }
        buffer.present().map_err(|e| e.to_string())
    }

    fn fail(&mut self, why: String, event_loop: &ActiveEventLoop) {
        self.failed = Some(format!("window: {why}"));
        event_loop.exit();
    }
}

impl ApplicationHandler<Told> for App {
    fn resumed(&mut self, event_loop: &ActiveEventLoop) {
        if self.window.is_none()
            && let Err(why) = self.open(event_loop)
        {
            self.fail(why, event_loop);
        }
    }

    fn user_event(&mut self, event_loop: &ActiveEventLoop, told: Told) {
        match told {
            Told::Frame => {
                let new = self
                    .slot
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take();
                self.shown = new.or(self.shown.take());
                if let Some((window, _)) = &self.window {
                    window.request_redraw();
                }
            }
            Told::Trouble(trouble) => {
                if let Some((window, _)) = &self.window {
                    window.set_title(&title(trouble.as_deref()));
                }
            }
            Told::Ended(why) => {
                self.failed = why;
                event_loop.exit();
            }
        }
    }

    fn window_event(&mut self, event_loop: &ActiveEventLoop, _: WindowId, event: WindowEvent) {
        match event {
            WindowEvent::CloseRequested => event_loop.exit(),
            WindowEvent::KeyboardInput { event, .. }
                if event.logical_key == Key::Named(NamedKey::Escape) =>
            {
                event_loop.exit();
            }
            WindowEvent::Resized(size) => {
                self.size = (size.width.max(1), size.height.max(1));
                self.want(false);
            }
            WindowEvent::MouseInput { state, button, .. } => {
                let pressed = state == ElementState::Pressed;
                match button {
                    MouseButton::Left => self.control.turning = pressed,
                    MouseButton::Right | MouseButton::Middle => self.control.panning = pressed,
                    _ => {}
                }
                self.want(pressed);
            }
            WindowEvent::CursorMoved { position, .. } => {
                let moved = self
                    .control
                    .moved(position.x, position.y, f64::from(self.size.1));
                if moved {
                    self.want(true);
                }
            }
            WindowEvent::MouseWheel { delta, .. } => {
                let pixels = match delta {
                    MouseScrollDelta::LineDelta(_, y) => f64::from(y) * NOTCH_PIXELS,
                    MouseScrollDelta::PixelDelta(p) => p.y,
                };
                self.control.zoom(pixels);
                self.want(false);
            }
            WindowEvent::RedrawRequested => {
                if let Err(why) = self.draw() {
                    self.fail(why, event_loop);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_peer_says_makes_a_title_without_control_characters() {
        let said = format!("it said \0\u{1b}[31m\n{}", "x".repeat(10_000));
        let long = title(Some(&said));
        assert!(long.starts_with("brickmesh: it said ??[31m?x"), "{long}");
        assert!(!long.chars().any(char::is_control) && long.len() < 300);
        assert_eq!(title(None), TITLE);
    }
}
