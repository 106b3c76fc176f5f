//! A lab on one machine: each host a network namespace with an address of its own, on one bridge
//! or each behind its own port of a router that forwards no multicast. A host may be held to a
//! share of a core, and its link to a rate. Needs root, `ip` and `nsenter`; `tc` for rates and cpu
//! control groups for shares.
//!
//! All hosts of a lab share a folder of configuration, and so a mesh key. Everything that a lab
//! makes goes with it, also when a test fails.

mod share;

pub use share::{CpuShare, cpu_time, cpu_time_by_thread};

use brickmesh_node::network::MeshKey;
use std::{
    error::Error,
    ffi::OsStr,
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// How hosts are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wiring {
    /// All on one bridge: multicast reaches everybody.
    Bridge,
    /// Each in a subnet of its own behind a router.
    Router,
}

/// What a host is held to; by default to nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Host {
    /// Fraction of one core.
    pub cpu_share: Option<f64>,
    /// Rate of what it sends and of what it receives, megabits a second each.
    pub link_megabits: Option<u32>,
}

/// Hosts and what runs on them.
#[derive(Debug)]
pub struct Lab {
    names: Vec<String>,
    middle: String,
    wiring: Wiring,
    /// Of the hosts, in their order.
    shares: Vec<Option<CpuShare>>,
    children: Vec<Child>,
    /// Configuration of the programs on all hosts: the mesh key.
    config: TempDir,
}

/// Bytes that a held link may send at once: a few frames of the network, small beside any message.
const LINK_BURST: &str = "32kb";
/// How long what is sent may wait for a held link before it is dropped.
const LINK_LATENCY: &str = "200ms";

static LABS: AtomicU32 = AtomicU32::new(0);

fn tool(name: &str, line: &str) -> Result<(), String> {
    let output = Command::new(name).args(line.split_whitespace()).output();
    match output {
        Ok(o) if o.status.success() => Ok(()),
        Ok(o) => Err(format!(
            "{name} {line}: {}",
            String::from_utf8_lossy(&o.stderr).trim()
        )),
        Err(e) => Err(format!("{name} {line}: {e}")),
    }
}

fn ip(line: &str) -> Result<(), String> {
    tool("ip", line)
}

/// A folder with a mesh key, made beforehand: whatever starts first finds it.
fn config() -> Result<TempDir, Box<dyn Error>> {
    let folder = TempDir::new()?;
    MeshKey::load_or_make(&folder.path().join("brickmesh/mesh.key"))?;
    Ok(folder)
}

impl Lab {
    /// Brings hosts up that are held to nothing.
    ///
    /// # Errors
    /// Why this machine cannot: then the test is to be skipped by name.
    pub fn new(hosts: usize, wiring: Wiring) -> Result<Self, String> {
        Self::with_hosts(&vec![Host::default(); hosts], wiring)
    }

    /// Brings these hosts up.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_hosts(hosts: &[Host], wiring: Wiring) -> Result<Self, String> {
        let id = format!(
            "bm{}x{}",
            std::process::id(),
            LABS.fetch_add(1, Ordering::Relaxed)
        );
        let config = config().map_err(|e| format!("configuration of the hosts: {e}"))?;
        let middle = format!("{id}m");
        ip(&format!("netns add {middle}"))?;
        let mut lab = Self {
            names: Vec::new(),
            middle,
            wiring,
            shares: Vec::new(),
            children: Vec::new(),
            config,
        };
        lab.wire(&id, hosts.len())?;
        for (n, host) in hosts.iter().enumerate() {
            if let Some(megabits) = host.link_megabits {
                lab.hold_link(n, megabits)?;
            }
            let share = |fraction| CpuShare::new(&lab.names[n], fraction);
            let share = host.cpu_share.map(share).transpose()?;
            lab.shares.push(share);
        }
        Ok(lab)
    }

    fn wire(&mut self, id: &str, hosts: usize) -> Result<(), String> {
        let middle = self.middle.clone();
        ip(&format!("-n {middle} link set lo up"))?;
        match self.wiring {
            Wiring::Bridge => {
                ip(&format!("-n {middle} link add br0 type bridge"))?;
                ip(&format!("-n {middle} link set br0 up"))?;
            }
            Wiring::Router => {
                let on = [
                    "netns",
                    "exec",
                    &middle,
                    "sysctl",
                    "-qw",
                    "net.ipv4.ip_forward=1",
                ];
                let done = Command::new("ip")
                    .args(on)
                    .status()
                    .map_err(|e| e.to_string())?;
                if !done.success() {
                    return Err("forwarding cannot be switched on".to_owned());
                }
            }
        }
        for n in 0..hosts {
            let name = format!("{id}h{n}");
            ip(&format!("netns add {name}"))?;
            self.names.push(name.clone());
            ip(&format!("-n {name} link set lo up"))?;
            ip(&format!(
                "-n {name} link add eth0 type veth peer name p{n} netns {middle}"
            ))?;
            ip(&format!(
                "-n {name} addr add {}/24 dev eth0",
                self.address(n)
            ))?;
            ip(&format!("-n {name} link set eth0 up"))?;
            ip(&format!("-n {middle} link set p{n} up"))?;
            match self.wiring {
                Wiring::Bridge => ip(&format!("-n {middle} link set p{n} master br0"))?,
                Wiring::Router => {
                    ip(&format!("-n {middle} addr add 10.77.{n}.1/24 dev p{n}"))?;
                    ip(&format!("-n {name} route add default via 10.77.{n}.1"))?;
                }
            }
        }
        Ok(())
    }

    /// The address of host `n`.
    #[must_use]
    pub fn address(&self, n: usize) -> String {
        match self.wiring {
            Wiring::Bridge => format!("10.77.0.{}", n + 10),
            Wiring::Router => format!("10.77.{n}.10"),
        }
    }

    /// Changes the share of a core that host `n` has, also while its processes run.
    ///
    /// # Errors
    /// A host that was brought up without a share, or what the kernel says.
    pub fn set_share(&self, n: usize, fraction: f64) -> Result<(), String> {
        self.share(n)?.set(fraction)
    }

    fn share(&self, n: usize) -> Result<&CpuShare, String> {
        let share = self.shares.get(n).and_then(Option::as_ref);
        share.ok_or_else(|| format!("host {n} has no share of a core"))
    }

    /// Holds both directions of a host's link to a rate.
    fn hold_link(&self, n: usize, megabits: u32) -> Result<(), String> {
        let bucket =
            format!("root tbf rate {megabits}mbit burst {LINK_BURST} latency {LINK_LATENCY}");
        let (host, middle) = (&self.names[n], &self.middle);
        tool("tc", &format!("-n {host} qdisc add dev eth0 {bucket}"))?;
        tool("tc", &format!("-n {middle} qdisc add dev p{n} {bucket}"))
    }

    /// Lets host `n` go before all others where all cores are taken, and a process that runs already be
    /// one of that host: its display.
    ///
    /// # Errors
    /// As [`Self::set_share`].
    pub fn go_first(&self, n: usize, display: u32) -> Result<(), String> {
        let share = self.share(n)?;
        share.go_first()?;
        share.take(display)
    }

    /// Runs a program on host `n`, within its share; its process id is that of the program.
    #[must_use]
    pub fn command(&self, n: usize, program: impl AsRef<OsStr>) -> Command {
        // Not `ip netns exec`: that hides control groups, and programs count threads by them.
        let net = format!("--net=/var/run/netns/{}", self.names[n]);
        let mut command = match &self.shares[n] {
            Some(share) => {
                let mut command = share.command();
                command.arg("nsenter");
                command
            }
            None => Command::new("nsenter"),
        };
        command.arg(net).arg(program);
        command.env("XDG_CONFIG_HOME", self.config.path());
        command
    }

    /// Cuts a host's link, or puts it back.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_link(&self, n: usize, up: bool) -> Result<(), String> {
        let state = if up { "up" } else { "down" };
        ip(&format!("-n {} link set p{n} {state}", self.middle))
    }

    /// Sends a signal, by its name, to a process that this lab started.
    ///
    /// # Errors
    /// A process that is not this lab's, or what the system says.
    pub fn signal(&self, pid: u32, signal: &str) -> Result<(), String> {
        if !self.children.iter().any(|c| c.id() == pid) {
            return Err(format!("process {pid} was not started in this lab"));
        }
        tool("kill", &format!("-{signal} {pid}"))
    }

    /// Waits until a process that this lab started has ended.
    ///
    /// # Errors
    /// A process that is not this lab's, or does not end in time.
    pub fn wait_for(&mut self, pid: u32, at_most: Duration) -> Result<(), String> {
        let child = self.children.iter_mut().find(|c| c.id() == pid);
        let child = child.ok_or_else(|| format!("process {pid} was not started in this lab"))?;
        let end = Instant::now() + at_most;
        while child.try_wait().map_err(|e| e.to_string())?.is_none() {
            if Instant::now() > end {
                return Err(format!("process {pid} has not ended within {at_most:?}"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Starts a command of [`Self::command`], to run until the lab ends; returns its process id.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn spawn(&mut self, command: &mut Command) -> Result<u32, String> {
        let child = command
            .spawn()
            .map_err(|e| format!("{}: {e}", command.get_program().display()))?;
        let pid = child.id();
        self.children.push(child);
        Ok(pid)
    }

    /// Starts the program on host `n`, to run until the lab ends; returns its process id.
    ///
    /// # Panics
    /// Where it cannot be started.
    pub fn start(&mut self, n: usize, args: &[&str]) -> u32 {
        let mut command = self.command(n, crate::program::brickmesh());
        command
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        self.spawn(&mut command).expect("the program starts")
    }

    /// Runs the program on host `n` to its end.
    ///
    /// # Panics
    /// Where it cannot be started.
    #[must_use]
    pub fn run(&self, n: usize, args: &[&str]) -> Output {
        self.command(n, crate::program::brickmesh())
            .args(args)
            .stdin(Stdio::null())
            .output()
            .expect("the program runs")
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for child in &mut self.children {
            if let Err(error) = child.kill().and_then(|()| child.wait()) {
                eprintln!("a process of the lab stays: {error}");
            }
        }
        // Empty now: they can go.
        self.shares.clear();
        for name in self.names.iter().chain([&self.middle]) {
            if let Err(error) = ip(&format!("netns delete {name}")) {
                eprintln!("a host of the lab stays: {error}");
            }
        }
    }
}
