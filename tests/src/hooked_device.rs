//! A device whose rendering a test takes into its own hands.

use brickmesh_shaders::{
    BrickKey, DeviceError, DeviceInfo, IsWanted, Job, RenderDevice, RenderedJob, Scene,
    device::preparation::{Preparation, PreparedBrick},
};

/// A device that does as `render` says in place of rendering on `inner`.
pub fn hooked<F>(inner: Box<dyn RenderDevice>, render: F) -> Box<dyn RenderDevice>
where
    F: FnMut(&mut dyn RenderDevice, &Job, IsWanted<'_>) -> Result<RenderedJob, DeviceError>
        + Send
        + 'static,
{
    Box::new(HookedDevice(inner, render))
}

struct HookedDevice<F>(Box<dyn RenderDevice>, F);

impl<F> RenderDevice for HookedDevice<F>
where
    F: FnMut(&mut dyn RenderDevice, &Job, IsWanted<'_>) -> Result<RenderedJob, DeviceError> + Send,
{
    fn info(&self) -> &DeviceInfo {
        self.0.info()
    }

    fn preparation(&self) -> Preparation {
        self.0.preparation()
    }

    fn load_prepared(&mut self, key: BrickKey, brick: PreparedBrick) -> Result<(), DeviceError> {
        self.0.load_prepared(key, brick)
    }

    fn unload_brick(&mut self, key: BrickKey) {
        self.0.unload_brick(key);
    }

    fn set_scene(&mut self, scene: &Scene) -> Result<(), DeviceError> {
        self.0.set_scene(scene)
    }

    fn render_all(
        &mut self,
        jobs: &[Job],
        is_wanted: IsWanted<'_>,
    ) -> Vec<Result<RenderedJob, DeviceError>> {
        let render = |job| (self.1)(&mut *self.0, job, is_wanted);
        jobs.iter().map(render).collect()
    }

    fn go_on(
        &mut self,
        jobs: Vec<RenderedJob>,
        is_wanted: IsWanted<'_>,
    ) -> Vec<Result<RenderedJob, DeviceError>> {
        self.0.go_on(jobs, is_wanted)
    }
}
