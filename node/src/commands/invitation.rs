//! The line that brings the next machine into the mesh: it copies the key, and starts a peer.
//!
//! Invariant: the key itself is not in it; it goes from file to file over ssh.

use crate::network::{Multiaddr, address};
use std::path::Path;

/// What to run on the next machine; where this peer can be reached from this machine alone, what
/// to run here. `None` where it listens nowhere.
pub(super) fn invitation(
    key_file: &Path,
    addresses: &[Multiaddr],
    user: Option<String>,
) -> Option<String> {
    let (ip, address) = address::to_join(addresses)?;
    if ip.is_loopback() {
        let key = quoted(&key_file.display().to_string());
        return Some(format!(
            "one more peer on this machine: brickmesh peer --key {key} --join {address}"
        ));
    }
    let host = if ip.is_ipv6() {
        format!("[{ip}]")
    } else {
        ip.to_string()
    };
    let user = user.map_or_else(String::new, |user| format!("{user}@"));
    let from = quoted(&format!("{user}{host}:{}", key_file.display()));
    Some(format!(
        "on the next machine: mkdir -p -m 700 ~/.config/brickmesh && scp -p {from} ~/.config/brickmesh/mesh.key && brickmesh peer --join {address}"
    ))
}

/// The word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/.:@_-+,=".contains(c);
    if word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(key: &str, addresses: &[&str], user: Option<&str>) -> Option<String> {
        let parse = |text: &&str| address::parse(text).unwrap();
        let addresses: Vec<_> = addresses.iter().map(parse).collect();
        invitation(Path::new(key), &addresses, user.map(str::to_owned))
    }

    #[test]
    fn the_line_copies_the_key_and_joins_an_address_that_others_reach() {
        let listen = ["/ip4/127.0.0.1/tcp/7", "/ip4/192.168.7.20/tcp/7070"];
        let text = line("/home/eva/mesh.key", &listen, Some("eva")).unwrap();
        assert!(
            text.ends_with(
                "scp -p eva@192.168.7.20:/home/eva/mesh.key ~/.config/brickmesh/mesh.key && brickmesh peer --join /ip4/192.168.7.20/tcp/7070"
            ),
            "{text}"
        );
        assert_eq!(line("/k", &[], None), None);
    }

    #[test]
    fn a_peer_that_only_this_machine_reaches_is_joined_with_the_same_file() {
        let text = line("/tmp/a key's", &["/ip4/127.0.0.1/tcp/7"], None).unwrap();
        assert!(
            text.ends_with(r"brickmesh peer --key '/tmp/a key'\''s' --join /ip4/127.0.0.1/tcp/7"),
            "{text}"
        );
    }

    #[test]
    fn a_host_with_brackets_is_quoted() {
        let text = line("/k", &["[fd00::7]:7"], None).unwrap();
        assert!(text.contains("scp -p '[fd00::7]:/k' "), "{text}");
    }
}
