//! What all simulated machines share: the clock, the network, the plans that are derived, and who
//! watches over the invariants.

use super::{
    network::Network,
    notes::{Note, Who},
    oracle::Oracle,
    plans::{Asked, Planned, Plans},
    queue::{Event, Queue},
};
use brickmesh_topology::{PeerId, balance::plan_rules::PlanRules};
use std::{collections::BTreeMap, sync::Arc};

/// See the module.
#[derive(Debug)]
pub(super) struct Environment {
    pub(super) queue: Queue,
    pub(super) network: Network,
    pub(super) oracle: Oracle,
    plans: Plans,
    names: Vec<PeerId>,
    indices: BTreeMap<PeerId, Who>,
}

impl Environment {
    pub(super) fn new(names: Vec<PeerId>, network: Network, plans: Plans, oracle: Oracle) -> Self {
        Self {
            queue: Queue::default(),
            network,
            oracle,
            plans,
            indices: names.iter().cloned().zip(0..).collect(),
            names,
        }
    }

    /// Microseconds since the start.
    pub(super) fn now(&self) -> u64 {
        self.queue.now()
    }

    pub(super) fn name(&self, who: Who) -> &PeerId {
        &self.names[who]
    }

    /// The machine of a name; all names are made here.
    pub(super) fn who(&self, name: &PeerId) -> Who {
        self.indices.get(name).copied().unwrap_or_default()
    }

    pub(super) fn rules(&self) -> &PlanRules {
        self.plans.rules()
    }

    pub(super) fn plans(&self) -> &Plans {
        &self.plans
    }

    /// Sends a message into the network.
    pub(super) fn send(&mut self, from: Who, to: Who, note: Note) {
        self.network.send(from, to, note, &mut self.queue);
    }

    /// Sends a message; false where there is no connection.
    pub(super) fn try_send(&mut self, from: Who, to: Who, note: Note) -> bool {
        self.network.send(from, to, note, &mut self.queue)
    }

    /// Lets something happen at a machine, if it is not started again meanwhile.
    pub(super) fn later(&mut self, micros: u64, who: Who, event: Event) {
        let time = self.now().saturating_add(micros);
        let at = Some((who, self.network.start_of(who)));
        self.queue.push(time, at, event);
    }

    /// Lets something happen at no machine in particular.
    pub(super) fn happen(&mut self, micros: u64, event: Event) {
        let time = self.now().saturating_add(micros);
        self.queue.push(time, None, event);
    }

    /// The plan of what is asked for.
    pub(super) fn derive(&mut self, asked: &Asked<'_>) -> Option<Arc<Planned>> {
        self.plans.derive(asked, &mut self.oracle)
    }
}
