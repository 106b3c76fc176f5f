//! A peer's device, which may be lost and opened again, or replaced by another.
//!
//! Invariant: what was loaded before a loss is told from what is loaded after it by the generation,
//! which counts the losses. When to open what is topology's decision ([`DeviceRecovery`]).

use crate::pager::Pager;
use brickmesh_shaders::{DeviceError, DeviceInfo, RenderDevice};
use brickmesh_topology::mesh::{
    device_recovery::{Attempt, DeviceRecovery},
    keeper,
};
use std::{sync::Arc, time::Instant};

/// Opens the device again, or one in its place.
pub type OpenDevice = Box<dyn FnMut(Attempt) -> Result<Box<dyn RenderDevice>, DeviceError> + Send>;

/// A device, and where another one comes from when it is lost.
pub struct DeviceSupply {
    /// The device.
    pub device: Box<dyn RenderDevice>,
    /// Opens it again.
    pub open: OpenDevice,
    /// How it gets bricks that this peer does not hold.
    pub sharing: Sharing,
}

/// How a device gets bricks for frames that its peer does not hold.
#[derive(Clone, Debug, Default)]
pub enum Sharing {
    /// Jobs wait until their bricks are loaded.
    #[default]
    Object,
    /// Jobs read bricks, of which these come then.
    Page(Arc<Pager>),
    /// It gets none: others render what shows them.
    Off,
}

impl Sharing {
    /// What is said of it.
    #[must_use]
    pub fn kind(&self) -> keeper::Sharing {
        match self {
            Self::Object => keeper::Sharing::Object,
            Self::Page(_) => keeper::Sharing::Page,
            Self::Off => keeper::Sharing::Off,
        }
    }

    /// Where bricks are that come when they are read.
    #[must_use]
    pub fn pages(&self) -> Option<&Arc<Pager>> {
        match self {
            Self::Page(pages) => Some(pages),
            Self::Object | Self::Off => None,
        }
    }
}

impl std::fmt::Debug for DeviceSupply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceSupply")
            .field("device", self.device.info())
            .finish_non_exhaustive()
    }
}

/// A device that nothing replaces.
impl From<Box<dyn RenderDevice>> for DeviceSupply {
    fn from(device: Box<dyn RenderDevice>) -> Self {
        let open = |_| {
            Err(DeviceError::Unavailable {
                what: "this peer has no other device".to_owned(),
            })
        };
        Self {
            device,
            open: Box::new(open),
            sharing: Sharing::Object,
        }
    }
}

/// See the module.
pub struct DeviceSlot {
    device: Option<Box<dyn RenderDevice>>,
    open: OpenDevice,
    recovery: DeviceRecovery,
    generation: u64,
    clock: Instant,
}

impl std::fmt::Debug for DeviceSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceSlot")
            .field("device", &self.device.as_ref().map(|d| d.info()))
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

impl DeviceSlot {
    /// A slot with a device in it.
    #[must_use]
    pub fn new(supply: DeviceSupply) -> Self {
        Self {
            device: Some(supply.device),
            open: supply.open,
            recovery: DeviceRecovery::default(),
            generation: 0,
            clock: Instant::now(),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// How often a device was lost.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The device.
    ///
    /// # Errors
    /// [`DeviceError::Unavailable`] while there is none.
    pub fn get(&mut self) -> Result<&mut dyn RenderDevice, DeviceError> {
        match &mut self.device {
            Some(device) => Ok(device.as_mut()),
            None => Err(DeviceError::Unavailable {
                what: "the device was lost and is not open again yet".to_owned(),
            }),
        }
    }

    /// Drops a device that is lost, with all that was on it.
    pub fn lost(&mut self) {
        self.device = None;
        self.generation += 1;
        self.recovery.lost(self.now());
    }

    /// Opens a device if there is none and it is time to try; returns what it is if that worked.
    pub fn open_if_due(&mut self) -> Option<DeviceInfo> {
        let attempt = self.recovery.next_attempt(self.now())?;
        match (self.open)(attempt) {
            Ok(device) => {
                let info = device.info().clone();
                tracing::warn!(device = info.name, "a device is open again");
                self.device = Some(device);
                self.recovery.opened();
                Some(info)
            }
            Err(error) => {
                tracing::warn!(?attempt, %error, "the device that was lost cannot be opened yet");
                None
            }
        }
    }
}
