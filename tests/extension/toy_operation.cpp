#include "extension/toy_operation.h"

#include <fmt/format.h>

#include "base/error.h"

namespace rocmforge {

std::string to_string(const ToyLimit::Spec& spec) { return fmt::format("{} elements up to {}", spec.width, spec.limit); }

Support check_spec(const ToyLimit::Spec& spec) {
  if (spec.width < 1) {
    return Support::no("rows without elements");
  }
  return spec.limit >= 0.0f ? Support::yes() : Support::no(fmt::format("a limit of {}", spec.limit));
}

void check_arguments(const ToyLimit::Spec& spec, const ToyLimit::Args& args) {
  check(check_spec(spec).ok, "toy_limit: the spec is not supported");
  check(args.x != nullptr || args.rows == 0, "toy_limit: x is null");
}

}  // namespace rocmforge
