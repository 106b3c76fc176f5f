//! Networks of several peers in one process, over loopback and by address: no multicast needed.
//!
//! Every wait has a deadline. The last test prints speeds and runs only on request:
//! `cargo test --release -p brickmesh-tests --test network -- --ignored --nocapture`.

use brickmesh_actors::bus::{BusError, BusEvent, Lane};
use brickmesh_node::network::{MeshKey, Network, NetworkConfig, NetworkError, address};
use brickmesh_tests::{
    attacker::{GIANT_LENGTH, Rogue, say},
    network_peer::{NetworkPeer as Peer, SECOND, config, key, pair, until_async},
    program::brickmesh,
};
use brickmesh_topology::{Digest, PeerId};
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    process::Command,
    time::{Duration, Instant},
};
use tokio::time::{sleep, timeout};

#[tokio::test]
async fn both_peers_learn_of_a_connection_once() {
    let (mut a, mut b) = pair().await;
    for peer in [&mut a, &mut b] {
        let more = timeout(2 * SECOND, peer.events.recv()).await;
        assert!(more.is_err(), "{more:?}");
    }
}

#[tokio::test]
async fn two_peers_that_join_each_other_connect_once() {
    // Free ports, found beforehand, so that each can be told the other's (and its own).
    let ports: Vec<_> = (0..2)
        .map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let addresses: Vec<_> = ports
        .iter()
        .map(|port| address::parse(&port.local_addr().unwrap().to_string()).unwrap())
        .collect();
    drop(ports);
    let mut peers: Vec<_> = (0..2)
        .map(|at| {
            Peer::start(NetworkConfig {
                listen: vec![addresses[at].clone()],
                ..config(key(), &addresses)
            })
        })
        .collect();
    let ids: Vec<_> = peers.iter().map(Peer::id).collect();
    for at in 0..2 {
        assert_eq!(peers[at].connected(10 * SECOND).await, ids[1 - at]);
    }
    for peer in &mut peers {
        let more = timeout(4 * SECOND, peer.events.recv()).await;
        assert!(more.is_err(), "{more:?}");
    }
}

#[tokio::test]
async fn small_messages_stay_in_order_while_a_large_one_goes_on_another_lane() {
    let (a, mut b) = pair().await;
    let large: Bytes = (0..=250_u8)
        .cycle()
        .take(64 << 20)
        .collect::<Vec<_>>()
        .into();
    a.bus.send(&b.id(), Lane::Bricks, large.clone()).unwrap();
    for value in 0..1000_u32 {
        let message = Bytes::copy_from_slice(&value.to_le_bytes());
        a.bus.send(&b.id(), Lane::Control, message).unwrap();
    }
    let (mut next, mut large_came_after) = (0_u32, None);
    while next < 1000 || large_came_after.is_none() {
        let message = b.received(30 * SECOND).await;
        if message.len() == 4 {
            assert_eq!(message[..], next.to_le_bytes());
            next += 1;
        } else {
            assert!(message == large);
            large_came_after = Some(next);
        }
    }
    assert!(
        large_came_after >= Some(500),
        "small messages waited for the large one"
    );
}

#[tokio::test]
async fn peers_that_join_a_third_find_each_other() {
    let mut c = Peer::join(&[]);
    let mut a = Peer::join(&c.network.listen_addresses());
    let mut b = Peer::join(&c.network.listen_addresses());
    let start = Instant::now();
    let ids = [a.id(), b.id(), c.id()];
    for (at, peer) in [&mut a, &mut b, &mut c].into_iter().enumerate() {
        let mut found = [
            peer.connected(10 * SECOND).await,
            peer.connected(10 * SECOND).await,
        ];
        found.sort();
        let mut others: Vec<_> = ids.iter().filter(|id| **id != ids[at]).cloned().collect();
        others.sort();
        assert_eq!(found[..], others[..]);
    }
    println!("three peers, full mesh after {:?}", start.elapsed());
    assert!(start.elapsed() < 10 * SECOND);
}

#[tokio::test]
async fn a_peer_that_shuts_down_is_lost_once_and_its_bus_refuses() {
    let (mut a, b) = pair().await;
    let start = Instant::now();
    b.network.shutdown();
    assert!(start.elapsed() < Duration::from_millis(2500));
    assert_eq!(a.lost(5 * SECOND).await, b.id());
    let refused = a.bus.send(&b.id(), Lane::Control, Bytes::new());
    assert_eq!(refused, Err(BusError::NotConnected { peer: b.id() }));
    let refused = b.bus.send(&a.id(), Lane::Control, Bytes::new());
    assert_eq!(refused, Err(BusError::NotConnected { peer: a.id() }));
    let more = timeout(SECOND, a.events.recv()).await;
    assert!(more.is_err(), "{more:?}");
}

#[tokio::test]
async fn a_peer_that_comes_back_is_joined_again() {
    let folder = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = address::parse(&port.local_addr().unwrap().to_string()).unwrap();
    drop(port);
    let config = NetworkConfig {
        identity: Some(folder.path().join("identity")),
        listen: vec![listen.clone()],
        ..config(key(), &[])
    };
    let (first, _events) = Network::start(config.clone()).unwrap();
    let id = first.bus().local().clone();
    let mut a = Peer::join(&[listen]);
    assert_eq!(a.connected(10 * SECOND).await, id);
    drop(first);
    assert_eq!(a.lost(5 * SECOND).await, id);
    let (second, _events) = Network::start(config).unwrap();
    assert_eq!(*second.bus().local(), id);
    assert_eq!(a.connected(20 * SECOND).await, id);
}

#[tokio::test]
async fn nothing_is_sent_to_strangers() {
    let a = Peer::join(&[]);
    let peer = PeerId::new("12D3KooWnobody");
    let refused = a.bus.send(&peer, Lane::Control, Bytes::new());
    assert_eq!(refused, Err(BusError::NotConnected { peer }));
}

#[tokio::test]
async fn a_peer_that_does_not_read_fills_the_queue() {
    let (a, b) = pair().await;
    // Nobody reads b's events: first they fill, then the sockets, then a's queue.
    let message = Bytes::from(vec![7; 16 << 10]);
    let refused = timeout(30 * SECOND, async {
        loop {
            match a.bus.send(&b.id(), Lane::Control, message.clone()) {
                Ok(()) => tokio::task::yield_now().await,
                Err(error) => return error,
            }
        }
    });
    let (peer, lane) = (b.id(), Lane::Control);
    assert_eq!(refused.await.unwrap(), BusError::QueueFull { peer, lane });
    // The other lanes still take messages.
    a.bus.send(&b.id(), Lane::Pixels, message).unwrap();
}

#[tokio::test]
async fn contents_are_found_at_their_providers() {
    let (a, b) = pair().await;
    b.network.provide([7; 32]).unwrap();
    let deadline = Instant::now() + 10 * SECOND;
    while a.network.find_providers([7; 32], 2 * SECOND).await != [b.id()] {
        assert!(Instant::now() < deadline, "no provider found");
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(a.network.find_providers([8; 32], 2 * SECOND).await, []);
}

#[tokio::test]
async fn who_announced_a_content_is_known_to_who_comes_after_it_left() {
    let (mut a, b) = pair().await;
    b.network.provide([7; 32]).unwrap();
    let noted = async || {
        let found = a.network.find_providers([7; 32], SECOND).await;
        (found == [b.id()]).then_some(())
    };
    until_async(10 * SECOND, "provider", noted).await;
    // It may have answered itself: the other is to have heard it by then.
    sleep(SECOND).await;
    b.network.shutdown();
    assert_eq!(a.lost(5 * SECOND).await, b.id());
    let mut c = Peer::join(&a.network.listen_addresses());
    assert_eq!(c.connected(10 * SECOND).await, a.id());
    let found = async || {
        let found = c.network.find_providers([7; 32], 2 * SECOND).await;
        (found == [b.id()]).then_some(())
    };
    until_async(10 * SECOND, "provider that left", found).await;
}

#[tokio::test]
async fn who_offered_a_data_set_that_nobody_knows_any_more_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let key_file = folder.path().join("mesh.key");
    let (key, _) = MeshKey::load_or_make(&key_file).unwrap();
    let offers = Peer::start(config(key, &[]));
    let data_set = Digest::of(b"closed by now");
    offers.network.provide(*data_set.as_bytes()).unwrap();
    let mut command = Command::new(brickmesh());
    command
        .args(["render", &data_set.to_string(), "--mesh", "--device", "cpu"])
        .args(["--wait-peers", "0", "--listen", "127.0.0.1:0", "--join"])
        .arg(offers.network.listen_addresses()[0].to_string())
        .arg("--key")
        .arg(&key_file)
        .arg("--out")
        .arg(folder.path().join("p.png"));
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    let named = format!("directory it is with {}:", offers.id().short());
    assert!(said.contains(&named), "{said}");
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let a = Peer::join(&[]);
    let taken = a.network.listen_addresses()[0].clone();
    let config = NetworkConfig {
        listen: vec![taken.clone()],
        ..config(key(), &[])
    };
    let error = Network::start(config).unwrap_err();
    assert!(
        matches!(&error, NetworkError::Listen { address, .. }
        if taken.to_string().starts_with(&address.to_string())),
        "{error}"
    );
}

#[test]
fn a_bad_address_is_refused_with_its_text() {
    let error = NetworkConfig::from_texts(key(), None, &[], &["example org:1".into()]).unwrap_err();
    assert!(error.to_string().contains("example org:1"), "{error}");
}

#[tokio::test]
async fn a_frame_that_announces_too_much_loses_only_its_sender() {
    let (mut a, mut b) = pair().await;
    let mut rogue = Rogue::join(&a.network).await;
    let mut streams = rogue.open_lanes().await;
    assert_eq!(a.connected(10 * SECOND).await, rogue.id());
    say(&mut streams[1], &GIANT_LENGTH).await.unwrap();
    assert_eq!(a.lost(10 * SECOND).await, rogue.id());
    a.bus
        .send(&b.id(), Lane::Control, Bytes::from_static(b"still here"))
        .unwrap();
    assert_eq!(b.received(5 * SECOND).await[..], b"still here"[..]);
}

#[tokio::test]
async fn six_peers_that_know_one_become_a_full_mesh() {
    let first = Peer::join(&[]);
    let known = first.network.listen_addresses();
    let mut peers = vec![first];
    peers.extend((0..5).map(|_| Peer::join(&known)));
    let deadline = Instant::now() + 20 * SECOND;
    let mut found: BTreeMap<PeerId, usize> = BTreeMap::new();
    for peer in &mut peers {
        let mut connected = std::collections::BTreeSet::new();
        while connected.len() < 5 {
            let left = deadline.saturating_duration_since(Instant::now());
            match peer.next(left).await {
                BusEvent::Connected(other) => connected.insert(other),
                BusEvent::Lost(other) => connected.remove(&other),
                BusEvent::Received { .. } => panic!("nobody sent anything"),
            };
        }
        found.insert(peer.id(), connected.len());
    }
    assert!(found.values().all(|count| *count == 5));
}

#[tokio::test]
#[ignore = "prints speeds instead of checking anything: run by hand on an idle machine"]
async fn speeds_over_loopback() {
    let (mut a, mut b) = pair().await;
    let (a_id, b_id) = (a.id(), b.id());
    let echo = tokio::spawn(async move {
        loop {
            let Some(event) = b.events.recv().await else {
                return;
            };
            if let BusEvent::Received { message, .. } = event
                && message.len() == 64
            {
                b.bus.send(&a_id, Lane::Control, message).unwrap();
            }
        }
    });
    let small = Bytes::from(vec![1; 64]);
    let mut times = Vec::new();
    for _ in 0..3000 {
        let start = Instant::now();
        a.bus.send(&b_id, Lane::Control, small.clone()).unwrap();
        a.received(SECOND).await;
        times.push(start.elapsed());
    }
    times.sort();
    println!(
        "64 B there and back: median {:?}, p99 {:?}",
        times[1500], times[2970]
    );
    for mebibytes in [1_usize, 4, 8] {
        let message = Bytes::from(vec![2; mebibytes << 20]);
        let start = Instant::now();
        for _ in 0..512 / mebibytes {
            while a.bus.send(&b_id, Lane::Bricks, message.clone()).is_err() {
                sleep(Duration::from_millis(1)).await;
            }
        }
        // One lane keeps its order: the echo comes when all bricks have come.
        while a.bus.send(&b_id, Lane::Bricks, small.clone()).is_err() {
            sleep(Duration::from_millis(1)).await;
        }
        a.received(10 * SECOND).await;
        let speed = 512.0 / start.elapsed().as_secs_f64();
        println!("{mebibytes} MiB messages: {speed:.0} MiB/s");
    }
    times.clear();
    let bulk = Bytes::from(vec![2; 4 << 20]);
    for _ in 0..1000 {
        while a.bus.send(&b_id, Lane::Bricks, bulk.clone()).is_ok() {}
        let start = Instant::now();
        a.bus.send(&b_id, Lane::Control, small.clone()).unwrap();
        a.received(SECOND).await;
        times.push(start.elapsed());
    }
    times.sort();
    println!(
        "64 B under load: median {:?}, p99 {:?}",
        times[500], times[990]
    );
    echo.abort();
}
