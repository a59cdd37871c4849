#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

#include "base/json.h"
#include "command.h"
#include "commands.h"
#include "commands/pull_model.h"
#include "flags.h"
#include "terminal/text.h"

namespace rocmforge::app {
namespace {

struct PullFlags {
  std::string name;
  bool no_fit_check = false;
  bool json = false;
  std::string device = "auto";
  std::string kernel_dir;
};

int pull(const PullFlags& flags) {
  EngineOptions options;
  options.device = flags.device;
  options.kernel_dir = flags.kernel_dir;
  const hub::Pulled pulled =
      pull_model(flags.name, {.takes_cached = false, .fits = flags.no_fit_check ? nullptr : &options});
  if (flags.json) {
    print_json({{"path", pulled.file.string()}, {"bytes", pulled.bytes}, {"downloaded_bytes", pulled.downloaded_bytes}});
    return 0;
  }
  fmt::print("{}\n", pulled.file.string());
  std::fflush(stdout);
  fmt::print(stderr, "rocmforge: {}\n",
             pulled.downloaded_bytes == 0
                 ? fmt::format("nothing to download: all {} are there", human_bytes(pulled.bytes))
                 : fmt::format("{} of {} downloaded", human_bytes(pulled.downloaded_bytes), human_bytes(pulled.bytes)));
  return 0;
}

}  // namespace

Command pull_command() {
  auto flags = std::make_shared<PullFlags>();
  return {.name = "pull",
          .summary = "Download a model by its name, and print the path of its file",
          .notes =
              "OWNER/REPO[:QUANT] and OWNER/REPO/FILE.gguf are of huggingface.co; without QUANT it is Q4_K_M or what comes "
              "nearest. NAME[:TAG] is of Ollama's library. Models go to the hub's cache, which other programs share; what "
              "was interrupted goes on where it ended, and checksums are compared. HF_TOKEN gives access to gated models, "
              "HF_HUB_CACHE names another folder, HF_ENDPOINT another server, https_proxy a proxy.",
          .examples = {"rocmforge pull Qwen/Qwen3-0.6B-GGUF:Q8_0", "rocmforge chat -hf Qwen/Qwen3-0.6B-GGUF:Q8_0",
                       "rocmforge pull qwen3:0.6b"},
          .options = {{.names = "NAME", .target = &flags->name, .meaning = "The model", .required = true},
                      {"--no-fit-check", &flags->no_fit_check,
                       "Download also what this build or this machine's memory can't run"},
                      json_option(flags->json),
                      device_option(flags->device),
                      kernel_dir_option(flags->kernel_dir)},
          .action = [flags] { return pull(*flags); }};
}

}  // namespace rocmforge::app
