// K and V from quantised pages to the dense 16-bit tensors that prefill's products read. Of Q8_0 a thread converts 16
// neighbouring quants of one key: they share a scale.

#include "kernels/attention/hopper/attention_quants.h"
#include "kernels/attention/hopper/attention_unpack_args.h"
#include "kernels/attention/portable/coded.h"
#include "kernels/tile/hopper/pairs.h"

namespace rocmforge::hopper {
namespace {

constexpr int quants_of_thread = 16;

/// Quants 2 `pair` and 2 `pair` + 1 of a word.
template <class T, int pair>
__device__ inline std::uint32_t dequantised(int quants, float scale) {
  return pack_pair<T>(static_cast<float>(static_cast<std::int8_t>(quants >> (16 * pair))) * scale,
                      static_cast<float>(static_cast<std::int8_t>(quants >> (16 * pair + 8))) * scale);
}

/// The first key that some row sees, rounded down to the start of a tile.
__device__ inline int first_key(const AttentionUnpackArgs& args, int q_len, int kv_len) {
  return args.window > 0 ? max(0, kv_len - q_len - args.window + 1) / args.tile_keys * args.tile_keys : 0;
}

/// A work-group's keys of one head.
struct UnpackPlace {
  int sequence;
  int begin;
  int end;
  int head;    ///< KV head
  bool value;  ///< V, else K
  std::uint16_t* out;

  __device__ explicit UnpackPlace(const AttentionUnpackArgs& args)
      : sequence(static_cast<int>(blockIdx.z)), begin(static_cast<int>(blockIdx.x) * unpack_keys) {
    const int q_len = args.query_offsets[sequence + 1] - args.query_offsets[sequence];
    const int kv_len = args.kv_lengths[sequence];
    const bool computed = q_len > 0 && (args.rows == 0 || (args.rows == 1) == (q_len == 1));
    end = computed ? min(begin + unpack_keys, kv_len) : begin;
    if (end <= first_key(args, q_len, kv_len)) {
      end = begin;
    }
    const int plane = static_cast<int>(blockIdx.y);
    value = plane >= args.kv_heads;
    head = value ? plane - args.kv_heads : plane;
    const std::int64_t first_row = (std::int64_t{sequence} * args.kv_heads + head) * args.capacity + begin;
    out = static_cast<std::uint16_t*>(value ? args.v : args.k) + first_row * args.head_dim;
  }
};

template <class T>
__device__ void unpack(const AttentionUnpackArgs& args) {
  const UnpackPlace place(args);
  const std::int32_t* table = args.block_tables + std::int64_t{place.sequence} * args.max_blocks;
  const char* pages = static_cast<const char*>(args.pages) + blockIdx.y * args.head_stride;
  uint4* out = reinterpret_cast<uint4*>(place.out);
  const int block_mask = (1 << args.block_shift) - 1;
  const int shares = args.head_dim / quants_of_thread;
  for (int i = static_cast<int>(threadIdx.x); i < (place.end - place.begin) * shares; i += unpack_threads) {
    const int key = place.begin + i / shares;
    const int share = i % shares;
    const char* block = pages + table[key >> args.block_shift] * args.block_stride;
    const int inside = key & block_mask;
    const int4 quants =
        *reinterpret_cast<const int4*>(block + std::int64_t{inside} * args.head_dim + share * quants_of_thread);
    const auto* scales = reinterpret_cast<const std::uint16_t*>(block + (std::int64_t{args.head_dim} << args.block_shift));
    const float scale = floats_of_pair(scales[inside * (args.head_dim / 32) + share / 2]).x;
    out[2 * i] = uint4{dequantised<T, 0>(quants.x, scale), dequantised<T, 1>(quants.x, scale),
                       dequantised<T, 0>(quants.y, scale), dequantised<T, 1>(quants.y, scale)};
    out[2 * i + 1] = uint4{dequantised<T, 0>(quants.z, scale), dequantised<T, 1>(quants.z, scale),
                           dequantised<T, 0>(quants.w, scale), dequantised<T, 1>(quants.w, scale)};
  }
}

/// A thread converts eight neighbouring elements.
template <class T>
__device__ void unpack_coded(const AttentionUnpackCodedArgs& args) {
  const UnpackPlace place(args.call);
  const gpu::CodedReader reader(args.pages, place.value ? args.pages.v : args.pages.k);
  uint4* out = reinterpret_cast<uint4*>(place.out);
  const int shares = args.call.head_dim / 8;
  for (int i = static_cast<int>(threadIdx.x); i < (place.end - place.begin) * shares; i += unpack_threads) {
    gpu::CodedEight eight;
    eight.clear();
    eight.load(reader, place.sequence, place.begin + i / shares, place.head, i % shares * 8);
    float values[8];
    eight.read(reader, [&](int j, float value) { values[j] = value; });
    out[i] = uint4{pack_pair<T>(values[0], values[1]), pack_pair<T>(values[2], values[3]),
                   pack_pair<T>(values[4], values[5]), pack_pair<T>(values[6], values[7])};
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(unpack_threads)
    attention_unpack_f16(const __grid_constant__ AttentionUnpackArgs args) {
  unpack<half>(args);
}
extern "C" __global__ void __launch_bounds__(unpack_threads)
    attention_unpack_bf16(const __grid_constant__ AttentionUnpackArgs args) {
  unpack<bfloat16>(args);
}

extern "C" __global__ void __launch_bounds__(unpack_threads)
    attention_unpack_coded_f16(const __grid_constant__ AttentionUnpackCodedArgs args) {
  unpack_coded<half>(args);
}
extern "C" __global__ void __launch_bounds__(unpack_threads)
    attention_unpack_coded_bf16(const __grid_constant__ AttentionUnpackCodedArgs args) {
  unpack_coded<bfloat16>(args);
}

}  // namespace rocmforge::hopper
