// Any bytes must give a file or an Error; a file must be safe to read everywhere.
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/quant/dequantize.h"
#include "weights/gguf_file.h"

namespace {

using namespace rocmforge;

// A sum that depends on every byte, so that no read is optimised away.
struct ReadElements {
  std::uint64_t operator()(const std::vector<std::string>& list) const {
    std::uint64_t sum = 0;
    for (const std::string& text : list) {
      sum += std::hash<std::string>{}(text);
    }
    return sum;
  }
  std::uint64_t operator()(const std::vector<GgufArray>& list) const {
    std::uint64_t sum = 0;
    for (const GgufArray& array : list) {
      sum += std::visit(*this, array.elements);
    }
    return sum;
  }
  template <class T>
  std::uint64_t operator()(const std::vector<T>& list) const {
    std::uint64_t sum = list.size();
    for (const T element : list) {
      sum += std::hash<T>{}(element);
    }
    return sum;
  }
};

std::uint64_t read_value(const GgufValue& value) {
  if (const auto* array = std::get_if<GgufArray>(&value)) {
    return std::visit(ReadElements{}, array->elements);
  }
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? value.index() : std::hash<std::string>{}(*text);
}

template <class Access>
void ignore_error(Access&& access) {
  try {
    (void)access();
  } catch (const Error&) {  // the value has another type
  }
}

void access_every_way(const GgufFile& file, const std::string& key) {
  ignore_error([&] { return file.integer(key); });
  ignore_error([&] { return file.number(key); });
  ignore_error([&] { return file.boolean(key, false); });
  ignore_error([&] { return file.string(key).size(); });
  ignore_error([&] { return file.strings(key); });
  ignore_error([&] { return file.integers(key); });
  ignore_error([&] { return file.numbers(key); });
}

void read_tensor(const GgufTensor& tensor) {
  const auto* data = static_cast<const unsigned char*>(tensor.tensor.data);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < tensor.tensor.bytes(); ++i) {
    sum += data[i];
  }
  std::vector<float> row(static_cast<std::size_t>(tensor.tensor.shape.cols()));
  ignore_error([&] {
    dequantize_row(tensor.tensor.dtype, data, row.data(), tensor.tensor.shape.cols());
    return sum;
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto file = GgufFile::from_memory({reinterpret_cast<const std::byte*>(data), size});
    volatile std::uint64_t sum = 0;
    for (const auto& [key, value] : file.metadata()) {
      sum = sum + read_value(value);
      access_every_way(file, key);
    }
    for (const GgufTensor& tensor : file.tensors()) {
      read_tensor(tensor);
    }
  } catch (const Error&) {  // refused with a reason: right
  }
  return 0;
}
