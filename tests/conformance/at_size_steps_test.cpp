// The steps of composed attention at the sizes of real work, on a real GPU: every element is compared with the plain
// kernels' (check). Outputs are poisoned, rows and keys that a sequence lacks must stay so, and each call runs in all
// situations.

#include <algorithm>

#include "checks/model_shapes.h"
#include "conformance/at_size.h"

namespace rocmforge::test {
namespace {

/// Of scores, and of replicated K.
constexpr std::int64_t most_elements = std::int64_t{1} << 28;

/// Decodes behind short and long contexts, prompts of lengths around the sizes of tiles, long ones, and mixes.
std::vector<StepShape> steps() {
  std::vector<StepShape> all = {{"one token", {{1, 1}}},
                                {"one token behind 4,095", {{4096, 1}}},
                                {"one token behind 32,768", {{32769, 1}}},
                                {"one token behind 131,072", {{131073, 1}}},
                                ragged_decodes(64)};
  for (const std::int32_t length : lengths_around_tiles()) {
    all.push_back(prompts_of(40, length));
  }
  all.push_back({"a prompt of 2,048", {{2048, 2048}}});
  all.push_back({"a chunk of 512 behind 8,191", {{8703, 512}}});
  all.push_back({"chunks beside decodes", {{2048, 300}, {1, 1}, {33, 1}, {129, 129}, {1000, 65}}});
  return all;
}

/// Heads of Llama 3 8B, Qwen2.5 0.5B, Gemma 3 12B and gpt-oss 20B.
std::vector<Attention::Spec> layers() {
  std::vector<Attention::Spec> all;
  for (const ModelAttention& layer : attention_of_models()) {
    if (layer.model == "llama3_8b" || layer.model == "qwen2_5_0_5b" || layer.model == "gemma3_12b_window" ||
        layer.model == "gpt_oss_20b_window") {
      all.push_back(layer.spec);
    }
  }
  return all;
}

/// One step of a layer's attention.
class Steps {
 public:
  Steps(const Attention::Spec& layer, const StepShape& step)
      : layer_(layer), paged_(make_pages(layer, step)), arrays_(paged_.plan), batch_(arrays_.batch()) {
    shape_ = {.batch = batch_.num_sequences,
              .heads = layer.q_heads,
              .q_len = batch_.max_q_len,
              .kv_len = batch_.max_kv_len,
              .query_offsets = batch_.query_offsets,
              .kv_lengths = batch_.kv_lengths};
  }

  [[nodiscard]] bool fits() const { return std::max(shape_.count(), replicas()) <= most_elements; }

  std::int64_t compare_all() const {
    return compare_replicate() + compare_query_key() + compare_scores() + compare_weights_value();
  }

 private:
  static KvLayout layout(Attention::Spec spec) {
    return harness().registry.choose<Attention>(spec, harness().device, "check").kernel->layout(spec);
  }
  static PagedStep make_pages(const Attention::Spec& layer, const StepShape& step) {
    Random random(61);
    return paged_step(step.sequences, layout(layer).block_tokens, random);
  }
  /// Short rows are compared together: a few scores may all nearly cancel.
  [[nodiscard]] OneOutput scores_form(const DeviceBuffer* before = nullptr) const {
    constexpr std::int64_t short_row = 64;
    const std::int64_t rows = shape_.kv_len < short_row ? shape_.batch : shape_.rows();
    return {.rows = rows, .width = shape_.count() / rows, .before = before};
  }
  [[nodiscard]] std::int64_t key_rows() const { return std::int64_t{shape_.batch} * shape_.kv_len * shape_.heads; }
  [[nodiscard]] std::int64_t replicas() const { return key_rows() * layer_.head_dim; }

  [[nodiscard]] std::int64_t compare_replicate() const {
    const ReplicateKv::Spec spec{layer_.q_heads, layout(layer_)};
    Random random(62);
    const DeviceBuffer pages = uploaded(random_pages(spec.layout, paged_.num_blocks, random));
    const auto make = [&] {
      std::vector<Output> outputs;
      for (int part = 0; part < 2; ++part) {
        outputs.emplace_back(DType::f32, key_rows(), layer_.head_dim);
      }
      return outputs;
    };
    const auto call = [&](const OpKernel<ReplicateKv>& kernel, const std::vector<Output>& outputs) {
      const ReplicateKv::Args args{.cache = {pages.data(), paged_.num_blocks},
                                   .block_tables = batch_.block_tables,
                                   .max_blocks = batch_.max_blocks,
                                   .shape = shape_,
                                   .k_out = outputs[0].memory.as<float>(),
                                   .v_out = outputs[1].memory.as<float>()};
      return [&kernel, &spec, args] { kernel.run(spec, args, harness().target.context); };
    };
    return compare_with_plain<ReplicateKv>(spec, make, call, [&](const auto& actual, const auto& expected, auto kernel) {
      for (std::size_t part = 0; part < 2; ++part) {
        expect_rows(actual[part], expected[part], 0.0, kernel);
      }
      return 2 * replicas();
    });
  }

  [[nodiscard]] std::int64_t compare_query_key() const {
    const std::int64_t width = std::int64_t{shape_.heads} * layer_.head_dim;
    const DeviceBuffer q = poisoned_buffer(row_bytes(layer_.io_dtype, arrays_.tokens() * width));
    fill_random(harness().target.device->stream(), q.data(), layer_.io_dtype, arrays_.tokens() * width, 63);
    const DeviceBuffer k = random_floats(replicas(), 64);
    return compare_one_output<QueryKey>({layer_.head_dim, layer_.io_dtype}, scores_form(), [&](float* out) {
      return QueryKey::Args{.q = q.data(), .k = k.as<float>(), .shape = shape_, .scale = 0.1f, .scores = out};
    });
  }

  /// What changes scores in place.
  [[nodiscard]] std::int64_t compare_scores() const {
    const DeviceBuffer scores = random_floats(shape_.count(), 65, 3.0f);
    const OneOutput form = scores_form(&scores);
    std::int64_t elements = compare_one_output<Scale>(
        {}, form, [&](float* out) { return Scale::Args{.x = out, .count = shape_.count(), .factor = 0.3f}; });
    elements += compare_one_output<Scale>({}, form, [&](float* out) {
      return Scale::Args{.x = out, .count = shape_.count(), .factor = 4.0f, .soft_cap = 30.0f};
    });
    const DeviceBuffer least = random_floats(shape_.kv_len, 67);
    const DeviceBuffer most = random_floats(shape_.kv_len, 68);
    elements += compare_one_output<Scale>({}, form, [&](float* out) {
      return Scale::Args{.x = out,
                         .count = shape_.count(),
                         .width = shape_.kv_len,
                         .weights = most.as<float>(),
                         .least = least.as<float>(),
                         .most = most.as<float>()};
    });
    const DeviceBuffer mask = random_floats(arrays_.tokens() * shape_.kv_len, 66);
    for (const bool masked : {false, true}) {
      elements += compare_one_output<CausalMask>({}, form, [&](float* out) {
        return CausalMask::Args{.scores = out,
                                .shape = shape_,
                                .window = layer_.window,
                                .causal = !masked,
                                .mask = masked ? mask.as<float>() : nullptr,
                                .mask_stride = shape_.kv_len};
      });
    }
    const DeviceBuffer sinks = random_floats(shape_.heads, 67, 2.0f);
    return elements + compare_one_output<RowSoftmax>({}, form, [&](float* out) {
             return RowSoftmax::Args{.scores = out, .shape = shape_, .sinks = layer_.sinks ? sinks.as<float>() : nullptr};
           });
  }

  [[nodiscard]] std::int64_t compare_weights_value() const {
    const DeviceBuffer weights = random_floats(shape_.count(), 68);
    const DeviceBuffer v = random_floats(replicas(), 69);
    const OneOutput form{.rows = arrays_.tokens() * shape_.heads, .width = layer_.head_dim, .dtype = layer_.io_dtype};
    return compare_one_output<WeightsValue>({layer_.head_dim, layer_.io_dtype}, form, [&](float* out) {
      return WeightsValue::Args{.weights = weights.as<float>(), .v = v.as<float>(), .shape = shape_, .out = out};
    });
  }

  Attention::Spec layer_;
  PagedStep paged_;
  StepArrays arrays_;
  RaggedBatch batch_;
  ScoreShape shape_;
};

TEST(HugeAttentionSteps, AreRightInEveryElement) {
  std::int64_t elements = 0;
  for (Attention::Spec layer : layers()) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      layer.kv_dtype = dtype == DType::f32 ? DType::q8_0 : dtype;
      layer.io_dtype = dtype;
      for (const StepShape& step : steps()) {
        SCOPED_TRACE(step.name);
        const Steps one(layer, step);
        elements += one.fits() ? one.compare_all() : 0;
      }
    }
  }
  EXPECT_GT(elements, 0);
  print_elements("steps of attention", elements);
}

}  // namespace
}  // namespace rocmforge::test
