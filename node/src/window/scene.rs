//! What the window shows, and how it came to that: every edit can be undone and done again.

use super::panes::Pane;
use crate::overlay::Overlay;
use brickmesh_topology::{
    Camera, RenderSettings, VolumeDescription, picture::slice_views::SliceViews,
};
use std::sync::Arc;

/// Edits that can be undone.
const UNDO_MAX: usize = 1000;

/// All that can be edited.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scene {
    pub camera: Camera,
    pub settings: Arc<RenderSettings>,
    pub slices: SliceViews,
    pub overlay: Overlay,
}

/// What is seen in one pane.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub camera: Camera,
    pub settings: Arc<RenderSettings>,
}

impl Scene {
    /// What is seen in a pane of this size.
    pub(super) fn seen_in(
        &self,
        pane: Pane,
        volume: &VolumeDescription,
        [width, height]: [u32; 2],
    ) -> Seen {
        match pane {
            Pane::Volume => Seen {
                camera: self.camera,
                settings: Arc::clone(&self.settings),
            },
            Pane::Slice(axis) => Seen {
                camera: self.slices.camera(axis, volume, (width, height)),
                settings: Arc::new(self.slices.settings(axis, &self.settings, volume)),
            },
        }
    }
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
        let now = self.now.clone();
        self.set(Scene { camera, ..now })
    }

    /// Looks from elsewhere, as another one does: that is no edit, and ends the one that goes on.
    pub(super) fn look(&mut self, from: Camera) {
        self.now.camera = from;
        self.end_edit();
    }

    /// Undoes or redoes, as `step` does, up to what is more than another camera.
    pub(super) fn past_cameras(&mut self, step: impl Fn(&mut Self)) {
        loop {
            let (before, steps) = (self.now.clone(), self.past.len());
            step(self);
            let camera = self.now.camera;
            if self.past.len() == steps || self.now != (Scene { camera, ..before }) {
                return;
            }
        }
    }

    pub(super) fn set_overlay(&mut self, overlay: Overlay) -> bool {
        let now = self.now.clone();
        self.set(Scene { overlay, ..now })
    }

    pub(super) fn set_slices(&mut self, slices: SliceViews) -> bool {
        let now = self.now.clone();
        self.set(Scene { slices, ..now })
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
