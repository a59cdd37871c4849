#include "generate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "chat/chat_format.h"
#include "chat/json.h"
#include "chat/json_document.h"
#include "flags.h"
#include "interrupt.h"
#include "measure.h"
#include "plan_table.h"
#include "progress.h"
#include "text.h"
#include "usage_error.h"

namespace rocmforge::app {

Reply generate(Engine& engine, Request request, std::int32_t batch_tokens,
               const std::function<void(std::string_view)>& show) {
  const auto prompt_tokens = static_cast<std::int64_t>(request.prompt.size());
  const RequestId id = engine.submit(std::move(request));
  auto progress = std::make_unique<Progress>(fmt::format("reading a prompt of {} tokens", prompt_tokens));
  Reply reply;
  std::int64_t done = 0;
  while (reply.finish == FinishReason::none && engine.has_work()) {
    if (InterruptScope::take()) {
      engine.cancel(id);  // the next step delivers what was held back
    }
    for (const StepOutput& output : engine.step()) {
      if (output.id != id) {
        continue;
      }
      progress.reset();
      reply.finish = output.finish;
      reply.shifted = reply.shifted || output.shifted;
      if (output.finish == FinishReason::error) {
        reply.error = output.text;
      } else if (!output.text.empty()) {
        reply.text += output.text;
        show(output.text);
      }
    }
    if (progress != nullptr) {
      done = std::min(done + batch_tokens, prompt_tokens);
      progress->update(static_cast<double>(done) / static_cast<double>(prompt_tokens));
    }
  }
  reply.stats = engine.take_stats(id);
  return reply;
}

const Tokenizer& require_tokenizer(const Engine& engine) {
  const auto tokenizer = engine.tokenizer();
  if (tokenizer == nullptr) {
    throw Error(engine.file().path().string() + ": the file has no tokenizer, so it can't read or write text");
  }
  return *tokenizer;
}

std::string chat_format_names() { return fmt::format("{}", fmt::join(builtin_chat_template_names(), ", ")); }

void TemplateFlags::add_to(Command& command) {
  const std::vector<std::string_view> names = builtin_chat_template_names();
  const std::string group = "Chat template";
  command.options.push_back({.names = "--chat-format",
                             .target = &format,
                             .meaning = "A built-in template instead of the model's own",
                             .group = group,
                             .choices = {names.begin(), names.end()}});
  command.options.push_back({.names = "--chat-template-file",
                             .target = &file,
                             .meaning = "Jinja template instead of the model's own",
                             .value = "FILE",
                             .group = group,
                             .excludes = {"--chat-format"}});
  command.options.push_back({.names = "--chat-template-kwargs",
                             .target = &arguments,
                             .meaning = "Variables for the template, as a JSON object",
                             .value = "JSON",
                             .group = group});
  command.options.push_back({.names = "--think",
                             .target = &think,
                             .meaning = "Whether the model reasons first, where its template leaves the choice",
                             .group = group,
                             .choices = {"on", "off"}});
}

std::string TemplateFlags::source() const {
  return !file.empty() ? read_text(file) : format.empty() ? "" : std::string(*builtin_chat_template(format));
}

nlohmann::ordered_json TemplateFlags::variables() const {
  auto variables = nlohmann::ordered_json::object();
  if (!arguments.empty()) {
    variables = read_json(arguments).value;
    if (!variables.is_object()) {
      throw UsageError("--chat-template-kwargs is not a JSON object, as in '{\"enable_thinking\": false}'");
    }
  }
  if (!think.empty()) {  // both names are in use
    variables["enable_thinking"] = think == "on";
    variables["thinking"] = think == "on";
  }
  return variables;
}

std::optional<ChatTemplates> choose_templates(const Engine& engine, const TemplateFlags& flags) {
  const Tokenizer& tokenizer = require_tokenizer(engine);
  const std::string source = flags.source();
  const std::string from = !flags.file.empty()     ? flags.file
                           : !flags.format.empty() ? flags.format
                                                   : engine.file().path().string();
  auto templates = with_context(from, [&] {
    return source.empty() ? ChatTemplates::of_model(tokenizer) : std::optional(ChatTemplates::of_source(source, tokenizer));
  });
  if (!flags.think.empty() && !templates.has_value()) {
    throw UsageError(fmt::format("--think: {} has no chat template", from));
  }
  if (!flags.think.empty() && !templates->choose({}).abilities().thinking_switch) {
    throw UsageError(fmt::format("--think: the chat template of {} has no such choice", from));
  }
  return templates;
}

nlohmann::ordered_json chat_message(std::string_view role, std::string_view content) {
  return {{"role", role}, {"content", content}};
}

EncodedChat encode_chat(const Engine& engine, const ChatTemplates& templates, const nlohmann::ordered_json& messages,
                        const nlohmann::ordered_json& variables) {
  ChatRequest request;
  request.messages = messages;
  request.arguments = variables;
  const ChatPrompt prompt = templates.choose(request).prompt(std::move(request));
  return {rocmforge::encode_chat(require_tokenizer(engine), prompt.segments),
          {.reasoning_is_open = prompt.reasoning_is_open,
           .reasoning = prompt.reasoning,
           .in_channels = prompt.in_channels,
           .header_is_open = prompt.header_is_open}};
}

namespace {

double per_second(std::int32_t count, double seconds) { return count > 0 && seconds > 0.0 ? count / seconds : 0.0; }

/// The first generated token belongs to the prompt's time.
double decode_speed(const RequestStats& stats) { return per_second(stats.generated_tokens - 1, stats.decode_seconds); }

double prompt_speed(const RequestStats& stats) {
  return per_second(stats.prompt_tokens - stats.cached_tokens, stats.prompt_seconds);
}

double weight_rate(const RequestStats& stats, const Engine& engine) {
  return decode_speed(stats) * static_cast<double>(engine.model().bytes_per_token()) / 1e9;
}

}  // namespace

std::string describe(const Reply& reply, Engine& engine) {
  const RequestStats& stats = reply.stats;
  std::string line = fmt::format("{} prompt tokens", stats.prompt_tokens);
  if (stats.cached_tokens > 0) {
    line += fmt::format(" ({} from the cache)", stats.cached_tokens);
  }
  if (prompt_speed(stats) > 0.0) {
    line += fmt::format(", {:.1f} tok/s", prompt_speed(stats));
  }
  line += fmt::format("; {} generated", stats.generated_tokens);
  if (decode_speed(stats) > 0.0) {
    line += fmt::format(", {:.1f} tok/s, {:.2f} GB/s of weights", decode_speed(stats), weight_rate(stats, engine));
  }
  line += fmt::format("; on {}, attention {}", describe_device(engine.device_info(), engine.threads()),
                      attention_kernels(engine.model()));
  return line + fmt::format("; {}; peak memory {} (file {}, KV cache {}, repacked {}, workspace {})", name(reply.finish),
                            human_bytes(peak_memory_bytes()), human_bytes(engine.file().file_bytes()),
                            human_bytes(engine.memory().page_bytes()), human_bytes(engine.model().packed_bytes()),
                            human_bytes(engine.model().workspace_bytes()));
}

nlohmann::ordered_json to_json(const Reply& reply, Engine& engine) {
  const RequestStats& stats = reply.stats;
  nlohmann::ordered_json out;
  out["text"] = reply.text;
  out["finish_reason"] = name(reply.finish);
  if (!reply.error.empty()) {
    out["error"] = reply.error;
  }
  out["shifted"] = reply.shifted;
  out["prompt_tokens"] = stats.prompt_tokens;
  out["cached_tokens"] = stats.cached_tokens;
  out["generated_tokens"] = stats.generated_tokens;
  out["prompt_seconds"] = stats.prompt_seconds;
  out["decode_seconds"] = stats.decode_seconds;
  out["prompt_tokens_per_second"] = prompt_speed(stats);
  out["generated_tokens_per_second"] = decode_speed(stats);
  out["weights_gb_per_second"] = weight_rate(stats, engine);
  out["device"] = describe_device(engine.device_info(), engine.threads());
  out["attention"] = attention_kernels(engine.model());
  out["memory"] = {{"peak_bytes", peak_memory_bytes()},
                   {"file_bytes", engine.file().file_bytes()},
                   {"kv_cache_bytes", engine.memory().page_bytes()},
                   {"repacked_bytes", engine.model().packed_bytes()},
                   {"workspace_bytes", engine.model().workspace_bytes()}};
  return out;
}

}  // namespace rocmforge::app
