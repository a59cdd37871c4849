#include "server/api/embeddings.h"

#include <fmt/format.h>

#include <bit>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "server/api/ollama/ollama.h"
#include "server/api/prompts.h"
#include "server/api/unserved_fields.h"
#include "service/embedding.h"

namespace rocmforge {
namespace {

/// What an answer looks like.
enum class VectorForm {
  openai,         ///< {"data": [{"embedding"}, ...]}
  openai_base64,  ///< the same with text in place of numbers
  ollama,         ///< {"embeddings": [numbers, ...]}
  ollama_single,  ///< {"embedding": numbers}
  native,         ///< [{"index", "embedding": [numbers]}, ...], llama-server's
};

class EmbeddingGeneration final : public Generation {
 public:
  EmbeddingGeneration(std::shared_ptr<HttpExchange> exchange, const Backend& backend, VectorForm form,
                      std::size_t dimensions)
      : Generation(std::move(exchange), backend, {}, "embd-"), form_(form), dimensions_(dimensions) {}

 protected:
  void take(int index, StepOutput& output) override {
    vectors_.resize(choices().size());
    if (!output.embedding.empty()) {
      vectors_[static_cast<std::size_t>(index)] = normalised(std::move(output.embedding), dimensions_);
    }
  }

  std::vector<Json> events(int /*index*/, const StepOutput& /*output*/) override { return {}; }

  Json envelope() override {
    if (form_ == VectorForm::native) {
      return nullptr;
    }
    const Json counts = usage();
    if (form_ == VectorForm::ollama) {
      return {{"model", model().id}, {"embeddings", nullptr}, {"prompt_eval_count", counts["prompt_tokens"]}};
    }
    return {{"object", "list"},
            {"data", nullptr},
            {"model", model().id},
            {"usage", {{"prompt_tokens", counts["prompt_tokens"]}, {"total_tokens", counts["prompt_tokens"]}}}};
  }

  [[nodiscard]] std::string_view entries_name() const override {
    return form_ == VectorForm::ollama ? "embeddings" : "data";
  }
  [[nodiscard]] bool is_single() const override { return form_ == VectorForm::ollama_single; }
  [[nodiscard]] bool may_be_partial() const override { return false; }
  [[nodiscard]] ErrorForm error_form() const override {
    return form_ == VectorForm::ollama || form_ == VectorForm::ollama_single ? ollama_error : openai_error;
  }
  Json entry(int index) override {
    const std::vector<float>& values = vectors_[static_cast<std::size_t>(index)];
    if (form_ == VectorForm::ollama) {
      return values;
    }
    if (form_ == VectorForm::ollama_single) {
      return {{"embedding", values}};
    }
    if (form_ == VectorForm::native) {
      return {{"index", index}, {"embedding", Json::array({values})}};
    }
    Json vector = form_ == VectorForm::openai_base64 ? Json(base64_floats(values)) : Json(values);
    return {{"object", "embedding"}, {"index", index}, {"embedding", std::move(vector)}};
  }

 private:
  VectorForm form_;
  std::size_t dimensions_;
  std::vector<std::vector<float>> vectors_;
};

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

namespace {

std::optional<Pooling> pooling_of(const std::optional<std::string>& name) {
  if (!name) {
    return std::nullopt;
  }
  return *name == "mean" ? Pooling::mean : *name == "last" ? Pooling::last : Pooling::cls;
}

/// Starts one answer to the inputs that the field `name` holds. `truncates`: of a text that is longer than the context, only
/// the beginning counts.
void start_embeddings(Fields& fields, std::string_view name, VectorForm form, const std::shared_ptr<HttpExchange>& exchange,
                      const Backend& backend, bool truncates = false) {
  const ServedModel& model = backend.model;
  const auto dimensions = fields.integer("dimensions", 1, model.hidden);
  std::vector<Ids> inputs = read_prompts(fields, name, model, exchange->reading,
                                         {.add_special = fields.boolean("add_special_tokens").value_or(true)});
  if (form == VectorForm::ollama_single && inputs.size() != 1) {
    fields.fail(name, "must be one text");
  }
  const auto named = fields.choice("pooling", {"mean", "last", "cls"});  // an extension
  finish_fields(fields, *exchange, backend);
  const Pooling pooling = choose_pooling(model, pooling_of(named));
  std::vector<Request> requests;
  for (Ids& ids : inputs) {
    ids = embedded_ids(std::move(ids), model);
    const auto most = static_cast<std::size_t>(model.context_length);
    if (truncates && ids.size() > most) {
      const std::int32_t last = ids.back();
      ids.resize(most);
      if (model.text().adds_eos() && last == model.text().vocabulary().eos) {  // models were trained with the end there
        ids.back() = last;
      }
    }
    if (ids.size() > most) {
      throw ApiError(400,
                     fmt::format("{} {} is too large: {} tokens, the context holds {}", name, requests.size(), ids.size(),
                                 model.context_length),
                     std::string(name), "context_length_exceeded");
    }
    requests.push_back(embedding_request(std::move(ids), pooling));
  }
  auto generation = std::make_shared<EmbeddingGeneration>(exchange, backend, form,
                                                          static_cast<std::size_t>(dimensions.value_or(model.hidden)));
  generation->start(std::move(requests), 1);
}

}  // namespace

void serve_embeddings(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  const Document document = exchange->take_json();
  Fields fields(document.root);
  const bool base64 = fields.choice("encoding_format", {"float", "base64"}) == "base64";
  start_embeddings(fields, "input", base64 ? VectorForm::openai_base64 : VectorForm::openai, exchange, backend);
}

void serve_ollama_embed(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  const Document document = exchange->take_json();
  Fields fields(document.root);
  fields.ignore({"keep_alive", "options"});
  const bool truncates = fields.boolean("truncate").value_or(true);
  start_embeddings(fields, "input", VectorForm::ollama, exchange, backend, truncates);
}

void serve_ollama_embeddings(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  const Document document = exchange->take_json();
  Fields fields(document.root);
  fields.ignore({"keep_alive", "options"});
  const bool truncates = fields.boolean("truncate").value_or(true);
  start_embeddings(fields, "prompt", VectorForm::ollama_single, exchange, backend, truncates);
}

void serve_llama_embedding(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  const Document document = exchange->take_json();
  Fields fields(document.root);
  fields.refuse_unless("embd_normalize", Json::array({2}), "vectors have length 1");
  start_embeddings(fields, fields.has("content") ? "content" : "input", VectorForm::native, exchange, backend);
}

}  // namespace rocmforge
