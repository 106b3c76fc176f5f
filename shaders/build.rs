//! Compiles `wgsl/*.wgsl` to SPIR-V with naga, one file per entry point and variant.
//!
//! A raycast kernel is `raycast.wgsl` and the stages of a mode, a file of `wgsl/modes`. A variant is a
//! choice of its `override` constants; they are settled here, so that drivers see constants and need
//! no specialisation. Names: those of the family and of the mode, and a number whose bit b is constant b of
//! the family's switches ([`Family`]).

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

/// The `override` constants of `raycast.wgsl` that are chosen.
const SWITCHES: [&str; 8] = [
    "VOXELS_BY_SAMPLER",
    "TABLE_BY_SAMPLER",
    "SHADED",
    "LEAPS",
    "SEGMENTS",
    "EXTRAS",
    "SURFACES",
    "LIT_LATER",
];
/// Kernels of an entry point that differ by some of the switches.
struct Family {
    name: &'static str,
    entry: &'static str,
    /// What it does with points of surfaces.
    points: &'static str,
    /// Those that a number chooses, the lowest bit first.
    switches: &'static [&'static str],
    /// Those that are on in all; others are off.
    on: &'static [&'static str],
    /// Those that follow others.
    follows: &'static [(&'static str, &'static str)],
}

/// Rays from the eye.
const RAYCAST: Family = Family {
    name: "raycast",
    entry: "raycast",
    points: "no_points",
    switches: SWITCHES.split_at(7).0,
    on: &[],
    follows: &[],
};
/// The same where surfaces are lit later. Few pictures are, so few kernels do for all of them.
const LIT_LATER: Family = Family {
    name: "lit_later",
    entry: "raycast",
    points: "points",
    switches: &["VOXELS_BY_SAMPLER", "SHADED", "LEAPS", "SEGMENTS"],
    on: &["EXTRAS", "SURFACES", "LIT_LATER"],
    follows: &[],
};
/// Rays from surfaces. Their colours are of no account: gradients matter where opacity follows them.
const GO_THROUGH: Family = Family {
    name: "go_through",
    entry: "go_through",
    points: "no_points",
    switches: &[
        "VOXELS_BY_SAMPLER",
        "LEAPS",
        "SEGMENTS",
        "EXTRAS",
        "SURFACES",
    ],
    on: &[],
    follows: &[("SHADED", "EXTRAS")],
};
/// Rays that surfaces reflect: as those from the eye.
const REFLECT: Family = Family {
    name: "reflect",
    entry: "reflect_rays",
    ..LIT_LATER
};
/// The kernels that show surfaces, in mode iso, too; those of other modes are without the last switch, and send no rays from them.
const MODE_OF_SURFACES: &str = "dvr";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=wgsl");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/constants.rs");
    let out = env::var("OUT_DIR")?;
    let out = Path::new(&out);
    let parts = ["raycast", "surfaces", "triangles", "secondary"];
    let parts = parts.map(|name| format!("wgsl/{name}.wgsl"));
    let parts = parts.iter().map(fs::read_to_string);
    let kernel = parts.collect::<Result<Vec<_>, _>>()?.join("\n");
    let (mut table, mut of_surfaces) = (String::new(), String::new());
    for mode in modes()? {
        let name = mode.file_stem().unwrap_or_default().to_string_lossy();
        let kernel = format!("{kernel}\n{}", fs::read_to_string(&mode)?);
        let in_file = |e: Box<dyn Error>| format!("raycast.wgsl with {}: {e}", mode.display());
        let has_surfaces = name == MODE_OF_SURFACES;
        let kernels = RAYCAST.compile(&kernel, &name, has_surfaces, out);
        writeln!(table, "({name:?}, &[{}]),", kernels.map_err(in_file)?)?;
        for family in [LIT_LATER, GO_THROUGH, REFLECT]
            .iter()
            .filter(|_| has_surfaces)
        {
            let kernels = family.compile(&kernel, &name, true, out).map_err(in_file)?;
            let table = family.name.to_uppercase();
            let count = 1 << family.switches.len();
            writeln!(
                of_surfaces,
                "pub(super) static {table}: [&[u8]; {count}] = [{kernels}];"
            )?;
        }
    }
    let count = table.lines().count();
    let table = format!(
        "/// The raycast kernels, by the name of their mode and the bits of their switches.\n\
         pub(super) static RAYCAST: [(&str, &[&[u8]]); {count}] = [\n{table}];\n{of_surfaces}"
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

impl Family {
    /// Compiles the kernels of a mode, and returns what reads them, in the order of their numbers.
    fn compile(
        &self,
        kernel: &str,
        mode: &str,
        has_surfaces: bool,
        out: &Path,
    ) -> Result<String, Box<dyn Error>> {
        let points = fs::read_to_string(format!("wgsl/{}.wgsl", self.points))?;
        let module = Module::parse(&format!("{kernel}\n{points}"))?;
        let fewer = usize::from(!has_surfaces);
        let mut kernels = String::new();
        for choice in 0..1_u32 << (self.switches.len() - fewer) {
            let is_on = |switch: &str| {
                let bit = self.switches.iter().position(|s| *s == switch);
                bit.is_some_and(|bit| choice >> bit & 1 == 1) || self.on.contains(&switch)
            };
            let mut constants = PipelineConstants::default();
            for switch in SWITCHES {
                let follows = self
                    .follows
                    .iter()
                    .find(|(follower, _)| *follower == switch);
                let on = is_on(follows.map_or(switch, |(_, leader)| leader));
                constants.insert(switch.into(), f64::from(u8::from(on)));
            }
            for (constant, value) in constants::KERNEL_CONSTANTS {
                constants.insert(constant.into(), f64::from(value));
            }
            let target = format!("{}_{mode}_{choice}", self.name);
            module.compile(self.entry, &constants, &out.join(&target))?;
            write!(kernels, "spirv!({target:?}), ")?;
        }
        Ok(kernels)
    }
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
