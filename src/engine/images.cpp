#include "engine/images.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace rocmforge {
namespace {

using ImagePointer = std::shared_ptr<const PreparedImage>;
using SoundPointer = std::shared_ptr<const PreparedSound>;

/// Null for a recording.
const PreparedImage* image_of(const EncoderInput& input) {
  const auto* image = std::get_if<ImagePointer>(&input);
  return image != nullptr ? image->get() : nullptr;
}

/// The positions that the tokens take of those behind them, in multimodal RoPE.
std::int32_t extent(const EncoderInput& input) {
  const PreparedImage* image = image_of(input);
  return image != nullptr ? std::max(image->grid_x, image->grid_y) : tokens_of(input);
}

/// A chunk has all of a span or nothing.
bool is_whole_in(const TokenSpan& span, const ScheduledChunk& chunk) {
  return span.first >= chunk.first && span.end() <= chunk.first + chunk.count;
}

/// Walks the positions of a sequence with images, [tokens, 3] of time, row and column: a text and a recording count up on
/// all axes; an image stays at one time, its rows and columns count from there, and the text behind it goes on behind the
/// longer side.
class PositionWalk {
 public:
  explicit PositionWalk(const Request& request) : request_(&request) {}

  /// The images that end before `cell`, which is in none.
  void skip_to(std::int32_t cell) {
    for (; next_ < request_->spans.size() && request_->spans[next_].end() <= cell; ++next_) {
      saved_ += request_->spans[next_].count - extent(request_->inputs[next_]);
    }
  }
  [[nodiscard]] bool begins_image(std::int32_t cell) const {
    return next_ < request_->spans.size() && request_->spans[next_].first == cell;
  }
  [[nodiscard]] std::int32_t of_text(std::int32_t cell) const { return cell - saved_; }
  [[nodiscard]] std::size_t next_image() const { return next_; }

 private:
  const Request* request_;
  std::size_t next_ = 0;
  std::int32_t saved_ = 0;
};

}  // namespace

std::int32_t tokens_of(const EncoderInput& input) {
  return std::visit([](const auto& held) { return held != nullptr ? held->tokens : 0; }, input);
}

void add_input(Request& request, std::int32_t first, EncoderInput input) {
  const auto content = std::visit([](const auto& held) { return held->content; }, input);
  request.spans.push_back({.first = first, .count = tokens_of(input), .content = content});
  request.inputs.push_back(std::move(input));
}

void StepImages::add(const ScheduledChunk& chunk, BatchPlan& batch) {
  const Request& request = chunk.sequence->request;
  if (request.inputs.empty()) {
    return;
  }
  if (text_->position_axes > 1) {
    set_positions(chunk, batch);
  }
  const std::int32_t row_of_cell_0 = batch.num_tokens() - chunk.first - chunk.count;
  for (std::size_t i = 0; i < request.spans.size(); ++i) {
    const TokenSpan& span = request.spans[i];
    if (!is_whole_in(span, chunk)) {
      continue;
    }
    for (std::int32_t token = 0; token < span.count; ++token) {
      batch.given_rows.push_back(static_cast<std::int32_t>(batch.given_rows.size()));
      batch.overwritten_rows.push_back(row_of_cell_0 + span.first + token);
    }
    if (image_of(request.inputs[i]) != nullptr && vision_->config().both_directions) {
      batch.add_span(span.first - chunk.first, span.count);
    }
    inputs_.push_back(&request.inputs[i]);
  }
}

double StepImages::flops(const ScheduledChunk& chunk) const {
  const Request& request = chunk.sequence->request;
  double sum = 0.0;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    if (is_whole_in(request.spans[i], chunk)) {
      const PreparedImage* image = image_of(request.inputs[i]);
      sum += image != nullptr ? vision_->flops(*image) : audio_->flops(*std::get<SoundPointer>(request.inputs[i]));
    }
  }
  return sum;
}

void StepImages::set_positions(const ScheduledChunk& chunk, BatchPlan& batch) {
  const Request& request = chunk.sequence->request;
  PositionWalk walk(request);
  walk.skip_to(chunk.first);
  const std::int32_t end = chunk.first + chunk.count;
  const bool sees = walk.next_image() < request.spans.size() && request.spans[walk.next_image()].first < end;
  const std::int32_t axes = sees ? 3 : 1;
  positions_.clear();
  for (std::int32_t cell = chunk.first; cell < end;) {
    const std::int32_t position = walk.of_text(cell);
    if (!walk.begins_image(cell)) {
      positions_.insert(positions_.end(), static_cast<std::size_t>(axes), position);
      ++cell;
      continue;
    }
    const EncoderInput& input = request.inputs[walk.next_image()];
    const PreparedImage* image = image_of(input);
    for (std::int32_t token = 0; token < tokens_of(input); ++token, ++cell) {
      if (image != nullptr) {
        positions_.insert(positions_.end(), {position, position + token / image->grid_x, position + token % image->grid_x});
      } else {
        positions_.insert(positions_.end(), static_cast<std::size_t>(axes), position + token);
      }
    }
    walk.skip_to(cell);
  }
  batch.set_positions(positions_, axes);
}

std::size_t StepImages::encode_alike(std::size_t begin, std::optional<GivenRows>& rows) {
  if (const auto* sound = std::get_if<SoundPointer>(inputs_[begin])) {
    const PreparedSound* const piece = sound->get();
    rows = audio_->encode_rows({&piece, 1}, rows);
    return begin + 1;
  }
  images_.clear();
  std::size_t end = begin;
  for (const PreparedImage* image = nullptr; end < inputs_.size() && (image = image_of(*inputs_[end])) != nullptr; ++end) {
    images_.push_back(image);
  }
  rows = vision_->encode_rows(images_, rows);
  return end;
}

void StepImages::encode(BatchPlan& batch) {
  if (inputs_.empty()) {
    return;
  }
  std::optional<GivenRows> rows;
  for (std::size_t begin = 0; begin < inputs_.size();) {
    begin = encode_alike(begin, rows);
  }
  batch.given = *rows;
  if (on_host_) {
    batch.given.on_host = (vision_ != nullptr ? vision_->read_rows(batch.given) : audio_->read_rows(batch.given)).data();
  }
  inputs_.clear();
}

}  // namespace rocmforge
