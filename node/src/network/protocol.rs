//! The protocol's version, and the names that carry it.
//!
//! Invariant: a change of the wire raises [`PROTOCOL_VERSION`], and every name follows, so that
//! peers of two versions can tell each other who they are and nothing else. What admits a peer
//! (`mesh_key`) does not depend on the version, or they could not even do that.

use brickmesh_actors::bus::Lane;
use libp2p::StreamProtocol;

/// The number as a literal, which names are put together from when this is compiled.
macro_rules! version {
    () => {
        39
    };
}

/// Version of all that peers say to each other.
pub const PROTOCOL_VERSION: u32 = version!();
/// What a peer says it speaks; who says otherwise is refused.
pub(super) const IDENTIFY: &str = concat!("/brickmesh/", version!());
/// Kademlia among brickmesh peers only.
pub(super) const KAD: StreamProtocol = StreamProtocol::new(concat!("/brickmesh/kad/", version!()));

/// Name of a lane's streams.
pub(super) fn of_lane(lane: Lane) -> StreamProtocol {
    StreamProtocol::new(match lane {
        Lane::Control => concat!("/brickmesh/control/", version!()),
        Lane::Pixels => concat!("/brickmesh/pixels/", version!()),
        Lane::Bricks => concat!("/brickmesh/bricks/", version!()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_ends_with_the_version() {
        let version = format!("/{PROTOCOL_VERSION}");
        let lanes = super::super::lane::LANES.map(of_lane);
        for name in lanes.iter().chain([&KAD]).map(AsRef::as_ref) {
            assert!(name.ends_with(&version), "{name}");
        }
        assert!(IDENTIFY.ends_with(&version));
    }
}
