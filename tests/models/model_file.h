#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "weights/gguf_file.h"

namespace rocmforge::testing {

/// The logits a golden model must give.
struct Golden {
  std::vector<std::int32_t> tokens;
  std::int32_t vocab = 0;
  std::vector<float> logits;  ///< [tokens, vocab]
};

/// "tests/golden/models/NAME.logits"
Golden read_golden(const std::string& name);

/// "tests/golden/models/NAME.gguf", as a path
std::string golden_path(const std::string& name);

const std::vector<std::string>& golden_names();
/// Those of encoders, "encoders/NAME"
const std::vector<std::string>& encoder_names();

/// The content of a model file, so that a test may change a key or a tensor before it is opened.
struct ModelFile {
  struct Weight {
    std::string name;
    Shape shape;
    DType dtype = DType::f32;
    std::vector<std::byte> data;

    [[nodiscard]] float* floats() { return reinterpret_cast<float*>(data.data()); }
  };

  static ModelFile golden(const std::string& name);

  void set(const std::string& key, GgufValue value);  ///< integers are written as u32, floats as f32
  void remove(const std::string& key);
  Weight& weight(const std::string& name);
  void add_vector(const std::string& name, const std::vector<float>& values);
  void remove_weight(const std::string& name);
  /// Writes the F32 tensor `name` in another format: F16, BF16 or Q8_0.
  void convert(const std::string& name, DType dtype);
  /// The same model with every tensor as F32.
  [[nodiscard]] ModelFile in_f32() const;

  /// The bytes of the file.
  [[nodiscard]] std::vector<std::byte> bytes() const;

  std::vector<std::pair<std::string, GgufValue>> metadata;
  std::vector<Weight> weights;
};

/// A file in memory together with its bytes.
struct OpenModel {
  explicit OpenModel(const ModelFile& model) : bytes(model.bytes()), file(GgufFile::from_memory(bytes, "tiny.gguf")) {}
  std::vector<std::byte> bytes;
  GgufFile file;
};

/// The float values of a tensor after a round trip through F16, BF16 or Q8_0.
std::vector<float> dequantized(const ModelFile::Weight& weight);

}  // namespace rocmforge::testing
