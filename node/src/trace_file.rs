//! `--trace`: what each peer did when, as JSON of trace events, which Perfetto and Chrome show.
//!
//! A process is a peer, its threads are scheduler, device and compositor; what is no span is "wait", so that each
//! thread's events of a frame add up to the frame. Times are microseconds.

use crate::output_file::{OutputError, OutputFile};
use brickmesh_actors::requester::{FrameStats, FrameTrace};
use brickmesh_topology::{
    PeerId,
    frame::timeline::{Part, Row},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path};

/// See the module.
#[derive(Debug)]
pub struct TraceFile {
    file: OutputFile,
    /// Processes, by peers.
    peers: BTreeMap<PeerId, usize>,
    /// Of the first frame.
    began: Option<u64>,
    frames: u32,
    events: Vec<Value>,
}

impl TraceFile {
    /// Looks whether it can be written.
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn check(path: &Path) -> Result<Self, OutputError> {
        Ok(Self {
            file: OutputFile::check("trace", path)?,
            peers: BTreeMap::new(),
            began: None,
            frames: 0,
            events: Vec::new(),
        })
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &OutputFile {
        &self.file
    }

    /// Adds a frame.
    pub fn add(&mut self, stats: &FrameStats) {
        let Some(trace) = &stats.trace else {
            return;
        };
        let frame = self.frames;
        self.frames += 1;
        let first = *self.began.get_or_insert(trace.began);
        let began = trace.began.saturating_sub(first);
        self.events.push(json!({
            "name": format!("frame {frame}"), "ph": "X", "pid": 0, "tid": 0,
            "ts": began, "dur": stats.total_micros,
            "args": {"schedule_us": stats.schedule_micros, "bytes_sent": stats.bytes_sent},
        }));
        for row in &trace.rows {
            let next = self.peers.len() + 1;
            let process = *self.peers.entry(row.peer.clone()).or_insert(next);
            self.events
                .extend(events(row, process, began, frame, trace));
        }
    }

    /// Writes it; `names` of the peers, for people.
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn write(&self, names: &BTreeMap<PeerId, String>) -> Result<(), OutputError> {
        let named = |process: usize, name: &str| json!({"name": "process_name", "ph": "M", "pid": process, "args": {"name": name}});
        let mut events = vec![named(0, "frames")];
        for (peer, process) in &self.peers {
            let name = names.get(peer).map_or(peer.short(), String::as_str);
            events.push(named(*process, name));
            for part in Part::ALL {
                events.push(json!({
                    "name": "thread_name", "ph": "M", "pid": process, "tid": part as usize,
                    "args": {"name": part.name()},
                }));
            }
        }
        events.extend(self.events.iter().cloned());
        let all = json!({"displayTimeUnit": "ms", "traceEvents": events});
        self.file.write(|w| w.write_all(all.to_string().as_bytes()))
    }
}

/// The events of a part of a peer during a frame.
fn events<'a>(
    row: &'a Row,
    process: usize,
    began: u64,
    frame: u32,
    trace: &'a FrameTrace,
) -> impl Iterator<Item = Value> + 'a {
    row.pieces.iter().map(move |piece| {
        let job = piece.job.and_then(|job| trace.expected.get(job as usize));
        let mut args = json!({"frame": frame});
        if let Some((brick, expected)) = job {
            args["brick"] = brick.0.into();
            args["expected_us_on_speed_1"] = (*expected).into();
        }
        json!({
            "name": piece.kind.map_or("wait", |kind| kind.name()),
            "ph": "X", "pid": process, "tid": row.part as usize,
            "ts": began + piece.start, "dur": piece.micros, "args": args,
        })
    })
}
