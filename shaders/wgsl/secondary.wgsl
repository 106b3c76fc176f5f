// Secondary rays. Where surfaces are lit later, `raycast` keeps their points (`points.wgsl`), each with what it adds to its pixel
// in full light; `go_through` says what a brick lets through of rays that the host sends from there, `reflect_rays` what reflected ones
// have seen once they are through it. Mirrors: `secondary.rs`, `vulkan/lighting.rs`, `vulkan/reflections.rs`.

// Rays, each of two vectors: where it begins and how far it reaches in world units; its direction. Reflected ones of four: where it
// begins and what of the pixel it is; its direction; the same in the world; what it has seen.
@group(0) @binding(9) var<storage, read> rays: array<vec4<f32>>;

// Column and row of this ray's pixel, 14 bits each, and a bit with which they are a normal float: others may become 0.
var<private> point_pixel: u32;
// What of its pixel this ray is, 0 to 1.
var<private> ray_weight: f32;

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
        let of_pixel = ray_weight * seen;
        if (of_pixel * s.color.a > DARK) {
            let normal = select(-toward, s.gradient / slope, slope > 1e-30);
            let to_viewer = select(normal, -normal, dot(normal, toward) > 0.0);
            keep_point(s, to_viewer, ambient * of_pixel, direct * of_pixel, vec4<f32>(toward, of_pixel * s.color.a));
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
    pixels[id.x] = march(d, vec3<f32>(0.0), MIDDLE, vec2<f32>(samples_end, begins.w), vec4<f32>(0.0));
}

// What reflected rays have seen once they are through the brick, `job.width` of them.
@compute @workgroup_size(64)
fn reflect_rays(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= job.width) {
        return;
    }
    let begins = rays[4u * id.x];
    eye = begins.xyz;
    light = scene.light;
    opaque = scene.opaque;
    ray_weight = begins.w;
    point_pixel = 0x40000000u | id.x;
    let ends = vec2<f32>(SAMPLES_MAX, 1e30);
    pixels[id.x] = march(rays[4u * id.x + 1u].xyz, rays[4u * id.x + 2u].xyz, MIDDLE, ends, rays[4u * id.x + 3u]);
}
