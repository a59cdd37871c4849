#include "models/step/crossing.h"

#include <cstring>

namespace rocmforge {
namespace {

constexpr const char* kind = "crossing";

/// The operations that copy rows of `width` floats in `rows` to the other side.
void append(Operations& to_host, Operations& to_device, float* Buffers::*rows, std::int64_t width) {
  const auto bytes = [width](std::int64_t tokens) { return static_cast<std::size_t>(tokens * width) * sizeof(float); };
  to_host.push_back({kind, [rows, bytes](const Step& step) {
                       copy_to_host(step, step.host->buffers.*rows, step.buffers.*rows, bytes(step.tokens));
                     }});
  const auto wait = [](const Step& step) {
    note_copies(step);
    wait_for_copies(step);
  };
  to_host.push_back({.kind = kind, .run = wait, .on_host = true});
  to_device.push_back({kind, [rows, bytes](const Step& step) {
                         copy_to_device(step, step.buffers.*rows, step.host->buffers.*rows, bytes(step.tokens));
                       }});
}

}  // namespace

void copy_to_host(const Step& step, void* to, const void* from, std::size_t size_bytes) {
  if (Stream* stream = step.context->stream; stream != nullptr) {
    stream->copy_to_host(to, from, size_bytes);
  } else {
    std::memcpy(to, from, size_bytes);
  }
}

void copy_to_device(const Step& step, void* to, const void* from, std::size_t size_bytes) {
  if (Stream* stream = step.context->stream; stream != nullptr) {
    stream->copy_to_device(to, from, size_bytes);
  } else {
    std::memcpy(to, from, size_bytes);
  }
}

void note_copies(const Step& step) {
  if (Stream* stream = step.context->stream; stream != nullptr) {
    stream->record(*step.host->sent);
  }
}

void wait_for_copies(const Step& step) {
  if (step.context->stream != nullptr) {
    step.host->sent->synchronize();
  }
}

Crossing::Crossing(std::int64_t hidden, std::int64_t per_layer, std::int64_t streams) {
  if (streams > 0) {
    append(to_host_, to_device_, &Buffers::streams, streams);
  }
  append(to_host_, to_device_, &Buffers::hidden, hidden);
  if (per_layer > 0) {
    append(per_layer_to_host_, per_layer_to_device_, &Buffers::per_layer, per_layer);
  }
}

}  // namespace rocmforge
