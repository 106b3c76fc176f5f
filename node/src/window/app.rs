//! The window itself: what it hears of keys and mouse, and what it draws.

use super::{
    Opened, Shown, Slot, Told, Wanted,
    hands::{Drag, Hands},
    keys::{self, Command, KEYS},
};
use crate::terminal::note;
use brickmesh_actors::plain_text::plain_text;
use softbuffer::{Context, Surface};
use std::{
    num::NonZeroU32,
    rc::Rc,
    sync::PoisonError,
    time::{Duration, Instant},
};
use tokio::sync::watch;
use winit::{
    application::ApplicationHandler,
    dpi::PhysicalSize,
    event::{ElementState, MouseButton, MouseScrollDelta, WindowEvent},
    event_loop::{ActiveEventLoop, OwnedDisplayHandle},
    keyboard::ModifiersState,
    window::{Window, WindowId},
};

/// What the window is called.
const TITLE: &str = "brickmesh";
/// Pixels that a notch of the wheel counts for.
const NOTCH_PIXELS: f64 = 40.0;
/// Two clicks within this are a double click.
const DOUBLE_CLICK: Duration = Duration::from_millis(400);

/// What the window is called while this is wrong. It may be what another peer says, and a window
/// system takes no title with a NUL in it.
fn title(trouble: Option<&str>) -> String {
    trouble.map_or_else(
        || TITLE.to_owned(),
        |trouble| format!("{TITLE}: {}", plain_text(trouble)),
    )
}

type Pixels = Surface<OwnedDisplayHandle, Rc<Window>>;

pub(super) struct App {
    want: watch::Sender<Wanted>,
    slot: Slot,
    opened: Opened,
    hands: Hands,
    modifiers: ModifiersState,
    last_click: Option<Instant>,
    size: (u32, u32),
    display: OwnedDisplayHandle,
    window: Option<(Rc<Window>, Pixels)>,
    shown: Option<Shown>,
    pub(super) failed: Option<String>,
}

impl App {
    pub(super) fn new(
        want: watch::Sender<Wanted>,
        slot: Slot,
        opened: Opened,
        size: (u32, u32),
        display: OwnedDisplayHandle,
    ) -> Self {
        Self {
            want,
            slot,
            hands: Hands::new(opened.camera, size),
            opened,
            modifiers: ModifiersState::empty(),
            last_click: None,
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

    /// Wants the picture as it is now; a coarse one does while a button is down.
    fn want(&self) {
        self.want_as(self.hands.is_dragging());
    }

    fn want_as(&self, moving: bool) {
        let (width, height) = self.size;
        let wanted = Wanted {
            camera: self.hands.camera(),
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

    fn command(&mut self, command: Command) {
        if command == Command::Help {
            let keys = KEYS.map(|(key, what)| format!("  {key:<42} {what}"));
            note(format_args!("keys and hands:\n{}", keys.join("\n")));
            return;
        }
        let Opened {
            manifest, settings, ..
        } = &self.opened;
        if let Some(told) = self.hands.command(command, manifest, settings) {
            note(format_args!("brickmesh: {told}"));
        }
        self.want();
    }

    /// A click without a drag; the second of two makes what is there the centre.
    fn clicked(&mut self) {
        let now = Instant::now();
        let is_second = |last: Instant| now.duration_since(last) < DOUBLE_CLICK;
        if self.last_click.take().is_some_and(is_second) {
            self.command(Command::Centre);
        } else {
            self.last_click = Some(now);
            self.want();
        }
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
            WindowEvent::KeyboardInput { event, .. } if event.state.is_pressed() => {
                match keys::command(&event.logical_key, self.modifiers) {
                    Some(Command::Close) => event_loop.exit(),
                    Some(command) => self.command(command),
                    None => {}
                }
            }
            WindowEvent::ModifiersChanged(modifiers) => self.modifiers = modifiers.state(),
            WindowEvent::Resized(size) => {
                self.size = (size.width.max(1), size.height.max(1));
                self.hands.resized(self.size.0, self.size.1);
                self.want();
            }
            WindowEvent::MouseInput { state, button, .. } => {
                let drag = match button {
                    MouseButton::Left if self.modifiers.shift_key() => Drag::Pan,
                    MouseButton::Left if self.modifiers.control_key() => Drag::Roll,
                    MouseButton::Left => Drag::Turn,
                    MouseButton::Right | MouseButton::Middle => Drag::Pan,
                    _ => return,
                };
                if state == ElementState::Pressed {
                    self.hands.pressed(drag);
                } else if self.hands.released() {
                    self.clicked();
                } else {
                    self.want();
                }
            }
            WindowEvent::CursorMoved { position, .. }
                if self.hands.moved([position.x, position.y]) =>
            {
                self.want();
            }
            WindowEvent::MouseWheel { delta, .. } => {
                let pixels = match delta {
                    MouseScrollDelta::LineDelta(_, y) => f64::from(y) * NOTCH_PIXELS,
                    MouseScrollDelta::PixelDelta(p) => p.y,
                };
                self.hands.wheel(pixels);
                self.want_as(true);
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
