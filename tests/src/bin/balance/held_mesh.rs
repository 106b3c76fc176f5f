//! Peers on hosts that are held to a share of a core, and a viewer on a further host.

use crate::Setting;
use brickmesh_tests::lab::{Host, Lab, Wiring, cpu_time_by_thread};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

/// Memory of the viewer: too little for a brick, so that it renders nothing.
const VIEWER_MEMORY: &str = "1";

/// See the module.
#[derive(Debug)]
pub(crate) struct HeldMesh {
    lab: Lab,
    program: PathBuf,
    pids: Vec<u32>,
}

/// The name of a host's peer.
pub(crate) fn peer_name(host: usize) -> String {
    format!("host-{host}")
}

impl HeldMesh {
    /// Brings up so many hosts with a peer each, and the viewer's.
    pub(crate) fn new(setting: &Setting, hosts: usize) -> Result<Self, String> {
        let held = Host {
            cpu_share: Some(setting.share),
            link_megabits: setting.link_megabits,
        };
        let viewer = Host {
            cpu_share: Some(setting.viewer_share),
            link_megabits: None,
        };
        let mut all = vec![held; hosts];
        all.push(viewer);
        let lab = Lab::with_hosts(&all, Wiring::Bridge)?;
        let pids = Vec::new();
        let program = setting.program.clone();
        let mut mesh = Self { lab, program, pids };
        for host in 0..hosts {
            let mut command = mesh.lab.command(host, &mesh.program);
            command
                .args(["peer", "--device", "cpu", "--memory", &setting.peer_memory])
                .args(["--name", &peer_name(host)])
                .stdin(Stdio::null())
                .stdout(Stdio::null());
            // Programs of before have no such option.
            if setting.sharing != "auto" {
                command.args(["--sharing", setting.sharing]);
            }
            let pid = mesh.lab.spawn(&mut command)?;
            mesh.pids.push(pid);
        }
        Ok(mesh)
    }

    /// Hosts, without the viewer's.
    pub(crate) fn hosts(&self) -> usize {
        self.pids.len()
    }

    /// A `render` on the viewer's host, with what makes it ask all hosts.
    pub(crate) fn render(&self) -> Command {
        let mut command = self.lab.command(self.hosts(), &self.program);
        command
            .arg("render")
            .args(["--mesh", "--device", "cpu", "--memory", VIEWER_MEMORY])
            .args(["--wait-peers", &self.hosts().to_string()]);
        command
    }

    /// Processor time that the threads of each host's peer have taken so far, by name.
    pub(crate) fn cpu_times(&self) -> Result<Vec<BTreeMap<String, Duration>>, String> {
        let pids = self.pids.iter();
        pids.map(|&pid| cpu_time_by_thread(pid)).collect()
    }

    /// Changes a host's share of a core.
    pub(crate) fn set_share(&self, host: usize, fraction: f64) -> Result<(), String> {
        self.lab.set_share(host, fraction)
    }
}
