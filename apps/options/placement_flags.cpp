#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "flags.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

constexpr std::int32_t most_layers = 100000;

/// The value of --gpu-layers; empty: chosen.
std::optional<std::int32_t> layers(const std::string& text) {
  if (text == "auto" || text == "-1") {  // llama.cpp's default is -1
    return std::nullopt;
  }
  if (text == "all") {
    return std::numeric_limits<std::int32_t>::max();
  }
  std::int32_t count = -1;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (problem != std::errc() || end != text.data() + text.size() || count < 0 || count > most_layers) {
    throw UsageError(fmt::format("--gpu-layers is {}, must be auto, all or 0 to {}", text, most_layers));
  }
  return count;
}

}  // namespace

void PlacementFlags::add_to(Command& command, const std::string& group) {
  const auto add = [&](Option option) {
    option.group = group;
    command.options.push_back(std::move(option));
  };
  add({.names = "--gpu-layers",
       .target = &gpu_layers_,
       .meaning =
           "GPU: it computes the last N layers, the CPU the others; all: none on the CPU; auto: all that fit into its "
           "memory",
       .value = "N",
       .also = "-ngl"});
  add({.names = "--cpu-moe",
       .target = &cpu_moe_,
       .meaning = "GPU: the CPU computes the experts of all layers",
       .excludes = {"--n-cpu-moe"},
       .also = "-cmoe"});
  add({.names = "--n-cpu-moe",
       .target = &n_cpu_moe_,
       .meaning = "GPU: the CPU computes the experts of the first N layers",
       .value = "N",
       .range = {.least = -1, .most = most_layers, .note = "-1: chosen"},
       .also = "-ncmoe"});
  add({.names = "--override-tensor",
       .target = &overrides_,
       .meaning =
           "GPU: the tensors whose names REGEX matches lie on this device, cpu or gpu: 'blk\\.[0-9]\\.ffn_.*_exps=cpu'; "
           "repeatable",
       .value = "REGEX=DEVICE",
       .also = "-ot"});
  add({.names = "--fit-margin",
       .target = &margin_mib_,
       .meaning = "GPU: MiB of its memory that stay free where a model does not fit as a whole",
       .value = "MIB",
       .range = {.least = 0, .most = 1 << 24}});
  add({.names = "--gpu-memory",
       .target = &gpu_memory_mib_,
       .meaning = "GPU: the most MiB of its memory that are used",
       .value = "MIB",
       .range = {.least = 0, .most = 1 << 24, .note = "0: what is free"}});
}

PlacementOptions PlacementFlags::options() const {
  PlacementOptions options;
  options.gpu_layers = layers(gpu_layers_);
  if (cpu_moe_ || n_cpu_moe_ >= 0) {
    options.cpu_experts = cpu_moe_ ? most_layers : n_cpu_moe_;
  }
  options.overrides = overrides_;
  options.margin_bytes = std::int64_t{margin_mib_} << 20;
  options.gpu_memory_bytes = std::int64_t{gpu_memory_mib_} << 20;
  return options;
}

}  // namespace rocmforge::app
