#include "server/api/openai/completions.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "server/api/asked_grammar.h"
#include "server/api/prompts.h"
#include "server/api/raw_prompts.h"
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
  CompletionGeneration(std::shared_ptr<HttpExchange> exchange, const Backend& backend, const CompletionOptions& options,
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
      output.text.insert(0, model().text().decode(prompts_[number]));
      extra.prompt_is_due = options_.logprobs && !prompts_[number].empty();
    }
  }

  std::vector<Json> events(int index, const StepOutput& output) override {
    std::vector<Json> list;
    if (const bool last = output.finish != FinishReason::none; last || !output.text.empty()) {
      Json event = head("text_completion");
      event["choices"] = Json::array({streamed_entry(index, output.text, output.finish)});
      if (last) {
        event["timings"] = timings_json(choice(index).stats);
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

  Json envelope() override {
    Json answer = head("text_completion");
    answer["choices"] = nullptr;
    answer["usage"] = usage();
    answer["timings"] = timings_json(choices().front().stats);
    return answer;
  }

  Json entry(int index) override { return plain_entry(index, choice(index).text, choice(index).finish); }
  [[nodiscard]] std::string_view logprobs_name() const override { return options_.logprobs ? "logprobs" : ""; }
  TextPieces logprobs(int index) override {
    return options_.logprobs ? completion_logprobs_in_pieces(take_logprobs(index, true), model().tokenizer) : nullptr;
  }

 private:
  /// The state of a choice beside its text.
  struct Extra {
    bool echoed = false;
    bool prompt_is_due = false;  ///< the prompt's log probabilities have not been sent
    std::size_t text_offset = 0;
  };

  Json plain_entry(int index, const std::string& text, FinishReason finish) {
    Json result = {{"index", index}, {"text", text}, {"logprobs", nullptr}, {"finish_reason", nullptr}};
    if (finish != FinishReason::none) {
      result["finish_reason"] = finish_text(finish);
    }
    return result;
  }

  Json streamed_entry(int index, const std::string& text, FinishReason finish) {
    Json result = plain_entry(index, text, finish);
    if (options_.logprobs) {
      Extra& extra = extras_[static_cast<std::size_t>(index)];
      result["logprobs"] =
          completion_logprobs(take_logprobs(index, finish != FinishReason::none), model().text(), extra.text_offset);
    }
    return result;
  }

  /// Takes the log probabilities of the tokens whose text has been sent. Those of an echoed prompt come first, once.
  std::vector<TokenLogprobs> take_logprobs(int index, bool last) {
    std::vector<TokenLogprobs> tokens;
    if (std::exchange(extras_[static_cast<std::size_t>(index)].prompt_is_due, false)) {
      const auto number = static_cast<std::size_t>(index / count());
      tokens = scores_[number];
      tokens.insert(tokens.begin(), {prompts_[number].front(), std::nanf(""), {}});  // the first token has none
    }
    if (!options_.scores_only) {
      for (auto& token : choice(index).logprobs.take(choice(index).text_bytes, last)) {
        tokens.push_back(std::move(token));
      }
    }
    return tokens;
  }

  CompletionOptions options_;
  std::vector<Ids> prompts_;
  std::vector<Extra> extras_;
  std::vector<std::vector<TokenLogprobs>> scores_;  ///< of each prompt
};

}  // namespace

void serve_completion(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  const Document document = exchange->take_json();
  const Json& body = document.root;
  Fields fields(body);
  std::vector<RawPrompt> raw = read_raw_prompts(fields, backend.model, exchange->reading);
  Request request = new_request(backend.model);
  read_sampling(fields, backend.model, request);
  request.constraint =
      constrain(read_answer_grammar(fields, exchange->reading), backend.instance->grammars(), exchange->reading);
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
  std::vector<Ids> prompts;
  ImageAllowance allowance;
  for (RawPrompt& prompt : raw) {
    requests.push_back(request);
    give_prompt(requests.back(), std::move(prompt), backend.model, allowance, exchange->reading);
    prompts.push_back(requests.back().prompt);
  }
  auto generation = std::make_shared<CompletionGeneration>(exchange, backend, options, std::move(prompts));
  generation->start(std::move(requests), count);
}

}  // namespace rocmforge
