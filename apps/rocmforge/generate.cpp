#include "generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/json.h"
#include "flags.h"
#include "interrupt.h"
#include "measure.h"
#include "plan_table.h"
#include "progress.h"
#include "text.h"

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
      reply.stats = output.stats.value_or(RequestStats{});
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
  return reply;
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
