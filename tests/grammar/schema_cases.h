#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "grammar/json_schema.h"
#include "grammar_testing.h"

namespace rocmforge::test {

/// A schema with answers that its grammar holds and answers that it does not hold.
struct SchemaCase {
  const char* schema;
  std::vector<std::string> inside, outside;
};

inline void check_cases(const std::vector<SchemaCase>& cases) {
  const auto trie = small_trie();
  for (const SchemaCase& one : cases) {
    SCOPED_TRACE(one.schema);
    const auto matcher = GrammarMatcher::create(json_schema_grammar(nlohmann::ordered_json::parse(one.schema)), trie);
    for (const std::string& text : one.inside) {
      EXPECT_TRUE(matches(matcher, text)) << text;
    }
    for (const std::string& text : one.outside) {
      EXPECT_FALSE(matches(matcher, text)) << text;
    }
  }
}

}  // namespace rocmforge::test
