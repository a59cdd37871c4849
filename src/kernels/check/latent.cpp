#include "kernels/check/latent_args.h"

#include "kernels/attention/portable/attention_launch.h"
#include "kernels/check/check_kernel.h"
#include "kernels/check/kernels.h"
#include "kernels/check/launch.h"

namespace rocmforge {
namespace {

using check_kernels::HeadMatmulCheckArgs;
using check_kernels::LatentExpandCheckArgs;
using check_kernels::one_thread_each;

constexpr Kernel<LatentExpandCheckArgs> expand_kernel{"latent_check", "check_latent_expand"};
constexpr Kernel<HeadMatmulCheckArgs> head_kernel{"latent_check", "check_head_matmul"};

class CheckLatentExpand final : public CheckKernel<OpKernel<LatentExpand>> {
 public:
  using CheckKernel::CheckKernel;
  [[nodiscard]] Support supports(const LatentExpand::Spec& spec, const DeviceInfo&) const override {
    if (spec.layout.k_order != KvOrder::token_major) {
      return Support::no("latent rows that do not lie side by side");
    }
    return check_spec(spec);
  }
  void run(const LatentExpand::Spec& spec, const LatentExpand::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    LatentExpandCheckArgs call{};
    call.parts[0] = {.weight = static_cast<const std::uint8_t*>(args.key_weight),
                     .out = args.k,
                     .head_bytes = args.key_head_bytes,
                     .row_bytes = static_cast<std::int64_t>(row_bytes(spec.key_weight, spec.plain_dim)),
                     .columns = spec.plain_dim,
                     .dims = spec.plain_dim,
                     .dtype = spec.key_weight};
    call.parts[1] = {.weight = static_cast<const std::uint8_t*>(args.value_weight),
                     .out = args.v,
                     .head_bytes = args.value_head_bytes,
                     .row_bytes = static_cast<std::int64_t>(row_bytes(spec.value_weight, spec.rank())),
                     .columns = spec.rank(),
                     .dims = spec.value_dim,
                     .dtype = spec.value_weight};
    call.pages = gpu::kv_address(spec.layout, args.cache, {}, args.batch.block_tables, args.batch.max_blocks);
    call.kv_lengths = args.batch.kv_lengths;
    call.sequences = args.batch.num_sequences;
    call.capacity = args.batch.max_kv_len;
    call.heads = args.heads;
    call.rank = spec.rank();
    call.head_dim = spec.head_dim();
    call.page_dtype = spec.layout.dtype.k;
    call.out_dtype = spec.out;
    const std::int64_t elements = call.sequences * call.heads * call.capacity * call.head_dim;
    if (elements > 0) {
      expand_kernel.launch(*context.stream, one_thread_each(2 * elements), call);
    }
  }
};

class CheckHeadMatmul final : public AnyCheckKernel<HeadMatmul> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const HeadMatmul::Spec& spec, const HeadMatmul::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    if (args.tokens == 0) {
      return;
    }
    head_kernel.launch(*context.stream, one_thread_each(args.tokens * spec.heads * (spec.n + spec.tail)),
                       {.x = args.x,
                        .weight = static_cast<const std::uint8_t*>(args.weight),
                        .out = args.out,
                        .x_stride = args.x_stride,
                        .head_bytes = args.head_bytes,
                        .row_bytes = static_cast<std::int64_t>(row_bytes(spec.weight, spec.k)),
                        .tokens = args.tokens,
                        .heads = spec.heads,
                        .n = spec.n,
                        .k = spec.k,
                        .tail = spec.tail,
                        .sequence_of = args.single_rows != nullptr ? args.single_rows->sequence_of : nullptr,
                        .query_offsets = args.single_rows != nullptr ? args.single_rows->query_offsets : nullptr,
                        .dtype = spec.weight,
                        .unused = 0});
  }
};

}  // namespace

std::unique_ptr<OpKernel<LatentExpand>> make_check_latent_expand(DeviceKind kind) {
  return std::make_unique<CheckLatentExpand>(kind);
}
std::unique_ptr<HeadMatmulKernel> make_check_head_matmul(DeviceKind kind) { return std::make_unique<CheckHeadMatmul>(kind); }

}  // namespace rocmforge
