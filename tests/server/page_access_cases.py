"""The chat page for everybody: names of controls, contrast, the keyboard alone, sizes for fingers, and nothing that jumps."""
import contextlib

from page_testing import Keys, PageTest, conversation, end, piece, webdriver

# Visible texts with a contrast below 4.5 : 1 by WCAG's formula, and edges of fields with a contrast below 3 : 1.
CONTRAST = """
const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
const light = (colour) => colour.slice(0, 3).map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const behind = (node) => {
  for (; node; node = node.parentElement) {
    const colour = parse(getComputedStyle(node).backgroundColor);
    if (colour.length === 3 || colour[3] > 0) return colour;
  }
  return [255, 255, 255];
};
const contrast = (one, other) => {
  const two = [light(parse(one)), light(other)].sort((a, b) => b - a);
  return (two[0] + 0.05) / (two[1] + 0.05);
};
const seen = [...document.querySelectorAll('body *')].filter((node) => node.checkVisibility() && !node.disabled);
const words = seen.filter((node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim() !== ''))
  .map((node) => {
    const look = getComputedStyle(node);
    return [`${node.localName} ${node.textContent.slice(0, 20)}`, contrast(node.closest('svg') ? look.fill : look.color, behind(node))];
  });
const fields = seen.filter((node) => node.matches('input:not([type=checkbox]), textarea'));
const hints = fields.filter((node) => node.placeholder)
  .map((node) => [`hint ${node.placeholder}`, contrast(getComputedStyle(node, '::placeholder').color, behind(node))]);
// 3 is asked of edges, 4.5 of what is found below.
const edges = fields.map((node) => [`edge of ${node.id || node.name}`, 1.5 * contrast(getComputedStyle(node).borderColor, behind(node.parentElement))]);
return { seen: words.length, poor: [...words, ...hints, ...edges].filter(([, ratio]) => ratio < 4.5) };
"""
RICH = ("# Title\n\ntext `code` [link](https://example.org) $\\frac{a}{b} \\nosuch$\n\n> quote\n\n```python\nreturn 'a' + 1  # why\n```\n\n"
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n- [x] done\n\n$$\\frac{$$\n")
ROLES = {"button", "textbox", "searchbox", "combobox", "checkbox", "spinbutton", "link", "image", "navigation", "log", "dialog", "group"}


def rich_conversations():
    kept = conversation("question", RICH, "again", "failed", id="2", title="Rich")
    kept["messages"][3] |= {"facts": "12 tokens", "failure": "The connection ended.", "reasoning": "why"}
    return [kept, conversation("apples", "pears", id="1", title="Fruit")]


class Access(PageTest):
    def press(self, *keys):
        webdriver.ActionChains(self.browser).send_keys(*keys).perform()

    def focused(self):
        return self.browser.switch_to.active_element

    def tab_to(self, text, back=False):
        """By the key alone, to the control of this text, name or id."""
        for _ in range(80):
            with self.key_down(Keys.SHIFT if back else None):
                self.press(Keys.TAB)
            node = self.focused()
            if text in (node.text, node.get_attribute("aria-label"), node.get_attribute("id")):
                style = self.script("const look = getComputedStyle(arguments[0]); return [look.outlineStyle, parseFloat(look.outlineWidth)]", node)
                self.assertNotEqual(style[0], "none", f"one sees that {text} has the focus")
                self.assertGreaterEqual(style[1], 2)
                return
        self.fail(f"the key Tab does not reach {text}")

    @contextlib.contextmanager
    def key_down(self, key):
        if key:
            webdriver.ActionChains(self.browser).key_down(key).perform()
        try:
            yield
        finally:
            if key:
                webdriver.ActionChains(self.browser).key_up(key).perform()

    def states(self):
        """The page in each state that has controls of its own."""
        self.open(rich_conversations())
        yield "messages"
        self.one(".message.user .edit").click()
        self.all("#conversations .rename")[1].click()
        yield "editing"
        self.press(Keys.ESCAPE)
        self.script("document.getElementById('notice').hidden = document.getElementById('banner').hidden = false;"
                    "document.querySelector('#notice .act').hidden = false; document.querySelector('#notice .act').textContent = 'Undo';"
                    "document.querySelectorAll('.bar p').forEach((line) => { line.textContent = 'Trouble'; });")
        yield "trouble"
        self.one("#search").send_keys("zebra")
        self.one("#open-settings").click()
        yield "settings"
        self.press(Keys.ESCAPE)

    def test_text_has_contrast_in_the_light_and_in_the_dark(self):
        backgrounds = set()
        for scheme in ("light", "dark"):
            with self.scheme(scheme):
                for state in self.states():
                    backgrounds.add(self.script("return getComputedStyle(document.body).backgroundColor"))
                    found = self.script(CONTRAST)
                    self.assertEqual(found["poor"], [], f"{scheme}, {state}")
                    self.assertGreater(found["seen"], 20)
        self.assertEqual(len(backgrounds), 2)

    def test_every_control_has_a_name(self):
        """The browser's own names, as a screen reader gets them."""
        for state in self.states():
            nodes = self.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
            controls = [node for node in nodes if not node["ignored"] and node["role"]["value"] in ROLES]
            self.assertGreater(len(controls), 8, state)
            unnamed = [node["role"]["value"] for node in controls
                       if node["role"]["value"] != "group" and not node.get("name", {}).get("value", "").strip()]
            self.assertEqual(unnamed, [], state)

    def test_a_conversation_by_the_keyboard_alone(self):
        self.open(rich_conversations()[1:])
        self.answer_with([piece("first"), *end()], [piece("half"), None, piece(" more"), *end()], [piece("second"), *end()], [piece("third"), *end()])
        self.tab_to("new-conversation")
        self.press(Keys.ENTER)
        self.press("question", Keys.ENTER)
        self.wait(lambda: self.answers() == ["first"])
        self.finish()
        self.press("another", Keys.ENTER)
        self.wait(lambda: self.answers() == ["first", "half"])
        self.press(Keys.ESCAPE)
        self.finish()
        self.assertIn("stopped", self.all(".message.assistant .facts")[1].text)
        for button, answers in (("Edit", ["first", "second"]), ("Retry", ["first", "third"])):
            # From the box backwards: the last answer's buttons, then the last question's.
            self.tab_to("Delete" if button == "Edit" else "Retry", back=True)
            if button == "Edit":
                self.tab_to("Edit", back=True)
            self.press(Keys.ENTER)
            if button == "Edit":
                self.press(" changed", Keys.ENTER)
            self.wait(lambda: self.answers() == answers)
            self.finish()
        self.assertEqual(self.questions(), ["question", "another changed"])
        self.tab_to("Fruit", back=True)
        self.press(Keys.ENTER)
        self.assertEqual(self.answers(), ["pears"])
        self.press("typed at once")
        self.assertEqual(self.prompt(), "typed at once", "the box has the focus")

    def test_settings_by_the_keyboard_alone(self):
        self.open()
        self.tab_to("open-settings", back=True)
        self.press(Keys.ENTER)
        self.assertEqual(self.focused().get_attribute("name"), "system")
        inside = "return document.activeElement === document.body || document.getElementById('settings').contains(document.activeElement)"
        for _ in range(30):
            self.press(Keys.TAB)
            self.assertTrue(self.script(inside), "nothing behind the dialog gets the focus")
        self.press(Keys.ESCAPE)
        self.assertEqual(self.focused().get_attribute("id"), "open-settings")

    def test_a_finger_hits_every_button(self):
        small = """
            return [...document.querySelectorAll('button, select, input:not([type=checkbox])')].filter((node) => node.checkVisibility())
              .map((node) => [node.textContent.trim() || node.ariaLabel || node.id, node.getBoundingClientRect()])
              .filter(([, box]) => box.width > 0 && (box.width < 24 || box.height < 24)).map(([name]) => name);"""
        with self.screen(390, 844):
            for state in self.states_of_a_phone():
                self.assertEqual(self.script(small), [], state)
                self.assertFalse(self.script("return document.documentElement.scrollWidth > innerWidth"), state)

    def states_of_a_phone(self):
        self.open(rich_conversations())
        yield "messages"
        self.one("#open-settings").click()
        yield "settings"
        self.press(Keys.ESCAPE)
        self.one("#open-sidebar").click()
        self.wait(lambda: self.one("#new-conversation").is_displayed())
        yield "sidebar"

    def test_nothing_jumps_while_an_answer_comes(self):
        self.open()
        lines = [f"Line {number} of the answer.\n\n" for number in range(20)]
        lines[5:5] = ["| a | b |\n|---|---|\n", "| 1 | 2 |\n\n", "```python\nreturn 1\n", "return 2\n```\n\n", "$$\\frac{a}{b}$$\n\n", "- one\n", "- two\n\n"]
        thoughts = [{"choices": [{"index": 0, "delta": {"reasoning_content": f"thought {number}. "}, "finish_reason": None}]} for number in range(5)]
        self.answer_with([item for event in [*thoughts, *map(piece, lines)] for item in (event, None)] + end())
        self.script("window.shifts = [];"
                    "new PerformanceObserver((list) => shifts.push(...list.getEntries().map((entry) => entry.value)))"
                    ".observe({ type: 'layout-shift' });")
        self.say("x")
        for number in range(len(thoughts) + len(lines)):
            shown = "const [body] = document.querySelectorAll('.message.assistant'); return body ? body.textContent : ''"
            mark = f"thought {number}." if number < len(thoughts) else {0: "Line 0 "}.get(number - len(thoughts), "")
            self.wait(lambda: mark in self.script(shown))
            self.script("release()")
        self.wait(lambda: "Line 19 " in self.answers()[0])
        self.finish()
        frames = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50)))"
        self.browser.execute_async_script(frames)
        self.assertLess(sum(self.script("return shifts")), 0.1)
        self.script("shifts.length = 0; document.querySelector('#messages').style.marginTop = '200px'")
        self.browser.execute_async_script(frames)
        self.assertGreater(sum(self.script("return shifts")), 0.1, "what jumps is seen")

    def test_the_document_says_what_it_is(self):
        self.open()
        self.assertEqual(self.script("return [document.documentElement.lang, document.title, document.querySelectorAll('main, h1').length]"),
                         ["en", "ROCmForge", 2])
        self.assertNotIn("user-scalable", self.one("meta[name=viewport]").get_attribute("content"), "one may enlarge it")
        doubled = self.script("const ids = [...document.querySelectorAll('[id]')].map((node) => node.id);"
                              "return ids.filter((id, index) => ids.indexOf(id) !== index);")
        self.assertEqual(doubled, [])
