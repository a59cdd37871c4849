// Rules of templates: conversations that clients send, rendered by the templates of many models without a text being lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/json_document.h"
#include "chat/chat_template_files.h"
#include "chat/message_json.h"
#include "paths.h"

namespace rocmforge::chat_rules_test {
namespace {

using nlohmann::ordered_json;

/// The templates of the golden files and of the folder "more".
std::vector<std::pair<std::string, ChatTemplate>> all_templates() {
  std::vector<std::pair<std::string, ChatTemplate>> list;
  const auto folder = test::test_data("golden/chat-templates");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".jinja") {
      std::ifstream stream(entry.path(), std::ios::binary);
      std::ostringstream text;
      text << stream.rdbuf();
      list.emplace_back(entry.path().stem().string(), ChatTemplate(text.str(), "<s>", "</s>"));
    }
  }
  return list;
}

ordered_json call(const std::string& id, const std::string& value) {
  return call_message(id, "look_up", json_text({{"word", value}}));
}
ordered_json calling(std::vector<ordered_json> calls, const ordered_json& content = "") {
  ordered_json made = plain_message("assistant", content);
  made["tool_calls"] = std::move(calls);
  return made;
}
ordered_json result(const std::string& id, const std::string& text) {
  return {{"role", "tool"}, {"tool_call_id", id}, {"content", text}};
}

const ordered_json word = {{"type", "object"}, {"properties", {{"word", {{"type", "string"}, {"description", "w"}}}}}};
const ordered_json described = wrapped_function({{"name", "look_up"}, {"description", "Looks up."}, {"parameters", word}});
const ordered_json bare = wrapped_function({{"name", "look_up"}});
const ordered_json listed = wrapped_function(
    {{"name", "look_up"},
     {"description", "d"},
     {"parameters",
      {{"type", "object"}, {"properties", {{"word", {{"type", {"string", "null"}}, {"description", "w"}}}}}}}});

struct Case {
  std::string name;
  std::vector<ordered_json> messages;
  ordered_json tools = nullptr;
  std::vector<std::string> texts;  ///< that the prompt must show
};

std::vector<Case> cases() {
  const auto user = [](const char* text) { return plain_message("user", text); };
  const auto assistant = [](const char* text) { return plain_message("assistant", text); };
  const auto system = [](const char* text) { return plain_message("system", text); };
  return {
      {"two systems", {system("alpha"), system("beta"), user("gamma")}, nullptr, {"alpha", "beta", "gamma"}},
      {"system and developer",
       {system("alpha"), plain_message("developer", "beta"), user("gamma")},
       nullptr,
       {"alpha", "beta", "gamma"}},
      {"a late system",
       {user("alpha"), assistant("beta"), system("gamma"), user("delta")},
       nullptr,
       {"alpha", "beta", "gamma", "delta"}},
      {"a system at the end", {user("alpha"), system("beta")}, nullptr, {"alpha", "beta"}},
      {"only a system", {system("alpha")}, nullptr, {"alpha"}},
      {"two users", {user("alpha"), user("beta")}, nullptr, {"alpha", "beta"}},
      {"two assistants",
       {user("alpha"), assistant("beta"), assistant("gamma"), user("delta")},
       nullptr,
       {"alpha", "beta", "gamma", "delta"}},
      {"a greeting", {system("alpha"), assistant("beta"), user("gamma")}, nullptr, {"alpha", "beta", "gamma"}},
      {"a call",
       {user("alpha"), calling({call("callaaaa1", "beta")}), result("callaaaa1", "gamma")},
       ordered_json::array({described}),
       {"alpha", "beta", "gamma"}},
      {"two calls",
       {user("alpha"), calling({call("callaaaa1", "beta"), call("callaaaa2", "gamma")}), result("callaaaa1", "delta"),
        result("callaaaa2", "epsilon")},
       ordered_json::array({described}),
       {"alpha", "beta", "gamma", "delta", "epsilon"}},
      {"three calls, answered in another order",
       {user("alpha"), calling({call("callaaaa1", "beta"), call("callaaaa2", "gamma"), call("callaaaa3", "zeta")}),
        result("callaaaa3", "eta"), result("callaaaa1", "delta"), result("callaaaa2", "epsilon"), assistant("theta"),
        user("iota")},
       ordered_json::array({described}),
       {"beta", "gamma", "zeta", "eta", "delta", "epsilon", "theta", "iota"}},
      {"text behind a result",
       {user("alpha"), calling({call("callaaaa1", "beta")}), result("callaaaa1", "gamma"), user("delta")},
       ordered_json::array({described}),
       {"alpha", "beta", "gamma", "delta"}},
      {"a system behind a result",
       {user("alpha"), calling({call("callaaaa1", "beta")}), result("callaaaa1", "gamma"), system("delta")},
       ordered_json::array({described}),
       {"alpha", "beta", "gamma", "delta"}},
      {"a bare tool", {user("alpha")}, ordered_json::array({bare}), {"alpha", "look_up"}},
      {"a list of types", {user("alpha")}, ordered_json::array({listed}), {"alpha", "look_up"}},
  };
}

TEST(ChatRules, NoTemplateRefusesOrLosesWhatClientsSend) {
  const auto templates = all_templates();
  ASSERT_GE(templates.size(), 42u);
  for (const auto& [name, chat_template] : templates) {
    for (const Case& each : cases()) {
      if (each.tools.is_null() && name.ends_with("tool_use")) {
        continue;  // these models have another template for conversations without tools
      }
      ChatRequest request;
      request.messages = each.messages;
      request.tools = each.tools;
      try {
        const std::string text = text_of(chat_template.prompt(request).segments);
        for (const std::string& part : each.texts) {
          EXPECT_NE(text.find(part), std::string::npos) << name << ", " << each.name << ": without " << part;
        }
      } catch (const Error& error) {
        ADD_FAILURE() << name << ", " << each.name << ": " << error.what();
      }
    }
  }
}

std::string rendered(const ChatTemplate& chat_template, std::vector<ordered_json> messages) {
  ChatRequest request;
  request.messages = std::move(messages);
  return text_of(chat_template.prompt(request).segments);
}

TEST(ChatRules, AreFoundOneByOne) {
  const ChatTemplate takes_all("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}");
  EXPECT_EQ(takes_all.abilities().rules, 0u);
  const ChatTemplate first_only(
      "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('first!') }}{% endif %}"
      "<{{ m.role }}>{{ m.content }}{% endfor %}");
  EXPECT_EQ(rendered(first_only, {plain_message("system", "a"), plain_message("system", "b"), plain_message("user", "c"),
                                  plain_message("system", "d")}),
            "<system>a\n\nb<user>c<user>d");
  const ChatTemplate alternates(
      "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 is even) %}{{ raise_exception('turns!') }}{% endif %}"
      "<{{ m.role }}>{{ m.content }}{% endfor %}");
  EXPECT_EQ(rendered(alternates, {plain_message("assistant", "hi"), plain_message("user", "a"), plain_message("user", "b")}),
            "<user>[the conversation begins]<assistant>hi<user>a\n\nb");
}

TEST(ChatRules, FieldsBesideAPartsTextReachTheTemplate) {
  const ChatTemplate shows(
      "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
      "{{ p.text }}{{ '(' + p.mark + ')' if p.mark is defined }}{% endfor %}{% endif %}{% endfor %}");
  const ordered_json part = {{"type", "text"}, {"text", "a"}, {"mark", "m"}};
  EXPECT_EQ(rendered(shows, {plain_message("user", ordered_json::array({part}))}), "a(m)");
  EXPECT_EQ(rendered(shows, {plain_message("user", ordered_json::array({part, text_part("b")}))}), "a(m)b");
}

}  // namespace
}  // namespace rocmforge::chat_rules_test
