//! What of a frame is divided, by strategy: the same path of the camera, from a cold start, with little memory, and with each host holding all.

use crate::{
    Setting,
    figures::{mean, median},
    held_mesh::HeldMesh,
    run::{FrameFigures, Run, WARM_UP, run},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, path::Path};

/// Memory that holds all of any volume here.
const ALL_MEMORY: &str = "1G";
/// A frame of `auto` counts as well chosen where it took at most so much as by the better of the other two.
const WELL_CHOSEN: f64 = 1.1;

/// How frames are divided, and what is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    SortLast,
    Image,
    /// The picture, among hosts whose bricks come when they are read.
    Pages,
    /// The picture, whose tiles stay where they were.
    Steal,
    /// The picture, whose tiles are drawn from a queue.
    Demand,
    Auto,
    /// The picture, among hosts that hold all.
    Replicated,
}

const KINDS: [Kind; 7] = [
    Kind::SortLast,
    Kind::Image,
    Kind::Pages,
    Kind::Steal,
    Kind::Demand,
    Kind::Auto,
    Kind::Replicated,
];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::SortLast => "sort-last",
            Self::Image | Self::Pages | Self::Steal | Self::Demand | Self::Replicated => "image",
            Self::Auto => "auto",
        }
    }

    fn tiles(self) -> Option<&'static str> {
        match self {
            Self::Steal => Some("steal"),
            Self::Demand => Some("demand"),
            Self::SortLast | Self::Image | Self::Pages | Self::Auto | Self::Replicated => None,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Replicated => "image, replicated",
            Self::Pages => "image, by pages",
            Self::Steal => "image, tiles stolen",
            Self::Demand => "image, tiles on demand",
            other => other.name(),
        }
    }
}

/// Measures and prints.
pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let cameras = folder.path().join("cameras.json");
    let list = Value::Array(
        (0..setting.frames)
            .map(|f| camera(f, setting.frames))
            .collect(),
    );
    fs::write(&cameras, list.to_string()).map_err(|e| e.to_string())?;
    let mut runs = BTreeMap::<Kind, Run>::new();
    for round in 1..=setting.rounds {
        for kind in KINDS {
            eprintln!("round {round}, {} …", kind.words());
            run_of(setting, kind, &cameras)?.add_to(&mut runs, kind);
        }
    }
    print(setting, &runs);
    Ok(())
}

/// An orbit of the whole, a flight to a detail, an orbit of that, and the flight back, a quarter of the frames each.
fn camera(frame: u32, frames: u32) -> Value {
    let at = f64::from(frame) / f64::from(frames) * 4.0;
    let near = match at {
        at if at < 1.0 => 0.0,
        at if at < 2.0 => at - 1.0,
        at if at < 3.0 => 1.0,
        at => 4.0 - at,
    };
    let zoom = 6.0_f64.powf(near);
    json!({ "orbit": format!("{:.2},15,{zoom:.3}", at * 90.0) })
}

fn run_of(setting: &Setting, kind: Kind, cameras: &Path) -> Result<Run, String> {
    let is_whole = kind == Kind::Replicated;
    let side = Setting {
        peer_memory: if is_whole {
            ALL_MEMORY.to_owned()
        } else {
            setting.peer_memory.clone()
        },
        sharing: if kind == Kind::Pages { "page" } else { "auto" },
        ..setting.clone()
    };
    let copies = if is_whole { setting.hosts } else { 1 };
    let mesh = HeldMesh::new(&side, setting.hosts)?;
    let tiles = kind.tiles().map(|tiles| ("--tiles", tiles.to_owned()));
    let more = [
        ("--strategy", kind.name().to_owned()),
        ("--redundancy", copies.to_string()),
        ("--ahead", "1".to_owned()),
        ("--cameras", cameras.display().to_string()),
    ];
    let more: Vec<String> = more
        .into_iter()
        .chain(tiles)
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect();
    run(&side, &mesh, &more, |_| Ok(()))
}

fn print(setting: &Setting, runs: &BTreeMap<Kind, Run>) {
    println!(
        "### Strategies, {} hosts of {} each, one copy of each brick, from a cold start, {} rounds\n",
        setting.hosts, setting.peer_memory, setting.rounds
    );
    println!(
        "| strategy | frames a second | ms: median | longest | frames divided as pictures | bricks found after a quarter | accesses that hit then | bricks fetched a frame | waited a host, ms | KiB of pixels a frame | failed attempts | frames with holes |"
    );
    println!(
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    );
    for (kind, run) in runs {
        let warm: Vec<&FrameFigures> = run.warm().collect();
        let all =
            |of: &dyn Fn(&FrameFigures) -> f64| warm.iter().map(|f| of(f)).collect::<Vec<f64>>();
        let latency = all(&|f| f.latency_ms);
        let images = warm.iter().filter(|f| f.is_image).count();
        let late = run
            .rounds()
            .flat_map(|r| &r[(r.len() / 4).max(WARM_UP)..])
            .filter(|f| f.is_image);
        let (needed, acquired, missed) = late.fold((0.0, 0.0, 0.0), |(n, a, m), f| {
            (n + f.needed, a + f.acquired, m + f.missed)
        });
        let hits = |of: f64| match of > 0.0 {
            true => format!("{:.1} %", 100.0 * (1.0 - missed / of)),
            false => String::new(),
        };
        println!(
            "| {} | {:.2} | {:.0} | {:.0} | {images} of {} | {} | {} | {:.1} | {:.0} | {:.0} | {} | {} |",
            kind.words(),
            1000.0 / mean(latency.iter().copied()),
            median(latency.iter().copied()),
            latency.iter().copied().fold(0.0, f64::max),
            warm.len(),
            hits(needed),
            hits(acquired),
            mean(all(&|f| f.missed)),
            mean(all(&|f| f.waited_ms)),
            mean(all(&|f| f.kibibytes)),
            run.frames.iter().map(|f| f.failed).sum::<u32>(),
            run.frames.iter().filter(|f| f.holes > 0).count(),
        );
    }
    println!();
    print_choice(runs);
}

/// How often `auto` was within a tenth of the better one, by the medians of all rounds: by what its frames took, and, without the noise
/// between runs and without what a change of division costs, by what the other runs took with the division that it chose.
fn print_choice(runs: &BTreeMap<Kind, Run>) {
    let of = |kind: Kind| {
        let rounds: Vec<&[FrameFigures]> =
            runs.get(&kind).into_iter().flat_map(Run::rounds).collect();
        let frames = rounds.iter().map(|r| r.len()).min().unwrap_or(0);
        let frame = |f: usize| median(rounds.iter().map(|r| r[f].latency_ms));
        (WARM_UP..frames).map(frame).collect::<Vec<f64>>()
    };
    let [volume, picture, auto] = [Kind::SortLast, Kind::Image, Kind::Auto].map(of);
    let better = volume.iter().zip(&picture).map(|(v, p)| v.min(*p));
    let well = auto
        .iter()
        .zip(better)
        .filter(|(a, b)| **a <= b * WELL_CHOSEN)
        .count();
    let auto_rounds = runs.get(&Kind::Auto).into_iter().flat_map(Run::rounds);
    let chosen: Vec<bool> = auto_rounds
        .flat_map(|frames| frames[WARM_UP..].iter().zip(volume.iter().zip(&picture)))
        .map(|(frame, (v, p))| {
            let chosen = if frame.is_image { p } else { v };
            *chosen <= v.min(*p) * WELL_CHOSEN
        })
        .collect();
    let favoured = volume.iter().zip(&picture).filter(|(v, p)| p < v).count();
    println!(
        "Of {} frames, `auto` took at most {WELL_CHOSEN} × the better of the other two in {well}; {favoured} were faster with the picture divided. In {} of all {} frames of its rounds the division that it chose took at most so much in the other runs.\n",
        auto.len(),
        chosen.iter().filter(|&&c| c).count(),
        chosen.len(),
    );
}
