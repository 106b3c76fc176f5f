//! A path of the camera through key frames.
//!
//! What is looked at and the logarithm of the distance to it go along cubic curves through the keys (Catmull
//! and Rom, "A class of local interpolating splines", 1974, with tangents by the frames between keys); the
//! direction of view turns from key to key on the shortest way, at a constant rate.

use crate::picture::camera::{Camera, CameraError};
use glam::{DMat3, DQuat, DVec3, DVec4};
use serde::{Deserialize, Serialize};

/// Frames of a path, at most.
pub const FRAMES_MAX: u32 = 100_000;

/// A camera at a frame.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CameraKey {
    /// Number of the frame, from 0.
    pub frame: u32,
    /// From where it is seen.
    pub camera: Camera,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CameraPath {
    /// By frames, ascending; the first is 0.
    pub keys: Vec<CameraKey>,
}

/// What is wrong with a path.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CameraPathError {
    /// No key.
    #[error("there is no key; a path needs one at least")]
    Empty,
    /// Frames that do not ascend from 0.
    #[error("key {key} is at frame {found}; {expected}")]
    Frame {
        /// Number of the key.
        key: usize,
        /// Found.
        found: u32,
        /// What it must be.
        expected: &'static str,
    },
    /// A camera that shows nothing.
    #[error("key {key}: {error}")]
    Camera {
        /// Number of the key.
        key: usize,
        /// Why.
        error: CameraError,
    },
}

impl CameraPath {
    /// Checks what comes from a file.
    ///
    /// # Errors
    /// [`CameraPathError`], which names the key.
    pub fn validate(&self) -> Result<(), CameraPathError> {
        if self.keys.is_empty() {
            return Err(CameraPathError::Empty);
        }
        let mut least = 0;
        for (key, CameraKey { frame, camera }) in self.keys.iter().enumerate() {
            let found = *frame;
            let expected = match key {
                0 if found != 0 => "the first must be at 0",
                _ if found < least => "frames must ascend",
                _ if found >= FRAMES_MAX => "it must be below 100000",
                _ => "",
            };
            if !expected.is_empty() {
                return Err(CameraPathError::Frame {
                    key,
                    found,
                    expected,
                });
            }
            let view = camera.view(1, 1);
            view.map_err(|error| CameraPathError::Camera { key, error })?;
            least = found + 1;
        }
        Ok(())
    }

    /// How many frames it has.
    #[must_use]
    pub fn frames(&self) -> u32 {
        self.keys.last().map_or(0, |key| key.frame + 1)
    }

    /// The camera of a frame; `None` where there are no keys. Before the first key and after the last it rests.
    #[must_use]
    pub fn camera(&self, frame: u32) -> Option<Camera> {
        let after = self.keys.partition_point(|key| key.frame <= frame);
        let from = self.keys.get(after.checked_sub(1)?)?;
        let Some(to) = self.keys.get(after).filter(|_| frame > from.frame) else {
            return Some(from.camera);
        };
        let at = |key: usize| {
            let CameraKey { frame, camera } = self.keys[key];
            let distance = camera.eye.distance(camera.at).ln();
            (f64::from(frame), camera.at.extend(distance))
        };
        let (before, next) = (after - 1, after);
        let (t0, p0) = at(before);
        let (t1, p1) = at(next);
        let tangent = |key: usize| {
            let (earlier, p) = at(key.saturating_sub(1));
            let (later, q) = at((key + 1).min(self.keys.len() - 1));
            (q - p) / (later - earlier)
        };
        let u = (f64::from(frame) - t0) / (t1 - t0);
        let [m0, m1] = [before, next].map(|key| tangent(key) * (t1 - t0));
        let place = hermite(u, [p0, m0, p1, m1]);
        let turned = turn(&from.camera).slerp(turn(&to.camera), u);
        let (at, distance) = (place.truncate(), place.w.exp());
        let tangent = |c: &Camera| (0.5 * c.fov_degrees.to_radians()).tan();
        let tangent = tangent(&from.camera) + (tangent(&to.camera) - tangent(&from.camera)) * u;
        Some(Camera {
            eye: at + turned * DVec3::Z * distance,
            at,
            up: turned * DVec3::Y,
            fov_degrees: 2.0 * tangent.atan().to_degrees(),
            projection: from.camera.projection,
        })
    }
}

/// The cubic with these ends and tangents.
fn hermite(u: f64, [p0, m0, p1, m1]: [DVec4; 4]) -> DVec4 {
    let (u2, u3) = (u * u, u * u * u);
    p0 * (2.0 * u3 - 3.0 * u2 + 1.0)
        + m0 * (u3 - 2.0 * u2 + u)
        + p1 * (3.0 * u2 - 2.0 * u3)
        + m1 * (u3 - u2)
}

/// What turns a camera that looks along −z, y up, to this one.
fn turn(camera: &Camera) -> DQuat {
    let back = (camera.eye - camera.at).normalize();
    let right = camera.up.cross(back).normalize();
    DQuat::from_mat3(&DMat3::from_cols(right, back.cross(right), back))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{VolumeDescription, VoxelType};

    fn key(frame: u32, azimuth: f64, zoom: f64) -> CameraKey {
        let volume = VolumeDescription::new([20, 30, 40], VoxelType::U8);
        let camera = Camera::orbit(&volume, azimuth, 20.0, zoom);
        CameraKey { frame, camera }
    }

    fn is_same(a: &Camera, b: &Camera) {
        // The direction up is what is left of it across the view.
        let ups = [a, b].map(|c| turn(c) * DVec3::Y);
        let off = a.eye.distance(b.eye) + a.at.distance(b.at) + ups[0].distance(ups[1]);
        assert!(off < 1e-9, "{a:?} {b:?}");
        assert!((a.fov_degrees - b.fov_degrees).abs() < 1e-9);
    }

    #[test]
    fn it_goes_through_its_keys_and_rests_after_them() {
        let keys = vec![key(0, 0.0, 1.0), key(10, 90.0, 2.0), key(15, 200.0, 0.5)];
        let path = CameraPath { keys };
        assert_eq!(path.validate(), Ok(()));
        assert_eq!(path.frames(), 16);
        for CameraKey { frame, camera } in &path.keys {
            is_same(&path.camera(*frame).unwrap(), camera);
        }
        is_same(&path.camera(99).unwrap(), &path.keys[2].camera);
        assert_eq!(CameraPath::default().camera(0), None);
    }

    #[test]
    fn between_two_keys_it_turns_evenly_and_never_jumps() {
        let path = CameraPath {
            keys: vec![key(0, 0.0, 1.0), key(30, 60.0, 1.0), key(60, 120.0, 3.0)],
        };
        // The distance is another one there, because the curve already heads for the third key.
        let [found, even] = [path.camera(15).unwrap(), key(0, 30.0, 1.0).camera];
        let from = [&found, &even].map(|c| (c.eye - c.at).normalize());
        assert!(from[0].distance(from[1]) < 1e-3, "{from:?}");
        let eyes: Vec<DVec3> = (0..=60).map(|n| path.camera(n).unwrap().eye).collect();
        let steps: Vec<f64> = eyes.windows(2).map(|e| e[0].distance(e[1])).collect();
        let (least, most) = steps
            .iter()
            .fold((f64::MAX, 0.0_f64), |(l, m), &s| (l.min(s), m.max(s)));
        assert!(most < 4.0 * least, "{least} {most}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let said = |keys| CameraPath { keys }.validate().unwrap_err().to_string();
        assert!(said(vec![]).contains("no key"));
        assert!(said(vec![key(1, 0.0, 1.0)]).contains("first must be at 0"));
        assert!(said(vec![key(0, 0.0, 1.0), key(0, 1.0, 1.0)]).contains("key 1 is at frame 0"));
        assert!(said(vec![key(0, 0.0, 1.0), key(FRAMES_MAX, 1.0, 1.0)]).contains("below"));
        let mut blind = key(0, 0.0, 1.0);
        blind.camera.eye = blind.camera.at;
        assert!(said(vec![blind]).contains("key 0: eye, at and up"));
    }
}
