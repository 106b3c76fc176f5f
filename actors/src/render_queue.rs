//! The frames that a peer works on, shared between the scheduler, which brings frames and steals,
//! and the raycaster, which takes their jobs, oldest frame first; and what was rendered of them, which
//! outlives an attempt.
//!
//! It decides nothing: what is rendered where is [`Work`]'s, in topology.

use crate::{
    bus::Lane,
    kept_images::KeptImages,
    messages::{FrameId, Message, StealNote},
    outbox::Outbox,
};
use brickmesh_shaders::Scene;
use brickmesh_topology::{
    PeerId,
    frame_plan::FramePlan,
    stealing::{StealOutput, Work},
};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Frames under way at a time; the oldest is dropped.
const FRAMES_MAX: usize = 32;

/// Names a frame: who asked, and which of its frames.
pub type FrameKey = (PeerId, FrameId);

/// A frame that is being rendered here.
#[derive(Debug)]
pub struct ActiveFrame {
    /// Who asked, and which of its frames.
    pub key: FrameKey,
    /// What it shows.
    pub scene: Scene,
    /// Who renders what.
    pub plan: Arc<FramePlan>,
    work: Mutex<Work>,
}

impl ActiveFrame {
    /// A frame with this peer's part of it.
    #[must_use]
    pub fn new(key: FrameKey, scene: Scene, plan: Arc<FramePlan>, work: Work) -> Self {
        Self {
            key,
            scene,
            plan,
            work: Mutex::new(work),
        }
    }

    /// This peer's part.
    pub fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what follows from a step of the work; true if jobs came in.
    pub fn carry_out(&self, outputs: Vec<StealOutput>, outbox: &Outbox) -> bool {
        let (requester, frame) = &self.key;
        let mut render = false;
        for output in outputs {
            match output {
                StealOutput::Send { to, message } => {
                    let note = StealNote {
                        requester: requester.as_str().to_owned(),
                        frame: *frame,
                        plan: self.plan.digest,
                        message,
                    };
                    if let Some(peer) = self.plan.peers.get(to) {
                        outbox.send_or_log(peer, Lane::Control, Message::Steal(note));
                    }
                }
                StealOutput::Given { jobs, by } => {
                    let Some(by) = self.plan.peers.get(by) else {
                        continue;
                    };
                    tracing::debug!(
                        target: "brickmesh::events::job::stolen",
                        frame_id = frame.number,
                        count = jobs.len(),
                        peer = by.short()
                    );
                    let given = Message::Given {
                        frame: *frame,
                        plan: self.plan.digest,
                        jobs,
                        by: by.as_str().to_owned(),
                    };
                    outbox.send_or_log(requester, Lane::Control, given);
                }
                StealOutput::Render => render = true,
            }
        }
        render
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct RenderQueue {
    frames: Arc<Mutex<VecDeque<Arc<ActiveFrame>>>>,
    kept: Arc<Mutex<KeptImages>>,
}

impl RenderQueue {
    fn frames(&self) -> MutexGuard<'_, VecDeque<Arc<ActiveFrame>>> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was rendered of the frames under way.
    pub fn kept(&self) -> MutexGuard<'_, KeptImages> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a frame as the youngest.
    pub fn push(&self, frame: Arc<ActiveFrame>) {
        let mut frames = self.frames();
        frames.push_back(frame);
        if frames.len() > FRAMES_MAX {
            frames.pop_front();
        }
    }

    /// Drops the frames that `drop_it` names: nobody needs them any more.
    pub fn drop_frames(&self, drop_it: impl Fn(&FrameKey) -> bool) {
        self.frames().retain(|f| !drop_it(&f.key));
    }

    /// A frame by its name.
    #[must_use]
    pub fn get(&self, key: &FrameKey) -> Option<Arc<ActiveFrame>> {
        self.frames().iter().find(|f| f.key == *key).cloned()
    }

    /// All frames, oldest first.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<ActiveFrame>> {
        self.frames().iter().cloned().collect()
    }

    /// The oldest frame that has jobs to render here.
    #[must_use]
    pub fn oldest_with_jobs(&self) -> Option<Arc<ActiveFrame>> {
        self.frames().iter().find(|f| f.work().has_jobs()).cloned()
    }
}
