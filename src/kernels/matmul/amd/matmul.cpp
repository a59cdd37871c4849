#include <algorithm>

#include "base/error.h"
#include "kernels/formats/amd/amd_product.h"
#include "kernels/launch/amd/architectures.h"
#include "kernels/launch/packed_support.h"
#include "kernels/matmul/amd/matmul_tiles.h"
#include "kernels/matmul/amd/matvec.h"
#include "kernels/matmul/amd/matvec_args.h"
#include "kernels/matmul/kernels.h"
#include "kernels/matmul/portable/matmul_convert.h"
#include "kernels/matmul/portable/matmul_launch.h"

namespace rocmforge {
namespace {

using amd::WeightFormat;

/// By WeightFormat.
constexpr MatmulTileKernels packed_tile_kernels[] = {
#define ROCMFORGE_AMD_TILES(name) \
  {{"matmul_packed", "matmul_packed_" #name "_large"}, {"matmul_packed", "matmul_packed_" #name "_small"}},
    ROCMFORGE_AMD_FORMATS(ROCMFORGE_AMD_TILES)
#undef ROCMFORGE_AMD_TILES
};

/// The outputs of one format, on matrix tiles.
void run_packed_tiles(const Matmul::Args& call, DType dtype, const ConvertedRows& converted, Stream& stream) {
  const WeightFormat format = amd::weight_format(dtype);
  const bool cdna = stream.device().info().wave_size == 64;
  run_matmul_tiles(packed_tile_kernels[static_cast<std::size_t>(format)], dtype,
                   amd::weight_tile_bytes(amd::weight_layout(format), call.k), call, converted, stream,
                   {cdna ? amd::cdna_matmul_tile : amd::rdna_matmul_tile, 2});
}

class AmdMatmul final : public amd::AmdProduct<Matmul> {
 public:
  [[nodiscard]] Support supports(const Matmul::Spec& spec, const DeviceInfo& device) const override {
    constexpr std::int64_t most_rows = std::int64_t{1} << 22;
    constexpr std::int64_t most_columns = 65536;  // the values of each record fit into shared memory
    return check_packed(spec, amd::check_architecture(device), amd::has_weight_layout(spec.weight), "AMD", most_rows,
                        most_columns);
  }

  [[nodiscard]] std::size_t workspace_bytes(std::int64_t tokens, std::int64_t k) const override {
    return tokens <= few_tokens() ? 0 : converted_bytes(tokens, k);
  }
  [[nodiscard]] std::int64_t few_tokens() const override { return amd::most_matvec_tokens; }
  [[nodiscard]] MatmulFusions fusions() const override { return {few_tokens(), few_tokens()}; }
  [[nodiscard]] bool merges_launches(const DeviceInfo& device) const override { return amd::merges_launches(device); }

  void run(const Matmul::Args& args, ExecutionContext& context) const override {
    check_arguments(args, fusions());
    check(context.stream != nullptr, "matmul: a GPU kernel without a stream");
    if (args.tokens == 0) {
      return;
    }
    if (args.tokens <= few_tokens()) {
      amd::run_matvec(args, *context.stream);
      return;
    }
    const ConvertedRows converted = place_converted(args);
    convert_rows(args, false, converted, *context.stream);
    for (std::size_t i = 0; i < args.outputs.size(); ++i) {
      const DType dtype = args.outputs[i].dtype;
      const auto before = args.outputs.first(i);
      if (std::ranges::find(before, dtype, &MatmulOutput::dtype) == before.end()) {
        run_packed_tiles(args, dtype, converted, *context.stream);
      }
    }
  }
};

}  // namespace

std::unique_ptr<MatmulKernel> make_amd_matmul() { return std::make_unique<AmdMatmul>(); }

}  // namespace rocmforge
