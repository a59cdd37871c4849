#pragma once

#include <string>

#include "command.h"
#include "ops/kv_layout.h"

namespace rocmforge::app {

/// How K and V of the cache are stored.
class KvTypeFlags {
 public:
  void add_to(Command& command, const std::string& group = {});
  /// K and V of 4 and 5 bits are rotated, unless that was declined. Throws UsageError for a type that a cache can't have.
  [[nodiscard]] KvTypes types() const;

 private:
  std::string both_ = "f16";
  std::string k_;
  std::string v_;
  bool no_rotation_ = false;
};

}  // namespace rocmforge::app
