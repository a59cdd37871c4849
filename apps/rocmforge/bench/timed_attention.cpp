#include "bench/timed_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "checks/oracle.h"
#include "checks/problem.h"

namespace rocmforge::app {
namespace {

/// The least total size of the KV caches that a measurement of decode reads in turn: more than any GPU's L2 cache.
constexpr double bytes_of_all_sets = 320e6;
/// Elements of the pages that are repeated to fill a cache.
constexpr std::int64_t pattern_elements = 1 << 20;

/// Device memory of `size_bytes` filled with `pattern` over and over.
DeviceBuffer patterned(Device& device, const std::vector<std::byte>& pattern, std::size_t size_bytes) {
  DeviceBuffer buffer = device.allocate(size_bytes, "input of a measurement");
  std::size_t filled = std::min(pattern.size(), size_bytes);
  device.upload(buffer.data(), pattern.data(), filled);
  while (filled < size_bytes) {  // each copy doubles the number of patterns
    const std::size_t next = std::min(filled, size_bytes - filled);
    if (device.is_gpu()) {
      device.stream().copy_on_device(buffer.data() + filled, buffer.data(), next);
    } else {
      std::memcpy(buffer.data() + filled, buffer.data(), next);
    }
    filled += next;
  }
  return buffer;
}

/// Memory for a backend's workspace or counters, which are zero before its first call.
DeviceBuffer memory_for(Device& device, std::size_t size_bytes) {
  return device.allocate(size_bytes + 1, "attention's workspace");
}

}  // namespace

AttentionInputs::AttentionInputs(Device& device, ExecutionContext& context, const KernelRegistry& registry,
                                 const Attention::Spec& spec, const KvLayout& layout, const AttentionWork& work)
    : device_(device),
      context_(context),
      oracle_(oracle_on<Attention>(registry, spec, device.info())),
      spec_(spec),
      layout_(layout),
      work_(work) {
  limits_ = {.max_tokens = std::int64_t{work.sequences} * work.q_len,
             .max_sequences = work.sequences,
             .max_kv_len = work.kv_len,
             .num_threads = context.pool != nullptr ? context.pool->num_threads() : 1};
  if (work.q_len == 1) {
    sets_ = static_cast<int>(std::clamp(std::ceil(bytes_of_all_sets / kv_bytes()), 1.0, 128.0));
  }
  Random random(3);
  const std::vector<SequenceShape> sequences(static_cast<std::size_t>(work.sequences), {work.kv_len, work.q_len});
  for (int set = 0; set < sets_; ++set) {
    PagedStep step = paged_step(sequences, layout.block_tokens, random);
    num_blocks_ = step.num_blocks;
    batches_.emplace_back(arrays_, std::move(step.plan));
  }
  q_ = arrays_.input("q", random.normals(limits_.max_tokens * spec.q_heads * spec.head_dim));
  place_ = std::make_unique<PlacedArrays>(arrays_, device, context, context);
  const std::int64_t block_elements = layout.head_elems() * layout.planes();
  const std::int64_t pattern = std::min(num_blocks_ * sets_, pattern_elements / block_elements | 1);
  caches_ = patterned(device, random_pages(layout, pattern, random), bytes_of_set() * static_cast<std::size_t>(sets_));
  expected_.resize(static_cast<std::size_t>(sets_));
}

Attention::Args AttentionInputs::args(int set) const {
  Attention::Args args;
  args.q = place_->at(q_);
  args.q_stride = std::int64_t{spec_.q_heads} * spec_.head_dim;
  args.cache = {caches_.data() + bytes_of_set() * static_cast<std::size_t>(set), num_blocks_};
  args.batch = batches_[static_cast<std::size_t>(set)].at(*place_);
  return args;
}

std::span<const float> AttentionInputs::expected(int set) {
  std::vector<float>& values = expected_[static_cast<std::size_t>(set)];
  if (values.empty()) {
    const DeviceBuffer workspace = memory_for(device_, oracle_.workspace_bytes(spec_, limits_));
    const DeviceBuffer state = memory_for(device_, oracle_.state_bytes(spec_, limits_));
    const std::int64_t elements = limits_.max_tokens * spec_.q_heads * spec_.out_dim();
    values = output_of_call(device_, context_, elements, [&](float* out) {
      Attention::Args call = args(set);
      call.out = out;
      call.workspace = workspace.data();
      call.state = state.data();
      oracle_.run(spec_, layout_, call, context_);
    });
  }
  return values;
}

double AttentionInputs::flops() const {
  const double keys = spec_.causal ? (work_.kv_len - work_.q_len) + (work_.q_len + 1) / 2.0 : work_.kv_len;
  return 4.0 * work_.sequences * work_.q_len * keys * spec_.q_heads * spec_.head_dim;
}

double AttentionInputs::kv_bytes() const {
  return 1.0 * work_.sequences * work_.kv_len *
         static_cast<double>(kv_row_bytes(spec_.kv_dtype, std::int64_t{spec_.kv_heads} * spec_.head_dim));
}

TimedAttention::TimedAttention(Device& device, ExecutionContext& context, const AttentionBackend& kernel,
                               AttentionInputs& inputs)
    : CheckedCalls(device, context, inputs.limits().max_tokens * inputs.spec().q_heads, inputs.spec().out_dim(),
                   attention_tolerance(inputs.spec(), device.info().kind)),
      kernel_(kernel),
      inputs_(inputs),
      workspace_(scratch(kernel.workspace_bytes(inputs.spec(), inputs.limits()))),
      state_(memory_for(device, kernel.state_bytes(inputs.spec(), inputs.limits()))) {}

void TimedAttention::run(int input) {
  Attention::Args args = inputs_.args(input);
  args.out = out();
  args.workspace = workspace_;
  args.state = state_.data();
  kernel_.run(inputs_.spec(), inputs_.layout(), args, context());
}

}  // namespace rocmforge::app
