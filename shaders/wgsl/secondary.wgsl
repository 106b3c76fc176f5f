// Secondary rays. Where surfaces are lit later, `raycast` keeps their points (`points.wgsl`), each with what it adds to its pixel
// in full light; `go_through` says what a brick lets through of rays that the host sends from there. Mirrors: `secondary.rs`,
// `vulkan/lighting.rs`.

// Rays, each of two vectors: where it begins and how far it reaches in world units; its direction.
@group(0) @binding(9) var<storage, read> rays: array<vec4<f32>>;

// Column and row of this ray's pixel, 14 bits each, and a bit with which they are a normal float: others may become 0.
var<private> point_pixel: u32;

// A surface where a ray meets it.
struct Surface {
    // Premultiplied, not lit.
    color: vec4<f32>,
    // Grid.
    at: vec3<f32>,
    // Stands on it, world.
    gradient: vec3<f32>,
    // What that counts as long at least.
    floor: f32,
}

// The colour of a surface, lit, or what it hides where it is lit later; `seen`: what the ray has left there.
fn surface_color(s: Surface, toward: vec3<f32>, seen: f32) -> vec4<f32> {
    var ambient = s.color.rgb;
    var direct = vec3<f32>(0.0);
    let slope = length(s.gradient);
    if (SHADED) {
        let cosine = cosines(s.gradient, max(slope, s.floor), toward);
        let shine = s.color.a * light.z * power(cosine.y, scene.exponent);
        ambient = s.color.rgb * light.x;
        direct = s.color.rgb * (light.y * cosine.x) + shine;
    }
    if (LIT_LATER) {
        if (seen * s.color.a > DARK) {
            let normal = select(-toward, s.gradient / slope, slope > 1e-30);
            keep_point(s, select(normal, -normal, dot(normal, toward) > 0.0), ambient * seen, direct * seen);
            return vec4<f32>(0.0, 0.0, 0.0, s.color.a);
        }
    }
    return vec4<f32>(ambient + direct, s.color.a);
}

// How opaque the brick is along rays, `job.width` of them.
@compute @workgroup_size(64)
fn go_through(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= job.width) {
        return;
    }
    let begins = rays[2u * id.x];
    let d = rays[2u * id.x + 1u].xyz;
    eye = begins.xyz;
    light = scene.light;
    opaque = scene.opaque;
    let samples_end = min(ceil(begins.w / scene.step_in_world - MIDDLE), SAMPLES_MAX) + MIDDLE;
    pixels[id.x] = march(d, vec3<f32>(0.0), MIDDLE, samples_end, begins.w);
}
