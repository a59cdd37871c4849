#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/json_document.h"
#include "command.h"
#include "commands/pull_model.h"
#include "commands/rank_job.h"
#include "commands/step_timeout.h"
#include "engine/plan_model.h"
#include "flags.h"
#include "hub/image_fetch.h"
#include "model_path.h"
#include "prompts.h"
#include "serve/gateway_flags.h"
#include "serve/model_choices.h"
#include "serve/serve_gateway.h"
#include "serve/server_process.h"
#include "serve_flags.h"
#include "server/server.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

struct ServeFlags {
  std::vector<std::string> models;
  std::string file;  ///< the only model in another place
  std::string hub_name;

  /// None: the demo model, or that of the hub.
  [[nodiscard]] std::vector<std::string> all_models() const {
    return file.empty() ? models : std::vector<std::string>{file};
  }
  ListenFlags listen;
  ServiceFlags service;
  bool allow_image_urls = false;
  std::string image_folder;
  std::string adapter_folder;
  bool allow_pull = false;
  bool pull_token = false;
  SamplingFlags sampling;
  TemplateFlags chat_template;
  EngineFlags engine;
  GatewayFlags gateway;
};

/// Tells the router what the model needs, and waits until it may load. Plans again when the router asks, as others may have
/// freed memory. Ends the program with the router.
void wait_for_place(const std::string& path, const EngineOptions& options) {
  for (std::string answer; answer != "load";) {
    {
      const PlannedModel planned = plan_model(path, options);
      const std::int64_t bytes =
          planned.memory.total_bytes() + (planned.host_memory ? planned.host_memory->total_bytes() : 0);
      const bool fits = planned.lacking() == nullptr && (!planned.placement || options.placement.any());
      fmt::print("needs {} {} {}\n", bytes, fits ? "fits" : "lacks", planned.device->info().is_gpu() ? "gpu" : "cpu");
      std::fflush(stdout);
    }
    if (!std::getline(std::cin, answer)) {
      std::quick_exit(1);
    }
  }
}

int serve_one(const ServeFlags& flags) {
  const std::vector<std::string> models = flags.all_models();
  const std::string path = find_model({.file = models.empty() ? "" : models.front(), .hub_name = flags.hub_name},
                                      flags.engine.options());  // Ctrl-C ends a download
  prepare_server_process();
  EngineOptions options = flags.service.engine_options(flags.engine);
  flags.engine.find_image_encoder(options, path);
  if (options.context_length == 0 && !flags.listen.behind_router) {  // else other models need memory, too
    options.fitting_contexts = usual_contexts(options);
  } else if (options.kv_tokens == 0) {
    options.kv_tokens = usual_kv_tokens(options, path);
  }
  take_rank(path, options);
  ServerOptions server_options = flags.service.server_options(path, flags.sampling.choices(), flags.chat_template);
  flags.listen.apply(server_options, !options.mmproj.empty());
  server_options.image_sources.folder = flags.image_folder;
  server_options.adapter_folder = flags.adapter_folder;
  if (flags.allow_image_urls) {
    server_options.image_sources.fetch = [](const std::string& url, std::size_t most_bytes) {
      return hub::fetch_image(url, most_bytes);
    };
  }
  if (flags.allow_pull) {
    server_options.pull = pull_for_client;
    server_options.pull_token = flags.pull_token;
  }
  server_options.on_abandoned = [](const std::string&) {   // which the engine's loop has logged
    std::this_thread::sleep_for(std::chrono::seconds(1));  // running requests get their error
    _exit(exit_step_timeout);
  };
  Server server(server_options);
  fmt::print("{}\n", server.url());
  std::fflush(stdout);

  if (flags.listen.behind_router) {
    wait_for_place(path, options);
  }
  auto loading = std::async(std::launch::async, [&] { return load_model(path, options); });
  while (loading.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    if (signal_came()) {
      server.log().event("stopped while the model was loading");
      std::quick_exit(0);  // loading can't be interrupted
    }
  }
  std::unique_ptr<Engine> engine = loading.get();
  if (!flags.chat_template.think.empty()) {
    static_cast<void>(choose_templates(*engine, flags.chat_template));  // throws if the template has no such choice
  }
  server.serve(std::move(engine));
  if (flags.listen.behind_router) {
    fmt::print("loaded {}\n", json_text(server.description()));
    std::fflush(stdout);
  }
  server.log().event(serve_until_signal(server, flags.listen.drain_seconds));
  return 0;
}

int serve(const ServeFlags& flags, const GivenOptions& given) {
  const std::vector<std::string> models = flags.all_models();
  if (!flags.gateway.are_needed(models)) {
    return serve_one(flags);
  }
  if (flags.engine.options().as_process) {
    throw UsageError("--split tensor is for one model");
  }
  if (flags.allow_pull || !flags.service.alias.empty()) {
    throw UsageError(fmt::format("{} is for one model", flags.allow_pull ? "--allow-pull" : "--alias"));
  }
  std::vector<std::string> not_passed_on = options_of_the_port();
  not_passed_on.emplace_back("--cache-ram");  // each model gets a share
  const std::vector<std::string> options = given.arguments(not_passed_on);
  std::vector<ModelChoice> choices;
  const auto add = [&](std::vector<ModelChoice> more) { std::ranges::move(more, std::back_inserter(choices)); };
  if (!flags.hub_name.empty()) {
    add(choices_of_models({find_model({.file = "", .hub_name = flags.hub_name})}, options));
  }
  if (!flags.gateway.folder.empty()) {
    add(choices_of_folder(flags.gateway.folder, options));
  }
  if (!flags.gateway.preset.empty()) {
    add(choices_of_preset(flags.gateway.preset, options));
  }
  add(choices_of_models(models.empty() && choices.empty() ? std::vector<std::string>{""} : models, options));
  check_names(choices);
  share_cache_ram(choices, flags.service.cache_ram_mib, flags.gateway.most_loaded);
  return serve_gateway(std::move(choices), flags.gateway, flags.listen, flags.service);
}

/// The models as arguments, or one as the value of -m or -hf.
void add_models(Command& command, ServeFlags& flags) {
  ModelArgument unused;
  add_model(command, unused);
  Option& models = command.option("MODEL");
  models.target = &flags.models;
  models.meaning =
      "GGUF file, or the name of one, or a folder of them; several are served behind one port; without it the demo "
      "model";
  command.option("--model").target = &flags.file;
  command.option("--hf-repo").target = &flags.hub_name;
}

}  // namespace

Command serve_command() {
  auto flags = std::make_shared<ServeFlags>();
  Command command = {
      .name = "serve",
      .summary = "Serve models over HTTP, by the APIs of OpenAI, Anthropic and Ollama",
      .notes =
          "The address is printed once the server listens; requests are answered with 503 until the model is loaded. "
          "What is said here of sampling and the chat template holds where a request says nothing.",
      .examples = {"rocmforge serve", "rocmforge serve model.gguf --port 9000 --parallel 64 --ctx-size 4096 --temp 0.6",
                   "curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' -d '{\"messages\": "
                   "[{\"role\": \"user\", \"content\": \"What is 127 + 458?\"}]}'"},
  };
  add_models(command, *flags);
  flags->listen.add_to(command);
  flags->service.add_to(command);
  command.options.push_back(
      {.names = "--allow-image-urls",
       .target = &flags->allow_image_urls,
       .meaning = "Fetch images that requests name by http and https addresses, never from private ones",
       .group = "Server"});
  command.options.push_back({.names = "--image-folder",
                             .target = &flags->image_folder,
                             .meaning = "Read images that requests name by file:// addresses below this folder",
                             .value = "FOLDER",
                             .group = "Server"});
  command.options.push_back({.names = "--lora-folder",
                             .target = &flags->adapter_folder,
                             .meaning = "Clients may load LoRA adapters of this folder, and unload any",
                             .value = "FOLDER",
                             .group = "Server"});
  command.options.push_back(
      {.names = "--allow-pull",
       .target = &flags->allow_pull,
       .meaning = "Clients may download models into the hub's cache (POST /api/pull), and so fill the disc",
       .group = "Server"});
  command.options.push_back({.names = "--pull-with-token",
                             .target = &flags->pull_token,
                             .meaning = "Clients without a key may download with this machine's token for the hub too",
                             .group = "Server"});
  flags->sampling.add_to(command);
  flags->chat_template.add_to(command);
  flags->engine.add_to(command);
  flags->gateway.add_to(command);
  command.action = [flags, given = GivenOptions(command.options)] { return serve(*flags, given); };
  return command;
}

}  // namespace rocmforge::app
