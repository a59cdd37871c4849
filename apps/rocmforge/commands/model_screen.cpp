#include "commands/model_screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "base/json.h"
#include "base/printable.h"
#include "commands/model_summary.h"
#include "device/device.h"
#include "device/device_label.h"
#include "flags.h"
#include "models/config/model_config.h"
#include "models/config/mtp_config.h"
#include "terminal/text.h"

namespace rocmforge::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t screen_columns = 100;
constexpr std::size_t most_kinds = 4;  ///< the most kinds of layers that are shown, a line each

Json attention_json(const AttentionConfig& attention) {
  return {{"layers", 0},
          {"q_heads", attention.q_heads},
          {"kv_heads", attention.kv_heads},
          {"head_dim", attention.head_dim},
          {"window", attention.window},
          {"latent", attention.latent.rank > 0}};
}

Json convolution_json(const LayerConfig& layer) { return {{"layers", 0}, {"taps", layer.short_conv_taps}}; }

Json scan_json(const SsmConfig& ssm) {
  return {{"layers", 0},          {"heads", ssm.heads}, {"head_dim", ssm.head_dim}, {"state_size", ssm.state_size},
          {"groups", ssm.groups}, {"taps", ssm.taps}};
}

Json selective_scan_json(const MambaConfig& mamba) {
  return {{"layers", 0},
          {"channels", mamba.channels},
          {"state_size", mamba.state_size},
          {"time_rank", mamba.time_rank},
          {"taps", mamba.taps}};
}

Json delta_net_json(const DeltaNetConfig& layer) {
  return {{"layers", 0},
          {"value_heads", layer.value_heads},
          {"value_dim", layer.value_dim},
          {"key_heads", layer.key_heads},
          {"key_dim", layer.key_dim},
          {"taps", layer.taps}};
}

Json feed_forward_json(const FeedForwardConfig& part) {
  if (part.experts.count == 0) {
    return {{"layers", 0}, {"width", part.width}, {"gated", part.gated}};
  }
  return {{"layers", 0},
          {"experts", part.experts.count},
          {"experts_used", part.experts.used},
          {"width", part.experts.width},
          {"shared_width", part.experts.shared_width},
          {"latent_size", part.experts.latent_size}};
}

/// Adds a layer to the count of its kind; `layer` describes the kind.
void count_layer(Json& kinds, Json layer) {
  for (Json& kind : kinds) {
    layer["layers"] = kind["layers"];
    if (kind == layer) {
      kind["layers"] = kind["layers"].get<int>() + 1;
      return;
    }
  }
  layer["layers"] = 1;
  kinds.push_back(std::move(layer));
}

/// The parameters that are used for a token: without the experts that it does not use and the layers for multi-token
/// prediction.
std::uint64_t active_parameters(const GgufFile& file, const ModelConfig& config) {
  const auto& blocks = config.blocks;
  const auto found = std::ranges::find_if(blocks, [](const LayerConfig& b) { return b.feed_forward.experts.count > 0; });
  const ExpertConfig experts = found != blocks.end() ? found->feed_forward.experts : ExpertConfig{.count = 1, .used = 1};
  std::uint64_t idle = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    const auto elements = static_cast<std::uint64_t>(tensor.tensor.shape.elems());
    if (is_of_mtp(tensor.name, config)) {
      idle += elements;
    } else if (tensor.name.find("_exps.") != std::string::npos) {
      idle +=
          elements / static_cast<std::uint64_t>(experts.count) * static_cast<std::uint64_t>(experts.count - experts.used);
    }
  }
  return parameter_count(file) - idle;
}

std::string counted(int count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

std::string layers_text(const Json& kind) { return counted(kind["layers"], "layer"); }

std::string attention_text(const Json& kind) {
  const int window = kind["window"];
  if (kind["latent"].get<bool>()) {
    return fmt::format("{} with {} over latent rows of {} that all heads share", layers_text(kind),
                       counted(kind["q_heads"], "head"), kind["head_dim"].get<int>());
  }
  return fmt::format("{} with {} and {} of {}, {}", layers_text(kind), counted(kind["q_heads"], "head"),
                     counted(kind["kv_heads"], "KV head"), kind["head_dim"].get<int>(),
                     window > 0 ? fmt::format("over a window of {} positions", window) : "over all positions");
}

std::string convolution_text(const Json& kind) {
  return fmt::format("{} of short convolutions over {} positions", layers_text(kind), kind["taps"].get<int>());
}

std::string scan_text(const Json& kind) {
  return fmt::format("{} of Mamba-2 with {} of {}, rows of state of {} and {} taps", layers_text(kind),
                     counted(kind["heads"], "head"), kind["head_dim"].get<int>(), kind["state_size"].get<int>(),
                     kind["taps"].get<int>());
}

std::string selective_scan_text(const Json& kind) {
  return fmt::format("{} of Mamba with {} channels, rows of state of {} and {} taps", layers_text(kind),
                     kind["channels"].get<int>(), kind["state_size"].get<int>(), kind["taps"].get<int>());
}

std::string delta_net_text(const Json& kind) {
  return fmt::format("{} of gated delta nets with {} of {} and {} of {}, convolutions over {} positions", layers_text(kind),
                     counted(kind["value_heads"], "value head"), kind["value_dim"].get<int>(),
                     counted(kind["key_heads"], "key head"), kind["key_dim"].get<int>(), kind["taps"].get<int>());
}

std::string feed_forward_text(const Json& kind) {
  if (!kind.contains("experts")) {
    return fmt::format("{} of width {}{}", layers_text(kind), kind["width"].get<int>(),
                       kind["gated"].get<bool>() ? ", gated" : "");
  }
  const int shared = kind["shared_width"];
  const int latent = kind["latent_size"];
  return fmt::format("{} of {} experts of width {}{}, {} active{}", layers_text(kind), kind["experts"].get<int>(),
                     kind["width"].get<int>(), latent > 0 ? fmt::format(" on latents of {}", latent) : "",
                     kind["experts_used"].get<int>(), shared > 0 ? fmt::format(", {} shared", shared) : "");
}

std::string fit_text(const Json& device, std::int64_t trained) {
  if (device.contains("refused")) {
    return "can't run it: " + device["refused"].get<std::string>();
  }
  const std::string bytes = human_bytes(device["total_bytes"]);
  const std::string context = fmt::format("with a context of {}", device["context"].get<std::int64_t>());
  if (!device.contains("available_bytes")) {
    return fmt::format("needs {} {}", bytes, context);
  }
  if (device.contains("placement") && device["fits"].get<bool>()) {
    return fmt::format("fits beside the CPU, needs {} of {} and {} of host memory {}", bytes,
                       human_bytes(device["available_bytes"]), human_bytes(device["host_bytes"]), context);
  }
  const std::int64_t fitting = device["tokens_that_fit"];
  const std::string most = fitting >= trained ? fmt::format("all {} positions would fit", trained)
                           : fitting > 0      ? fmt::format("{} positions would fit", fitting)
                                              : std::string("no context would fit");
  return fmt::format("{}, needs {} of {} {}; {}", device["fits"].get<bool>() ? "fits" : "does not fit", bytes,
                     human_bytes(device["available_bytes"]), context, most);
}

/// Lines with a label in the first column, which is shown only in the first of several lines with the same label.
class ScreenLines {
 public:
  void add(std::string_view what, std::string_view text) {
    std::string line = fmt::format("{:<15}{}", what == last_ ? "" : what, printable(text));
    last_ = what;
    if (text_width(line) > screen_columns) {
      std::size_t end = screen_columns - 3;
      while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80) {
        --end;  // a character is not cut
      }
      line = line.substr(0, end) + "...";
    }
    lines_.push_back(std::move(line));
  }
  void add_kinds(std::string_view what, const Json& kinds, std::string (*text)(const Json&)) {
    for (std::size_t i = 0; i < std::min(kinds.size(), most_kinds); ++i) {
      add(what, text(kinds[i]));
    }
    if (kinds.size() > most_kinds) {
      add(what, fmt::format("and {} more kinds of layers, which --json lists", kinds.size() - most_kinds));
    }
  }
  [[nodiscard]] std::vector<std::string> take() { return std::move(lines_); }

 private:
  std::vector<std::string> lines_;
  std::string_view last_;
};

/// "cpu", then each GPU that a runtime has: "cuda:0".
std::vector<std::string> device_names() {
  std::vector<std::string> names = {"cpu"};
  for (const RuntimeReport& report : find_runtimes()) {
    for (const DeviceInfo& gpu : report.devices) {
      names.push_back(device_label(gpu));
    }
  }
  return names;
}

}  // namespace

Json model_json(const GgufFile& file) {
  Json out = {{"architecture", nullptr}};
  try {
    const GgufValue* const architecture = file.find("general.architecture");
    if (architecture != nullptr && std::holds_alternative<std::string>(*architecture)) {
      out["architecture"] = std::get<std::string>(*architecture);
    }
    const ModelConfig config = ModelConfig::from_gguf(file);
    Json attention = Json::array();
    Json convolution = Json::array();
    Json scan = Json::array();
    Json selective_scan = Json::array();
    Json delta_net = Json::array();
    Json feed_forward = Json::array();
    for (const LayerConfig& layer : std::span(config.blocks).first(static_cast<std::size_t>(config.layers))) {
      if (layer.has_mixer()) {
        switch (layer.mixer) {
          case MixerKind::attention:
            count_layer(attention, attention_json(layer.attention));
            break;
          case MixerKind::short_conv:
            count_layer(convolution, convolution_json(layer));
            break;
          case MixerKind::delta_net:
          case MixerKind::kimi_delta:
            count_layer(delta_net, delta_net_json(layer.delta_net));
            break;
          case MixerKind::ssm:
            count_layer(scan, scan_json(layer.ssm));
            break;
          case MixerKind::attention_and_ssm:
            count_layer(attention, attention_json(layer.attention));
            count_layer(scan, scan_json(layer.ssm));
            break;
          case MixerKind::mamba:
            count_layer(selective_scan, selective_scan_json(layer.mamba));
            break;
        }
      }
      if (layer.has_feed_forward()) {
        count_layer(feed_forward, feed_forward_json(layer.feed_forward));
      }
    }
    out.update({{"name", config.name},
                {"active_parameters", active_parameters(file, config)},
                {"layers", config.layers},
                {"mtp_blocks", config.mtp_blocks},
                {"mtp_supported", config.mtp_supported},
                {"hidden", config.hidden},
                {"vocab", config.vocab},
                {"context_length", config.context_length},
                {"attention", attention},
                {"convolution", convolution},
                {"scan", scan},
                {"selective_scan", selective_scan},
                {"delta_net", delta_net},
                {"feed_forward", feed_forward}});
  } catch (const Error& error) {
    out["refused"] = error.what();
  }
  return out;
}

Json memory_json(const PlannedModel& planned) {
  const MemoryNeeds& needs = planned.memory;
  const auto encoder = static_cast<std::size_t>(encoder_workspace_bytes(planned));
  Json out = {{"device", describe_device(planned.device->info(), planned.threads)},
              {"weights_bytes", needs.weight_bytes},
              {"workspace_bytes", planned.model->workspace_bytes() + encoder},
              {"kv_bytes_per_token", needs.kv_bytes_per_token},
              {"context", needs.kv_tokens},
              {"kv_bytes", needs.kv_tokens * needs.kv_bytes_per_token + needs.window_bytes},
              {"window_bytes", needs.window_bytes},
              {"state_slots", needs.state_slots},
              {"slot_bytes", needs.slot_bytes},
              {"total_bytes", needs.total_bytes()},
              {"fits", planned.lacking() == nullptr}};
  if (needs.available_bytes) {
    out["available_bytes"] = *needs.available_bytes;
    out["tokens_that_fit"] = needs.fitting_tokens();
  }
  if (const MemoryNeeds* lacking = planned.lacking()) {
    out["shortage"] = describe_shortage(*lacking);
  }
  if (planned.placement) {
    out["placement"] = planned.placement->describe();
    out["host_bytes"] = planned.host_memory->total_bytes();
  }
  return out;
}

Json devices_json(const std::string& path, const EngineOptions& options) {
  Json devices = Json::array();
  const bool all = options.device == "auto";
  for (const std::string& wanted : all ? device_names() : std::vector<std::string>{options.device}) {
    EngineOptions chosen = options;
    chosen.device = wanted;
    Json entry = {{"name", wanted}};
    try {
      entry.update(memory_json(plan_model(path, chosen)));
    } catch (const Error& error) {
      entry["refused"] = error.what();
    }
    devices.push_back(std::move(entry));
  }
  return devices;
}

std::vector<std::string> model_screen(const GgufFile& file, const Json& model, const Json& devices,
                                      const KvTypes& kv_dtype) {
  ScreenLines lines;
  lines.add("file", file.path().filename().string());
  lines.add("file", fmt::format("GGUF {}, {} in {} file{}, {} tensors", file.version(), human_bytes(file.file_bytes()),
                                file.num_shards(), file.num_shards() == 1 ? "" : "s", file.tensors().size()));
  lines.add("weights", format_mix(file));
  lines.add("architecture", model["architecture"].is_string() ? model["architecture"].get<std::string>() : "unknown");
  const std::uint64_t parameters = parameter_count(file);
  if (model.contains("refused")) {
    lines.add("parameters", human_count(parameters));
    lines.add("refused", model["refused"].get<std::string>());
    return lines.take();
  }
  const std::uint64_t active = model["active_parameters"];
  lines.add("parameters", active == parameters
                              ? human_count(parameters)
                              : fmt::format("{}, {} active in a token", human_count(parameters), human_count(active)));
  lines.add("",
            fmt::format("{} layers, rows of {}, a vocabulary of {}, trained for {} positions", model["layers"].get<int>(),
                        model["hidden"].get<int>(), model["vocab"].get<int>(), model["context_length"].get<int>()));
  if (const int blocks = model["mtp_blocks"]; blocks > 0) {
    lines.add("MTP",
              fmt::format("{} that {} further tokens, {}", counted(blocks, "block"), blocks == 1 ? "predicts" : "predict",
                          model["mtp_supported"].get<bool>() ? "used for drafts and counted in memory unless --mtp is off"
                                                             : "not used: the form is not supported"));
  }
  lines.add_kinds("attention", model["attention"], attention_text);
  lines.add_kinds("convolution", model["convolution"], convolution_text);
  lines.add_kinds("scan", model["scan"], scan_text);
  lines.add_kinds("scan", model["selective_scan"], selective_scan_text);
  lines.add_kinds("delta net", model["delta_net"], delta_net_text);
  lines.add_kinds("feed-forward", model["feed_forward"], feed_forward_text);
  const auto planned = std::ranges::find_if(devices, [](const Json& device) { return !device.contains("refused"); });
  if (planned != devices.end()) {
    const std::uint64_t per_token = (*planned)["kv_bytes_per_token"];
    lines.add("KV cache", fmt::format("{} per 1000 tokens in {}", human_bytes(1000 * per_token), name(kv_dtype)));
    if (const std::uint64_t windows = (*planned)["window_bytes"]; windows > 0) {
      lines.add("KV cache", fmt::format("{} in layers with a window, whatever the context", human_bytes(windows)));
    }
    if (const std::uint64_t slot = (*planned)["slot_bytes"]; slot > 0) {
      lines.add("state", fmt::format("{} in each of {} slots, two for a sequence and the rest for computed prefixes",
                                     human_bytes(slot), (*planned)["state_slots"].get<int>()));
    }
  }
  for (const Json& device : devices) {
    lines.add(device["name"].get_ref<const std::string&>(), fit_text(device, model["context_length"].get<std::int64_t>()));
    if (device.contains("device")) {
      lines.add(device["name"].get_ref<const std::string&>(), device["device"].get<std::string>());
    }
  }
  return lines.take();
}

}  // namespace rocmforge::app
