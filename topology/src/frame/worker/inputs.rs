//! What frames are planned from, under the names that requests have for it: data sets, rosters, cost
//! tables.
//!
//! Invariant: bounded by bytes: older rosters and cost tables are forgotten, and asked for again if a
//! frame names them.

use crate::{
    balance::{
        cost_table::CostTable,
        frame_plan::{Earlier, FramePlan, FrameWork, PlanInputs},
        plan_rules::Division,
        roster::{Roster, RosterEntry},
    },
    base::{digest::Digest, peer::PeerId},
    data::{brick_grid::BrickIndex, manifest::Manifest},
    frame::frame_requests::{AttemptRequest, FrameMessage, Named},
    picture::{camera::View, render_settings::RenderSettings, visible_cells::VisibleCellsCache},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Memory that the rosters take which are kept under their names, in bytes, and as much the cost
/// tables.
const BYTES_MAX: usize = 64 << 20;
/// Most rosters, and most cost tables, however small.
const COUNT_MAX: usize = 64;

/// Asks a peer for its part of a frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrameRequest {
    /// The frame, and what it is planned from, by name.
    pub attempt: AttemptRequest,
    /// The data set.
    pub data_set: Digest,
    /// The rays.
    pub view: View,
    /// What is to be seen.
    pub settings: RenderSettings,
    /// The requester wants to know what each peer did when.
    #[serde(default)]
    pub is_traced: bool,
}

/// See the module.
#[derive(Debug)]
pub struct FrameInputs {
    data_sets: BTreeMap<Digest, Arc<Manifest>>,
    rosters: Recent<Roster>,
    costs: Recent<CostTable>,
    visible_cells: VisibleCellsCache,
    last: BTreeMap<(PeerId, Digest), Last>,
}

/// The last frame of a data set that a requester asked for: the first of those that have its view, settings and peers.
#[derive(Debug)]
struct Last {
    view: View,
    settings: RenderSettings,
    peers: Vec<PeerId>,
    /// Its plan; `None`: what that asks was told.
    plan: Option<Arc<FramePlan>>,
}

impl Default for FrameInputs {
    fn default() -> Self {
        Self {
            data_sets: BTreeMap::new(),
            rosters: Recent::new(BYTES_MAX),
            costs: Recent::new(BYTES_MAX),
            visible_cells: VisibleCellsCache::default(),
            last: BTreeMap::new(),
        }
    }
}

/// What a request names.
#[derive(Clone, Copy, Debug)]
pub struct FoundInputs<'a> {
    /// The data set.
    pub manifest: &'a Arc<Manifest>,
    /// Who takes part.
    pub roster: &'a Roster,
    /// The roster of the frame's first attempt.
    pub first: &'a Roster,
    /// What jobs took before.
    pub costs: &'a CostTable,
}

impl FrameInputs {
    /// A data set is known now.
    pub fn open(&mut self, manifest: Arc<Manifest>) {
        self.data_sets.insert(manifest.digest(), manifest);
    }

    /// A data set is not held any more.
    pub fn close(&mut self, data_set: Digest) {
        self.data_sets.remove(&data_set);
        self.last.retain(|(_, d), _| *d != data_set);
    }

    /// Bytes of a brick of a data set that is known.
    #[must_use]
    pub fn brick_bytes(&self, (data_set, brick): (Digest, BrickIndex)) -> u64 {
        let manifest = self.data_sets.get(&data_set);
        manifest.map_or(0, |manifest| manifest.brick_bytes(brick))
    }

    /// A requester is gone.
    pub fn lost(&mut self, requester: &PeerId) {
        self.last.retain(|(peer, _), _| peer != requester);
    }

    /// A frame was planned.
    pub fn planned(&mut self, requester: &PeerId, request: &FrameRequest, plan: &Arc<FramePlan>) {
        let name = (requester.clone(), request.data_set);
        let is_last = |last: &Last| {
            let of_frame = (&last.view, &last.settings, &last.peers);
            of_frame == (&request.view, &request.settings, &plan.peers)
        };
        // What is left of a frame says nothing of all of it.
        if request.attempt.earlier.is_some() || self.last.get(&name).is_some_and(is_last) {
            return;
        }
        let last = Last {
            view: request.view,
            settings: request.settings.clone(),
            peers: plan.peers.clone(),
            plan: Some(Arc::clone(plan)),
        };
        self.last.insert(name, last);
    }

    /// Tells what each requester's last frame of each data set asks of the peers, where it has another view, other
    /// settings or other peers than the one told last; again where `tell` fails.
    pub fn tell_news(&mut self, mut tell: impl FnMut(PeerId, Digest, Arc<FrameWork>) -> bool) {
        for ((peer, data_set), last) in &mut self.last {
            if let Some(plan) = &last.plan
                && let Some(manifest) = self.data_sets.get(data_set)
            {
                let work = Arc::new(plan.work(manifest.grid().brick_count()));
                if tell(peer.clone(), *data_set, work) {
                    last.plan = None;
                }
            }
        }
    }

    /// Takes a roster.
    pub fn put_roster(&mut self, roster: Named<Roster>) {
        self.rosters.put(roster.value.memory_bytes(), roster);
    }

    /// Takes a cost table.
    pub fn put_costs(&mut self, costs: Named<CostTable>) {
        self.costs.put(costs.value.memory_bytes(), costs);
    }

    /// What an attempt at a frame of a data set names.
    ///
    /// # Errors
    /// What the requester is told, where something is not here.
    pub fn find(
        &self,
        data_set: Digest,
        attempt: &AttemptRequest,
    ) -> Result<FoundInputs<'_>, FrameMessage> {
        let manifest = self.data_sets.get(&data_set).ok_or_else(|| {
            let why = format!("data set {} is not known here", data_set.short());
            FrameMessage::Failed { why }
        })?;
        let first = attempt.earlier.as_ref();
        let first = first.map_or(attempt.roster, |e| e.roster);
        let find = || {
            Some(FoundInputs {
                manifest,
                roster: self.rosters.get(attempt.roster)?,
                first: self.rosters.get(first)?,
                costs: self.costs.get(attempt.costs)?,
            })
        };
        find().ok_or(FrameMessage::NeedInputs)
    }

    /// Checks a request, and derives the plan that it names.
    ///
    /// # Errors
    /// What the requester is told, where something is not here, or not valid.
    pub fn plan(
        &mut self,
        request: &FrameRequest,
    ) -> Result<(Arc<Manifest>, FramePlan), FrameMessage> {
        // Taken out meanwhile: what is found is borrowed.
        let mut visible_cells = std::mem::take(&mut self.visible_cells);
        let planned = self.find(request.data_set, &request.attempt);
        let planned = planned.and_then(|found| {
            let plan = found.plan(request, &mut visible_cells);
            let plan = plan.map_err(|why| FrameMessage::Failed { why })?;
            Ok((Arc::clone(found.manifest), plan))
        });
        self.visible_cells = visible_cells;
        planned
    }
}

impl FoundInputs<'_> {
    /// The error is for people.
    fn plan(
        &self,
        request: &FrameRequest,
        visible_cells: &mut VisibleCellsCache,
    ) -> Result<FramePlan, String> {
        let text = |error: &dyn std::error::Error| error.to_string();
        request.view.validate().map_err(|e| text(&e))?;
        let is_valid = request.settings.validate(self.manifest.volume());
        is_valid.map_err(|e| text(&e))?;
        let rules = &request.attempt.rules;
        if matches!(rules.division, Division::Auto { .. }) {
            return Err("the requester did not choose what is divided".to_owned());
        }
        if request.settings.has_secondary_rays() && !rules.fetches() {
            return Err("shadows and ambient occlusion are for pictures that are divided: ask by strategy image".to_owned());
        }
        let mut entries = self.roster.entries().iter();
        if request.settings.has_secondary_rays() && !entries.any(RosterEntry::has_all) {
            return Err("no peer can send the rays of shadows: that takes memory for two bricks beside those held".to_owned());
        }
        let bricks = self.manifest.grid().brick_count();
        self.roster.validate(bricks).map_err(|e| text(&e))?;
        self.first.validate(bricks).map_err(|e| text(&e))?;
        let is_valid = self.costs.validate(self.manifest.grid());
        is_valid.map_err(|e| text(&e))?;
        let plan = FramePlan::derive(&PlanInputs {
            manifest: self.manifest,
            view: &request.view,
            settings: &request.settings,
            visible: &visible_cells.cells(self.manifest, &request.settings),
            roster: self.roster,
            costs: self.costs,
            rules,
            earlier: request.attempt.earlier.as_ref().map(|e| Earlier {
                roster: self.first,
                rendered: &e.rendered,
            }),
        });
        plan.map_err(|e| text(&e))
    }
}

/// The last few values under their digests, as many as memory is given to.
#[derive(Debug)]
struct Recent<T> {
    values: VecDeque<(usize, Named<T>)>,
    bytes: usize,
    bytes_max: usize,
}

impl<T> Recent<T> {
    fn new(bytes_max: usize) -> Self {
        Self {
            values: VecDeque::new(),
            bytes: 0,
            bytes_max,
        }
    }

    fn get(&self, digest: Digest) -> Option<&T> {
        let found = self.values.iter().rev().find(|(_, n)| n.digest == digest);
        found.map(|(_, named)| &*named.value)
    }

    /// Takes a value in, and forgets older ones as there is need; the youngest is kept in any case.
    fn put(&mut self, bytes: usize, value: Named<T>) {
        self.values.push_back((bytes, value));
        self.bytes += bytes;
        let is_full = |r: &Self| r.bytes > r.bytes_max || r.values.len() > COUNT_MAX;
        while self.values.len() > 1 && is_full(self) {
            if let Some((bytes, _)) = self.values.pop_front() {
                self.bytes -= bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_kept_as_far_as_their_memory_goes_the_youngest_in_any_case() {
        let name = |n: u8| Digest::of(&[n]);
        let value = |n: u8| Named {
            digest: name(n),
            value: Arc::new(n),
        };
        let mut recent = Recent::new(100);
        for n in 0..4 {
            recent.put(40, value(n));
        }
        assert_eq!(recent.get(name(1)), None);
        assert_eq!(
            (recent.get(name(2)), recent.get(name(3))),
            (Some(&2), Some(&3))
        );
        recent.put(1000, value(9));
        assert_eq!((recent.get(name(3)), recent.get(name(9))), (None, Some(&9)));
        recent.put(1, value(10));
        assert_eq!((recent.values.len(), recent.bytes), (1, 1));
        for n in 0..=COUNT_MAX {
            recent.put(0, value(u8::try_from(n).unwrap()));
        }
        assert_eq!(recent.values.len(), COUNT_MAX);
    }
}
