#include "tokenizer/byte_tokens.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/error.h"
#include "tokenizer/space_marks.h"

namespace rocmforge {

ByteTokens::ByteTokens(const Vocabulary& vocabulary) : ByteTokens() {
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.types[id] != TokenType::byte) {
      continue;
    }
    const int byte = byte_of(vocabulary.tokens[id]);
    if (byte < 0) {
      throw Error("token " + std::to_string(id) + " is '" + vocabulary.tokens[id] +
                  "', a byte such as '<0x0A>' was expected");
    }
    ids_[static_cast<std::size_t>(byte)] = static_cast<std::int32_t>(id);
  }
}

bool ByteTokens::append(std::string_view bytes, std::vector<std::int32_t>& ids) const {
  const auto id_of = [this](char byte) { return ids_[static_cast<unsigned char>(byte)]; };
  if (!std::ranges::all_of(bytes, [&](char byte) { return id_of(byte) >= 0; })) {
    return false;
  }
  std::ranges::transform(bytes, std::back_inserter(ids), id_of);
  return true;
}

bool ByteTokens::are_all() const { return std::ranges::find(ids_, -1) == ids_.end(); }

}  // namespace rocmforge
