//! Addresses: how people write them, which can be dialled, which are private.
//!
//! Shape of a usable address: `/ip4/A/tcp/PORT` or `/ip6/A/tcp/PORT`, then perhaps `/p2p/ID`. What
//! is dialled because a person asked for it may name a host in place of the number: `/dns/HOST`,
//! `/dns4/HOST`, `/dns6/HOST`; the system looks names up, as it does for every other program.
//! Not here: other transports.

use super::NetworkError;
use libp2p::{Multiaddr, PeerId, multiaddr::Protocol};
use std::{
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr},
};

/// The address in `text`: a multiaddress, or `IP:PORT` or `HOST:PORT` for short.
///
/// # Errors
/// [`NetworkError::BadAddress`].
pub fn parse(text: &str) -> Result<Multiaddr, NetworkError> {
    let parsed = match text.parse::<SocketAddr>() {
        Ok(socket) => Ok(Multiaddr::from(socket.ip()).with(Protocol::Tcp(socket.port()))),
        Err(_) => match host_and_port(text) {
            Some((host, port)) => {
                Ok(Multiaddr::from(Protocol::Dns(host.into())).with(Protocol::Tcp(port)))
            }
            None => text.parse::<Multiaddr>(),
        },
    };
    let bad = || NetworkError::BadAddress { text: text.into() };
    let address = parsed.map_err(|_| bad())?;
    if name_of(&address).is_none() {
        check(&address)?;
    } else if check(&with_host(&address, Ipv6Addr::UNSPECIFIED.into())).is_err() {
        return Err(bad());
    }
    Ok(address)
}

/// The two halves of `HOST:PORT`, if the host may be a name: letters, digits, `-`, `_` and dots.
fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let is_name = |label: &str| {
        let mut bytes = label.bytes();
        !label.is_empty() && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    let all = host
        .strip_suffix('.')
        .unwrap_or(host)
        .split('.')
        .all(is_name);
    // Four numbers are an address, and a wrong one, or it would have been read as one.
    let is_number = host.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    (all && !is_number).then_some(host).zip(port.parse().ok())
}

/// The host's name, where it has none but that.
pub(super) fn name_of(address: &Multiaddr) -> Option<String> {
    match address.iter().next() {
        Some(Protocol::Dns(name) | Protocol::Dns4(name) | Protocol::Dns6(name)) => {
            Some(name.into_owned())
        }
        _ => None,
    }
}

/// The same with this host.
fn with_host(address: &Multiaddr, ip: IpAddr) -> Multiaddr {
    std::iter::once(Protocol::from(ip))
        .chain(address.iter().skip(1))
        .collect()
}

/// The addresses that the system knows for the name in `address`, those of IPv4 first, where peers
/// listen unless they are told otherwise; `address` itself where it has no name.
///
/// # Errors
/// The system's.
pub(super) async fn resolve(address: &Multiaddr) -> io::Result<Vec<Multiaddr>> {
    let Some(name) = name_of(address) else {
        return Ok(vec![address.clone()]);
    };
    let kind = address.iter().next();
    let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
    let mut hosts: Vec<IpAddr> = found.map(|socket| socket.ip()).collect();
    hosts.retain(|ip| match kind {
        Some(Protocol::Dns4(_)) => ip.is_ipv4(),
        Some(Protocol::Dns6(_)) => ip.is_ipv6(),
        _ => true,
    });
    hosts.sort_by_key(IpAddr::is_ipv6);
    hosts.dedup();
    if hosts.is_empty() {
        return Err(io::Error::other("the name has no such address"));
    }
    Ok(hosts.into_iter().map(|ip| with_host(address, ip)).collect())
}

/// Refuses addresses that this peer's transport cannot use.
pub(crate) fn check(address: &Multiaddr) -> Result<(), NetworkError> {
    let mut parts = address.iter();
    let ip = matches!(parts.next(), Some(Protocol::Ip4(_) | Protocol::Ip6(_)));
    let tcp = matches!(parts.next(), Some(Protocol::Tcp(_)));
    let peer = matches!(parts.next(), None | Some(Protocol::P2p(_)));
    if ip && tcp && peer && parts.next().is_none() {
        return Ok(());
    }
    let text = address.to_string();
    Err(NetworkError::BadAddress { text })
}

/// The peer that the address names, if it does.
pub(super) fn peer_of(address: &Multiaddr) -> Option<PeerId> {
    address.iter().find_map(|part| match part {
        Protocol::P2p(peer) => Some(peer),
        _ => None,
    })
}

/// The address without the peer.
pub(super) fn without_peer(address: &Multiaddr) -> Multiaddr {
    let parts = address.iter();
    parts
        .filter(|part| !matches!(part, Protocol::P2p(_)))
        .collect()
}

/// The host's part of the address, without a port.
pub(super) fn host(address: &Multiaddr) -> Multiaddr {
    address.iter().take(1).collect()
}

/// The host; an IPv4 address is one however it is written.
pub(super) fn ip_of(address: &Multiaddr) -> Option<IpAddr> {
    address.iter().next().and_then(|part| match part {
        Protocol::Ip4(ip) => Some(IpAddr::V4(ip)),
        Protocol::Ip6(ip) => Some(ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4)),
        _ => None,
    })
}

/// Address and port as the system writes them.
pub(super) fn socket(address: &Multiaddr) -> Option<SocketAddr> {
    let mut parts = address.iter();
    let ip = match parts.next() {
        Some(Protocol::Ip4(ip)) => IpAddr::V4(ip),
        Some(Protocol::Ip6(ip)) => IpAddr::V6(ip),
        _ => return None,
    };
    match parts.next() {
        Some(Protocol::Tcp(port)) => Some(SocketAddr::new(ip, port)),
        _ => None,
    }
}

/// Whether the address belongs to this host's loopback.
pub(super) fn is_loopback(address: &Multiaddr) -> bool {
    ip_of(address).is_some_and(|ip| ip.is_loopback())
}

/// Whether the address belongs to a private network, a link, or this host (RFC 1918, 3927, 4193).
pub(super) fn is_private(address: &Multiaddr) -> bool {
    match ip_of(address) {
        Some(IpAddr::V4(ip)) => ip.is_private() || ip.is_loopback() || ip.is_link_local(),
        Some(IpAddr::V6(ip)) => {
            ip == Ipv6Addr::LOCALHOST || ip.is_unique_local() || ip.is_unicast_link_local()
        }
        None => false,
    }
}

/// Whether both ends of a connection are this host.
pub(super) fn is_same_host(local: &Multiaddr, remote: &Multiaddr) -> bool {
    ip_of(local).is_some_and(|ip| ip_of(remote) == Some(ip))
}

/// Whether a peer that says it listens on `claimed` may be dialled there. Loopback addresses are
/// another host's unless the peer itself came (`seen_at`) over loopback.
pub(super) fn may_dial(claimed: &Multiaddr, seen_at: Option<&Multiaddr>) -> bool {
    let specified = ip_of(claimed).is_some_and(|ip| !ip.is_unspecified());
    check(claimed).is_ok()
        && specified
        && (!is_loopback(claimed) || seen_at.is_some_and(is_loopback))
}

/// Of the addresses that a peer listens on, the one that another machine is likeliest to reach it
/// at, with its host: private IPv4 before the rest, this host's loopback last. Without `/p2p/ID`,
/// so that it stays good when the peer comes back as somebody else.
#[must_use]
pub fn to_join(addresses: &[Multiaddr]) -> Option<(IpAddr, Multiaddr)> {
    let rank = |ip: &IpAddr, address: &Multiaddr| match ip {
        _ if ip.is_loopback() => 4,
        IpAddr::V4(ip) if ip.is_link_local() => 3,
        IpAddr::V6(ip) if ip.is_unicast_link_local() => 3,
        IpAddr::V4(_) if is_private(address) => 0,
        IpAddr::V4(_) => 1,
        IpAddr::V6(_) => 2,
    };
    let hosts = addresses.iter().filter_map(|a| Some((ip_of(a)?, a)));
    let (ip, address) = hosts.min_by_key(|(ip, address)| rank(ip, address))?;
    Some((ip, without_peer(address)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Multiaddr {
        parse(text).unwrap()
    }

    #[test]
    fn both_notations_give_one_address() {
        assert_eq!(
            address("192.168.1.5:40"),
            address("/ip4/192.168.1.5/tcp/40")
        );
        assert_eq!(address("[::1]:40"), address("/ip6/::1/tcp/40"));
    }

    #[test]
    fn hosts_may_be_named() {
        assert_eq!(address("lab-1:7070"), address("/dns/lab-1/tcp/7070"));
        assert_eq!(
            address("gpu_2.lab.org.:1"),
            address("/dns/gpu_2.lab.org./tcp/1")
        );
        assert!(check(&address("lab-1:1")).is_err() && !may_dial(&address("lab-1:1"), None));
    }

    #[tokio::test]
    async fn names_are_looked_up_by_kind() {
        let local = resolve(&address("/dns4/localhost/tcp/7")).await.unwrap();
        assert_eq!(local, [address("127.0.0.1:7")]);
        let any = resolve(&address("localhost:7")).await.unwrap();
        assert_eq!(any[0], address("127.0.0.1:7"));
        let number = address("[::1]:7");
        assert_eq!(resolve(&number).await.unwrap(), [number]);
    }

    #[test]
    fn addresses_without_a_transport_are_refused_with_their_text() {
        for text in [
            "",
            "host",
            "host:",
            "host:70000",
            "1.2.3:1",
            "1.2.3.400:1",
            "a..b:1",
            "/dns4/a/udp/1",
            "/dns4/a",
            "/ip4/1.2.3.4",
            "/ip4/1.2.3.4/udp/1/quic-v1",
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn only_private_networks_are_private() {
        let private = [
            "10.0.0.1:1",
            "172.31.0.1:1",
            "192.168.0.1:1",
            "127.0.0.1:1",
            "169.254.0.1:1",
        ];
        for text in private.into_iter().chain([
            "[::1]:1",
            "[fd00::1]:1",
            "[fe80::1]:1",
            "[::ffff:10.0.0.1]:1",
        ]) {
            assert!(is_private(&address(text)), "{text}");
        }
        for text in [
            "8.8.8.8:1",
            "172.32.0.1:1",
            "100.64.0.1:1",
            "[2001:db8::1]:1",
            "[::ffff:8.8.8.8]:1",
        ] {
            assert!(!is_private(&address(text)), "{text}");
        }
    }

    #[test]
    fn loopback_of_another_host_is_not_dialled() {
        let (lo, lan) = (address("127.0.0.1:7"), address("10.0.0.7:7"));
        assert!(may_dial(&lo, Some(&lo)) && !may_dial(&lo, Some(&lan)) && !may_dial(&lo, None));
        assert!(may_dial(&lan, Some(&lan)) && may_dial(&lan, None));
        assert!(!may_dial(&address("0.0.0.0:7"), None));
    }

    #[test]
    fn the_address_to_join_is_one_that_others_reach() {
        let pick = |texts: &[&str]| {
            let listen: Vec<_> = texts.iter().map(|text| address(text)).collect();
            to_join(&listen).map(|(_, picked)| picked)
        };
        let lan = "10.0.0.7:7";
        assert_eq!(
            pick(&[
                "127.0.0.1:7",
                "[fd00::1]:7",
                "169.254.0.1:7",
                "8.8.8.8:7",
                lan
            ]),
            Some(address(lan))
        );
        assert_eq!(pick(&["127.0.0.1:7"]), Some(address("127.0.0.1:7")));
        assert_eq!(pick(&[]), None);
    }
}
