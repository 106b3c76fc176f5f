//! Memory that this machine, or the control group that this process is in, has left.

use std::{fs, path::Path};

/// Where control groups are.
const GROUPS: &str = "/sys/fs/cgroup";
/// What is assumed where nothing can be asked.
const UNKNOWN_BYTES: u64 = 4 << 30;

/// Memory that this process may still take, in bytes; 4 GiB where that cannot be asked.
#[must_use]
pub fn free_memory_bytes() -> u64 {
    of_machine_and(left_in_group)
}

/// Files that the system may keep in memory for this process, in bytes at most; 4 GiB where that cannot be asked.
#[must_use]
pub fn file_cache_bytes() -> u64 {
    of_machine_and(limit_of_group)
}

/// What the machine has available, or less where the control group of this process says so.
fn of_machine_and(group: impl Fn(&str, &Path) -> Option<u64>) -> u64 {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let machine = of_machine(&read("/proc/meminfo")).unwrap_or(UNKNOWN_BYTES);
    let own = group(&read("/proc/self/cgroup"), Path::new(GROUPS));
    machine.min(own.unwrap_or(u64::MAX))
}

/// The least limit of a group and those around it; `None` without one.
fn limit_of_group(text: &str, groups: &Path) -> Option<u64> {
    least_of_groups(text, groups, |group, [limit, _]| number_in(group, limit))
}

/// The least that is left in a group and those around it; `None` without a limit.
fn left_in_group(text: &str, groups: &Path) -> Option<u64> {
    least_of_groups(text, groups, |group, [limit, used]| {
        let [limit, used] = [limit, used].map(|name| number_in(group, name));
        Some(limit?.saturating_sub(used?))
    })
}

/// The least number of a group and those around it, of either version; it is told their folder, and the names of limit and use in it.
fn least_of_groups(
    text: &str,
    groups: &Path,
    number: impl Fn(&Path, [&str; 2]) -> Option<u64>,
) -> Option<u64> {
    let of_line = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, own) = (parts.next()?, parts.next()?.strip_prefix('/')?);
        let (root, names) = match controllers {
            "" => (groups.to_owned(), ["memory.max", "memory.current"]),
            some if some.split(',').any(|c| c == "memory") => (
                groups.join("memory"),
                ["memory.limit_in_bytes", "memory.usage_in_bytes"],
            ),
            _ => return None,
        };
        let own = root.join(own);
        let around = own.ancestors().take_while(|p| p.starts_with(&root));
        around.filter_map(|group| number(group, names)).min()
    };
    text.lines().filter_map(of_line).min()
}

fn number_in(group: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(group.join(name)).ok()?;
    text.trim().parse().ok()
}

fn of_machine(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_says_what_is_free() {
        let text = "MemTotal: 99 kB\nMemAvailable:   2048 kB\n";
        assert_eq!(of_machine(text), Some(2 << 20));
        assert_eq!(of_machine("MemTotal: 99 kB"), None);
        assert!(free_memory_bytes() > 0);
    }

    #[test]
    fn a_limit_around_the_process_counts_wherever_it_is() {
        let groups = tempfile::tempdir().unwrap();
        let inner = groups.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let write = |folder: &str, max: &str, current: &str| {
            let folder = groups.path().join(folder);
            fs::write(folder.join("memory.max"), max).unwrap();
            fs::write(folder.join("memory.current"), current).unwrap();
        };
        let left = || left_in_group("1:cpu:/x\n0::/a/b\n", groups.path());
        assert_eq!(left(), None);
        write("a/b", "max\n", "5\n");
        assert_eq!(left(), None);
        write("a", "1000\n", "400\n");
        assert_eq!(left(), Some(600));
        write("a/b", "300\n", "400\n");
        assert_eq!(left(), Some(0));
        assert_eq!(left_in_group("", groups.path()), None);
        // Of what it may have, its files are a part; the first version has other names.
        let limit = |text| limit_of_group(text, groups.path());
        assert_eq!(limit("1:cpu:/x\n0::/a/b\n"), Some(300));
        assert_eq!(limit("0::/a\n"), Some(1000));
        assert_eq!(limit("3:cpu,memory:/c\n0::/\n"), None);
        fs::create_dir_all(groups.path().join("memory/c")).unwrap();
        fs::write(groups.path().join("memory/c/memory.limit_in_bytes"), "77\n").unwrap();
        assert_eq!(limit("3:cpu,memory:/c\n0::/a\n"), Some(77));
        fs::write(groups.path().join("memory/c/memory.usage_in_bytes"), "7\n").unwrap();
        let left = left_in_group("3:cpu,memory:/c\n", groups.path());
        assert_eq!(left, Some(70));
    }
}
