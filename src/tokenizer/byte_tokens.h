#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace rocmforge {

/// The tokens "<0xHH>", by which a vocabulary writes characters that it does not know.
class ByteTokens {
 public:
  ByteTokens() { ids_.fill(-1); }
  /// Throws Error naming a token of type byte whose text is no byte.
  explicit ByteTokens(const Vocabulary& vocabulary);

  /// The tokens of the bytes; false, and nothing is appended, where one of them is missing.
  bool append(std::string_view bytes, std::vector<std::int32_t>& ids) const;
  [[nodiscard]] bool are_all() const;

 private:
  std::array<std::int32_t, 256> ids_{};  // -1 where the vocabulary has no such byte
};

}  // namespace rocmforge
