#include "server/api/completions.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "server/api/constraints.h"
#include "server/api/prompts.h"
#include "server/api/unserved_fields.h"

namespace rocmforge {
namespace {

struct CompletionOptions {
  StreamOptions stream;
  bool echo = false;
  bool logprobs = false;
  bool scores_only = false;  ///< max_tokens is 0: the prompt and its logprobs are all there is
};

class CompletionGeneration final : public Generation {
 public:
  /// `prompts` are echoed.
  CompletionGeneration(std::shared_ptr<Exchange> exchange, const Backend& backend, const CompletionOptions& options,
                       std::vector<Ids> prompts)
      : Generation(std::move(exchange), backend, options.stream, "cmpl-"), options_(options), prompts_(std::move(prompts)) {}

 protected:
  void take(int index, StepOutput& output) override {
    extras_.resize(choices().size());
    scores_.resize(prompts_.size());
    const auto number = static_cast<std::size_t>(index / count());
    if (!output.prompt_logprobs.empty()) {  // with the prompt's first answer
      scores_[number] = std::move(output.prompt_logprobs);
    }
    Extra& extra = extras_[static_cast<std::size_t>(index)];
    if (options_.echo && !std::exchange(extra.echoed, true)) {
      const Ids& prompt = prompts_[number];
      output.text.insert(0, model().text().decode(prompt));
      if (options_.logprobs && !prompt.empty()) {
        extra.prompt = scores_[number];
        extra.prompt.insert(extra.prompt.begin(), {prompt.front(), std::nanf(""), {}});  // nothing came before it
      }
    }
  }

  std::vector<Json> events(int index, const StepOutput& output) override {
    std::vector<Json> list;
    if (const bool last = output.finish != FinishReason::none; last || !output.text.empty()) {
      Json event = head("text_completion");
      event["choices"] = Json::array({entry(index, output.text, output.finish)});
      if (last) {
        event["timings"] = timings(choice(index).stats);
      }
      if (options().include_usage) {
        event["usage"] = nullptr;
      }
      list.push_back(std::move(event));
    }
    return list;
  }

  std::vector<Json> last_events() override {
    if (!options().include_usage) {
      return {};
    }
    Json event = head("text_completion");
    event["choices"] = Json::array();
    event["usage"] = usage();
    return {std::move(event)};
  }

  Json whole() override {
    Json answer = head("text_completion");
    Json list = Json::array();
    for (std::size_t i = 0; i < choices().size(); ++i) {
      list.push_back(entry(static_cast<int>(i), choices()[i].text, choices()[i].finish));
    }
    answer["choices"] = std::move(list);
    answer["usage"] = usage();
    answer["timings"] = timings(choices().front().stats);
    return answer;
  }

 private:
  /// What a choice has beside the text.
  struct Extra {
    bool echoed = false;
    std::vector<TokenLogprobs> prompt;  ///< not sent yet
    std::size_t text_offset = 0;
  };

  Json entry(int index, const std::string& text, FinishReason finish) {
    Json result = {{"index", index}, {"text", text}, {"logprobs", nullptr}, {"finish_reason", nullptr}};
    if (finish != FinishReason::none) {
      result["finish_reason"] = finish_text(finish);
    }
    if (options_.logprobs) {
      Extra& extra = extras_[static_cast<std::size_t>(index)];
      std::vector<TokenLogprobs> tokens = std::exchange(extra.prompt, {});
      if (!options_.scores_only) {
        for (auto& token : choice(index).logprobs.take(choice(index).text_bytes, finish != FinishReason::none)) {
          tokens.push_back(std::move(token));
        }
      }
      result["logprobs"] = completion_logprobs(tokens, model().text(), extra.text_offset);
    }
    return result;
  }

  CompletionOptions options_;
  std::vector<Ids> prompts_;
  std::vector<Extra> extras_;
  std::vector<std::vector<TokenLogprobs>> scores_;  ///< of each prompt
};

}  // namespace

void serve_completion(const std::shared_ptr<Exchange>& exchange, const Backend& backend) {
  const Json body = parse_body(exchange->request.body);
  Fields fields(body);
  std::vector<Ids> prompts = read_prompts(fields, "prompt", backend.model);
  Request request;
  read_sampling(fields, backend.model, request);
  request.constraint = read_constraint(fields, backend.grammars);
  const int count = read_count(fields, 128);
  CompletionOptions options;
  options.stream = read_stream(fields);
  options.echo = fields.boolean("echo").value_or(false);
  fields.ignore_unless("logprobs", Json::array({false}));
  const auto logprobs = fields.was_asked_for("logprobs") ? std::nullopt : fields.integer("logprobs", 0, 5);
  options.logprobs = logprobs.has_value();
  request.logprobs = static_cast<std::int32_t>(logprobs.value_or(-1));
  request.prompt_logprobs = options.echo ? request.logprobs : -1;
  request.max_tokens = read_max_tokens(fields, 16, true);
  options.scores_only = request.max_tokens == 0;
  finish_fields(fields, *exchange, backend);
  std::vector<Request> requests;
  for (const Ids& prompt : prompts) {
    requests.push_back(request);
    requests.back().prompt = prompt;
  }
  auto generation = std::make_shared<CompletionGeneration>(exchange, backend, options, std::move(prompts));
  generation->start(std::move(requests), count);
}

}  // namespace rocmforge
