//! `presets`: the transfer functions that have names.

use super::CommandResult;
use crate::{args::JsonArgs, short_numbers::short, terminal::say, transfer::own_presets};
use brickmesh_topology::data::presets::{PRESETS, PresetValues};

pub(super) fn run(args: &JsonArgs) -> CommandResult {
    if args.json {
        let all = PRESETS.map(|p| {
            let (unit, range) = match p.values {
                PresetValues::Hounsfield => ("hounsfield", Some(p.range())),
                PresetValues::Normalised => ("data", None),
            };
            let function = p.function();
            serde_json::json!({"name": p.name, "what": p.what, "values": unit, "range": range, "points": function.points})
        });
        say(serde_json::to_string_pretty(&all)?)?;
        return Ok(());
    }
    for preset in PRESETS {
        let values = match preset.values {
            PresetValues::Hounsfield => {
                let [low, high] = preset.range().map(short);
                format!("{low} … {high} HU")
            }
            PresetValues::Normalised => "data".to_owned(),
        };
        say(format_args!(
            "{:<12} {values:<17} {}",
            preset.name, preset.what
        ))?;
    }
    for (name, path) in own_presets() {
        say(format_args!(
            "{name:<12} {:<17} {}",
            "your own",
            path.display()
        ))?;
    }
    say("data: stretched over the values of interest, or over what --transfer-range says")?;
    Ok(())
}
