#include "kernels/launch/cpu/body/operations.h"
#include "kernels/tile/cpu/simd.h"
#include "ops/activation.h"

namespace rocmforge::ROCMFORGE_ISA {
namespace {

/// out[i] = f(a[i], b[i]), the last vector in part.
template <class F>
inline void map(const float* a, const float* b, int64_t count, float* out, F f) {
  int64_t i = 0;
  for (; i + vec_width <= count; i += vec_width) {
    store(out + i, f(load(a + i), load(b + i)));
  }
  if (const int rest = static_cast<int>(count - i); rest > 0) {
    store_partial(out + i, f(load_partial(a + i, rest), load_partial(b + i, rest)), rest);
  }
}

}  // namespace

void exponential_array(const float* x, int64_t count, float* out) {
  map(x, x, count, out, [](Vec value, Vec) { return exponential(value); });
}

void rms_norm(const float* x, const float* weight, int64_t dim, float eps, float* out) {
  constexpr int chains = 4;  // sums that don't wait for each other
  Vec sums[chains] = {zero_vec(), zero_vec(), zero_vec(), zero_vec()};
  int64_t i = 0;
  for (; i + chains * vec_width <= dim; i += chains * vec_width) {
    for (int c = 0; c < chains; ++c) {
      const Vec value = load(x + i + c * vec_width);
      sums[c] = fma(value, value, sums[c]);
    }
  }
  for (; i < dim; i += vec_width) {
    const int64_t left = dim - i;
    const Vec value = load_partial(x + i, left < vec_width ? static_cast<int>(left) : vec_width);
    sums[0] = fma(value, value, sums[0]);
  }
  const float mean = sum_lanes((sums[0] + sums[1]) + (sums[2] + sums[3])) / static_cast<float>(dim);
  const Vec scale = broadcast(1.0f / __builtin_sqrtf(mean + eps));
  map(x, weight, dim, out, [scale](Vec value, Vec factor) { return value * scale * factor; });
}

namespace {

/// out[i] = activation(gate[i]) * up[i], or activation(up[i]) without a gate.
template <class F>
inline void activate(const float* gate, const float* up, int64_t width, float* out, F activation) {
  if (gate == nullptr) {
    map(up, up, width, out, [&](Vec u, Vec) { return activation(u); });
  } else {
    map(gate, up, width, out, [&](Vec g, Vec u) { return activation(g) * u; });
  }
}

}  // namespace

void silu_gate(const float* gate, const float* up, int64_t width, float* out) {
  activate(gate, up, width, out, [](Vec x) { return x / (broadcast(1.0f) + exponential(zero_vec() - x)); });
}

void gelu_tanh_gate(const float* gate, const float* up, int64_t width, float* out) {
  // (1 + tanh z) / 2 = 1 / (1 + e^(-2 z)), z = sqrt(2 / pi) * (g + 0.044715 g^3)
  activate(gate, up, width, out, [](Vec x) {
    const Vec inner = x * fma(x * x, broadcast(0.044715f), broadcast(1.0f));
    return x / (broadcast(1.0f) + exponential(inner * broadcast(-1.5957691216f)));
  });
}

void gelu_gate(const float* gate, const float* up, int64_t width, float* out) {
  // The share of |x| that does not pass is erfc(z) / 2 = e^(-z^2) t P(t), z = |x| / sqrt(2), t = 1 / (1 + 0.4 z), P fitted
  // to a relative error of 7e-8 up to z = 10.
  activate(gate, up, width, out, [](Vec x) {
    const Vec one = broadcast(1.0f);
    const Vec z = maximum(x, zero_vec() - x) * broadcast(0.70710678f);
    const Vec t = one / fma(z, broadcast(0.4f), one);
    Vec p = broadcast(0.0206283331f);
    p = fma(p, t, broadcast(-0.070168294f));
    p = fma(p, t, broadcast(0.0420112088f));
    p = fma(p, t, broadcast(0.0439625531f));
    p = fma(p, t, broadcast(0.0398914143f));
    p = fma(p, t, broadcast(0.0966911837f));
    p = fma(p, t, broadcast(0.10094513f));
    p = fma(p, t, broadcast(0.113221377f));
    p = fma(p, t, broadcast(0.112817124f));
    const Vec rest = p * t * exponential(zero_vec() - z * z);
    return x * (x < zero_vec() ? rest : one - rest);
  });
}

void gelu_quick_gate(const float* gate, const float* up, int64_t width, float* out) {
  activate(gate, up, width, out,
           [](Vec x) { return x / (broadcast(1.0f) + exponential(x * broadcast(-gelu_quick_slope))); });
}

void clamped_swiglu_gate(const float* gate, const float* up, int64_t width, float* out) {
  const Vec limit = broadcast(clamped_swiglu_limit);
  const Vec one = broadcast(1.0f);
  map(gate, up, width, out, [=](Vec g, Vec u) {
    g = minimum(limit, g);
    u = minimum(limit, maximum(zero_vec() - limit, u));
    return g / (one + exponential(g * broadcast(-clamped_swiglu_slope))) * (u + one);
  });
}

void relu_squared(const float* gate, const float* up, int64_t width, float* out) {
  activate(gate, up, width, out, [](Vec x) { return maximum(zero_vec(), x) * x; });
}

}  // namespace rocmforge::ROCMFORGE_ISA
