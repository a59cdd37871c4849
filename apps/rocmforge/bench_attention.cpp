#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/half.h"
#include "comma_list.h"
#include "command.h"
#include "flags.h"
#include "kernel_bench.h"
#include "ops/batch_plan.h"
#include "tensor/random_rows.h"
#include "text.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

struct AttentionFlags : KernelBenchFlags {
  std::string heads = "32:8";
  std::string head_dims = "128";
  std::string prefill = "512,2048,8192";
  std::string decode = "1x512,1x4096,1x32768,1x131072,16x4096,64x4096,64x16384";
  std::string kv_type = "f16";
  bool full = false;
};

struct Work {
  std::int32_t sequences = 1;
  std::int32_t q_len = 1;
  std::int32_t kv_len = 1;
};

std::vector<std::int32_t> parse_pair(const std::string& text, char separator, const char* option, const char* example) {
  const std::size_t at = text.find(separator);
  if (at == std::string::npos) {
    throw UsageError(fmt::format("{}: '{}' is not of the form {}", option, text, example));
  }
  return {parse_integers(text.substr(0, at), option, 1, 1 << 22)[0],
          parse_integers(text.substr(at + 1), option, 1, 1 << 22)[0]};
}

std::vector<Work> parse_work(const AttentionFlags& flags) {
  std::vector<Work> works;
  constexpr std::int32_t tokens_of_a_prefill = 16384;  // short prompts in several sequences, to fill the GPU
  if (!flags.prefill.empty() && flags.prefill != "0") {
    for (const std::int32_t length : parse_integers(flags.prefill, "--prefill", 1, 1 << 20)) {
      works.push_back({std::max(1, tokens_of_a_prefill / length), length, length});
    }
  }
  if (!flags.decode.empty() && flags.decode != "0") {
    for (const std::string& part : split_at_commas(flags.decode)) {
      const auto pair = parse_pair(part, 'x', "--decode", "BATCHxCONTEXT, as in 16x4096");
      works.push_back({pair[0], 1, pair[1]});
    }
  }
  return works;
}

/// The least total size of the KV caches that a measurement of decode reads in turn: more than any GPU's L2 cache.
constexpr double bytes_of_all_sets = 320e6;

/// The pattern that is repeated to fill a cache. Its length is no multiple of a block's, so that blocks differ. Pages of
/// Q8_0 have a head's quants before its scales, so the pattern consists of whole heads.
std::vector<std::byte> cache_pattern(const KvLayout& layout, Random& random) {
  constexpr std::int64_t elements = 1 << 20;
  if (layout.dtype != DType::q8_0) {
    return random_rows(layout.dtype, 1, elements + 64 * 3, random);
  }
  const auto heads = static_cast<std::size_t>(elements / layout.head_elems() | 1);
  std::vector<std::byte> pattern(heads * layout.head_bytes());
  std::ranges::generate(pattern, [&random] { return static_cast<std::byte>(random.bits()); });
  for (std::size_t head = 0; head < heads; ++head) {
    for (std::size_t at = static_cast<std::size_t>(layout.head_elems()); at < layout.head_bytes(); at += 2) {
      const std::uint16_t scale = float_to_half(random.uniform(0.005f, 0.02f));
      std::memcpy(pattern.data() + head * layout.head_bytes() + at, &scale, sizeof scale);
    }
  }
  return pattern;
}

/// Random queries over a paged cache of random numbers, its blocks in random order. For decode, small caches have several
/// sets, and each call reads the next one, because in a model the other layers and the weights evict a cache from L2.
class AttentionProblem {
 public:
  AttentionProblem(KernelBench& bench, const AttentionBackend& kernel, const Attention::Spec& spec, const Work& work)
      : bench_(bench), kernel_(kernel), spec_(spec), work_(work), layout_(kernel.layout(spec)), random_(3) {
    const std::int32_t blocks = (work.kv_len + layout_.block_tokens - 1) / layout_.block_tokens;
    sets_ =
        work.q_len > 1 ? 1 : static_cast<std::int32_t>(std::clamp(std::ceil(bytes_of_all_sets / kv_bytes()), 1.0, 128.0));
    num_blocks_ = std::int64_t{blocks} * work.sequences * sets_;
    pattern_ = cache_pattern(layout_, random_);
    cache_ = bench.patterned(pattern_, layout_.block_bytes() * static_cast<std::size_t>(num_blocks_));
    make_plans(blocks);
    const std::int64_t rows = plan().num_tokens();
    q_.resize(static_cast<std::size_t>(rows * width()));
    std::ranges::generate(q_, [this] { return random_.normal(); });
    q_on_device_ = bench.upload(q_.data(), q_.size() * sizeof(float));
    out_ = bench.device().allocate(q_.size() * sizeof(float), "the output");
    const AttentionLimits limits{rows, work.sequences, work.kv_len,
                                 bench.context().pool != nullptr ? bench.context().pool->num_threads() : 1};
    workspace_ = bench.device().allocate(kernel.workspace_bytes(spec, limits) + 1, "attention's workspace");
    state_ = bench.device().allocate(kernel.state_bytes(spec, limits) + 1, "attention's counters");
    upload_batches();
  }

  double seconds() {
    return bench_.median_seconds([this](int set) { run(set); }, sets_);
  }

  /// Relative error of some rows and heads against f64.
  double error() {
    run(0);
    if (bench_.device().is_gpu()) {
      bench_.device().stream().synchronize();
    }
    double difference = 0.0;
    double norm = 0.0;
    std::vector<float> actual(static_cast<std::size_t>(spec_.head_dim));
    for (int sample = 0; sample < 12; ++sample) {
      const std::int32_t row = random_.below(plan().num_tokens());
      const std::int32_t head = random_.below(spec_.q_heads);
      const std::int64_t at = row * width() + std::int64_t{head} * spec_.head_dim;
      bench_.device().download(actual.data(), out_.as<float>() + at, actual.size() * sizeof(float));
      const std::vector<double> expected = exact(row, head);
      for (std::size_t d = 0; d < actual.size(); ++d) {
        difference += (actual[d] - expected[d]) * (actual[d] - expected[d]);
        norm += expected[d] * expected[d];
      }
    }
    return std::sqrt(difference / norm);
  }

  /// Multiply-adds of the visible keys, times two; bytes of the keys and values that are read.
  [[nodiscard]] double flops() const {
    const double keys = spec_.causal ? (work_.kv_len - work_.q_len) + (work_.q_len + 1) / 2.0 : work_.kv_len;
    return 4.0 * work_.sequences * work_.q_len * keys * spec_.q_heads * spec_.head_dim;
  }
  [[nodiscard]] double kv_bytes() const {
    return 2.0 * work_.sequences * work_.kv_len *
           static_cast<double>(row_bytes(spec_.kv_dtype, std::int64_t{spec_.kv_heads} * spec_.head_dim));
  }

 private:
  [[nodiscard]] std::int64_t width() const { return std::int64_t{spec_.q_heads} * spec_.head_dim; }

  /// The plan of the first set.
  [[nodiscard]] const BatchPlan& plan() const { return plans_.front(); }

  void make_plans(std::int32_t blocks) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(num_blocks_));
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[static_cast<std::size_t>(random_.below(static_cast<std::int32_t>(i)))]);
    }
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(work_.q_len), 0);
    std::span<const std::int32_t> left = order;
    for (std::int32_t set = 0; set < sets_; ++set) {
      BatchPlan& made = plans_.emplace_back();
      for (std::int32_t s = 0; s < work_.sequences; ++s) {
        made.add_sequence(tokens, work_.kv_len - work_.q_len, left.first(static_cast<std::size_t>(blocks)), false);
        left = left.subspan(static_cast<std::size_t>(blocks));
      }
      made.finish();
    }
  }

  void upload_batches() {
    const auto upload = [this](const std::vector<std::int32_t>& values) {
      arrays_.push_back(bench_.upload(values.data(), values.size() * sizeof(std::int32_t)));
      return arrays_.back().as<const std::int32_t>();
    };
    for (const BatchPlan& made : plans_) {
      RaggedBatch& batch = batches_.emplace_back(made.view());
      if (!bench_.device().is_gpu()) {
        continue;
      }
      batch.query_offsets = upload(made.query_offsets);
      batch.kv_lengths = upload(made.kv_lengths);
      batch.block_tables = upload(made.block_tables);
      batch.positions = upload(made.positions);
      batch.sequence_of = upload(made.sequence_of);
    }
  }

  void run(int set) {
    Attention::Args args;
    args.q = q_on_device_.data();
    args.q_stride = width();
    args.cache = {cache_.data(), num_blocks_};
    args.batch = batches_[static_cast<std::size_t>(set)];
    args.out = out_.data();
    args.workspace = workspace_.data();
    args.state = state_.data();
    kernel_.run(spec_, layout_, args, bench_.context());
  }

  [[nodiscard]] double cached(std::int32_t sequence, std::int32_t position, std::int32_t kv_head, std::int32_t dim,
                              bool value) const {
    const std::int64_t block =
        plan().block_tables[static_cast<std::size_t>(sequence * plan().max_blocks + position / layout_.block_tokens)];
    const std::int64_t token = position % layout_.block_tokens;
    const KvOrder order = value ? layout_.v_order : layout_.k_order;
    const std::int64_t inside =
        order == KvOrder::token_major ? token * spec_.head_dim + dim : dim * layout_.block_tokens + token;
    const std::int64_t heads_before = (block * 2 + (value ? 1 : 0)) * spec_.kv_heads + kv_head;
    const auto head_start = static_cast<std::size_t>(heads_before) * layout_.head_bytes();
    if (spec_.kv_dtype == DType::q8_0) {
      const std::int64_t groups = spec_.head_dim / kv_quant_dims;
      const std::int64_t group = dim / kv_quant_dims;
      const std::int64_t scale =
          order == KvOrder::token_major ? token * groups + group : group * layout_.block_tokens + token;
      return static_cast<double>(stored<std::int8_t>(head_start + static_cast<std::size_t>(inside))) *
             half_to_float(stored<std::uint16_t>(head_start + static_cast<std::size_t>(layout_.head_elems() + 2 * scale)));
    }
    if (spec_.kv_dtype == DType::f32) {
      return stored<float>(head_start + static_cast<std::size_t>(inside) * sizeof(float));
    }
    const auto bits = stored<std::uint16_t>(head_start + static_cast<std::size_t>(inside) * sizeof(std::uint16_t));
    return spec_.kv_dtype == DType::f16 ? half_to_float(bits) : bfloat16_to_float(bits);
  }
  template <class Value>
  [[nodiscard]] Value stored(std::size_t offset) const {
    Value value;
    std::memcpy(&value, pattern_.data() + offset % pattern_.size(), sizeof value);
    return value;
  }

  [[nodiscard]] std::vector<double> exact(std::int32_t row, std::int32_t head) const {
    const std::int32_t sequence = plan().sequence_of[static_cast<std::size_t>(row)];
    const std::int32_t keys = spec_.causal ? plan().positions[static_cast<std::size_t>(row)] + 1 : work_.kv_len;
    const std::int32_t kv_head = head / (spec_.q_heads / spec_.kv_heads);
    const float* q = q_.data() + row * width() + std::int64_t{head} * spec_.head_dim;
    std::vector<double> scores(static_cast<std::size_t>(keys));
    for (std::int32_t j = 0; j < keys; ++j) {
      double score = 0.0;
      for (std::int32_t d = 0; d < spec_.head_dim; ++d) {
        score += double{q[d]} * cached(sequence, j, kv_head, d, false);
      }
      scores[static_cast<std::size_t>(j)] = score / std::sqrt(double(spec_.head_dim));
    }
    const double most = std::ranges::max(scores);
    double sum = 0.0;
    for (double& score : scores) {
      sum += score = std::exp(score - most);
    }
    std::vector<double> out(static_cast<std::size_t>(spec_.head_dim), 0.0);
    for (std::int32_t j = 0; j < keys; ++j) {
      for (std::int32_t d = 0; d < spec_.head_dim; ++d) {
        out[static_cast<std::size_t>(d)] +=
            scores[static_cast<std::size_t>(j)] / sum * cached(sequence, j, kv_head, d, true);
      }
    }
    return out;
  }

  KernelBench& bench_;
  const AttentionBackend& kernel_;
  Attention::Spec spec_;
  Work work_;
  KvLayout layout_;
  Random random_;
  std::int32_t sets_ = 1;
  std::int64_t num_blocks_ = 0;
  std::vector<std::byte> pattern_;
  DeviceBuffer cache_;
  std::vector<BatchPlan> plans_;
  std::vector<float> q_;
  DeviceBuffer q_on_device_;
  DeviceBuffer out_;
  DeviceBuffer workspace_;
  DeviceBuffer state_;
  std::vector<DeviceBuffer> arrays_;
  std::vector<RaggedBatch> batches_;
};

double attention_tolerance(DType kv_type) { return kv_type == DType::f32 ? 1e-5 : kv_type == DType::bf16 ? 8e-3 : 1e-3; }

/// Times one backend on one piece of work and adds its line. Returns false if the result was wrong.
bool measure(KernelBench& bench, const AttentionBackend& kernel, const Attention::Spec& spec, const Work& work,
             Table& table) {
  AttentionProblem problem(bench, kernel, spec, work);
  const double error = problem.error();
  const double seconds = problem.seconds();
  const double reads = problem.kv_bytes() / seconds;
  const double flops = problem.flops() / seconds;
  const auto share = [](double value, double ceiling) {
    return ceiling > 0.0 ? fmt::format("{:.1f}", 100.0 * value / ceiling) : std::string();
  };
  const bool right = error <= attention_tolerance(spec.kv_dtype);
  table.add({work.q_len > 1 ? fmt::format("prefill {}{}", work.q_len, spec.causal ? "" : " full")
                            : fmt::format("decode @ {}", work.kv_len),
             fmt::format("{}", work.sequences), fmt::format("{}:{}", spec.q_heads, spec.kv_heads),
             fmt::format("{}", spec.head_dim), std::string(kernel.name()), fmt::format("{:.1f}", seconds * 1e6),
             fmt::format("{:.1f}", flops / 1e12), share(flops, bench.ceilings().matrix_flops_per_second),
             fmt::format("{:.0f}", reads / 1e9), share(reads, bench.ceilings().read_bytes_per_second),
             fmt::format("{:.1e}{}", error, right ? "" : " WRONG")});
  return right;
}

int bench_attention(const AttentionFlags& flags) {
  const auto heads = parse_pair(flags.heads, ':', "--heads", "Q:KV, as in 32:8");
  const auto head_dims = parse_integers(flags.head_dims, "--head-dim", 1, 1024);
  const auto works = parse_work(flags);
  const auto kv_type = dtype_from_name(flags.kv_type);
  const std::vector<AvoidedKernel> without = avoided_kernels(flags.without);
  KernelBench bench(flags.device, flags.kernel_folder, flags.threads);
  bench.leave_out(without);
  Table table({"work", ">sequences", "heads", ">head_dim", "kernel", ">us", ">TFLOP/s", ">% of products", ">GB/s of KV",
               ">% of reads", ">error"});
  bool right = true;
  for (const std::int32_t head_dim : head_dims) {
    for (const Work& work : works) {
      const Attention::Spec spec{.q_heads = heads[0],
                                 .kv_heads = heads[1],
                                 .head_dim = head_dim,
                                 .kv_dtype = *kv_type,
                                 .causal = !flags.full,
                                 .decode = work.q_len == 1};
      for (const auto& kernel : bench.registry().all<Attention>()) {
        const bool here = kernel->device() == bench.device().info().kind && !bench.left_out(Attention::name, *kernel);
        // The composed path stores all scores: for long inputs only that memory would be measured.
        const bool sensible = kernel->name() != "composed" || std::int64_t{work.q_len} * work.kv_len <= std::int64_t{1}
                                                                                                            << 22;
        const bool wanted = flags.kernel.empty() ? !is_oracle(kernel->priority()) : is_named(kernel->name(), flags.kernel);
        if (here && sensible && wanted && kernel->supports(spec, bench.device().info()).ok) {
          right = measure(bench, *kernel, spec, work, table) && right;
        }
      }
    }
  }
  print_measurements(bench.headline() + "; KV " + flags.kv_type, table, right, flags.json);
  return right ? 0 : 1;
}

}  // namespace

Command bench_attention_command() {
  auto flags = std::make_shared<AttentionFlags>();
  Command command = {
      .name = "attention",
      .summary = "Time each attention kernel, checked in the same run",
      .notes =
          "Over a paged cache whose blocks lie in random order. A prefill of N tokens runs as many sequences as make "
          "16,384 tokens. Decode walks through as many caches as the L2 cache cannot hold. Rows and heads drawn at random "
          "are first compared with f64; a kernel that is wrong makes the exit code 1.",
      .examples = {"rocmforge bench attention --heads 32:8 --head-dim 64,128 --prefill 2048 --decode 1x4096,64x4096"},
      .options = {{"--heads", &flags->heads, "Query and KV heads", "Q:KV"},
                  {"--head-dim", &flags->head_dims, "Elements of a head", "LIST"},
                  {"--prefill", &flags->prefill, "Lengths of prompts; 0: none", "LIST"},
                  {"--decode", &flags->decode, "Sequences and the tokens each has in its cache; 0: none", "BxN,..."},
                  kv_type_option(flags->kv_type),
                  {"--full", &flags->full, "Without the causal mask"}},
      .action = [flags] { return bench_attention(*flags); }};
  flags->add_to(command);
  return command;
}

}  // namespace rocmforge::app
