//! `sim schedule`: who renders which job.

use crate::SimError;
use brickmesh_topology::schedule::{SPEED_ONE, ScheduledJob, Scheduler};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    devices: Vec<Device>,
    jobs: Vec<Job>,
    #[serde(default = "best_fit")]
    method: Scheduler,
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

fn best_fit() -> Scheduler {
    Scheduler::BestFit
}

/// Costs beyond this, an hour, are no frame's.
const COST_MAX_MICROS: u64 = 3_600_000_000;

pub(crate) fn run(input: Input) -> Result<Output, SimError> {
    let field = |field: String, found: String, expected: &str| SimError::Field {
        what: "schedule",
        field,
        found,
        expected: expected.to_owned(),
    };
    let mut speeds = Vec::new();
    for d in &input.devices {
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
    let mut jobs = Vec::new();
    for j in &input.jobs {
        if j.cost_us > COST_MAX_MICROS {
            let name = format!("cost_us of job {}", j.id);
            return Err(field(
                name,
                j.cost_us.to_string(),
                "it must be at most 3600000000",
            ));
        }
        let holds = |(d, device): (usize, &Device)| device.bricks.contains(&j.brick).then_some(d);
        let holders = input.devices.iter().enumerate().filter_map(holds).collect();
        jobs.push(ScheduledJob {
            cost_micros: j.cost_us,
            holders,
        });
    }
    let schedule = input.method.schedule(&jobs, &speeds);
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
        assert!(with("refined").unwrap().contains("\"makespan_us\": 51"));
        let error = with("magic").unwrap_err().to_string();
        assert!(error.contains("`best-fit` or `refined`"), "{error}");
    }
}
