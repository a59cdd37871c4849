#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "engine/fake_model.h"
#include "service/models.h"

namespace rocmforge {

/// An engine whose model says `text` after a prompt that ends with '|', as FakeModel::Script.
inline FakeModel::Script saying(std::string text) {
  return [text = std::move(text)](const FakeModel::Tokens& visible) {
    const auto found = std::find(visible.rbegin(), visible.rend(), byte_ids("|").front());
    const auto said = static_cast<std::size_t>(found - visible.rbegin());
    return said < text.size() ? byte_ids(text.substr(said, 1)).front() : end_token;
  };
}

inline std::unique_ptr<Engine> scripted_engine(FakeModel::Script script) {
  FakeEngine fake = make_fake_engine({.max_batch_tokens = 64, .max_sequences = 4, .kv_tokens = 4096}, byte_tokenizer(),
                                     FakeModel::Kind::attention, 256);
  fake.model->follow(std::move(script));
  return std::move(fake.engine);
}

inline ServiceOptions named(std::string name) {
  ServiceOptions options;
  options.model_id = std::move(name);
  return options;
}

inline Request prompt_request(std::int32_t max_tokens = -1) {
  Request request;
  request.prompt = byte_ids("a|");
  request.sampling.temperature = 0.0f;
  request.max_tokens = max_tokens;
  return request;
}

}  // namespace rocmforge
