#include "kernels/cpu/matmul.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/arguments.h"
#include "kernels/cpu/matmul_body.h"
#include "kernels/cpu/matmul_pack.h"
#include "kernels/parallel.h"

namespace rocmforge {
namespace {

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

/// Lays the arrays of QuantisedActivations out in memory from `base` on; returns the bytes they take.
std::size_t place(std::int64_t tokens, std::int64_t k, std::byte* base, QuantisedActivations& activations) {
  const auto rows = static_cast<std::size_t>(divide_up(k, packed::panel_columns) * tokens);
  std::size_t used = 0;
  const auto array = [&](auto*& pointer, std::size_t row_elems) {
    using Element = std::remove_reference_t<decltype(*pointer)>;
    pointer = base == nullptr ? nullptr : reinterpret_cast<Element*>(base + used);
    used += (rows * row_elems * sizeof(Element) + 63) / 64 * 64;
  };
  array(activations.quants, packed::panel_columns);
  array(activations.scales, packed::panel_blocks);
  array(activations.sums, packed::panel_blocks);
  array(activations.negative_sums, packed::panel_blocks);
  array(activations.half_sums, 2 * packed::panel_blocks);
  array(activations.negative_half_sums, 2 * packed::panel_blocks);
  return used;
}

/// How the work of a call is cut into parts, which free threads take one after another.
struct Partition {
  std::int64_t rows = 0;    ///< of a weight in one part
  std::int64_t tokens = 0;  ///< in one part
  std::int64_t token_parts = 0;

  [[nodiscard]] std::int64_t parts_of(const MatmulOutput& output) const { return divide_up(output.n, rows) * token_parts; }
};

/// Enough parts that threads end together, but of at most 128 rows; tokens are cut only where rows alone are too few.
Partition cut(const Matmul::Args& args, const MatmulBody& body, int threads) {
  constexpr std::int64_t parts_per_thread = 8;
  std::int64_t rows = 0;
  for (const MatmulOutput& output : args.outputs) {
    rows += output.n;
  }
  const std::int64_t step = args.tokens == 1 ? packed::group_rows : body.tile_rows;
  const std::int64_t fair = round_up(divide_up(rows, parts_per_thread * threads), step);
  Partition partition{std::clamp<std::int64_t>(fair, step, 128), args.tokens, 1};
  const std::int64_t row_parts = divide_up(rows, partition.rows);
  if (row_parts < 2 * threads && args.tokens > 1) {
    const std::int64_t pieces = divide_up(2 * threads, row_parts);
    partition.tokens = round_up(divide_up(args.tokens, pieces), body.tile_tokens);
    partition.token_parts = divide_up(args.tokens, partition.tokens);
  }
  return partition;
}

class CpuMatmul final : public MatmulKernel {
 public:
  CpuMatmul(std::string_view kernel_name, CpuIsa isa, int priority, const MatmulBody& body)
      : name_(kernel_name), isa_(isa), priority_(priority), body_(body) {}

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::cpu; }
  [[nodiscard]] int priority() const override { return priority_; }

  [[nodiscard]] Support supports(const Matmul::Spec& spec, const DeviceInfo& device) const override {
    const bool runs = isa_ == CpuIsa::generic || isa_ == device.cpu_isa || (isa_ == CpuIsa::avx2 && device.cpu_isa > isa_);
    if (!runs) {
      return Support::no(fmt::format("the processor's instruction set is {}", rocmforge::name(device.cpu_isa)));
    }
    if (Support spec_support = check_spec(spec); !spec_support.ok) {
      return spec_support;
    }
    if (info(spec.weight).block_elems > 1 && find_packed_format(spec.weight) == nullptr) {
      return Support::no(fmt::format("format {} has no packed layout", info(spec.weight).name));
    }
    return Support::yes();
  }

  [[nodiscard]] std::size_t packed_bytes(const Matmul::Spec& spec) const override {
    const PackedFormat* format = find_packed_format(spec.weight);
    return format == nullptr
               ? 0
               : static_cast<std::size_t>(divide_up(spec.n, packed::group_rows) * packed::group_bytes(*format, spec.k));
  }

  void pack(const Matmul::Spec& spec, const void* rows, void* packed_weight, ExecutionContext& context) const override {
    const PackedFormat* format = find_packed_format(spec.weight);
    if (format == nullptr) {
      return;
    }
    for_each_range(context, divide_up(spec.n, packed::group_rows), 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t group = begin; group < end; ++group) {
        pack_matmul_group(*format, static_cast<const std::uint8_t*>(rows), spec.n, spec.k, group,
                          static_cast<std::uint8_t*>(packed_weight) + group * packed::group_bytes(*format, spec.k));
      }
    });
  }

  [[nodiscard]] std::size_t workspace_bytes(std::int64_t tokens, std::int64_t k) const override {
    QuantisedActivations unused{};
    return place(tokens, k, nullptr, unused);
  }

  void run(const Matmul::Args& args, ExecutionContext& context) const override {
    check_arguments(args);
    if (args.tokens == 0) {
      return;
    }
    const bool quantised =
        std::ranges::any_of(args.outputs, [](const MatmulOutput& output) { return info(output.dtype).block_elems > 1; });
    check(!quantised || args.workspace != nullptr, "matmul: no workspace for the quantised activations");
    QuantisedActivations activations{};
    place(args.tokens, args.k, static_cast<std::byte*>(args.workspace), activations);
    if (quantised) {
      // A short input is quantised before other threads would have woken up.
      constexpr std::int64_t least_elems = 32768;
      const std::int64_t pieces = divide_up(args.k, packed::panel_columns) * args.tokens;
      for_each_range(context, pieces, least_elems / packed::panel_columns,
                     [&](std::int64_t begin, std::int64_t end) { quantise_pieces(args, activations, begin, end); });
    }
    const Partition partition = cut(args, body_, context.pool == nullptr ? 1 : context.pool->num_threads());
    std::int64_t parts = 0;
    for (const MatmulOutput& output : args.outputs) {
      parts += partition.parts_of(output);
    }
    for_each_range(context, parts, 1,
                   [&](std::int64_t begin, std::int64_t end) { multiply_parts(args, activations, partition, begin, end); });
  }

 private:
  /// Quantises some of the [panels, tokens] pieces of the input.
  void quantise_pieces(const Matmul::Args& args, const QuantisedActivations& activations, std::int64_t begin,
                       std::int64_t end) const {
    for (std::int64_t piece = begin; piece < end;) {
      const std::int64_t panel = piece / args.tokens;
      const std::int64_t token = piece % args.tokens;
      const std::int64_t count = std::min(args.tokens - token, end - piece);
      body_.quantise(args.x, args.x_stride, args.k, args.tokens, panel, token, token + count, activations);
      piece += count;
    }
  }

  /// Computes parts [begin, end) of all outputs' parts, counted one output after another.
  void multiply_parts(const Matmul::Args& args, const QuantisedActivations& activations, const Partition& partition,
                      std::int64_t begin, std::int64_t end) const {
    std::int64_t first_part = 0;  // of the current output
    for (const MatmulOutput& output : args.outputs) {
      const MatmulProduct product = {output.dtype,  static_cast<const std::uint8_t*>(output.weight),
                                     output.n,      args.k,
                                     args.tokens,   args.x,
                                     args.x_stride, activations,
                                     output.bias,   output.out,
                                     output.stride, output.accumulate};
      const auto multiply = info(output.dtype).block_elems > 1 ? body_.quantised : body_.plain;
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

  std::string_view name_;
  CpuIsa isa_;
  int priority_;
  const MatmulBody& body_;
};

}  // namespace

std::vector<std::unique_ptr<MatmulKernel>> make_cpu_matmuls() {
  std::vector<std::unique_ptr<MatmulKernel>> kernels;
#ifdef ROCMFORGE_HAS_avx512
  kernels.push_back(std::make_unique<CpuMatmul>("cpu_avx512", CpuIsa::avx512, 30, avx512::matmul_body));
#endif
#ifdef ROCMFORGE_HAS_avx2
  kernels.push_back(std::make_unique<CpuMatmul>("cpu_avx2", CpuIsa::avx2, 20, avx2::matmul_body));
#endif
#ifdef ROCMFORGE_HAS_neon
  kernels.push_back(std::make_unique<CpuMatmul>("cpu_neon", CpuIsa::neon, 20, neon::matmul_body));
#endif
#ifdef ROCMFORGE_HAS_generic
  kernels.push_back(std::make_unique<CpuMatmul>("cpu_generic", CpuIsa::generic, 10, generic::matmul_body));
#endif
  return kernels;
}

}  // namespace rocmforge
