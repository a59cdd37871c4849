#pragma once

#include <string>

namespace rocmforge {

/// What stands for an image or a recording in a prompt.
struct MediaMarks {
  std::string placeholder{};  ///< text that the model's chat template prints for it
  std::string token{};        ///< the control token whose id its tokens have
  std::string before{};       ///< text with control tokens before them
  std::string after{};        ///< and behind them
  bool printed = false;       ///< the template prints `before` and `after` around the placeholder; else they replace it
};

}  // namespace rocmforge
