#include <fmt/format.h>

#include <string>

#include "grammar/pattern_grammar.h"

namespace rocmforge {
namespace {

/// Eight groups, or fewer with "::" in place of the missing ones.
std::string ipv6_pattern() {
  std::string pattern = "[0-9a-f]{1,4}(:[0-9a-f]{1,4}){7}";
  for (int before = 0; before <= 6; ++before) {
    const std::string left = before == 0 ? "" : fmt::format("[0-9a-f]{{1,4}}(:[0-9a-f]{{1,4}}){{{}}}", before - 1);
    const int after = 6 - before;
    const std::string right = after == 0 ? "" : fmt::format("([0-9a-f]{{1,4}}(:[0-9a-f]{{1,4}}){{0,{}}})?", after - 1);
    pattern += fmt::format("|{}::{}", left, right);
  }
  return pattern;
}

}  // namespace

// RFC 3339 (dates, times), ISO 8601 as RFC 3339 quotes it (durations), RFC 4122 (UUID), RFC 5321 and 1123 (mail, host
// names), RFC 3986 (URI), RFC 6901 (pointers), RFC 4648 (base64): each pattern is a subset that every reader accepts; the
// days per month are checked too.
std::string format_pattern(std::string_view format) {
  const std::string date =
      "([12]\\d{3}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8]))"
      "|([12]\\d(0[48]|[2468][048]|[13579][26])|(1[26]|2[048])00)-02-29)";
  const std::string time = "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)";
  const std::string label = "[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?";
  const std::string host = fmt::format("{0}(\\.{0}){{0,4}}", label);
  const std::string clock = "T(\\d{1,4}H(\\d{1,4}M(\\d{1,4}S)?)?|\\d{1,4}M(\\d{1,4}S)?|\\d{1,4}S)";
  std::string pattern;
  if (format == "date") {
    pattern = date;
  } else if (format == "time") {
    pattern = time;
  } else if (format == "date-time") {
    pattern = date + "T" + time;
  } else if (format == "duration") {
    pattern = fmt::format(
        "P(\\d{{1,4}}W|(\\d{{1,4}}Y(\\d{{1,4}}M(\\d{{1,4}}D)?)?|\\d{{1,4}}M(\\d{{1,4}}D)?|\\d{{1,4}}D)({0})?|{0})", clock);
  } else if (format == "uuid") {
    pattern = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
  } else if (format == "email" || format == "idn-email") {
    pattern =
        fmt::format("[A-Za-z0-9_+-]{{1,32}}(\\.[A-Za-z0-9_+-]{{1,15}}){{0,2}}@{0}(\\.{0}){{0,3}}\\.[a-z]{{2,12}}", label);
  } else if (format == "hostname" || format == "idn-hostname") {
    pattern = host;
  } else if (format == "ipv4") {
    const std::string byte = "(25[0-5]|2[0-4]\\d|1\\d{2}|[1-9]?\\d)";
    pattern = fmt::format("{0}(\\.{0}){{3}}", byte);
  } else if (format == "ipv6") {
    pattern = ipv6_pattern();
  } else if (format == "uri" || format == "uri-reference" || format == "iri" || format == "iri-reference" ||
             format == "url" || format == "uri-template") {
    const std::string character = "[A-Za-z0-9._~!$&'()*+,;=:@-]";
    pattern = fmt::format("[a-z][a-z0-9+.-]{{0,15}}://{0}(:[1-9]\\d{{0,3}})?(/{1}*)*(\\?{1}*)?(#{1}*)?", host, character);
  } else if (format == "json-pointer") {
    pattern = "(/([A-Za-z0-9_. -]|~[01])*)*";
  } else if (format == "relative-json-pointer") {
    pattern = "(0|[1-9]\\d{0,3})(#|(/([A-Za-z0-9_. -]|~[01])*)*)";
  } else if (format == "byte") {
    pattern = "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?";
  } else {
    return "";
  }
  return "^(" + pattern + ")$";
}

}  // namespace rocmforge
