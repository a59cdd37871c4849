#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "command.h"
#include "commands/generate.h"
#include "commands/local_model.h"
#include "commands/pull_model.h"
#include "flags.h"
#include "prompts.h"
#include "terminal/interrupt.h"
#include "terminal/terminal.h"
#include "terminal/text.h"
#include "terminal/word_wrap.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

struct RunFlags {
  ModelAndText words;
  std::optional<std::string> prompt;
  std::optional<std::string> file;
  PromptFiles files;
  bool raw = false;
  TemplateFlags chat_template;
  ToolFlags tools;
  bool json = false;
  GenerationFlags generation;
  EngineFlags engine;
};

/// The prompt from the command line. Throws UsageError if there is more than one.
std::optional<std::string> given_prompt(const RunFlags& flags) {
  const std::optional<std::string> word = flags.words.text();
  if (word && (flags.prompt || flags.file)) {
    throw UsageError(fmt::format("the prompt was given twice: as an argument and by {}", flags.prompt ? "-p" : "-f"));
  }
  return word ? word : flags.prompt;
}

/// The prompt from the command line or a file; if neither is given, from a pipe.
std::string read_prompt(const RunFlags& flags, const std::optional<std::string>& text) {
  if (text && *text != "-") {
    return *text;
  }
  const bool from_pipe = !text && !flags.file;
  const std::string missing =
      "a prompt is missing: MODEL PROMPT, -p TEXT, -f FILE, or text on standard input (rocmforge chat is for talking)";
  if (from_pipe && isatty(STDIN_FILENO) != 0) {
    throw UsageError(missing);
  }
  std::string read = read_text(flags.file.value_or("-"));
  if (from_pipe && read.empty()) {
    throw UsageError(missing);
  }
  return read;
}

int run(const RunFlags& flags) {
  flags.generation.validate(flags.raw);
  static_cast<void>(flags.chat_template.variables());
  OfferedTools offered = flags.tools.read();
  const std::optional<std::string> given = given_prompt(flags);
  std::ranges::for_each(flags.files.images, check_image);
  std::ranges::for_each(flags.files.sounds, check_sound);
  EngineOptions options = flags.engine.options();
  options.fitting_contexts = 1;
  const std::string path = find_model(flags.words.model(), options);
  if (!flags.files.images.empty() || !flags.files.sounds.empty()) {
    flags.engine.find_image_encoder(options, path);
  }
  const std::string text = read_prompt(flags, given);
  const LocalModel model = load_local_model(path, options);
  const Engine& engine = model.engine;
  const Turn turn = prompt_turn(*model.instance, engine, flags.generation, flags.chat_template, flags.raw, text,
                                std::move(offered), flags.files);
  tell_relaxed_tools(turn);

  const InterruptScope interrupt(InterruptScope::Second::ends);
  AnswerPrinter printer;
  const Reply reply = generate(*model.instance, turn, [&](const AnswerDelta& delta) {
    if (!flags.json) {
      printer.add(delta);
    }
  });
  printer.end();
  if (reply.finish == FinishReason::error) {
    throw Error(reply.error);
  }
  if (flags.json) {
    nlohmann::ordered_json out = {{"model", path}};
    out.update(to_json(reply, model.engine));
    print_json(out);
  } else {
    fmt::print("\n");
    std::fflush(stdout);
    if (reply.finish == FinishReason::context) {
      fmt::print(stderr, "rocmforge: the context of {} tokens is full (--context-shift would go on)\n",
                 engine.context_length());
    }
    if (reply.shifted) {
      fmt::print(stderr, "rocmforge: the context of {} tokens was full: older tokens were dropped\n",
                 engine.context_length());
    }
    fmt::print(stderr, "{}\n", styled(stderr, Style::dim, describe(reply, model.engine)));
  }
  constexpr int exit_interrupted = 130;
  return reply.finish == FinishReason::cancelled ? exit_interrupted : 0;
}

}  // namespace

Command run_command() {
  auto flags = std::make_shared<RunFlags>();
  Command command = {
      .name = "run",
      .summary = "Answer a prompt",
      .notes =
          "The prompt is a user's message where the model has a chat template, else text to continue. "
          "Reasoning stands before the answer, between \"Thinking...\" and \"...done thinking.\". A call of a tool stands "
          "on a line of its own: NAME(ARGUMENTS); the program runs none.",
      .examples = {"rocmforge run -p \"What is 127 + 458?\" --greedy",
                   "rocmforge run model.gguf \"Why is the sky blue?\" -n 200 --temp 0.7 --seed 1",
                   "rocmforge run -m model.gguf \"Name three colours\" --json-schema '{\"type\": \"array\"}'",
                   "rocmforge run model.gguf -i photo.jpg \"What is this?\"",
                   "rocmforge run -p \"How warm is it in Rome?\" --tools-file tools.json --json",
                   "echo \"Once upon a time\" | rocmforge run model.gguf --raw --stop \"The end\"",
                   "rocmforge run -p \"Reverse the word stone.\" --greedy --json"},
      .action = [flags] { return run(*flags); }};
  flags->words.add_to(command, "PROMPT", "Prompt; -: standard input, which is read without any prompt as well");
  auto& options = command.options;
  options.push_back({.names = "-p,--prompt", .target = &flags->prompt, .meaning = "Prompt; -: standard input"});
  options.push_back({.names = "-f,--file",
                     .target = &flags->file,
                     .meaning = "Read the prompt from a file; -: standard input",
                     .value = "FILE",
                     .excludes = {"--prompt"}});
  options.push_back({.names = "-i,--image",
                     .target = &flags->files.images,
                     .meaning = "Image that the prompt is about: PNG, JPEG, WebP or GIF (may be repeated)",
                     .value = "FILE"});
  options.push_back({.names = "--audio",
                     .target = &flags->files.sounds,
                     .meaning = "Recording that the prompt is about: WAV, FLAC, MP3 or Ogg (may be repeated)",
                     .value = "FILE"});
  options.push_back(json_option(flags->json, "The answer and its statistics as JSON"));
  flags->generation.add_to(command);
  flags->chat_template.add_to(command);
  flags->tools.add_to(command);
  options.push_back(raw_option(flags->raw, command));
  command.option("--tools-file").excludes.push_back("--raw");
  command.option("--image").excludes.push_back("--raw");
  command.option("--audio").excludes.push_back("--raw");
  flags->engine.add_to(command);
  return command;
}

}  // namespace rocmforge::app
