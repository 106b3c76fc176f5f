//! A device that fails on cue: lost, or short of memory, at any call.

use brickmesh_actors::device_slot::{DeviceSupply, Sharing};
use brickmesh_shaders::{
    BrickKey, DeviceError, DeviceInfo, IsWanted, Job, RenderDevice, RenderedJob, Scene,
    device::preparation::{Preparation, PreparedBrick},
};
use brickmesh_topology::mesh::device_recovery::Attempt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a device is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// To load a brick.
    Load,
    /// To show a scene.
    SetScene,
    /// To render a job.
    Render,
}

/// What is to go wrong with the devices of one peer, and what they were asked.
#[derive(Clone, Debug, Default)]
pub struct Cues(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    next: Option<Cue>,
    no_device: bool,
    attempts: Vec<Attempt>,
}

#[derive(Debug)]
struct Cue {
    call: Call,
    /// So many calls go well before.
    after: usize,
    error: DeviceError,
}

impl Cues {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// After so many more calls of a kind, one fails.
    pub fn fail(&self, call: Call, after: usize, error: DeviceError) {
        self.state().next = Some(Cue { call, after, error });
    }

    /// Whether what was to go wrong has gone wrong.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state().next.is_none()
    }

    /// Whether devices can be opened.
    pub fn let_open(&self, can: bool) {
        self.state().no_device = !can;
    }

    /// What was tried to open.
    #[must_use]
    pub fn attempts(&self) -> Vec<Attempt> {
        self.state().attempts.clone()
    }

    /// Devices of `make` that fail on these cues. The n-th, from 0, has its number in its name.
    #[must_use]
    pub fn supply(
        &self,
        make: impl Fn() -> Box<dyn RenderDevice> + Send + 'static,
    ) -> DeviceSupply {
        let cues = self.clone();
        let mut opened = 0;
        let mut open = move |inner: Box<dyn RenderDevice>| -> Box<dyn RenderDevice> {
            let mut info = inner.info().clone();
            info.name = format!("device {opened}");
            opened += 1;
            Box::new(FailingDevice {
                inner,
                info,
                cues: cues.clone(),
                is_lost: false,
            })
        };
        let cues = self.clone();
        DeviceSupply {
            device: open(make()),
            open: Box::new(move |attempt| {
                cues.state().attempts.push(attempt);
                if cues.state().no_device {
                    return Err(DeviceError::Unavailable {
                        what: "not yet".to_owned(),
                    });
                }
                Ok(open(make()))
            }),
            sharing: Sharing::Object,
        }
    }
}

/// What a driver says of a lost device.
#[must_use]
pub fn lost() -> DeviceError {
    DeviceError::Lost {
        what: "on cue".to_owned(),
    }
}

/// What a driver says where memory is full.
#[must_use]
pub fn out_of_memory() -> DeviceError {
    DeviceError::OutOfMemory {
        what: "on cue".to_owned(),
    }
}

/// A device that fails on cue, and once it was lost at every call.
struct FailingDevice {
    inner: Box<dyn RenderDevice>,
    info: DeviceInfo,
    cues: Cues,
    is_lost: bool,
}

impl FailingDevice {
    fn called(&mut self, call: Call) -> Result<(), DeviceError> {
        if self.is_lost {
            return Err(lost());
        }
        let mut state = self.cues.state();
        let Some(cue) = state.next.as_mut().filter(|c| c.call == call) else {
            return Ok(());
        };
        if cue.after > 0 {
            cue.after -= 1;
            return Ok(());
        }
        let error = cue.error.clone();
        state.next = None;
        self.is_lost = matches!(error, DeviceError::Lost { .. });
        Err(error)
    }
}

impl RenderDevice for FailingDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn preparation(&self) -> Preparation {
        self.inner.preparation()
    }

    fn load_prepared(&mut self, key: BrickKey, brick: PreparedBrick) -> Result<(), DeviceError> {
        self.called(Call::Load)?;
        self.inner.load_prepared(key, brick)
    }

    fn unload_brick(&mut self, key: BrickKey) {
        self.inner.unload_brick(key);
    }

    fn set_scene(&mut self, scene: &Scene) -> Result<(), DeviceError> {
        self.called(Call::SetScene)?;
        self.inner.set_scene(scene)
    }

    fn render_all(
        &mut self,
        jobs: &[Job],
        is_wanted: IsWanted<'_>,
    ) -> Vec<Result<RenderedJob, DeviceError>> {
        let render = |job| {
            self.called(Call::Render)?;
            self.inner.render_while(job, is_wanted)
        };
        jobs.iter().map(render).collect()
    }

    fn go_on(
        &mut self,
        jobs: Vec<RenderedJob>,
        is_wanted: IsWanted<'_>,
    ) -> Vec<Result<RenderedJob, DeviceError>> {
        let jobs = jobs.into_iter();
        let mut go_on = |job| {
            self.called(Call::Render)?;
            self.inner.go_on(vec![job], is_wanted).swap_remove(0)
        };
        jobs.map(&mut go_on).collect()
    }
}
