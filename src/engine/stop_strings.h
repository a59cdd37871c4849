#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/text_match.h"

namespace rocmforge {

/// Searches a stream of text for stop strings. Text that may be the start of one is held back. The result does not depend on
/// how the stream is cut into pieces. Linear in the text.
class StopStrings {
 public:
  /// None of them may be empty.
  explicit StopStrings(const std::vector<std::string>& stops);

  /// The text that can be shown now. After a stop string nothing more is returned: the string itself and the text behind it
  /// are dropped.
  std::string add(std::string_view text);
  /// The text that was held back, when the stream has ended without a stop string.
  std::string finish();
  [[nodiscard]] bool stopped() const { return stopped_; }
  /// The string that was found, the longest of several; "" before.
  [[nodiscard]] const std::string& seen() const { return seen_; }

 private:
  std::vector<TextMatch> stops_;
  std::string held_;
  std::string seen_;
  bool stopped_ = false;
};

}  // namespace rocmforge
