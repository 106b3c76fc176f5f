// Raycast of one job: the samples inside a half-open box of one brick, front to back.
// Stage: compute, workgroup 8×8, one ray (pixel) each. Colours linear, premultiplied.
//
// Sample k of a ray stands at grid position fma(k·step, d, e), whatever the brick or the job: the
// same expression decides who owns it everywhere, so that each sample has exactly one owner. Indices k
// are whole numbers, or all of a pixel's have the same fraction: its jitter.
//
// Stages: interval, sample, classify, combine; those in which modes differ are in `modes/`, a file of
// each: `partial_of` a sample, `combine`, `is_done`.
//
// Source: Levoy, "Efficient ray tracing of volume data", ACM TOG 9(3), 1990. Mirrors:
// `vulkan/params.rs`.

// Whether the linear sampler is precise enough for the voxels: else eight loads and a line in f32.
override VOXELS_BY_SAMPLER: bool;
// The same for the table's entries.
override TABLE_BY_SAMPLER: bool;
override SHADED: bool;
// Whether samples stand for ranges of values: `RenderSettings::preintegrate`.
override SEGMENTS: bool;
// Whether some macrocells of the brick are transparent.
override LEAPS: bool;
// Whether there is what few pictures have: planes that cut, a slab, a light that is not at the eye,
// another exponent than PLAIN_EXPONENT, opacity by gradient, a 2D function. Drivers on the processor
// run both sides of a branch, for every sample.
override EXTRAS: bool;
// Whether there are isosurfaces, `surfaces.wgsl`, or triangles, `triangles.wgsl`.
override SURFACES: bool;
// Whether surfaces are lit later: `secondary.wgsl`.
override LIT_LATER: bool;

// `constants.rs`
override CELL_EDGE: f32;
override NO_DATA_MIN: f32;
override DARK: f32;
override MIDDLE: f32;
// `transfer_table.rs`
const HIGH_UNITS: f32 = 4096.0;
const PLACE_MAX: f32 = 1e6;
const SEGMENT_MIN: f32 = 2.0;
// `slice.rs`
const SINE_MIN: f32 = 1e-6;
const BEYOND: f32 = 1e-4;
const SLAB_SAMPLES_MAX: f32 = 4e6;
// `transfer_shapes.rs`
const GRADIENT_NODES: f32 = 64.0;
// f32 counts samples exactly up to here.
const SAMPLES_MAX: f32 = 16777216.0;

struct SceneParams {
    // Where the ray of pixel (x,y) begins: this + start_right·u + start_down·v, u = x·2/width − 1 at pixel
    // centres; its direction: forward + right·u + down·v.
    start_in_grid: vec3<f32>,
    step_in_world: f32,
    forward_in_grid: vec3<f32>,
    pixel_x: f32,
    right_in_grid: vec3<f32>,
    pixel_y: f32,
    down_in_grid: vec3<f32>,
    table_last: f32,
    forward_in_world: vec3<f32>,
    inverse_table_size: f32,
    right_in_world: vec3<f32>,
    // 1: samples are jittered, 0: not.
    jitter: f32,
    down_in_world: vec3<f32>,
    // What a unit of the table's sums stands for.
    segment_unit: f32,
    // Columns of the map from a grid difference of stored values over two voxels to a gradient in
    // the world whose length is 1 at the gradient floor.
    gradient_x: vec3<f32>,
    // Which pixel of the whole picture pixel (0,0) is.
    picture_x: u32,
    gradient_y: vec3<f32>,
    picture_y: u32,
    gradient_z: vec3<f32>,
    // Exponent of the highlight, above 0.
    exponent: u32,
    // Ambient, diffuse, specular.
    light: vec3<f32>,
    // Opacity by gradient: per floor, at none; 0 and 1 where it does not follow it.
    fade_per_floor: f32,
    fade_at_none: f32,
    // Rows of a 2D function per gradient floor; 0: it is none.
    rows_per_floor: f32,
    // The middle of row 0 in the table's image, 0 to 1.
    first_row: f32,
    // 1: the light is not at the eye, 0: it is.
    aside: f32,
    // Unit vector to a light that is not at the eye.
    to_light: vec3<f32>,
    // How many planes cut: samples at p with dot(plane, (p, 1)) >= 0 are shown.
    plane_count: u32,
    planes: array<vec4<f32>, 6>,
    start_right: vec3<f32>,
    // How opaque a ray is behind which nothing is seen.
    opaque: f32,
    start_down: vec3<f32>,
    // Half the thickness of the slab that samples are in, world units; below 0: they are not.
    slice_half: f32,
    // dot(plane, (p, 1)): how far p is in front of the slab's middle, world units.
    slice_plane: vec4<f32>,
    // 1 on the axis that it is across, if it is across one, and where on that.
    slice_across: vec3<f32>,
    slice_at: f32,
    // Premultiplied, not lit.
    surface_colors: array<vec4<f32>, 8>,
    // Numbers of voxels on surfaces.
    surface_numbers: array<vec4<f32>, 2>,
    clip_low: vec3<f32>,
    surface_count: u32,
    clip_high: vec3<f32>,
    // 1: what is between surfaces is seen, too, 0: it is not.
    has_samples: f32,
    // Of triangles: premultiplied, not lit.
    materials: array<vec4<f32>, 256>,
}

struct JobParams {
    owned_low: vec3<f32>,
    first_x: u32,
    owned_high: vec3<f32>,
    first_y: u32,
    stored_low: vec3<f32>,
    width: u32,
    stored_last: vec3<f32>,
    height: u32,
    inverse_size: vec3<f32>,
    // Numbers per unit of what the image gives.
    sample_scale: f32,
    // Table coordinate = image value · scale + offset.
    table_scale: f32,
    table_offset: f32,
    // Number of a voxel = image value · scale + offset.
    number_scale: f32,
    number_offset: f32,
    // Cells that may have a surface, half-open, from the first stored voxel.
    cells_low: vec3<f32>,
    numbers_are_whole: f32,
    cells_high: vec3<f32>,
    // Points of surfaces that `points` has room for.
    points_max: u32,
}

// Where this ray begins.
var<private> eye: vec3<f32>;
// Numbers of the scene, read once a ray.
var<private> light: vec3<f32>;
var<private> opaque: f32;
var<immediate> job: JobParams;
@group(0) @binding(0) var voxels: texture_3d<f32>;
@group(0) @binding(1) var linear: sampler;
@group(0) @binding(2) var table: texture_2d<f32>;
@group(0) @binding(3) var<storage, read_write> pixels: array<vec4<f32>>;
@group(0) @binding(4) var<uniform> scene: SceneParams;
// A sampler of its own: the voxels' one may be unable to filter.
@group(0) @binding(5) var table_linear: sampler;

// Per macrocell, four bits for each octant of directions: the Chebyshev distance in cells to the nearest ahead that can be
// seen, 15 at most. `SkipGrid::packed_distances`.
@group(0) @binding(6) var leaps: texture_3d<u32>;

// Grid position of sample k.
fn position(k: f32, d: vec3<f32>) -> vec3<f32> {
    return fma(vec3<f32>(k * scene.step_in_world), d, eye);
}

fn owned(k: f32, d: vec3<f32>) -> bool {
    let p = position(k, d);
    return all(p >= job.owned_low) && all(p < job.owned_high);
}

// Distances at which a ray is between two planes; a line that never leaves is (0, far).
fn slab(e: f32, d: f32, low: f32, high: f32, far: f32) -> vec2<f32> {
    // What rounding may move a position by, generously; the exact predicate trims the rest.
    let margin = 4e-7 * (abs(e) + abs(high) + 1.0);
    if (abs(d) < 1e-20) {
        return select(vec2<f32>(far, 0.0), vec2<f32>(0.0, far), e >= low - margin && e <= high + margin);
    }
    let a = (low - margin - e) / d;
    let b = (high + margin - e) / d;
    return vec2<f32>(min(a, b), max(a, b));
}

// The jitter of a pixel of the whole picture, 0 to 255/256; see `jitter.rs`.
fn jitter(x: u32, y: u32) -> f32 {
    let state = (x + (y << 16u)) * 747796405u + 2891336453u;
    let word = ((state >> ((state >> 28u) + 4u)) ^ state) * 277803737u;
    let bits = (word >> 22u) ^ word;
    return f32(bits >> 24u) / 256.0;
}

// First sample that the job owns and the first beyond, of those with this fraction. Positions are
// monotone in k on each axis, so what lies between is owned entirely.
fn interval(d: vec3<f32>, fraction: f32) -> vec2<f32> {
    let e = eye;
    let far = SAMPLES_MAX * scene.step_in_world;
    let x = slab(e.x, d.x, job.owned_low.x, job.owned_high.x, far);
    let y = slab(e.y, d.y, job.owned_low.y, job.owned_high.y, far);
    let z = slab(e.z, d.z, job.owned_low.z, job.owned_high.z, far);
    let enter = max(max(x.x, y.x), max(z.x, 0.0));
    let leave = min(min(x.y, y.y), min(z.y, far));
    var first = max(floor(enter / scene.step_in_world) - 2.0, 0.0) + fraction;
    var end = min(ceil(leave / scene.step_in_world) + 3.0, SAMPLES_MAX) + fraction;
    while (first < end && !owned(first, d)) {
        first += 1.0;
    }
    while (end > first && !owned(end - 1.0, d)) {
        end -= 1.0;
    }
    return vec2<f32>(first, end);
}

// The samples of an interval that no plane cuts away: which side of it they are on is monotonic in k.
fn clipped(samples: vec2<f32>, d: vec3<f32>, fraction: f32) -> vec2<f32> {
    var first = samples.x;
    var end = samples.y;
    if (!EXTRAS) {
        return samples;
    }
    for (var i = 0u; i < scene.plane_count; i += 1u) {
        let plane = scene.planes[i];
        let at_eye = dot(plane.xyz, eye) + plane.w;
        let along = dot(plane.xyz, d);
        // Beside the plane, all of the ray is shown or nothing.
        let crossing = floor(clamp(-at_eye / (along * scene.step_in_world), -4.0, SAMPLES_MAX));
        if (abs(along) < 1e-20) {
            end = select(first, end, at_eye >= 0.0);
        } else if (along > 0.0) {
            first = max(first, crossing - 2.0 + fraction);
            while (first < end && fma(first * scene.step_in_world, along, at_eye) < 0.0) {
                first += 1.0;
            }
        } else {
            end = min(end, crossing + 3.0 + fraction);
            while (end > first && fma((end - 1.0) * scene.step_in_world, along, at_eye) < 0.0) {
                end -= 1.0;
            }
        }
    }
    return vec2<f32>(first, end);
}

// Moves the ray's beginning to its first sample in the slab; how many there are. As `GridSlice::samples`.
fn to_slice(d: vec3<f32>) -> f32 {
    let plane = scene.slice_plane;
    let along = dot(plane.xyz, d);
    let off = dot(plane.xyz, eye) + plane.w;
    if (abs(along) <= SINE_MIN || scene.slice_half > abs(along) * scene.step_in_world * SLAB_SAMPLES_MAX) {
        // Along the slab: all of the ray is in it, or nothing.
        let is_inside = scene.slice_half > 0.0 && abs(off) <= scene.slice_half;
        return select(0.0, SLAB_SAMPLES_MAX, is_inside);
    }
    let way = -off / along;
    let last = floor(scene.slice_half / (abs(along) * scene.step_in_world) + BEYOND);
    let first = max(ceil(-way / scene.step_in_world), -last);
    let across = scene.slice_across > vec3<f32>(0.5);
    let middle = select(fma(vec3<f32>(way), d, eye), vec3<f32>(scene.slice_at), across);
    eye = middle + d * (first * scene.step_in_world);
    return max(last - first + 1.0, 0.0);
}

// The field at q, voxels from the first stored one, in units of the image; clamped to the edge.
fn sample(q: vec3<f32>) -> f32 {
    if (VOXELS_BY_SAMPLER) {
        return textureSampleLevel(voxels, linear, (q + 0.5) * job.inverse_size, 0.0).x;
    }
    let c = clamp(q, vec3<f32>(0.0), job.stored_last);
    let below = floor(c);
    let f = c - below;
    let i = vec3<i32>(below);
    let j = min(i + 1, vec3<i32>(job.stored_last));
    let v000 = textureLoad(voxels, i, 0).x;
    let v100 = textureLoad(voxels, vec3<i32>(j.x, i.y, i.z), 0).x;
    let v010 = textureLoad(voxels, vec3<i32>(i.x, j.y, i.z), 0).x;
    let v110 = textureLoad(voxels, vec3<i32>(j.x, j.y, i.z), 0).x;
    let v001 = textureLoad(voxels, vec3<i32>(i.x, i.y, j.z), 0).x;
    let v101 = textureLoad(voxels, vec3<i32>(j.x, i.y, j.z), 0).x;
    let v011 = textureLoad(voxels, vec3<i32>(i.x, j.y, j.z), 0).x;
    let v111 = textureLoad(voxels, j, 0).x;
    let x = vec4<f32>(v000, v010, v001, v011);
    let lines = x + (vec4<f32>(v100, v110, v101, v111) - x) * f.x;
    let faces = lines.xz + (lines.yw - lines.xz) * f.y;
    return faces.x + (faces.y - faces.x) * f.z;
}

// Premultiplied colour of a step at a place in the table; clamped.
fn classify(x: f32) -> vec4<f32> {
    if (TABLE_BY_SAMPLER) {
        // One row, unless there is a 2D function.
        let row = select(0.5, scene.first_row, EXTRAS);
        return textureSampleLevel(table, table_linear, vec2<f32>((x + 0.5) * scene.inverse_table_size, row), 0.0);
    }
    return classify_in(x, 0u);
}

// The same in any row.
fn classify_in(x: f32, row: u32) -> vec4<f32> {
    let c = clamp(x, 0.0, scene.table_last);
    let last = u32(scene.table_last);
    // The whole numbers are clamped too: a voxel may be no number.
    let i = min(u32(c), last);
    let a = textureLoad(table, vec2<u32>(i, row), 0);
    let b = textureLoad(table, vec2<u32>(min(i + 1u, last), row), 0);
    return a + (b - a) * (c - f32(i));
}

// The ends of half a segment in ascending order, at least SEGMENT_MIN apart.
fn widened(ends: vec2<f32>) -> vec2<f32> {
    let e = clamp(ends, vec2<f32>(-PLACE_MAX), vec2<f32>(PLACE_MAX));
    let half = 0.5 * max(abs(e.y - e.x), SEGMENT_MIN);
    return vec2<f32>(0.5 * (e.x + e.y)) + vec2<f32>(-half, half);
}

// The mean between two places, in units, of the sums of a gradient node.
fn mean_between(ends: vec2<f32>, node: u32) -> vec4<f32> {
    let row = 1u + 3u * node;
    let cells = floor(clamp(ends, vec2<f32>(0.0), vec2<f32>(scene.table_last - 1.0)));
    let part = ends - cells;
    let i = min(vec2<u32>(cells), vec2<u32>(u32(scene.table_last) - 1u));
    let coarse = textureLoad(table, vec2<u32>(i.y, row), 0) - textureLoad(table, vec2<u32>(i.x, row), 0);
    let fine = textureLoad(table, vec2<u32>(i.y, row + 1u), 0) - textureLoad(table, vec2<u32>(i.x, row + 1u), 0);
    // held.y · part.y − held.x · part.x, exact in one cell however far its ends are.
    let held_x = textureLoad(table, vec2<u32>(i.x, row + 2u), 0);
    let held_y = textureLoad(table, vec2<u32>(i.y, row + 2u), 0);
    let parts = held_y * (part.y - part.x) + (held_y - held_x) * part.x;
    return (coarse * HIGH_UNITS + fine + parts) / (ends.y - ends.x);
}

// The mean of a segment, in units, of the sums of a gradient node: values change evenly in each half.
fn mean(profile: vec3<f32>, node: u32) -> vec4<f32> {
    return 0.5 * (mean_between(widened(profile.xy), node) + mean_between(widened(profile.yz), node));
}

// Premultiplied colour of what passes a step of such colour times optical depth and depth, in units.
fn through(units: vec4<f32>) -> vec4<f32> {
    let depth = units.a * scene.segment_unit;
    let alpha = 1.0 - exp(-depth);
    return vec4<f32>(units.rgb * (scene.segment_unit * alpha / max(depth, 1e-37)), alpha);
}

// What a sample shows whose segment has these places at its beginning, middle and end, as far as it is
// known without a gradient.
fn color_of(profile: vec3<f32>) -> vec4<f32> {
    if (!SEGMENTS) {
        return classify(profile.x);
    }
    if (EXTRAS) {
        if (scene.rows_per_floor > 0.0) {
            return vec4<f32>(1.0);
        }
    }
    return through(mean(profile, 0u));
}

// The same of a 2D function, with a gradient of so many floors.
fn color_2d(profile: vec3<f32>, gradient: f32) -> vec4<f32> {
    let y = clamp(gradient * scene.rows_per_floor, 0.0, GRADIENT_NODES - 1.0);
    let below = min(floor(y), GRADIENT_NODES - 2.0);
    let row = min(u32(below), u32(GRADIENT_NODES) - 2u);
    let t = y - below;
    if (!SEGMENTS) {
        return mix(classify_in(profile.x, 1u + row), classify_in(profile.x, 2u + row), t);
    }
    return through(mix(mean(profile, row), mean(profile, row + 1u), t));
}

// A difference of the field; 0 beside what is no data.
fn difference(q: vec3<f32>, axis: vec3<f32>) -> f32 {
    let d = sample(q + axis) - sample(q - axis);
    return select(0.0, d, abs(d) < NO_DATA_MIN);
}

// A power by squares.
fn power(base: f32, exponent: u32) -> f32 {
    var square = base;
    var product = 1.0;
    for (var rest = exponent; rest > 0u; rest = rest >> 1u) {
        if ((rest & 1u) == 1u) {
            product *= square;
        }
        square *= square;
    }
    return product;
}

// The gradient in the world, in floors.
fn gradient_at(q: vec3<f32>) -> vec3<f32> {
    let dx = difference(q, vec3<f32>(1.0, 0.0, 0.0));
    let dy = difference(q, vec3<f32>(0.0, 1.0, 0.0));
    let dz = difference(q, vec3<f32>(0.0, 0.0, 1.0));
    let s = job.sample_scale;
    return scene.gradient_x * (dx * s) + scene.gradient_y * (dy * s) + scene.gradient_z * (dz * s);
}

// Cosines of a gradient with the light and with the half vector; `size` is what it counts as long.
fn cosines(g: vec3<f32>, size: f32, toward: vec3<f32>) -> vec2<f32> {
    if (scene.aside > 0.0) {
        let between = scene.to_light - toward;
        let half = abs(dot(g, between)) / (size * sqrt(max(dot(between, between), 1e-6)));
        return vec2<f32>(abs(dot(g, scene.to_light)) / size, half);
    }
    return vec2<f32>(abs(dot(g, toward)) / size);
}

// Blinn-Phong; with a light at the eye, the halfway vector is the view direction. `first` is the colour
// where there is no 2D function.
fn shade(first: vec4<f32>, profile: vec3<f32>, q: vec3<f32>, toward: vec3<f32>) -> vec4<f32> {
    let g = gradient_at(q);
    // Normals fade below the floor.
    let slope = length(g);
    if (!EXTRAS) {
        let nl = abs(dot(g, toward)) / max(slope, 1.0);
        // PLAIN_EXPONENT in `params.rs`.
        let square = nl * nl;
        let fourth = square * square;
        return lit(first, nl, square * (fourth * fourth));
    }
    return shade_with_extras(first, profile, g, slope, toward);
}

fn shade_with_extras(
    first: vec4<f32>, profile: vec3<f32>, g: vec3<f32>, slope: f32, toward: vec3<f32>
) -> vec4<f32> {
    let seen = cosines(g, max(slope, 1.0), toward);
    var color = first;
    if (scene.rows_per_floor > 0.0) {
        color = color_2d(profile, slope);
    }
    let fade = clamp(slope * scene.fade_per_floor + scene.fade_at_none, 0.0, 1.0);
    return lit(color, seen.x, power(seen.y, scene.exponent)) * fade;
}

fn lit(color: vec4<f32>, diffuse: f32, specular: f32) -> vec4<f32> {
    let shine = light.z * specular;
    return vec4<f32>(color.rgb * (light.x + light.y * diffuse) + color.a * shine, color.a);
}

// The first sample from k on, below `end`, that lies in a macrocell that can be seen. From a cell
// at distance n a ray is free to leave the block of n cells ahead of it. The thousandth of a
// step keeps rounding from leaping over a sample beyond the border.
fn leap(first: f32, end: f32, d: vec3<f32>, per_sample: vec3<f32>) -> f32 {
    let last = vec3<i32>(textureDimensions(leaps)) - 1;
    // What does not move on an axis is in either octant: the one that `per_sample` is for.
    let negative = d < vec3<f32>(-1e-20);
    let bits = select(vec3<u32>(0u), vec3<u32>(4u, 8u, 16u), negative);
    let octant = bits.x + bits.y + bits.z;
    var k = first;
    while (k < end) {
        let q = position(k, d) - job.stored_low;
        // The last sample centre belongs to the last macrocell, which texels beyond repeat.
        let cell = min(vec3<i32>(q * (1.0 / CELL_EDGE)), last);
        let distance = i32((textureLoad(leaps, cell, 0).x >> octant) & 15u);
        if (distance == 0) {
            break;
        }
        let border = select(cell + distance, cell + 1 - distance, negative);
        let samples = (vec3<f32>(border) * CELL_EDGE - q) * per_sample;
        k += max(ceil(min(samples.x, min(samples.y, samples.z)) - 1e-3), 1.0);
    }
    return k;
}

@compute @workgroup_size(8, 8)
fn raycast(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= job.width || id.y >= job.height) {
        return;
    }
    let pixel = vec2<u32>(job.first_x, job.first_y) + id.xy;
    // Pixel centres of the view, never of the job: every job sees the same ray.
    let u = (f32(pixel.x) + 0.5) * scene.pixel_x - 1.0;
    let v = (f32(pixel.y) + 0.5) * scene.pixel_y - 1.0;
    let through = scene.forward_in_world + scene.right_in_world * u + scene.down_in_world * v;
    let inverse_length = 1.0 / length(through);
    light = scene.light;
    opaque = scene.opaque;
    eye = scene.start_in_grid + scene.start_right * u + scene.start_down * v;
    let d = (scene.forward_in_grid + scene.right_in_grid * u + scene.down_in_grid * v) * inverse_length;
    let toward = through * inverse_length;
    point_pixel = 0x40000000u | (pixel.y << 14u) | pixel.x;
    ray_weight = 1.0;

    let fraction = scene.jitter * jitter(scene.picture_x + pixel.x, scene.picture_y + pixel.y);
    var samples_end = SAMPLES_MAX;
    if (EXTRAS) {
        if (scene.slice_half >= 0.0) {
            samples_end = to_slice(d);
        }
    }
    pixels[id.y * job.width + id.x] = march(d, toward, fraction, vec2<f32>(samples_end, 1e30), vec4<f32>(0.0));
}

// What a ray shows of the job from where it begins, behind what it has met before; `ends`: that of its samples, and its reach.
fn march(d: vec3<f32>, toward: vec3<f32>, fraction: f32, ends: vec2<f32>, before: vec4<f32>) -> vec4<f32> {
    var samples = clipped(interval(d, fraction), d, fraction);
    samples.y = min(samples.y, ends.x);
    let negative = select(vec3<u32>(0u), vec3<u32>(4u, 8u, 16u), d < vec3<f32>(-1e-20));
    let octant = negative.x + negative.y + negative.z;
    if (SURFACES) {
        var way = shown_way(d);
        way.y = min(way.y, ends.y);
        walk_begin(d, way);
        triangles_begin(d, way);
        samples.y *= scene.has_samples;
    }
    // Samples per voxel on each axis, signed; an axis that a ray does not move on never ends it.
    let still = abs(d) < vec3<f32>(1e-20);
    let per_sample = select(1.0 / (d * scene.step_in_world), vec3<f32>(1e20), still);
    // Samples from one to the ends of its segment: half, and no more than a voxel on any axis.
    let farthest = max(abs(d.x), max(abs(d.y), abs(d.z))) * scene.step_in_world;
    let half_segment = min(0.5, 1.0 / farthest);
    // Where the last segment ended, and the value there: that of the next one's beginning.
    var last_end = -1.0;
    var last = 0.0;
    var acc = before;
    var k = samples.x;
    loop {
        if (LEAPS) {
            k = leap(k, samples.y, d, per_sample);
        }
        if (SURFACES) {
            let until = select(1e30, k * scene.step_in_world, k < samples.y);
            while (!is_done(acc) && has_met(until, octant)) {
                acc = combine(acc, met_color(toward, 1.0 - acc.a));
            }
        }
        // Not k >= end: a k that is no number must end the loop too.
        if (!(k < samples.y) || is_done(acc)) {
            break;
        }
        let q = position(k, d) - job.stored_low;
        var values: vec3<f32>;
        if (SEGMENTS) {
            let start = k - half_segment;
            let end = k + half_segment;
            if (start != last_end) {
                last = sample(position(start, d) - job.stored_low);
            }
            values.x = last;
            last = sample(position(end, d) - job.stored_low);
            last_end = end;
            values.y = sample(q);
            values.z = last;
        } else {
            values = vec3<f32>(sample(q));
        }
        if (all(values < vec3<f32>(NO_DATA_MIN))) {
            let profile = fma(values, vec3<f32>(job.table_scale), vec3<f32>(job.table_offset));
            acc = combine(acc, partial_of(profile, q, toward));
        }
        k += 1.0;
    }
    return acc;
}
