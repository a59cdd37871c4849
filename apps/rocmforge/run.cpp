#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "command.h"
#include "flags.h"
#include "generate.h"
#include "interrupt.h"
#include "model_path.h"
#include "text.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

struct RunFlags {
  std::string model;
  std::string prompt;
  std::string file;
  bool raw = false;
  TemplateFlags chat_template;
  bool json = false;
  GenerationFlags generation;
  EngineFlags engine;
};

/// The ids of the prompt: as a user's message when the model has a chat template, as plain text otherwise.
std::vector<std::int32_t> encode_prompt(const RunFlags& flags, const Engine& engine, const std::string& text) {
  const Tokenizer& tokenizer = require_tokenizer(engine);
  const auto templates = flags.raw ? std::nullopt : choose_templates(engine, flags.chat_template);
  if (!templates.has_value()) {
    if (!flags.generation.system().empty()) {
      throw UsageError("--system needs a chat template, and this model has none; --chat-format names one of " +
                       chat_format_names());
    }
    return tokenizer.encode(text, {});
  }
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  if (!flags.generation.system().empty()) {
    messages.push_back(chat_message("system", flags.generation.system()));
  }
  messages.push_back(chat_message("user", text));
  return encode_chat(engine, *templates, messages);
}

int run(const RunFlags& flags, bool has_prompt) {
  if (!has_prompt && flags.file.empty()) {
    throw UsageError("a prompt is missing: -p TEXT, -f FILE, or -f - for standard input");
  }
  if (flags.raw && !flags.generation.system().empty()) {
    throw UsageError("--system has no meaning with --raw");
  }
  flags.generation.validate();
  const std::string path = find_model(flags.model);
  const EngineOptions options = flags.engine.options();
  const std::string text = has_prompt && flags.prompt != "-" ? flags.prompt : read_text(has_prompt ? "-" : flags.file);
  const auto engine = load_engine(path, options);
  Request request = flags.generation.request(engine->model().config().vocab);
  request.prompt = encode_prompt(flags, *engine, text);

  const InterruptScope interrupt(InterruptScope::Second::ends);
  const Reply reply = generate(*engine, std::move(request), options.max_batch_tokens, [&](std::string_view piece) {
    if (!flags.json) {
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      std::fflush(stdout);
    }
  });
  if (reply.finish == FinishReason::error) {
    throw Error(reply.error);
  }
  if (flags.json) {
    nlohmann::ordered_json out = {{"model", path}};
    out.update(to_json(reply, *engine));
    print_json(out);
  } else {
    fmt::print("\n");
    std::fflush(stdout);
    if (reply.finish == FinishReason::context) {
      fmt::print(stderr, "rocmforge: the context of {} tokens is full (--context-shift would go on)\n",
                 engine->context_length());
    }
    if (reply.shifted) {
      fmt::print(stderr, "rocmforge: the context of {} tokens was full: older tokens were dropped\n",
                 engine->context_length());
    }
    fmt::print(stderr, "{}\n", describe(reply, *engine));
  }
  constexpr int exit_interrupted = 130;
  return reply.finish == FinishReason::cancelled ? exit_interrupted : 0;
}

}  // namespace

void add_run(CLI::App& program, Action& action) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command = program.add_subcommand("run", "Answer a prompt");
  command->footer(
      "The prompt is a user's message where the model has a chat template, else text to continue.\n\nExamples:\n"
      "  rocmforge run -p \"What is 127 + 458?\" --greedy\n"
      "  rocmforge run model.gguf -f question.txt -n 200 --temp 0.7 --seed 1\n"
      "  echo \"Once upon a time\" | rocmforge run model.gguf -f - --raw --stop \"The end\"\n"
      "  rocmforge run -p \"Reverse the word stone.\" --greedy --json");
  command->add_option("MODEL", flags->model, "GGUF file; without it the demo model")->type_name("");
  auto* prompt = command->add_option("-p,--prompt", flags->prompt, "Prompt; -: standard input")->type_name("TEXT");
  command->add_option("-f,--file", flags->file, "Read the prompt from a file; -: standard input")
      ->type_name("FILE")
      ->excludes(prompt);
  auto* raw = command->add_flag("--raw", flags->raw, "Continue the text, no chat template");
  for (CLI::Option* option : flags->chat_template.add_to(*command)) {
    option->excludes(raw);
  }
  command->add_flag("--json", flags->json, "The answer and its statistics as JSON");
  flags->generation.add_to(*command);
  flags->engine.add_to(*command);
  command->callback(
      [flags, prompt, &action] { action = [flags, has_prompt = prompt->count() > 0] { return run(*flags, has_prompt); }; });
}

}  // namespace rocmforge::app
