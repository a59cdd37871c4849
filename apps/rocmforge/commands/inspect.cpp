#include <fmt/format.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/printable.h"
#include "command.h"
#include "commands/model_screen.h"
#include "commands/model_summary.h"
#include "commands/plan_table.h"
#include "commands/pull_model.h"
#include "engine/plan_model.h"
#include "flags.h"
#include "terminal/text.h"

namespace rocmforge::app {
namespace {

struct InspectFlags {
  ModelArgument model;
  bool tensors = false;
  bool plan = false;
  bool json = false;
  EngineFlags engine;
};

constexpr std::size_t shown_elements = 6;
constexpr std::size_t shown_characters = 100;

std::string show(const GgufValue& value);

std::string show_array(const GgufArray& array) {
  std::string text = fmt::format("[{}; {}] ", name(array.element_type), array.size());
  std::visit(
      [&](const auto& elements) {
        for (std::size_t i = 0; i < std::min(elements.size(), shown_elements); ++i) {
          using Element = typename std::decay_t<decltype(elements)>::value_type;
          text += i == 0 ? "" : ", ";
          text += show(GgufValue(static_cast<Element>(elements[i])));
        }
        text += elements.size() > shown_elements ? ", ..." : "";
      },
      array.elements);
  return text;
}

std::string show(const GgufValue& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, GgufArray>) {
          return show_array(held);
        } else if constexpr (std::is_same_v<Held, std::string>) {
          return held.size() <= shown_characters ? in_quotes(held) : in_quotes(held.substr(0, shown_characters)) + "...";
        } else if constexpr (std::is_same_v<Held, double>) {
          return fmt::format("{:g}", held);
        } else {
          return fmt::format("{}", held);
        }
      },
      value);
}

/// A long array becomes its type, length and first elements.
nlohmann::ordered_json to_json(const GgufValue& value) {
  return std::visit(
      [](const auto& held) -> nlohmann::ordered_json {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, GgufArray>) {
          nlohmann::ordered_json out = {{"type", name(held.element_type)}, {"length", held.size()}};
          auto& first = out["first"] = nlohmann::ordered_json::array();
          std::visit(
              [&](const auto& elements) {
                for (std::size_t i = 0; i < std::min(elements.size(), shown_elements); ++i) {
                  using Element = typename std::decay_t<decltype(elements)>::value_type;
                  first.push_back(to_json(GgufValue(static_cast<Element>(elements[i]))));
                }
              },
              held.elements);
          return out;
        } else {
          return held;
        }
      },
      value);
}

nlohmann::ordered_json tensors_json(const GgufFile& file) {
  auto out = nlohmann::ordered_json::array();
  for (const GgufTensor& tensor : file.tensors()) {
    std::vector<std::int64_t> shape;
    for (int i = 0; i < tensor.tensor.shape.rank(); ++i) {
      shape.push_back(tensor.tensor.shape[i]);
    }
    out.push_back({{"name", tensor.name},
                   {"format", name(tensor.tensor.dtype)},
                   {"shape", shape},
                   {"bytes", tensor.tensor.bytes()},
                   {"file_offset", tensor.file_offset},
                   {"shard", tensor.shard}});
  }
  return out;
}

void print_memory(const nlohmann::ordered_json& memory) {
  fmt::print("\nmemory\n  weights        {}\n", human_bytes(memory["weights_bytes"]));
  const std::uint64_t per_token = memory["kv_bytes_per_token"];
  fmt::print("  workspace      {}\n", human_bytes(memory["workspace_bytes"]));
  fmt::print("  KV cache       {} per 1000 tokens\n", human_bytes(per_token * 1000));
  if (const std::uint64_t windows = memory["window_bytes"]; windows > 0) {
    fmt::print("  windows        {} in layers with a window\n", human_bytes(windows));
  }
  if (const std::uint64_t slot_bytes = memory["slot_bytes"]; slot_bytes > 0) {
    fmt::print("  state          {} in each of {} slots\n", human_bytes(slot_bytes),
               memory["state_slots"].get<std::int32_t>());
  }
  fmt::print("  in all         {} with a context of {}\n", human_bytes(memory["total_bytes"]),
             memory["context"].get<std::int64_t>());
  fmt::print("  device         {}", memory["device"].get<std::string>());
  if (memory.contains("available_bytes")) {
    fmt::print(": {} available, {} tokens fit", human_bytes(memory["available_bytes"]),
               memory["tokens_that_fit"].get<std::int64_t>());
  }
  fmt::print("\n");
  if (memory.contains("shortage")) {
    fmt::print("  it does not fit: {}\n", memory["shortage"].get<std::string>());
  }
}

/// The file in one line, and all of its metadata.
void print_head(const GgufFile& file) {
  fmt::print("{}: GGUF {}, {} file(s), {}, {} tensors, {} parameters, {}\n\nmetadata\n", file.path().string(),
             file.version(), file.num_shards(), human_bytes(file.file_bytes()), file.tensors().size(),
             human_count(parameter_count(file)), format_mix(file));
  for (const auto& [key, value] : file.metadata()) {
    fmt::print("  {} = {}\n", printable(key), show(value));
  }
}

void print_tensors(const GgufFile& file) {
  Table table({"tensor", "format", "shape", ">bytes", ">offset"});
  for (const GgufTensor& tensor : file.tensors()) {
    table.add({printable(tensor.name), std::string(name(tensor.tensor.dtype)), tensor.tensor.shape.to_string(),
               fmt::format("{}", tensor.tensor.bytes()), fmt::format("{}", tensor.file_offset)});
  }
  fmt::print("\ntensors\n");
  table.print(stdout);
}

int inspect(const InspectFlags& flags) {
  EngineOptions options = flags.engine.options();
  const std::string path = find_model(flags.model);
  if (flags.plan) {
    flags.engine.find_image_encoder(options, path);
  }
  const GgufFile file(path);
  std::optional<PlannedModel> planned;
  const nlohmann::ordered_json model = model_json(file);
  nlohmann::ordered_json memory = {{"weights_bytes", file.file_bytes()}};
  try {
    if (flags.plan || flags.json) {
      memory = memory_json(planned.emplace(plan_model(path, options)));
    }
  } catch (const Error& error) {
    if (flags.plan) {
      throw;
    }
    memory["refused"] = error.what();
  }
  if (flags.json) {
    nlohmann::ordered_json metadata;
    for (const auto& [key, value] : file.metadata()) {
      metadata[key] = to_json(value);
    }
    nlohmann::ordered_json out = {{"path", path},
                                  {"version", file.version()},
                                  {"shards", file.num_shards()},
                                  {"parameters", parameter_count(file)},
                                  {"formats", format_mix(file)},
                                  {"model", model},
                                  {"metadata", metadata},
                                  {"memory", memory},
                                  {"devices", devices_json(path, options)}};
    if (flags.tensors) {
      out["tensors"] = tensors_json(file);
    }
    if (planned && planned->placement) {
      out["placement"] = placement_json(*planned);
    }
    if (planned && !planned->split.empty()) {
      out["split"] = split_json(*planned);
    }
    if (planned && planned->model->ranks() > 1 && planned->stage_memory.empty()) {
      out["ranks"] = ranks_json(*planned);
    }
    if (planned) {
      add_encoders(*planned, out);
    }
    if (flags.plan) {
      out["plan"] = plan_json(*planned, read_ceiling(planned->device->info(), planned->threads));
    }
    print_json(out);
    return 0;
  }
  if (!flags.plan) {
    for (const std::string& line : model_screen(file, model, devices_json(path, options), options.model.kv_dtype)) {
      fmt::print("{}\n", line);
    }
  } else {
    print_head(file);
  }
  if (flags.tensors) {
    print_tensors(file);
  }
  if (flags.plan) {
    print_memory(memory);
    print_placement(*planned);
    print_split(*planned);
    print_ranks(*planned);
    print_encoders(*planned);
    print_plan(*planned, read_ceiling(planned->device->info(), planned->threads));
  }
  return 0;
}

}  // namespace

Command inspect_command() {
  auto flags = std::make_shared<InspectFlags>();
  Command command = {.name = "inspect",
                     .summary = "Show on one screen what a model is and which devices here can run it; or its plan",
                     .examples = {"rocmforge inspect model.gguf", "rocmforge inspect model.gguf --tensors",
                                  "rocmforge inspect model.gguf --plan -c 4096 --kv-type f32",
                                  "rocmforge inspect model.gguf --json --tensors"},
                     .action = [flags] { return inspect(*flags); }};
  add_model(command, flags->model);
  command.options.push_back({"--tensors", &flags->tensors, "List the tensors"});
  command.options.push_back(
      {"--plan", &flags->plan,
       "The long form: metadata, memory, each operation's kernel, why not the others, and what it moves"});
  command.options.push_back(json_option(flags->json));
  flags->engine.add_to(command);
  return command;
}

}  // namespace rocmforge::app
