#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace rocmforge::app {

/// The number of tokens of a prompt or an answer: "512" constant, "100-900" uniform, "512~64" normal with that
/// deviation.
class Lengths {
 public:
  /// Throws UsageError naming `flag`.
  static Lengths parse(std::string_view flag, const std::string& text);

  [[nodiscard]] std::int32_t draw(std::mt19937_64& random) const;
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::int32_t least_ = 0;
  std::int32_t most_ = 0;
  double mean_ = 0.0;
  double deviation_ = 0.0;  ///< 0: uniform between least and most
};

}  // namespace rocmforge::app
