#include "models/vision/patch_embedding.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "models/config/model_tensors.h"
#include "tensor/quant/dequantize.h"

namespace rocmforge {
namespace {

std::vector<float> read_table(WeightTable& weights, const Shape& shape) {
  const GgufTensor& tensor = weights.tensor("v.position_embd.weight", shape);
  std::vector<float> table(static_cast<std::size_t>(shape.elems()));
  dequantize_row(tensor.tensor.dtype, tensor.tensor.data, table.data(), shape.elems());
  return table;
}

/// Those of patches have the epsilon of PyTorch, files have another norm's.
NormName patch_norm(const std::string& name) { return {name, NormKind::layer, 1e-5f, true}; }

/// A coordinate of an image's `count` patches along one axis, in the table's `side`.
struct Between {
  std::int32_t first = 0;
  std::int32_t second = 0;
  float share = 0.0f;  ///< of the second
};

Between place_between(std::int32_t at, std::int32_t count, std::int32_t side) {
  const double place = count > 1 ? static_cast<double>(at) * (side - 1) / (count - 1) : 0.0;
  const auto first = static_cast<std::int32_t>(place);
  return {first, std::min(first + 1, side - 1), static_cast<float>(place - first)};
}

/// Positions of the table along an axis that a patch's is made of, with their shares.
struct PlaceShare {
  std::int32_t place = 0;
  float share = 0.0f;
};
using PlaceShares = std::vector<PlaceShare>;

/// Around the centre of `at` of `count` patches; those outside of the table are its border. PyTorch's cubic convolution has
/// a = -0.75.
PlaceShares cubic_shares(std::int32_t at, std::int32_t count, std::int32_t side) {
  constexpr double a = -0.75;
  const auto near = [](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto far = [](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  const double place = (at + 0.5) / count * side - 0.5;
  const double first = std::floor(place);
  const double t = place - first;
  const std::array<double, 4> shares = {far(t + 1), near(t), near(1 - t), far(2 - t)};
  PlaceShares found;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::int32_t place_of = static_cast<std::int32_t>(first) - 1 + static_cast<std::int32_t>(i);
    found.push_back({std::clamp(place_of, 0, side - 1), static_cast<float>(shares[i])});
  }
  return found;
}

/// A triangle around the centre of `at` of `count` patches, as wide as a patch where the table has more positions, and
/// otherwise as a position.
PlaceShares triangle_shares(std::int32_t at, std::int32_t count, std::int32_t side) {
  const double patch = static_cast<double>(side) / count;
  const double width = std::max(patch, 1.0);
  const double centre = patch * (at + 0.5);
  const std::int32_t first = std::max(static_cast<std::int32_t>(centre - width + 0.5), 0);
  const std::int32_t end = std::min(static_cast<std::int32_t>(centre + width + 0.5), side);
  double sum = 0.0;
  std::vector<double> weights;
  for (std::int32_t place = first; place < end; ++place) {
    weights.push_back(std::max(1.0 - std::abs(place + 0.5 - centre) / width, 0.0));
    sum += weights.back();
  }
  PlaceShares found;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    found.push_back({first + static_cast<std::int32_t>(i), static_cast<float>(weights[i] / sum)});
  }
  return found;
}

/// Both ways of PositionScale that begin at the patch's centre.
PlaceShares shares_of_centre(PositionScale scale, std::int32_t at, std::int32_t count, std::int32_t side) {
  return scale == PositionScale::centres ? cubic_shares(at, count, side) : triangle_shares(at, count, side);
}

}  // namespace

PatchEmbedding::PatchEmbedding(Planner& planner, const VisionConfig& config, std::int64_t patches)
    : config_(config), patches_(patches) {
  const std::int64_t hidden = config.encoder.hidden;
  const bool is_convolution = !config.patch_norms;
  const Shape shape = is_convolution ? Shape{hidden, 3, config.patch_size, config.patch_size} : Shape{};
  frames_.push_back(
      planner.linear("patch_embd", {{.name = "v.patch_embd", .n = hidden, .shape = shape}}, config.patch_values()));
  if (config.frames == 2) {
    frames_.push_back(
        planner.linear("patch_embd", {{.name = "v.patch_embd.1", .n = hidden, .shape = shape}}, config.patch_values()));
  }
  planner.buffers().need(BufferName::hidden, hidden);
  if (config.patch_norms) {
    plan_patch_norms(planner);
  } else if (!config.product_norm.empty()) {
    product_norm_ = planner.norm(
        {config.product_norm, config.encoder.norm_kind, config.encoder.norm_eps, config.encoder.norm_needs_bias}, hidden);
  }
  for (const Linear& linear : frames_) {
    append_product(linear, &linear != &frames_.front());
  }
  if (product_norm_) {
    product_norm_->append(operations_, &Buffers::hidden, &Buffers::hidden);
  }
  if (config.extra_states() > 0) {
    plan_class_state(planner);
  }
  if (config.learned_positions) {
    plan_positions(planner);
  }
  if (!config.input_norm.empty()) {
    const ModelConfig& encoder = config.encoder;
    norm_ = config.patch_norms
                ? planner.norm(patch_norm(config.input_norm), hidden)
                : planner.norm({config.input_norm, encoder.norm_kind, encoder.norm_eps, encoder.norm_needs_bias}, hidden);
    norm_->append(operations_, &Buffers::hidden, &Buffers::hidden);
  }
}

void PatchEmbedding::plan_patch_norms(Planner& planner) {
  const std::int64_t values = config_.patch_values();
  pixel_norm_ = planner.norm(patch_norm("v.patch_norm.1"), values);
  product_norm_ = planner.norm(patch_norm("v.patch_norm.2"), config_.encoder.hidden);
  planner.buffers().need(BufferName::normed, values);
  operations_.push_back({std::string(pixel_norm_->kind()),
                         [this](const Step& step) { pixel_norm_->run(step.tokens, pixels_, step.buffers.normed, step); }});
}

/// Images have one size then, and each has a step of its own, so that the row is always the same.
void PatchEmbedding::plan_class_state(Planner& planner) {
  check(config_.fixed_size && config_.learned_positions, "a state without a patch is of images of one size, with positions");
  const std::int64_t hidden = config_.encoder.hidden;
  class_state_ = planner.floats("v.class_embd", {1, 1, hidden});
  put_class_state_ = planner.resolve<OverwriteRows>({hidden});
  class_rows_ = {0, static_cast<std::int32_t>(patches_ - 1)};
  class_row_ids_ = planner.weights().constants(class_rows_);
  operations_.push_back({std::string(OverwriteRows::name), [this, hidden](const Step& step) {
                           put_class_state_.run({.x = class_state_->data,
                                                 .x_stride = hidden,
                                                 .from = class_row_ids_->data,
                                                 .ids = class_row_ids_->data + 1,
                                                 .count = 1,
                                                 .out = step.buffers.hidden},
                                                step);
                         }});
}

void PatchEmbedding::plan_positions(Planner& planner) {
  const std::int64_t hidden = config_.encoder.hidden;
  const std::int64_t side = config_.position_side();
  const std::int64_t of_axis = config_.axis_positions;
  table_ = read_table(planner.weights(),
                      of_axis > 0 ? Shape{2, of_axis, hidden} : Shape{side * side + config_.extra_states(), hidden});
  add_ = planner.resolve_for_width<ResidualAdd>({}, 3 * hidden);
  operations_.push_back(
      {std::string(ResidualAdd::name), [this, hidden](const Step& step) {
         add_.run({.a = step.buffers.hidden, .b = positions_, .count = step.tokens * hidden, .out = step.buffers.hidden},
                  step);
       }});
}

void PatchEmbedding::append_product(const Linear& linear, bool accumulate) {
  operations_.push_back({linear.kind(), [this, &linear, accumulate](const Step& step) {
                           linear.run(step, pixel_norm_ ? step.buffers.normed : pixels_, step.buffers.hidden, {},
                                      accumulate);
                         }});
}

std::size_t PatchEmbedding::input_bytes() const {
  return static_cast<std::size_t>(patches_ * (config_.patch_values() + position_values())) * sizeof(float);
}

void PatchEmbedding::load(Device& device) {
  staged_ = device.allocate_pinned(input_bytes());
  if (device.is_gpu()) {
    memory_ = device.allocate(input_bytes(), "pixels of images");
  }
  pixels_ = device.is_gpu() ? memory_.as<float>() : staged_.as<float>();
  positions_ = pixels_ + patches_ * config_.patch_values();
}

void PatchEmbedding::upload(std::span<const Part> parts, Device& device, ThreadPool& pool) {
  auto* pixels = staged_.as<float>();
  auto* positions = pixels + patches_ * config_.patch_values();
  std::int64_t patches = 0;
  for (const Part& part : parts) {
    const std::int64_t count = std::int64_t{part.columns} * part.rows;
    check(std::ssize(part.pixels) == count * config_.patch_values(), "an image has the pixels of its patches");
    check(patches + count + config_.extra_states() <= patches_, "the images of a step have at most its patches");
    std::ranges::copy(part.pixels, pixels + patches * config_.patch_values());
    if (!table_.empty()) {
      add_positions(part, positions + patches * config_.encoder.hidden, pool);
    }
    patches += count;
    if (config_.extra_states() > 0) {
      std::fill_n(pixels + patches * config_.patch_values(), config_.patch_values(), 0.0f);  // its product is replaced
      std::copy_n(table_.data() + config_.class_position * position_values(), position_values(),
                  positions + patches * position_values());
      ++patches;
    }
  }
  if (device.is_gpu()) {
    const auto copy = [&](std::int64_t at, std::int64_t count) {
      device.stream().copy_to_device(memory_.as<float>() + at, staged_.as<float>() + at,
                                     static_cast<std::size_t>(count) * sizeof(float));
    };
    copy(0, patches * config_.patch_values());
    if (!table_.empty()) {
      copy(patches_ * config_.patch_values(), patches * config_.encoder.hidden);
    }
  }
}

void PatchEmbedding::add_positions(const Part& part, float* out, ThreadPool& pool) const {
  const std::int64_t hidden = config_.encoder.hidden;
  constexpr std::int64_t grain = 64;
  pool.parallel_for(std::int64_t{part.columns} * part.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t patch = begin; patch < end; ++patch) {
      const PatchPlace place = patch_place(part.squares, patch, config_.merge);
      if (config_.axis_positions > 0) {
        position_of_axes(place, out + patch * hidden);
      } else if (config_.position_scale == PositionScale::corners) {
        position_between(part, place, out + patch * hidden);
      } else {
        position_around_centre(part, place, out + patch * hidden);
      }
    }
  });
}

void PatchEmbedding::position_between(const Part& part, PatchPlace place, float* out) const {
  const std::int32_t side = config_.position_side();
  const std::int64_t hidden = config_.encoder.hidden;
  const Between y = place_between(place.row, part.rows, side);
  const Between x = place_between(place.column, part.columns, side);
  const std::int64_t first = config_.class_position == 0 ? 1 : 0;
  const auto row = [&](std::int32_t line, std::int32_t column) {
    return table_.data() + (first + std::int64_t{line} * side + column) * hidden;
  };
  const float* from[4] = {row(y.first, x.first), row(y.first, x.second), row(y.second, x.first), row(y.second, x.second)};
  const float weights[4] = {(1 - y.share) * (1 - x.share), (1 - y.share) * x.share, y.share * (1 - x.share),
                            y.share * x.share};
  for (std::int64_t e = 0; e < hidden; ++e) {
    out[e] = weights[0] * from[0][e] + weights[1] * from[1][e] + weights[2] * from[2][e] + weights[3] * from[3][e];
  }
}

void PatchEmbedding::position_around_centre(const Part& part, PatchPlace place, float* out) const {
  const std::int32_t side = config_.position_side();
  const std::int64_t hidden = config_.encoder.hidden;
  const PlaceShares lines = shares_of_centre(config_.position_scale, place.row, part.rows, side);
  const PlaceShares columns = shares_of_centre(config_.position_scale, place.column, part.columns, side);
  std::fill_n(out, hidden, 0.0f);
  for (const PlaceShare& line : lines) {
    for (const PlaceShare& column : columns) {
      const float* from = table_.data() + (std::int64_t{line.place} * side + column.place) * hidden;
      const float share = line.share * column.share;
      for (std::int64_t e = 0; e < hidden; ++e) {
        out[e] += share * from[e];
      }
    }
  }
}

void PatchEmbedding::position_of_axes(PatchPlace place, float* out) const {
  const std::int64_t hidden = config_.encoder.hidden;
  const float* column = table_.data() + place.column * hidden;
  const float* row = table_.data() + (std::int64_t{config_.axis_positions} + place.row) * hidden;
  for (std::int64_t e = 0; e < hidden; ++e) {
    out[e] = column[e] + row[e];
  }
}

}  // namespace rocmforge
