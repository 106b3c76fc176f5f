//! Decisions and experiments on a virtual mesh, running the same `topology` code as peers do:
//! JSON in, JSON out, behind `brickmesh sim WHAT FILE`.
//!
//! Invariant: no clock, no threads, no unseeded randomness, no actors, no network, no device.

mod jobs;
mod mesh;
mod paper;
mod placement;
mod schedule;

pub use paper::{PaperAnswer, PaperOptions, Plot, paper};

/// What cannot be simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// An unknown experiment.
    #[error("there is no simulation {found:?}; there are: placement, schedule, jobs, mesh, paper")]
    What {
        /// Name found.
        found: String,
    },
    /// Input that is not the JSON asked for.
    #[error("sim {what}: the input is not as expected: {source}")]
    Json {
        /// Simulation.
        what: &'static str,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A field out of its bounds.
    #[error("sim {what}: {field} is {found}; {expected}")]
    Field {
        /// Simulation.
        what: &'static str,
        /// Field.
        field: String,
        /// Value found.
        found: String,
        /// What it must be.
        expected: String,
    },
}

/// Runs the simulation `what` on a JSON text; returns JSON.
///
/// # Errors
/// [`SimError`] where there is no such simulation, or the input is not what it needs.
pub fn run(what: &str, input: &str) -> Result<String, SimError> {
    match what {
        "placement" => answer("placement", input, placement::run),
        "schedule" => answer("schedule", input, schedule::run),
        "jobs" => answer("jobs", input, jobs::run),
        "mesh" => answer("mesh", input, mesh::run),
        _ => Err(SimError::What {
            found: what.to_owned(),
        }),
    }
}

fn answer<I, O>(
    what: &'static str,
    input: &str,
    run: impl FnOnce(I) -> Result<O, SimError>,
) -> Result<String, SimError>
where
    I: for<'a> serde::Deserialize<'a>,
    O: serde::Serialize,
{
    let json = |source| SimError::Json { what, source };
    let output = run(serde_json::from_str(input).map_err(json)?)?;
    serde_json::to_string_pretty(&output).map_err(json)
}
