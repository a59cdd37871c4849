#include "kernels/launch/amd/architectures.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "device/kernel_library.h"
#include "paths.h"

namespace rocmforge {
namespace {

DeviceInfo card(std::string architecture) {
  DeviceInfo device;
  device.kind = DeviceKind::hip;
  device.architecture = std::move(architecture);
  return device;
}

/// The tables of tools/build/build_kernels.py.
struct BuildScript {
  std::string text;
  BuildScript() {
    std::ifstream file(test::source_path("tools/build/build_kernels.py"));
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  /// The cards of the table AMD.
  [[nodiscard]] std::vector<std::string> cards() const {
    const auto begin = text.find("\nAMD = {");
    const std::string table = text.substr(begin, text.find('}', begin) - begin);
    const std::regex name("\"(gfx[0-9a-f]+)\"");
    std::vector<std::string> names;
    for (std::sregex_iterator found(table.begin(), table.end(), name), end; found != end; ++found) {
      names.push_back((*found)[1]);
    }
    return names;
  }
  /// By the table SERVED; empty where no pattern of it matches.
  [[nodiscard]] std::string generic_of(const std::string& card) const {
    const auto begin = text.find("\nSERVED = {");
    const std::string table = text.substr(begin, text.find("\"}", begin) + 1 - begin);
    const std::regex entry("\"(gfx[0-9a-z-]+)\": r\"([^\"]*)\"");
    for (std::sregex_iterator found(table.begin(), table.end(), entry), end; found != end; ++found) {
      if (std::regex_match(card, std::regex((*found)[2].str()))) {
        return (*found)[1];
      }
    }
    return "";
  }
  /// Whether the sources of AMD's family are compiled for an architecture.
  [[nodiscard]] bool compiles_amd(const std::string& architecture) const {
    std::smatch pattern;
    if (!std::regex_search(text, pattern, std::regex("\"amd\": r\"([^\"]*)\""))) {
      throw std::runtime_error("no pattern for amd");
    }
    return std::regex_match(architecture, std::regex(pattern[1].str()));
  }
};

/// Otherwise the host would request code objects that do not exist.
TEST(AmdArchitectures, are_those_that_the_build_compiles_for) {
  const BuildScript script;
  ASSERT_GE(script.cards().size(), 25);
  for (const std::string& name : script.cards()) {
    EXPECT_EQ(amd::check_architecture(card(name)).ok, script.compiles_amd(name)) << name;
    EXPECT_EQ(amd::check_architecture(card(name + ":sramecc+:xnack-")).ok, script.compiles_amd(name)) << name;
  }
  EXPECT_EQ(amd::check_architecture(card("gfx908:xnack-")).reason,
            "gfx908 is none of gfx11, gfx12, gfx90a, gfx942 and gfx950");
}

/// A generic target is used in place of a card's own, so it must have the same kernels.
TEST(AmdArchitectures, have_the_same_kernels_as_their_generic_targets) {
  const BuildScript script;
  int served = 0;
  for (const std::string& name : script.cards()) {
    const std::string generic(generic_architecture(name));
    EXPECT_EQ(generic, script.generic_of(name)) << name;
    if (!generic.empty()) {
      ++served;
      EXPECT_EQ(script.compiles_amd(generic), script.compiles_amd(name)) << name << " and " << generic;
    }
  }
  EXPECT_EQ(served, 23);  // all but gfx906, gfx908 and gfx90a
}

}  // namespace
}  // namespace rocmforge
