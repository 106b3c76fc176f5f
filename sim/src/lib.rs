//! Decisions and experiments on a virtual mesh, running the same `topology` code as peers do:
//! JSON in, JSON out, behind `brickmesh sim WHAT FILE`.
//!
//! Invariant: no clock, no threads, no unseeded randomness, no actors, no network, no device.

mod jobs;
mod mesh;
mod paper;
mod partition;
mod placement;
mod schedule;

pub use paper::{
    PAPER_VOXELS_MAX, PaperAnswer, PaperOptions, PaperVolume, Plot, paper, paper_parameters,
};

/// What cannot be simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// An unknown experiment.
    #[error(
        "there is no simulation {found:?}; there are: partition, placement, schedule, jobs, mesh, paper"
    )]
    What {
        /// Name found.
        found: String,
    },
    /// Input that is not the JSON asked for.
    #[error("sim {what}: the input is not as expected: {}", shortened(&source.to_string()))]
    Json {
        /// Simulation.
        what: &'static str,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A simulated mesh did what it must never do.
    #[error("sim mesh: after {frames} frames, {at_micros} µs: {what}\nsee it again: {replay}")]
    Broken {
        /// What is broken.
        what: String,
        /// When, on the virtual clock, microseconds.
        at_micros: u64,
        /// Frames that had ended before.
        frames: usize,
        /// The command that does the same again.
        replay: String,
    },
    /// A field out of its bounds.
    #[error("sim {what}: {field} is {}; {expected}", shortened(found))]
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

/// An input of the simulation `what` that works; for `paper`, its name.
///
/// # Errors
/// [`SimError::What`].
pub fn example(what: &str) -> Result<&'static str, SimError> {
    match what {
        "placement" => Ok(include_str!("examples/placement.json")),
        "partition" => Ok(include_str!("examples/partition.json")),
        "schedule" => Ok(include_str!("examples/schedule.json")),
        "jobs" => Ok(include_str!("examples/jobs.json")),
        "mesh" => Ok(include_str!("examples/mesh.json")),
        "paper" => Ok(paper::FREY_ERTL),
        _ => Err(SimError::What {
            found: shortened(what),
        }),
    }
}

/// Runs the simulation `what` on a JSON text; returns JSON.
///
/// # Errors
/// [`SimError`] where there is no such simulation, or the input is not what it needs.
pub fn run(what: &str, input: &str) -> Result<String, SimError> {
    match what {
        "placement" => answer("placement", input, placement::run),
        "partition" => answer("partition", input, partition::run),
        "schedule" => answer("schedule", input, schedule::run),
        "jobs" => answer("jobs", input, jobs::run),
        "mesh" => answer("mesh", input, |parsed| mesh::run(parsed, input)),
        _ => Err(SimError::What {
            found: what.to_owned(),
        }),
    }
}

/// Longest text of an input that an error repeats, in characters, and what of it is its end: there
/// a decoder says where it was.
const TEXT_CHARACTERS: (usize, usize) = (200, 60);

/// A text for an error: names in an input can be as long as the input.
fn shortened(text: &str) -> String {
    let (most, last) = TEXT_CHARACTERS;
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let first: String = text.chars().take(most - last).collect();
    let end: String = text.chars().skip(count - last).collect();
    format!("{first} … {end}")
}

/// Longest id, in bytes: answers repeat ids, once for each job and more.
const ID_BYTES_MAX: usize = 256;

/// Checks the id of a device, a job or a brick.
fn check_id(what: &'static str, id: &serde_json::Value) -> Result<(), SimError> {
    if id.is_number() || id.as_str().is_some_and(|t| t.len() <= ID_BYTES_MAX) {
        return Ok(());
    }
    Err(SimError::Field {
        what,
        field: "id".to_owned(),
        found: id.to_string(),
        expected: format!("it must be a number, or a text of {ID_BYTES_MAX} bytes at most"),
    })
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

#[cfg(test)]
mod tests {
    use super::{example, run};

    #[test]
    fn the_examples_work() {
        for what in ["placement", "partition", "schedule", "jobs", "mesh"] {
            let answer = run(what, example(what).unwrap());
            assert!(answer.is_ok(), "{what}: {answer:?}");
        }
        let unknown = example("frob").unwrap_err().to_string();
        assert!(
            unknown.contains("partition, placement, schedule, jobs, mesh, paper"),
            "{unknown}"
        );
    }

    #[test]
    fn errors_are_short_however_long_the_names_of_an_input_are() {
        let name = "x".repeat(10_000);
        for (what, input) in [
            ("schedule", format!(r#"{{"{name}": 1}}"#)),
            (
                "mesh",
                format!(
                    r#"{{"peers": [{{"id": "a"}}], "faults": [{{"frame": 0, "peer": "{name}", "kind": "slow"}}]}}"#
                ),
            ),
        ] {
            let error = run(what, &input).unwrap_err().to_string();
            assert!(error.chars().count() < 400, "{error}");
        }
        let error = run("jobs", &format!(r#"{{"{name}": 1}}"#)).unwrap_err();
        assert!(error.to_string().contains("line 1 column"), "{error}");
    }
}
