//! What peers are called where people read it: fit for a terminal, and never one name for two.

use brickmesh_actors::brick_owner::MeshStatus;
use brickmesh_topology::{PeerId, plain_text::plain_text};
use std::collections::BTreeMap;

/// Every peer's name, with the end of its id where another has that name, too.
#[must_use]
pub fn distinct(status: &MeshStatus) -> BTreeMap<PeerId, String> {
    let mut bearers = BTreeMap::<String, usize>::new();
    for hello in status.peers.values() {
        *bearers.entry(plain_text(&hello.name)).or_default() += 1;
    }
    let peers = status.peers.iter().map(|(peer, hello)| {
        let name = plain_text(&hello.name);
        let is_shared = bearers.get(&name).is_some_and(|&n| n > 1);
        let told = if is_shared {
            with_id(&name, peer)
        } else {
            name
        };
        (peer.clone(), told)
    });
    peers.collect()
}

/// A peer's name and the end of its id; the whole id of a peer that is not known.
#[must_use]
pub fn name_with_id(status: &MeshStatus, peer: &PeerId) -> String {
    status.peers.get(peer).map_or_else(
        || peer.as_str().to_owned(),
        |hello| with_id(&plain_text(&hello.name), peer),
    )
}

fn with_id(name: &str, peer: &PeerId) -> String {
    format!("{name} ({})", peer.short())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::status;

    #[test]
    fn two_of_one_name_are_told_apart_and_nobody_drives_the_terminal() {
        let mut status = status();
        let names = |status: &MeshStatus| distinct(status).into_values().collect::<Vec<_>>();
        assert_eq!(names(&status), ["eva's ?[31m \"box\"", "lab", "status"]);
        for hello in status.peers.values_mut() {
            hello.name = "lab".to_owned();
        }
        assert_eq!(names(&status), ["lab (a)", "lab (b)", "lab (c)"]);
    }
}
