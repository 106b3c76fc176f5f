//! Meshes in which everything goes wrong, by seed: no wrong frame, no job blended twice, copies
//! made again, frames within their bound once faults have stopped; a seed always does the same.
//!
//! What is broken is an error of the simulation, with the command that shows it again.
//! `BRICKMESH_CHAOS=SEEDS,FRAMES,PEERS` runs other seeds, 1 to SEEDS or from A to B with `A-B`, longer, or
//! more peers.

use serde_json::{Value, json};
use std::{
    ops::RangeInclusive,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Seeds, frames of each, and peers.
const USUAL: (RangeInclusive<u64>, u64, u64) = (1..=20, 1_000, 50);

fn run(input: &Value) -> Value {
    let answer = brickmesh_sim::run("mesh", &input.to_string());
    let answer = answer.unwrap_or_else(|error| panic!("{error}"));
    serde_json::from_str(&answer).expect("answers are JSON")
}

fn scenario(seed: u64, frames: u64, peers: u64) -> Value {
    json!({
        "peers": peers, "seed": seed, "frames": frames, "redundancy": 3,
        "volume": {"field": "filled"}, "path": {"size": [256, 256]}, "chaos": {},
    })
}

fn asked_for() -> (RangeInclusive<u64>, u64, u64) {
    let given = std::env::var("BRICKMESH_CHAOS").unwrap_or_default();
    if given.is_empty() {
        return USUAL;
    }
    let number = |text: &str| text.parse::<u64>().ok();
    let parsed = || {
        let (seeds, rest) = given.split_once(',')?;
        let (frames, peers) = rest.split_once(',')?;
        let (first, last) = seeds.split_once('-').unwrap_or(("1", seeds));
        Some((
            number(first)?..=number(last)?,
            number(frames)?,
            number(peers)?,
        ))
    };
    parsed().unwrap_or_else(|| {
        panic!("BRICKMESH_CHAOS={given}: it must be SEEDS,FRAMES,PEERS, SEEDS a number or A-B")
    })
}

#[test]
fn no_seed_breaks_a_mesh() {
    let (seeds, frames, peers) = asked_for();
    let next = AtomicU64::new(*seeds.start());
    let (faults, again) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed > *seeds.end() {
                return;
            }
            let answer = run(&scenario(seed, frames, peers));
            let all = answer["frames"].as_array().unwrap();
            assert_eq!(all.len() as u64, frames);
            let more = all.iter().filter(|f| f["attempts"].as_u64() > Some(1));
            let more = more.count() as u64;
            let (chaos, totals) = (&answer["chaos"], &answer["totals"]);
            println!("seed {seed}: {chaos}; {more} frames asked for again; {totals}");
            faults.fetch_add(chaos["faults"].as_u64().unwrap(), Relaxed);
            again.fetch_add(more, Relaxed);
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    let (faults, again) = (faults.into_inner(), again.into_inner());
    assert!(
        faults > seeds.count() as u64 && again > 0,
        "{faults} faults, {again} frames"
    );
}

#[test]
fn a_seed_always_gives_the_same_trace() {
    let of = |seed| run(&scenario(seed, 120, 12));
    let (one, two) = (of(3), of(3));
    assert_eq!(one, two);
    assert_ne!(one["chaos"]["trace"], of(4)["chaos"]["trace"]);
}

#[test]
fn without_any_fault_every_frame_is_whole_at_the_first_attempt() {
    let mut input = scenario(1, 60, 12);
    input["chaos"] = json!({
        "loss": 0.0, "steal_loss": 0.0, "frame_loss": 0.0, "doubled": 0.0, "delayed": 0.0,
        "damaged": 0.0, "crashes": 0, "freezes": 0, "partitions": 0, "cuts": 0, "slowdowns": 0,
        "leaves": 0, "joins": 0, "spare": 2.0,
    });
    let answer = run(&input);
    let frames = answer["frames"].as_array().unwrap();
    assert!(
        frames
            .iter()
            .all(|f| f["attempts"] == 1 && f["given_up"] == false)
    );
    assert!(
        frames.iter().skip(5).all(|f| f["missing"] == 0),
        "copies are there"
    );
    assert_eq!(answer["chaos"]["faults"], 0);
    assert_eq!(answer["chaos"]["lost"], 0);
}

#[test]
fn a_peer_that_dies_is_made_up_for() {
    let mut input = scenario(2, 500, 10);
    input["chaos"] = json!({
        "loss": 0.0, "steal_loss": 0.0, "frame_loss": 0.0, "doubled": 0.0, "delayed": 0.0,
        "damaged": 0.0, "crashes": 0, "freezes": 0, "partitions": 0, "cuts": 0, "slowdowns": 0,
        "leaves": 0, "joins": 0, "spare": 2.0,
    });
    input["faults"] = json!([{"frame": 50, "after_us": 3000, "peer": "peer-004", "kind": "crash"}]);
    let answer = run(&input);
    let frames = answer["frames"].as_array().unwrap();
    assert!(
        frames.iter().any(|f| f["attempts"] == 2),
        "a frame without it"
    );
    assert!(frames.iter().skip(5).all(|f| f["missing"] == 0));
    let moved = |of: &[Value]| of.iter().map(|f| f["moved"].as_u64().unwrap()).sum::<u64>();
    assert!(moved(&frames[60..]) > 0, "its copies are made again");
}
