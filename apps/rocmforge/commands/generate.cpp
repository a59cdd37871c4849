#include "commands/generate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "bench/measure.h"
#include "chat/message_json.h"
#include "commands/plan_table.h"
#include "flags.h"
#include "service/stream.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/text.h"

namespace rocmforge::app {

namespace {

/// Shows how much of a prompt has been computed, until its answer begins.
class PromptProgress {
 public:
  PromptProgress(EngineLoop& loop, std::size_t tokens)
      : loop_(loop),
        tokens_(static_cast<double>(tokens)),
        progress_(std::make_unique<Progress>(fmt::format("reading a prompt of {} tokens", tokens))) {}

  void update() {
    if (progress_ != nullptr) {
      loop_.ask([computed = computed_](Engine& engine) {
        for (const SequenceStatus& sequence : engine.sequences()) {
          *computed = sequence.computed_tokens;
        }
      });
      progress_->update(std::min(*computed_ / tokens_, 1.0));
    }
  }
  void end() { progress_.reset(); }

 private:
  EngineLoop& loop_;
  double tokens_;
  std::shared_ptr<std::atomic<std::int32_t>> computed_ = std::make_shared<std::atomic<std::int32_t>>(0);
  std::unique_ptr<Progress> progress_;
};

}  // namespace

Reply generate(ModelInstance& model, const Turn& turn, const std::function<void(const AnswerDelta&)>& show,
               std::uint64_t number) {
  PromptProgress progress(model.loop(), turn.request.prompt.size());
  AnswerMessage message(turn, "", number);
  const AnswerEvents events{.text =
                                [&](std::string_view) {
                                  progress.end();
                                  return true;
                                },
                            .delta =
                                [&](const AnswerDelta& delta) {
                                  progress.end();
                                  show(delta);
                                  return true;
                                },
                            .poll =
                                [&] {
                                  progress.update();
                                  return !InterruptScope::take();
                                }};
  Reply reply;
  try {
    AnswerEnd end = wait_for_answer(model.loop(), turn.request, events, &message);
    reply.text = std::move(end.text);
    reply.finish = end.last.finish;
    reply.shifted = end.shifted;
    reply.stats = end.stats;
  } catch (const Error& error) {
    reply.finish = FinishReason::error;
    reply.error = error.what();
  }
  reply.content = message.content();
  reply.reasoning = message.reasoning();
  const auto calls = message.whole_calls();
  reply.calls.assign(calls.begin(), calls.end());
  return reply;
}

void tell_relaxed_tools(const Turn& turn) {
  if (!turn.relaxed.empty()) {
    fmt::print(stderr, "rocmforge: the arguments of {} are any JSON object: the schema can't be enforced\n",
               printable(fmt::format("{}", fmt::join(turn.relaxed, ", "))));
  }
}

namespace {

double per_second(std::int32_t count, double seconds) { return count > 0 && seconds > 0.0 ? count / seconds : 0.0; }

/// Tokens per second without the first token, which belongs to the prompt's time.
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
  if (stats.drafted_tokens > 0) {
    line += fmt::format("; {} of {} drafted tokens accepted", stats.accepted_tokens, stats.drafted_tokens);
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
  if (!reply.reasoning.empty() || !reply.calls.empty()) {
    out["content"] = reply.content;
  }
  if (!reply.reasoning.empty()) {
    out["reasoning_content"] = reply.reasoning;
  }
  for (const ToolCall& call : reply.calls) {
    out["tool_calls"].push_back(call_message(call.id, call.name, call.arguments));
  }
  out["finish_reason"] = name(reply.finish);
  if (!reply.error.empty()) {
    out["error"] = reply.error;
  }
  out["shifted"] = reply.shifted;
  out["prompt_tokens"] = stats.prompt_tokens;
  out["cached_tokens"] = stats.cached_tokens;
  out["generated_tokens"] = stats.generated_tokens;
  if (stats.drafted_tokens > 0) {
    out["drafted_tokens"] = stats.drafted_tokens;
    out["accepted_tokens"] = stats.accepted_tokens;
  }
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
