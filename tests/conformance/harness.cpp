#include "conformance/harness.h"

namespace rocmforge::test {

std::vector<std::int32_t> kv_lengths(std::span<const SequenceShape> shapes) {
  std::vector<std::int32_t> lengths;
  for (const SequenceShape& shape : shapes) {
    lengths.push_back(shape.kv_len);
  }
  return lengths;
}

AttentionProblem::AttentionProblem(const Attention::Spec& problem_spec, std::vector<SequenceShape> problem_shapes,
                                   std::uint64_t seed, float spread)
    : spec(problem_spec), shapes(std::move(problem_shapes)), kv() {
  Random random(seed);
  std::int64_t tokens = 0;
  for (const SequenceShape& shape : shapes) {
    tokens += shape.q_len;
  }
  q = random.normals(tokens * spec.q_heads * spec.head_dim, spread);
  kv = PagedSequences(kv_lengths(shapes), spec.kv_dtype, spec.kv_heads, spec.head_dim, random, spread);
  sinks = spec.sinks ? random.normals(spec.q_heads) : std::vector<float>();
}

std::vector<float> AttentionProblem::run(const AttentionBackend& kernel, ExecutionContext& context,
                                         std::int32_t block_tokens, std::uint64_t block_seed) const {
  KvLayout layout = kernel.layout(spec);
  layout.block_tokens = block_tokens != 0 ? block_tokens : layout.block_tokens;
  PagedCache cache(layout, kv_lengths(shapes), block_seed);
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    cache.write(kv, s, 0, shapes[s].kv_len);
  }
  return run_attention(kernel, spec, cache, shapes, q, sinks, context);
}

std::vector<float> run_attention(const AttentionBackend& kernel, const Attention::Spec& spec, PagedCache& cache,
                                 std::span<const SequenceShape> shapes, std::span<const float> q,
                                 std::span<const float> sinks, ExecutionContext& context) {
  const BatchPlan batch = make_batch(shapes, cache);
  const std::int64_t width = std::int64_t{spec.q_heads} * spec.head_dim;
  std::vector<float> out = poisoned(batch.num_tokens() * width);
  PoisonedBytes workspace(kernel.workspace_bytes(
      spec, {.max_tokens = batch.num_tokens(), .num_threads = context.pool != nullptr ? context.pool->num_threads() : 1}));
  Attention::Args args;
  args.q = q.data();
  args.q_stride = width;
  args.cache = cache.view();
  args.batch = batch.view();
  args.sinks = spec.sinks ? sinks.data() : nullptr;
  args.out = out.data();
  args.workspace = workspace.data();
  kernel.run(spec, cache.layout(), args, context);
  EXPECT_TRUE(workspace.intact()) << "wrote past the end of the workspace";
  return out;
}

}  // namespace rocmforge::test
