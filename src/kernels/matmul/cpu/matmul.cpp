#include <fmt/format.h>

#include <algorithm>

#include "base/math.h"
#include "kernels/check/arguments/arguments.h"
#include "kernels/launch/parallel.h"
#include "kernels/matmul/cpu/cpu_product.h"
#include "kernels/matmul/kernels.h"

namespace rocmforge {
namespace {

/// Calls prepare(InputPanel) for all panels of `columns` columns and all tokens.
template <class Prepare>
void for_each_panel(const Matmul::Args& args, std::int64_t columns, ExecutionContext& context, const Prepare& prepare) {
  // A short input is prepared before other threads would have woken up.
  constexpr std::int64_t least_elems = 32768;
  for_each_range(
      context, divide_up(args.k, columns) * args.tokens, least_elems / columns, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t piece = begin; piece < end;) {
          const std::int64_t token = piece % args.tokens;
          const std::int64_t count = std::min(args.tokens - token, end - piece);
          prepare(InputPanel{args.x, args.x_stride, args.k, args.tokens, piece / args.tokens, token, token + count});
          piece += count;
        }
      });
}

/// How the work of a call is cut into parts, which free threads take one after another.
struct Partition {
  std::int64_t rows = 0;    ///< of a weight in one part
  std::int64_t tokens = 0;  ///< in one part
  std::int64_t token_parts = 0;

  [[nodiscard]] std::int64_t parts_of(const MatmulOutput& output) const { return divide_up(output.n, rows) * token_parts; }
};

/// Enough parts that threads end together, but of at most 128 rows; tokens are cut only where rows alone are too few.
Partition cut(const Matmul::Args& args, int tile_rows, int tile_tokens, int threads) {
  constexpr std::int64_t parts_per_thread = 8;
  std::int64_t rows = 0;
  for (const MatmulOutput& output : args.outputs) {
    rows += output.n;
  }
  const std::int64_t step = args.tokens == 1 ? packed::group_rows : tile_rows;
  const std::int64_t fair = round_up(divide_up(rows, parts_per_thread * threads), step);
  Partition partition{std::clamp<std::int64_t>(fair, step, 128), args.tokens, 1};
  const std::int64_t row_parts = divide_up(rows, partition.rows);
  if (row_parts < 2 * threads && args.tokens > 1) {
    const std::int64_t pieces = divide_up(2 * threads, row_parts);
    partition.tokens = round_up(divide_up(args.tokens, pieces), tile_tokens);
    partition.token_parts = divide_up(args.tokens, partition.tokens);
  }
  return partition;
}

class CpuMatmul final : public CpuProduct<Matmul> {
 public:
  explicit CpuMatmul(const CpuMatmulBodies& bodies)
      : CpuProduct(bodies), quantised_(bodies.quantised), plain_(bodies.plain) {}

  [[nodiscard]] Support supports(const Matmul::Spec& spec, const DeviceInfo& device) const override {
    if (Support support = CpuProduct::supports(spec, device); !support.ok || !plain_.bfloats) {
      return support;
    }
    if (!device.fast_bfloat_pairs) {
      return Support::no("this processor multiplies F32 numbers faster than pairs of BF16");
    }
    return spec.weight == DType::bf16 ? Support::yes() : Support::no("for BF16 weights only");
  }

  [[nodiscard]] std::size_t workspace_bytes(std::int64_t tokens, std::int64_t k) const override {
    return MatmulInputs(tokens, k, quantised_, plain_, nullptr).bytes;
  }

  void run(const Matmul::Args& args, ExecutionContext& context) const override {
    check_arguments(args);
    if (args.tokens == 0) {
      return;
    }
    check(args.workspace != nullptr, "matmul: no workspace for the activations");
    const MatmulInputs inputs(args.tokens, args.k, quantised_, plain_, static_cast<std::byte*>(args.workspace));
    const auto quantised = [](const MatmulOutput& output) { return is_quantised(output.dtype); };
    const bool any_quantised = std::ranges::any_of(args.outputs, quantised);
    if (any_quantised) {
      for_each_panel(args, packed::panel_columns, context,
                     [&](const InputPanel& input) { quantised_.quantise(input, inputs.quantised); });
    }
    if (!std::ranges::all_of(args.outputs, quantised)) {
      for_each_panel(args, packed::plain_panel_columns, context,
                     [&](const InputPanel& input) { plain_.prepare(input, inputs.plain); });
    }
    const Partition partition = cut(args, any_quantised ? quantised_.tile_rows : plain_.tile_rows,
                                    any_quantised ? quantised_.tile_tokens : plain_.tile_tokens,
                                    context.pool == nullptr ? 1 : context.pool->num_threads());
    std::int64_t parts = 0;
    for (const MatmulOutput& output : args.outputs) {
      parts += partition.parts_of(output);
    }
    for_each_range(context, parts, 1,
                   [&](std::int64_t begin, std::int64_t end) { multiply_parts(args, inputs, partition, begin, end); });
  }

 private:
  /// Computes parts [begin, end) of all outputs' parts, counted one output after another.
  void multiply_parts(const Matmul::Args& args, const MatmulInputs& inputs, const Partition& partition, std::int64_t begin,
                      std::int64_t end) const {
    std::int64_t first_part = 0;  // of the current output
    for (const MatmulOutput& output : args.outputs) {
      const MatmulProduct product = {output.dtype,      static_cast<const std::uint8_t*>(output.weight),
                                     output.n,          args.k,
                                     args.tokens,       inputs.quantised,
                                     inputs.plain,      output.bias,
                                     output.out,        output.stride,
                                     output.accumulate, output.scale};
      const auto multiply = is_quantised(output.dtype) ? quantised_.multiply : plain_.multiply;
      const std::int64_t past = first_part + partition.parts_of(output);
      for (std::int64_t part = std::max(begin, first_part); part < std::min(end, past); ++part) {
        const std::int64_t row = (part - first_part) / partition.token_parts * partition.rows;
        const std::int64_t token = (part - first_part) % partition.token_parts * partition.tokens;
        multiply(product,
                 {row, std::min(row + partition.rows, output.n), token, std::min(token + partition.tokens, args.tokens)});
      }
      first_part = past;
    }
  }

  const QuantisedBody& quantised_;
  const PlainBody& plain_;
};

}  // namespace

std::span<const CpuMatmulBodies> cpu_matmul_bodies() {
  // Of kernels of one priority the first is chosen.
  static const CpuMatmulBodies bodies[] = {
#ifdef ROCMFORGE_HAS_avx512
      {"cpu_avx512_bf16", CpuIsa::avx512, KernelPriority::specialised, avx512::quantised_body, avx512::bfloat_body,
       avx512::body_table},
      {"cpu_avx512", CpuIsa::avx512, KernelPriority::specialised, avx512::quantised_body, avx512::plain_body,
       avx512::body_table},
#endif
#ifdef ROCMFORGE_HAS_avxvnni
      {"cpu_avxvnni", CpuIsa::avxvnni, KernelPriority::family, avxvnni::quantised_body, avx2::plain_body, avx2::body_table},
#endif
#ifdef ROCMFORGE_HAS_avx2
      {"cpu_avx2", CpuIsa::avx2, KernelPriority::family, avx2::quantised_body, avx2::plain_body, avx2::body_table},
#endif
#ifdef ROCMFORGE_HAS_neon
      {"cpu_neon", CpuIsa::neon, KernelPriority::family, neon::quantised_body, neon::plain_body, neon::body_table},
#endif
#ifdef ROCMFORGE_HAS_generic
      {"cpu_generic", CpuIsa::generic, KernelPriority::portable, generic::quantised_body, generic::plain_body,
       generic::body_table},
#endif
  };
  return bodies;
}

Support check_matmul_device(const CpuMatmulBodies& bodies, const DeviceInfo& device) {
  if (device.cpu_isa >= bodies.isa && (bodies.isa != CpuIsa::avxvnni || device.avx_vnni)) {
    return Support::yes();
  }
  return Support::no(fmt::format("the processor's instruction set is {}", name(device.cpu_isa)));
}

std::vector<std::unique_ptr<MatmulKernel>> make_cpu_matmuls() {
  std::vector<std::unique_ptr<MatmulKernel>> kernels;
  for (const CpuMatmulBodies& bodies : cpu_matmul_bodies()) {
    kernels.push_back(std::make_unique<CpuMatmul>(bodies));
  }
  return kernels;
}

}  // namespace rocmforge
