//! What is foretold of a data set is what then happens.

use super::*;
use crate::mesh::fit::{FitPeer, fit};

#[test]
fn what_is_foretold_is_what_peers_hold() {
    // Memory of peers in bricks, how many of them have the source, and the copies that are wanted.
    let cases: [(&[u64], usize, u32); 14] = [
        (&[27], 1, 1),
        (&[27], 1, 2),
        (&[54], 1, 2),
        (&[26], 1, 1),
        (&[9], 1, 1),
        (&[2], 1, 1),
        (&[1], 1, 1),
        (&[27, 27], 1, 2),
        (&[20, 20], 2, 2),
        (&[12, 8, 6], 3, 2),
        (&[12, 8, 6], 1, 1),
        (&[40, 40, 10], 1, 3),
        (&[18, 18, 18], 3, 2),
        (&[5, 5, 5, 5], 1, 1),
    ];
    let data = manifest(1);
    let cases = cases.iter().flat_map(|case| [(case, 1), (case, 2)]);
    for (&(rooms, sources, redundancy), padding) in cases {
        let mut mesh = Mesh::padded(padding);
        rooms.iter().for_each(|&room| mesh.join(padding * room));
        mesh.run(SECOND);
        for n in 0..sources {
            mesh.input(n, KeeperInput::Offer(Arc::clone(&data), redundancy));
        }
        mesh.run(60 * SECOND);
        let brick_bytes = padding * data.largest_brick_bytes();
        let peer = |(n, room): (usize, &u64)| FitPeer {
            memory_bytes: room * brick_bytes,
            brick_bytes,
            largest_bytes: brick_bytes,
            reads: n < sources,
        };
        let peers: Vec<FitPeer> = rooms.iter().enumerate().map(peer).collect();
        let told = fit(27, &peers, redundancy);
        let safety = mesh.replicas(0, data.digest()).safety();
        let [read, missing] = [told.read, told.missing].map(|n| u32::try_from(n).unwrap());
        let what = format!("{rooms:?} {sources} {redundancy}: {told:?} {safety:?}");
        assert_eq!((safety.read, safety.missing), (read, missing), "{what}");
        let copies = safety.copies_min;
        assert!(copies >= told.copies, "{what}");
        assert!(copies <= told.copies.max(1) || rooms.len() > 1, "{what}");
        assert_eq!(mesh.not_fitting, 0, "{what}");
    }
}
