//! The frames that a peer works on, shared between the scheduler, which brings frames and steals,
//! and the raycaster, which takes their jobs, oldest frame first; and what was rendered of them, which
//! outlives an attempt.
//!
//! It decides nothing: which frames are taken is in `frames_under_way` of topology, what is rendered
//! where in [`Work`].

use crate::{
    bus::Lane,
    messages::{FrameId, Message, StealNote},
    outbox::Outbox,
    render_cache::RenderCache,
};
use brickmesh_shaders::Scene;
use brickmesh_topology::{
    PeerId,
    balance::{
        frame_plan::FramePlan,
        stealing::{StealOutput, Work},
    },
    frame::admission::{self, Place},
};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

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
    since: Instant,
    is_over: AtomicBool,
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
            since: Instant::now(),
            is_over: AtomicBool::new(false),
        }
    }

    /// This peer's part.
    pub fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever still holds the frame finds nothing more to render in it.
    pub fn drop_jobs(&self) {
        let mut work = self.work();
        while work.next_job().is_some() {}
    }

    fn is_under_way(&self) -> bool {
        let age = u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX);
        admission::is_under_way(age, self.work().is_busy())
    }

    /// Whether the requester needs the picture no more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
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
    /// The frame of the job that is being rendered; that attempt may have been dropped meanwhile.
    current: Arc<Mutex<Option<Arc<ActiveFrame>>>>,
    kept: Arc<Mutex<RenderCache>>,
}

impl RenderQueue {
    fn frames(&self) -> MutexGuard<'_, VecDeque<Arc<ActiveFrame>>> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was rendered of the frames under way.
    pub fn kept(&self) -> MutexGuard<'_, RenderCache> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a frame as the youngest. Returns the one that is not rendered for it, whose requester is to
    /// be told: an older one, or this one, where there is no place.
    #[must_use]
    pub fn push(&self, frame: Arc<ActiveFrame>) -> Option<FrameKey> {
        let mut frames = self.frames();
        let all = frames.iter().map(|f| (&f.key.0, f.is_under_way()));
        let dropped = match admission::place(all, &frame.key.0) {
            Place::Free => None,
            Place::InsteadOf(oldest) => frames.remove(oldest).map(|f| {
                f.drop_jobs();
                f.key.clone()
            }),
            Place::None => return Some(frame.key.clone()),
        };
        frames.push_back(frame);
        dropped
    }

    /// Whether there is a frame under way.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        self.frames().iter().any(|f| f.is_under_way())
    }

    fn current(&self) -> MutexGuard<'_, Option<Arc<ActiveFrame>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job of this frame is being rendered from now on.
    pub fn render(&self, frame: &Arc<ActiveFrame>) {
        *self.current() = Some(Arc::clone(frame));
    }

    /// A frame of this requester is over, `None`: all are; no further job of it is begun, nor the one
    /// that is being rendered ended.
    pub fn over(&self, requester: &PeerId, number: Option<u64>) {
        let is_one = |key: &FrameKey| {
            key.0 == *requester && number.is_none_or(|number| key.1.number == number)
        };
        let end = |frame: &Arc<ActiveFrame>| frame.is_over.store(true, Ordering::Relaxed);
        // Its job may be about to begin: then it is not the current one yet.
        let of_it = |f: &&Arc<ActiveFrame>| is_one(&f.key);
        self.frames().iter().filter(of_it).for_each(end);
        self.current().iter().filter(of_it).for_each(end);
        self.drop_frames(is_one);
        self.kept().forget(requester, number);
    }

    /// All frames are over: nothing more is rendered here.
    pub fn end(&self) {
        let end = |frame: &Arc<ActiveFrame>| frame.is_over.store(true, Ordering::Relaxed);
        self.frames().iter().for_each(end);
        self.current().iter().for_each(end);
        self.drop_frames(|_| true);
    }

    /// Drops the frames that `drop_it` names: nobody needs them any more.
    pub fn drop_frames(&self, drop_it: impl Fn(&FrameKey) -> bool) {
        let mut frames = self.frames();
        frames
            .iter()
            .filter(|f| drop_it(&f.key))
            .for_each(|f| f.drop_jobs());
        frames.retain(|f| !drop_it(&f.key));
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
