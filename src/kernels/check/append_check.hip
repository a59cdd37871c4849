// RoPE and the append to pages as plain as they can be written: a thread takes a head of a token, because Q turns in place
// and elements of Q8_0 share scales; everything is computed in double. Formulas: ops/rope.h, ops/latent.h, ops/kv_layout.h.

#include "kernels/attention/portable/attention.h"
#include "kernels/check/append_args.h"
#include "kernels/check/check_code.h"

namespace rocmforge::check_kernels {
namespace {

/// A head as it comes from the projection. operator() gives an element after its norm and its turn.
struct TurnedHead {
  const TurnCheckArgs& turn;
  const float* x;
  const float* weight;                      ///< of the norm; null for 1
  int pairs;                                ///< that turn
  std::int32_t position;                    ///< of the token, on the first axis
  const std::int32_t* positions = nullptr;  ///< on each axis; null where there is one
  double before = 1.0;                      ///< factor of the norm before the turn, with the weights
  double after = 1.0;                       ///< likewise after it
  bool weight_after = false;

  [[nodiscard]] __device__ double weight_of(int dim) const {
    return weight != nullptr ? static_cast<double>(weight[dim]) : 1.0;
  }
  [[nodiscard]] __device__ double input(int dim) const {
    return static_cast<double>(x[dim]) * before * (weight_after ? 1.0 : weight_of(dim));
  }
  [[nodiscard]] __device__ double turned(int dim) const {
    if (dim >= 2 * pairs) {
      return input(dim);
    }
    const bool adjacent = turn.adjacent != 0;
    const int p = adjacent ? dim / 2 : dim % pairs;
    const bool is_second = adjacent ? dim % 2 != 0 : dim >= pairs;
    const double first = input(adjacent ? 2 * p : p);
    const double second = input(adjacent ? 2 * p + 1 : p + pairs);
    // The angle is a product in float, as the models were trained with. In units of pi it needs no long reduction.
    const std::int32_t on_axis = positions != nullptr ? positions[turn.axes[p]] : position;
    const double angle = static_cast<double>(static_cast<float>(on_axis) * turn.inverse_frequency[p]);
    const double half_turns = angle * 0.31830988618379067154;
    const double cosine = cospi(half_turns) * turn.magnitude;
    const double sine = sinpi(half_turns) * turn.magnitude;
    return is_second ? first * sine + second * cosine : first * cosine - second * sine;
  }
  [[nodiscard]] __device__ double operator()(int dim) const {
    return turned(dim) * after * (weight_after ? weight_of(dim) : 1.0);
  }
};

/// 1 / sqrt(mean(value(i)^2) + eps)
template <class Value>
__device__ double norm_factor(int count, double eps, const Value& value) {
  double sum = 0.0;
  for (int i = 0; i < count; ++i) {
    sum += value(i) * value(i);
  }
  return 1.0 / sqrt(sum / count + eps);
}

__device__ double query_factor(const TurnCheckArgs& turn, std::int32_t position) {
  return turn.temperature_scale != 0.0
             ? 1.0 + turn.temperature_scale * log(1.0 + static_cast<double>(position / turn.temperature_length))
             : 1.0;
}

/// q [head_dim] becomes factor * head(dim); `head` reads q, of which both elements of a pair change together.
__device__ void turn_in_place(const TurnedHead& head, float* q, int head_dim, double factor) {
  for (int p = 0; p < head.pairs; ++p) {
    const int first = head.turn.adjacent != 0 ? 2 * p : p;
    const int second = head.turn.adjacent != 0 ? 2 * p + 1 : p + head.pairs;
    const auto one = static_cast<float>(head(first) * factor);
    const auto other = static_cast<float>(head(second) * factor);
    q[first] = one;
    q[second] = other;
  }
  for (int dim = 2 * head.pairs; dim < head_dim; ++dim) {
    q[dim] = static_cast<float>(head(dim) * factor);
  }
}

__device__ bool is_padding(const PagesCheckArgs& pages, std::int64_t token) {
  return pages.kv_lengths[pages.sequence_of[token]] == 0;
}

/// The elements value(dim) of a token's head become those of plane `plane` of its page.
template <class Value>
__device__ void store_head(const PagesCheckArgs& pages, std::int64_t token, int plane, bool by_dim, const Value& value) {
  constexpr int group = 32;
  const std::int32_t sequence = pages.sequence_of[token];
  const int cell = pages.kv_lengths[sequence] - pages.query_offsets[sequence + 1] + static_cast<int>(token);
  const int slot = cell % pages.block_tokens;
  const std::int64_t entry = std::int64_t{sequence} * pages.max_blocks + cell / pages.block_tokens;
  std::uint8_t* const head = pages.cache + pages.block_tables[entry] * pages.block_bytes + plane * pages.head_bytes;
  const auto place = [&](int dim, int dims) { return by_dim ? dim * pages.block_tokens + slot : slot * dims + dim; };
  const bool quantised = pages.dtype == DType::q8_0;
  auto* const scales = reinterpret_cast<half*>(head + std::int64_t{pages.block_tokens} * pages.head_dim);
  for (int first = 0; first < pages.head_dim; first += group) {
    const int end = min(first + group, pages.head_dim);
    float largest = 0.0f;
    for (int dim = first; quantised && dim < end; ++dim) {
      largest = fmaxf(largest, fabsf(static_cast<float>(value(dim))));
    }
    const half scale = gpu::from_float<half>(largest * (1.0f / 127.0f));
    const float unit = gpu::to_float(scale);
    if (quantised) {
      scales[place(first / group, pages.head_dim / group)] = scale;
    }
    for (int dim = first; dim < end; ++dim) {
      const auto element = static_cast<float>(value(dim));
      if (quantised) {
        const float quant = unit > 0.0f ? fminf(fmaxf(rintf(element / unit), -127.0f), 127.0f) : 0.0f;
        head[place(dim, pages.head_dim)] = static_cast<std::uint8_t>(static_cast<std::int8_t>(quant));
      } else {
        gpu::store_io(head, pages.dtype, place(dim, pages.head_dim), element);
      }
    }
  }
}

/// Head h of a token, whose heads of V follow those of K, and these Q's.
__device__ TurnedHead head_at(const RopeCheckArgs& args, std::int64_t token, int h) {
  const int kv_head = h - args.q_heads;
  const bool is_value = kv_head >= args.kv_heads;
  const int dims = args.pages.head_dim;
  const float* const x = kv_head < 0 ? args.q + std::int64_t{h} * dims
                         : is_value  ? args.v + std::int64_t{kv_head - args.kv_heads} * dims
                                     : args.k + std::int64_t{kv_head} * dims;
  TurnedHead head{args.turn, x + token * args.stride, nullptr, is_value ? 0 : args.turn.pairs,
                  args.pages.positions[token * args.pages.position_axes]};
  head.positions = args.turn.axes != nullptr ? args.pages.positions + token * args.pages.position_axes : nullptr;
  const float* const weight = kv_head < 0 ? args.q_norm : args.k_norm;
  if (is_value ? args.value_norm == 0 : weight == nullptr) {
    return head;
  }
  head.weight_after = args.norm_after_turn != 0;
  const double factor =
      norm_factor(dims, args.norm_eps, [&](int dim) { return head.weight_after ? head.turned(dim) : head.input(dim); });
  head.before = head.weight_after ? 1.0 : factor;
  head.after = head.weight_after ? factor : 1.0;
  head.weight = is_value ? nullptr : weight;
  return head;
}

}  // namespace

ROCMFORGE_CHECK_KERNEL check_rope(RopeCheckArgs args) {
  const int heads = args.q_heads + 2 * args.kv_heads;
  for_each_element(args.pages.tokens * heads, [&](std::int64_t i) {
    const std::int64_t token = i / heads;
    const int h = static_cast<int>(i % heads);
    if (is_padding(args.pages, token)) {
      return;
    }
    const TurnedHead head = head_at(args, token, h);
    if (h < args.q_heads) {
      float* const q = args.q + token * args.stride + std::int64_t{h} * args.pages.head_dim;
      turn_in_place(head, q, args.pages.head_dim, query_factor(args.turn, head.position));
    } else {
      const int plane = h - args.q_heads;
      store_head(args.pages, token, plane, (plane < args.kv_heads ? args.pages.k_by_dim : args.pages.v_by_dim) != 0, head);
    }
  });
}

ROCMFORGE_CHECK_KERNEL check_latent_append(LatentAppendCheckArgs args) {
  const int heads = args.q_heads + 1;
  for_each_element(args.pages.tokens * heads, [&](std::int64_t i) {
    const std::int64_t token = i / heads;
    const int h = static_cast<int>(i % heads);
    if (is_padding(args.pages, token)) {
      return;
    }
    const std::int32_t position = args.pages.positions[token];
    if (h < args.q_heads) {
      const double factor = query_factor(args.turn, position);
      float* const q = args.q + token * args.q_stride + std::int64_t{h} * args.q_dim;
      const int plain = args.q_dim - args.n_rot;
      for (int dim = 0; dim < plain && factor != 1.0; ++dim) {
        q[dim] = static_cast<float>(static_cast<double>(q[dim]) * factor);
      }
      turn_in_place({args.turn, q + plain, nullptr, args.turn.pairs, position}, q + plain, args.n_rot, factor);
      return;
    }
    const float* const latent = args.kv + token * args.kv_stride;
    const double scale = norm_factor(args.rank, args.norm_eps, [&](int dim) { return static_cast<double>(latent[dim]); });
    const TurnedHead tail{args.turn, latent + args.rank, nullptr, args.turn.pairs, position};
    store_head(args.pages, token, 0, args.pages.k_by_dim != 0, [&](int dim) {
      return dim < args.rank ? static_cast<double>(latent[dim]) * scale * static_cast<double>(args.norm[dim])
                             : tail(dim - args.rank);
    });
  });
}

}  // namespace rocmforge::check_kernels
