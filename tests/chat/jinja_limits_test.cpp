// Templates come with model files: none may hang, exhaust memory or the stack, or end the program.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "chat/jinja/template.h"
#include "small_stack.h"

namespace rocmforge::test {
namespace {

using jinja::Limits;
using jinja::Mapping;
using jinja::Template;
using jinja::TemplateError;

std::string render(const std::string& source, const Limits& limits = {}) {
  return Template(source)
      .render(
          Mapping(), [] { return std::tm{}; }, limits)
      .bytes();
}

std::string error_of(const std::string& source) {
  try {
    const std::string text = render(source, {.steps = 4'000'000});
    return "no error, " + std::to_string(text.size()) + " bytes";
  } catch (const TemplateError& error) {
    return error.message();
  }
}

std::string repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) {
    out += text;
  }
  return out;
}

TEST(JinjaLimits, LoopsEnd) {
  const std::string endless = "the template does not come to an end (more than 4000000 steps)";
  EXPECT_EQ(error_of("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"), endless);
  EXPECT_EQ(error_of("{% set ns = namespace(x='ab') %}{% for a in range(99999) %}{% set ns.x = ns.x ~ 'ab' %}{% endfor %}"),
            endless);
  EXPECT_EQ(error_of("{% set l = range(99999) | list %}{% for a in l %}{{ a in l }}{% endfor %}"), endless);
  EXPECT_EQ(error_of("{% set l = range(99999) | list %}{% for a in l %}{{ l | length }}{{ l | sort | first }}{% endfor %}"),
            endless);
  EXPECT_EQ(error_of("{% set t = 'a' * 1000000 %}{% for a in range(99999) %}{{ 'b' in t }}{% endfor %}"), endless);
}

TEST(JinjaLimits, TextsStaySmall) {
  EXPECT_EQ(error_of("{{ 'x' * 1000000000 }}"), "a text of more than 33554432 bytes");
  EXPECT_EQ(error_of("{{ 'x'.ljust(10000000000) }}"), "a text of more than 33554432 bytes");
  EXPECT_EQ(error_of("{{ 'a\nb' | indent(100000000) }}"), "a text of more than 33554432 bytes");
  EXPECT_EQ(error_of("{% set t = 'a' * 60000 %}{{ t | replace('', t) }}"), "a text of more than 33554432 bytes");
  EXPECT_NE(error_of("{% set ns = namespace(x='ab') %}{% for a in range(50) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}")
                .find("more than"),
            std::string::npos);
  EXPECT_NE(error_of("{{ '%100000d' % 1 }}").find("too wide"), std::string::npos);
  EXPECT_NE(error_of("{{ strftime_now('%5000d') }}").find("too long"), std::string::npos);
  EXPECT_THROW(render("{% for a in range(5000) %}{{ 'x' * 1000 }}{% endfor %}", {.text_bytes = 100000}), TemplateError);
}

TEST(JinjaLimits, ListsStaySmall) {
  EXPECT_NE(error_of("{{ [1] * 1000000000 }}").find("does not come to an end"), std::string::npos);
  EXPECT_NE(error_of("{{ range(100002) }}").find("more than 100000"), std::string::npos);
  const std::string nested =
      "{% set ns = namespace(x=[1]) %}{% for a in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}";
  EXPECT_EQ(error_of(nested + "{{ ns.x == 1 }}"), "a list that is too deep or too large");
  EXPECT_EQ(error_of("{% set ns = namespace(x=[]) %}{% for a in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}"),
            "a list that is too deep or too large");
  EXPECT_EQ(error_of("{% set ns = namespace(x={}) %}{% for a in range(9999) %}{% set ns.x = {'a': ns.x} %}{% endfor %}"),
            "a dictionary that is too deep or too large");
  EXPECT_EQ(error_of("{{ 10 ** 10 ** 10 }}"), "an integer that is too large");
}

TEST(JinjaLimits, TheStackHolds) {
  EXPECT_EQ(error_of("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}"), "nested too deeply");
  EXPECT_EQ(error_of("{% macro f(x) %}{% for a in [1] %}{% if true %}{{ [f([x][0])][0] }}{% endif %}{% endfor %}{% endmacro "
                     "%}{{ f(1) }}"),
            "nested too deeply");
  EXPECT_EQ(error_of("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"), "nested too deeply");
  EXPECT_EQ(error_of("{% macro f() %}{{ caller() }}{% call f() %}{% endcall %}{% endmacro %}{% call f() %}{% endcall %}"),
            "nested too deeply");
  for (const char* opening : {"(", "[", "{1:", "not ", "-", "1 if ", "f(", "a[", "x|d("}) {
    EXPECT_THROW(Template("{{ " + repeated(opening, 100000)), TemplateError) << opening;
  }
  for (const char* chained : {"+1", "*1", "|d", ".a", "[0]", "()", " and 1", " or 1", " if 1 else 1", " is odd", "**1"}) {
    const std::string source = "{{ 1" + repeated(chained, 100000) + " }}";
    EXPECT_THROW(Template{source}, TemplateError) << chained;
  }
  EXPECT_NO_THROW(Template("{{ 1" + repeated("~1", 100000) + " }}"));
  EXPECT_NO_THROW(Template("{{ 1" + repeated("<1", 100000) + " }}"));
  for (const char* opening :
       {"{% if 1 %}", "{% for a in b %}", "{% macro f() %}", "{% set x %}", "{% with %}", "{% filter d %}"}) {
    EXPECT_THROW(Template(repeated(opening, 100000)), TemplateError) << opening;
  }
  EXPECT_EQ(render("{% if 0 %}" + repeated("{% elif 0 %}", 10000) + "{% else %}x{% endif %}"), "x");
}

TEST(JinjaLimits, CyclesAreHarmless) {
  EXPECT_EQ(render("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}{{ a.b.a.b is defined }}"),
            "True");
  EXPECT_EQ(error_of("{% set a = namespace() %}{% set a.a = a %}{{ a }}"), "nested too deeply");
  EXPECT_EQ(error_of("{% set a = namespace() %}{% set a.a = [a] %}{{ a.a | string }}"), "nested too deeply");
  EXPECT_EQ(render("{% set n = namespace() %}{% for x in [1] %}{% macro f() %}{{ x }}{% endmacro %}{% set n.f = f %}"
                   "{% set n.l = loop %}{% endfor %}{{ n.f() }}{{ n.l.index }}{{ n.l.nextitem }}{{ n.l.cycle(5) }}"),
            "125");
  EXPECT_EQ(error_of("{% set a = namespace() %}{% for i in range(50000) %}{% set b = namespace(x=a.last) %}{% set a.last = "
                     "b %}{% endfor %}"),
            "no error, 0 bytes");
}

/// Nested objects are freed one by one, so that a chain of any length needs no stack.
TEST(JinjaScale, LongChainsOfObjectsNeedNoStack) {
  const auto chain = [](const std::string& link, int length) {
    return fmt::format("{{% set n = namespace(x=1) %}}{{% for a in range({}) %}}{}{{% endfor %}}end", length, link);
  };
  const Limits roomy{.steps = 1'000'000'000, .live_bytes = 8ULL << 30U};
  for (const char* link :
       {"{% set n.x = cycler(n.x) %}", "{% set n.x = cycler(1, n.x).next %}", "{% set n.x = joiner(n.x) %}",
        "{% for y in [n.x] %}{% set n.x = loop %}{% endfor %}", "{% for y in [n.x] %}{% set n.x = loop.cycle %}{% endfor %}",
        "{% for y in [1] %}{% if loop.changed(n.x) %}{% set n.x = loop %}{% endif %}{% endfor %}",
        "{% set m = namespace(x=n.x) %}{% set n.x = m %}",
        "{% set m = namespace(x=n.x) %}{% set n.x = cycler([m], joiner(m)) %}"}) {
    on_small_stack([&] {
      EXPECT_EQ(render(fmt::format("{{% for b in range(3) %}}{}{{% endfor %}}", chain(link, 12500)), roomy).size(), 9U)
          << link;
    });
  }
  // Bound methods hold values as lists do.
  EXPECT_EQ(error_of(chain("{% set n.x = [n.x].index %}", 99999)), "a list that is too deep or too large");
  EXPECT_EQ(error_of(chain("{% set n.x = {'k': n.x}.items %}", 99999)), "a dictionary that is too deep or too large");
}

TEST(JinjaLimits, ObjectsThatHoldThemselvesAreFreed) {
  EXPECT_EQ(render("{% for x in [1] %}{{ loop.changed(loop) }}{{ loop.changed(loop.changed) }}{% endfor %}"), "TrueTrue");
  EXPECT_EQ(render("{% set n = namespace() %}{% set n.c = cycler(n, n) %}{% set n.j = joiner(n.c.next) %}x"), "x");
}

/// No single operation does more work than it takes from the budget.
TEST(JinjaLimits, OneOperationDoesNotOutrunTheBudget) {
  const std::string endless = "the template does not come to an end (more than 4000000 steps)";
  const std::string long_text = "{% set t = 'a' * 1000000 %}{% set p = 'a' * 500000 ~ 'b' %}";
  for (const char* search : {"{{ p in t }}", "{{ t.find(p) }}", "{{ t.count(p) }}", "{{ t.replace(p, '') }}",
                             "{{ t | replace(p, '') }}", "{{ t.split(p) }}", "{{ t.partition(p) }}"}) {
    EXPECT_EQ(error_of(long_text + search), endless) << search;
  }
  std::string keys;
  std::string names;
  for (int i = 0; i < 20000; ++i) {
    keys += fmt::format("{}:1,", i);
    names += fmt::format("a{},", i);
  }
  EXPECT_EQ(error_of("{{ {" + keys + "} | length }}"), endless);
  EXPECT_EQ(error_of("{% set d = range(90000) | map('string') | list %}{{ dict(range(9000) | batch(2) | list) | length }}"),
            endless);
  std::string sets;
  for (int i = 0; i < 200000 / 10; ++i) {
    sets += fmt::format("{{% set v{} = 1 %}}", i);
  }
  EXPECT_EQ(render(sets + "{{ v19999 }}"), "1");
  EXPECT_EQ(error_of("{% macro f(" + names + "z) %}{% endmacro %}{{ f(" +
                     [&] {
                       std::string given;
                       for (int i = 0; i < 20000; ++i) {
                         given += fmt::format("a{}=1,", i);
                       }
                       return given;
                     }() +
                     "z=1) }}"),
            endless);
}

TEST(JinjaLimits, MemoryIsBounded) {
  const auto refusal = [](const std::string& source) {
    try {
      return render(source, {.live_bytes = 10'000'000});
    } catch (const TemplateError& error) {
      return error.message();
    }
  };
  const std::string more = "the template needs more than 10000000 bytes";
  EXPECT_EQ(refusal("{% set t = 'ab ' * 100000 %}{{ t.split() | length }}"), more);
  EXPECT_EQ(refusal("{% set t = 'a,' * 100000 %}{{ t.split(',') | length }}"), more);
  EXPECT_EQ(refusal("{% set t = '\n' * 200000 %}{{ t.splitlines() | length }}"), more);
  EXPECT_EQ(refusal("{% set t = 'a' * 3000000 %}{% set b = t ~ '' %}{% set c = t ~ '' %}{% set d = t ~ '' %}"), more);
  EXPECT_EQ(
      refusal("{% set a %}{{ 'x' * 4000000 }}{% set b %}{{ 'x' * 4000000 }}{{ 'x' * 4000000 }}{% endset %}{% endset %}"),
      more);
  // Freed memory no longer counts.
  EXPECT_EQ(refusal("{% for x in range(20) %}{% set t = 'a' * 1000000 %}{% endfor %}x"), "x");
}

TEST(JinjaLimits, LargeTemplatesAreRefusedBeforeTheyFillTheMemory) {
  EXPECT_THROW(Template(std::string(50'000'000, '{')), TemplateError);
  EXPECT_THROW(Template(repeated("{{", 2'000'000)), TemplateError);
  EXPECT_THROW(Template(repeated("{{1}}", 500'000)), TemplateError);
  EXPECT_EQ(render(std::string(4'000'000, 'x')).size(), 4'000'000U);
  try {
    Template(repeated("{{1}}", 500'000));
  } catch (const TemplateError& error) {
    EXPECT_EQ(error.message(), "a template of more than 400000 tokens");
  }
}

/// The text of raise_exception goes into messages and logs.
TEST(JinjaLimits, RaisedTextsAreCut) {
  EXPECT_EQ(error_of("{{ raise_exception('x' * 1000000) }}"), std::string(4000, 'x') + "...");
}

TEST(JinjaLimits, BreakAndContinueNeedALoop) {
  for (const char* source :
       {"{% break %}", "{% continue %}", "{% for x in y %}{% macro f() %}{% break %}{% endmacro %}{% endfor %}",
        "{% for x in y %}{% else %}{% continue %}{% endfor %}"}) {
    EXPECT_THROW(Template{source}, TemplateError) << source;
  }
}

/// Whatever is cut out of a template, parsing the rest ends, with or without an error.
TEST(JinjaLimits, CutTemplates) {
  const std::string source =
      "{%- set ns = namespace(a=[1, {'b': 2.5}]) -%}{% macro f(x, y='z') %}{{ x ~ y | upper }}{% endmacro %}"
      "{% for k, v in ns.a[1] | items if v is not none %}{{ f(k, y=v)[::-1] if loop.first else \"\\u00e9\" }}{# c #}{% "
      "endfor %}"
      "{% raw %}{{ {% endraw %}{% call(q) f(1) %}{{ q }}{% endcall %}";
  for (std::size_t begin = 0; begin < source.size(); ++begin) {
    for (const std::size_t size : {std::size_t{1}, std::size_t{3}, std::size_t{10}, source.size()}) {
      std::string cut = source;
      cut.erase(begin, size);
      try {
        static_cast<void>(render(cut));
      } catch (const TemplateError& error) {
        EXPECT_GE(error.position().line, 1);
        EXPECT_GE(error.position().column, 1);
      }
    }
  }
}

}  // namespace
}  // namespace rocmforge::test
