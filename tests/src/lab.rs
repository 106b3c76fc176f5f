//! A lab on one machine: each host a network namespace with an address of its own, on one bridge
//! or each behind its own port of a router that forwards no multicast. Needs root and `ip`.
//!
//! Everything that a lab makes goes with it, also when a test fails.

use std::{
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

/// How hosts are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wiring {
    /// All on one bridge: multicast reaches everybody.
    Bridge,
    /// Each in a subnet of its own behind a router.
    Router,
}

/// Hosts and what runs on them.
#[derive(Debug)]
pub struct Lab {
    names: Vec<String>,
    middle: String,
    wiring: Wiring,
    children: Vec<Child>,
}

static LABS: AtomicU32 = AtomicU32::new(0);

fn ip(line: &str) -> Result<(), String> {
    let output = Command::new("ip").args(line.split_whitespace()).output();
    match output {
        Ok(o) if o.status.success() => Ok(()),
        Ok(o) => Err(format!(
            "ip {line}: {}",
            String::from_utf8_lossy(&o.stderr).trim()
        )),
        Err(e) => Err(format!("ip {line}: {e}")),
    }
}

impl Lab {
    /// Brings hosts up.
    ///
    /// # Errors
    /// Why this machine cannot: then the test is to be skipped by name.
    pub fn new(hosts: usize, wiring: Wiring) -> Result<Self, String> {
        let id = format!(
            "bm{}x{}",
            std::process::id(),
            LABS.fetch_add(1, Ordering::Relaxed)
        );
        let middle = format!("{id}m");
        ip(&format!("netns add {middle}"))?;
        let mut lab = Self {
            names: Vec::new(),
            middle,
            wiring,
            children: Vec::new(),
        };
        lab.wire(&id, hosts)?;
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

    fn command(&self, n: usize, args: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.names[n]])
            .arg(crate::program::brickmesh())
            .args(args);
        command
    }

    /// Starts the program on host `n`, to run until the lab ends.
    ///
    /// # Panics
    /// Where it cannot be started.
    pub fn start(&mut self, n: usize, args: &[&str]) {
        let child = self
            .command(n, args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        self.children.push(child.expect("the program starts"));
    }

    /// Runs the program on host `n` to its end.
    ///
    /// # Panics
    /// Where it cannot be started.
    #[must_use]
    pub fn run(&self, n: usize, args: &[&str]) -> Output {
        self.command(n, args)
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
        for name in self.names.iter().chain([&self.middle]) {
            if let Err(error) = ip(&format!("netns delete {name}")) {
                eprintln!("a host of the lab stays: {error}");
            }
        }
    }
}
