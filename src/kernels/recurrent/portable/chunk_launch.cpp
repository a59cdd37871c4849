#include "kernels/recurrent/portable/chunk_launch.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/launch/gpu_kernel.h"

namespace rocmforge {
namespace {

constexpr Kernel<gpu::ChunkArgs> keys_kernel{"chunk_scan", "chunk_keys", LaunchOrder::by_kernel};
constexpr Kernel<gpu::ChunkArgs> weights_kernel{"chunk_scan", "chunk_weights", LaunchOrder::by_kernel};
constexpr Kernel<gpu::ChunkArgs> chunk_delta_net_kernel{"chunk_states", "chunk_delta_net", LaunchOrder::by_kernel};
constexpr Kernel<gpu::ChunkArgs> ssm_scan_128_kernel{"chunk_states", "chunk_ssm_scan_128", LaunchOrder::by_kernel};
constexpr Kernel<gpu::ChunkArgs> ssm_scan_256_kernel{"chunk_states", "chunk_ssm_scan_256", LaunchOrder::by_kernel};

constexpr std::int64_t most_places = 64;  ///< of 2,048 tokens: the chunks of one sequence take half of them

std::int64_t places_of(std::int64_t tokens) { return tokens / gpu::chunk_least_rows; }
std::int32_t key_tiles_of(std::int64_t key_dim) { return key_dim > 128 ? 16 : 8; }

std::size_t place_bytes(std::int64_t key_heads, std::int64_t value_heads, std::int64_t key_dim) {
  return static_cast<std::size_t>(key_heads) * gpu::ChunkKeys{key_tiles_of(key_dim)}.bytes() +
         static_cast<std::size_t>(value_heads) * gpu::ChunkHead::bytes;
}

const Kernel<gpu::ChunkArgs>& states_kernel(const gpu::ChunkArgs& args) {
  if (args.beta != nullptr) {
    return chunk_delta_net_kernel;
  }
  return args.key_tiles == 8 ? ssm_scan_128_kernel : ssm_scan_256_kernel;
}

/// One work-group for each head and place.
LaunchShape for_heads(std::int32_t heads, std::int32_t places) {
  LaunchShape shape;
  shape.grid[0] = static_cast<std::uint32_t>(heads);
  shape.grid[1] = static_cast<std::uint32_t>(places);
  shape.block[0] = gpu::chunk_threads;
  return shape;
}

}  // namespace

std::size_t chunk_workspace_bytes(std::int64_t key_heads, std::int64_t value_heads, std::int64_t key_dim,
                                  std::int64_t tokens) {
  return static_cast<std::size_t>(std::min(places_of(tokens), most_places)) * place_bytes(key_heads, value_heads, key_dim);
}

bool scan_chunks(gpu::ChunkArgs args, const RaggedBatch& batch, void* workspace, Stream& stream) {
  if (batch.max_q_len < gpu::chunk_least_rows) {
    return true;
  }
  check(workspace != nullptr, "a scan in chunks: no workspace");
  args.slots = batch.states;
  args.query_offsets = batch.query_offsets;
  args.sequence_of = batch.sequence_of;
  args.workspace = static_cast<std::byte*>(workspace);
  args.tokens = batch.num_tokens;
  args.sequences = batch.num_sequences;
  args.key_tiles = key_tiles_of(args.key_dim);
  args.place_stride = static_cast<std::int64_t>(place_bytes(args.key_heads, args.value_heads, args.key_dim));
  const std::int64_t columns = gpu::chunk_columns(args.key_tiles);
  LaunchShape all_states = for_heads(static_cast<std::int32_t>(args.value_heads * divide_up(args.value_dim, columns)),
                                     std::min(batch.num_sequences, 65535));
  const std::int64_t places = places_of(batch.num_tokens);
  for (std::int64_t first = 0; first < places; first += most_places) {
    args.first_place = static_cast<std::int32_t>(first);
    args.places = static_cast<std::int32_t>(std::min(places - first, most_places));
    keys_kernel.launch(stream, for_heads(args.key_heads, args.places), args);
    weights_kernel.launch(stream, for_heads(args.value_heads, args.places), args);
    states_kernel(args).launch(stream, all_states, args);
  }
  return batch.num_sequences > 1;
}

}  // namespace rocmforge
