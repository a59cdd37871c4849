#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "conformance/attention_problem.h"

namespace rocmforge::test {

struct AttentionCase {
  std::string name;
  Attention::Spec spec;
  std::vector<SequenceShape> shapes;
  AttentionCall call{};
};

inline void PrintTo(const AttentionCase& c, std::ostream* out) { *out << c.name; }

inline Attention::Spec heads(std::int32_t q_heads, std::int32_t kv_heads, std::int32_t head_dim,
                             const KvTypes& dtype = DType::f16) {
  Attention::Spec spec;
  spec.q_heads = q_heads;
  spec.kv_heads = kv_heads;
  spec.head_dim = head_dim;
  spec.kv_dtype = dtype;
  return spec;
}

inline Attention::Spec options(Attention::Spec spec, std::int32_t window, float soft_cap, bool sinks, float scale = 0.0f) {
  spec.window = window;
  spec.soft_cap = soft_cap;
  spec.sinks = sinks;
  spec.scale = scale;
  return spec;
}

inline Attention::Spec chunked(Attention::Spec spec, std::int32_t chunk) {
  spec.window = chunk;
  spec.chunked = true;
  return spec;
}

inline Attention::Spec decode(Attention::Spec spec) {
  spec.most_rows = 1;
  return spec;
}

inline Attention::Spec full(Attention::Spec spec) {
  spec.causal = false;
  return spec;
}

inline Attention::Spec masked(Attention::Spec spec) {
  spec.mask = true;
  return spec;
}

/// V as the first `value_dim` elements of K.
inline Attention::Spec latent(Attention::Spec spec, std::int32_t value_dim) {
  spec.value_dim = value_dim;
  return spec;
}

inline Attention::Spec in_and_out(Attention::Spec spec, DType dtype) {
  spec.io_dtype = dtype;
  return spec;
}

/// Small enough for an emulated GPU; every option and every kind of shape once.
std::vector<AttentionCase> tiny_attention_cases();
/// For the CPU and real GPUs.
std::vector<AttentionCase> attention_cases();
/// For real GPUs: 16,384 positions, batches of long prompts.
std::vector<AttentionCase> huge_attention_cases();

}  // namespace rocmforge::test
