//! Meshes in which everything goes wrong, by seed: no wrong frame, no job blended twice, copies
//! made again, frames within their bound once faults have stopped; a seed always does the same. Meshes
//! of one to eight machines, as most labs are, and of fifty.
//!
//! What is broken is an error of the simulation, with the command that shows it again.
//! `BRICKMESH_CHAOS=SEEDS,FRAMES,PEERS[,REDUNDANCY[,FIELD[,image|auto|shadows|steal|demand]]]` runs others instead: seeds, peers and
//! redundancy are a number or a range `A-B` (seeds: a number N is 1 to N), the field is what the volume
//! shows, `filled` or `shells`, in a small picture; `default` leaves out volume and picture. `,image` after the field: the picture
//! is divided, and peers fetch bricks for frames; `,shadows`: and rays go on from what jobs show, through further bricks; `,steal` and `,demand`:
//! and tiles are shared out so.

use serde_json::{Value, json};
use std::{
    ops::RangeInclusive,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// Meshes that are run, each with all seeds.
#[derive(Clone, Debug)]
struct Runs {
    seeds: RangeInclusive<u64>,
    frames: u64,
    peers: RangeInclusive<u64>,
    redundancies: RangeInclusive<u64>,
    field: String,
    /// What of frames is divided; of pictures, peers fetch bricks for them.
    division: &'static str,
    /// And who renders which tile of them.
    tiles: &'static str,
    /// And rays go on from what jobs show.
    has_shadows: bool,
}

/// What came of them: faults that began, frames that were asked for again, jobs that nobody would have seen, the
/// longest frame, what was broken, and how many frames there were, and were divided as pictures.
#[derive(Debug, Default)]
struct Sums {
    frames: u64,
    divided: u64,
    faults: u64,
    again: u64,
    hidden: u64,
    worst_micros: u64,
    broken: Vec<String>,
}

/// From so many peers on, no frame takes longer than [`WORST_MICROS`], whatever happens.
const LARGE: u64 = 50;
const WORST_MICROS: u64 = 15_000_000;

fn run(input: &Value) -> Value {
    try_run(input).unwrap_or_else(|error| panic!("{error}"))
}

fn try_run(input: &Value) -> Result<Value, String> {
    let answer = brickmesh_sim::run("mesh", &input.to_string()).map_err(|e| e.to_string())?;
    Ok(serde_json::from_str(&answer).expect("answers are JSON"))
}

fn scenario(seed: u64, frames: u64, peers: u64) -> Value {
    scenario_of(seed, frames, peers, 3, "filled")
}

fn scenario_of(seed: u64, frames: u64, peers: u64, redundancy: u64, field: &str) -> Value {
    let mut input = json!({
        "peers": peers, "seed": seed, "frames": frames, "redundancy": redundancy, "chaos": {},
    });
    if field != "default" {
        input["volume"] = json!({"field": field});
        input["path"] = json!({"size": [256, 256]});
    }
    input
}

/// What the environment asks for in place of the usual runs.
fn asked_for() -> Option<Runs> {
    let given = std::env::var("BRICKMESH_CHAOS").ok()?;
    let parsed = || {
        let mut parts = given.split(',');
        let seeds = parts.next()?;
        let how = given.split(',').nth(5);
        let runs = Runs {
            seeds: if seeds.contains('-') {
                range(seeds)?
            } else {
                1..=seeds.parse().ok()?
            },
            frames: parts.next()?.parse().ok()?,
            peers: range(parts.next()?)?,
            redundancies: parts.next().map_or(Some(3..=3), range)?,
            field: parts.next().unwrap_or("filled").to_owned(),
            division: match how {
                None => "sort-last",
                Some("image" | "shadows" | "steal" | "demand") => "image",
                Some("auto") => "auto",
                Some(_) => return None,
            },
            tiles: match how {
                Some("steal") => "steal",
                Some("demand") => "demand",
                _ => "planned",
            },
            has_shadows: how == Some("shadows"),
        };
        (given.split(',').count() <= 6).then_some(runs)
    };
    Some(parsed().unwrap_or_else(|| {
        panic!(
            "BRICKMESH_CHAOS={given}: it must be SEEDS,FRAMES,PEERS[,REDUNDANCY[,FIELD[,image|auto|shadows|steal|demand]]]"
        )
    }))
}

/// `A-B`, or one number.
fn range(text: &str) -> Option<RangeInclusive<u64>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

/// Runs all, and says of each what came of it.
fn run_all(runs: &Runs) -> Sums {
    let mut all = Vec::new();
    for seed in runs.seeds.clone() {
        for peers in runs.peers.clone() {
            for redundancy in runs.redundancies.clone() {
                all.push((seed, peers, redundancy));
            }
        }
    }
    let (next, sums) = (AtomicUsize::new(0), Mutex::new(Sums::default()));
    let work = || {
        while let Some(&(seed, peers, redundancy)) = all.get(next.fetch_add(1, Relaxed)) {
            let mut input = scenario_of(seed, runs.frames, peers, redundancy, &runs.field);
            if runs.division != "sort-last" {
                input["rules"] = json!({"division": {(runs.division): {"tile": null}}, "tile_sharing": runs.tiles});
                input["shadows"] = json!(runs.has_shadows);
            }
            let answer = try_run(&input);
            let mut sums = sums.lock().expect("no run panics");
            match answer {
                Ok(answer) => sums.add(
                    &answer,
                    runs.frames,
                    &format!("seed {seed}, {peers} peers, redundancy {redundancy}"),
                ),
                Err(error) => {
                    println!(
                        "broken: seed {seed}, {peers} peers, redundancy {redundancy}: {error}"
                    );
                    sums.broken.push(error);
                }
            }
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    sums.into_inner().expect("no run panics")
}

impl Sums {
    fn add(&mut self, answer: &Value, frames: u64, of: &str) {
        let all = answer["frames"].as_array().expect("a list");
        assert_eq!(all.len() as u64, frames);
        let more = all.iter().filter(|f| f["attempts"].as_u64() > Some(1));
        let more = more.count() as u64;
        let (chaos, totals) = (&answer["chaos"], &answer["totals"]);
        println!("{of}: {chaos}; {more} frames asked for again; {totals}");
        self.faults += chaos["faults"].as_u64().expect("a number");
        self.again += more;
        self.frames += frames;
        self.divided += all.iter().filter(|f| f["image"] == true).count() as u64;
        let hidden = all.iter().map(|f| f["hidden"].as_u64().expect("a number"));
        self.hidden += hidden.sum::<u64>();
        let worst = totals["worst_us"].as_u64().expect("a number");
        self.worst_micros = self.worst_micros.max(worst);
    }
}

fn check(runs: &Runs) {
    let Sums {
        faults,
        again,
        hidden,
        worst_micros,
        broken,
        frames,
        divided,
    } = run_all(runs);
    assert!(
        broken.is_empty(),
        "{} are broken:\n{}",
        broken.len(),
        broken.join("\n")
    );
    let parts = frames / 20..frames - frames / 20;
    assert!(
        runs.division != "auto" || parts.contains(&divided),
        "{divided} pictures of {frames} are divided"
    );
    let count = runs.seeds.clone().count() as u64;
    assert!(
        faults > count && again > 0 && hidden > count,
        "{faults} faults, {again} frames, {hidden} jobs hidden"
    );
    // In small meshes all who hold a brick may be silent, one after the other.
    assert!(
        runs.peers.start() < &LARGE || worst_micros <= WORST_MICROS,
        "a frame took {worst_micros} µs"
    );
}

/// Meshes in which the volume is divided.
fn sort_last() -> Vec<Runs> {
    // As most labs are, each as anybody would write it; and a large one. As many faults happen in few
    // frames as in some hundreds.
    let small = Runs {
        seeds: 1..=9,
        frames: 100,
        peers: 1..=8,
        redundancies: 1..=3,
        field: "default".to_owned(),
        division: "sort-last",
        tiles: "planned",
        has_shadows: false,
    };
    // Full peers waited for each other's place here, until takers were chosen by what they have in memory.
    let stuck = Runs {
        seeds: 9..=9,
        frames: 300,
        peers: 7..=7,
        redundancies: 2..=2,
        ..small.clone()
    };
    let large = Runs {
        seeds: 1..=20,
        frames: 1000,
        peers: 50..=50,
        redundancies: 3..=3,
        field: "filled".to_owned(),
        ..small.clone()
    };
    vec![stuck, small, large]
}

/// Meshes in which the picture is divided.
fn image_parallel() -> Vec<Runs> {
    let divided = Runs {
        seeds: 1..=8,
        frames: 100,
        peers: 1..=6,
        redundancies: 1..=3,
        field: "default".to_owned(),
        division: "image",
        tiles: "planned",
        has_shadows: false,
    };
    let with_rays = Runs {
        seeds: 1..=6,
        has_shadows: true,
        ..divided.clone()
    };
    let [stolen, drawn] = ["steal", "demand"].map(|tiles| Runs {
        seeds: 1..=3,
        tiles,
        ..divided.clone()
    });
    // Nothing of a tile was to be seen, and its keeper took no other one.
    let hidden_tiles = Runs {
        seeds: 7..=7,
        peers: 3..=4,
        redundancies: 1..=1,
        ..drawn.clone()
    };
    let chosen = Runs {
        seeds: 1..=4,
        division: "auto",
        ..divided.clone()
    };
    // A brick that was to be held, and was fetched for a frame in vain, was not read here.
    let read_in_vain = Runs {
        seeds: 24..=24,
        peers: 3..=3,
        ..chosen.clone()
    };
    vec![
        divided,
        chosen,
        read_in_vain,
        with_rays,
        stolen,
        drawn,
        hidden_tiles,
    ]
}

#[test]
fn no_seed_breaks_a_mesh() {
    let usual = || [sort_last(), image_parallel()].concat();
    let runs = asked_for().map_or_else(usual, |asked| vec![asked]);
    runs.iter().for_each(check);
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
