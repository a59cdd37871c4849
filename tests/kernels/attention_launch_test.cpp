#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "device/fake_driver.h"
#include "kernels/attention/kernels.h"
#include "temporary_folder.h"

// Which kernels the backends of AMD and Hopper launch for a spec; tested without a GPU. That code objects have kernels of
// these names is tested by each call on a device.

namespace rocmforge {
namespace {

class AttentionLaunch : public testing::Test {
 protected:
  void open(const std::string& architecture, const std::string& folder, const std::string& ending) {
    for (const char* object : {"attention_decode", "attention_prefill", "attention_unpack", "latent_decode"}) {
      folder_.write(folder + "/" + object + ending,
                    "\x7f"
                    "ELF code");
    }
    constexpr int units = 132;
    device_ = std::make_unique<Device>(std::make_unique<FakeDriver>(log_, architecture, false, 32, units),
                                       KernelLibrary::from_folder(folder_.path()));
  }

  /// The kernels of one call for sequences of 100 keys; each has one row in a decode step, all its rows in a prompt.
  std::vector<std::string> launched(const AttentionBackend& backend, const Attention::Spec& spec) {
    constexpr std::int32_t sequences = 2;
    const std::int32_t rows = spec.most_rows == 1 ? 1 : 100;
    EXPECT_TRUE(backend.supports(spec, device_->info()).ok) << backend.supports(spec, device_->info()).reason;
    const KvLayout layout = backend.layout(spec);
    Attention::Args args;
    args.q = place(0);
    args.q_stride = std::int64_t{spec.q_heads} * spec.head_dim;
    args.cache = {.data = place(1), .num_blocks = 64};
    args.batch.num_tokens = sequences * rows;
    args.batch.num_sequences = sequences;
    args.batch.max_q_len = rows;
    args.batch.max_kv_len = 100;
    args.batch.max_blocks = 8;
    args.batch.positions = place<std::int32_t>(2);
    args.batch.sequence_of = place<std::int32_t>(3);
    args.batch.query_offsets = place<std::int32_t>(4);
    args.batch.kv_lengths = place<std::int32_t>(5);
    args.batch.block_tables = place<std::int32_t>(6);
    args.mask = spec.mask ? place(7) : nullptr;
    args.mask_stride = 128;
    args.out = place(8);
    args.workspace = place(9);
    args.state = place(10);
    ExecutionContext context{.stream = &device_->stream()};
    log_->kernels.clear();
    backend.run(spec, layout, args, context);
    return log_->kernels;
  }

  // Addresses of a device: aligned, and not to be read by the host.
  template <class T = float>
  static T* place(int i) {
    return reinterpret_cast<T*>(std::uintptr_t{0x100000} * static_cast<unsigned>(i + 1));
  }

  TemporaryFolder folder_;
  std::shared_ptr<FakeDriver::Log> log_ = std::make_shared<FakeDriver::Log>();
  std::unique_ptr<Device> device_;
};

using Names = std::vector<std::string>;

std::string lower(DType type) { return type == DType::f16 ? "f16" : type == DType::bf16 ? "bf16" : "q8_0"; }

TEST_F(AttentionLaunch, HopperDecodesWithTheKernelOfTypeHeadAndGroup) {
  open("sm_90", "sm_90", ".cubin");
  const auto backend = make_hopper_attention_decode();
  for (const DType type : {DType::f16, DType::bf16, DType::q8_0}) {
    for (const std::int32_t dim : {64, 96, 256}) {
      for (const std::int32_t group : {4, 16}) {
        const std::string name = "attention_decode_" + lower(type) + (dim == 96 ? "_128" : "_" + std::to_string(dim));
        EXPECT_EQ(
            launched(*backend, {.q_heads = 2 * group, .kv_heads = 2, .head_dim = dim, .kv_dtype = type, .most_rows = 1}),
            Names{name + (group == 4 ? "_8" : "_16")});
      }
    }
  }
}

TEST_F(AttentionLaunch, AmdDecodesWithTheKernelOfTypeHeadAndGroup) {
  open("gfx1100", "gfx1100", ".hsaco");
  const auto backend = make_amd_attention_decode();
  for (const DType type : {DType::f16, DType::bf16, DType::q8_0}) {
    for (const std::int32_t dim : {64, 96, 256}) {
      const std::string name = "attention_decode_" + lower(type) + (dim == 96 ? "_128" : "_" + std::to_string(dim));
      EXPECT_EQ(launched(*backend, {.q_heads = 4, .kv_heads = 4, .head_dim = dim, .kv_dtype = type, .most_rows = 1}),
                Names{name + "_1"});
      EXPECT_EQ(launched(*backend, {.q_heads = 256, .kv_heads = 32, .head_dim = dim, .kv_dtype = type, .most_rows = 1}),
                Names{name + "_8"});
    }
  }
}

TEST_F(AttentionLaunch, HopperComputesPromptsWithTheKernelOfTypeAndHead) {
  open("sm_90", "sm_90", ".cubin");
  const auto backend = make_hopper_attention_prefill();
  Attention::Spec spec{.q_heads = 8, .kv_heads = 2, .head_dim = 96};
  EXPECT_EQ(launched(*backend, spec), Names{"attention_prefill_f16_128"});
  spec.head_dim = 512;
  EXPECT_EQ(launched(*backend, spec), Names{"attention_prefill_f16_512"});
  spec = {.q_heads = 8, .kv_heads = 2, .head_dim = 64, .kv_dtype = DType::bf16, .soft_cap = 30.0f};
  EXPECT_EQ(launched(*backend, spec), Names{"attention_prefill_bf16_64_special"});
  spec = {.q_heads = 8, .kv_heads = 2, .head_dim = 256, .kv_dtype = DType::q8_0};
  EXPECT_EQ(launched(*backend, spec), (Names{"attention_unpack_f16", "attention_prefill_f16_256"}));
  spec.kv_dtype = {DType::q8_0, DType::q4_0};
  EXPECT_EQ(launched(*backend, spec), (Names{"attention_unpack_coded_f16", "attention_prefill_f16_256"}));
}

TEST_F(AttentionLaunch, HopperDecodesLatentRowsWithTheKernelOfTypeAndRow) {
  open("sm_90", "sm_90", ".cubin");
  const auto backend = make_hopper_latent_decode();
  Attention::Spec spec{.q_heads = 16, .kv_heads = 1, .head_dim = 576, .most_rows = 1, .value_dim = 512};
  EXPECT_EQ(launched(*backend, spec), (Names{"latent_decode_f16_576", "latent_merge_512"}));
  spec.head_dim = 320;
  spec.value_dim = 256;
  spec.kv_dtype = DType::bf16;
  EXPECT_EQ(launched(*backend, spec), (Names{"latent_decode_bf16_320", "latent_merge_256"}));
  spec.q_heads = 512;
  EXPECT_EQ(launched(*backend, spec), (Names{"latent_decode_bf16_320", "latent_merge_few_256"}));
}

}  // namespace
}  // namespace rocmforge
