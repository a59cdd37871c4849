#include "server/api/embeddings.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "server/api/prompts.h"
#include "server/api/unserved_fields.h"

namespace rocmforge {
namespace {

class EmbeddingGeneration final : public Generation {
 public:
  EmbeddingGeneration(std::shared_ptr<Exchange> exchange, const Backend& backend, bool base64, std::size_t dimensions)
      : Generation(std::move(exchange), backend, {}, "embd-"), base64_(base64), dimensions_(dimensions) {}

 protected:
  void take(int index, StepOutput& output) override {
    if (!output.embedding.empty()) {
      vectors_.resize(choices().size());
      vectors_[static_cast<std::size_t>(index)] = normalised(std::move(output.embedding), dimensions_);
    }
  }

  std::vector<Json> events(int /*index*/, const StepOutput& /*output*/) override { return {}; }

  Json envelope() override {
    vectors_.resize(choices().size());
    const Json counts = usage();
    return {{"object", "list"},
            {"data", nullptr},
            {"model", model().id},
            {"usage", {{"prompt_tokens", counts["prompt_tokens"]}, {"total_tokens", counts["prompt_tokens"]}}}};
  }

  [[nodiscard]] std::string_view entries_name() const override { return "data"; }
  Json entry(int index) override {
    const std::vector<float>& values = vectors_[static_cast<std::size_t>(index)];
    Json vector = base64_ ? Json(base64_floats(values)) : Json(values);
    return {{"object", "embedding"}, {"index", index}, {"embedding", std::move(vector)}};
  }

 private:
  bool base64_;
  std::size_t dimensions_;
  std::vector<std::vector<float>> vectors_;
};

/// What stands for an empty text: a token that begins or ends one.
Ids ids_of_nothing(const Vocabulary& vocabulary) {
  return {std::max(vocabulary.bos >= 0 ? vocabulary.bos : vocabulary.eos, 0)};
}

}  // namespace

std::string base64_floats(std::span<const float> values) {
  static constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  for (const float value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) {
      bytes += static_cast<char>(bits >> shift & 0xff);
    }
  }
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += k <= count ? digits[group >> (18 - 6 * k) & 63] : '=';
    }
  }
  return text;
}

std::vector<float> normalised(std::vector<float> values, std::size_t size) {
  values.resize(std::min(size, values.size()));
  double sum = 0.0;
  for (const float value : values) {
    sum += static_cast<double>(value) * value;
  }
  if (sum > 0.0) {
    for (float& value : values) {
      value = static_cast<float>(value / std::sqrt(sum));
    }
  }
  return values;
}

void serve_embeddings(const std::shared_ptr<Exchange>& exchange, const Backend& backend) {
  const ServedModel& model = backend.model;
  const Document document = exchange->take_json();
  const Json& body = document.root;
  Fields fields(body);
  const auto format = fields.choice("encoding_format", {"float", "base64"});
  const auto dimensions = fields.integer("dimensions", 1, model.hidden);
  std::vector<Ids> inputs = read_prompts(fields, "input", model, *exchange);
  const auto pooling = fields.choice("pooling", {"mean", "last", "cls"});  // an extension
  finish_fields(fields, *exchange, backend);
  if (!backend.pooling && !pooling) {
    throw ApiError(400, "the server was started with --pooling none: it gives no embeddings", "pooling");
  }
  std::vector<Request> requests;
  for (Ids& ids : inputs) {
    if (ids.empty()) {
      ids = ids_of_nothing(model.text().vocabulary());
    }
    if (ids.size() > static_cast<std::size_t>(model.context_length)) {
      throw ApiError(400,
                     fmt::format("input {} is too large: {} tokens, the context holds {}", requests.size(), ids.size(),
                                 model.context_length),
                     "input", "context_length_exceeded");
    }
    Request& request = requests.emplace_back();
    request.prompt = std::move(ids);
    request.embedding = !pooling             ? *backend.pooling
                        : *pooling == "mean" ? Pooling::mean
                        : *pooling == "last" ? Pooling::last
                                             : Pooling::cls;
  }
  const bool base64 = format == "base64";
  auto generation = std::make_shared<EmbeddingGeneration>(exchange, backend, base64,
                                                          static_cast<std::size_t>(dimensions.value_or(model.hidden)));
  generation->start(std::move(requests), 1);
}

}  // namespace rocmforge
