// A kernel that is called wrongly says which argument is wrong; it never reads through a bad pointer or block table.

#include <functional>

#include "conformance/harness.h"

namespace rocmforge::test {
namespace {

/// Runs `call`, which must throw a LogicError that contains `words`.
void expect_complaint(const std::string& words, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "no complaint about: " << words;
  } catch (const LogicError& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

template <class Op, class Test>
void for_all_kernels(const typename Op::Spec& spec, const Test& test) {
  for (const auto& kernel : harness().registry.all<Op>()) {
    if (kernel->device() == harness().device.kind && kernel->supports(spec, harness().device).ok) {
      SCOPED_TRACE(std::string(kernel->name()));
      test(*kernel);
    }
  }
}

class AttentionArguments : public testing::Test {
 protected:
  /// A right call changed by `change`.
  void expect(const std::string& words, const std::function<void(Attention::Args&, KvLayout&)>& change) {
    for_all_kernels<Attention>(spec_, [&](const AttentionBackend& kernel) {
      KvLayout layout = kernel.layout(spec_);
      layout.block_tokens = 32;
      PagedCache cache(layout, {{2, 0, 1}});
      const SequenceShape shape{80, 4};
      const BatchPlan batch = make_batch({&shape, 1}, cache);
      std::vector<float> q(4 * 256);
      std::vector<float> out(4 * 256);
      std::vector<float> sinks(4);
      PoisonedBytes workspace(kernel.workspace_bytes(spec_, {.max_tokens = 4, .num_threads = 3}));
      Attention::Args args;
      args.q = q.data();
      args.q_stride = 256;
      args.cache = cache.view();
      args.batch = batch.view();
      args.sinks = sinks.data();
      args.out = out.data();
      args.workspace = workspace.data();
      change(args, layout);
      expect_complaint(words, [&] { kernel.run(spec_, layout, args, harness().context); });
    });
  }

  Attention::Spec spec_{.q_heads = 4, .kv_heads = 2, .head_dim = 64, .sinks = true};
};

TEST_F(AttentionArguments, NullPointersAreNamed) {
  expect("q is null", [](auto& args, auto&) { args.q = nullptr; });
  expect("out is null", [](auto& args, auto&) { args.out = nullptr; });
  expect("sinks is null", [](auto& args, auto&) { args.sinks = nullptr; });
  expect("cache.data is null", [](auto& args, auto&) { args.cache.data = nullptr; });
  expect("batch.block_tables is null", [](auto& args, auto&) { args.batch.block_tables = nullptr; });
  expect("batch.kv_lengths is null", [](auto& args, auto&) { args.batch.kv_lengths = nullptr; });
  expect("batch.query_offsets is null", [](auto& args, auto&) { args.batch.query_offsets = nullptr; });
}

TEST_F(AttentionArguments, WrongShapesAreNamed) {
  expect("q_stride 255 is less than q_heads * head_dim = 256", [](auto& args, auto&) { args.q_stride = 255; });
  expect("the layout has 1 KV heads, the spec 2", [](auto&, auto& layout) { layout.kv_heads = 1; });
  expect("the layout has head_dim 128, the spec 64", [](auto&, auto& layout) { layout.head_dim = 128; });
  expect("the layout stores F32, the spec says F16", [](auto&, auto& layout) { layout.dtype = DType::f32; });
  expect("block_tokens 24 is not a power of two", [](auto&, auto& layout) { layout.block_tokens = 24; });
  expect("query_offsets end with 4, but there are 5 tokens", [](auto& args, auto&) { args.batch.num_tokens = 5; });
}

TEST_F(AttentionArguments, MismatchedBlockTablesAreNamed) {
  expect("needs 3 blocks of 32 tokens, max_blocks is 2", [](auto& args, auto&) { args.batch.max_blocks = 2; });
  expect("entry 0 names block 2, the cache has 2", [](auto& args, auto&) { args.cache.num_blocks = 2; });
  const std::vector<std::int32_t> unused = {2, -1, 1};
  expect("entry 1 names block -1", [&](auto& args, auto&) { args.batch.block_tables = unused.data(); });
  const std::vector<std::int32_t> too_short = {3};
  expect("sequence 0 has 4 queries but kv_length 3", [&](auto& args, auto&) { args.batch.kv_lengths = too_short.data(); });
}

TEST(RopeArguments, AreNamed) {
  RopeAppend::Spec spec{.kind = RopeKind::half, .q_heads = 4, .head_dim = 64, .n_rot = 64, .head_norm = true, .layout = {}};
  spec.layout = {.kv_heads = 2, .head_dim = 64};
  const auto expect = [&](const std::string& words, const std::function<void(RopeAppend::Args&)>& change) {
    for_all_kernels<RopeAppend>(spec, [&](const OpKernel<RopeAppend>& kernel) {
      PagedCache cache(spec.layout, {{2, 0, 1}});
      const SequenceShape shape{80, 4};
      const BatchPlan batch = make_batch({&shape, 1}, cache);
      std::vector<float> rows(4 * 512);
      const std::vector<float> norm(64, 1.0f);
      RopeAppend::Args args{rows.data(), rows.data() + 256, rows.data() + 384, 512,         norm.data(),
                            norm.data(), norm.data(),       cache.view(),      batch.view()};
      change(args);
      expect_complaint(words, [&] { kernel.run(spec, args, harness().context); });
    });
  };
  expect("q is null", [](auto& args) { args.q = nullptr; });
  expect("k is null", [](auto& args) { args.k = nullptr; });
  expect("v is null", [](auto& args) { args.v = nullptr; });
  expect("q_norm is null", [](auto& args) { args.q_norm = nullptr; });
  expect("k_norm is null", [](auto& args) { args.k_norm = nullptr; });
  expect("inverse_frequency is null", [](auto& args) { args.inverse_frequency = nullptr; });
  expect("stride 255 is less than q_heads * head_dim = 256", [](auto& args) { args.stride = 255; });
  expect("cache.num_blocks is 0", [](auto& args) { args.cache.num_blocks = 0; });
  const std::vector<std::int32_t> beyond = {76, 77, 78, 80};
  expect("token 3 is at position 80, but sequence 0 has kv_length 80",
         [&](auto& args) { args.batch.positions = beyond.data(); });
  const std::vector<std::int32_t> stranger = {0, 0, 1, 0};
  expect("sequence_of token 2 is 1, there are 1 sequences", [&](auto& args) { args.batch.sequence_of = stranger.data(); });
}

TEST(ElementwiseArguments, AreNamed) {
  std::vector<float> data(64);
  const std::int32_t id = 10;
  float* none = nullptr;
  for_all_kernels<RmsNorm>({8, 1e-5f}, [&](const OpKernel<RmsNorm>& kernel) {
    const auto run = [&](const RmsNorm::Args& args) { kernel.run({8, 1e-5f}, args, harness().context); };
    expect_complaint("x is null", [&] { run({nullptr, 1, data.data(), data.data()}); });
    expect_complaint("weight is null", [&] { run({data.data(), 1, nullptr, data.data()}); });
    expect_complaint("out is null", [&] { run({data.data(), 1, data.data(), none}); });
  });
  const GatedActivation::Spec gated{Activation::silu, 8};
  for_all_kernels<GatedActivation>(gated, [&](const OpKernel<GatedActivation>& kernel) {
    const auto run = [&](const GatedActivation::Args& args) { kernel.run(gated, args, harness().context); };
    expect_complaint("gate is null", [&] { run({nullptr, data.data(), 1, 8, data.data()}); });
    expect_complaint("up is null", [&] { run({data.data(), nullptr, 1, 8, data.data()}); });
    expect_complaint("stride 7 is less than the width 8", [&] { run({data.data(), data.data(), 1, 7, data.data()}); });
  });
  const EmbeddingRows::Spec embedding{DType::f32, 10, 4};
  for_all_kernels<EmbeddingRows>(embedding, [&](const OpKernel<EmbeddingRows>& kernel) {
    const auto run = [&](const EmbeddingRows::Args& args) { kernel.run(embedding, args, harness().context); };
    expect_complaint("ids is null", [&] { run({nullptr, 1, data.data(), 1.0f, data.data()}); });
    expect_complaint("table is null", [&] { run({&id, 1, nullptr, 1.0f, data.data()}); });
    expect_complaint("id 10 of token 0 is outside the vocabulary of 10", [&] {
      run({&id, 1, data.data(), 1.0f, data.data()});
    });
  });
}

TEST(Specs, WhatNoKernelCanDoIsRefusedWithTheReason) {
  const auto refusal = [](auto op, const auto& spec) {
    for (const auto& kernel : harness().registry.all<decltype(op)>()) {
      if (kernel->name() == "reference") {
        return kernel->supports(spec, harness().device).reason;
      }
    }
    return std::string("there is no reference");
  };
  EXPECT_EQ(refusal(Attention{}, Attention::Spec{.q_heads = 10, .kv_heads = 4, .head_dim = 64}),
            "q_heads 10 is not a multiple of kv_heads 4");
  EXPECT_EQ(refusal(Attention{}, Attention::Spec{.q_heads = 8, .kv_heads = 4, .head_dim = 64, .kv_dtype = DType::q8_0}),
            "kv_dtype Q8_0 is not one of F32, F16, BF16");
  EXPECT_EQ(refusal(EmbeddingRows{}, EmbeddingRows::Spec{DType::q4_k, 100, 300}),
            "rows of 300 elements are not a multiple of the 256 of a Q4_K block");
  EXPECT_EQ(refusal(Matmul{}, Matmul::Spec{DType::iq1_s, 256, 256}), "format IQ1_S does not compute");
  RopeAppend::Spec rope{.kind = RopeKind::half, .q_heads = 4, .head_dim = 64, .n_rot = 66, .layout = {}};
  rope.layout = {.kv_heads = 2, .head_dim = 64};
  EXPECT_EQ(refusal(RopeAppend{}, rope), "n_rot 66 is not an even number up to head_dim 64");
}

}  // namespace
}  // namespace rocmforge::test
