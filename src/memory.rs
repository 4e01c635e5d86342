//! Memory limit and memory use of this process.
//!
//! The limit is the smallest one of its control group, the groups above it and the machine. The use is anonymous memory
//! only, because the kernel drops pages of files when memory is short.

use std::fs;
use std::path::{Path, PathBuf};

const KIBIBYTE: u64 = 1024;
/// Smallest limit of a group that is taken into account, in bytes; this process could not run within a lower one.
const LIMIT_BYTES_MIN: u64 = 1024 * 1024;

/// Returns the limit; `None` if the system sets none.
pub fn limit() -> Option<u64> {
    limit_below(Path::new("/"))
}

/// Returns the bytes of anonymous memory in use.
pub fn used() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    ["RssAnon:", "RssShmem:"].into_iter().map(|name| kibibytes(&status, name)).sum()
}

/// Returns the smallest limit in the files below `root`.
fn limit_below(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let of_groups = groups.lines().flat_map(|line| limits_of_group(root, line));
    let machine = fs::read_to_string(root.join("proc/meminfo")).ok();
    let machine = machine.and_then(|text| kibibytes(&text, "MemTotal:"));
    of_groups.chain(machine).filter(|bytes| *bytes >= LIMIT_BYTES_MIN).min()
}

/// Returns the limits of the group in a line `HIERARCHY:CONTROLLERS:PATH` and of the groups above it. A line without
/// controllers is of version 2.
fn limits_of_group(root: &Path, line: &str) -> Vec<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return Vec::new() };
    let (mount, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|controller| controller == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let mount = root.join(mount);
    // In a container the path of the group may not exist below the mount; the limit of the mount itself applies then.
    let group: PathBuf = mount.join(path.trim_start_matches('/'));
    let folders = group.ancestors().take_while(|folder| folder.starts_with(&mount));
    folders.filter_map(|folder| fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()).collect()
}

/// Returns the number of a line `NAME: NUMBER kB`, in bytes.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(KIBIBYTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEBIBYTE: u64 = KIBIBYTE * KIBIBYTE;

    fn limit_of(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().expect("a directory");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("it has one")).expect("a directory");
            fs::write(path, text).expect("written");
        }
        limit_below(root.path())
    }

    #[test]
    fn the_smallest_limit_counts_of_the_group_those_above_and_the_machine() {
        let machine = ("proc/meminfo", "MemTotal:        4194304 kB\nMemFree: 1 kB\n");
        let v2 = ("proc/self/cgroup", "0::/system.slice/thuban.service\n");
        let own = "sys/fs/cgroup/system.slice/thuban.service/memory.max";
        let above = "sys/fs/cgroup/system.slice/memory.max";
        let v1 = ("proc/self/cgroup", "9:name=systemd:/\n4:hugetlb,memory:/box/a:b\n0::/\n");
        let own_v1 = "sys/fs/cgroup/memory/box/a:b/memory.limit_in_bytes";
        let top_v1 = "sys/fs/cgroup/memory/memory.limit_in_bytes";
        for (files, expected) in [
            (vec![], None),
            (vec![machine], Some(4096)),
            (vec![machine, v2, (own, "max\n")], Some(4096)),
            (vec![machine, v2, (own, "1073741824\n"), (above, "max\n")], Some(1024)),
            (vec![machine, v2, (own, "1073741824\n"), (above, "536870912\n")], Some(512)),
            (vec![machine, v2, (own, "0\n"), (above, "a riddle\n")], Some(4096)),
            (vec![machine, ("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "268435456\n")], Some(256)),
            (vec![machine, v1, (own_v1, "805306368\n"), (top_v1, "9223372036854771712\n")], Some(768)),
            (vec![machine, v1, (top_v1, "671088640\n")], Some(640)),
            (vec![v1, (own_v1, "805306368\n")], Some(768)),
        ] {
            assert_eq!(limit_of(&files), expected.map(|mebibytes| mebibytes * MEBIBYTE), "{files:?}");
        }
    }

    #[test]
    fn this_process_has_memory_and_grows_with_what_it_takes() {
        // Parallel tests free memory meanwhile, so one of several attempts has to show the growth.
        let shows_growth = || {
            let before = used().expect("Linux says it");
            let taken = vec![1_u8; 256 << 20];
            let after = used().expect("Linux says it");
            assert!(limit().is_some_and(|limit| limit > after), "{after} of {:?}", limit());
            after >= before + taken.len() as u64 / 2
        };
        assert!((0..10).any(|_| shows_growth()), "256 MiB more are not seen");
    }
}
