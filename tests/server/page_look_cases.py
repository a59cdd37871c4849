"""How the chat page looks: Markdown, headings, the plot, phones, the dark, the keyboard."""
import re
import subprocess

from page_testing import Keys, PageTest, conversation, webdriver

HOSTILE = '<script>document.title = "broken"</script> <img src="x" onerror="document.title = 1"> [press](javascript:alert(1))'

# Each unit, repeated, is a text that a naive parser would search to its end from each position.
UNITS = ["*", "**a ", "[", "[a](", "http://a.b ", "`", "` ``", "**a** ", "_a ", "*a* ", "~~a ", "> ", "- a\n", "- ", "|a", "\\*", "<http",
         "```\n", "a\n\n", "![a](b) ", "  - a\n", "1. ", "$", "$a ", " $a$", "$$a ", "$$\n", "\\(", "\\(a\\) ", "\\[", "\\[\n", "\\begin{align}\n"]


class Look(PageTest):
    def test_a_models_text_never_becomes_markup(self):
        self.open([conversation(HOSTILE, HOSTILE, title=HOSTILE)])
        self.assertEqual(self.browser.title, "ROCmForge")
        self.assertEqual(self.all("#messages script, #messages img, #messages a, #conversations script"), [])
        self.assertIn("<script>", self.answers()[0])

    def test_a_users_text_never_becomes_markup(self):
        self.open()
        self.say(HOSTILE)
        self.finish()
        self.assertEqual(self.one(".message.user .body").text, HOSTILE)
        self.assertEqual(self.browser.title, "ROCmForge")
        self.assertEqual(self.all("#messages script, #messages img, #messages a, #conversations script, #conversations img"), [])

    def test_hostile_text_that_comes_letter_by_letter(self):
        self.open()
        found = self.browser.execute_async_script("""
            const [text, done] = arguments;
            import('./page/markdown.js').then(({ MarkdownStream }) => {
              const body = document.createElement('div');
              document.getElementById('messages').append(body);
              const stream = new MarkdownStream(body);
              const seen = new Set();
              for (const letter of text + '\\n\\n' + text) {
                stream.append(letter);
                for (const node of body.querySelectorAll('*')) seen.add(node.localName);
              }
              done([[...seen].sort(), body.textContent]);
            });""", HOSTILE)
        self.assertEqual(found[0], ["p"])
        self.assertEqual(found[1].count("<script>"), 2)
        self.assertEqual(self.browser.title, "ROCmForge")

    def test_markdown(self):
        text = ("# Title\n\nA **bold** [link](https://example.org).\n\n- one\n  - two\n\n```python\na < b\n```\n\n"
                "| x | y |\n|---|--:|\n| 1 | 2 |\n\n- [x] done\n- [ ] open\n")
        self.open([conversation("x", text)])
        for selector, shown in {"h1": "Title", "strong": "bold", "a[rel~=noopener]": "link", "li li": "two", "pre code": "a < b",
                                ".code span": "python", "td.right": "2", "li.task": "done"}.items():
            self.assertEqual(self.one(".message.assistant .body " + selector).text, shown)
        self.assertEqual([box.is_selected() for box in self.all("li.task input")], [True, False])

    def test_no_text_takes_long_to_draw(self):
        self.open()
        self.browser.set_script_timeout(300)
        found = self.browser.execute_async_script("""
            const [units, done] = arguments;
            import('./page/markdown.js').then(({ renderMarkdown }) => {
              const milliseconds = (text) => {
                const begin = performance.now();
                renderMarkdown(text);
                return performance.now() - begin;
              };
              const quickest = (text, runs) => Math.min(...Array.from({ length: runs }, () => milliseconds(text)));
              done(units.map((unit) => quickest(unit.repeat(128000 / unit.length), 3)
                / Math.max(quickest(unit.repeat(2000 / unit.length), 5), 0.5)));
            });""", UNITS)
        for unit, growth in zip(UNITS, found):
            # Nodes that do not fit the caches, and other programs, make a text of 64 times the size take more than 64 times
            # as long. Quadratic work takes at least 4,096 times as long.
            self.assertLess(growth, 2000, f"{unit!r}")

    def test_a_text_of_very_many_parts_is_drawn(self):
        self.open()
        counts = self.browser.execute_async_script("""
            const done = arguments[0];
            import('./page/markdown.js').then(({ renderMarkdown }) => {
              const body = document.createElement('div');
              for (const text of ['*a* '.repeat(100000), '```python\\n' + '1 '.repeat(100000) + '\\n```']) {
                for (const node of renderMarkdown(text)) body.append(node);
              }
              done(['em', '.number'].map((part) => body.querySelectorAll(part).length));
            });""")
        self.assertEqual(counts, [100000, 100000])

    def test_headings_are_in_order(self):
        self.open([conversation("x", "\n\n".join("#" * level + f" Level {level}" for level in range(1, 7)) + "\n\nText")])
        look = """
            const look = getComputedStyle(document.querySelector(arguments[0]));
            return [parseFloat(look.fontSize), parseInt(look.fontWeight)];"""
        title, *headings, text = [self.script(look, selector) for selector in
                                  ("#sidebar h1", *(f".body h{level}" for level in range(1, 7)), ".body p")]
        sizes = [heading[0] for heading in headings]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        self.assertGreater(sizes[0], 1.25 * text[0])
        self.assertGreaterEqual(sizes[-1], text[0])
        self.assertGreater(title[0], sizes[0], "the page's own title is the largest")
        for _, weight in headings:
            self.assertGreaterEqual(weight, 600)
        self.assertEqual([node.get_attribute("aria-level") for node in self.all(".body :is(h1, h2, h3)")], ["3", "4", "5"])

    def test_the_plot_shows_the_load(self):
        self.open()
        with subprocess.Popen([PageTest.arguments[0], "load", self.server.url, "--concurrency", "3", "--duration", "60"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as load:
            try:
                self.wait(lambda: "up to 3 requests" in self.one("#load-requests-plot svg").get_attribute("aria-label"))
                self.wait(lambda: re.fullmatch(r"[\d.]+", self.one("#load-rate").text) and float(self.one("#load-rate").text) > 0)
                self.wait(lambda: re.fullmatch(r"\d+\.\d %", self.one("#load-cache").text) and self.one("#load-cache").text != "0.0 %")
                self.wait(lambda: self.one("#load-rate-plot polyline").get_attribute("points").count(",") >= 2)
                self.wait(lambda: len(self.all("#load-requests-plot rect.running")) >= 2)
                self.check_axes()
            finally:
                load.kill()
        self.server.wait_until_idle()

    def check_axes(self):
        for plot, unit in (("rate", "tokens/s"), ("requests", "Requests")):
            root = f"#load-{plot}-plot"
            self.assertIn(unit, self.script("return document.querySelector(arguments[0]).closest('figure').innerText", root))
            self.assertEqual([node.text for node in self.all(root + " .x-label")], ["−2 min", "−1 min", "now"])
            marks = [node.text for node in self.all(root + " .y-label")]
            self.assertGreaterEqual(len(marks), 2)
            self.assertEqual(marks[0], "0")
            self.assertEqual(len(self.all(root + " .axis")), 5, "two axes and three marks of time")
            # The last mark is at the top, and nothing is drawn above it.
            highest = self.script("""
                const plot = document.querySelector(arguments[0]);
                const top = Math.min(...[...plot.querySelectorAll('.grid')].map((line) => line.getBoundingClientRect().top));
                return [...plot.querySelectorAll('polyline, rect')].every((shape) => shape.getBoundingClientRect().top >= top - 1);""", root)
            self.assertTrue(highest)

    def test_marks_of_an_axis_are_round(self):
        self.open()
        found = self.browser.execute_async_script("""
            import('./page/axes.js').then(({ ticks, shortNumber }) => arguments[0]([
              [0, 1, 3, 5, 7, 95, 1500, 1e6].map((most) => ticks(most, true)),
              ticks(2.5), [0, 0.5, 950, 1200, 3e6].map(shortNumber)]));""")
        for most, marks in zip((0, 1, 3, 5, 7, 95, 1500, 1e6), found[0]):
            self.assertGreaterEqual(marks[-1], most)
            self.assertIn(len(marks), (2, 3, 4))
            self.assertTrue(all(mark == int(mark) for mark in marks))
        self.assertEqual(found[0][3], [0, 2, 4, 6])
        self.assertEqual(found[1], [0, 1, 2, 3])
        self.assertEqual(found[2], ["0", "0.5", "950", "1.2k", "3M"])

    def test_everything_is_reached_by_keyboard(self):
        self.open()
        self.assertEqual(self.browser.switch_to.active_element.get_attribute("id"), "prompt")
        reached = set()
        for _ in range(25):
            webdriver.ActionChains(self.browser).send_keys(Keys.TAB).perform()
            reached.add(self.browser.switch_to.active_element.get_attribute("id"))
        self.assertLessEqual({"new-conversation", "search", "export", "import", "open-settings", "attach", "prompt", "send"}, reached)

    def test_a_phone_sees_no_sideways_scrolling(self):
        self.open([conversation("x" * 300, "```\n" + "y" * 300 + "\n```\n\n| a |\n|---|\n| " + "z" * 300 + " |")])
        with self.screen(390, 844):
            self.wait(lambda: self.one("#open-sidebar").is_displayed())
            self.assertFalse(self.script("return document.documentElement.scrollWidth > innerWidth"))
            self.assertFalse(self.script("const log = document.getElementById('messages'); return log.scrollWidth > log.clientWidth"))
            self.wait(lambda: re.search(r"running · [\d.]+ tokens/s · KV cache [\d.]+ %", self.one("#load-line").text))
            self.one("#open-sidebar").click()
            self.wait(lambda: self.one("#new-conversation").is_displayed())
            self.script("document.elementFromPoint(innerWidth - 5, innerHeight / 2).click()")
            self.wait(lambda: not self.one("#new-conversation").is_displayed())

    def test_code_is_coloured(self):
        code = "def f(x):  # it's new\n    return \"a # b\" + 'c' * 42  # <b>"
        self.open([conversation("x", f"```python\n{code}\n```\n\n```unknown\nreturn 1\n```")])
        self.assertEqual(self.one("pre code").get_attribute("textContent"), code)
        shown = {kind: [node.text for node in self.all(f"pre .{kind}")] for kind in ("keyword", "string", "number", "comment")}
        self.assertEqual(shown, {"keyword": ["def", "return"], "string": ['"a # b"', "'c'"], "number": ["42"],
                                 "comment": ["# it's new", "# <b>"]})

    def test_the_page_is_small(self):
        self.open()
        sizes = self.script("return [...performance.getEntriesByType('resource'), ...performance.getEntriesByType('navigation')]"
                            ".filter((entry) => !/metrics|health|models|props/.test(entry.name)).map((entry) => [entry.name, entry.decodedBodySize])")
        self.assertGreater(len(sizes), 10)
        self.assertTrue(all(name.startswith(self.server.url) for name, _ in sizes), "nothing comes from elsewhere")
        self.assertLess(sum(size for _, size in sizes), 150_000)
