//! A peer as an operator runs it: a configuration file, metrics, a polite end.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail by a panic, also outside of its function"
)]

use brickmesh_tests::program::{PeerProcess, Running, brickmesh};
use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// No wait is as long as this unless the test fails.
const FAILED: Duration = Duration::from_secs(60);

/// A peer that its configuration file alone describes.
struct Peer {
    peer: PeerProcess,
    folder: TempDir,
}

impl Peer {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = r#"
            name = "lab \"one\""
            device = "cpu"
            memory = "64M"
            listen = "127.0.0.1:0"
            key = "mesh.key"
            metrics = "127.0.0.1:0"
            verbose = 1
        "#;
        fs::write(folder.path().join("config.toml"), config).unwrap();
        let peer = PeerProcess::start(|command| {
            command
                .arg("--config")
                .arg(folder.path().join("config.toml"));
            command.env_remove("RUST_LOG");
            command.stderr(fs::File::create(folder.path().join("log")).unwrap());
        });
        Self { peer, folder }
    }

    fn said(&self, prefix: &str) -> &str {
        self.peer.said(prefix)
    }

    /// Where metrics are served.
    fn metrics(&self) -> String {
        let url = self.said("metrics on http://");
        url.strip_suffix("/metrics").unwrap().to_owned()
    }

    /// What is answered to these bytes.
    fn answer(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.metrics()).unwrap();
        stream.set_read_timeout(Some(FAILED)).unwrap();
        // It may hang up before it has all of them.
        let _sent = stream.write_all(bytes);
        let mut answer = Vec::new();
        if let Err(error) = stream.read_to_end(&mut answer) {
            assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}");
        }
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn get(&self, path: &str) -> String {
        self.answer(format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.metrics()).as_bytes())
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("config.toml")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Waits until its log says this.
    fn logs(&self, words: &str) {
        wait_for(words, || self.log().contains(words));
    }

    /// Ends it politely; returns its exit status.
    fn stop(&mut self) -> Option<i32> {
        signal(&self.peer.process, "-TERM");
        ended(&mut self.peer.process)
    }
}

fn signal(process: &Running, signal: &str) {
    let id = process.0.id().to_string();
    let sent = Command::new("kill").args([signal, &id]).status().unwrap();
    assert!(sent.success());
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < FAILED, "still not: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Its exit status, once it has ended.
fn ended(process: &mut Running) -> Option<i32> {
    let start = Instant::now();
    loop {
        if let Some(status) = process.0.try_wait().unwrap() {
            return status.code();
        }
        assert!(start.elapsed() < FAILED, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// `status` with the peer's own file: the key is in it; the address is not, because the peer took
/// any port.
fn status(peer: &Peer, more: &[&str]) -> Output {
    let address = peer.said("listening on ");
    let mut command = Command::new(brickmesh());
    command.args(["status", "--seconds", "1.5", "--listen", "127.0.0.1:0"]);
    command
        .args(["--join", address, "--config"])
        .arg(peer.config());
    command.args(more).output().unwrap()
}

#[cfg(unix)]
#[test]
fn a_peer_of_a_file_serves_metrics_whatever_is_sent_there_and_leaves_politely() {
    let mut peer = Peer::start();
    assert_eq!(peer.said("memory for bricks: "), "64 MiB");
    assert!(peer.folder.path().join("mesh.key").exists());

    let metrics = peer.get("/metrics");
    assert!(metrics.contains("text/plain; version=0.0.4"), "{metrics}");
    assert!(
        metrics.contains("\nbrickmesh_memory_promised_bytes 67108864\n"),
        "{metrics}"
    );
    assert!(metrics.contains(r#"name="lab \"one\"""#), "{metrics}");
    let health = peer.get("/health");
    assert!(
        health.contains("200 OK") && health.contains(r#""peers":1"#),
        "{health}"
    );

    let noise: Vec<u8> = (0..50_000_u32)
        .map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0])
        .collect();
    for rubbish in [
        &noise[..],
        b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"GET \0 HTTP/1.1\r\n\r\n",
    ] {
        // One who sends no end of a head and waits is hung up on; nobody else waits for that.
        let text = if rubbish.ends_with(b"\r\n\r\n") {
            peer.answer(rubbish)
        } else {
            let mut stream = TcpStream::connect(peer.metrics()).unwrap();
            let _sent = stream.write_all(rubbish);
            peer.get("/nothing")
        };
        assert!(!text.contains("200 OK"), "{text}");
    }
    let silent: Vec<_> = (0..100)
        .map(|_| TcpStream::connect(peer.metrics()).unwrap())
        .collect();
    assert!(peer.get("/health").contains("200 OK"));
    drop(silent);

    assert_eq!(peer.stop(), Some(0));
    assert!(!peer.log().contains("panicked"), "{}", peer.log());
}

#[cfg(unix)]
#[test]
fn status_takes_the_key_from_the_file_and_says_goodbye() {
    let mut peer = Peer::start();
    for _ in 0..2 {
        let output = status(&peer, &["--json"]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["peers"][0]["name"], "lab \"one\"");
        assert_eq!(json["peers"][0]["bricks"], 0);
    }
    let output = status(&peer, &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("1 peer\n") && text.contains("lab \"one\""),
        "{text}"
    );
    assert_eq!(peer.stop(), Some(0));
    let log = peer.log();
    assert!(!log.contains("silent or late"), "{log}");
}

/// `render --mesh` of this in the mesh of a peer.
fn render(peer: &Peer, volume: &Path, more: &[&str]) -> Running {
    let folder = peer.folder.path();
    let mut command = Command::new(brickmesh());
    command.arg("render").arg(volume).args(["--mesh"]);
    command.args(["--device", "cpu", "--memory", "64M"]);
    command.args(["--listen", "127.0.0.1:0", "--wait-peers", "1"]);
    command.args(["--join", peer.said("listening on "), "--key"]);
    command.arg(folder.join("mesh.key"));
    command.arg("--out").arg(folder.join("p.png")).args(more);
    command
        .stdout(Stdio::null())
        .stderr(fs::File::create(folder.join("log-of-render")).unwrap());
    Running(command.spawn().unwrap())
}

/// Interrupts it; it ends, and the peer has heard a goodbye.
fn assert_leaves_politely(peer: &Peer, mut render: Running) {
    signal(&render, "-INT");
    assert_eq!(ended(&mut render), Some(1));
    let said = fs::read_to_string(peer.folder.path().join("log-of-render")).unwrap();
    assert!(said.contains("brickmesh: stopped"), "{said}");
    peer.logs("a peer has left");
    let log = peer.log();
    assert!(!log.contains("silent or late"), "{log}");
    assert!(!log.contains("without a goodbye"), "{log}");
}

#[cfg(unix)]
#[test]
fn who_is_interrupted_while_looking_for_a_data_set_says_goodbye() {
    let peer = Peer::start();
    let looking = render(&peer, Path::new("nobody-has-this.nrrd"), &[]);
    peer.logs("a peer has joined");
    assert_leaves_politely(&peer, looking);
}

#[cfg(unix)]
#[test]
fn who_is_interrupted_with_frames_under_way_says_goodbye() {
    let peer = Peer::start();
    let volume = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/avf.nrrd");
    let turn = ["--frames", "100000", "--ahead", "4", "--size", "64x64"];
    let rendering = render(&peer, &volume, &turn);
    let picture = peer.folder.path().join("p-0000.png");
    wait_for("a picture", || picture.exists());
    assert_leaves_politely(&peer, rendering);
}

/// The next one who dials.
fn accepted(listener: &TcpListener) -> TcpStream {
    let start = Instant::now();
    loop {
        if let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(false).unwrap();
            return stream;
        }
        assert!(start.elapsed() < FAILED, "nobody dials");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(unix)]
#[test]
fn an_address_to_join_where_something_else_answers_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    other.set_nonblocking(true).unwrap();
    let config = format!(
        "device = \"cpu\"\nmemory = \"64M\"\nlisten = \"127.0.0.1:0\"\nkey = \"mesh.key\"\njoin = \"{}\"",
        other.local_addr().unwrap()
    );
    let file = folder.path().join("config.toml");
    fs::write(&file, config).unwrap();
    let log = folder.path().join("log");
    let mut command = Command::new(brickmesh());
    command.args(["peer", "--config"]).arg(file);
    command
        .stdout(Stdio::null())
        .stderr(fs::File::create(&log).unwrap());
    let peer = Running(command.spawn().unwrap());
    // It tries again and again, as the other may be replaced by a peer.
    for _ in 0..3 {
        let mut stream = accepted(&other);
        stream.set_read_timeout(Some(FAILED)).unwrap();
        let page =
            "HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\n\r\n<html>What?</html>\r\n"
                .repeat(3);
        stream.write_all(page.as_bytes()).unwrap();
        let mut rest = Vec::new();
        // Until it hangs up, however it does.
        let _ended = stream.read_to_end(&mut rest);
    }
    drop(peer);
    let log = fs::read_to_string(log).unwrap();
    assert!(!log.contains("panicked"), "{log}");
    assert!(!log.contains("mesh key"), "it is not about the key: {log}");
}

fn start_with(config: &str, more: &[&str]) -> (Option<i32>, String, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    fs::write(&file, config).unwrap();
    let log = folder.path().join("log");
    let mut command = Command::new(brickmesh());
    command.args(["peer", "--config"]).arg(&file).args(more);
    command
        .stdout(Stdio::null())
        .stderr(fs::File::create(&log).unwrap());
    let code = ended(&mut Running(command.spawn().unwrap()));
    (code, fs::read_to_string(log).unwrap(), folder)
}

#[test]
fn what_a_person_must_mend_ends_with_the_status_that_is_not_started_again() {
    let (code, text, folder) = start_with("key = \"mesh.key\"\nmemory = \"lots\"", &[]);
    assert_eq!(code, Some(2), "{text}");
    let expected = "config.toml, line 2: memory is \"lots\"";
    assert!(
        text.starts_with("brickmesh: ") && text.contains(expected),
        "{text}"
    );
    // Refused before anything was done.
    assert!(!folder.path().join("mesh.key").exists());

    let (code, text, _folder) = start_with("key = \"mesh.key\"\ndata = \".\"", &[]);
    assert_eq!(code, Some(1), "a folder may be mounted later: {text}");
    let (code, text, folder) = start_with("key = \"config.toml\"", &[]);
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("config.toml has mode") || text.contains("does not hold"),
        "{text}"
    );
    assert!(folder.path().join("config.toml").exists());
    let (code, text, _folder) = start_with("join = 5", &["--help"]);
    assert_eq!(
        code,
        Some(0),
        "help is given whatever the file says: {text}"
    );
    let (code, text, _folder) = start_with("", &["--memory", "lots"]);
    assert_eq!(code, Some(2), "{text}");
}

#[test]
fn metrics_on_a_port_that_is_taken_are_an_error_that_names_it() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let config = format!("key = \"mesh.key\"\nmetrics = \"{address}\"");
    let (code, text, _folder) = start_with(&config, &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains(&address) && text.contains("--metrics"),
        "{text}"
    );
}

#[test]
fn the_unit_ends_a_peer_no_earlier_than_it_may_take_and_does_not_restart_what_is_wrong() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../node/brickmesh.service");
    let unit = fs::read_to_string(unit).unwrap();
    let value = |key: &str| {
        let line = unit.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|rest| rest.strip_prefix('='))
            .unwrap_or_else(|| panic!("{key}"))
    };
    let longest = brickmesh_node::session::LEAVE_MAX + brickmesh_node::network::SHUTDOWN_MAX;
    assert!(value("TimeoutStopSec").parse::<u64>().unwrap() > longest.as_secs());
    assert_eq!(value("KillSignal"), "SIGTERM");
    assert_eq!(value("Restart"), "on-failure");
    let prevents = brickmesh_node::commands::STATUS_WRONG_USAGE.to_string();
    assert_eq!(value("RestartPreventExitStatus"), prevents);
    // The words of ExecStart are words that the program knows.
    let mut words = value("ExecStart").split_whitespace();
    assert!(words.next().unwrap().ends_with("/brickmesh"));
    assert_eq!(
        words.collect::<Vec<_>>(),
        ["peer", "--config", "/etc/brickmesh/config.toml"]
    );
}
