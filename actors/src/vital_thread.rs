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
    use std::process::Command;

    /// Tells the program that it was started by the test, and whether the thread is vital.
    const VARIABLE: &str = "BRICKMESH_TEST_VITAL_THREAD";

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
        let test = concat!(module_path!(), "::the_process_ends_with_it");
        let (_, test) = test.split_once("::").unwrap();
        let ends_well = |vital| {
            let mut again = Command::new(std::env::current_exe().unwrap());
            again.args([test, "--exact"]).env(VARIABLE, vital);
            again.output().unwrap().status.success()
        };
        assert!(ends_well("no"));
        assert!(!ends_well("yes"));
    }
}
