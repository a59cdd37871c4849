#include <algorithm>
#include <vector>

#include "kernels/attention/kernels.h"
#include "kernels/formats/reference/kv_element.h"
#include "kernels/launch/parallel.h"
#include "kernels/launch/reference_kernel.h"
#include "tensor/quant/dequantize.h"

namespace rocmforge {
namespace {

/// One head's matrices, as rows of floats: K's [rank, plain_dim], V's [value_dim, rank].
struct HeadMatrices {
  std::vector<float> keys;
  std::vector<float> values;

  HeadMatrices(const LatentExpand::Spec& spec, const LatentExpand::Args& args, std::int64_t head)
      : keys(expand(spec.key_weight, args.key_weight, head * args.key_head_bytes, spec.rank(), spec.plain_dim)),
        values(expand(spec.value_weight, args.value_weight, head * args.value_head_bytes, spec.value_dim, spec.rank())) {}

 private:
  static std::vector<float> expand(DType type, const void* weight, std::int64_t offset, std::int64_t rows,
                                   std::int64_t columns) {
    std::vector<float> out(static_cast<std::size_t>(rows * columns));
    const auto* from = static_cast<const std::byte*>(weight) + offset;
    for (std::int64_t row = 0; row < rows; ++row) {
      dequantize_row(type, from + row * static_cast<std::int64_t>(row_bytes(type, columns)), out.data() + row * columns,
                     columns);
    }
    return out;
  }
};

class ReferenceLatentExpand final : public AnyReference<LatentExpand> {
 public:
  void run(const LatentExpand::Spec& spec, const LatentExpand::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    for_each_range(context, args.heads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t head = begin; head < end; ++head) {
        const HeadMatrices matrices(spec, args, head);
        for (std::int32_t s = 0; s < args.batch.num_sequences; ++s) {
          for (std::int32_t key = 0; key < args.batch.kv_lengths[s]; ++key) {
            expand(spec, args, matrices, s, key, (s * std::int64_t{args.heads} + head) * args.batch.max_kv_len + key);
          }
        }
      }
    });
  }

 private:
  static void expand(const LatentExpand::Spec& spec, const LatentExpand::Args& args, const HeadMatrices& matrices,
                     std::int32_t s, std::int32_t key, std::int64_t row) {
    const KvHead plane = kv_head_at(spec.layout, args.cache, args.batch, s, key, false, 0);
    std::vector<float> latent(static_cast<std::size_t>(spec.layout.head_dim));
    for (std::size_t i = 0; i < latent.size(); ++i) {
      latent[i] = plane.load(key % spec.layout.block_tokens, static_cast<std::int64_t>(i));
    }
    const std::int32_t rank = spec.rank();
    for (std::int32_t dim = 0; dim < spec.head_dim(); ++dim) {
      double k = dim < spec.plain_dim ? 0.0 : double{latent[static_cast<std::size_t>(rank + dim - spec.plain_dim)]};
      double v = 0.0;
      for (std::int32_t i = 0; i < rank; ++i) {
        const double c = double{latent[static_cast<std::size_t>(i)]};
        k += dim < spec.plain_dim ? c * double{matrices.keys[static_cast<std::size_t>(i * spec.plain_dim + dim)]} : 0.0;
        v += dim < spec.value_dim ? c * double{matrices.values[static_cast<std::size_t>(dim * rank + i)]} : 0.0;
      }
      store_element(spec.out, args.k, row * spec.head_dim() + dim, static_cast<float>(k));
      store_element(spec.out, args.v, row * spec.head_dim() + dim, static_cast<float>(v));
    }
  }
};

class ReferenceCopyHeads final : public AnyReference<CopyHeads> {
 public:
  void run(const CopyHeads::Spec& spec, const CopyHeads::Args& args, ExecutionContext&) const override {
    check_arguments(spec, args);
    for (std::int64_t t = args.first_token; t < args.first_token + args.tokens; ++t) {
      for (std::int64_t head = 0; head < args.heads; ++head) {
        std::copy_n(args.x + (t * args.heads + head) * spec.dim, spec.out_dim,
                    args.out + (t * args.out_heads + args.first_head + head) * spec.out_dim);
      }
    }
  }
};

}  // namespace

std::unique_ptr<OpKernel<LatentExpand>> make_reference_latent_expand() { return std::make_unique<ReferenceLatentExpand>(); }
std::unique_ptr<OpKernel<CopyHeads>> make_reference_copy_heads() { return std::make_unique<ReferenceCopyHeads>(); }

}  // namespace rocmforge
