//! Frames of a mesh in which everything goes wrong, by seed: messages are lost, doubled and held
//! up, links are cut, machines crash, freeze, come and leave, while a viewer asks for frames.
//!
//! Every machine runs what a real peer runs: `Keeper` (who is there, who holds what, bricks on their
//! way), `FrameWorker` and `Compositing` (the frames that it renders and combines), `FrameRequests` (the
//! frames that the viewer asks for). All that they say to each other goes through the simulated network. Only pixels and voxels are names, so that
//! `oracle` can tell whether a picture is right.
//!
//! First the faults, then peace (as TigerBeetle's simulator): in the first phase no frame may be
//! wrong; in the second also every frame comes within its bound, and all copies are made again.
//! What is broken is an error with the command that shows it again.

mod compositing;
mod environment;
mod machine;
mod network;
mod notes;
mod oracle;
mod plans;
mod queue;
mod rendering;
mod scenario;
mod viewer;
mod world;

use super::{Input, Output, field, totals, volume};
use crate::SimError;
use brickmesh_topology::{
    Manifest, PeerId, View, balance::plan_rules::PlanRules, base::seeded::Seeded,
};
use environment::Environment;
use network::Network;
use oracle::Oracle;
use plans::Plans;
use scenario::Scenario;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use world::World;

/// Name of the machine that asks for frames and holds nothing.
const VIEWER: &str = "viewer";
/// Most faults of a kind.
const FAULTS_MAX: u32 = 10_000;
/// Longest input that is repeated in an error, in characters.
const REPLAY_CHARACTERS_MAX: usize = 4_000;

/// What goes wrong; what is not given is drawn from the seed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ChaosInput {
    /// Faults stop when this frame is asked for; else after three fifths of the frames.
    until_frame: Option<u32>,
    /// Shares, 0 to 0.9, of the messages that are lost: between keepers, between thieves and
    /// victims, and of all others, each of which costs a frame an attempt.
    loss: Option<f64>,
    steal_loss: Option<f64>,
    frame_loss: Option<f64>,
    /// Shares that come twice, and that come up to 0.3 s late.
    doubled: Option<f64>,
    delayed: Option<f64>,
    /// Share of the bricks that are damaged on their way.
    damaged: Option<f64>,
    /// How many faults of each kind.
    crashes: Option<u32>,
    freezes: Option<u32>,
    partitions: Option<u32>,
    cuts: Option<u32>,
    slowdowns: Option<u32>,
    leaves: Option<u32>,
    joins: Option<u32>,
    /// Memory of all peers, as a multiple of what all copies take.
    spare: Option<f64>,
    /// Microseconds between frames.
    interval_us: Option<u64>,
}

/// What happened besides the frames.
#[derive(Serialize)]
pub(super) struct ChaosReport {
    /// A hash of all that happened: equal for equal inputs.
    trace: String,
    /// Faults that began, besides those of single messages.
    faults: usize,
    events: u64,
    messages: u64,
    /// Messages that did not come.
    lost: u64,
    /// When faults stopped, and how long after that all copies were there again.
    healed_at_us: u64,
    restored_us: u64,
    /// Longest frame that was asked for when faults had stopped, until peers have found each other
    /// again, and longest frame after that.
    worst_unsettled_us: u64,
    worst_calm_us: u64,
    ended_at_us: u64,
}

/// Runs a scenario; `text` is the whole input, for the command that runs it again.
pub(super) fn run(
    input: &Input,
    manifest: Manifest,
    views: Vec<View>,
    text: &str,
) -> Result<Output, SimError> {
    let (frames, bricks) = (
        u32::try_from(views.len()).unwrap_or(u32::MAX),
        manifest.grid().brick_count(),
    );
    let scenario = match &input.chaos {
        Some(chaos) => {
            check(input, chaos)?;
            Scenario::new(input, chaos, frames, bricks)
        }
        None => Scenario::calm(input, bricks),
    };
    let is_calm = input.chaos.is_none();
    let machines = input.peers.len() + 1;
    let manifest = Arc::new(manifest);
    let draws = |of: u64| Seeded::new(input.seed.rotate_left(8) ^ of);
    let rules: PlanRules = input.rules;
    let settings = volume::settings(input.shadows);
    let plans = Plans::new(
        manifest,
        (rules, settings),
        views,
        is_calm,
        machines - 1,
        draws(1),
    );
    let network = Network::new(machines, scenario.latency, scenario.jitter, draws(2));
    let ids = input.peers.iter().map(|p| p.id.as_str());
    let names: Vec<PeerId> = ids.chain([VIEWER]).map(PeerId::new).collect();
    let oracle = Oracle::new(machines, input.rules.fetches());
    let env = Environment::new(names, network, plans, oracle);
    let mut world = World::new(env, scenario, input.redundancy);
    let interval = input
        .chaos
        .as_ref()
        .map_or(0, |c| c.interval_us.unwrap_or(33_000));
    let ended = world.run(u64::from(frames), interval);
    let frames = world.reports();
    ended.map_err(|what| SimError::Broken {
        what,
        at_micros: world.env.now(),
        frames: frames.len(),
        replay: replay(text),
    })?;
    let healed = world.healed.unwrap_or(world.env.now());
    let report = ChaosReport {
        trace: format!("{:016x}", world.env.queue.trace()),
        faults: world.begun,
        events: world.env.queue.count(),
        messages: world.env.network.sent,
        lost: world.env.network.lost,
        healed_at_us: healed,
        restored_us: world.restored.unwrap_or(healed).saturating_sub(healed),
        worst_unsettled_us: world.env.oracle.worst_unsettled,
        worst_calm_us: world.env.oracle.worst_calm,
        ended_at_us: world.env.now(),
    };
    Ok(Output {
        totals: totals(&frames),
        frames,
        chaos: input.chaos.is_some().then_some(report),
    })
}

/// The command that runs an input again.
fn replay(text: &str) -> String {
    let compact = serde_json::from_str::<serde_json::Value>(text).map(|v| v.to_string());
    let text = compact.unwrap_or_default();
    if text.is_empty() || text.chars().count() > REPLAY_CHARACTERS_MAX {
        return "brickmesh sim mesh, with this input".to_owned();
    }
    format!(
        "echo '{}' | brickmesh sim mesh -",
        text.replace('\'', r"'\''")
    )
}

fn check(input: &Input, chaos: &ChaosInput) -> Result<(), SimError> {
    check_numbers(chaos)?;
    if input.peers.iter().any(|p| p.id == VIEWER) {
        return Err(field("id", VIEWER, "under chaos it is the viewer's name"));
    }
    let shares = [
        ("loss", chaos.loss),
        ("steal_loss", chaos.steal_loss),
        ("frame_loss", chaos.frame_loss),
        ("doubled", chaos.doubled),
        ("delayed", chaos.delayed),
        ("damaged", chaos.damaged),
    ];
    for (name, found) in shares {
        if let Some(found) = found.filter(|f| !(0.0..=0.9).contains(f)) {
            return Err(field(name, found, "it must be 0 to 0.9"));
        }
    }
    if let Some(spare) = chaos.spare.filter(|s| !(0.01..=100.0).contains(s)) {
        return Err(field("spare", spare, "it must be 0.01 to 100"));
    }
    let interval = chaos.interval_us.unwrap_or(1_000);
    if !(1_000..=10_000_000).contains(&interval) {
        return Err(field(
            "interval_us",
            interval,
            "it must be 1000 to 10000000",
        ));
    }
    Ok(())
}

fn check_numbers(chaos: &ChaosInput) -> Result<(), SimError> {
    let numbers = [
        ("crashes", chaos.crashes),
        ("freezes", chaos.freezes),
        ("partitions", chaos.partitions),
        ("cuts", chaos.cuts),
        ("slowdowns", chaos.slowdowns),
        ("leaves", chaos.leaves),
        ("joins", chaos.joins),
    ];
    for (name, found) in numbers {
        if let Some(found) = found.filter(|f| *f > FAULTS_MAX) {
            return Err(field(name, found, "there may be 10000 at most"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::replay;

    #[test]
    fn a_command_runs_an_input_again_whatever_is_in_it() {
        let text = "{ \"peers\": [{\"id\": \"o'neill\"}],\n \"chaos\": {} }";
        let expected =
            r#"echo '{"chaos":{},"peers":[{"id":"o'\''neill"}]}' | brickmesh sim mesh -"#;
        assert_eq!(replay(text), expected);
        assert!(!replay(&format!("\"{}\"", "x".repeat(9_999))).contains("xx"));
    }
}
