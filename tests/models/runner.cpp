#include "models/runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "kernels/register_all.h"
#include "models/layer_pipeline.h"
#include "schedule/pages/window_group.h"

namespace rocmforge::testing {
namespace {

constexpr std::string_view gpu_set = "gpu";

std::string set_name(CpuIsa isa) { return "cpu-" + std::string(name(isa)); }

CpuIsa isa_of(const std::string& kernel_set) {
  const auto* found = std::ranges::find(cpu_isas, kernel_set, set_name);
  return found != std::end(cpu_isas) ? *found : CpuIsa::avx512;
}

/// "flash" of "gpu-flash"
std::string attention_of(const std::string& kernel_set) {
  return kernel_set.size() > gpu_set.size() ? kernel_set.substr(gpu_set.size() + 1) : "";
}

/// The cache in blocks of `block_tokens`, its elements far from any real key or value; states likewise.
std::unique_ptr<SequenceMemory> poisoned_memory(const Devices& devices, const Model& model) {
  KvGroups groups = model.of_rank(0).kv_groups();
  set_block_tokens(groups, Runner::block_tokens);
  const std::int32_t slots = model.state_bytes() + model.host_state_bytes() > 0 ? Runner::num_slots : 0;
  SequenceMemory::Size size = memory_size(model, std::vector<std::int32_t>(groups.size(), Runner::num_blocks), slots);
  size.block_tokens = Runner::block_tokens;
  for (SequenceMemory::Rank& other : size.others) {
    set_block_tokens(other.groups, Runner::block_tokens);
  }
  auto memory = std::make_unique<SequenceMemory>(devices, groups, size);
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(model.ranks()); ++rank) {
    const Devices of_rank = devices.of_rank(rank);
    const auto poison = [&of_rank](Side side, void* data, std::size_t size_bytes) {
      if (size_bytes > 0) {
        const std::vector<float> values(size_bytes / sizeof(float), 1000.0f);
        of_rank.at(side).upload(data, values.data(), size_bytes);
      }
    };
    const SequenceMemory& own = memory->of_rank(rank);
    for (std::int32_t group = 0; group < own.num_groups(); ++group) {
      const KvCache& pages = own.pages(group);
      for (std::int32_t plane = 0; plane < pages.num_planes(); ++plane) {
        const auto index = static_cast<std::size_t>(plane);
        if (const KvLayout& layout = pages.planes()[index]; layout.dtype == DType::f32) {
          poison(own.groups()[static_cast<std::size_t>(group)].side_of(index), pages.plane(plane).data,
                 layout.block_bytes() * Runner::num_blocks);
        }
      }
    }
    for (const Side side : {Side::device, Side::host}) {
      const StateView states = own.states(side);
      poison(side, states.data, static_cast<std::size_t>(states.slot_stride) * static_cast<std::size_t>(slots));
    }
  }
  return memory;
}

std::vector<std::string> cpu_sets() {
  std::vector<std::string> names{"reference"};
  for (const CpuIsa isa : cpu_isas) {
    if (cpu_device_info(isa).cpu_isa == isa) {
      names.push_back(set_name(isa));
    }
  }
  return names;
}

std::vector<std::string> gpu_sets() {
  std::vector<std::string> names{std::string(gpu_set)};
  KernelRegistry registry;
  register_all_kernels(registry);
  for (const auto& kernel : registry.all<Attention>()) {
    if (gpu_under_test().device != nullptr && kernel->device() == gpu_under_test().device->info().kind) {
      names.push_back(std::string(gpu_set) + "-" + std::string(kernel->name()));
    }
  }
  return names;
}

}  // namespace

test::TestDevice& gpu_under_test() {
  static test::TestDevice device = [] {
    test::TestDevice opened = test::open_test_device();
    if (opened.device != nullptr && !opened.device->is_gpu()) {
      opened.device = nullptr;
      opened.problem = "ROCMFORGE_TEST_DEVICE names no GPU";
    }
    return opened;
  }();
  return device;
}

const std::vector<std::string>& kernel_sets() {
  static const std::vector<std::string> sets =
      gpu_under_test().wanted == "cpu" ? cpu_sets() : std::vector<std::string>{std::string(gpu_set)};
  return sets;
}

const std::vector<std::string>& forced_kernel_sets() {
  static const std::vector<std::string> sets = gpu_under_test().wanted == "cpu" ? cpu_sets() : gpu_sets();
  return sets;
}

bool is_gpu(const std::string& kernel_set) { return kernel_set.starts_with(gpu_set); }

std::string missing(const std::string& kernel_set) {
  return is_gpu(kernel_set) && gpu_under_test().device == nullptr ? gpu_under_test().problem : "";
}

std::string missing(const std::string& kernel_set, const GgufFile& file) {
  if (const std::string problem = missing(kernel_set); !problem.empty() || !is_gpu(kernel_set)) {
    return problem;
  }
  KernelRegistry registry;
  register_all_kernels(registry);
  ModelOptions options = f32_options();
  options.attention = attention_of(kernel_set);
  try {
    static_cast<void>(Model::plan(file, registry, gpu_under_test().device->info(), 1, options));
    return "";
  } catch (const Error& error) {
    return options.attention.empty() ? "" : error.what();  // without a forced kernel every model has one
  }
}

double logit_tolerance(const std::string& kernel_set) { return is_gpu(kernel_set) ? 2e-3 : 1e-4; }

void expect_same_logits(const std::vector<float>& actual, const std::vector<float>& expected, const std::string& kernel_set,
                        const std::string& what) {
  if (is_gpu(kernel_set)) {
    EXPECT_LE(relative_error(actual, expected), logit_tolerance(kernel_set)) << what;
  } else {
    EXPECT_EQ(actual, expected) << what;
  }
}

ModelOptions f32_options() {
  ModelOptions options;
  options.kv_dtype = DType::f32;
  options.max_batch_tokens = 256;
  options.max_logit_rows = 256;
  return options;
}

Runner::Runner(const GgufFile& file, const std::string& kernel_set, int num_threads)
    : Runner(file, kernel_set, f32_options(), num_threads) {}

Runner::Runner(const GgufFile& file, const std::string& kernel_set, const ModelOptions& options, int num_threads)
    : own_device_(is_gpu(kernel_set) ? nullptr : std::make_unique<Device>(isa_of(kernel_set))),
      device_(own_device_ != nullptr ? own_device_.get() : gpu_under_test().device.get()),
      pool_(num_threads) {
  if (kernel_set == "reference") {
    register_reference_kernels(registry_);
  } else {
    register_all_kernels(registry_, device_);
  }
  ModelOptions forced = options;
  forced.host_isa = isa_of(kernel_set);
  if (is_gpu(kernel_set) && forced.attention.empty()) {
    forced.attention = attention_of(kernel_set);
  }
  load(file, forced);
}

Runner::Runner(const GgufFile& file, Device& device, const ModelOptions& options) : device_(&device), pool_(1) {
  register_all_kernels(registry_, device_);
  load(file, options);
}

Runner::Runner(const GgufFile& file, const std::vector<Device*>& devices, const ModelOptions& options,
               std::optional<StepLink::Route> route)
    : device_(devices.at(0)), of_ranks_(devices), pool_(2) {
  register_all_kernels(registry_, device_);
  load(file, options, route);
}

void Runner::load(const GgufFile& file, const ModelOptions& options, std::optional<StepLink::Route> route) {
  if (options.placement.split()) {
    host_ = std::make_unique<Device>(options.host_isa);
  }
  const Devices devices = of_ranks_.empty() ? Devices(*device_, host_.get()) : Devices(of_ranks_, host_.get());
  model_ = Model::plan(file, registry_, device_->info(), pool_.num_threads(), options);
  if (route) {
    dynamic_cast<LayerPipeline&>(*model_).load(devices, pool_, *route);
  } else {
    model_->load(devices, pool_);
  }
  memory_ = poisoned_memory(devices, *model_);
  states_.resize(static_cast<std::size_t>(memory_->states().num_slots));
}

std::int32_t Runner::free_slot(const BatchPlan& plan) {
  std::int32_t oldest = -1;
  for (std::int32_t slot = 0; slot < num_slots; ++slot) {
    const bool used = std::ranges::any_of(plan.states, [slot](const StateSlots& slots) {
      return slot == slots.read || slot == slots.write || slot == slots.keep;
    });
    const auto step_of = [this](std::int32_t each) { return states_[static_cast<std::size_t>(each)].step; };
    if (!used && (oldest < 0 || step_of(slot) < step_of(oldest))) {
      oldest = slot;
    }
  }
  return oldest;
}

void Runner::add_state(BatchPlan& plan, const Piece& piece) {
  if (states_.empty()) {
    return;
  }
  ++num_steps_;
  StateSlots& slots = plan.states.emplace_back();
  for (std::int32_t slot = 0; piece.first_position > 0 && slot < num_slots; ++slot) {
    KnownState& state = states_[static_cast<std::size_t>(slot)];
    if (state.first_block == piece.blocks.front() && state.positions == piece.first_position) {
      slots.read = slot;
    }
  }
  const auto rows = static_cast<std::int32_t>(piece.tokens.size());
  const auto take = [&](std::int32_t& slot, std::int32_t positions) {
    for (KnownState& known : states_) {
      if (known.first_block == piece.blocks.front() && known.positions == positions) {
        known.first_block = -1;  // replaced by the new state
      }
    }
    slot = free_slot(plan);
    states_[static_cast<std::size_t>(slot)] = {piece.blocks.front(), positions, num_steps_};
  };
  take(slots.write, piece.first_position + rows);
  const std::int32_t whole_blocks = (piece.first_position + rows - 1) / block_tokens * block_tokens;
  if (whole_blocks > piece.first_position) {
    slots.keep_rows = whole_blocks - piece.first_position;
    take(slots.keep, whole_blocks);
  }
}

void Runner::add_windows(BatchPlan& plan, const Piece& piece) {
  for (std::int32_t group = 1; group < memory_->num_groups(); ++group) {
    const std::int32_t window = memory_->groups()[static_cast<std::size_t>(group)].window;
    std::vector<std::int32_t> blocks = piece.blocks;
    const std::int32_t behind = first_seen(window, piece.first_position) / block_tokens;
    std::fill_n(blocks.begin(), std::min<std::ptrdiff_t>(behind, std::ssize(blocks)), -1);
    plan.add_blocks(group, blocks);
  }
}

namespace {

void add_adapters(BatchPlan& plan, const std::vector<Piece>& pieces) {
  if (std::ranges::any_of(pieces, [](const Piece& piece) { return !piece.adapters.empty(); })) {
    std::ranges::transform(pieces, std::back_inserter(plan.adapters), &Piece::adapters);
  }
}

}  // namespace

std::vector<float> Runner::step(const std::vector<Piece>& pieces, std::int32_t most_rows) {
  BatchPlan plan;
  plan.clear();
  plan.most_rows = most_rows;
  return step(pieces, plan);
}

std::vector<float> Runner::step(const std::vector<Piece>& pieces, BatchPlan& plan) {
  for (const Piece& piece : pieces) {
    plan.add_sequence(piece.tokens, piece.first_position, piece.blocks, true, true);
    for (std::size_t i = 0; i < piece.span.size(); i += 2) {
      plan.add_span(piece.span[i], piece.span[i + 1]);
    }
    if (!piece.places.empty()) {
      plan.set_positions(piece.places, 3);
    }
    add_windows(plan, piece);
    add_state(plan, piece);
  }
  add_adapters(plan, pieces);
  plan.finish();
  model_->forward(plan, *memory_);
  const std::span<const float> logits = model_->logits();
  return {logits.begin(), logits.end()};
}

void Runner::advance(const Piece& piece) {
  BatchPlan plan;
  plan.clear();
  plan.add_sequence(piece.tokens, piece.first_position, piece.blocks, false);
  add_windows(plan, piece);
  add_state(plan, piece);
  plan.finish();
  model_->forward(plan, *memory_);
}

std::vector<float> Runner::predict(const std::vector<Predicted>& parts, std::int32_t ahead) {
  BatchPlan plan;
  plan.clear();
  std::vector<std::int32_t> behind;
  for (const Predicted& part : parts) {
    plan.add_sequence(part.piece.tokens, part.piece.first_position, part.piece.blocks, false);
    add_windows(plan, part.piece);
    add_state(plan, part.piece);
    behind.insert(behind.end(), part.behind.begin(), part.behind.end());
  }
  plan.hidden_rows.resize(plan.tokens.size());
  std::iota(plan.hidden_rows.begin(), plan.hidden_rows.end(), 0);
  plan.finish();
  model_->forward(plan, *memory_);
  plan.tokens = behind;
  std::ranges::for_each(plan.positions, [ahead](std::int32_t& position) { position += ahead; });
  plan.logit_rows = std::move(plan.hidden_rows);
  plan.hidden_rows.clear();
  model_->forward_mtp(0, plan, *memory_);
  const std::span<const float> logits = model_->logits();
  return {logits.begin(), logits.end()};
}

std::vector<float> Runner::whole(const std::vector<std::int32_t>& tokens) {
  std::vector<std::int32_t> blocks;
  for (std::int32_t block = 0; block * block_tokens < static_cast<std::int32_t>(tokens.size()); ++block) {
    blocks.push_back(block);
  }
  return step({{tokens, 0, blocks}});
}

std::vector<float> Runner::rows(const std::vector<std::int32_t>& tokens, const std::vector<std::int32_t>& rows) {
  std::vector<std::int32_t> blocks;
  for (std::int32_t block = 0; block * block_tokens < static_cast<std::int32_t>(tokens.size()); ++block) {
    blocks.push_back(block);
  }
  BatchPlan plan;
  plan.clear();
  plan.add_sequence(tokens, 0, blocks, false);
  add_windows(plan, {tokens, 0, blocks});
  add_state(plan, {tokens, 0, blocks});
  plan.logit_rows = rows;
  plan.finish();
  model_->forward(plan, *memory_);
  const std::span<const float> logits = model_->logits();
  return {logits.begin(), logits.end()};
}

std::vector<std::int32_t> Runner::draw(const std::vector<Piece>& pieces) {
  start_draw(pieces);
  const std::span<const std::int32_t> tokens = model_->sampled();
  return {tokens.begin(), tokens.end()};
}

void Runner::start_draw(const std::vector<Piece>& pieces) {
  BatchPlan plan;
  plan.clear();
  for (const Piece& piece : pieces) {
    plan.add_sequence(piece.tokens, piece.first_position, piece.blocks, true);
    add_windows(plan, piece);
    add_state(plan, piece);
  }
  plan.sample_rows.resize(pieces.size());
  add_adapters(plan, pieces);
  plan.finish();
  model_->forward(plan, *memory_);
}

double relative_error(const std::vector<float>& out, const std::vector<float>& reference) {
  if (out.size() != reference.size()) {
    return INFINITY;
  }
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double d = static_cast<double>(out[i]) - static_cast<double>(reference[i]);
    difference += d * d;
    norm += static_cast<double>(reference[i]) * static_cast<double>(reference[i]);
  }
  return std::sqrt(difference / norm);
}

}  // namespace rocmforge::testing
