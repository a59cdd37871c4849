#include "service/embedding.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "service/service_error.h"

namespace rocmforge {

Pooling choose_pooling(const ServedModel& model, std::optional<Pooling> named) {
  if (named && model.labels == 0) {
    return *named;
  }
  if (const auto* none = std::get_if<NoPooling>(&model.pooling)) {
    throw ServiceError(ServiceError::Kind::invalid, none->reason, "pooling");
  }
  return std::get<Pooling>(model.pooling);
}

Ids embedded_ids(Ids ids, const ServedModel& model) {
  if (ids.empty()) {
    const Vocabulary& vocabulary = model.text().vocabulary();
    ids.push_back(std::max(vocabulary.bos >= 0 ? vocabulary.bos : vocabulary.eos, 0));
  }
  return ids;
}

Request embedding_request(Ids ids, Pooling pooling) {
  Request request;
  request.prompt = std::move(ids);
  request.embedding = pooling;
  return request;
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

}  // namespace rocmforge
