#include "server/api/rerank.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/api/prompts.h"
#include "server/api/unserved_fields.h"
#include "service/embedding.h"

namespace rocmforge {
namespace {

struct RerankRequest {
  std::string query;
  std::vector<std::string> documents;
  std::size_t most_results = 0;
  bool is_list = false;       ///< the form of text-embeddings-inference: the answer is an array
  bool returns_texts = true;  ///< beside the scores
  bool raw_scores = false;    ///< not probabilities
};

/// The tokens that say whether a document answers the query.
struct Verdicts {
  std::int32_t yes = -1, no = -1;
};

/// A text, or {"text": a text}.
std::string read_document(Fields& fields, const std::string& name, const Json& value) {
  if (value.is_string()) {
    return value.get<std::string>();
  }
  Fields document = fields.inner(value, name + ".");
  std::string text = document.needed_text("text");
  document.finish();
  return text;
}

RerankRequest read_request(Fields& fields, const ServedModel& model) {
  RerankRequest read;
  read.query = fields.needed_text("query");
  read.is_list = !fields.has("documents") && fields.has("texts");
  const std::string name = read.is_list ? "texts" : "documents";
  const Json* documents = fields.array(name);
  if (documents == nullptr || documents->empty() || documents->size() > most_prompts) {
    fields.fail(name, fmt::format("must be an array of 1 to {} texts", most_prompts));
  }
  for (std::size_t i = 0; i < documents->size(); ++i) {
    read.documents.push_back(read_document(fields, fmt::format("{}[{}]", name, i), (*documents)[i]));
  }
  const auto count = static_cast<std::int64_t>(read.documents.size());
  const auto most = fields.integer("top_n", 1, INT64_MAX);
  read.most_results = static_cast<std::size_t>(std::min(count, most.value_or(count)));
  const auto texts = fields.boolean(read.is_list ? "return_text" : "return_documents");
  read.returns_texts = texts.value_or(!read.is_list);
  read.raw_scores = fields.boolean("raw_scores").value_or(false);
  if (read.raw_scores && model.labels == 0) {
    fields.fail("raw_scores", "is true: this model's scores are probabilities");
  }
  return read;
}

class RerankGeneration final : public Generation {
 public:
  RerankGeneration(std::shared_ptr<HttpExchange> exchange, const Backend& backend, RerankRequest request, Verdicts verdicts)
      : Generation(std::move(exchange), backend, {}, "rerank-"), request_(std::move(request)), verdicts_(verdicts) {}

 protected:
  void take(int index, StepOutput& output) override {
    values_.resize(choices().size());
    if (!output.embedding.empty()) {
      values_[static_cast<std::size_t>(index)] = output.embedding.front();
    }
  }

  std::vector<Json> events(int /*index*/, const StepOutput& /*output*/) override { return {}; }

  Json envelope() override {
    rank();
    if (request_.is_list) {
      return nullptr;
    }
    const Json tokens = usage()["prompt_tokens"];
    return {{"id", id()},
            {"object", "list"},
            {"model", model().id},
            {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}},
            {"results", nullptr}};
  }
  [[nodiscard]] std::string_view entries_name() const override { return "results"; }
  [[nodiscard]] bool may_be_partial() const override { return false; }
  [[nodiscard]] std::size_t num_entries() const override { return request_.most_results; }

  Json entry(int index) override {
    const auto [document, score] = ranked_[static_cast<std::size_t>(index)];
    Json result = {{"index", document}, {request_.is_list ? "score" : "relevance_score", score}};
    if (request_.returns_texts) {
      const std::string& text = request_.documents[document];
      request_.is_list ? result["text"] = text : result["document"] = {{"text", text}};
    }
    return result;
  }

  [[nodiscard]] std::int64_t own_bytes() const override {
    std::size_t bytes = request_.query.size();
    for (const std::string& document : request_.documents) {
      bytes += document.size() + sizeof(document) + sizeof(Ranked);
    }
    return static_cast<std::int64_t>(bytes);
  }

 private:
  struct Ranked {
    std::size_t document = 0;
    double score = 0.0;
  };

  /// Of equal scores the earlier document comes first.
  void rank() {
    for (std::size_t i = 0; i < choices().size(); ++i) {
      ranked_.push_back({i, model().labels > 0 ? classified(i) : score(choices()[i])});
    }
    std::ranges::stable_sort(ranked_, std::ranges::greater(), &Ranked::score);
  }

  /// By the classifier.
  [[nodiscard]] double classified(std::size_t document) const {
    const double value = values_.at(document);
    return request_.raw_scores ? value : 1.0 / (1.0 + std::exp(-value));
  }

  /// By the model's word.
  [[nodiscard]] double score(Choice& choice) const {
    const auto tokens = choice.logprobs.take(choice.text_bytes, true);
    if (tokens.empty()) {
      throw ApiError(500, "a document got no score");
    }
    const auto logprob = [&](std::int32_t token) {
      return double{std::ranges::find(tokens.front().top, token, &TokenLogprob::token)->logprob};
    };
    const double yes = logprob(verdicts_.yes);
    return std::isinf(yes) ? 0.0 : 1.0 / (1.0 + std::exp(logprob(verdicts_.no) - yes));
  }

  RerankRequest request_;
  Verdicts verdicts_;          ///< unused with a classifier
  std::vector<float> values_;  ///< of the classifier
  std::vector<Ranked> ranked_;
};

/// The template with the texts in its places.
std::vector<ChatSegment> prompt_of(std::string_view source, const std::string& query, const std::string& document) {
  constexpr std::string_view query_place = "{query}", document_place = "{document}";
  std::vector<ChatSegment> segments;
  while (!source.empty()) {
    const std::size_t at_query = source.find(query_place), at_document = source.find(document_place);
    const std::size_t at = std::min({at_query, at_document, source.size()});
    segments.push_back({std::string(source.substr(0, at)), true});
    source.remove_prefix(at);
    if (!source.empty()) {
      segments.push_back({at == at_query ? query : document, false});
      source.remove_prefix(at == at_query ? query_place.size() : document_place.size());
    }
  }
  return segments;
}

Verdicts find_verdicts(const ServedModel& model) {
  const Tokenizer& tokenizer = model.text();
  const std::string& source = tokenizer.vocabulary().rerank_template;
  const Verdicts verdicts{tokenizer.find("yes"), tokenizer.find("no")};
  if (model.labels > 1) {
    throw ApiError(501, fmt::format("the model's classifier gives a text {} values, a reranker gives one", model.labels));
  }
  if (model.labels == 1) {
    return {};
  }
  if (model.is_encoder) {
    throw ApiError(501, "the model is no reranker: its file has no classifier (pooling_type 4)");
  }
  if (source.find("{query}") == std::string::npos || source.find("{document}") == std::string::npos || verdicts.yes < 0 ||
      verdicts.no < 0) {
    throw ApiError(501,
                   "the model is no reranker: its file has no template that asks for \"yes\" or \"no\" "
                   "(tokenizer.chat_template.rerank)");
  }
  return verdicts;
}

Ids encode_for_ranking(Reading& reading, const ServedModel& model, const std::string& query, const std::string& document) {
  const std::string& source = model.text().vocabulary().rerank_template;
  return model.labels > 0 && source.empty() ? encode_pair(reading, model.text(), query, document)
                                            : encode_prompt(reading, model.text(), prompt_of(source, query, document));
}

/// What all documents' requests have in common.
Request shared_request(const ServedModel& model, Verdicts verdicts) {
  if (model.labels > 0) {
    return embedding_request({}, Pooling::cls);
  }
  Request shared;
  shared.sampling.temperature = 0.0f;
  shared.max_tokens = 1;
  shared.ignore_eos = true;  // the sampled token is not used
  shared.logprobs = 0;
  shared.logprobs_of = {verdicts.yes, verdicts.no};
  return shared;
}

}  // namespace

void serve_rerank(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  const Document document = exchange->take_json();
  Fields fields(document.root);
  const ServedModel& model = backend.model;
  const Verdicts verdicts = find_verdicts(model);
  exchange->reading.hold(exchange->reading.held());  // for copies of the texts
  RerankRequest asked = read_request(fields, model);
  Request shared = shared_request(model, verdicts);
  shared.priority = static_cast<std::int32_t>(fields.integer("priority", -1000, 1000).value_or(0));
  finish_fields(fields, *exchange, backend);
  std::vector<Request> requests;
  for (std::size_t i = 0; i < asked.documents.size(); ++i) {
    Request& request = requests.emplace_back(shared);
    request.prompt = encode_for_ranking(exchange->reading, model, asked.query, asked.documents[i]);
    const std::size_t drawn = model.labels > 0 ? 0 : 1;
    if (request.prompt.size() + drawn > static_cast<std::size_t>(model.context_length)) {
      throw ApiError(400,
                     fmt::format("document {} is too large: {} tokens with the query, the context holds {}", i,
                                 request.prompt.size(), model.context_length),
                     asked.is_list ? "texts" : "documents", "context_length_exceeded");
    }
  }
  auto generation = std::make_shared<RerankGeneration>(exchange, backend, std::move(asked), verdicts);
  generation->start(std::move(requests), 1);
}

}  // namespace rocmforge
