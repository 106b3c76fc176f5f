//! A frame that was asked for and is not there yet: what it shows, and what came of its picture.

use super::{AskFrame, Frame, FrameError, FrameStats, FrameTrace, JobStats};
use crate::{messages::FrameRequest, span_log::now_micros};
use actix::SpawnHandle;
use brickmesh_shaders::{Scene, SubImage, transfer_table::TransferTable};
use brickmesh_topology::{
    BrickIndex, Manifest, PeerId, PixelRect,
    balance::frame_plan::FramePlan,
    frame::{
        frame_requests::{AttemptRequest, BrickAccesses, EndedFrame, FrameEnd},
        timeline::{SPANS_MAX, Span, rows},
    },
};
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::oneshot;

/// Where the result of a frame goes.
pub(super) type Answer = oneshot::Sender<Result<Frame, FrameError>>;

/// See the module.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) ask: AskFrame,
    answer: Answer,
    /// Looks at it again.
    pub(super) timer: Option<SpawnHandle>,
    /// Deriving plans, microseconds.
    pub(super) schedule_micros: u64,
    bytes: u64,
    /// When it was asked for.
    began: u64,
    /// What peers have told of all attempts.
    spans: Vec<(PeerId, Span)>,
    /// Of the attempt under way.
    picture: Option<Picture>,
}

#[derive(Debug)]
struct Picture {
    plan: Arc<FramePlan>,
    image: SubImage,
    composite_micros: u64,
}

impl Picture {
    /// Classifies what was combined, where that is values.
    fn finish(&mut self, ask: &AskFrame, manifest: &Manifest) {
        if ask.settings.mode.combines_values() {
            let scene = Scene::new(manifest, ask.view, ask.settings.clone());
            self.image
                .finish(&TransferTable::new(&scene), ask.settings.mode);
        }
    }
}

/// A tile that a compositor sent.
#[derive(Debug)]
pub(super) struct ArrivedTile {
    /// Tile of the plan.
    pub(super) tile: u32,
    pub(super) image: Arc<SubImage>,
    /// Blending it, microseconds.
    pub(super) composite_micros: u64,
    /// That went from peer to peer for it.
    pub(super) bytes: u64,
}

impl Pending {
    pub(super) fn new(ask: AskFrame, answer: Answer) -> Self {
        Self {
            ask,
            answer,
            timer: None,
            schedule_micros: 0,
            bytes: 0,
            began: now_micros(),
            spans: Vec::new(),
            picture: None,
        }
    }

    /// An attempt begins by this plan.
    pub(super) fn begins(&mut self, plan: Arc<FramePlan>) {
        self.picture = Some(Picture {
            plan,
            image: SubImage::transparent(self.ask.view.rect()),
            composite_micros: 0,
        });
    }

    /// Takes a tile of the attempt under way into the picture.
    pub(super) fn take(&mut self, arrived: ArrivedTile) {
        let Some(picture) = &mut self.picture else {
            return;
        };
        let tile = picture.plan.tiles.get(arrived.tile as usize);
        if let Some(tile) = tile {
            picture.image.paste_part(&arrived.image, &tile.rect);
            if let Some(tiles) = &self.ask.tiles {
                let mut image = SubImage::transparent(tile.rect);
                image.paste(&arrived.image);
                if tiles.try_send(image).is_err() {
                    tracing::trace!("nobody looks at a tile before the frame is whole");
                }
            }
        }
        picture.composite_micros = picture
            .composite_micros
            .saturating_add(arrived.composite_micros);
        self.bytes = self.bytes.saturating_add(arrived.bytes);
    }

    /// Takes what a peer did when.
    pub(super) fn take_spans(&mut self, from: &PeerId, spans: Vec<Span>) {
        let room = SPANS_MAX.saturating_sub(self.spans.len());
        if self.ask.is_traced {
            let spans = spans.into_iter().take(room);
            self.spans.extend(spans.map(|span| (from.clone(), span)));
        }
    }

    /// What asks for an attempt.
    pub(super) fn request(&self, attempt: &AttemptRequest) -> FrameRequest {
        FrameRequest {
            attempt: attempt.clone(),
            data_set: self.ask.data_set,
            view: self.ask.view,
            settings: self.ask.settings.clone(),
            is_traced: self.ask.is_traced,
        }
    }

    /// What came of it, and where that goes.
    pub(super) fn result(
        mut self,
        ended: EndedFrame,
        manifest: Option<&Manifest>,
    ) -> (Answer, Result<Frame, FrameError>) {
        let data_set = self.ask.data_set;
        if let Some((picture, manifest)) = self.picture.as_mut().zip(manifest) {
            picture.finish(&self.ask, manifest);
        }
        let result = match (ended.end, self.picture) {
            (FrameEnd::Whole, Some(picture)) => Ok(Frame {
                stats: FrameStats {
                    number: ended.number,
                    failed_attempts: ended.attempts_before,
                    total_micros: ended.total_micros,
                    schedule_micros: self.schedule_micros,
                    composite_micros: picture.composite_micros,
                    bytes_sent: self.bytes,
                    missing: picture.plan.missing().map(|j| j.owned).collect(),
                    image_tile: picture.plan.image_tile,
                    predicted_micros: picture.plan.schedule.makespan_micros,
                    forecasts: ended.forecasts,
                    accesses: accesses(&picture.plan, ended.accesses),
                    jobs: job_stats(&picture.plan, &ended.measured, self.ask.view.first),
                    trace: self.ask.is_traced.then(|| FrameTrace {
                        began: self.began,
                        rows: rows(self.began, ended.total_micros, &self.spans),
                        expected: expected(&picture.plan),
                        speeds: speeds(&picture.plan),
                    }),
                },
                image: picture.image,
            }),
            (FrameEnd::Whole, None) => Err(FrameError::Plan {
                why: "a frame is whole without a plan: this is a fault of brickmesh".to_owned(),
            }),
            (FrameEnd::NobodyHolds, _) => Err(FrameError::NobodyHolds { data_set }),
            (FrameEnd::GaveUp { awaited, why }, _) => Err(FrameError::GaveUp {
                number: ended.number,
                attempts: ended.attempts_before + 1,
                awaited,
                why: why.to_string(),
            }),
        };
        (self.answer, result)
    }

    pub(super) fn finish(self, result: Result<Frame, FrameError>) {
        finish(self.answer, result);
    }
}

fn expected(plan: &FramePlan) -> Vec<(BrickIndex, u64)> {
    let jobs = plan.jobs.iter();
    jobs.map(|job| (job.brick, job.estimate_micros)).collect()
}

fn speeds(plan: &FramePlan) -> BTreeMap<PeerId, u64> {
    let peers = plan.peers.iter().cloned();
    peers.zip(plan.speeds.iter().copied()).collect()
}

/// What was counted, by peer in place of its index.
fn accesses(
    plan: &FramePlan,
    of: BTreeMap<usize, BrickAccesses>,
) -> BTreeMap<PeerId, BrickAccesses> {
    let named = |(by, n): (usize, BrickAccesses)| Some((plan.peers.get(by)?.clone(), n));
    of.into_iter().filter_map(named).collect()
}

/// Jobs of a plan, with who rendered each; `first`: where its picture begins in the whole.
fn job_stats(
    plan: &FramePlan,
    measured: &BTreeMap<u32, (usize, u64)>,
    first: [u32; 2],
) -> Vec<JobStats> {
    let name = |index: usize| -> Option<&PeerId> { plan.peers.get(index) };
    let jobs = plan.jobs.iter().zip(0_u32..);
    let stats = jobs.filter_map(|(j, index)| {
        let planned = name(j.renderer?)?;
        let measured = measured.get(&index);
        let peer = measured.and_then(|m| name(m.0)).unwrap_or(planned);
        Some(JobStats {
            brick: j.brick,
            owned: j.owned,
            rect: PixelRect {
                x: first[0] + j.rect.x,
                y: first[1] + j.rect.y,
                ..j.rect
            },
            // What is drawn from a queue is nobody's before.
            stolen_from: (peer != planned && plan.keeper.is_none()).then(|| planned.clone()),
            peer: peer.clone(),
            estimate_micros: j.estimate_micros,
            measured_micros: measured.map(|m| m.1),
        })
    });
    stats.collect()
}

pub(super) fn finish(answer: Answer, result: Result<Frame, FrameError>) {
    if answer.send(result).is_err() {
        tracing::debug!("nobody waits for a frame any more");
    }
}
