//! A share of one core: a control group whose processes get so much time in every period and no
//! more; so much also where others want the cores.
//!
//! Both generations of control groups: the `cpu` controller of the first where it is mounted, else
//! the second. The first mount that `/proc/mounts` names is taken.
//!
//! Not here: more than one core, and pinning.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// Length of a period: short, so that a host is slow evenly.
const PERIOD_MICROS: u32 = 10_000;
/// The kernel takes no quota below this; smaller shares get a longer period.
const QUOTA_MICROS_MIN: u32 = 1_000;
/// The kernel takes no period above this.
const PERIOD_MICROS_MAX: u32 = 1_000_000;
/// How often a group goes before a process outside of groups where all cores are taken: so that
/// hosts get what they are held to on a busy machine, too.
const PRECEDENCE: u32 = 10;
/// The same of a group that goes first; the kernel takes no weight above this.
const FIRST_PRECEDENCE: u32 = 100;
/// What a process outside of groups, or a group that nothing was said about, weighs in each
/// generation.
const WEIGHTS: [u32; 2] = [1024, 100];
/// How long a group waits for its last processes to be gone.
const EMPTY_WAIT: Duration = Duration::from_secs(2);
/// Ticks a second in `/proc`: fixed by Linux's interface, whatever the kernel's own clock.
const TICKS_PER_SECOND: u32 = 100;

/// Which control groups there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Generation {
    First,
    Second,
}

/// A control group, removed when it is dropped. Its processes must have ended by then.
#[derive(Debug)]
pub struct CpuShare {
    folder: PathBuf,
    generation: Generation,
}

impl CpuShare {
    /// Makes a group that holds its processes to this fraction of a core.
    ///
    /// # Errors
    /// Why this machine cannot.
    pub fn new(name: &str, fraction: f64) -> Result<Self, String> {
        let mounts =
            fs::read_to_string("/proc/mounts").map_err(|e| format!("/proc/mounts: {e}"))?;
        let (root, generation) = controller(&mounts).ok_or("no cpu control group is mounted")?;
        if generation == Generation::Second {
            write(&root.join("cgroup.subtree_control"), "+cpu")?;
        }
        let folder = root.join(name);
        fs::create_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let share = Self { folder, generation };
        share.weigh(PRECEDENCE)?;
        share.set(fraction)?;
        Ok(share)
    }

    /// Lets the group go before all others: what it does is not to wait for them, as it would not
    /// on a machine of its own.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn go_first(&self) -> Result<(), String> {
        self.weigh(FIRST_PRECEDENCE)
    }

    /// Takes a process that runs, and what it starts from here on, into the group.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn take(&self, pid: u32) -> Result<(), String> {
        write(&self.folder.join("cgroup.procs"), &pid.to_string())
    }

    fn weigh(&self, precedence: u32) -> Result<(), String> {
        let (file, usual) = match self.generation {
            Generation::First => ("cpu.shares", WEIGHTS[0]),
            Generation::Second => ("cpu.weight", WEIGHTS[1]),
        };
        write(&self.folder.join(file), &(precedence * usual).to_string())
    }

    /// Changes the fraction, also while processes run.
    ///
    /// # Errors
    /// A fraction that is none, or what the kernel says.
    pub fn set(&self, fraction: f64) -> Result<(), String> {
        let (quota, period) = quota_and_period(fraction)?;
        match self.generation {
            Generation::First => {
                write(&self.folder.join("cpu.cfs_period_us"), &period.to_string())?;
                write(&self.folder.join("cpu.cfs_quota_us"), &quota.to_string())
            }
            Generation::Second => write(&self.folder.join("cpu.max"), &format!("{quota} {period}")),
        }
    }

    /// A command that enters the group before it becomes what is asked for; its process id stays.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
            .arg(self.folder.join("cgroup.procs"));
        command
    }
}

impl Drop for CpuShare {
    fn drop(&mut self) {
        let end = Instant::now() + EMPTY_WAIT;
        while let Err(error) = fs::remove_dir(&self.folder) {
            if Instant::now() > end {
                eprintln!("a control group stays: {}: {error}", self.folder.display());
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Processor time that a process and its threads have taken so far, to 10 ms.
///
/// # Errors
/// Where there is no such process.
pub fn cpu_time(pid: u32) -> Result<Duration, String> {
    let (_, time) = name_and_time(&Path::new("/proc").join(pid.to_string()))?;
    Ok(time)
}

/// The same by thread, under the threads' names; threads of one name together. The first thread
/// is called `main`. Threads that have ended are left out.
///
/// # Errors
/// Where there is no such process.
pub fn cpu_time_by_thread(pid: u32) -> Result<BTreeMap<String, Duration>, String> {
    let folder = Path::new("/proc").join(pid.to_string()).join("task");
    let error = |e: io::Error| format!("{}: {e}", folder.display());
    let mut times = BTreeMap::new();
    for entry in fs::read_dir(&folder).map_err(error)? {
        let entry = entry.map_err(error)?;
        // A thread may end while it is looked at.
        let Ok((name, time)) = name_and_time(&entry.path()) else {
            continue;
        };
        let is_first = entry.file_name().to_str() == Some(&pid.to_string());
        let name = if is_first { "main".to_owned() } else { name };
        *times.entry(name).or_insert(Duration::ZERO) += time;
    }
    Ok(times)
}

/// What the `stat` of a process or thread says.
fn name_and_time(folder: &Path) -> Result<(String, Duration), String> {
    let path = folder.join("stat");
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let (name, ticks) = name_and_ticks(&text).ok_or_else(|| format!("{text:?}"))?;
    Ok((name, Duration::from_secs(1) * ticks / TICKS_PER_SECOND))
}

/// Name, and user and system time, of a line of `stat`: the 14th and 15th field; the second is
/// the name in parentheses, which may hold blanks.
fn name_and_ticks(stat: &str) -> Option<(String, u32)> {
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let mut fields = after.split_whitespace().skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some((name.to_owned(), user.checked_add(system)?))
}

/// Where groups with a cpu controller are made.
fn controller(mounts: &str) -> Option<(PathBuf, Generation)> {
    let mut second = None;
    for line in mounts.lines() {
        let mut fields = line.split_whitespace().skip(1);
        let (Some(folder), Some(kind), Some(options)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        match kind {
            "cgroup" if options.split(',').any(|o| o == "cpu") => {
                return Some((folder.into(), Generation::First));
            }
            "cgroup2" if second.is_none() => {
                second = Some((folder.into(), Generation::Second));
            }
            _ => {}
        }
    }
    second
}

/// Quota and period, microseconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bounded before"
)]
fn quota_and_period(fraction: f64) -> Result<(u32, u32), String> {
    let smallest = f64::from(QUOTA_MICROS_MIN) / f64::from(PERIOD_MICROS_MAX);
    if !(smallest..=1.0).contains(&fraction) {
        return Err(format!(
            "a share is {smallest} to 1 of a core, not {fraction}"
        ));
    }
    let quota = (fraction * f64::from(PERIOD_MICROS)).round() as u32;
    if quota >= QUOTA_MICROS_MIN {
        return Ok((quota, PERIOD_MICROS));
    }
    let period = (f64::from(QUOTA_MICROS_MIN) / fraction).round() as u32;
    Ok((QUOTA_MICROS_MIN, period.min(PERIOD_MICROS_MAX)))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("{} ← {text}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_shares_get_a_longer_period() {
        assert_eq!(quota_and_period(0.2), Ok((2_000, 10_000)));
        assert_eq!(quota_and_period(0.05), Ok((1_000, 20_000)));
        assert_eq!(quota_and_period(1.0), Ok((10_000, 10_000)));
        assert!(quota_and_period(0.0).is_err());
        assert!(quota_and_period(1.5).is_err());
        assert!(quota_and_period(f64::NAN).is_err());
    }

    #[test]
    fn the_first_generation_is_taken_where_both_are_mounted() {
        let first = "cgroup /groups/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0";
        let second = "cgroup2 /groups/unified cgroup2 rw,relatime 0 0";
        let other = "cgroup /groups/cpuset cgroup rw,cpuset 0 0";
        let found = controller(&format!("{other}\n{second}\n{first}\n"));
        assert_eq!(
            found,
            Some(("/groups/cpu,cpuacct".into(), Generation::First))
        );
        let found = controller(&format!("{other}\n{second}\n"));
        assert_eq!(found, Some(("/groups/unified".into(), Generation::Second)));
        assert_eq!(controller(other), None);
    }

    #[test]
    fn processor_time_is_read_past_a_name_with_blanks() {
        let line = "7 (a b) c) S 1 7 7 0 -1 4194560 1 2 3 4 120 30 5 6 20 0 1 0 9";
        assert_eq!(name_and_ticks(line), Some(("a b) c".to_owned(), 150)));
        assert_eq!(name_and_ticks("7 (short) S 1"), None);
    }
}
