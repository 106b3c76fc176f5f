//! The timeline of a frame: what each part of each peer did when, as its requester puts it together.
//!
//! Pure: spans in each peer's own time in, rows in the requester's out. Clocks differ: a peer's spans are moved
//! together, no farther than that they lie within the frame.
//! Invariant: a row covers its frame without gaps or overlaps: what is no span is waiting.

use crate::base::peer::PeerId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Spans of one frame that are kept, at most.
pub const SPANS_MAX: usize = 20_000;

/// What a peer was busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SpanKind {
    /// Deriving the plan.
    Schedule,
    /// Rendering a job.
    Job,
    /// Writing partials for compositors.
    Send,
    /// Blending partials.
    Blend,
}

/// The parts of a peer that work at the same time, each on a thread of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Plans, and sends what is rendered.
    Scheduler,
    /// Renders.
    Device,
    /// Blends.
    Compositor,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Scheduler, Self::Device, Self::Compositor];

    /// Its name, for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Scheduler => "scheduler",
            Self::Device => "device",
            Self::Compositor => "compositor",
        }
    }
}

impl SpanKind {
    /// Who does it.
    #[must_use]
    pub fn part(self) -> Part {
        match self {
            Self::Schedule | Self::Send => Part::Scheduler,
            Self::Job => Part::Device,
            Self::Blend => Part::Compositor,
        }
    }

    /// Its name, for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Job => "job",
            Self::Send => "send",
            Self::Blend => "blend",
        }
    }
}

/// What a peer did for a frame, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// What it did.
    pub kind: SpanKind,
    /// When it began, microseconds of the peer's own clock.
    pub start: u64,
    /// How long it took, microseconds.
    pub micros: u64,
    /// The job of the plan, if it was one.
    #[serde(default)]
    pub job: Option<u32>,
}

/// A piece of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// `None`: waiting.
    pub kind: Option<SpanKind>,
    /// Microseconds since the frame was asked for.
    pub start: u64,
    /// How long, microseconds.
    pub micros: u64,
    /// As [`Span::job`].
    pub job: Option<u32>,
}

/// What a part of a peer did during a frame, without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Whose.
    pub peer: PeerId,
    /// Which part of it.
    pub part: Part,
    /// In order.
    pub pieces: Vec<Piece>,
}

/// The rows of a frame that was asked for at `begin`, in the requester's time, and took so long: three for each
/// peer that has told anything. Microseconds.
#[must_use]
pub fn rows(begin: u64, total: u64, spans: &[(PeerId, Span)]) -> Vec<Row> {
    let mut of_peers: BTreeMap<&PeerId, Vec<Span>> = BTreeMap::new();
    for (peer, span) in spans {
        of_peers.entry(peer).or_default().push(*span);
    }
    let rows = of_peers.into_iter().flat_map(|(peer, mut spans)| {
        spans.sort_by_key(|span| span.start);
        let by = shift(begin, total, &spans);
        let moved = move |span: Span| {
            let start = i128::from(span.start) - i128::from(begin) + by;
            let start = u64::try_from(start.max(0)).unwrap_or(u64::MAX);
            Span { start, ..span }
        };
        let spans: Vec<Span> = spans.into_iter().map(moved).collect();
        Part::ALL.map(|part| Row {
            peer: peer.clone(),
            part,
            pieces: row(total, spans.iter().filter(|span| span.kind.part() == part)),
        })
    });
    rows.collect()
}

/// What was expected of a row's jobs, one after the other since the first began, beside the row: as long as they
/// should have taken. `cost`: of a job of the plan, microseconds on the row's peer.
#[must_use]
pub fn expected(row: &Row, cost: impl Fn(u32) -> Option<u64>) -> Vec<Piece> {
    let jobs = row.pieces.iter().filter(|p| p.kind == Some(SpanKind::Job));
    let mut at = jobs.clone().next().map_or(0, |first| first.start);
    let mut told = BTreeSet::new();
    // One that was put aside in between is told of twice.
    let jobs = jobs.filter(|job| told.insert(job.job)).filter_map(|job| {
        let micros = cost(job.job?)?;
        let start = at;
        at = at.saturating_add(micros);
        Some(Piece {
            start,
            micros,
            ..*job
        })
    });
    jobs.collect()
}

/// What is to be added to a peer's times so that they lie within the frame; the least that does.
fn shift(begin: u64, total: u64, spans: &[Span]) -> i128 {
    let first = spans.iter().map(|span| span.start).min();
    let last = spans
        .iter()
        .map(|span| span.start.saturating_add(span.micros));
    let (Some(first), Some(last)) = (first, last.max()) else {
        return 0;
    };
    let [first, last, begin] = [first, last, begin].map(i128::from);
    let end = begin + i128::from(total);
    // Where it is longer than the frame, it begins with it.
    (end - last).min(0).max((begin - first).min(0)) + (begin - first).max(0)
}

fn row<'a>(total: u64, spans: impl Iterator<Item = &'a Span>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut at = 0;
    let wait = |pieces: &mut Vec<Piece>, from: u64, to: u64| {
        if to > from {
            pieces.push(Piece {
                kind: None,
                start: from,
                micros: to - from,
                job: None,
            });
        }
    };
    for span in spans {
        let start = span.start.clamp(at, total);
        let end = span.start.saturating_add(span.micros).clamp(start, total);
        if end > start {
            wait(&mut pieces, at, start);
            pieces.push(Piece {
                kind: Some(span.kind),
                start,
                micros: end - start,
                job: span.job,
            });
            at = end;
        }
    }
    wait(&mut pieces, at, total);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(kind: SpanKind, start: u64, micros: u64) -> Span {
        Span {
            kind,
            start,
            micros,
            job: None,
        }
    }

    fn rows_of(begin: u64, total: u64, spans: &[Span]) -> Vec<Row> {
        let peer = PeerId::new("a");
        let spans: Vec<_> = spans.iter().map(|span| (peer.clone(), *span)).collect();
        rows(begin, total, &spans)
    }

    /// Kind, start, length of the pieces of a part.
    fn told(rows: &[Row], part: Part) -> Vec<(Option<SpanKind>, u64, u64)> {
        let row = rows.iter().find(|row| row.part == part).unwrap();
        let piece = |p: &Piece| (p.kind, p.start, p.micros);
        row.pieces.iter().map(piece).collect()
    }

    #[test]
    fn what_is_no_span_is_waiting() {
        let spans = [
            span(SpanKind::Job, 1_030, 20),
            span(SpanKind::Schedule, 1_010, 5),
            span(SpanKind::Job, 1_060, 40),
        ];
        let rows = rows_of(1_000, 120, &spans);
        let (job, wait) = (Some(SpanKind::Job), None);
        let device = [
            (wait, 0, 30),
            (job, 30, 20),
            (wait, 50, 10),
            (job, 60, 40),
            (wait, 100, 20),
        ];
        assert_eq!(told(&rows, Part::Device), device);
        assert_eq!(told(&rows, Part::Compositor), [(wait, 0, 120)]);
    }

    #[test]
    fn expected_jobs_stand_one_after_the_other_from_the_first() {
        let job = |start, job| Span {
            job: Some(job),
            ..span(SpanKind::Job, start, 20)
        };
        let jobs = [job(1_005, 4), job(1_030, 4), job(1_060, 7), job(1_090, 9)];
        let rows = rows_of(1_000, 120, &jobs);
        let device = rows.iter().find(|row| row.part == Part::Device).unwrap();
        // Of one nothing is known.
        let cost = |job| {
            [(4, 25), (9, u64::MAX)]
                .into_iter()
                .find_map(|(n, c)| (n == job).then_some(c))
        };
        let told: Vec<_> = expected(device, cost)
            .iter()
            .map(|p| (p.job, p.start, p.micros))
            .collect();
        assert_eq!(told, [(Some(4), 5, 25), (Some(9), 30, u64::MAX)]);
    }

    #[test]
    fn clocks_that_are_off_are_moved_into_the_frame_and_no_farther() {
        for off in [0, 10_000_000, 500] {
            // Ahead, behind: the same order and lengths within the frame.
            for begin in [1_000_000_u64, 1_000_000 + 2 * off] {
                let spans = [
                    span(SpanKind::Schedule, 1_000_000 + off, 5),
                    span(SpanKind::Job, 1_000_050 + off, 40),
                ];
                let rows = rows_of(begin, 100, &spans);
                let [.., (kind, start, micros), _] = &told(&rows, Part::Scheduler)[..] else {
                    panic!("two pieces at least");
                };
                let device = told(&rows, Part::Device);
                let job = device.iter().find(|p| p.0 == Some(SpanKind::Job)).unwrap();
                assert_eq!((*kind, *micros), (Some(SpanKind::Schedule), 5));
                assert_eq!(job.1 - start, 50, "{off} {begin}");
            }
        }
    }

    #[test]
    fn rows_add_up_to_the_frame_whatever_a_peer_says() {
        let nonsense = [
            span(SpanKind::Job, 0, u64::MAX),
            span(SpanKind::Job, u64::MAX, u64::MAX),
            span(SpanKind::Send, 17, 0),
            span(SpanKind::Blend, 1_020, 50),
            span(SpanKind::Blend, 1_010, 30),
        ];
        for spans in [&nonsense[..], &nonsense[2..], &[][..]] {
            for row in rows_of(1_000, 100, spans) {
                let sum: u64 = row.pieces.iter().map(|p| p.micros).sum();
                assert_eq!(sum, 100, "{row:?}");
                assert!(
                    row.pieces
                        .windows(2)
                        .all(|p| p[0].start + p[0].micros == p[1].start)
                );
            }
        }
    }
}
