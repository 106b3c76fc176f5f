// How finely the linear sampler filters: each invocation samples a two-texel image at one fraction
// of the way from the first to the second texel's centre.
// Stage: compute, 64 invocations, one fraction each; the host compares with the exact line.

@group(0) @binding(0) var voxels: texture_3d<f32>;
@group(0) @binding(1) var linear: sampler;
@group(0) @binding(2) var table: texture_2d<f32>;
@group(0) @binding(3) var<storage, read_write> filtered: array<f32>;

// Normalised coordinate of invocation i's fraction (i + ½)/1024: centres stand at ¼ and ¾.
fn coordinate(i: u32) -> f32 {
    return 0.25 + 0.5 * (f32(i) + 0.5) / 1024.0;
}

@compute @workgroup_size(64)
fn probe_voxels(@builtin(global_invocation_id) id: vec3<u32>) {
    let at = vec3<f32>(coordinate(id.x), 0.5, 0.5);
    filtered[id.x] = textureSampleLevel(voxels, linear, at, 0.0).x;
}

@compute @workgroup_size(64)
fn probe_table(@builtin(global_invocation_id) id: vec3<u32>) {
    let at = vec2<f32>(coordinate(id.x), 0.5);
    filtered[id.x] = textureSampleLevel(table, linear, at, 0.0).x;
}
