//! Who follows the camera of a viewer: they are told it whenever it changes, as long as they ask.
//!
//! A pure state machine. Invariant: bounded: at most [`FOLLOWERS_MAX`] followers, each for [`FOLLOW_MICROS`] after
//! it asked last.

use crate::{
    base::{digest::Digest, peer::PeerId},
    picture::camera::Camera,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How long a follower is told of changes, in microseconds, before it is to ask again.
pub const FOLLOW_MICROS: u64 = 2_000_000;
/// Followers at a time; further ones are told only what they ask for.
pub const FOLLOWERS_MAX: usize = 64;

/// What a viewer looks at, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Viewpoint {
    /// The data set.
    pub data_set: Digest,
    /// In its world.
    pub camera: Camera,
}

impl Viewpoint {
    /// Whether anything can be seen from there: it may be what another peer says.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.camera.view(1, 1).is_ok()
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Followers {
    /// Until when each is told.
    until: BTreeMap<PeerId, u64>,
    now: Option<Viewpoint>,
}

impl Followers {
    /// A peer wants to follow, at `now` in microseconds; what it is told at once, if this is a viewer.
    pub fn asked(&mut self, now: u64, by: &PeerId) -> Option<Viewpoint> {
        self.until.retain(|_, until| *until > now);
        if self.until.len() < FOLLOWERS_MAX || self.until.contains_key(by) {
            let until = now.saturating_add(FOLLOW_MICROS);
            self.until.insert(by.clone(), until);
        }
        self.now
    }

    /// The viewer looks from there now; who is to be told.
    pub fn moved(&mut self, now: u64, to: Viewpoint) -> Vec<PeerId> {
        self.until.retain(|_, until| *until > now);
        if self.now.replace(to) == Some(to) {
            return Vec::new();
        }
        self.until.keys().cloned().collect()
    }

    /// A peer is gone.
    pub fn lost(&mut self, peer: &PeerId) {
        self.until.remove(peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glam::DVec3;

    fn from(x: f64) -> Viewpoint {
        Viewpoint {
            data_set: Digest::of(b"data"),
            camera: Camera {
                eye: DVec3::new(x, -9.0, 0.0),
                at: DVec3::ZERO,
                up: DVec3::Z,
                fov_degrees: 30.0,
                projection: Default::default(),
            },
        }
    }

    #[test]
    fn who_asks_is_told_at_once_and_of_every_change_until_it_asks_no_more() {
        let mut followers = Followers::default();
        let (a, b) = (PeerId::new("a"), PeerId::new("b"));
        // One that shows nothing yet has nothing to tell.
        assert_eq!(followers.asked(0, &a), None);
        assert!(followers.moved(10, from(1.0)).iter().eq([&a]));
        assert_eq!(followers.asked(20, &b), Some(from(1.0)));
        assert_eq!(followers.moved(30, from(1.0)), []);
        assert_eq!(followers.moved(40, from(2.0)), [a.clone(), b.clone()]);
        assert!(
            followers
                .moved(FOLLOW_MICROS + 10, from(3.0))
                .iter()
                .eq([&b])
        );
        followers.lost(&b);
        assert_eq!(followers.moved(FOLLOW_MICROS + 11, from(4.0)), []);
    }

    #[test]
    fn followers_are_bounded() {
        let mut followers = Followers::default();
        for n in 0..2 * FOLLOWERS_MAX {
            followers.asked(n as u64, &PeerId::new(&n.to_string()));
        }
        assert_eq!(followers.moved(1_000, from(1.0)).len(), FOLLOWERS_MAX);
        assert!(from(1.0).is_valid() && !from(f64::NAN).is_valid());
    }
}
