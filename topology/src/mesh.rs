//! A peer among others: who is well (`membership`), who should hold what (`replicas`, `assignment`), what is said of that (`announcement`), bricks
//! on their way (`transfers`), bricks read for frames (`staging`), bricks on a disk (`shelf`), and the keeper, which brings these together; a device that is lost.
//!
//! May use `base`, `data`, `balance` and, for who may take part in frames, `frame`; `.ci/arrows` checks it.

pub mod announcement;
pub mod assignment;
pub mod device_recovery;
pub mod fit;
pub mod followers;
pub mod keeper;
pub mod membership;
pub mod replicas;
mod shelf;
pub mod staging;
mod transfers;
