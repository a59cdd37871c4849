#include <algorithm>
#include <span>
#include <utility>

#include "base/json_document.h"
#include "chat/chat_adaptation.h"
#include "chat/chat_rules.h"
#include "chat/message_json.h"

namespace rocmforge {
namespace {

using nlohmann::ordered_json;

bool has(const std::optional<std::string>& text, std::string_view part) {
  return text.has_value() && text->find(part) != std::string::npos;
}

ordered_json probe_tools() {
  const ordered_json property = {{"type", "string"}, {"description", "probe"}};
  const ordered_json parameters = {
      {"type", "object"}, {"properties", {{"probe_key", property}}}, {"required", {"probe_key"}}};
  const ordered_json function = {{"name", "probe_tool"}, {"description", "probe"}, {"parameters", parameters}};
  return ordered_json::array({{{"type", "function"}, {"function", function}}});
}

/// Renders small conversations and searches the results for their words.
class Prober {
 public:
  Prober(std::string_view source, const ChatProbe& render) : source_(source), render_(render), tools_(probe_tools()) {}

  ChatAbilities find() {
    find_content();
    find_roles();
    find_parts();
    find_images();
    find_calls();
    find_results();
    find_thinking_switch();
    find_rules();
    return abilities_;
  }

 private:
  [[nodiscard]] std::optional<std::string> rendered(ordered_json messages, const ordered_json& tools = nullptr,
                                                    ordered_json arguments = nullptr) const {
    ChatRequest request;
    request.messages = std::move(messages);
    request.tools = tools;
    request.arguments = std::move(arguments);
    request.clock = [] {
      std::tm any_day{};
      any_day.tm_mday = 1;
      return any_day;
    };
    return render_(request);
  }
  /// In plain braces, some compilers would take a single message for the array itself.
  static ordered_json conversation(std::initializer_list<ordered_json> messages) {
    return std::vector<ordered_json>(messages);
  }
  /// Some templates accept only conversations with tools.
  [[nodiscard]] std::optional<std::string> with_or_without_tools(const ordered_json& messages) const {
    auto text = rendered(messages);
    return text.has_value() ? text : rendered(messages, tools_);
  }
  [[nodiscard]] bool shows(const ordered_json& messages, std::string_view text) const {
    return has(rendered(messages), text) || has(rendered(messages, tools_), text);
  }
  [[nodiscard]] ordered_json content(std::string_view text) const {
    return abilities_.text_content ? ordered_json(text) : ordered_json::array({text_part(text)});
  }
  [[nodiscard]] ordered_json question() const { return plain_message("user", content("probe question")); }
  [[nodiscard]] ordered_json result(ordered_json held) const {
    ordered_json made = plain_message("tool", std::move(held));
    made["tool_call_id"] = "abcdef123";
    made["name"] = "probe_tool";
    return made;
  }
  [[nodiscard]] static ordered_json call(ordered_json held, ordered_json arguments) {
    // The key differs from the schema's, so that a list of tools in Python's notation does not look like the call.
    const ordered_json function = {{"name", "probe_tool"}, {"arguments", std::move(arguments)}};
    ordered_json made = plain_message("assistant", std::move(held));
    made["tool_calls"] = ordered_json::array({{{"id", "abcdef123"}, {"type", "function"}, {"function", function}}});
    return made;
  }

  void find_content() {
    const auto asks = [](ordered_json held) { return conversation({plain_message("user", std::move(held))}); };
    abilities_.text_content = shows(asks("probe question"), "probe question") ||
                              !shows(asks(ordered_json::array({text_part("probe question")})), "probe question");
  }

  void find_roles() {
    abilities_.system_role =
        shows(conversation({plain_message("system", content("probe system")), question()}), "probe system");
    abilities_.developer_role = source_.find("developer") != std::string_view::npos;
  }

  /// Whether the template shows all parts of a role's content as texts, and not as JSON or in Python's notation.
  [[nodiscard]] bool shows_parts(const ordered_json& messages) const {
    const auto text = with_or_without_tools(messages);
    return has(text, "probe one") && has(text, "probe two") && !has(text, "'text': 'probe") &&
           !has(text, "\"text\": \"probe");
  }
  void find_parts() {
    const ordered_json parts = ordered_json::array({text_part("probe one"), text_part("probe two")});
    abilities_.parts.user = shows_parts(conversation({plain_message("user", parts)}));
    abilities_.parts.system = shows_parts(conversation({plain_message("system", parts), question()}));
    abilities_.parts.assistant = shows_parts(conversation({question(), plain_message("assistant", parts), question()}));
    const auto object = ordered_json{{"probe_argument", "probe value"}};
    abilities_.parts.tool =
        shows_parts(conversation({question(), call(content(""), object), result(parts)})) ||
        shows_parts(conversation({question(), plain_message("assistant", content("probe")), result(parts)}));
  }

  /// Whether the template writes something for an image or a recording beside a text, and not JSON or Python's notation of
  /// it. `around` makes a conversation of a content.
  template <class Around>
  [[nodiscard]] bool shows_media(const ordered_json& media, const Around& around) const {
    const ordered_json text = text_part("probe one");
    const auto without = with_or_without_tools(around(ordered_json::array({text})));
    const auto with = with_or_without_tools(around(ordered_json::array({media, text})));
    return has(with, "probe one") && has(without, "probe one") && with != without && !has(with, "'type'") &&
           !has(with, "\"type\": " + media["type"].dump());
  }
  void find_images() {
    const auto of_user = [](const ordered_json& parts) { return conversation({plain_message("user", parts)}); };
    abilities_.images.user = shows_media(image_part(), of_user);
    abilities_.sounds = shows_media(sound_part(), of_user);
    abilities_.images.tool =
        abilities_.images.user && shows_media(image_part(), [this](const ordered_json& parts) {
          return conversation({question(), call(content(""), {{"probe_argument", "probe value"}}), result(parts)});
        });
  }

  /// Whether a call with this content is shown, with its arguments as an object or as text.
  struct Shown {
    bool as_object = false, as_text = false;
    std::string text{};
  };
  [[nodiscard]] Shown shown_call(const ordered_json& held) const {
    const auto object = rendered(
        conversation({question(), call(held, {{"probe_argument", "probe value"}}), result(content("probe"))}), tools_);
    const auto text = rendered(
        conversation({question(), call(held, R"({"probe_argument": "probe value"})"), result(content("probe"))}), tools_);
    const bool no_content = held.is_null() && (has(object, "None") || has(text, "None"));
    const bool takes_object = has(object, "probe value") && !has(object, "{'probe_argument'");
    return {takes_object && !no_content, has(text, "probe value") && !no_content, object.value_or("") + text.value_or("")};
  }
  void find_calls() {
    const auto asked = rendered(conversation({question()}), tools_);
    abilities_.tools = has(asked, "probe_tool");
    const Shown empty = shown_call(content(""));
    const Shown none = shown_call(nullptr);
    const Shown& shown = empty.as_object || empty.as_text ? empty : none;
    abilities_.arguments_as_text = !shown.as_object && shown.as_text;
    abilities_.tool_calls = shown.as_object || shown.as_text;
    abilities_.calls_with_empty_content = empty.as_object || empty.as_text;
    abilities_.calls_with_null_content = none.as_object || none.as_text;
    if (abilities_.tools && !abilities_.tool_calls && asked.has_value()) {
      const ToolCallFormat& told = tool_call_format(tool_call_style_of(*asked));
      abilities_.call_mark = told.is_marked ? told.opening : "";
    }
    find_call_style(empty.text + none.text);
  }

  /// `calls`: the template's text for calls. If it has the marks of a style, the model knows that style even if the template
  /// does not show it the tools.
  void find_call_style(std::string_view calls) {
    const ToolCallStyle style = tool_call_style_of(source_);
    const ToolCallFormat& format = tool_call_format(style);
    const bool shows_marks = format.is_marked && calls.find(format.opening) != std::string_view::npos;
    if (abilities_.takes_tools() || (abilities_.tool_calls && shows_marks)) {
      abilities_.call_style = style;
    }
  }

  /// If the template does not show calls, they will be part of the text.
  void find_results() {
    const ordered_json called =
        abilities_.tool_calls ? call(abilities_.calls_with_empty_content ? content("") : ordered_json(nullptr),
                                     abilities_.arguments_as_text ? ordered_json(R"({"probe_argument": "probe value"})")
                                                                  : ordered_json{{"probe_argument", "probe value"}})
                              : plain_message("assistant", content("probe call"));
    const auto text = rendered(conversation({question(), called, result(content("probe result"))}), tools_);
    // A template that writes any role has no place for results if its source does not contain the word "tool".
    abilities_.tool_results = has(text, "probe result") && source_.find("tool") != std::string_view::npos;
  }

  /// Whether the template shows all texts of a rule's probe, adapted to the rules from `first`.
  [[nodiscard]] bool shows_probe(ChatRequest request, std::size_t first) const {
    std::vector<std::string> texts;
    const std::string whole = json_text(request.messages);
    for (std::size_t at = whole.find("\"probe "); at != std::string::npos; at = whole.find("\"probe ", at + 1)) {
      texts.push_back(whole.substr(at + 1, whole.find_first_of("\"\\", at + 1) - at - 1));
    }
    adapt_to_rules(request, abilities_, first);
    if (!abilities_.text_content) {
      texts_to_parts(request.messages);
    }
    const auto text = rendered(request.messages, request.tools);
    for (const ordered_json& tool : request.tools) {
      texts.push_back(tool["function"]["name"]);
    }
    return text.has_value() && std::ranges::all_of(texts, [&](const std::string& each) { return has(text, each); });
  }

  /// From the last rule to the first: what a rule says in another way may need the rules behind it.
  void find_rules() {
    const std::span<const ChatRule> rules = chat_rules();
    for (std::size_t i = rules.size(); i-- > 0;) {
      const ChatRequest probe = rules[i].probe(ProbeMessages(abilities_), abilities_);
      if (probe.messages.empty() || shows_probe(probe, i + 1)) {
        continue;
      }
      abilities_.rules |= 1u << i;
      if (!shows_probe(probe, i)) {
        abilities_.rules &= ~(1u << i);  // it would not help
      }
    }
  }

  void find_thinking_switch() {
    const auto with = [&](bool thinks) {
      return rendered(conversation({question()}), nullptr, {{"enable_thinking", thinks}, {"thinking", thinks}});
    };
    abilities_.thinking_switch = with(true) != with(false);
  }

  std::string_view source_;
  const ChatProbe& render_;
  ordered_json tools_;
  ChatAbilities abilities_;
};

}  // namespace

ChatAbilities probe_abilities(std::string_view source, const ChatProbe& render) { return Prober(source, render).find(); }

}  // namespace rocmforge
