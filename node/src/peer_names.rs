//! What peers are called where people read it: fit for a terminal, and never one name for two.

use brickmesh_actors::brick_owner::MeshStatus;
use brickmesh_actors::plain_text::plain_text;
use brickmesh_topology::PeerId;
use std::collections::BTreeMap;

/// Every peer's name of those that they call themselves, with the end of its id, or all of it, where
/// another is called the same.
#[must_use]
pub fn distinct(own: &BTreeMap<PeerId, String>) -> BTreeMap<PeerId, String> {
    let mut ids = BTreeMap::new();
    loop {
        let told = |(peer, name): (&PeerId, &String)| {
            let name = plain_text(name);
            let told = match ids.get(peer) {
                None => name,
                Some(Id::End) => with_id(&name, peer),
                Some(Id::Whole) => format!("{name} ({})", peer.as_str()),
            };
            (peer.clone(), told)
        };
        let names: BTreeMap<PeerId, String> = own.iter().map(told).collect();
        let mut bearers = BTreeMap::<&String, Vec<&PeerId>>::new();
        for (peer, name) in &names {
            bearers.entry(name).or_default().push(peer);
        }
        let alike = bearers.into_values().filter(|p| p.len() > 1).flatten();
        // Somebody may call itself what another one is told apart by.
        let mut is_clear = true;
        for peer in alike {
            let more = match ids.get(peer) {
                None => Id::End,
                Some(Id::End) => Id::Whole,
                Some(Id::Whole) => continue,
            };
            ids.insert(peer.clone(), more);
            is_clear = false;
        }
        if is_clear {
            return names;
        }
    }
}

/// How much of its id a peer is told with.
enum Id {
    End,
    Whole,
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
        let names = |status: &MeshStatus| {
            let own = status
                .peers
                .iter()
                .map(|(p, h)| (p.clone(), h.name.clone()));
            distinct(&own.collect()).into_values().collect::<Vec<_>>()
        };
        assert_eq!(names(&status), ["eva's ?[31m \"box\"", "lab", "status"]);
        for hello in status.peers.values_mut() {
            hello.name = "lab".to_owned();
        }
        assert_eq!(names(&status), ["lab (a)", "lab (b)", "lab (c)"]);
        status.peers.get_mut(&PeerId::new("c")).unwrap().name = "lab (a)".to_owned();
        let [a, b, c] = names(&status).try_into().unwrap();
        assert!(a.starts_with("lab (a)") && b == "lab (b)" && c == "lab (a) (c)");
        assert_ne!(a, c);
    }
}
