//! Who is at fault where every renderer of a frame says that it is done, and tiles are missing.
//!
//! A tile is missing because its compositor does not send it, or because a renderer did not send a
//! part of it, whatever it says. So the requester asks the compositors whose parts they lack. Either
//! of the two may lie, and a broken link between them looks the same from both ends: nobody's word
//! counts more than another's, but who is in the most conflicts is at fault.
//!
//! A pure state machine. Invariants: whoever is asked and names nobody is at fault; of any two that
//! contradict each other at least one is; this peer never is, it knows what it does.
//! Not here: when to ask, and how long to wait for answers.

use crate::base::{
    conflicts::{Tie, without_conflicts},
    peer::PeerId,
};
use std::collections::{BTreeMap, BTreeSet};

/// See the module. Of one attempt at a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Blame {
    local: PeerId,
    asked: BTreeSet<PeerId>,
    /// By compositor: whose parts it lacks.
    lacks: BTreeMap<PeerId, BTreeSet<PeerId>>,
}

impl Blame {
    /// The requester `local` asks these compositors.
    #[must_use]
    pub(super) fn new(local: PeerId, asked: BTreeSet<PeerId>) -> Self {
        Self {
            local,
            asked,
            lacks: BTreeMap::new(),
        }
    }

    /// A compositor says whose parts it lacks. Who is not asked is not listened to; who says so
    /// twice is believed the last time.
    pub(super) fn answered(&mut self, compositor: &PeerId, lacks: BTreeSet<PeerId>) {
        if self.asked.contains(compositor) {
            self.lacks.insert(compositor.clone(), lacks);
        }
    }

    /// Whether everybody has named somebody, so that there is nothing to wait for.
    #[must_use]
    pub(super) fn is_over(&self) -> bool {
        let named = |c| self.lacks.get(c).is_some_and(|lacks| !lacks.is_empty());
        self.asked.iter().all(named)
    }

    /// Who is at fault, of what was said until now, for the tiles that these compositors have
    /// still not sent.
    #[must_use]
    pub(super) fn at_fault(&self, compositors: &BTreeSet<PeerId>) -> BTreeSet<PeerId> {
        let mut fault = BTreeSet::new();
        let mut conflicts: BTreeSet<(&PeerId, &PeerId)> = BTreeSet::new();
        for compositor in compositors {
            let lacks = self.lacks.get(compositor).filter(|l| !l.is_empty());
            for renderer in lacks.into_iter().flatten() {
                conflicts.insert((compositor, renderer));
            }
            // It lacks nothing and sends nothing, or lacks what it should have rendered itself.
            if lacks.is_none_or(|l| l.contains(compositor)) && *compositor != self.local {
                fault.insert(compositor.clone());
            }
        }
        conflicts.retain(|(c, r)| c != r && !fault.contains(*c) && !fault.contains(*r));
        let is_this = |peer: &PeerId| *peer == self.local;
        let more = without_conflicts(conflicts, is_this, Tie::All);
        let more: Vec<PeerId> = more.into_iter().cloned().collect();
        fault.extend(more);
        fault
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(names: &[&str]) -> BTreeSet<PeerId> {
        names.iter().map(|name| PeerId::new(name)).collect()
    }

    /// Who is at fault where `me` asks compositors that answer so; those without an answer are
    /// given with nobody.
    fn fault(answers: &[(&str, Option<&[&str]>)]) -> BTreeSet<PeerId> {
        let asked: Vec<&str> = answers.iter().map(|a| a.0).collect();
        let asked = peers(&asked);
        let mut blame = Blame::new(PeerId::new("me"), asked.clone());
        for (compositor, lacks) in answers {
            if let Some(lacks) = lacks {
                blame.answered(&PeerId::new(compositor), peers(lacks));
            }
        }
        blame.at_fault(&asked)
    }

    #[test]
    fn a_renderer_that_several_lack_is_at_fault_and_nobody_else() {
        let lacks: Option<&[&str]> = Some(&["liar"]);
        assert_eq!(
            fault(&[("a", lacks), ("b", lacks), ("me", lacks)]),
            peers(&["liar"])
        );
        // It composites too, and what it says of the others does not help it.
        let accuses: Option<&[&str]> = Some(&["a", "b"]);
        let all = [("a", lacks), ("b", lacks), ("liar", accuses)];
        assert_eq!(fault(&all), peers(&["liar"]));
    }

    #[test]
    fn a_compositor_that_accuses_many_or_says_nothing_is_at_fault() {
        assert_eq!(fault(&[("liar", Some(&["a", "b"]))]), peers(&["liar"]));
        assert_eq!(fault(&[("liar", None)]), peers(&["liar"]));
        assert_eq!(fault(&[("liar", Some(&[]))]), peers(&["liar"]));
        assert_eq!(fault(&[("liar", Some(&["liar"]))]), peers(&["liar"]));
        assert_eq!(fault(&[("liar", Some(&["me"]))]), peers(&["liar"]));
    }

    #[test]
    fn word_against_word_both_are_at_fault_but_this_peer_never() {
        assert_eq!(fault(&[("a", Some(&["b"]))]), peers(&["a", "b"]));
        assert_eq!(fault(&[("me", Some(&["b"]))]), peers(&["b"]));
        assert_eq!(fault(&[("me", None)]), peers(&[]));
        assert_eq!(fault(&[("me", Some(&["me"]))]), peers(&[]));
    }

    #[test]
    fn tiles_that_came_meanwhile_and_words_of_strangers_do_not_count() {
        let mut blame = Blame::new(PeerId::new("me"), peers(&["a", "b"]));
        blame.answered(&PeerId::new("stranger"), peers(&["a"]));
        assert!(!blame.is_over());
        blame.answered(&PeerId::new("a"), peers(&["c"]));
        blame.answered(&PeerId::new("b"), peers(&[]));
        assert!(!blame.is_over(), "b's tile may be on its way");
        assert_eq!(blame.at_fault(&peers(&["a"])), peers(&["a", "c"]));
        assert_eq!(blame.at_fault(&peers(&["a", "b"])), peers(&["a", "b", "c"]));
        blame.answered(&PeerId::new("b"), peers(&["c"]));
        assert!(blame.is_over());
        assert_eq!(blame.at_fault(&peers(&["a", "b"])), peers(&["c"]));
    }
}
