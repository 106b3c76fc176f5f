// Isosurfaces along a ray, in the cells of a job. Mirrors: `device/cpu/surfaces.rs`, which says how; here in f32, and a cell
// is looked at for one root after the other.

// The cell that the ray is in, named after its first voxel, from the first stored one.
var<private> walk_cell: vec3<i32>;
// Cells of the job that may be seen, half-open.
var<private> walk_low: vec3<i32>;
var<private> walk_high: vec3<i32>;
var<private> walk_d: vec3<f32>;
var<private> walk_inverse: vec3<f32>;
// Where the ray is, and ends, world units.
var<private> walk_at: f32;
var<private> walk_end: f32;
// The field where the ray is, where it is known.
var<private> walk_value: f32;
var<private> walk_known: bool;
// The axis whose face the ray is on; 3: it is on none.
var<private> walk_face: u32;
// Hits in the cell that was left last, near ones first.
var<private> hit_at: array<f32, 24>;
var<private> hit_surface: array<u32, 24>;
var<private> hit_next: u32;
var<private> hit_count: u32;

// Where faces are from the voxels that cells are named after: an axis of one voxel has one cell around it.
fn face_offset() -> vec3<f32> {
    return select(vec3<f32>(0.0), vec3<f32>(-0.5), job.stored_last < vec3<f32>(0.5));
}

// How far the face before cell `plane` of an axis is.
fn face_distance(axis: u32, plane: i32) -> f32 {
    return (f32(plane) + face_offset()[axis] + job.stored_low[axis] - eye[axis]) * walk_inverse[axis];
}

// Where the ray is in its cell, 0 to 1.
fn walk_local(at: f32) -> vec3<f32> {
    let p = fma(vec3<f32>(at), walk_d, eye) - job.stored_low - face_offset();
    return clamp(p - vec3<f32>(walk_cell), vec3<f32>(0.0), vec3<f32>(1.0));
}

// The number of a voxel: the stored one exactly, as that of a surface may be the same.
fn voxel_at(at: vec3<i32>) -> f32 {
    let value = textureLoad(voxels, clamp(at, vec3<i32>(0), vec3<i32>(job.stored_last)), 0).x;
    let number = fma(value, job.number_scale, job.number_offset);
    return select(number, round(number), job.numbers_are_whole > 0.0);
}

// Puts the ray into the cell of a block that it is in now; on the axis whose face it is on, it is at the border.
fn walk_place(low: vec3<i32>, high: vec3<i32>) {
    let p = fma(vec3<f32>(walk_at), walk_d, eye) - job.stored_low - face_offset();
    // Rounding must not lead back.
    let ahead = select(min(high, walk_cell + 1), high, walk_d > vec3<f32>(-1e-20)) - 1;
    let behind = select(low, max(low, walk_cell), walk_d > vec3<f32>(1e-20));
    walk_cell = max(behind, min(vec3<i32>(floor(p)), ahead));
    if (walk_face < 3u) {
        walk_cell[walk_face] = select(high[walk_face] - 1, low[walk_face], walk_d[walk_face] > 0.0);
    }
}

// Goes to the first cell between two distances, or to the end.
fn walk_begin(d: vec3<f32>, way: vec2<f32>) {
    walk_d = d;
    walk_inverse = 1.0 / d;
    walk_at = way.x;
    walk_end = way.y;
    walk_known = false;
    walk_face = 3u;
    hit_next = 0u;
    hit_count = 0u;
    walk_low = vec3<i32>(job.cells_low);
    walk_high = vec3<i32>(job.cells_high);
    walk_cell = select(walk_high - 1, walk_low, d > vec3<f32>(0.0));
    if (scene.surface_count == 0u) {
        walk_end = -1.0;
    }
    for (var a = 0u; a < 3u; a += 1u) {
        if (walk_low[a] >= walk_high[a]) {
            walk_end = -1.0;
        } else if (abs(d[a]) < 1e-20) {
            let here = eye[a] - job.stored_low[a] - face_offset()[a];
            if (here < f32(walk_low[a]) || here >= f32(walk_high[a])) {
                walk_end = -1.0;
            }
        } else {
            let up = d[a] > 0.0;
            let enters = face_distance(a, select(walk_high[a], walk_low[a], up));
            if (enters > walk_at) {
                walk_at = enters;
                walk_face = a;
            }
            walk_end = min(walk_end, face_distance(a, select(walk_low[a], walk_high[a], up)));
        }
    }
    if (walk_at < walk_end) {
        walk_place(walk_low, walk_high);
    }
}

// The field in the cell, of its corners: x0 and x1 for (y, z) = 00, 10, 01, 11.
fn inside_cell(x0: vec4<f32>, x1: vec4<f32>, q: vec3<f32>) -> f32 {
    let lines = x0 + (x1 - x0) * q.x;
    let faces = lines.xz + (lines.yw - lines.xz) * q.y;
    return faces.x + (faces.y - faces.x) * q.z;
}

// The field where the ray passes the face of its cell through which it comes or leaves: of the voxels on that face.
fn on_face(axis: u32, at: f32, leaves: bool) -> f32 {
    let b = (axis + 1u) % 3u;
    let c = (axis + 2u) % 3u;
    var corner = walk_cell;
    corner[axis] += select(0, 1, leaves == (walk_d[axis] > 0.0));
    let q = walk_local(at);
    var along_b = vec3<i32>(0);
    along_b[b] = 1;
    var along_c = vec3<i32>(0);
    along_c[c] = 1;
    let near = voxel_at(corner);
    let far = voxel_at(corner + along_c);
    let near_b = voxel_at(corner + along_b);
    let far_b = voxel_at(corner + along_b + along_c);
    let first = near + (near_b - near) * q[b];
    let second = far + (far_b - far) * q[b];
    // Whatever is rounded: what a face has, its corners have around it.
    let low = min(min(near, near_b), min(far, far_b));
    let high = max(max(near, near_b), max(far, far_b));
    return clamp(first + (second - first) * q[c], low, high);
}

fn cubic(k: vec4<f32>, s: f32) -> f32 {
    return ((k.x * s + k.y) * s + k.z) * s + k.w;
}

// The places around a root, each with the polynomial there, with a place between in the stead of one of them.
fn narrowed(k: vec4<f32>, around: vec4<f32>, s: f32) -> vec4<f32> {
    let value = cubic(k, s);
    let same = (value >= 0.0) == (around.y >= 0.0);
    return select(vec4<f32>(around.xy, s, value), vec4<f32>(s, value, around.zw), same);
}

fn secant(around: vec4<f32>) -> f32 {
    let s = around.x + (around.z - around.x) * (around.y / (around.y - around.w));
    return clamp(s, around.x, around.z);
}

fn halved(k: vec4<f32>, around: vec4<f32>) -> vec4<f32> {
    let nearer = narrowed(k, around, secant(around));
    return narrowed(k, nearer, 0.5 * (nearer.x + nearer.z));
}

// The root between two places on whose sides the polynomial differs. No loop: drivers on the processor leave loops
// after 2^16 turns of all loops together. Within 0.002 of the way through a cell, in one of a thousand cells; else within 1e-5.
fn cubic_root(k: vec4<f32>, near: vec2<f32>, far: vec2<f32>) -> f32 {
    let first = halved(k, halved(k, vec4<f32>(near, far)));
    return secant(halved(k, halved(k, halved(k, halved(k, first)))));
}

// Keeps the hit between two places of a piece of the way from `walk_at` to `leaves`, if there is one.
fn keep_root(k: vec4<f32>, near: vec2<f32>, far: vec2<f32>, leaves: f32, surface: u32) {
    if ((near.y >= 0.0) != (far.y >= 0.0)) {
        let way = leaves - walk_at;
        keep_hit(walk_at + cubic_root(k, near, far) * way, surface, near.y < far.y, way);
    }
}

fn surface_number(surface: u32) -> f32 {
    return scene.surface_numbers[surface / 4u][surface % 4u];
}

// `rises`: whether numbers do there. Hits no farther apart than roundings are in the order of their numbers.
fn keep_hit(at: f32, surface: u32, rises: bool, way: f32) {
    if (hit_count >= 24u) {
        return;
    }
    let near = 2e-5 * way + 4e-7 * at;
    var i = hit_count;
    while (i > 0u) {
        let apart = at - hit_at[i - 1u];
        let numbers = vec2<f32>(surface_number(surface), surface_number(hit_surface[i - 1u]));
        let is_next = numbers.x != numbers.y && rises == (numbers.x < numbers.y);
        if (apart > near || (apart >= -near && !is_next)) {
            break;
        }
        hit_at[i] = hit_at[i - 1u];
        hit_surface[i] = hit_surface[i - 1u];
        i -= 1u;
    }
    hit_at[i] = at;
    hit_surface[i] = surface;
    hit_count += 1u;
}

// Finds the hits from where the ray is to where it leaves the cell, through a face of an axis or, 3, at its end.
fn look_for_hits(leaves: f32, axis: u32) {
    let c = walk_cell;
    let x0 = vec4<f32>(
        voxel_at(c), voxel_at(c + vec3<i32>(0, 1, 0)), voxel_at(c + vec3<i32>(0, 0, 1)), voxel_at(c + vec3<i32>(0, 1, 1))
    );
    let x1 = vec4<f32>(
        voxel_at(c + vec3<i32>(1, 0, 0)), voxel_at(c + vec3<i32>(1, 1, 0)), voxel_at(c + vec3<i32>(1, 0, 1)),
        voxel_at(c + vec3<i32>(1, 1, 1))
    );
    let least = min(x0, x1);
    let most = max(x0, x1);
    let low = min(min(least.x, least.y), min(least.z, least.w));
    let high = max(max(most.x, most.y), max(most.z, most.w));
    var any = false;
    for (var i = 0u; i < scene.surface_count; i += 1u) {
        let number = surface_number(i);
        any = any || (low < number && number <= high);
    }
    let known = walk_known;
    walk_known = any && high < NO_DATA_MIN;
    if (!walk_known) {
        return;
    }
    let q0 = walk_local(walk_at);
    let q1 = walk_local(leaves);
    var before = walk_value;
    if (!known) {
        if (walk_face < 3u) {
            before = on_face(walk_face, walk_at, false);
        } else {
            before = clamp(inside_cell(x0, x1, q0), low, high);
        }
    }
    var after = 0.0;
    if (axis < 3u) {
        after = on_face(axis, leaves, true);
    } else {
        after = clamp(inside_cell(x0, x1, q1), low, high);
    }
    walk_value = after;
    // The field as c0 + cx·x + … + cxyz·xyz.
    let c0 = x0.x;
    let cx = x1.x - x0.x;
    let cy = x0.y - x0.x;
    let cz = x0.z - x0.x;
    let cxy = x1.y - x0.y - cx;
    let czx = x1.z - x0.z - cx;
    let cyz = x0.w - x0.z - cy;
    let cxyz = x1.w - x0.w - x1.z + x0.z - cxy;
    let e = q1 - q0;
    let k3 = cxyz * e.x * e.y * e.z;
    let k2 = cxy * e.x * e.y + cyz * e.y * e.z + czx * e.z * e.x
        + cxyz * (q0.x * e.y * e.z + q0.y * e.z * e.x + q0.z * e.x * e.y);
    let k1 = cx * e.x + cy * e.y + cz * e.z
        + cxy * (q0.x * e.y + q0.y * e.x) + cyz * (q0.y * e.z + q0.z * e.y) + czx * (q0.z * e.x + q0.x * e.z)
        + cxyz * (q0.x * q0.y * e.z + q0.y * q0.z * e.x + q0.z * q0.x * e.y);
    let k0 = inside_cell(x0, x1, q0);
    // Extrema, without cancellation, of a polynomial whose squares are no less than floats have; 2: there is none.
    let unit = 1.0 / (high - low);
    let u3 = k3 * unit;
    let u2 = k2 * unit;
    let u1 = k1 * unit;
    let square = u2 * u2 - 3.0 * u3 * u1;
    var extrema = vec2<f32>(2.0);
    if (square > 0.0) {
        let q = -(u2 + select(-sqrt(square), sqrt(square), u2 >= 0.0));
        let found = vec2<f32>(q / (3.0 * u3), u1 / q);
        let real = (found > vec2<f32>(0.0)) & (found < vec2<f32>(1.0));
        let kept = select(vec2<f32>(2.0), found, real);
        extrema = vec2<f32>(min(kept.x, kept.y), max(kept.x, kept.y));
    }
    for (var i = 0u; i < scene.surface_count; i += 1u) {
        let number = surface_number(i);
        if (!(low < number && number <= high)) {
            continue;
        }
        let k = vec4<f32>(k3, k2, k1, k0 - number);
        var near = vec2<f32>(0.0, before - number);
        if (extrema.x < 1.0) {
            let first = vec2<f32>(extrema.x, cubic(k, extrema.x));
            keep_root(k, near, first, leaves, i);
            near = first;
        }
        if (extrema.y < 1.0) {
            let second = vec2<f32>(extrema.y, cubic(k, extrema.y));
            keep_root(k, near, second, leaves, i);
            near = second;
        }
        keep_root(k, near, vec2<f32>(1.0, after - number), leaves, i);
    }
}

// Looks at the cell that the ray is in, and leaves it; leaps where nothing is seen.
fn walk_step(octant: u32) {
    hit_next = 0u;
    hit_count = 0u;
    var low = walk_cell;
    var high = walk_cell + 1;
    var hidden = false;
    if (LEAPS) {
        let edge = i32(CELL_EDGE);
        let last = vec3<i32>(textureDimensions(leaps)) - 1;
        let at = min(walk_cell / edge, last);
        let distance = i32((textureLoad(leaps, at, 0).x >> octant) & 15u);
        if (distance > 0) {
            hidden = true;
            // Ahead of the ray nothing is seen so far; behind it the borders are not asked for.
            low = (at + 1 - distance) * edge;
            high = (at + distance) * edge;
        }
    }
    var leaves = walk_end;
    var axis = 3u;
    for (var a = 0u; a < 3u; a += 1u) {
        if (abs(walk_d[a]) >= 1e-20) {
            let at = face_distance(a, select(low[a], high[a], walk_d[a] > 0.0));
            // On the border of the job, too: the field there is that of the face.
            if (at <= leaves) {
                leaves = at;
                axis = a;
            }
        }
    }
    leaves = max(leaves, walk_at);
    if (hidden) {
        walk_known = false;
    } else {
        look_for_hits(leaves, axis);
    }
    walk_at = leaves;
    if (axis == 3u) {
        walk_end = min(walk_end, walk_at);
        return;
    }
    let next = select(low[axis] - 1, high[axis], walk_d[axis] > 0.0);
    if (next < walk_low[axis] || next >= walk_high[axis]) {
        walk_end = walk_at;
        return;
    }
    walk_face = axis;
    if (hidden) {
        var first = max(low, walk_low);
        var end = min(high, walk_high);
        first[axis] = next;
        end[axis] = next + 1;
        walk_place(first, end);
    } else {
        walk_cell[axis] = next;
    }
}

// Whether there is a hit before a distance: `hit_at[hit_next]`.
fn has_hit(until: f32, octant: u32) -> bool {
    while (hit_next >= hit_count) {
        if (!(walk_at < walk_end && walk_at < until)) {
            return false;
        }
        walk_step(octant);
    }
    return hit_at[hit_next] < until;
}

// The colour of the next hit, lit; `seen`: what a ray has left there.
fn hit_color(toward: vec3<f32>, seen: f32) -> vec4<f32> {
    let color = scene.surface_colors[hit_surface[hit_next]];
    let at = fma(vec3<f32>(hit_at[hit_next]), walk_d, eye);
    hit_next += 1u;
    if (!SHADED && !LIT_LATER) {
        return color;
    }
    // SURFACE_FLOOR in `device/cpu/frame.rs`.
    return surface_color(Surface(color, at, gradient_at(at - job.stored_low), 1e-3), toward, seen);
}

// Where a ray is inside the clip box and not beyond the planes, world units.
fn shown_way(d: vec3<f32>) -> vec2<f32> {
    var way = vec2<f32>(0.0, 1e30);
    for (var a = 0u; a < 3u; a += 1u) {
        way = cut_way(way, eye[a] - scene.clip_low[a], d[a]);
        way = cut_way(way, scene.clip_high[a] - eye[a], -d[a]);
    }
    for (var i = 0u; i < scene.plane_count; i += 1u) {
        let plane = scene.planes[i];
        way = cut_way(way, dot(plane.xyz, eye) + plane.w, dot(plane.xyz, d));
    }
    return way;
}

// Shown where at_eye + t · along is 0 or more.
fn cut_way(way: vec2<f32>, at_eye: f32, along: f32) -> vec2<f32> {
    if (abs(along) < 1e-20) {
        return vec2<f32>(way.x, select(-1.0, way.y, at_eye >= 0.0));
    }
    let crossing = -at_eye / along;
    return select(vec2<f32>(way.x, min(way.y, crossing)), vec2<f32>(max(way.x, crossing), way.y), along > 0.0);
}
