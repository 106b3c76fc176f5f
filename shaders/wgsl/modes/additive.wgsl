// The sum of all colours of a ray, up to 1. Mirrors: `Additive` in `modes.rs`.

fn partial_of(profile: vec3<f32>, q: vec3<f32>, toward: vec3<f32>) -> vec4<f32> {
    return classify(profile.x);
}

fn combine(front: vec4<f32>, behind: vec4<f32>) -> vec4<f32> {
    return min(front + behind, vec4<f32>(1.0));
}

fn is_done(acc: vec4<f32>) -> bool {
    return false;
}
