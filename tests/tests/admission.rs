//! Who gets into a mesh, over loopback: whoever has its key and speaks its version, however loud
//! the others knock. Every wait has a deadline.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail by a panic, also outside of its function"
)]

use brickmesh_actors::bus::Lane;
use brickmesh_node::network::{MeshKey, PROTOCOL_VERSION, Refusal};
use brickmesh_tests::{
    attacker::{FIRST_FLIGHT_BYTES, at, flood, recording_proxy, replay, socket_of},
    network_peer::{Heard, NetworkPeer, SECOND, another_key, config, key, pair, stranger, until},
    program::{PeerProcess, brickmesh},
};
use bytes::Bytes;
use futures::StreamExt;
use libp2p::swarm::{DialError, SwarmEvent};
use std::{
    io::Read,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// A message from one peer reaches the other.
async fn assert_talk(from: &NetworkPeer, to: &mut NetworkPeer, text: &'static str) {
    let message = Bytes::from_static(text.as_bytes());
    from.bus.send(&to.id(), Lane::Control, message).unwrap();
    assert_eq!(to.received(5 * SECOND).await, text.as_bytes());
}

#[tokio::test]
async fn another_key_is_refused_and_both_sides_are_told_within_a_second() {
    let mut a = NetworkPeer::join(&[]);
    let start = Instant::now();
    let mut b = NetworkPeer::start(config(another_key(), &a.network.listen_addresses()));
    let told = |peer: &NetworkPeer| peer.network.refusals().into_iter().next();
    let of_b = until(10 * SECOND, "refusal at the dialler", || told(&b)).await;
    let of_a = until(10 * SECOND, "refusal at the listener", || told(&a)).await;
    let took = start.elapsed();
    let address = at(socket_of(&a.network));
    assert_eq!(of_b, Refusal::AnotherKey { address });
    let address = "/ip4/127.0.0.1".parse().unwrap();
    assert_eq!(of_a, Refusal::AnotherKey { address });
    assert!(of_b.to_string().contains("another mesh key"), "{of_b}");
    a.assert_quiet();
    b.assert_quiet();
    assert_eq!(a.network.find_providers([7; 32], SECOND / 10).await, []);
    // Start of the network, one tick, one handshake.
    assert!(took < SECOND, "{took:?}");
}

#[tokio::test]
async fn without_a_key_there_is_no_connection_in_either_direction() {
    let mut a = NetworkPeer::join(&[]);
    let version = format!("/brickmesh/{PROTOCOL_VERSION}");
    let mut keyless = stranger(&version, Vec::new());
    keyless
        .dial(a.network.listen_addresses()[0].clone())
        .unwrap();
    let failed = timeout(10 * SECOND, async {
        loop {
            match keyless.select_next_some().await {
                SwarmEvent::OutgoingConnectionError { error, .. } => return error,
                SwarmEvent::ConnectionEstablished { .. } => panic!("it was let in"),
                _ => {}
            }
        }
    });
    assert!(matches!(failed.await.unwrap(), DialError::Transport(_)));
    a.assert_quiet();

    keyless
        .listen_on(at("127.0.0.1:0".parse().unwrap()))
        .unwrap();
    let address = timeout(10 * SECOND, async {
        loop {
            if let SwarmEvent::NewListenAddr { address, .. } = keyless.select_next_some().await {
                return address;
            }
        }
    });
    let address = address.await.unwrap();
    let mut b = NetworkPeer::start(config(key(), std::slice::from_ref(&address)));
    let failed = timeout(10 * SECOND, async {
        loop {
            match keyless.select_next_some().await {
                SwarmEvent::IncomingConnectionError { .. } => return,
                SwarmEvent::ConnectionEstablished { .. } => panic!("it was let in"),
                _ => {}
            }
        }
    });
    failed.await.unwrap();
    let told = || b.network.refusals().into_iter().next();
    let told = until(SECOND, "refusal", told).await;
    assert_eq!(told, Refusal::AnotherKey { address });
    b.assert_quiet();
}

#[tokio::test]
async fn another_version_is_refused_and_each_side_learns_both() {
    let (mut a, mut b) = pair().await;
    let (ours, theirs) = (format!("/brickmesh/{PROTOCOL_VERSION}"), "/brickmesh/1000");
    let mut newer = stranger(theirs, key().noise_prologue());
    newer.dial(a.network.listen_addresses()[0].clone()).unwrap();
    let (mut told, mut closed) = (None, false);
    let goodbye = timeout(10 * SECOND, async {
        while !closed {
            match newer.select_next_some().await {
                SwarmEvent::Behaviour(Heard::Version(version)) => told = Some(version),
                SwarmEvent::ConnectionClosed { .. } => closed = true,
                _ => {}
            }
        }
    });
    goodbye.await.unwrap();
    assert_eq!(told.as_deref(), Some(ours.as_str()));
    let address = "/ip4/127.0.0.1".parse().unwrap();
    let expected = Refusal::AnotherVersion {
        address,
        ours: ours.clone(),
        theirs: theirs.to_owned(),
    };
    assert_eq!(a.network.refusals(), std::slice::from_ref(&expected));
    let words = expected.to_string();
    assert!(words.contains(&ours) && words.contains(theirs), "{words}");
    a.assert_quiet();
    assert_talk(&a, &mut b, "as before").await;
}

#[tokio::test]
async fn a_handshake_that_is_replayed_opens_nothing() {
    let mut a = NetworkPeer::join(&[]);
    let (proxy, record) = recording_proxy(socket_of(&a.network)).await;
    let mut b = NetworkPeer::join(&[at(proxy)]);
    assert_eq!(a.connected(10 * SECOND).await, b.id());
    assert_eq!(b.connected(10 * SECOND).await, a.id());
    assert_talk(&b, &mut a, "first").await;
    // The whole session of the opener, handshake and message.
    let recorded = record.bytes();
    assert!(recorded.len() > 200, "{}", recorded.len());
    // One that leaves in the middle, as a dial does when another was faster: no word of keys.
    let mut halfway = TcpStream::connect(socket_of(&a.network)).await.unwrap();
    halfway
        .write_all(&recorded[..FIRST_FLIGHT_BYTES])
        .await
        .unwrap();
    let mut answer = [0; 100];
    let answered = timeout(5 * SECOND, halfway.read_exact(&mut answer)).await;
    answered.unwrap().unwrap();
    drop(halfway);
    assert_talk(&a, &mut b, "between").await;
    assert_eq!(a.network.refusals(), []);
    for _ in 0..3 {
        // It answers with its half of a new handshake, and hangs up on the old half.
        replay(socket_of(&a.network), &recorded).await;
    }
    a.assert_quiet();
    let address = "/ip4/127.0.0.1".parse().unwrap();
    assert_eq!(a.network.refusals(), [Refusal::AnotherKey { address }]);
    assert_talk(&b, &mut a, "second").await;
    assert_talk(&a, &mut b, "third").await;
}

#[tokio::test]
async fn a_flood_of_connections_delays_honest_peers_no_longer_than_a_handshake_may_take() {
    let (a, mut b) = pair().await;
    let start = Instant::now();
    let sockets = flood(socket_of(&a.network), 300).await;
    // Who is connected does not notice.
    assert_talk(&a, &mut b, "through the flood").await;
    assert!(start.elapsed() < 5 * SECOND, "{:?}", start.elapsed());
    // Who comes now, and from the flood's own address, waits until places are free again.
    let mut c = NetworkPeer::join(&a.network.listen_addresses());
    let first = c.connected(20 * SECOND).await;
    assert!(first == a.id() || first == b.id());
    println!("joined {:?} after the flood began", start.elapsed());
    drop(sockets);
    let message = Bytes::from_static(b"arrived");
    c.bus.send(&first, Lane::Control, message).unwrap();
}

fn status(key: &Path, address: &str) -> (bool, String) {
    let mut command = Command::new(brickmesh());
    command
        .args(["status", "--seconds", "1.5", "--join", address, "--key"])
        .arg(key);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text.into_owned())
}

#[test]
fn the_program_makes_a_key_invites_others_and_says_what_is_wrong_with_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let (right, wrong) = (
        folder.path().join("mesh.key"),
        folder.path().join("other.key"),
    );
    let mut peer = PeerProcess::on_loopback(&right, Stdio::piped());
    let (lines, address) = (peer.lines.clone(), peer.said("listening on ").to_owned());
    let all = lines.join("\n");
    let secret = std::fs::read_to_string(&right).unwrap();
    let secret = secret.split_whitespace().nth(1).unwrap();
    assert!(!all.contains(secret), "the key is printed");
    let join = lines.last().unwrap();
    let without_peer = address.split("/p2p/").next().unwrap();
    assert!(join.ends_with(&format!("--join {without_peer}")), "{join}");
    assert!(join.contains(right.to_str().unwrap()), "{join}");

    let (well, text) = status(&right, &address);
    assert!(well && text.contains("1 peer\n"), "{text}");
    let (well, text) = status(&wrong, &address);
    assert!(!well && text.contains("there is no mesh key"), "{text}");
    MeshKey::load_or_make(&wrong).unwrap();
    let (well, text) = status(&wrong, &address);
    assert!(!well && text.contains("another mesh key"), "{text}");
    assert!(text.contains(without_peer), "{text}");

    peer.process.0.kill().unwrap();
    let mut log = String::new();
    let mut stderr = peer.process.0.stderr.take().unwrap();
    stderr.read_to_string(&mut log).unwrap();
    assert!(
        log.contains("WARN") && log.contains("another mesh key"),
        "{log}"
    );
    assert!(!log.contains(secret), "the key is logged");
}

#[cfg(unix)]
#[test]
fn the_program_refuses_a_key_that_others_can_read() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mesh.key");
    MeshKey::load_or_make(&file).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    // A service manager does not start a peer again that a person must mend first.
    for (command, status) in [("peer", 2), ("status", 1)] {
        let output = Command::new(brickmesh())
            .args([command, "--key"])
            .arg(&file)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(status));
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            text.contains("has mode 644") && text.contains("chmod 600"),
            "{text}"
        );
    }
}
