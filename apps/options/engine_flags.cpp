#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/decimal.h"
#include "comma_list.h"
#include "device/device_label.h"
#include "flags.h"
#include "image_encoder.h"
#include "kernels/register_all.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

template <class Op>
void check_kernel(std::string_view flag, const std::string& wanted, const KernelRegistry& registry) {
  std::string known;
  for (const auto& kernel : registry.all<Op>()) {
    if (is_named(kernel->name(), wanted)) {
      return;
    }
    const std::string name(kernel->name());
    if ((", " + known + ",").find(", " + name + ",") == std::string::npos) {  // HIP and CUDA kernels may have the same name
      known += (known.empty() ? "" : ", ") + name;
    }
  }
  throw UsageError(fmt::format("{}: there is no {} kernel '{}'; there are {}", flag, Op::name, wanted, known));
}

const std::string model_group = "Model";

struct ScaledFile {
  std::string path;
  float scale = 1.0f;
};

/// "FILE:SCALE"
ScaledFile scaled_file(std::string_view flag, const std::string& entry) {
  const std::size_t colon = entry.rfind(':');
  const std::string scale = colon == std::string::npos ? "" : entry.substr(colon + 1);
  const DecimalPrefix read = read_decimal(scale);
  if (scale.empty() || read.length != scale.size() || !std::isfinite(read.value)) {
    throw UsageError(fmt::format("{} is '{}', must be FILE:SCALE with a number as the scale", flag, entry));
  }
  return {entry.substr(0, colon), static_cast<float>(read.value)};
}

/// The files of a flag, and behind them those of its form with scales: lists with commas.
std::vector<ScaledFile> files_of(const std::vector<std::string>& plain, std::string_view scaled_flag,
                                 const std::vector<std::string>& scaled) {
  std::vector<ScaledFile> files;
  for (const std::string& list : plain) {
    for (const std::string& path : split_at_commas(list)) {
      files.push_back({.path = path});
    }
  }
  for (const std::string& list : scaled) {
    for (const std::string& entry : split_at_commas(list)) {
      files.push_back(scaled_file(scaled_flag, entry));
    }
  }
  return files;
}

/// "FIRST:LAST"
ControlLayers control_layers_of(const std::string& text) {
  ControlLayers layers;
  const std::string_view all = text;
  const std::size_t colon = std::min(all.find(':'), all.size());
  const auto read = [](std::string_view part, std::int32_t& value) {
    const auto [end, problem] = std::from_chars(part.data(), part.data() + part.size(), value);
    return problem == std::errc() && end == part.data() + part.size() && value >= 1;
  };
  if (!read(all.substr(0, colon), layers.first) || colon == all.size() || !read(all.substr(colon + 1), layers.last) ||
      layers.last < layers.first) {
    throw UsageError(
        fmt::format("--control-vector-layer-range is '{}', must be FIRST:LAST with numbers of layers from 1 on", text));
  }
  return layers;
}

Option hub_option(std::string& target) {
  return {.names = "--hf-repo",
          .target = &target,
          .meaning =
              "Model by its name, downloaded where the hub's cache lacks it: OWNER/REPO[:QUANT], OWNER/REPO/FILE.gguf of "
              "huggingface.co, NAME[:TAG] of Ollama's library (rocmforge pull --help)",
          .value = "NAME",
          .excludes = {"--model"},
          .also = "-hf"};
}

}  // namespace

Option device_option(std::string& target) {
  return {.names = "--device",
          .target = &target,
          .meaning =
              "auto (the first GPU with kernels, else the CPU), cpu, hip, cuda, cuda:1; several GPUs share the model: "
              "cuda:0,cuda:1",
          .value = "NAME",
          .group = model_group,
          .environment = "ROCMFORGE_DEVICE"};
}

Option kernel_dir_option(std::string& target) {
  return {.names = "--kernel-dir",
          .target = &target,
          .meaning = "GPU code objects from this folder or archive in place of those of the program",
          .value = "DIR",
          .group = model_group,
          .environment = "ROCMFORGE_KERNEL_DIR"};
}

Option threads_option(std::int32_t& target) {
  return {.names = "-t,--threads",
          .target = &target,
          .meaning = "Threads on the CPU",
          .group = model_group,
          .range = {.least = 0, .most = max_threads, .note = "0: all processors"}};
}

Option json_option(bool& target, std::string meaning) { return {"--json", &target, std::move(meaning)}; }

void add_model(Command& command, ModelArgument& model) {
  command.options.push_back({"MODEL", &model.file, "GGUF file, or the name of one; without it the demo model"});
  command.options.push_back({.names = "-m,--model",
                             .target = &model.file,
                             .meaning = "The same in another place",
                             .value = "FILE",
                             .excludes = {"MODEL"}});
  command.options.push_back(hub_option(model.hub_name));
  command.options.back().excludes.push_back("MODEL");
}

void ModelAndText::add_to(Command& command, const std::string& name, const std::string& meaning) {
  command.options.push_back({"MODEL", &first_, "GGUF file, or the name of one; without it the demo model"});
  command.options.push_back({name, &second_, meaning});
  command.options.push_back({.names = "-m,--model",
                             .target = &model_,
                             .meaning = fmt::format("The model; then the first argument is {}", name),
                             .value = "FILE"});
  command.options.push_back(hub_option(hub_name_));
}

ModelArgument ModelAndText::model() const {
  return {.file = model_ ? *model_ : hub_name_.empty() ? first_.value_or("") : "", .hub_name = hub_name_};
}

std::optional<std::string> ModelAndText::text() const {
  const bool is_named = model_ || !hub_name_.empty();
  if (is_named && second_) {
    throw UsageError(fmt::format("one argument too many: {} (the model is named by {})", *second_, model_ ? "-m" : "-hf"));
  }
  return is_named ? first_ : second_;
}

void EngineFlags::add_to(Command& command) {
  const auto add = [&](Option option) {
    option.group = model_group;
    command.options.push_back(std::move(option));
  };
  add({.names = "-c,--context,--ctx-size",
       .target = &context_,
       .meaning =
           fmt::format("Positions of the context. By default the model's, in run, chat and serve of one model as far as "
                       "memory has room, else at most {}",
                       default_context_limit),
       .range = {.least = 0, .note = "0: the default"}});
  add({.names = "-b,--batch,--batch-tokens,--batch-size",
       .target = &batch_,
       .meaning = "Tokens computed in one step",
       .range = {.least = 1, .most = 65536}});
  add(threads_option(threads_));
  kv_types_.add_to(command, model_group);
  add(device_option(device_));
  add(kernel_dir_option(kernel_dir_));
  placement_.add_to(command, model_group);
  add({.names = "--ranks",
       .target = &ranks_,
       .meaning = "CPU: so many ranks share each layer (tensor parallel); each has a part of the threads, heads and weights",
       .value = "N",
       .range = {.least = 1, .most = AllReduce::most_ranks}});
  add({.names = "--split,--split-mode",
       .target = &split_,
       .meaning =
           "Of the GPUs that --device names each has some of the layers (layer), or all share each layer (tensor); auto: "
           "what takes the least time. On CPUs tensor: the processes that mpirun or srun has started, as --ranks does "
           "with threads",
       .choices = {"auto", "none", "layer", "tensor"},
       .also = "-sm"});
  add({.names = "--tensor-split",
       .target = &tensor_split_,
       .meaning = "The layers of each GPU that --device names, as proportions: 3,1; without it by their free memory",
       .value = "N,N",
       .also = "-ts"});
  add({.names = "--mmproj",
       .target = &mmproj_,
       .meaning = "Encoder of the model for images or recordings; without it chat, serve, inspect --plan, run --image and "
                  "run --audio take mmproj-*.gguf beside the model",
       .value = "FILE",
       .also = "-mm"});
  add({.names = "--no-mmproj,--no-mmproj-auto",
       .target = &no_mmproj_,
       .meaning = "No such encoder, even where one lies beside the model",
       .excludes = {"--mmproj"}});
  add({.names = "--image-max-tokens",
       .target = &image_tokens_,
       .meaning = "The most tokens of an image whose size may be chosen",
       .range = {.least = 0, .most = 65536, .note = fmt::format("0: {}", default_image_tokens)}});
  add({.names = "--draft-ngram,--spec-ngram-size-n,--spec-ngram-simple-size-n,--spec-ngram-mod-n-match",
       .target = &drafts_.ngram,
       .meaning = "Speculative decoding: draft what followed the last N tokens where they stood before, in any text; the "
                  "answers stay the same",
       .value = "N",
       .range = {.least = 0, .most = 64, .note = "0: no drafts"}});
  add({.names = "--draft-model,--model-draft,--spec-draft-model",
       .target = &drafts_.model,
       .meaning = "Speculative decoding: a smaller model with the same vocabulary drafts, or an EAGLE3 draft or a Gemma 4 "
                  "assistant of the model; the answers stay the same",
       .value = "FILE",
       .also = "-md"});
  add({.names = "--mtp",
       .target = &mtp_,
       .meaning = "Speculative decoding: the blocks of multi-token prediction in the model's file draft; auto: where it has "
                  "some, no draft model is given and there is memory for them",
       .choices = {"auto", "on", "off"}});
  add({.names = "--draft-max,--draft,--draft-n,--spec-draft-n-max",
       .target = &drafts_.most,
       .meaning = "The most tokens drafted for one answer in a step; fewer where they do not pay",
       .value = "N",
       .range = {.least = 1, .most = 64}});
  add({.names = "--draft-min,--draft-n-min,--spec-draft-n-min",
       .target = &drafts_.least,
       .meaning = "Drafts of fewer tokens are not used",
       .value = "N",
       .range = {.least = 0, .most = 64}});
  add({.names = "--lora",
       .target = &adapters_,
       .meaning = "Load a LoRA adapter (GGUF) and use it; may be repeated",
       .value = "FILE"});
  add({.names = "--lora-scaled",
       .target = &scaled_adapters_,
       .meaning = "The same, what it adds multiplied by SCALE",
       .value = "FILE:SCALE"});
  add({.names = "--lora-init-without-apply",
       .target = &adapters_wait_,
       .meaning = "Adapters change only requests that name them, or once POST /lora-adapters has set scales"});
  add({.names = "--control-vector",
       .target = &control_vectors_,
       .meaning = "Add a control vector (GGUF) to the outputs of layers; may be repeated",
       .value = "FILE"});
  add({.names = "--control-vector-scaled",
       .target = &scaled_control_vectors_,
       .meaning = "The same, multiplied by SCALE",
       .value = "FILE:SCALE"});
  add({.names = "--control-vector-layer-range",
       .target = &control_layers_,
       .meaning = "Only to these layers, counted from 0; without it to all that the files have",
       .value = "FIRST:LAST"});
  add({"--no-graph", &no_graph_, "GPU: launch every kernel of every step instead of replaying recorded steps"});
  add({"--no-overlap", &no_overlap_, "GPU: start no kernel before the one before it has ended"});
  add({.names = "--merge-launches",
       .target = &merge_launches_,
       .meaning =
           "AMD: launch products that follow each other in a step of one token as one; auto: where the saved check of "
           "this card found that it is right and no slower",
       .choices = {"auto", "on", "off"}});
  add({.names = "--isa",
       .target = &isa_,
       .meaning = "CPU: at most this instruction set",
       .choices = {"generic", "neon", "avx2", "avxvnni", "avx512"}});
  add({"--attention", &attention_, "This attention kernel only (names: rocmforge devices)", "NAME"});
  add({"--matmul", &matmul_, "This matrix product kernel only", "NAME"});
  add(without_option(without_));
  add({"--safe", &safe_,
       "Only portable kernels, none for one family of devices, one after the other: slow, for doubts about a card"});
  add(no_avoid_option(no_avoid_));
  add({.names = "--step-timeout",
       .target = &step_seconds_,
       .meaning = "Seconds after which a step counts as hung and the program ends with exit code 3; without it a bound from "
                  "the step's size, at least 30",
       .value = "SECONDS",
       .range = {.least = 0.0, .most = 1e6, .note = "0: never"}});
}

EngineOptions EngineFlags::options() const {
  if (!attention_.empty() || !matmul_.empty()) {
    KernelRegistry registry;
    register_all_kernels(registry);
    if (!attention_.empty()) {
      check_kernel<Attention>("--attention", attention_, registry);
    }
    if (!matmul_.empty()) {
      check_kernel<Matmul>("--matmul", matmul_, registry);
    }
  }
  EngineOptions options;
  options.context_length = context_;
  options.max_batch_tokens = batch_;
  options.threads = threads_;
  options.isa = isa_;
  options.device = device_;
  options.kernel_dir = kernel_dir_;
  options.placement = placement_.options();
  options.ceilings_file = ceilings_file();
  options.model.ranks = number_of_ranks();
  options.as_process = split_ == "tensor" && options.model.ranks == 1;
  options.split = split_ == "layer" ? DeviceSplit::layer : split_ == "tensor" ? DeviceSplit::tensor : DeviceSplit::automatic;
  options.tensor_split = proportions();
  options.model.graphs = !no_graph_;
  options.model.overlap = !no_overlap_;
  options.merge_launches = merge_launches_ == "on"    ? MergeLaunches::on
                           : merge_launches_ == "off" ? MergeLaunches::off
                                                      : MergeLaunches::automatic;
  options.model.kv_dtype = kv_types_.types();
  options.model.max_batch_tokens = batch_;
  options.model.attention = attention_;
  options.model.matmul = matmul_;
  options.without = avoided_kernels(without_);
  options.safe = safe_;
  options.checks_folder = no_avoid_ ? std::filesystem::path() : checks_folder();
  options.version = ROCMFORGE_VERSION;
  options.step_seconds = step_seconds_;
  options.drafts = drafts_;
  options.drafts.mtp = mtp_ == "on" ? MtpUse::on : mtp_ == "off" ? MtpUse::off : MtpUse::automatic;
  options.adapters = adapters();
  add_control_vectors(options);
  options.mmproj = mmproj_;
  options.image_tokens = image_tokens_;
  return options;
}

std::int32_t EngineFlags::number_of_ranks() const {
  const auto devices = static_cast<std::int32_t>(std::ranges::count(device_, ',')) + 1;
  if (devices == 1) {
    return ranks_;
  }
  if ((split_ == "auto" || split_ == "layer") && ranks_ == 1) {
    return 1;  // the layers may be divided
  }
  if (split_ == "none") {
    throw UsageError(fmt::format("--device names {} devices, and --split none takes one", devices));
  }
  if (split_ == "layer") {
    throw UsageError("--ranks says how many share each layer, --split layer divides the layers");
  }
  if (devices > AllReduce::most_ranks || (ranks_ != 1 && ranks_ != devices)) {
    throw UsageError(fmt::format("--device names {} devices, for at most {} ranks{}", devices, AllReduce::most_ranks,
                                 ranks_ == 1 ? "" : fmt::format(", and --ranks {}", ranks_)));
  }
  return devices;
}

std::vector<double> EngineFlags::proportions() const {
  std::vector<double> numbers;
  if (tensor_split_.empty()) {
    return numbers;
  }
  for (const std::string& text : split_at_commas(tensor_split_)) {
    const DecimalPrefix read = read_decimal(text);
    if (text.empty() || read.length != text.size() || !std::isfinite(read.value)) {
      throw UsageError(fmt::format("--tensor-split is '{}', must be numbers with commas between them: 3,1", tensor_split_));
    }
    numbers.push_back(read.value);
  }
  return numbers;
}

void EngineFlags::add_control_vectors(EngineOptions& options) const {
  for (const ScaledFile& file : files_of(control_vectors_, "--control-vector-scaled", scaled_control_vectors_)) {
    options.control_vectors.push_back({.path = file.path, .scale = file.scale});
  }
  if (control_layers_.empty()) {
    return;
  }
  if (options.control_vectors.empty()) {
    throw UsageError("--control-vector-layer-range has no control vector: --control-vector FILE names one");
  }
  options.control_layers = control_layers_of(control_layers_);
}

std::vector<AdapterOptions> EngineFlags::adapters() const {
  std::vector<AdapterOptions> adapters;
  for (const ScaledFile& file : files_of(adapters_, "--lora-scaled", scaled_adapters_)) {
    adapters.push_back({.path = file.path, .scale = file.scale, .applies = !adapters_wait_});
  }
  return adapters;
}

void EngineFlags::find_image_encoder(EngineOptions& options, const std::string& model_file) const {
  if (!no_mmproj_ && options.mmproj.empty()) {
    options.mmproj = app::find_image_encoder(model_file);
    options.mmproj_is_found = true;
  }
}

std::string describe_device(const DeviceInfo& device, int threads) {
  return device.is_gpu() ? fmt::format("{} ({}, {})", device.name, device_label(device), device.architecture)
                         : fmt::format("CPU ({}, {} threads)", name(device.cpu_isa), threads);
}

}  // namespace rocmforge::app
