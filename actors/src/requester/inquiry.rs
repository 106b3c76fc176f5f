//! Why tiles do not come though all jobs are said to be done: the requester asks their compositors.
//! Who is at fault then is decided by [`Inquiry`] in topology.

use super::Requester;
use crate::{
    bus::Lane,
    messages::{FrameId, Message},
};
use actix::Context;
use brickmesh_topology::{Digest, PeerId, frame_tracker::FrameInput, inquiry::Inquiry};
use std::time::Duration;

/// How long compositors may take to say what they lack.
const INQUIRY: Duration = Duration::from_millis(500);

impl Requester {
    /// Asks the compositors of missing tiles what they lack, once all jobs are done; false where
    /// there is nobody to ask.
    pub(super) fn inquire(&mut self, frame: FrameId, ctx: &mut Context<Self>) -> bool {
        let local = self.outbox.local().clone();
        let Some(run) = self.run(frame) else {
            return false;
        };
        let asked = run.tracker.awaited_compositors();
        if asked.is_empty() {
            return false;
        }
        run.inquiry = Some(Inquiry::new(local, asked.clone()));
        for peer in &asked {
            self.outbox
                .send_or_log(peer, Lane::Control, Message::TilesDue { frame });
        }
        if let Some(p) = self.pending.get_mut(&frame.number) {
            p.wake(ctx, INQUIRY, move |s, ctx| s.conclude(frame, ctx));
        }
        true
    }

    /// A compositor says which jobs it lacks.
    pub(super) fn lacking(
        &mut self,
        from: &PeerId,
        frame: FrameId,
        (plan, jobs): (Digest, &[u32]),
        ctx: &mut Context<Self>,
    ) {
        let Some(run) = self.run(frame) else {
            return;
        };
        if plan != run.plan.digest {
            let failed = FrameInput::PeerFailed(from.clone());
            self.apply(frame, failed, "another plan", ctx);
            return;
        }
        let lacks = run.tracker.owners(jobs);
        let is_over = run.inquiry.as_mut().is_some_and(|inquiry| {
            inquiry.answered(from, lacks);
            inquiry.is_over()
        });
        if is_over {
            self.conclude(frame, ctx);
        }
    }

    /// Leaves out who is at fault that tiles do not come, or waits on.
    fn conclude(&mut self, frame: FrameId, ctx: &mut Context<Self>) {
        if let Some(run) = self.run(frame)
            && let Some(inquiry) = run.inquiry.take()
        {
            let fault = inquiry.at_fault(&run.tracker.awaited_compositors());
            let why = "tiles are missing though all jobs are said to be done";
            self.apply(frame, FrameInput::AtFault(fault), why, ctx);
        }
    }
}
