#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace rocmforge {

/// The tokens "<0xHH>" of the 256 bytes. A vocabulary uses them for characters that it does not have.
class ByteTokens {
 public:
  ByteTokens() { ids_.fill(-1); }
  /// Throws Error with the id of a byte token whose text is not "<0xHH>".
  explicit ByteTokens(const Vocabulary& vocabulary);

  /// Appends the tokens of the bytes. Returns false and appends nothing when one of them is missing.
  bool append(std::string_view bytes, std::vector<std::int32_t>& ids) const;
  [[nodiscard]] bool are_all() const;

 private:
  std::array<std::int32_t, 256> ids_{};  // -1 when the vocabulary has no such byte
};

}  // namespace rocmforge
