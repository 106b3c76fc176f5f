//! The default camera of a session: small previews tell what can be seen from where.
//!
//! Not here: which previews, and what follows from them (`framing` of topology).

use crate::{
    picture_settings::PictureSettings,
    session::{Session, SessionError},
};
use brickmesh_topology::{Camera, camera::CameraError, framing::Framing};

/// A default camera that cannot be had.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum FramingError {
    /// The field of view is none.
    Camera(#[from] CameraError),
    /// A preview does not come.
    Session(#[from] SessionError),
}

/// The default camera for pictures of this size and field of view, in degrees.
///
/// # Errors
/// [`FramingError`].
pub async fn framed(
    session: &Session,
    settings: &PictureSettings,
    size: (u32, u32),
    fov_degrees: Option<f64>,
) -> Result<Camera, FramingError> {
    let volume = session.manifest().volume();
    let mut framing = Framing::new(volume, size, fov_degrees);
    let coarse = PictureSettings {
        step: settings.step.max(volume.min_spacing()),
        shade: false,
        jitter: false,
        ..settings.clone()
    };
    while let Some(view) = framing.preview()? {
        let frame = session.frame(coarse.ask(session.data_set(), view)).await?;
        let opacity: Vec<f32> = frame.image.pixels().iter().map(|p| p[3]).collect();
        framing.saw(&opacity);
    }
    Ok(framing.camera())
}
