#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>

namespace rocmforge {

/// Checks that `text` has at most 24 lines of 100 columns.
inline void expect_one_screen(const std::string& text) {
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 24) << text;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100u) << line;
  }
}

}  // namespace rocmforge
