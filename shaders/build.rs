//! Compiles `wgsl/*.wgsl` to SPIR-V with naga, one file per entry point and variant.
//!
//! A raycast kernel is `raycast.wgsl` and the stages of a mode, a file of `wgsl/modes`. A variant is a
//! choice of its `override` constants; they are settled here, so that drivers see constants and need
//! no specialisation. Names: `raycast_`, the mode, and a number whose bit b is constant b of
//! [`RAYCAST_SWITCHES`].

use naga::{
    back::{PipelineConstants, pipeline_constants::process_overrides, spv},
    proc::{BoundsCheckPolicies, BoundsCheckPolicy},
    valid::{Capabilities, ModuleInfo, ValidationFlags, Validator},
};
use std::{
    env,
    error::Error,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

#[path = "src/constants.rs"]
#[expect(unreachable_pub, reason = "the crate uses all of it")]
mod constants;

/// The `override` constants of `raycast.wgsl`.
const RAYCAST_SWITCHES: [&str; 7] = [
    "VOXELS_BY_SAMPLER",
    "TABLE_BY_SAMPLER",
    "SHADED",
    "LEAPS",
    "SEGMENTS",
    "EXTRAS",
    "SURFACES",
];
/// The kernels that show surfaces, in mode iso, too; those of other modes are without the last switch.
const MODE_OF_SURFACES: &str = "dvr";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=wgsl");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/constants.rs");
    let out = env::var("OUT_DIR")?;
    let out = Path::new(&out);
    let parts = ["raycast", "surfaces", "triangles"].map(|name| format!("wgsl/{name}.wgsl"));
    let parts = parts.iter().map(fs::read_to_string);
    let kernel = parts.into_iter().collect::<Result<Vec<_>, _>>()?.join("\n");
    let mut table = String::new();
    for mode in modes()? {
        let name = mode.file_stem().unwrap_or_default().to_string_lossy();
        let text = format!("{kernel}\n{}", fs::read_to_string(&mode)?);
        let in_file = |e: Box<dyn Error>| format!("raycast.wgsl with {}: {e}", mode.display());
        let module = Module::parse(&text).map_err(in_file)?;
        write!(table, "({name:?}, &[")?;
        let fewer = usize::from(name != MODE_OF_SURFACES);
        for choice in 0..1_u32 << (RAYCAST_SWITCHES.len() - fewer) {
            let mut constants = PipelineConstants::default();
            for (bit, switch) in RAYCAST_SWITCHES.iter().enumerate() {
                constants.insert((*switch).into(), f64::from(choice >> bit & 1));
            }
            for (constant, value) in constants::KERNEL_CONSTANTS {
                constants.insert(constant.into(), f64::from(value));
            }
            let target = format!("raycast_{name}_{choice}");
            module
                .compile("raycast", &constants, &out.join(&target))
                .map_err(in_file)?;
            write!(table, "spirv!({target:?}), ")?;
        }
        table += "]),\n";
    }
    let count = table.lines().count();
    let table = format!(
        "/// The raycast kernels, by the name of their mode and the bits of their switches.\n\
         pub(super) static RAYCAST: [(&str, &[&[u8]]); {count}] = [\n{table}];\n"
    );
    fs::write(out.join("raycast.rs"), table)?;
    let none = PipelineConstants::default();
    let probe = fs::read_to_string("wgsl/probe.wgsl")?;
    let in_file = |e: Box<dyn Error>| format!("probe.wgsl: {e}");
    let probe = Module::parse(&probe).map_err(in_file)?;
    for entry in ["probe_voxels", "probe_table"] {
        probe
            .compile(entry, &none, &out.join(entry))
            .map_err(in_file)?;
    }
    Ok(())
}

/// The files with the stages of each mode.
fn modes() -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let entries = fs::read_dir("wgsl/modes")?.map(|entry| Ok(entry?.path()));
    let mut files = entries.collect::<Result<Vec<PathBuf>, std::io::Error>>()?;
    files.sort();
    Ok(files)
}

/// A checked WGSL module.
struct Module {
    module: naga::Module,
    info: ModuleInfo,
}

impl Module {
    fn parse(text: &str) -> Result<Self, Box<dyn Error>> {
        let module = naga::front::wgsl::parse_str(text).map_err(|e| e.emit_to_string(text))?;
        let info = Validator::new(ValidationFlags::all(), Capabilities::all())
            .validate(&module)
            .map_err(|e| e.emit_to_string(text))?;
        Ok(Self { module, info })
    }

    /// Compiles one entry point with its constants to `target` with the ending `.spv`.
    fn compile(
        &self,
        entry: &str,
        constants: &PipelineConstants,
        target: &Path,
    ) -> Result<(), Box<dyn Error>> {
        let stage = naga::ShaderStage::Compute;
        let (module, info) =
            process_overrides(&self.module, &self.info, Some((stage, entry)), constants)?;
        let pipeline = spv::PipelineOptions {
            shader_stage: stage,
            entry_point: entry.into(),
        };
        let words = spv::write_vec(&module, &info, &options(), Some(&pipeline))?;
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        fs::write(target.with_extension("spv"), bytes)?;
        Ok(())
    }
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
