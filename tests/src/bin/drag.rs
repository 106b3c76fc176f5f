//! Drags the picture of viewers in a lab of slow hosts, and prints what the hand feels: frames a second, time
//! from input to picture, and how long the window's thread was busy with one event.
//!
//! `cargo run --release -p brickmesh-tests --bin drag -- --volume F`
//!
//! Not here: a verdict. Figures depend on the machine; they are read by people.

use brickmesh_tests::{
    display::{display, hand},
    lab::{Host, Lab, Wiring},
    program::brickmesh,
};
use clap::Parser;
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Measures drags in viewers of a mesh of slow hosts. Needs root, as it makes network namespaces; Xvfb and
/// xdotool.
#[derive(Debug, Parser)]
struct Args {
    /// Volume
    #[arg(long)]
    volume: PathBuf,
    /// Hosts, besides the viewers'
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    hosts: u32,
    /// Fraction of a core that each host is held to
    #[arg(long, default_value_t = 0.5)]
    share: f64,
    /// Viewers, each on a host of its own that is held to nothing and renders nothing
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4))]
    viewers: u32,
    /// Picture size in pixels
    #[arg(long, default_value = "800x600")]
    size: String,
    /// Length of the drag
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Another host has pictures of 4096 x 4096 pixels rendered meanwhile, one after the other
    #[arg(long)]
    beside: bool,
    /// Moves of the hand a second
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    moves: u32,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// A host with this share of a core.
fn host(share: f64) -> Host {
    Host {
        cpu_share: Some(share),
        link_megabits: None,
    }
}

fn run(args: &Args) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let held = host(args.share);
    // Who watches has a machine of its own, whose threads wait for no other host's.
    let watching = host(1.0);
    let mut hosts = vec![held; args.hosts as usize];
    hosts.extend(vec![watching; args.viewers as usize]);
    hosts.push(Host::default());
    let mut lab = Lab::with_hosts(&hosts, Wiring::Bridge)?;
    for host in 0..args.hosts as usize {
        lab.start(host, &["peer", "--device", "cpu", "--memory", "1G"]);
    }
    let (mut displays, mut logs) = (Vec::new(), Vec::new());
    for viewer in 0..args.viewers {
        let screen = display(&args.size)?;
        let log = folder.path().join(format!("{viewer}.log"));
        let n = (args.hosts + viewer) as usize;
        lab.go_first(n, screen.0.0.id())?;
        let mut view = lab.command(n, brickmesh());
        view.arg("view").arg(&args.volume);
        view.args(["--mesh", "--watch", "--device", "cpu", "--panels", "off"]);
        view.args([
            "--wait-peers",
            &args.hosts.to_string(),
            "--size",
            &args.size,
        ]);
        view.env("DISPLAY", &screen.1)
            .env("RUST_LOG", "brickmesh_node::window=trace")
            .env_remove("WAYLAND_DISPLAY")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).map_err(|e| e.to_string())?);
        lab.spawn(&mut view)?;
        displays.push(screen);
        logs.push(log);
    }
    for (log, (_, display)) in logs.iter().zip(&displays) {
        wait_for(log, "scale=1.0 step=1.0", Duration::from_secs(120))?;
        hand(display, "search --name brickmesh windowfocus");
    }
    if args.beside {
        render_beside(&mut lab, args, folder.path())?;
    }
    let before: Vec<usize> = logs.iter().map(|log| lines(log).len()).collect();
    let script = script(args);
    let hands = displays.iter().map(|(_, display)| {
        let path = folder.path().join("drag");
        fs::write(&path, &script).map_err(|e| e.to_string())?;
        let mut hand = Command::new("xdotool");
        hand.arg(&path).env("DISPLAY", display);
        hand.spawn().map_err(|e| e.to_string())
    });
    let hands = hands.collect::<Result<Vec<_>, _>>()?;
    let start = Instant::now();
    for mut hand in hands {
        hand.wait().map_err(|e| e.to_string())?;
    }
    let took = start.elapsed();
    thread::sleep(Duration::from_secs(1));
    println!("| viewer | frames/s | input to picture: median, ms | 95 %, ms | longest event, ms |");
    println!("| ---: | ---: | ---: | ---: | ---: |");
    for (viewer, (log, before)) in logs.iter().zip(before).enumerate() {
        let felt = felt(&lines(log).split_off(before), took);
        println!("| {viewer} | {felt} |");
    }
    Ok(())
}

/// Has the last host ask for large pictures.
fn render_beside(lab: &mut Lab, args: &Args, folder: &Path) -> Result<(), String> {
    let mut render = lab.command((args.hosts + args.viewers) as usize, brickmesh());
    render.arg("render").arg(&args.volume);
    render
        .args(["--mesh", "--wait-peers"])
        .arg((args.hosts + args.viewers).to_string());
    render.args(["--memory", "1", "--device", "cpu", "--step", "0.2"]);
    render.args(["--size", "4096x4096", "--frames", "1000", "--out"]);
    render.arg(folder.join("beside.png"));
    lab.spawn(&mut render)?;
    // Until it is at it.
    thread::sleep(Duration::from_secs(8));
    Ok(())
}

/// What the lines of a viewer's log say of a drag that took so long, as cells of a table.
fn felt(lines: &[String], took: Duration) -> String {
    let moving = lines.iter().filter(|l| l.contains("moving=true")).count();
    let mut latencies = durations(lines, "latency=");
    latencies.sort_by(f64::total_cmp);
    let at = |part: usize| latencies.get(latencies.len() * part / 100).copied();
    let [median, most] = [50, 95].map(|part| at(part).unwrap_or(f64::NAN));
    let events = lines.iter().filter(|l| l.contains("an event was handled"));
    let events: Vec<String> = events.cloned().collect();
    let longest = durations(&events, "took=").into_iter().fold(0.0, f64::max);
    let rate = moving as f64 / took.as_secs_f64();
    format!("{rate:.1} | {median:.0} | {most:.0} | {longest:.1}")
}

/// A drag in circles, for xdotool.
fn script(args: &Args) -> String {
    let mut script = "mousemove 400 300\nmousedown 1\n".to_owned();
    let pause = 1.0 / f64::from(args.moves);
    for n in 0..args.seconds * u64::from(args.moves) {
        let angle = n as f64 * 0.02;
        let (x, y) = (
            400.0 + 150.0 * angle.sin(),
            300.0 + 60.0 * (0.7 * angle).sin(),
        );
        script += &format!("mousemove {x:.0} {y:.0}\nsleep {pause}\n");
    }
    script + "mouseup 1\n"
}

fn lines(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Waits until a log has a line with this.
fn wait_for(log: &Path, what: &str, at_most: Duration) -> Result<(), String> {
    let end = Instant::now() + at_most;
    while !lines(log).iter().any(|line| line.contains(what)) {
        if Instant::now() > end {
            let said = lines(log).split_off(lines(log).len().saturating_sub(5));
            return Err(format!("no {what} within {at_most:?}: {said:?}"));
        }
        thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// Milliseconds of all times after a word, as Rust writes them.
fn durations(lines: &[String], after: &str) -> Vec<f64> {
    let found = lines.iter().filter_map(|line| {
        let text = line.split_once(after)?.1;
        let text = text.split_whitespace().next()?;
        let split = text.find(|c: char| c.is_alphabetic() || c == 'µ')?;
        let (number, unit) = text.split_at(split);
        let factor = match unit {
            "s" => 1e3,
            "ms" => 1.0,
            "µs" => 1e-3,
            "ns" => 1e-6,
            _ => return None,
        };
        Some(number.parse::<f64>().ok()? * factor)
    });
    found.collect()
}
