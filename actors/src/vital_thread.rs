//! Threads that a peer cannot do without: its device's and its compositor's.

use std::process::abort;

/// Ends the process when the thread that owns it panics. Without that thread the peer would go on to
/// say that it is well, and render nothing; whoever watches over the process starts it again.
#[derive(Debug)]
pub(crate) struct VitalThread(pub(crate) &'static str);

impl Drop for VitalThread {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(
                thread = self.0,
                "a thread that this peer cannot do without panicked: this is a bug, please report it with the log (-vv)"
            );
            abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix::{Actor, Arbiter, Context, Handler};
    use std::process::Command;

    /// Tells the program that it was started by the test, and whether the thread is vital.
    const VARIABLE: &str = "BRICKMESH_TEST_VITAL_THREAD";

    /// Whether the program ends well where this test finds the variable set.
    fn ends_well(test: &str, vital: &str) -> bool {
        let module = module_path!().split_once("::").unwrap().1;
        let mut again = Command::new(std::env::current_exe().unwrap());
        again
            .args([&format!("{module}::{test}"), "--exact"])
            .env(VARIABLE, vital);
        again.output().unwrap().status.success()
    }

    #[test]
    fn the_process_ends_with_it() {
        if let Ok(vital) = std::env::var(VARIABLE) {
            let panics = std::thread::spawn(move || {
                let _vital = (vital == "yes").then_some(VitalThread("device"));
                panic!("a bug");
            });
            assert!(panics.join().is_err());
            return;
        }
        assert!(ends_well("the_process_ends_with_it", "no"));
        assert!(!ends_well("the_process_ends_with_it", "yes"));
    }

    /// An actor that panics when it hears anything.
    struct Panicking {
        _thread: Option<VitalThread>,
    }

    #[derive(actix::Message)]
    #[rtype(result = "()")]
    struct Panic;

    impl Actor for Panicking {
        type Context = Context<Self>;
    }

    impl Handler<Panic> for Panicking {
        type Result = ();

        fn handle(&mut self, _: Panic, _: &mut Self::Context) {
            panic!("a bug");
        }
    }

    /// The runtime catches what its tasks panic with, after it has dropped them.
    #[test]
    fn the_process_ends_with_an_actor_that_owns_it() {
        if let Ok(vital) = std::env::var(VARIABLE) {
            actix::System::new().block_on(async {
                let arbiter = Arbiter::new();
                let thread = (vital == "yes").then_some(VitalThread("device"));
                let actor = Panicking::start_in_arbiter(&arbiter.handle(), |_| Panicking {
                    _thread: thread,
                });
                assert!(actor.send(Panic).await.is_err());
                arbiter.stop();
                arbiter.join().unwrap();
            });
            return;
        }
        let test = "the_process_ends_with_an_actor_that_owns_it";
        assert!(ends_well(test, "no"));
        assert!(!ends_well(test, "yes"));
    }
}
