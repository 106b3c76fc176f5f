// Emission and absorption, front to back. Mirrors: `Dvr` in `modes.rs`.

fn partial_of(profile: vec3<f32>, q: vec3<f32>, toward: vec3<f32>) -> vec4<f32> {
    let color = color_of(profile);
    if (SHADED) {
        if (color.a > 0.0) {
            return shade(color, profile, q, toward);
        }
    }
    return color;
}

// over (Porter, Duff 1984)
fn combine(front: vec4<f32>, behind: vec4<f32>) -> vec4<f32> {
    return front + (1.0 - front.a) * behind;
}

fn is_done(acc: vec4<f32>) -> bool {
    return acc.a >= opaque;
}
