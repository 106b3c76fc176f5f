//! The end of a process in which a device may still be at work.
//!
//! A process that ends by `exit`, or by the end of `main`, first runs what its libraries registered
//! for that: a Vulkan driver's handlers end its threads and take down what those use. While a thread
//! still renders, compiles a kernel or drops the device, that is a race, and now and then a crash
//! after all is done. So whoever has a device waits until it is dropped. Where that cannot be waited
//! for, the device is left at work, and the process is to end by [`end_at_once`].
#![expect(
    unsafe_code,
    reason = "the standard library has no end of a process without the handlers of libraries"
)]

use std::{
    ffi::c_int,
    sync::atomic::{AtomicBool, Ordering},
};

static LEFT_AT_WORK: AtomicBool = AtomicBool::new(false);

// SAFETY: this is its declaration in C, of POSIX (unistd.h) and of Windows (process.h). It asks for
// nothing: it takes any status, may be called on any thread and from a signal handler.
unsafe extern "C" {
    safe fn _exit(status: c_int) -> !;
}

/// A device may be at work until the process ends.
pub fn leave_at_work() {
    LEFT_AT_WORK.store(true, Ordering::Relaxed);
}

/// Whether a device may be at work until the process ends: see [`end_at_once`].
#[must_use]
pub fn is_left_at_work() -> bool {
    LEFT_AT_WORK.load(Ordering::Relaxed)
}

/// Ends the process and runs nothing more of it: no handler of a library, no destructor. What is
/// buffered for standard output is lost.
pub fn end_at_once(status: u8) -> ! {
    _exit(status.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Tells the program that it was started by the test.
    const VARIABLE: &str = "BRICKMESH_TEST_PROCESS_END";

    #[test]
    fn a_process_that_ends_at_once_has_the_status_that_was_given() {
        if std::env::var_os(VARIABLE).is_some() {
            end_at_once(7);
        }
        let module = module_path!().split_once("::").unwrap().1;
        let test = "a_process_that_ends_at_once_has_the_status_that_was_given";
        let mut again = Command::new(std::env::current_exe().unwrap());
        again
            .args([&format!("{module}::{test}"), "--exact"])
            .env(VARIABLE, "yes");
        assert_eq!(again.output().unwrap().status.code(), Some(7));
    }
}
