//! Peers on several hosts: they find each other and make the picture that one peer makes alone.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail by a panic, also outside of its function"
)]

use brickmesh_tests::{
    compare::compare,
    lab::{Host, Lab, Wiring, cpu_time},
    program::{brickmesh, read_png},
    skip::skip,
};
use std::{
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

const VOLUME: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/data/neghip_64x64x64_uint8.raw.gz"
);

fn lab(name: &str, wiring: Wiring) -> Option<Lab> {
    lab_of(4, name, wiring)
}

fn lab_of(hosts: usize, name: &str, wiring: Wiring) -> Option<Lab> {
    match Lab::new(hosts, wiring) {
        Ok(lab) => Some(lab),
        Err(why) => {
            skip(name, &format!("no network namespaces here: {why}"));
            None
        }
    }
}

/// The picture that one peer makes, without a network.
fn alone(folder: &Path) -> Vec<u8> {
    let out = folder.join("alone.png");
    let mut command = Command::new(brickmesh());
    command
        .args([
            "render", VOLUME, "--size", "160x120", "--shade", "on", "--device", "cpu", "--out",
        ])
        .arg(&out);
    assert!(command.status().unwrap().success());
    read_png(&out).2
}

/// Renders with the mesh from the last host; the picture must be that of one peer, and every
/// host must have taken part.
fn check_render(lab: &Lab, more: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let (out, stats) = (
        folder.path().join("mesh.png"),
        folder.path().join("stats.json"),
    );
    let mut args = vec![
        "render", VOLUME, "--size", "160x120", "--shade", "on", "--device", "cpu", "--mesh",
    ];
    args.extend([
        "--wait-peers",
        "3",
        "--brick",
        "16",
        "--frames",
        "2",
        "--spin",
        "0",
    ]);
    args.extend([
        "--out",
        out.to_str().unwrap(),
        "--stats",
        stats.to_str().unwrap(),
    ]);
    args.extend(more);
    let output = lab.run(3, &args);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let expected = alone(folder.path());
    for frame in ["mesh-0000.png", "mesh-0001.png"] {
        let d = compare(&expected, &read_png(&folder.path().join(frame)).2);
        assert!(d.max <= 1, "{frame}: {d:?}");
    }
    let stats: serde_json::Value = serde_json::from_slice(&std::fs::read(&stats).unwrap()).unwrap();
    let jobs = stats["frames"][1]["jobs"].as_array().unwrap();
    let peers: std::collections::BTreeSet<_> =
        jobs.iter().map(|j| j["peer"].as_str().unwrap()).collect();
    assert_eq!(peers.len(), 4, "every host renders: {peers:?}");
    assert!(stats["frames"][1]["missing"].as_array().unwrap().is_empty());
}

fn peers_seen(output: &std::process::Output) -> usize {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    status["peers"].as_array().unwrap().len()
}

#[test]
fn three_peers_on_one_bridge_are_found_by_mdns_and_render_together() {
    let Some(mut lab) = lab("three_peers_on_one_bridge", Wiring::Bridge) else {
        return;
    };
    for (n, name) in ["a", "b", "c"].into_iter().enumerate() {
        lab.start(
            n,
            &[
                "peer", "--name", name, "--device", "cpu", "--memory", "256M",
            ],
        );
    }
    // No address was given to anybody; ten seconds are what the user may have to wait.
    assert_eq!(
        peers_seen(&lab.run(3, &["status", "--json", "--seconds", "9"])),
        3
    );
    check_render(&lab, &[]);
}

#[test]
fn behind_a_router_without_multicast_join_and_kademlia_find_everybody() {
    let Some(mut lab) = lab("behind_a_router", Wiring::Router) else {
        return;
    };
    let listen: Vec<String> = (0..4)
        .map(|n| format!("/ip4/{}/tcp/7070", lab.address(n)))
        .collect();
    let first = listen[0].clone();
    for (n, name) in ["a", "b", "c"].into_iter().enumerate() {
        let mut args = vec![
            "peer", "--name", name, "--device", "cpu", "--memory", "256M", "--listen", &listen[n],
        ];
        if n > 0 {
            args.extend(["--join", &first]);
        }
        lab.start(n, &args);
    }
    // Each knows the first alone; the others come by Kademlia.
    check_render(&lab, &["--listen", &listen[3], "--join", &first]);
}

/// Renders a data set that this host has never seen; returns the picture.
fn render_named(lab: &Lab, name: &str, folder: &Path) -> Vec<u8> {
    let out = folder.join("named.png");
    let args = [
        "render", name, "--mesh", "--size", "160x120", "--shade", "on", "--device", "cpu", "--out",
    ];
    let mut args = args.to_vec();
    args.push(out.to_str().unwrap());
    let output = lab.run(3, &args);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    read_png(&out).2
}

#[test]
fn a_data_set_is_found_by_name_and_stays_when_who_brought_it_leaves() {
    let Some(mut lab) = lab("a_data_set_is_found_by_name", Wiring::Bridge) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("neghip.brickmesh");
    let store = store.to_str().unwrap();
    let import = lab.run(0, &["import", VOLUME, "--out", store, "--brick", "16"]);
    assert!(import.status.success());
    let info = lab.run(0, &["info", store, "--json"]);
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    let digest = info["data_set"].as_str().unwrap();
    let peer = ["peer", "--device", "cpu", "--memory", "256M", "--name"];
    let brings = [&peer[..], &["a", "--data", store]].concat();
    let first = lab.start(0, &brings);
    for (n, name) in [(1, "b"), (2, "c")] {
        lab.start(n, &[&peer[..], &[name]].concat());
    }
    let expected = alone(folder.path());
    let found = render_named(&lab, &digest[..12], folder.path());
    assert!(compare(&expected, &found).max <= 1);
    // It says goodbye only when others hold what it alone held.
    lab.signal(first, "TERM").unwrap();
    lab.wait_for(first, Duration::from_secs(40)).unwrap();
    let source = Path::new(VOLUME).file_name().unwrap().to_str().unwrap();
    let after = render_named(&lab, source, folder.path());
    assert!(compare(&expected, &after).max <= 1);
    let nothing = lab.run(3, &["render", "0123456789abcdef", "--out", "/dev/null"]);
    let why = String::from_utf8_lossy(&nothing.stderr);
    assert!(why.contains("no data set") && why.contains(digest), "{why}");
}

/// The fraction of a core that a process gets for a second.
fn fraction_of_a_core(pid: u32) -> f64 {
    let (start, before) = (Instant::now(), cpu_time(pid).unwrap());
    thread::sleep(Duration::from_secs(1));
    let taken = cpu_time(pid).unwrap() - before;
    taken.as_secs_f64() / start.elapsed().as_secs_f64()
}

#[test]
fn a_host_gets_its_share_of_a_core_and_no_more() {
    let host = Host {
        cpu_share: Some(0.2),
        link_megabits: Some(100),
    };
    let mut lab = match Lab::with_hosts(&[host], Wiring::Bridge) {
        Ok(lab) => lab,
        Err(why) => {
            return skip(
                "a_host_gets_its_share_of_a_core_and_no_more",
                &format!("hosts cannot be held here: {why}"),
            );
        }
    };
    let mut spin = lab.command(0, "sh");
    spin.args(["-c", "while :; do :; done"]);
    let pid = lab.spawn(&mut spin).unwrap();
    // What is held is the most that it gets; on a busy machine it may be less.
    let fifth = fraction_of_a_core(pid);
    assert!((0.05..0.3).contains(&fifth), "{fifth}");
    lab.set_share(0, 0.6).unwrap();
    let more = fraction_of_a_core(pid);
    assert!(more > 1.2 * fifth && more < 0.75, "{fifth}, then {more}");
    lab.set_share(0, 0.05).unwrap();
    let less = fraction_of_a_core(pid);
    assert!(less < 0.6 * fifth, "{fifth}, then {less}");
}

#[test]
fn a_share_that_is_none_is_refused() {
    let Some(lab) = lab_of(1, "a_share_that_is_none_is_refused", Wiring::Bridge) else {
        return;
    };
    let why = lab.set_share(0, 0.5).unwrap_err();
    assert!(why.contains("host 0 has no share"), "{why}");
}
