#include "models/model_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "base/half.h"
#include "paths.h"
#include "weights/gguf_builder.h"

namespace rocmforge::testing {
namespace {

constexpr std::int64_t q8_elems = 32;

void put_half(std::byte* to, std::uint16_t bits) { std::memcpy(to, &bits, sizeof bits); }

std::vector<std::byte> to_q8_0(const std::vector<float>& values) {
  std::vector<std::byte> blocks(row_bytes(DType::q8_0, static_cast<std::int64_t>(values.size())));
  std::byte* block = blocks.data();
  for (std::size_t start = 0; start < values.size(); start += q8_elems, block += 34) {
    float largest = 0.0f;
    for (std::size_t j = 0; j < q8_elems; ++j) {
      largest = std::max(largest, std::abs(values[start + j]));
    }
    const std::uint16_t scale = float_to_half(largest / 127.0f);
    put_half(block, scale);
    for (std::size_t j = 0; j < q8_elems; ++j) {
      const float quant = std::clamp(std::round(values[start + j] / half_to_float(scale)), -127.0f, 127.0f);
      block[2 + j] = static_cast<std::byte>(static_cast<std::int8_t>(quant));
    }
  }
  return blocks;
}

void put_pair(GgufBuilder& builder, const std::string& key, const GgufValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    builder.string(key, *text);
  } else if (const auto* number = std::get_if<double>(&value)) {
    builder.scalar(key, GgufType::f32, static_cast<float>(*number));
  } else if (const auto* natural = std::get_if<std::uint64_t>(&value)) {
    builder.scalar(key, GgufType::u32, static_cast<std::uint32_t>(*natural));
  } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    builder.scalar(key, GgufType::i32, static_cast<std::int32_t>(*integer));
  } else if (const auto* flag = std::get_if<bool>(&value)) {
    builder.scalar(key, GgufType::boolean, static_cast<std::uint8_t>(*flag));
  } else if (const auto& array = std::get<GgufArray>(value); array.element_type == GgufType::string) {
    builder.array(key, GgufType::string, std::get<std::vector<std::string>>(array.elements));
  } else if (array.element_type == GgufType::boolean) {
    const auto& flags = std::get<std::vector<bool>>(array.elements);
    builder.array(key, GgufType::boolean, std::vector<std::uint8_t>(flags.begin(), flags.end()));
  } else if (const auto* numbers = std::get_if<std::vector<double>>(&array.elements)) {
    builder.array(key, GgufType::f32, std::vector<float>(numbers->begin(), numbers->end()));
  } else {
    builder.array(key, GgufType::u64, std::get<std::vector<std::uint64_t>>(array.elements));
  }
}

}  // namespace

namespace {

/// Names of the GGUF files in a folder of the golden models, with the folder before each.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(test::test_data("golden/models/") + folder)) {
    if (entry.path().extension() == ".gguf") {
      found.push_back(folder + entry.path().stem().string());
    }
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace

const std::vector<std::string>& golden_names() {
  static const std::vector<std::string> names = names_in("");
  return names;
}

const std::vector<std::string>& encoder_names() {
  static const std::vector<std::string> names = names_in("encoders/");
  return names;
}

std::string golden_path(const std::string& name) { return test::test_data("golden/models/") + name + ".gguf"; }

Golden read_golden(const std::string& name) {
  std::ifstream in(test::test_data("golden/models/") + name + ".logits", std::ios::binary);
  std::uint32_t sizes[2] = {};
  in.read(reinterpret_cast<char*>(sizes), sizeof sizes);
  Golden golden;
  golden.tokens.resize(sizes[0]);
  golden.vocab = static_cast<std::int32_t>(sizes[1]);
  golden.logits.resize(std::size_t{sizes[0]} * sizes[1]);
  in.read(reinterpret_cast<char*>(golden.tokens.data()), static_cast<std::streamsize>(golden.tokens.size() * 4));
  in.read(reinterpret_cast<char*>(golden.logits.data()), static_cast<std::streamsize>(golden.logits.size() * 4));
  if (!in) {
    throw std::runtime_error("golden logits of " + name + " can't be read");
  }
  return golden;
}

ModelFile ModelFile::golden(const std::string& name) {
  const GgufFile file{golden_path(name)};
  ModelFile model;
  model.metadata = file.metadata();
  for (const GgufTensor& tensor : file.tensors()) {
    const auto* data = static_cast<const std::byte*>(tensor.tensor.data);
    model.weights.push_back({tensor.name, tensor.tensor.shape, tensor.tensor.dtype, {data, data + tensor.tensor.bytes()}});
  }
  return model;
}

void ModelFile::set(const std::string& key, GgufValue value) {
  remove(key);
  metadata.emplace_back(key, std::move(value));
}

void ModelFile::remove(const std::string& key) {
  std::erase_if(metadata, [&](const auto& pair) { return pair.first == key; });
}

ModelFile::Weight& ModelFile::weight(const std::string& name) {
  const auto found = std::find_if(weights.begin(), weights.end(), [&](const Weight& other) { return other.name == name; });
  if (found == weights.end()) {
    throw std::runtime_error("the golden model has no tensor " + name);
  }
  return *found;
}

void ModelFile::add_vector(const std::string& name, const std::vector<float>& values) {
  Weight& added = weights.emplace_back();
  added.name = name;
  added.shape = {static_cast<std::int64_t>(values.size())};
  added.data.resize(values.size() * sizeof(float));
  std::memcpy(added.data.data(), values.data(), added.data.size());
}

void ModelFile::remove_weight(const std::string& name) {
  std::erase_if(weights, [&](const Weight& other) { return other.name == name; });
}

void ModelFile::convert(const std::string& name, DType dtype) {
  Weight& converted = weight(name);
  const std::vector<float> values = dequantized(converted);
  converted.dtype = dtype;
  if (dtype == DType::q8_0) {
    converted.data = to_q8_0(values);
    return;
  }
  converted.data.resize(values.size() * 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    put_half(&converted.data[2 * i], dtype == DType::f16 ? float_to_half(values[i]) : float_to_bfloat16(values[i]));
  }
}

std::vector<float> dequantized(const ModelFile::Weight& weight) {
  std::vector<float> values(static_cast<std::size_t>(weight.shape.elems()));
  const auto half_at = [&](std::size_t byte) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, &weight.data[byte], sizeof bits);
    return bits;
  };
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (weight.dtype == DType::f32) {
      std::memcpy(&values[i], &weight.data[4 * i], 4);
    } else if (weight.dtype == DType::q8_0) {
      const std::size_t block = i / q8_elems * 34;
      values[i] = half_to_float(half_at(block)) *
                  static_cast<float>(static_cast<std::int8_t>(weight.data[block + 2 + i % q8_elems]));
    } else {
      values[i] = weight.dtype == DType::f16 ? half_to_float(half_at(2 * i)) : bfloat16_to_float(half_at(2 * i));
    }
  }
  return values;
}

std::vector<std::byte> ModelFile::bytes() const {
  GgufBuilder builder;
  for (const auto& [key, value] : metadata) {
    put_pair(builder, key, value);
  }
  for (const Weight& tensor : weights) {
    std::vector<std::int64_t> dims;
    for (int i = tensor.shape.rank() - 1; i >= 0; --i) {
      dims.push_back(tensor.shape[i]);
    }
    builder.tensor(tensor.name, dims, tensor.dtype, tensor.data.size());
  }
  std::vector<std::byte> out = builder.build();
  std::size_t offset = out.size() - builder.data_bytes;
  for (const Weight& tensor : weights) {
    std::copy(tensor.data.begin(), tensor.data.end(), out.begin() + static_cast<std::ptrdiff_t>(offset));
    offset = (offset + tensor.data.size() + builder.alignment - 1) / builder.alignment * builder.alignment;
  }
  return out;
}

ModelFile ModelFile::in_f32() const {
  ModelFile plain = *this;
  for (Weight& weight : plain.weights) {
    const std::vector<float> values = dequantized(weight);
    weight.dtype = DType::f32;
    weight.data.resize(values.size() * sizeof(float));
    std::copy(values.begin(), values.end(), weight.floats());
  }
  return plain;
}

}  // namespace rocmforge::testing
