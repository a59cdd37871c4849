#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "chat/conversation.h"
#include "command.h"
#include "commands/generate.h"
#include "commands/local_model.h"
#include "commands/pull_model.h"
#include "flags.h"
#include "prompts.h"
#include "terminal/interrupt.h"
#include "terminal/line_reader.h"
#include "terminal/terminal.h"
#include "terminal/text.h"
#include "terminal/word_wrap.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

constexpr const char* chat_help =
    "/help          this list\n"
    "/clear         forget the conversation (the system message stays)\n"
    "/system TEXT   set the system message and begin anew\n"
    "/image FILE    show an image with the next message\n"
    "/audio FILE    play a recording with the next message\n"
    "/retry         answer the last message once more\n"
    "/stats         speed and memory of the last answer\n"
    "/exit          leave (or Ctrl-D, or Ctrl-C twice)\n"
    "Where an answer calls tools (--tools-file), what is typed next is the result of each call; Ctrl-D drops the calls.\n"
    "Tab completes these. Ctrl-C stops an answer. What is pasted is one message. A line that ends with \\ goes on in the "
    "next; lines between \"\"\" and \"\"\" are one "
    "message.\n";

struct ChatFlags {
  ModelArgument model;
  TemplateFlags chat_template;
  ToolFlags tools;
  bool json = false;
  GenerationFlags generation;
  EngineFlags engine;
};

/// A conversation in the terminal. The engine gets all of it each turn; its prefix cache has the earlier turns.
class Chat {
 public:
  Chat(LocalModel model, ChatTemplates templates, OfferedTools offered, const ChatFlags& flags)
      : model_(std::move(model)),
        engine_(model_.engine),
        templates_(std::move(templates)),
        offered_(std::move(offered)),
        context_shift_(flags.generation.context_shift()),
        json_(flags.json),
        request_(flags.generation.request(engine_)),
        grammar_(flags.generation.grammar()),
        variables_(flags.chat_template.variables()),
        reader_(history_path(), {"/help", "/clear", "/system ", "/image ", "/audio ", "/retry", "/stats", "/exit"}) {
    if (reader_.interactive()) {  // in a pipe Ctrl-C ends the program
      interrupt_.emplace(InterruptScope::Second::also_flags);
    }
    set_system(flags.generation.system());
  }

  int loop();

 private:
  std::optional<std::string> read_message(const std::string& prompt, std::string_view hint);
  bool read_results();
  /// False when the program shall end.
  bool obey(const std::string& line);
  void set_system(const std::string& text);
  void say(const std::string& text) {
    messages_.push_back(message_with_files(std::exchange(files_, {}), text));
    answer();
  }
  void add_image(const std::string& file);
  void add_sound(const std::string& file);
  void add_file(const std::string& file, void (*check)(const std::string&), std::vector<std::string>& files);
  void retry();
  void answer();
  void answer_once();
  void drop_turn();
  void show_end() const;
  void print_reply() const;
  [[nodiscard]] bool has_system() const { return !messages_.empty() && messages_.front().role == Role::system; }
  Turn turn();
  Turn fitting_turn();

  LocalModel model_;
  Engine& engine_;
  ChatTemplates templates_;
  OfferedTools offered_;
  bool context_shift_;
  bool json_;        ///< each answer is a line of JSON, and every message is a prompt
  Request request_;  ///< without the prompt and the constraint
  std::optional<AnswerGrammar> grammar_;
  nlohmann::ordered_json variables_;  ///< of the template
  LineReader reader_;
  std::optional<InterruptScope> interrupt_;
  std::vector<Message> messages_;
  PromptFiles files_;  ///< for the next message
  std::optional<Reply> last_;
  std::uint64_t calls_ = 0;  ///< whose results were asked for
};

void Chat::set_system(const std::string& text) {
  messages_.clear();
  if (!text.empty()) {
    messages_.push_back(text_message(Role::system, text));
  }
}

/// One message of one or several lines. Empty at the end of input, and after Ctrl-C twice, which `hint` says after the
/// first.
std::optional<std::string> Chat::read_message(const std::string& prompt, std::string_view hint) {
  std::string text;
  bool quoted = false;
  bool leaving = false;
  for (bool first = true;;) {
    const LineReader::Result input = reader_.read(first ? prompt : "... ");
    if (input.event == LineReader::Event::end) {
      return text.empty() ? std::nullopt : std::optional(text);
    }
    if (input.event == LineReader::Event::interrupted) {
      fmt::print("\n");
      const bool empty = first && !input.had_text;
      if (empty && leaving) {
        return std::nullopt;
      }
      if (empty) {
        fmt::print("({})\n", hint);
      }
      leaving = empty;
      text.clear();
      quoted = false;
      first = true;
      continue;
    }
    reader_.remember(input.line);
    leaving = false;
    std::string line = input.line;
    constexpr std::string_view fence = "\"\"\"";
    const bool opens = first && line.starts_with(fence);
    if (opens) {
      line.erase(0, fence.size());
      quoted = true;
    }
    const bool closes = quoted && line.ends_with(fence);
    if (closes) {
      line.erase(line.size() - fence.size());
    }
    const bool goes_on = quoted ? !closes : line.ends_with('\\');
    if (goes_on && !quoted) {
      line.pop_back();
    }
    text += line;
    if (!goes_on) {
      return text;
    }
    text += opens && line.empty() ? "" : "\n";
    first = false;
  }
}

Turn Chat::turn() {
  TurnRequest asked{.request = request_, .grammar = grammar_, .templates = &templates_};
  asked.conversation.messages = messages_;
  asked.conversation.arguments = variables_;
  asked.conversation.tools = offered_.tools;
  asked.conversation.selection = offered_.selection;
  if (messages_.back().role == Role::tool) {  // a required call has been made
    asked.conversation.selection.choice = {};
  }
  return local_turn(std::move(asked), *model_.instance);
}

bool is_users(const Message& message) { return message.role == Role::user; }

/// The turn of the conversation. With --context-shift the oldest turns are dropped until its prompt fits.
Turn Chat::fitting_turn() {
  Turn asked = turn();
  bool dropped = false;
  while (context_shift_ && asked.request.prompt.size() >= static_cast<std::size_t>(engine_.context_length())) {
    const auto oldest = messages_.begin() + (has_system() ? 1 : 0);
    const auto next = std::find_if(oldest + 1, messages_.end(), is_users);
    if (next == messages_.end()) {
      break;
    }
    messages_.erase(oldest, next);
    dropped = true;
    asked = turn();
  }
  if (dropped) {
    fmt::print(stderr, "(the context of {} tokens is full: the oldest turns were dropped)\n", engine_.context_length());
  }
  return asked;
}

/// Removes the user's last message and what has followed it.
void Chat::drop_turn() {
  while (!is_users(messages_.back())) {
    messages_.pop_back();
  }
  messages_.pop_back();
}

/// Answers the last message, and goes on with the results of the calls in the answer. Removes the turn from the conversation
/// if it can't be answered.
void Chat::answer() {
  answer_once();
  while (last_->finish == FinishReason::stop && !last_->calls.empty()) {
    if (!read_results()) {
      drop_turn();
      fmt::print(stderr, "(the calls were dropped, and the message before them)\n");
      return;
    }
    answer_once();
  }
}

/// Asks for the results of the last answer's calls. False if one is not given.
bool Chat::read_results() {
  Message& message = messages_.back();
  for (const ToolCall& call : last_->calls) {
    message.calls.push_back({.id = call.id, .name = call.name, .arguments = call.arguments});
  }
  calls_ += last_->calls.size();
  for (const ToolCall& call : last_->calls) {
    const auto result = read_message(printable(call.name) + "> ", "Ctrl-C once more or Ctrl-D drops the calls");
    if (!result) {
      return false;
    }
    messages_.push_back({.role = Role::tool, .content = *result, .call_id = call.id, .name = call.name});
  }
  return true;
}

void Chat::answer_once() {
  AnswerPrinter printer;
  const Turn asked = fitting_turn();
  if (!last_) {
    tell_relaxed_tools(asked);
  }
  last_ = generate(
      *model_.instance, asked,
      [&](const AnswerDelta& delta) {
        if (!json_) {
          printer.add(delta);
        }
      },
      calls_);
  printer.end();
  if (json_) {
    print_reply();
  } else {
    show_end();
  }
  if (last_->finish == FinishReason::error) {
    drop_turn();
    return;
  }
  Message& message = messages_.emplace_back(text_message(Role::assistant, last_->content));
  message.reasoning = last_->reasoning;
}

/// Prints the last answer as one line of JSON: content and reasoning as separate members, then the members of `run --json`.
void Chat::print_reply() const {
  nlohmann::ordered_json line = {{"content", last_->content}};
  if (!last_->reasoning.empty()) {
    line["reasoning_content"] = last_->reasoning;
  }
  nlohmann::ordered_json more = to_json(*last_, engine_);
  more.erase("text");
  line.update(more);
  print_json(line, -1);
  std::fflush(stdout);
}

/// Prints why the answer ended, unless the model ended it.
void Chat::show_end() const {
  if (last_->finish == FinishReason::error) {
    fmt::print(stderr, "({}; /clear begins anew)\n", last_->error);
    return;
  }
  fmt::print("\n");
  std::fflush(stdout);
  if (last_->finish == FinishReason::cancelled) {
    fmt::print("{}\n", styled(stdout, Style::dim, "(stopped)"));
  } else if (last_->finish == FinishReason::context) {
    fmt::print(stderr, "(the context of {} tokens is full; /clear begins anew)\n", engine_.context_length());
  } else if (last_->shifted) {
    fmt::print(stderr, "(the context of {} tokens was full: older tokens were dropped)\n", engine_.context_length());
  }
}

void Chat::add_image(const std::string& file) {
  if (!model_.instance->facts().images) {
    fmt::print(stderr, "(the model reads text alone and can't see images)\n");
    return;
  }
  add_file(file, check_image, files_.images);
}

void Chat::add_sound(const std::string& file) {
  if (!model_.instance->facts().sounds) {
    fmt::print(stderr, "(the model reads text alone and can't hear recordings)\n");
    return;
  }
  add_file(file, check_sound, files_.sounds);
}

void Chat::add_file(const std::string& file, void (*check)(const std::string&), std::vector<std::string>& files) {
  try {
    check(file);
    files.push_back(file);
  } catch (const Error& error) {
    fmt::print(stderr, "({})\n", error.what());
  }
}

void Chat::retry() {
  if (messages_.empty() || messages_.back().role != Role::assistant) {
    fmt::print(stderr, "(there is nothing to answer once more)\n");
    return;
  }
  messages_.pop_back();
  answer();
}

bool Chat::obey(const std::string& line) {
  const std::string command = line.substr(0, line.find(' '));
  const std::string rest = line.size() > command.size() ? line.substr(command.size() + 1) : "";
  if (command == "/exit") {
    return false;
  }
  if (command == "/help") {
    fmt::print("{}", chat_help);
  } else if (command == "/clear") {
    set_system(has_system() ? text_of(messages_.front().content) : "");
  } else if (command == "/system") {
    set_system(rest);
  } else if (command == "/image") {
    add_image(rest);
  } else if (command == "/audio") {
    add_sound(rest);
  } else if (command == "/retry") {
    retry();
  } else if (command == "/stats") {
    fmt::print("{}\n", styled(stdout, Style::dim, last_.has_value() ? describe(*last_, engine_) : "no answer yet"));
  } else {
    fmt::print(stderr, "(there is no command {}; /help lists them)\n", command);
  }
  return true;
}

int Chat::loop() {
  if (reader_.interactive() && !json_) {
    fmt::print("{}: /help lists the commands, /exit leaves\n", engine_.file().path().filename().string());
  }
  while (const auto message = read_message("> ", "Ctrl-C once more, Ctrl-D or /exit leaves")) {
    if (!json_ && message->starts_with('/') && message->find('\n') == std::string::npos) {
      if (!obey(*message)) {
        break;
      }
    } else if (message->find_first_not_of(" \t\n") != std::string::npos) {
      say(*message);
    }
  }
  return 0;
}

int chat(const ChatFlags& flags) {
  flags.generation.validate();
  static_cast<void>(flags.chat_template.variables());
  OfferedTools offered = flags.tools.read();
  EngineOptions options = flags.engine.options();
  options.fitting_contexts = 1;
  const std::string path = find_model(flags.model, options);
  flags.engine.find_image_encoder(options, path);
  LocalModel model = load_local_model(path, options);
  auto templates = choose_templates(model.engine, flags.chat_template);
  if (!templates.has_value()) {
    throw UsageError(
        fmt::format("{}: the model has no chat template; --chat-format names one of {}", path, chat_format_names()));
  }
  return Chat(std::move(model), std::move(*templates), std::move(offered), flags).loop();
}

}  // namespace

Command chat_command() {
  auto flags = std::make_shared<ChatFlags>();
  Command command = {.name = "chat",
                     .summary = "Chat in the terminal",
                     .notes = std::string("Inside the chat:\n") + chat_help,
                     .examples = {"rocmforge chat", "rocmforge chat model.gguf --system \"Reply briefly.\" --temp 0.7",
                                  "printf 'What is 2 + 3?\\nWhat is 7 - 4?\\n' | rocmforge chat --greedy",
                                  "printf 'What is 2 + 3?\\nAnd 4 more?\\n' | rocmforge chat --greedy --json"},
                     .action = [flags] { return chat(*flags); }};
  add_model(command, flags->model);
  command.options.push_back(
      json_option(flags->json, "Each answer as a line of JSON; every line read is a prompt, none a command"));
  flags->generation.add_to(command);
  flags->chat_template.add_to(command);
  flags->tools.add_to(command);
  flags->engine.add_to(command);
  return command;
}

}  // namespace rocmforge::app
