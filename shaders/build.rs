//! Compiles `wgsl/*.wgsl` to SPIR-V with naga, one file per entry point and variant.
//!
//! A variant is a choice of the `override` constants of a kernel; they are settled here, so that
//! drivers see constants and need no specialisation. Names: `raycast_` and a number whose bit b
//! is constant b of [`RAYCAST_SWITCHES`].

use naga::{
    back::{PipelineConstants, pipeline_constants::process_overrides, spv},
    proc::{BoundsCheckPolicies, BoundsCheckPolicy},
    valid::{Capabilities, ValidationFlags, Validator},
};
use std::{env, error::Error, fs, path::Path};

/// The `override` constants of `raycast.wgsl`.
const RAYCAST_SWITCHES: [&str; 4] = ["VOXELS_BY_SAMPLER", "TABLE_BY_SAMPLER", "SHADED", "LEAPS"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=wgsl");
    println!("cargo:rerun-if-changed=build.rs");
    let out = env::var("OUT_DIR")?;
    let out = Path::new(&out);
    for choice in 0..1_u32 << RAYCAST_SWITCHES.len() {
        let mut constants = PipelineConstants::default();
        for (bit, switch) in RAYCAST_SWITCHES.iter().enumerate() {
            constants.insert((*switch).into(), f64::from(choice >> bit & 1));
        }
        compile(
            "wgsl/raycast.wgsl",
            "raycast",
            &constants,
            &out.join(format!("raycast_{choice}")),
        )?;
    }
    let none = PipelineConstants::default();
    for entry in ["probe_voxels", "probe_table"] {
        compile("wgsl/probe.wgsl", entry, &none, &out.join(entry))?;
    }
    Ok(())
}

/// Compiles one entry point with its constants to `target` with the ending `.spv`.
fn compile(
    source: &str,
    entry: &str,
    constants: &PipelineConstants,
    target: &Path,
) -> Result<(), Box<dyn Error>> {
    let text = fs::read_to_string(source)?;
    let module = naga::front::wgsl::parse_str(&text)
        .map_err(|e| format!("{source}: {}", e.emit_to_string(&text)))?;
    let info = Validator::new(ValidationFlags::all(), Capabilities::all())
        .validate(&module)
        .map_err(|e| format!("{source}: {}", e.emit_to_string(&text)))?;
    let stage = naga::ShaderStage::Compute;
    let (module, info) = process_overrides(&module, &info, Some((stage, entry)), constants)?;
    let pipeline = spv::PipelineOptions {
        shader_stage: stage,
        entry_point: entry.into(),
    };
    let words = spv::write_vec(&module, &info, &options(), Some(&pipeline))?;
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    fs::write(target.with_extension("spv"), bytes)?;
    Ok(())
}

/// The kernels are ours and keep their own bounds: no checks or loop counters are added, which
/// cost up to a third of the speed.
fn options() -> spv::Options<'static> {
    spv::Options {
        lang_version: (1, 3),
        flags: spv::WriterFlags::empty(),
        force_loop_bounding: false,
        bounds_check_policies: BoundsCheckPolicies {
            index: BoundsCheckPolicy::Unchecked,
            buffer: BoundsCheckPolicy::Unchecked,
            image_load: BoundsCheckPolicy::Unchecked,
            binding_array: BoundsCheckPolicy::Unchecked,
        },
        use_storage_input_output_16: false,
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
        ..Default::default()
    }
}
