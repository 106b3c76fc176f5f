//! Clients of every kind. Waits have no end of their own here, so that a test says something about
//! the server; the sockets' own time-out ends a test that fails.

use super::*;
use crate::metrics::tests::status;
use std::{
    io::{Read as _, Write as _},
    time::Instant,
};

/// No test waits as long as this unless it fails.
const FAILED: Duration = Duration::from_secs(60);
/// Time-outs that never come.
const PATIENT: Limits = Limits {
    connections: 4,
    head: Duration::from_secs(86_400),
    answer: Duration::from_secs(86_400),
    connection: Duration::from_secs(86_400),
    head_bytes: 8 << 10,
};

fn start(limits: Limits, ask: Ask) -> MetricsServer {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    MetricsServer::start_within(limits, listener, PeerId::new("a"), ask).unwrap()
}

fn answering() -> Ask {
    Arc::new(|| Box::pin(async { Some(status()) }))
}

fn connect(server: &MetricsServer) -> std::net::TcpStream {
    let stream = std::net::TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(FAILED)).unwrap();
    stream.set_write_timeout(Some(FAILED)).unwrap();
    stream
}

/// What the server says to these bytes until it closes; a connection that is reset says what came
/// before.
fn said(server: &MetricsServer, bytes: &[u8]) -> String {
    let mut stream = connect(server);
    // It may have hung up in the middle of rubbish.
    let _sent = stream.write_all(bytes);
    let mut text = Vec::new();
    if let Err(error) = stream.read_to_end(&mut text) {
        assert_ne!(
            error.kind(),
            io::ErrorKind::WouldBlock,
            "it did not hang up"
        );
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn get(server: &MetricsServer, path: &str) -> String {
    said(
        server,
        format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes(),
    )
}

#[test]
fn the_pages_are_served() {
    let server = start(Limits::default(), answering());
    let metrics = get(&server, "/metrics");
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
    assert!(
        metrics.contains("content-type: text/plain; version=0.0.4\r\n"),
        "{metrics}"
    );
    assert!(
        metrics.contains("\nbrickmesh_peers{health=\"well\"} 1\n"),
        "{metrics}"
    );
    let health = get(&server, "/health");
    assert!(
        health.contains("200 OK") && health.contains("\"suspects\":1"),
        "{health}"
    );
    assert!(get(&server, "/metrics?x=y").contains("200 OK"));
    let head = said(&server, b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(
        head.contains("200 OK") && !head.contains("brickmesh_"),
        "{head}"
    );
    assert!(said(&server, b"GET /metrics HTTP/1.0\r\n\r\n").contains("200 OK"));
}

#[test]
fn a_page_of_many_peers_is_served_whole() {
    let mut many = status();
    let hello = many.peers[&PeerId::new("b")].clone();
    for n in 0..1000 {
        many.peers
            .insert(PeerId::new(&format!("peer-{n:04}")), hello.clone());
    }
    let server = start(
        Limits::default(),
        Arc::new(move || {
            let many = many.clone();
            Box::pin(async move { Some(many) })
        }),
    );
    let text = get(&server, "/metrics");
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let length = format!("content-length: {}", body.len());
    assert!(body.len() > 100_000 && head.contains(&length), "{head}");
}

#[test]
fn other_requests_are_refused_with_what_there_is() {
    let server = start(Limits::default(), answering());
    let other = get(&server, "/");
    assert!(
        other.contains("404") && other.contains("/metrics"),
        "{other}"
    );
    let post = said(
        &server,
        b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
    );
    assert!(
        post.contains("405") && post.contains("allow: GET, HEAD"),
        "{post}"
    );
}

#[test]
fn rubbish_is_refused_and_the_next_client_is_served() {
    let server = start(PATIENT, answering());
    let mut noise = 7_u32;
    let mut noise: Vec<u8> = std::iter::repeat_with(|| {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        noise.to_be_bytes()[0]
    })
    .take(20_000)
    .collect();
    noise.extend(b"\r\n\r\n");
    let long_head = format!(
        "GET /metrics HTTP/1.1\r\nx: {}\r\n\r\n",
        "y".repeat(100_000)
    );
    let many_heads = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(1_500));
    let long_path = format!("GET /{} HTTP/1.1\r\n\r\n", "z".repeat(100_000));
    for rubbish in [
        &noise[..],
        long_head.as_bytes(),
        many_heads.as_bytes(),
        long_path.as_bytes(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\n\r\n",
        b"GET\r\n\r\n",
        b"\r\n\r\n\0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    ] {
        let text = said(&server, rubbish);
        assert!(!text.contains("200 OK"), "{text}");
    }
    assert!(get(&server, "/metrics").contains("200 OK"));
}

#[test]
fn clients_that_say_nothing_keep_nobody_out() {
    let limits = Limits {
        head: Duration::from_millis(50),
        ..PATIENT
    };
    let server = start(limits, answering());
    let mut silent: Vec<_> = (0..3 * PATIENT.connections)
        .map(|_| connect(&server))
        .collect();
    for half_said in &mut silent {
        // It may have been hung up on already.
        let _sent = half_said.write_all(b"GET /metrics HTTP/1.1\r\nHo");
    }
    for _ in 0..2 * PATIENT.connections {
        assert!(get(&server, "/health").contains("200 OK"));
    }
    // And they are not kept for ever.
    let mut rest = Vec::new();
    if let Err(error) = silent[0].read_to_end(&mut rest) {
        assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "it is still open");
    }
}

#[test]
fn a_client_that_does_not_end_its_head_is_hung_up_on() {
    let limits = Limits {
        head: Duration::from_millis(50),
        ..PATIENT
    };
    let server = start(limits, answering());
    let text = said(&server, b"GET /metrics HTTP/1.1\r\nHo");
    assert!(!text.contains("200 OK"), "{text}");
}

#[test]
fn a_connection_has_an_end_whatever_it_waits_for() {
    let limits = Limits {
        connection: Duration::from_millis(50),
        ..PATIENT
    };
    let server = start(limits, Arc::new(|| Box::pin(std::future::pending())));
    assert_eq!(get(&server, "/metrics"), "");
}

#[test]
fn a_peer_that_has_ended_is_not_well() {
    let server = start(PATIENT, Arc::new(|| Box::pin(async { None })));
    for path in ["/metrics", "/health"] {
        let text = get(&server, path);
        assert!(
            text.contains("503") && text.contains("does not answer"),
            "{text}"
        );
    }
}

#[test]
fn a_peer_that_hangs_is_not_well() {
    let limits = Limits {
        answer: Duration::from_millis(50),
        ..PATIENT
    };
    let server = start(limits, Arc::new(|| Box::pin(std::future::pending())));
    assert!(get(&server, "/health").contains("503"));
}

#[test]
fn the_server_ends_with_its_handle() {
    let server = start(PATIENT, answering());
    let address = server.address();
    let mut open = connect(&server);
    drop(server);
    let mut rest = Vec::new();
    let ended = open.read_to_end(&mut rest);
    assert!(ended.is_err_and(|e| e.kind() != io::ErrorKind::WouldBlock) || rest.is_empty());
    // The port is free again once the thread is gone.
    let start = Instant::now();
    while let Err(error) = TcpListener::bind(address) {
        assert!(start.elapsed() < FAILED, "{error}");
        thread::sleep(Duration::from_millis(10));
    }
}
