#include "engine/images.h"

#include <algorithm>
#include <utility>

namespace rocmforge {
namespace {

/// The positions that an image takes of those behind it, in multimodal RoPE.
std::int32_t extent(const PreparedImage& image) { return std::max(image.grid_x, image.grid_y); }

/// A chunk has all of a span or nothing.
bool is_whole_in(const TokenSpan& span, const ScheduledChunk& chunk) {
  return span.first >= chunk.first && span.end() <= chunk.first + chunk.count;
}

/// Walks the positions of a sequence with images, [tokens, 3] of time, row and column: a text counts up on all axes; an
/// image stays at one time, its rows and columns count from there, and the text behind it goes on behind the longer side.
class PositionWalk {
 public:
  explicit PositionWalk(const Request& request) : request_(&request) {}

  /// The images that end before `cell`, which is in none.
  void skip_to(std::int32_t cell) {
    for (; next_ < request_->spans.size() && request_->spans[next_].end() <= cell; ++next_) {
      saved_ += request_->spans[next_].count - extent(*request_->images[next_]);
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

void add_image(Request& request, std::int32_t first, std::shared_ptr<const PreparedImage> image) {
  request.spans.push_back({.first = first, .count = image->tokens, .content = image->content});
  request.images.push_back(std::move(image));
}

void StepImages::add(const ScheduledChunk& chunk, BatchPlan& batch) {
  const Request& request = chunk.sequence->request;
  if (request.images.empty()) {
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
    if (vision_->config().both_directions) {
      batch.add_span(span.first - chunk.first, span.count);
    }
    images_.push_back(request.images[i].get());
  }
}

double StepImages::flops(const ScheduledChunk& chunk) const {
  const Request& request = chunk.sequence->request;
  double sum = 0.0;
  for (std::size_t i = 0; i < request.images.size(); ++i) {
    if (is_whole_in(request.spans[i], chunk)) {
      sum += vision_->flops(*request.images[i]);
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
    const PreparedImage& image = *request.images[walk.next_image()];
    for (std::int32_t token = 0; token < image.tokens; ++token, ++cell) {
      positions_.insert(positions_.end(), {position, position + token / image.grid_x, position + token % image.grid_x});
    }
    walk.skip_to(cell);
  }
  batch.set_positions(positions_, axes);
}

void StepImages::encode(BatchPlan& batch) {
  if (images_.empty()) {
    return;
  }
  batch.given = vision_->encode_rows(images_);
  if (on_host_) {
    batch.given.on_host = vision_->read_rows(batch.given).data();
  }
  images_.clear();
}

}  // namespace rocmforge
