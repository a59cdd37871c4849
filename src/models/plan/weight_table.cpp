#include "models/plan/weight_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "models/config/model_tensors.h"
#include "weights/gguf_value.h"

namespace rocmforge {
namespace {

constexpr std::string_view scale_suffix = ".scale";

std::string scale_of(std::string_view layer) { return std::string(layer) + std::string(scale_suffix); }

}  // namespace

WeightTable::WeightTable(const GgufFile& file, FileNames names)
    : file_(&file),
      names_(std::move(names)),
      // Part of the configuration.
      used_(std::make_shared<std::set<std::string, std::less<>>>(std::initializer_list<std::string>{
          "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"})) {}

WeightTable WeightTable::beside() const {
  WeightTable other(*file_, names_);
  other.used_ = used_;
  return other;
}

std::string WeightTable::place(std::string_view tensor) const {
  return file_->path().string() + ": tensor " + quote(in_file(tensor));
}

const GgufTensor& WeightTable::tensor(std::string_view name, const Shape& shape) {
  const GgufTensor& found = expect_tensor(*file_, in_file(name), shape);
  if (const DTypeInfo& format = info(found.tensor.dtype); !format.computes) {
    throw Error(fmt::format("{}: tensor '{}' is {}, a format that is known but can't be computed yet",
                            file_->path().string(), found.name, format.name));
  }
  used_->emplace(found.name);
  return found;
}

bool WeightTable::has_tensor(std::string_view name, const Shape& shape) const {
  const GgufTensor* found = file_->find_tensor(in_file(name));
  return found != nullptr && has_shape(*found, shape);
}

void WeightTable::refuse_tensor(const std::string& name) const {
  if (has_tensor(name)) {
    throw Error(fmt::format("{} changes the computation and is not supported", place(name)));
  }
}

bool WeightTable::can_stack_shared(const ExpertTensorName& name) const {
  const auto found = [this](const std::string& tensor) { return file_->find_tensor(in_file(tensor)); };
  const GgufTensor* own = found(name.shared + ".weight");
  const GgufTensor* others = found(name.stacked + ".weight");
  if (others == nullptr && !name.joined.empty()) {
    others = found(name.joined + ".weight");
  }
  if (own == nullptr || others == nullptr || own->tensor.dtype != others->tensor.dtype) {
    return false;
  }
  for (const std::string& tensor : {name.shared, name.stacked, name.joined}) {
    if (has_tensor(tensor + ".bias") || has_tensor(tensor + ".scale")) {
      return false;
    }
  }
  return true;
}

const GgufTensor& WeightTable::vector_tensor(std::string_view name, const Shape& shape) {
  const GgufTensor& found = tensor(name, shape);
  if (const DType type = found.tensor.dtype; type != DType::f32 && type != DType::f16 && type != DType::bf16) {
    throw Error(fmt::format("{} is {}, a vector must be F32, F16 or BF16", place(name), rocmforge::name(type)));
  }
  return found;
}

const WeightVector* WeightTable::vector(std::string_view name, const Shape& shape) {
  const GgufTensor& found = vector_tensor(name, shape);
  const auto known = std::ranges::find(vectors_, &found, &WeightVector::tensor);
  return known != vectors_.end() ? &*known : &vectors_.emplace_back(WeightVector{&found, {}, nullptr});
}

const WeightVector* WeightTable::selected_vector(std::string_view name, Shape shape, const Selection& rows) {
  const std::string names[] = {std::string(name)};
  return joined_vector(names, shape, rows);
}

const WeightVector* WeightTable::joined_vector(std::span<const std::string> names, const Shape& each,
                                               const Selection& rows) {
  const std::int64_t columns = each.rank() > 1 ? each[1] : 1;
  check(rows.whole() || rows.count() == each[0], "a tensor gives as many rows as are selected");
  const std::int64_t of = rows.whole() ? each[0] : rows.of;
  const Shape all = each.rank() > 1 ? Shape{of, columns} : Shape{of};
  Device host;
  WeightStore store(*file_, host);
  const auto elems = static_cast<std::size_t>(each.elems());
  std::vector<float>& own = computed_.emplace_back(names.size() * elems);
  float* out = own.data();
  for (const std::string& name : names) {
    const float* values = store.floats(vector_tensor(name, all));
    copy_selected(DType::f32, values, of, columns, rows, {}, reinterpret_cast<std::byte*>(out));
    out += elems;
  }
  return constants(own);
}

std::int64_t WeightTable::block_columns(std::string_view name) const {
  const GgufTensor* const found = file_->find_tensor(name);
  return found != nullptr ? info(found->tensor.dtype).block_elems : 1;
}

void WeightTable::check_blocks(const GgufTensor& tensor, const Selection& columns) const {
  const std::int32_t together = info(tensor.tensor.dtype).block_elems;
  for (const Range& range : columns.ranges) {
    const std::int64_t parted = range.first % together != 0 ? range.first : range.first + range.count;
    if (parted % together != 0) {
      throw Error(fmt::format("{} is {}, whose blocks of {} columns can't be parted behind column {}", place(tensor.name),
                              rocmforge::name(tensor.tensor.dtype), together, parted));
    }
  }
}

const WeightVector* WeightTable::scaled_vector(std::string_view name, std::int64_t dim, float factor) {
  return derived_vector(name, {dim}, [factor](std::span<const float> values) {
    std::vector<float> own(values.begin(), values.end());
    std::ranges::for_each(own, [&](float& value) { value *= factor; });
    return own;
  });
}

const WeightVector* WeightTable::derived_vector(std::string_view name, const Shape& shape,
                                                const std::function<std::vector<float>(std::span<const float>)>& derive) {
  Device host;
  WeightStore store(*file_, host);
  const float* values = store.floats(vector_tensor(name, shape));
  return computed(derive({values, static_cast<std::size_t>(shape.elems())}));
}

const WeightVector* WeightTable::constants(std::span<const float> values) {
  const auto known = std::ranges::find_if(vectors_, [&](const WeightVector& other) {
    return other.values.data() == values.data() && other.values.size() == values.size();
  });
  return known != vectors_.end() ? &*known : &vectors_.emplace_back(WeightVector{nullptr, values, nullptr});
}

const IntegerVector* WeightTable::constants(std::span<const std::int32_t> values) {
  const auto known = std::ranges::find_if(integers_, [&](const IntegerVector& other) {
    return other.values.data() == values.data() && other.values.size() == values.size();
  });
  return known != integers_.end() ? &*known : &integers_.emplace_back(IntegerVector{values, nullptr});
}

float WeightTable::number(std::string_view name) {
  const GgufTensor& found = tensor(name, {1});
  check_scales(found);
  float value = 0.0f;
  std::memcpy(&value, found.tensor.data, sizeof value);
  return value;
}

float WeightTable::limit(std::string_view name) {
  const GgufTensor& found = tensor(name, {1});
  float value = 0.0f;
  if (found.tensor.dtype != DType::f32) {
    throw Error(fmt::format("{} is {}, a limit must be F32", place(name), rocmforge::name(found.tensor.dtype)));
  }
  std::memcpy(&value, found.tensor.data, sizeof value);
  if (std::isnan(value)) {
    throw Error(fmt::format("{} is no number", place(name)));
  }
  return value;
}

float WeightTable::product_scale(std::string_view layer, DType type) {
  const std::string name = scale_of(layer);
  return type == DType::nvfp4 && has_tensor(name) ? number(name) : 1.0f;
}

void WeightTable::check_scales(const GgufTensor& scales) const {
  if (scales.tensor.dtype != DType::f32) {
    throw Error(fmt::format("{} is {}, the scale of a weight must be F32", place(scales.name),
                            rocmforge::name(scales.tensor.dtype)));
  }
  for (std::int64_t i = 0; i < scales.tensor.shape.elems(); ++i) {
    float scale = 0.0f;
    std::memcpy(&scale, static_cast<const std::byte*>(scales.tensor.data) + i * std::int64_t{sizeof scale}, sizeof scale);
    if (!std::isfinite(scale)) {
      throw Error(fmt::format("{} is {}, the scale of a weight must be a finite number", place(scales.name), scale));
    }
  }
}

void WeightTable::refuse_scale(std::string_view layer) const {
  throw Error(fmt::format("{} scales {}, which only matrix products with NVFP4 weights do", place(scale_of(layer)),
                          quote(std::string(layer) + ".weight")));
}

void WeightTable::refuse_any_scale(std::string_view layer) const {
  if (has_tensor(scale_of(layer))) {
    refuse_scale(layer);
  }
}

void WeightTable::refuse_unused_scales() const {
  for (const GgufTensor& tensor : file_->tensors()) {
    if (tensor.name.ends_with(scale_suffix) && !used_->contains(tensor.name)) {
      const std::string layer = tensor.name.substr(0, tensor.name.size() - scale_suffix.size());
      if (used_->contains(layer + ".weight")) {
        refuse_scale(layer);
      }
    }
  }
}

}  // namespace rocmforge
