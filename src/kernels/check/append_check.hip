// RoPE and the append to pages as plain as they can be written: a thread takes a head of a token, because Q turns in place
// and elements of Q8_0 share scales; everything is computed in double. Formulas: ops/rope.h, ops/latent.h, ops/kv_layout.h.

#include "kernels/attention/portable/attention.h"
#include "kernels/check/append_args.h"
#include "kernels/check/check_code.h"
#include "kernels/formats/portable/store_coded.h"

namespace rocmforge::check_kernels {
namespace {

using gpu::CodedPlane;

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
             ? 1.0 + turn.temperature_scale *
                         log(1.0 + static_cast<double>((position + turn.temperature_ahead) / turn.temperature_length))
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

/// Element `dim` of a head times the orthonormal Walsh-Hadamard matrix, by its definition; a block of 1 leaves it as it is.
template <class Value>
__device__ double rotated_element(int dim, int block, const Value& value) {
  const int first = dim / block * block;
  double sum = 0.0;
#pragma unroll 1
  for (int i = 0; i < block; ++i) {
    const bool odd = (__popc(static_cast<unsigned>(dim - first) & static_cast<unsigned>(i)) & 1) != 0;
    sum += (odd ? -1.0 : 1.0) * value(first + i);
  }
  return sum / sqrt(static_cast<double>(block));
}

/// A group of dimensions of a quantised type (ops/kv_codes.h), one after another: first all for its ends, then all for their
/// codes.
struct GroupOfCodes {
  const gpu::CodedPlace& place;
  KvCoding coding;
  KvArrays arrays;
  float least = 0.0f;
  float largest = 0.0f;
  half scale{};
  half minimum{};
  std::uint32_t before = 0;  ///< the code of the dimension before
  std::uint32_t fifths = 0;

  __device__ void see(int dim, float element) {
    const bool is_first = dim % kv_quant_dims == 0;
    least = is_first ? element : fminf(least, element);
    largest = is_first ? element : fmaxf(largest, element);
  }
  __device__ void put(int dim, float element) {
    if (dim % kv_quant_dims == 0) {
      scale = gpu::from_float<half>(kv_scale(coding, least, largest));
      minimum = gpu::from_float<half>(least);
      const std::int64_t group = place.at(dim / kv_quant_dims, arrays.groups);
      reinterpret_cast<half*>(place.head + arrays.scales)[group] = scale;
      if (coding.minimum) {
        reinterpret_cast<half*>(place.head + arrays.minima)[group] = minimum;
      }
    }
    const std::uint32_t code = kv_code(coding, element, gpu::to_float(scale), gpu::to_float(minimum));
    if (coding.bits == 8) {
      place.head[place.at(dim, arrays.code_bytes)] = static_cast<std::uint8_t>(code);
    } else if (dim % 2 != 0) {
      place.head[place.at(dim / 2, arrays.code_bytes)] = static_cast<std::uint8_t>(before | (code & 15u) << 4);
    }
    before = code & 15u;
    fifths = dim % 8 == 0 ? code >> 4 : fifths | (code >> 4) << (dim % 8);
    if (coding.fifth && dim % 8 == 7) {
      place.head[arrays.fifths + place.at(dim / 8, arrays.fifth_bytes)] = static_cast<std::uint8_t>(fifths);
    }
  }
};

/// The elements value(dim) of a token's head become those of head `kv_head` of a plane of its page.
template <class Value>
__device__ void store_head(const PagesCheckArgs& pages, std::int64_t token, const CodedPlane& plane, int kv_head,
                           const Value& value) {
  const std::int32_t sequence = pages.sequence_of[token];
  const int cell = pages.kv_lengths[sequence] - pages.query_offsets[sequence + 1] + static_cast<int>(token);
  const std::int64_t entry = std::int64_t{sequence} * pages.coded.max_blocks + cell / pages.block_tokens;
  std::uint8_t* const head = pages.coded.data + pages.coded.block_tables[entry] * pages.coded.block_bytes + plane.first +
                             std::int64_t{kv_head} * plane.head_bytes;
  const gpu::CodedPlace place{head, cell % pages.block_tokens, pages.block_tokens, plane.by_dim != 0};
  const int block = plane.rotated != 0 ? pages.hadamard_block : 1;
  const bool quantised = is_kv_quant(plane.type);
  const KvCoding coding = kv_coding(plane.type);
  GroupOfCodes codes{place, coding, kv_arrays(coding, pages.block_tokens, pages.head_dim)};
  // Each group twice where it is quantised. The element is computed in one place of the code: it is long.
  const int passes = quantised ? 2 : 1;
#pragma unroll 1
  for (int i = 0; i < passes * pages.head_dim; ++i) {
    const int dim = quantised ? i / (2 * kv_quant_dims) * kv_quant_dims + i % kv_quant_dims : i;
    const auto element = static_cast<float>(rotated_element(dim, block, value));
    if (!quantised) {
      gpu::store_io(head, plane.type, place.at(dim, pages.head_dim), element);
    } else if (i / kv_quant_dims % 2 == 0) {
      codes.see(dim, element);
    } else {
      codes.put(dim, element);
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

// ptxas, left to choose, takes so few registers for it that some are spilled.
extern "C" __global__ void __launch_bounds__(check_threads, 1) check_rope(RopeCheckArgs args) {
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
      const int kv_head = h - args.q_heads;
      const bool is_value = kv_head >= args.kv_heads;
      const CodedPlane& plane = is_value ? args.pages.coded.v : args.pages.coded.k;
      store_head(args.pages, token, plane, is_value ? kv_head - args.kv_heads : kv_head, head);
    }
  });
}

/// A thread for each head.
ROCMFORGE_CHECK_KERNEL check_turn_queries(TurnQueriesCheckArgs args) {
  for_each_element(args.tokens * args.q_heads, [&](std::int64_t i) {
    float* const q = args.q + i / args.q_heads * args.stride + i % args.q_heads * args.head_dim;
    walsh_hadamard(q, args.head_dim, args.block, hadamard_factor(args.block));
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
    store_head(args.pages, token, args.pages.coded.k, 0, [&](int dim) {
      return dim < args.rank ? static_cast<double>(latent[dim]) * scale * static_cast<double>(args.norm[dim])
                             : tail(dim - args.rank);
    });
  });
}

}  // namespace rocmforge::check_kernels
