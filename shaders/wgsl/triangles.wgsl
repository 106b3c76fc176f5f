// Triangles of the brick along a ray, one after the other. Mirrors: `triangle_tree.rs`, which says how; here in f32, and what is
// behind a hit is looked for when that is passed.

// `TriangleTree::words`, row by row; where there are no triangles, one that is 0.
@group(0) @binding(7) var tree: texture_2d<u32>;

// Parts by which f32 may be off: of places, of distances; and how near to each other two hits on edges are one.
const PLACE_ROUNDING: f32 = 4e-7;
const DISTANCE_ROUNDING: f32 = 2e-6;
const SAME_HIT: f32 = 4e-6;
// As WIDTH · (DEPTH_MAX + 1) in `triangle_tree.rs`.
const TRIANGLE_STACK: u32 = 148u;
const NO_TRIANGLE: u32 = 0xffffffffu;

// HITS_MAX in `triangle_tree.rs`.
const TRIANGLE_HITS: u32 = 512u;

// Hits that were looked for.
var<private> triangle_hits: u32;
// The next hit, or NO_TRIANGLE.
var<private> triangle: u32;
var<private> triangle_at: f32;
var<private> triangle_normal: vec3<f32>;
var<private> triangle_material: u32;
// Whether it is on an edge, and the ray comes from the side from which corners are counted anticlockwise: two bits.
var<private> triangle_side: u32;
var<private> triangle_d: vec3<f32>;
var<private> triangle_way: vec2<f32>;
var<private> triangle_first: u32;
var<private> triangle_stack: array<u32, 148>;
// Whether the surface that is met next is of triangles.
var<private> meets_triangle: bool;

fn tree_word(at: u32) -> vec4<u32> {
    // TREE_ROW in `resident.rs`.
    return textureLoad(tree, vec2<u32>(at & 2047u, at >> 11u), 0);
}

// Finds the first hit of a ray between two distances.
fn triangles_begin(d: vec3<f32>, way: vec2<f32>) {
    triangle_d = d;
    triangle_way = way;
    triangle_first = tree_word(0u).x;
    triangle = NO_TRIANGLE;
    triangle_at = way.x;
    triangle_side = 0u;
    triangle_material = NO_TRIANGLE;
    triangle_hits = 0u;
    if (triangle_first > 0u) {
        next_triangle(true);
    }
}

// Finds the next hit behind the last one, or from the beginning of the way on.
fn next_triangle(first: bool) {
    let after_at = triangle_at;
    let after = triangle;
    let after_side = triangle_side;
    let after_material = triangle_material;
    var best = NO_TRIANGLE;
    var best_at = triangle_way.y;
    triangle_hits += 1u;
    if (triangle_hits > TRIANGLE_HITS) {
        triangle = NO_TRIANGLE;
        return;
    }
    let by = max(max(abs(eye.x), abs(eye.y)), max(abs(eye.z), 1.0)) * PLACE_ROUNDING;
    let up = triangle_d >= vec3<f32>(0.0);
    let size = clamp(1.0 / abs(triangle_d), vec3<f32>(1e-30), vec3<f32>(1e30));
    let inverse = select(-size, size, up);
    let before = select(eye - by, eye + by, up);
    let behind = select(eye + by, eye - by, up);
    var count = 1u;
    triangle_stack[0] = 1u;
    while (count > 0u) {
        count -= 1u;
        let at = triangle_stack[count];
        let low_x = bitcast<vec4<f32>>(tree_word(at));
        let low_y = bitcast<vec4<f32>>(tree_word(at + 1u));
        let low_z = bitcast<vec4<f32>>(tree_word(at + 2u));
        let high_x = bitcast<vec4<f32>>(tree_word(at + 3u));
        let high_y = bitcast<vec4<f32>>(tree_word(at + 4u));
        let high_z = bitcast<vec4<f32>>(tree_word(at + 5u));
        let near_x = (select(high_x, low_x, up.x) - before.x) * inverse.x;
        let near_y = (select(high_y, low_y, up.y) - before.y) * inverse.y;
        let near_z = (select(high_z, low_z, up.z) - before.z) * inverse.z;
        let far_x = (select(low_x, high_x, up.x) - behind.x) * inverse.x;
        let far_y = (select(low_y, high_y, up.y) - behind.y) * inverse.y;
        let far_z = (select(low_z, high_z, up.z) - behind.z) * inverse.z;
        let start = vec4<f32>(after_at * (1.0 - DISTANCE_ROUNDING));
        let near = max(max(near_x, near_y), max(near_z, start));
        let far = min(min(far_x, far_y), min(far_z, vec4<f32>(best_at * (1.0 + DISTANCE_ROUNDING))));
        let reached = near <= far * (1.0 + DISTANCE_ROUNDING);
        let below = tree_word(at + 6u);
        let counts = tree_word(at + 7u);
        for (var i = 0u; i < 4u; i += 1u) {
            if (!reached[i]) {
                continue;
            }
            if (counts[i] == 0u) {
                if (count < TRIANGLE_STACK) {
                    triangle_stack[count] = 1u + 8u * below[i];
                    count += 1u;
                }
                continue;
            }
            for (var t = below[i]; t < below[i] + counts[i]; t += 1u) {
                let met = meet_triangle(t);
                if (!(met.x >= triangle_way.x && met.x <= best_at)) {
                    continue;
                }
                let side = u32(met.y);
                // Of those as near as each other that of the first material comes first.
                let material = tree_word(triangle_first + 4u * t + 3u).x;
                if (!first) {
                    let is_next = material > after_material || (material == after_material && t > after);
                    let is_behind = met.x > after_at || (met.x == after_at && is_next);
                    // What is met on an edge of two triangles counts once.
                    let is_same = side == after_side && side >= 2u && met.x - after_at <= SAME_HIT * met.x;
                    if (!is_behind || (is_same && material == after_material)) {
                        continue;
                    }
                }
                if (met.x == best_at && best != NO_TRIANGLE
                    && (material > triangle_material || (material == triangle_material && t > best))) {
                    continue;
                }
                best = t;
                best_at = met.x;
                triangle_side = side;
                triangle_material = material;
            }
        }
    }
    triangle = best;
    triangle_at = best_at;
    if (best != NO_TRIANGLE) {
        keep_triangle();
    }
}

// Volumes of its edges with a ray, and distance.
struct Met {
    parts: vec3<f32>,
    at: f32,
}

// The volume of an edge with a ray, but for the sign the same whichever of its ends is first: two triangles have no gap between
// them, nor a seam in which both are met, as wide as f32 rounds.
fn edge_volume(p: vec3<f32>, q: vec3<f32>) -> f32 {
    let ordered = p.x < q.x || (p.x == q.x && (p.y < q.y || (p.y == q.y && p.z < q.z)));
    let volume = dot(triangle_d, cross(select(q, p, ordered), select(p, q, ordered)));
    return select(-volume, volume, ordered);
}

fn met_by(t: u32) -> Met {
    let word = triangle_first + 4u * t;
    let a = bitcast<vec3<f32>>(tree_word(word).xyz) - eye;
    let b = bitcast<vec3<f32>>(tree_word(word + 1u).xyz) - eye;
    let c = bitcast<vec3<f32>>(tree_word(word + 2u).xyz) - eye;
    var met: Met;
    met.parts = vec3<f32>(edge_volume(b, c), edge_volume(c, a), edge_volume(a, b));
    let plane = cross(b - a, c - a);
    met.at = dot(plane, a) / dot(plane, triangle_d);
    return met;
}

// How far a triangle is, -1: the ray or this job does not meet it; and its side.
fn meet_triangle(t: u32) -> vec2<f32> {
    let none = vec2<f32>(-1.0, 0.0);
    let met = met_by(t);
    let inside = all(met.parts >= vec3<f32>(0.0)) || all(met.parts <= vec3<f32>(0.0));
    let sum = met.parts.x + met.parts.y + met.parts.z;
    if (!inside || sum == 0.0) {
        return none;
    }
    let p = fma(vec3<f32>(met.at), triangle_d, eye);
    if (!(all(p >= job.owned_low) && all(p < job.owned_high))) {
        return none;
    }
    let on_edge = any(met.parts == vec3<f32>(0.0));
    return vec2<f32>(met.at, select(0.0, 1.0, sum > 0.0) + select(0.0, 2.0, on_edge));
}

fn unpacked_normal(bits: u32) -> vec3<f32> {
    let xy = vec2<f32>(vec2<i32>(i32(bits << 16u) >> 16u, i32(bits) >> 16u)) / 32767.0;
    let z = 1.0 - abs(xy.x) - abs(xy.y);
    let folded = (1.0 - abs(xy.yx)) * select(vec2<f32>(-1.0), vec2<f32>(1.0), xy >= vec2<f32>(0.0));
    return normalize(vec3<f32>(select(xy, folded, z < 0.0), z));
}

// The normal of the hit that was found.
fn keep_triangle() {
    let word = triangle_first + 4u * triangle;
    let parts = met_by(triangle).parts;
    triangle_normal = unpacked_normal(tree_word(word).w) * parts.x + unpacked_normal(tree_word(word + 1u).w) * parts.y
        + unpacked_normal(tree_word(word + 2u).w) * parts.z;
}

// Whether a surface of either kind is met before a distance.
fn has_met(until: f32, octant: u32) -> bool {
    let ahead = select(triangle_at, 1e30, triangle == NO_TRIANGLE);
    if (has_hit(min(until, ahead), octant)) {
        meets_triangle = false;
        return true;
    }
    meets_triangle = ahead < until;
    return meets_triangle;
}

// The colour of the surface that is met, lit; `seen`: what a ray has left there.
fn met_color(toward: vec3<f32>, seen: f32) -> vec4<f32> {
    if (!meets_triangle) {
        return hit_color(toward, seen);
    }
    var color = scene.materials[min(triangle_material, 255u)];
    if (SHADED || LIT_LATER) {
        let n = triangle_normal / max(max(abs(triangle_normal.x), abs(triangle_normal.y)), max(abs(triangle_normal.z), 1e-37));
        let g = scene.gradient_x * n.x + scene.gradient_y * n.y + scene.gradient_z * n.z;
        let at = fma(vec3<f32>(triangle_at), triangle_d, eye);
        color = surface_color(Surface(color, at, g, 1e-30), toward, seen);
    }
    next_triangle(false);
    return color;
}
