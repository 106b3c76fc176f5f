//! What the window shows, and how it came to that: every edit can be undone and done again.

use brickmesh_topology::{Camera, RenderSettings};
use std::sync::Arc;

/// Edits that can be undone.
const UNDO_MAX: usize = 1000;

/// All that can be edited.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scene {
    pub camera: Camera,
    pub settings: Arc<RenderSettings>,
}

/// A scene, and those before it.
#[derive(Clone, Debug)]
pub(super) struct History {
    now: Scene,
    /// What was before, oldest first, and what was undone, newest undone last.
    past: Vec<Scene>,
    undone: Vec<Scene>,
    /// The last edit goes on: a drag, a turn of the wheel.
    is_going_on: bool,
}

impl History {
    pub(super) fn new(first: Scene) -> Self {
        Self {
            now: first,
            past: Vec::new(),
            undone: Vec::new(),
            is_going_on: false,
        }
    }

    pub(super) fn now(&self) -> &Scene {
        &self.now
    }

    /// The last edit is complete: what changes from here on is another one.
    pub(super) fn end_edit(&mut self) {
        self.is_going_on = false;
    }

    /// Changes the scene, as a part of the edit that goes on, or as a new one; whether it is another
    /// now.
    pub(super) fn set(&mut self, scene: Scene) -> bool {
        if scene == self.now {
            return false;
        }
        let before = std::mem::replace(&mut self.now, scene);
        if !self.is_going_on {
            self.past.push(before);
            let old = self.past.len().saturating_sub(UNDO_MAX);
            self.past.drain(..old);
            self.is_going_on = true;
        }
        self.undone.clear();
        true
    }

    pub(super) fn set_camera(&mut self, camera: Camera) -> bool {
        let settings = Arc::clone(&self.now.settings);
        self.set(Scene { camera, settings })
    }

    pub(super) fn can_undo(&self) -> bool {
        !self.past.is_empty()
    }

    pub(super) fn can_redo(&self) -> bool {
        !self.undone.is_empty()
    }

    pub(super) fn undo(&mut self) {
        if let Some(before) = self.past.pop() {
            self.undone.push(std::mem::replace(&mut self.now, before));
        }
        self.end_edit();
    }

    pub(super) fn redo(&mut self) {
        if let Some(after) = self.undone.pop() {
            self.past.push(std::mem::replace(&mut self.now, after));
        }
        self.end_edit();
    }
}
