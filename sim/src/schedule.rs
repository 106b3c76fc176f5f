//! `sim schedule`: who renders which job.

use crate::{SimError, check_id};
use brickmesh_topology::balance::schedule::{Assignment, SPEED_ONE, ScheduledJob, assign};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    devices: Vec<Device>,
    jobs: Vec<Job>,
    #[serde(default = "best_fit")]
    method: Assignment,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Device {
    /// Text or number, given back as it is.
    id: Value,
    /// 2.0 needs half the time.
    #[serde(default = "one")]
    speed: f64,
    bricks: Vec<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    id: Value,
    brick: u32,
    cost_us: u64,
}

#[derive(Serialize)]
pub(crate) struct Output {
    assignment: Vec<Assigned>,
    loads_us: Map<String, Value>,
    makespan_us: u64,
    lower_bound_us: u64,
}

#[derive(Serialize)]
struct Assigned {
    job: Value,
    /// `null`: nobody holds its brick.
    device: Value,
}

fn one() -> f64 {
    1.0
}

fn best_fit() -> Assignment {
    Assignment::BestFit
}

/// Costs beyond this, an hour, are no frame's.
const COST_MAX_MICROS: u64 = 3_600_000_000;
/// Most devices, as many as a roster has.
const DEVICES_MAX: usize = 4096;
/// Most jobs.
const JOBS_MAX: usize = 1 << 16;
/// Most pairs of a job and a device that holds its brick: each is looked at, and kept.
const PAIRS_MAX: usize = 1 << 24;

pub(crate) fn run(input: Input) -> Result<Output, SimError> {
    check_counts(&input)?;
    let mut speeds = Vec::new();
    for d in &input.devices {
        check_id("schedule", &d.id)?;
        if !(d.speed >= 1e-6 && d.speed <= 1e6) {
            let name = format!("speed of device {}", d.id);
            return Err(field(
                name,
                d.speed.to_string(),
                "it must be 0.000001 to 1000000",
            ));
        }
        speeds.push(millionths(d.speed));
    }
    let by_brick = holders(&input.devices);
    let (mut jobs, mut pairs) = (Vec::new(), 0);
    for j in &input.jobs {
        check_id("schedule", &j.id)?;
        if j.cost_us > COST_MAX_MICROS {
            let name = format!("cost_us of job {}", j.id);
            return Err(field(
                name,
                j.cost_us.to_string(),
                "it must be at most 3600000000",
            ));
        }
        let holders = by_brick.get(&j.brick).cloned().unwrap_or_default();
        pairs += holders.len();
        if pairs > PAIRS_MAX {
            let found = format!("held {PAIRS_MAX} times and more");
            return Err(field(
                "jobs".to_owned(),
                found,
                "take fewer jobs or devices",
            ));
        }
        jobs.push(ScheduledJob {
            cost_micros: j.cost_us,
            holders,
        });
    }
    let schedule = assign(input.method, &jobs, &speeds);
    let name = |d: usize| input.devices[d].id.clone();
    let assigned = input.jobs.iter().zip(&schedule.assignment);
    let key = |id: &Value| id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    let loads = input.devices.iter().zip(&schedule.loads_micros);
    Ok(Output {
        assignment: assigned
            .map(|(j, d)| Assigned {
                job: j.id.clone(),
                device: d.map_or(Value::Null, name),
            })
            .collect(),
        loads_us: loads.map(|(d, &load)| (key(&d.id), load.into())).collect(),
        makespan_us: schedule.makespan_micros,
        lower_bound_us: schedule.lower_bound_micros,
    })
}

fn field(field: String, found: String, expected: &str) -> SimError {
    SimError::Field {
        what: "schedule",
        field,
        found,
        expected: expected.to_owned(),
    }
}

fn check_counts(input: &Input) -> Result<(), SimError> {
    let counts = [
        ("devices", input.devices.len(), DEVICES_MAX),
        ("jobs", input.jobs.len(), JOBS_MAX),
    ];
    for (name, found, most) in counts {
        if found > most {
            let expected = format!("there may be {most} at most");
            return Err(field(name.to_owned(), found.to_string(), &expected));
        }
    }
    Ok(())
}

/// The devices that hold each brick, ascending.
fn holders(devices: &[Device]) -> BTreeMap<u32, Vec<usize>> {
    let mut out: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (d, device) in devices.iter().enumerate() {
        for &brick in &device.bricks {
            let of_brick = out.entry(brick).or_default();
            if of_brick.last() != Some(&d) {
                of_brick.push(d);
            }
        }
    }
    out
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be 1 to 10^12"
)]
#[expect(clippy::cast_precision_loss, reason = "the constant is exact")]
fn millionths(speed: f64) -> u64 {
    (speed * SPEED_ONE as f64).round() as u64
}

#[cfg(test)]
mod tests {
    #[test]
    fn jobs_go_to_holders_and_loads_add_up() {
        let input = r#"{"devices":[{"id":"a","speed":2.0,"bricks":[0,1]},{"id":"b","bricks":[1,2]}],
            "jobs":[{"id":0,"brick":0,"cost_us":101},{"id":1,"brick":1,"cost_us":40},{"id":2,"brick":9,"cost_us":5}]}"#;
        let out: serde_json::Value =
            serde_json::from_str(&crate::run("schedule", input).unwrap()).unwrap();
        assert_eq!(out["loads_us"]["a"], 51);
        assert_eq!(out["loads_us"]["b"], 40);
        assert_eq!(out["makespan_us"], 51);
        assert!(out["assignment"][2]["device"].is_null());
        let with = |method: &str| {
            crate::run(
                "schedule",
                &input.replacen('{', &format!("{{\"method\":\"{method}\","), 1),
            )
        };
        for method in ["refined", "as-placed"] {
            assert!(with(method).unwrap().contains("\"makespan_us\": 51"));
        }
        let error = with("magic").unwrap_err().to_string();
        assert!(
            error.contains("`best-fit`, `refined`, `as-placed`"),
            "{error}"
        );
    }

    #[test]
    fn what_would_take_too_much_memory_is_refused() {
        let refused = |devices: String, jobs: String| {
            let input = format!(r#"{{"devices":[{devices}],"jobs":[{jobs}]}}"#);
            crate::run("schedule", &input).unwrap_err().to_string()
        };
        let many = |one: &str, count: usize| vec![one; count].join(",");
        let job = r#"{"id":1,"brick":0,"cost_us":1}"#;
        let device = r#"{"id":1,"bricks":[0,0]}"#;
        assert!(refused(many(device, 4097), String::new()).contains("devices is 4097"));
        let pairs = refused(many(device, 4096), many(job, 4097));
        assert!(pairs.contains("take fewer"), "{pairs}");
        let long = format!(r#"{{"id":"{}","bricks":[]}}"#, "x".repeat(257));
        for id in [long.as_str(), r#"{"id":[],"bricks":[]}"#] {
            let error = refused(id.to_owned(), String::new());
            assert!(error.contains("id is"), "{error}");
        }
    }
}
