//! `devices`: what this machine can render on, which is taken, and why.

use super::CommandResult;
use crate::{
    args::{DeviceChoice, JsonArgs},
    device_choice,
    terminal::say,
};
use serde_json::{Value, json};

pub(super) fn run(args: &JsonArgs) -> CommandResult {
    let memory = device_choice::default_memory_bytes(1);
    let cpu = device_choice::choose(DeviceChoice::Cpu, 1, memory)?;
    let taken = device_choice::choose(DeviceChoice::Auto, 1, memory)?;
    let (vulkan, no_vulkan) = match vulkan_devices() {
        Ok(devices) => (devices, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    if args.json {
        let json = json!({
            "cpu": { "name": cpu.device.info().name, "memory_bytes": memory },
            "vulkan": vulkan,
            "no_vulkan": no_vulkan,
            "taken": { "name": taken.device.info().name, "reason": taken.reason },
        });
        say(serde_json::to_string_pretty(&json)?)?;
        return Ok(());
    }
    say(format_args!("cpu       {}", cpu.device.info().name))?;
    for device in &vulkan {
        let text = |field: &str| device[field].as_str().unwrap_or("").to_owned();
        let usable = device["unusable"]
            .as_str()
            .map_or_else(String::new, |why| format!("; not usable: {why}"));
        let mib = device["memory_bytes"].as_u64().unwrap_or(0) >> 20;
        say(format_args!(
            "vulkan:{}  {} ({}, {mib} MiB, Vulkan {}, {}){usable}",
            device["index"],
            text("name"),
            text("kind"),
            text("api_version"),
            text("driver")
        ))?;
    }
    if let Some(why) = no_vulkan {
        say(format_args!("vulkan    none: {why}"))?;
    }
    say(format_args!(
        "auto takes: {}, because {}",
        taken.device.info().name,
        taken.reason
    ))?;
    Ok(())
}

#[cfg(feature = "vulkan")]
fn vulkan_devices() -> Result<Vec<Value>, String> {
    use brickmesh_shaders::device::vulkan::enumerate;
    let found = enumerate().map_err(|e| e.to_string())?;
    let entry = |d: brickmesh_shaders::device::vulkan::VulkanDeviceSummary| {
        let uuid = d
            .uuid
            .map(|u| u.iter().map(|b| format!("{b:02x}")).collect::<String>());
        json!({
            "index": d.index, "name": d.name, "kind": format!("{:?}", d.kind).to_lowercase(),
            "memory_bytes": d.memory_bytes, "api_version": d.api_version, "driver": d.driver,
            "uuid": uuid, "unusable": d.usable.err(),
        })
    };
    Ok(found.into_iter().map(entry).collect())
}

#[cfg(not(feature = "vulkan"))]
fn vulkan_devices() -> Result<Vec<Value>, String> {
    Err("this brickmesh was built without Vulkan".to_owned())
}
