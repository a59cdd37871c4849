// A kernel that is called with a wrong argument throws an error that names it. It never reads through a bad pointer or block
// table.

#include <functional>

#include "conformance/attention_problem.h"
#include "kernels/check/arguments/arguments.h"

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
  harness().for_each_kernel_or_reference<Op>(spec, [&](const auto& kernel) {
    Arena arena(harness().place_of(kernel));
    test(kernel, arena, harness().place_of(kernel).context);
  });
}

class AttentionArguments : public testing::Test {
 protected:
  /// A valid call, changed by `change`, which may put arrays into the arena.
  void expect(const std::string& words,
              const std::function<void(Attention::Args& args, KvLayout& layout, Arena& arena)>& change) {
    for_all_kernels<Attention>(spec_, [&](const AttentionBackend& kernel, Arena& arena, ExecutionContext& context) {
      KvLayout layout = kernel.layout(spec_);
      layout.block_tokens = 32;
      PagedCache cache(layout, {{2, 0, 1}});
      const SequenceShape shape{80, 4};
      const AttentionLimits limits{.max_tokens = 4, .max_sequences = 1, .max_kv_len = 80, .num_threads = 3};
      Attention::Args args;
      args.q = arena.out<float>(4 * 256);
      args.q_stride = 256;
      args.cache = {arena.in_out(cache.bytes()), 3};
      args.batch = arena.batch(make_batch({&shape, 1}, cache));
      args.sinks = arena.out<float>(4);
      args.mask = arena.out<float>(4 * 80);
      args.mask_stride = 80;
      args.out = arena.out<float>(4 * 256);
      args.workspace = arena.workspace(kernel.workspace_bytes(spec_, limits));
      args.state = arena.state(kernel.state_bytes(spec_, limits));
      change(args, layout, arena);
      expect_complaint(words, [&] { kernel.run(spec_, layout, args, context); });
    });
  }
  void expect(const std::string& words, const std::function<void(Attention::Args&, KvLayout&)>& change) {
    expect(words, [&](Attention::Args& args, KvLayout& layout, Arena&) { change(args, layout); });
  }

  Attention::Spec spec_{.q_heads = 4, .kv_heads = 2, .head_dim = 64, .sinks = true};
};

TEST_F(AttentionArguments, TinyNullPointersAreNamed) {
  expect("q is null", [](auto& args, auto&) { args.q = nullptr; });
  expect("out is null", [](auto& args, auto&) { args.out = nullptr; });
  expect("sinks is null", [](auto& args, auto&) { args.sinks = nullptr; });
  expect("cache.data is null", [](auto& args, auto&) { args.cache.data = nullptr; });
  expect("batch.block_tables is null", [](auto& args, auto&) { args.batch.block_tables = nullptr; });
  expect("batch.kv_lengths is null", [](auto& args, auto&) { args.batch.kv_lengths = nullptr; });
  expect("batch.query_offsets is null", [](auto& args, auto&) { args.batch.query_offsets = nullptr; });
}

TEST_F(AttentionArguments, TinyWrongShapesAreNamed) {
  expect("q_stride 255 is less than q_heads * head_dim = 256", [](auto& args, auto&) { args.q_stride = 255; });
  expect("the layout has 1 KV heads, the spec 2", [](auto&, auto& layout) { layout.kv_heads = 1; });
  expect("the layout has head_dim 128, the spec 64", [](auto&, auto& layout) { layout.head_dim = 128; });
  expect("the layout stores F32, the spec says F16", [](auto&, auto& layout) { layout.dtype = DType::f32; });
  expect("block_tokens 24 is not a power of two", [](auto&, auto& layout) { layout.block_tokens = 24; });
  expect("needs 3 blocks of 32 tokens, max_blocks is 2", [](auto& args, auto&) { args.batch.max_blocks = 2; });
  expect("batch.num_sequences is 0", [](auto& args, auto&) { args.batch.num_sequences = 0; });
  expect("cache.num_blocks is 0", [](auto& args, auto&) { args.cache.num_blocks = 0; });
}

TEST_F(AttentionArguments, TinyDenseTensorsAreChecked) {
  expect("dense.v is null", [](auto& args, auto&) { args.dense.k = args.q; });
  expect("dense.head_stride 63 is less than head_dim 64", [](auto& args, auto&) {
    args.dense = {args.q, args.q, 128 * 80, 128, 63};
  });
  expect("dense.token_stride 0 is less than head_dim 64", [](auto& args, auto&) {
    args.dense = {args.q, args.q, 128 * 80, 0, 64};
  });
}

TEST_F(AttentionArguments, WhatArraysHoldIsCheckedOnTheHost) {
  ROCMFORGE_CPU_ONLY("on a GPU BatchPlan::validate looks before the upload");
  expect("query_offsets end with 4, but there are 5 tokens", [](auto& args, auto&) { args.batch.num_tokens = 5; });
  expect("entry 0 names block 2, the cache has 2", [](auto& args, auto&) { args.cache.num_blocks = 2; });
  expect("sequence 0 has 4 queries, max_q_len is 3", [](auto& args, auto&) { args.batch.max_q_len = 3; });
  expect("sequence 0 has kv_length 80, max_kv_len is 79", [](auto& args, auto&) { args.batch.max_kv_len = 79; });
  expect("entry 1 names block -1", [](auto& args, auto&, Arena& arena) {
    args.batch.block_tables = arena.in(std::vector<std::int32_t>{2, -1, 1});
  });
  expect("sequence 0 has 4 queries but kv_length 3",
         [](auto& args, auto&, Arena& arena) { args.batch.kv_lengths = arena.in(std::vector<std::int32_t>{3}); });
}

TEST(AttentionChecks, TinyOptionsNeedTheirArrays) {
  Attention::Spec spec{.q_heads = 2, .kv_heads = 2, .head_dim = 64, .mask = true};
  const KvLayout layout{.kv_heads = 2, .head_dim = 64};
  // An address that the host may not read, as on a GPU.
  const auto* ids = reinterpret_cast<const std::int32_t*>(0x1000);
  auto* floats = reinterpret_cast<float*>(0x1000);
  Attention::Args args{.q = floats, .q_stride = 128, .cache = {floats, 4}, .out = floats};
  args.batch = {2, 2, ids, ids, ids, 2, ids, ids, 1, 40};
  const auto check_it = [&] { check_arguments(spec, layout, args, DeviceKind::cuda); };
  expect_complaint("mask is null", check_it);
  args.mask = floats;
  args.mask_stride = 39;
  expect_complaint("mask_stride 39 is less than max_kv_len 40", check_it);
  args.mask_stride = 40;
  EXPECT_NO_THROW(check_it());
  spec.most_rows = 1;
  EXPECT_NO_THROW(check_it());
  args.batch.max_q_len = 2;
  expect_complaint("max_q_len is 2, but the spec is for at most 1", check_it);
  args.rows = Attention::Rows::single;
  EXPECT_NO_THROW(check_it());
  args.rows = Attention::Rows::several;
  expect_complaint("sequences of several queries, but the spec is for one", check_it);
}

TEST(RopeArguments, TinyAreNamed) {
  RopeAppend::Spec spec{.kind = RopeKind::half, .q_heads = 4, .head_dim = 64, .n_rot = 64, .head_norm = true, .layout = {}};
  spec.layout = {.kv_heads = 2, .head_dim = 64};
  using Change = std::function<void(RopeAppend::Args&, Arena&)>;
  const auto expect = [&](const std::string& words, const Change& change) {
    for_all_kernels<RopeAppend>(spec, [&](const auto& kernel, Arena& arena, ExecutionContext& context) {
      PagedCache cache(spec.layout, {{2, 0, 1}});
      const SequenceShape shape{80, 4};
      auto* rows = arena.out<float>(4 * 512);
      const float* norm = arena.out<float>(64);
      RopeAppend::Args args;
      args.q = rows;
      args.k = rows + 256;
      args.v = rows + 384;
      args.stride = 512;
      args.q_norm = args.k_norm = args.inverse_frequency = norm;
      args.cache = {arena.in_out(cache.bytes()), 3};
      args.batch = arena.batch(make_batch({&shape, 1}, cache));
      change(args, arena);
      expect_complaint(words, [&] { kernel.run(spec, args, context); });
    });
  };
  expect("q is null", [](auto& args, auto&) { args.q = nullptr; });
  expect("k is null", [](auto& args, auto&) { args.k = nullptr; });
  expect("v is null", [](auto& args, auto&) { args.v = nullptr; });
  expect("q_norm is null", [](auto& args, auto&) { args.q_norm = nullptr; });
  expect("k_norm is null", [](auto& args, auto&) { args.k_norm = nullptr; });
  expect("inverse_frequency is null", [](auto& args, auto&) { args.inverse_frequency = nullptr; });
  expect("stride 255 is less than q_heads * head_dim = 256", [](auto& args, auto&) { args.stride = 255; });
  expect("cache.num_blocks is 0", [](auto& args, auto&) { args.cache.num_blocks = 0; });
  expect("5 positions of a token", [](auto& args, auto&) { args.batch.position_axes = 5; });
  expect("axes is null", [](auto& args, Arena& arena) {
    args.batch.positions = arena.in(std::vector<std::int32_t>(12, 1));
    args.batch.position_axes = 3;
  });
  expect("batch.positions is null", [](auto& args, auto&) { args.batch.positions = nullptr; });
  if (!harness().is_gpu()) {
    expect("token 3 is at position -1", [](auto& args, Arena& arena) {
      args.batch.positions = arena.in(std::vector<std::int32_t>{76, 77, 78, -1});
    });
    expect("pair 2 turns by axis 3 of 3", [](auto& args, Arena& arena) {
      args.batch.positions = arena.in(std::vector<std::int32_t>(12, 1));
      args.batch.position_axes = 3;
      std::vector<std::int32_t> axes(32, 2);
      axes[2] = 3;
      args.axes = arena.in(axes);
    });
    expect("sequence_of token 2 is 1, there are 1 sequences", [](auto& args, Arena& arena) {
      args.batch.sequence_of = arena.in(std::vector<std::int32_t>{0, 0, 1, 0});
    });
  }
}

TEST(ElementwiseArguments, TinyAreNamed) {
  for_all_kernels<RmsNorm>({8, 1e-5f}, [](const auto& kernel, Arena& arena, ExecutionContext& context) {
    auto* data = arena.out<float>(64);
    const auto run = [&](const RmsNorm::Args& args) { kernel.run({8, 1e-5f}, args, context); };
    expect_complaint("x is null", [&] { run({nullptr, 1, data, data}); });
    expect_complaint("weight is null", [&] { run({data, 1, nullptr, data}); });
    expect_complaint("out is null", [&] { run({data, 1, data, nullptr}); });
  });
  const GatedActivation::Spec gated{Activation::silu, 8};
  for_all_kernels<GatedActivation>(gated, [&](const auto& kernel, Arena& arena, ExecutionContext& context) {
    auto* data = arena.out<float>(64);
    const auto run = [&](const GatedActivation::Args& args) { kernel.run(gated, args, context); };
    expect_complaint("gate is null", [&] { run({nullptr, data, 1, 8, data}); });
    expect_complaint("up is null", [&] { run({data, nullptr, 1, 8, data}); });
    expect_complaint("stride 7 is less than the width 8", [&] { run({data, data, 1, 7, data}); });
  });
  const EmbeddingRows::Spec embedding{DType::f32, 10, 4};
  for_all_kernels<EmbeddingRows>(embedding, [&](const auto& kernel, Arena& arena, ExecutionContext& context) {
    auto* data = arena.out<float>(64);
    const auto* id = arena.in(std::vector<std::int32_t>{10});
    const auto run = [&](const EmbeddingRows::Args& args) { kernel.run(embedding, args, context); };
    expect_complaint("ids is null", [&] { run({nullptr, 1, data, 1.0f, data}); });
    expect_complaint("table is null", [&] { run({id, 1, nullptr, 1.0f, data}); });
    if (!harness().is_gpu()) {
      expect_complaint("id 10 of token 0 is outside the vocabulary of 10", [&] { run({id, 1, data, 1.0f, data}); });
    }
  });
}

TEST(MatmulArguments, TinyAreNamed) {
  const Matmul::Spec spec{DType::q8_0, 8, 64};
  for_all_kernels<Matmul>(spec, [&](const MatmulKernel& kernel, Arena& arena, ExecutionContext& context) {
    auto* data = arena.out<float>(1024);
    const MatmulOutput right{spec.weight, data, 8, nullptr, data, 8, false};
    void* workspace = arena.workspace(kernel.workspace_bytes(2, 64));
    const auto run = [&](MatmulOutput output, std::int64_t x_stride = 64, std::int64_t k = 64) {
      kernel.run({data, 2, k, x_stride, {&output, 1}, workspace}, context);
    };
    const auto changed = [&](auto&& change) {
      MatmulOutput output = right;
      change(output);
      return output;
    };
    expect_complaint("weight of output 0 is null", [&] { run(changed([](auto& o) { o.weight = nullptr; })); });
    expect_complaint("out of output 0 is null", [&] { run(changed([](auto& o) { o.out = nullptr; })); });
    expect_complaint("n of output 0 is 0", [&] { run(changed([](auto& o) { o.n = 0; })); });
    expect_complaint("stride 7 of output 0 is less than its n 8", [&] { run(changed([](auto& o) { o.stride = 7; })); });
    expect_complaint("x_stride 63 is less than k 64", [&] { run(right, 63); });
    expect_complaint("k 48 is not a multiple of the Q8_0 block of output 0", [&] { run(right, 64, 48); });
  });
}

/// `args` with each pointer in turn set to null must be refused by name.
template <class Op, class... Members>
void expect_pointers(const typename Op::Spec& spec, std::initializer_list<const char*> names, Members... members) {
  for_all_kernels<Op>(spec, [&](const auto& kernel, Arena& arena, ExecutionContext& context) {
    auto name = names.begin();
    const auto one = [&](auto null_member) {
      typename Op::Args args;
      void* memory = arena.out<float>(64);
      (void)std::initializer_list<int>{(args.*members = static_cast<std::decay_t<decltype(args.*members)>>(memory), 0)...};
      args.*null_member = nullptr;
      expect_complaint(std::string(Op::name) + ": " + *name++ + " is null", [&] { kernel.run(spec, args, context); });
    };
    (one(members), ...);
  });
}

TEST(BuildingBlockArguments, TinyNullPointersAreNamed) {
  using Residual = ResidualAdd::Args;
  expect_pointers<ResidualAdd>({}, {"a", "b", "out"}, &Residual::a, &Residual::b, &Residual::out);
  expect_pointers<Scale>({}, {"x"}, &Scale::Args::x);
  expect_pointers<CausalMask>({}, {"scores"}, &CausalMask::Args::scores);
  expect_pointers<RowSoftmax>({}, {"scores"}, &RowSoftmax::Args::scores);
  using Scores = QueryKey::Args;
  expect_pointers<QueryKey>({64}, {"q", "k", "scores"}, &Scores::q, &Scores::k, &Scores::scores);
  using Values = WeightsValue::Args;
  expect_pointers<WeightsValue>({64}, {"weights", "v", "out"}, &Values::weights, &Values::v, &Values::out);
  expect_pointers<Dequantize>({DType::q4_k}, {"rows", "out"}, &Dequantize::Args::rows, &Dequantize::Args::out);
  using Norm = DequantizeRmsNorm::Args;
  expect_pointers<DequantizeRmsNorm>({DType::q4_k, 256}, {"rows", "weight", "out"}, &Norm::rows, &Norm::weight, &Norm::out);
  using Layer = LayerNorm::Args;
  expect_pointers<LayerNorm>({64, 1e-5f, true}, {"x", "weight", "bias", "out"}, &Layer::x, &Layer::weight, &Layer::bias,
                             &Layer::out);
  using Gather = GatherRows::Args;
  expect_pointers<GatherRows>({64}, {"x", "ids", "out"}, &Gather::x, &Gather::ids, &Gather::out);
}

TEST(BuildingBlockArguments, TinyWrongSizesAreNamed) {
  std::vector<float> data(8);
  float* x = data.data();
  const std::int32_t id = -1;
  expect_complaint("rms_norm: stride 3 is less than dim 4", [&] { check_arguments(RmsNorm::Spec{4}, {x, 1, x, x, 3}); });
  expect_complaint("layer_norm: rows is -1", [&] { check_arguments(LayerNorm::Spec{4}, {x, -1, x, nullptr, x}); });
  expect_complaint("layer_norm: stride 7 is less than 2 groups of 4", [&] {
    check_arguments(LayerNorm::Spec{.dim = 4, .groups = 2}, {.x = x, .rows = 1, .weight = x, .out = x, .stride = 7});
  });
  expect_complaint("count is -1", [&] { check_arguments(ResidualAdd::Spec{}, {x, x, -1, x}); });
  expect_complaint("count 255 is not a multiple of the 256 of a Q4_K block", [&] {
    check_arguments(Dequantize::Spec{DType::q4_k}, {x, 255, x});
  });
  expect_complaint("out is x", [&] { check_arguments(GatherRows::Spec{1}, {x, &id, 1, x}); });
  expect_complaint("id 0 is -1", [&] { check_arguments(GatherRows::Spec{1}, {x, &id, 1, x + 1}); });
  EXPECT_NO_THROW(check_arguments(GatherRows::Spec{1}, {x, &id, 1, x + 1}, DeviceKind::hip));
}

TEST(BuildingBlockArguments, TinyWrongRowsToOverwriteAreNamed) {
  std::vector<float> data(8);
  float* x = data.data();
  const std::int32_t id = 0;
  const std::int32_t none = -1;
  const OverwriteRows::Spec spec{2};
  expect_complaint("x_stride 1 is less than dim 2", [&] { check_arguments(spec, {x, 1, &id, &id, 1, x + 4}); });
  expect_complaint("from is null", [&] { check_arguments(spec, {x, 2, nullptr, &id, 1, x + 4}); });
  expect_complaint("out is x", [&] { check_arguments(spec, {x, 2, &id, &id, 1, x}); });
  expect_complaint("row -1 is to become row 0 of x", [&] { check_arguments(spec, {x, 2, &id, &none, 1, x + 4}); });
  expect_complaint("row 0 is to become row -1 of x", [&] { check_arguments(spec, {x, 2, &none, &id, 1, x + 4}); });
  EXPECT_NO_THROW(check_arguments(spec, {x, 2, &id, &none, 1, x + 4}, DeviceKind::hip));
}

TEST(BuildingBlockArguments, TinyWrongStreamsAndCutsAreNamed) {
  std::vector<float> data(8);
  float* x = data.data();
  const MixStreams::Spec spec{2, MixStreams::Inputs::and_row};
  const auto complains = [&](const char* about, const auto& change) {
    MixStreams::Args args{.x = x, .row = x, .logits = x, .base = x, .coefs = x, .tokens = 1, .first = x + 4};
    change(args);
    expect_complaint(about, [&] { check_arguments(spec, args); });
  };
  complains("x is null", [](auto& args) { args.x = nullptr; });
  complains("row is null", [](auto& args) { args.row = nullptr; });
  complains("base is null", [](auto& args) { args.base = nullptr; });
  complains("coefs is null", [](auto& args) { args.coefs = nullptr; });
  complains("first is null", [](auto& args) { args.first = nullptr; });
  complains("first is x", [&](auto& args) { args.first = x; });
  complains("tokens", [](auto& args) { args.tokens = -1; });
  EXPECT_EQ(check_spec(MixStreams::Spec{0}).reason, "dim is 0");
  expect_complaint("stride 1 is less than width 2", [&] { check_arguments(CutRows::Spec{2, 1.0f}, {x, 1, 1}); });
  expect_complaint("x is null", [&] { check_arguments(CutRows::Spec{2, 1.0f}, {nullptr, 1, 2}); });
  EXPECT_EQ(check_spec(CutRows::Spec{0, 1.0f}).reason, "width is 0");
  EXPECT_EQ(check_spec(CutRows::Spec{2, -std::numeric_limits<float>::infinity()}).reason, "-inf deviations");
}

TEST(BuildingBlockArguments, TinyWrongPartsOfRanksAreNamed) {
  std::vector<float> data(8);
  float* x = data.data();
  expect_complaint("the part of rank 1 is null", [&] { check_arguments(AllReduce::Spec{2}, {{x}, 1, x + 4}); });
  expect_complaint("out is the part of rank 1", [&] { check_arguments(AllReduce::Spec{2}, {{x, x + 4}, 1, x + 4}); });
  EXPECT_EQ(check_spec(AllReduce::Spec{17}).reason, "17 ranks are not 1 to 16");
  EXPECT_FALSE(check_spec(AllReduce::Spec{0}).ok);
}

TEST(BuildingBlockArguments, TinyWrongExchangesOfRanksAreNamed) {
  std::vector<float> data(8);
  float* x = data.data();
  std::uint32_t word = 0;
  const RankExchange::Spec spec{2};
  const auto complains = [&](const char* about, const auto& change) {
    RankExchange::Args args{.part = x, .widths = {2, 2}, .out = x + 4, .mail = {{x, x}, &word, &word}};
    change(args);
    expect_complaint(about, [&] { check_arguments(spec, args); });
  };
  complains("rank 2 is none of 2", [](auto& args) { args.rank = 2; });
  complains("the parts of a sum have other widths", [](auto& args) { args.widths[1] = 3; });
  complains("the box of rank 1 is null", [](auto& args) { args.mail.boxes[1] = nullptr; });
  complains("rounds is null", [](auto& args) { args.mail.rounds = nullptr; });
  complains("given_up is null", [](auto& args) { args.mail.given_up = nullptr; });
  complains("part is null", [](auto& args) { args.part = nullptr; });
  complains("out is the part", [&](auto& args) { args.out = x; });
  complains("out is null", [](auto& args) { args.out = nullptr; });
  complains("1073741824 rows of 4 elements are too many", [](auto& args) { args.rows = 1 << 30; });
  EXPECT_FALSE(check_spec(RankExchange::Spec{17}).ok);
}

TEST(AttentionStepArguments, TinyWrongShapesAreNamed) {
  std::vector<float> data(8);
  float* x = data.data();
  const ScoreShape one{.batch = 1, .q_len = 1, .kv_len = 1};
  expect_complaint("window is -1", [&] { check_arguments(CausalMask::Spec{}, {.scores = x, .shape = one, .window = -1}); });
  expect_complaint("soft_cap is -1", [&] { check_arguments(Scale::Spec{}, {.x = x, .count = 1, .soft_cap = -1.0f}); });
  expect_complaint("least or most is missing",
                   [&] { check_arguments(Scale::Spec{}, {.x = x, .count = 4, .width = 2, .least = x}); });
  expect_complaint("width is 0", [&] { check_arguments(Scale::Spec{}, {.x = x, .count = 4, .weights = x}); });
  expect_complaint("4 elements are no rows of 3",
                   [&] { check_arguments(Scale::Spec{}, {.x = x, .count = 4, .width = 3, .weights = x}); });
  expect_complaint("rows of 4 elements lie 3 apart",
                   [&] { check_arguments(QueryKey::Spec{4}, {.q = x, .q_stride = 3, .k = x, .shape = one, .scores = x}); });
  ScoreShape shape = one;
  const auto check_it = [&] { check_arguments(RowSoftmax::Spec{}, {.scores = x, .shape = shape}); };
  shape.q_len = -1;
  expect_complaint("row_softmax: shape.q_len is -1", check_it);
  shape = one;
  shape.heads = 0;
  expect_complaint("shape.heads is 0", check_it);
  shape = one;
  shape.first_row = 1;
  expect_complaint("shape.query_offsets is null, but the shape is ragged", check_it);
  const std::vector<std::int32_t> offsets = {0, 2, 1};
  const std::vector<std::int32_t> lengths = {1, 2};
  shape.query_offsets = offsets.data();
  expect_complaint("shape.kv_lengths is null", check_it);
  shape.kv_lengths = lengths.data();
  EXPECT_NO_THROW(check_it());
  shape.batch = 2;
  expect_complaint("query_offsets fall at sequence 1", check_it);
  EXPECT_NO_THROW(check_arguments(RowSoftmax::Spec{}, {.scores = x, .shape = shape}, DeviceKind::hip));
  shape.query_offsets = lengths.data();
  shape.batch = 1;
  shape.kv_len = 0;
  expect_complaint("sequence 0 has 1 keys, kv_len is 0", check_it);
}

TEST(AttentionStepArguments, TinySourcesOfKAndVAreChecked) {
  std::vector<float> data(64);
  float* x = data.data();
  std::int32_t block = 3;
  const ReplicateKv::Spec spec{4, {.dtype = DType::f32, .block_tokens = 16, .kv_heads = 2, .head_dim = 4}};
  ReplicateKv::Args args{.cache = {x, 3}, .block_tables = &block, .max_blocks = 1};
  args.shape = {.batch = 1, .heads = 4, .q_len = 1, .kv_len = 16};
  args.k_out = x;
  const auto check_it = [&] { check_arguments(spec, args); };
  expect_complaint("replicate_kv: v_out is null", check_it);
  args.v_out = x;
  expect_complaint("entry 0 of sequence 0 names block 3, the cache has 3", check_it);
  EXPECT_NO_THROW(check_arguments(spec, args, DeviceKind::cuda));
  args.shape.kv_len = 17;
  expect_complaint("sequence 0 needs 2 blocks, max_blocks is 1", check_it);
  args.first_head = 1;
  expect_complaint("heads 1 to 4 of 4 query heads", check_it);
  args.first_head = 0;
  args.dense.k = x;
  expect_complaint("dense.v is null", check_it);
  args.dense.k = nullptr;
  args.cache.data = nullptr;
  expect_complaint("cache.data is null", check_it);
}

TEST(SampleChecks, TinyRowsAreChecked) {
  std::vector<float> logits(4);
  std::int32_t out = 0;
  SampleTokens::Row row;
  const SampleTokens::Adjustment adjustment{.id = 4, .count = 1};
  SampleTokens::Args args{.logits = logits.data(), .num_rows = 1, .rows = &row, .out = &out, .workspace = logits.data()};
  const auto check_it = [&] { check_arguments(SampleTokens::Spec{4}, args); };
  EXPECT_NO_THROW(check_it());
  row.uniform = 1.0;
  expect_complaint("uniform of row 0 is 1, not in [0, 1)", check_it);
  EXPECT_NO_THROW(check_arguments(SampleTokens::Spec{4}, args, DeviceKind::cuda));
  row.uniform = 0.5;
  row.num_adjustments = 1;
  expect_complaint("adjustments is null, row 0 has 1", check_it);
  args.adjustments = &adjustment;
  expect_complaint("adjustment 0 of row 0 names id 4, outside the vocabulary of 4", check_it);
  row.num_adjustments = 0;
  row.temperature = 0.7f;
  args.all_greedy = true;
  expect_complaint("all_greedy, but the temperature of row 0 is 0.7", check_it);
  args.logits = nullptr;
  expect_complaint("logits is null", check_it);
}

TEST(Specs, TinyWhatNoKernelCanDoIsRefusedWithTheReason) {
  const auto refusal = [](auto op, const auto& spec) {
    for (const auto& kernel : harness().registry.all<decltype(op)>()) {
      if (kernel->name() == "reference") {
        return kernel->supports(spec, harness().host.device->info()).reason;
      }
    }
    return std::string("there is no reference");
  };
  EXPECT_EQ(refusal(Attention{}, Attention::Spec{.q_heads = 10, .kv_heads = 4, .head_dim = 64}),
            "q_heads 10 is not a multiple of kv_heads 4");
  EXPECT_EQ(refusal(Attention{}, Attention::Spec{.q_heads = 8, .kv_heads = 4, .head_dim = 64, .kv_dtype = DType::q4_k}),
            "K or V of Q4_K, not of F32, F16, BF16, Q8_0, Q5_1, Q5_0, Q4_1, Q4_0 or IQ4_NL");
  EXPECT_EQ(refusal(Attention{}, Attention::Spec{.q_heads = 8, .kv_heads = 4, .head_dim = 80, .kv_dtype = DType::q8_0}),
            "head_dim 80 is not a multiple of 32, as Q8_0 pages need");
  EXPECT_EQ(refusal(Attention{}, Attention::Spec{.q_heads = 8, .kv_heads = 4, .head_dim = 64, .io_dtype = DType::q8_0}),
            "io_dtype Q8_0 is not one of F32, F16, BF16");
  EXPECT_EQ(refusal(EmbeddingRows{}, EmbeddingRows::Spec{DType::q4_k, 100, 300}),
            "rows of 300 elements are not a multiple of the 256 of a Q4_K block");
  EXPECT_EQ(refusal(Matmul{}, Matmul::Spec{DType::q1_0, 256, 256}), "format Q1_0 does not compute");
  EXPECT_EQ(refusal(ReplicateKv{}, ReplicateKv::Spec{10, {.kv_heads = 4, .head_dim = 64}}),
            "q_heads 10 is not a multiple of kv_heads 4");
  EXPECT_EQ(refusal(QueryKey{}, QueryKey::Spec{64, DType::q8_0}), "q_dtype Q8_0 is not one of F32, F16, BF16");
  EXPECT_EQ(refusal(Dequantize{}, Dequantize::Spec{DType::q1_0}), "format Q1_0 does not compute");
  EXPECT_EQ(refusal(GatherRows{}, GatherRows::Spec{0}), "dim is 0");
  EXPECT_EQ(refusal(LayerNorm{}, LayerNorm::Spec{0}), "dim is 0");
  EXPECT_EQ(refusal(LayerNorm{}, LayerNorm::Spec{.dim = 4, .groups = 0}), "groups is 0");
  RopeAppend::Spec rope{.kind = RopeKind::half, .q_heads = 4, .head_dim = 64, .n_rot = 66, .layout = {}};
  rope.layout = {.kv_heads = 2, .head_dim = 64};
  EXPECT_EQ(refusal(RopeAppend{}, rope), "n_rot 66 is not an even number up to head_dim 64");
}

}  // namespace
}  // namespace rocmforge::test
