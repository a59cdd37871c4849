"""What the chat page lets one choose: the model, sampling and its presets."""
import json

from page_testing import By, DemoServer, Keys, PageTest, end, piece

TWO_MODELS = """
const real = window.fetch;
window.fetch = async (url, options) => (String(url) === 'v1/models'
  ? new Response(JSON.stringify({ data: [{ id: 'small' }, { id: 'large' }] })) : real(url, options));
"""


class Settings(PageTest):
    def preset_names(self):
        return [option.text for option in self.all("#preset option")]

    def value(self, name):
        return self.one(f"#settings [name={name}]").get_attribute("value")

    def choose_preset(self, name):
        self.one("#preset").find_element(By.XPATH, f"option[starts-with(., '{name}')]").click()

    def save_settings(self, **settings):
        self.one("#open-settings").click()
        for name, value in settings.items():
            field = self.one(f"#settings [name={name}]")
            field.clear()
            field.send_keys(value)
        self.one("#settings button[value=save]").click()

    def test_settings_are_sent_and_kept(self):
        self.open()
        self.save_settings(max_tokens="7", temperature="0")
        self.say("Tell me a story.")
        self.finish()
        self.assertRegex(self.facts(), r"^7 tokens .* cut at the limit$")
        self.reload()
        self.one("#open-settings").click()
        self.assertEqual(self.one("#settings [name=max_tokens]").get_attribute("value"), "7")
        self.browser.switch_to.active_element.send_keys(Keys.ESCAPE)

    def test_settings_show_the_servers_own_values(self):
        own = DemoServer(*PageTest.arguments)
        try:
            self.open(url=own.url)
            self.answer_with([piece("a"), *end()])
            self.one("#open-settings").click()
            params = json.loads(own.get("/props"))["default_generation_settings"]["params"]
            for name in ("temperature", "top_p", "top_k", "min_p", "repeat_penalty"):
                shown = self.one(f"#settings [name={name}]").get_attribute("placeholder")
                self.assertEqual(float(shown), params[name], name)
            self.one("#settings button[value=save]").click()
            self.say("x")
            self.finish()
            self.assertNotIn("temperature", self.script("return asked[0]"))
        finally:
            self.browser.get("about:blank")
            own.stop()

    def test_presets_fill_the_fields(self):
        self.open()
        self.one("#open-settings").click()
        self.one("#preset").find_element(By.XPATH, "option[.='precise']").click()
        self.assertEqual(self.one("#settings [name=temperature]").get_attribute("value"), "0.2")
        self.one("#settings [name=temperature]").send_keys("5")
        self.assertEqual(self.one("#preset").get_attribute("value"), "")
        self.one("#preset").find_element(By.XPATH, "option[starts-with(., 'the most likely')]").click()
        self.one("#settings button[value=save]").click()
        self.answer_with([piece("a"), *end()])
        self.say("x")
        self.finish()
        self.assertEqual(self.script("return [asked[0].temperature, asked[0].top_p ?? null]"), [0, None])

    def test_a_preset_of_ones_own_is_kept_and_deleted(self):
        self.open(settings={"temperature": "0.5", "top_k": "7"})
        self.one("#open-settings").click()
        self.assertEqual(self.one("#preset").get_attribute("value"), "")
        self.assertFalse(self.one("#drop-preset").is_enabled())
        self.one("#preset-name").send_keys("mine <b>", Keys.ENTER)
        self.assertEqual(self.one("#preset").get_attribute("value"), "mine <b>")
        self.choose_preset("precise")
        self.assertEqual((self.value("temperature"), self.value("top_k")), ("0.2", ""))
        self.assertFalse(self.one("#drop-preset").is_enabled(), "it is the page's own")
        self.one("#settings .cancel").click()
        self.reload()
        self.one("#open-settings").click()
        self.choose_preset("mine")
        self.assertEqual((self.value("temperature"), self.value("top_k")), ("0.5", "7"))
        self.one("#settings button[value=save]").click()
        self.answer_with([piece("a"), *end()])
        self.say("x")
        self.finish()
        self.assertEqual(self.script("return [asked[0].temperature, asked[0].top_k, asked[0].top_p ?? null]"), [0.5, 7, None])
        self.one("#open-settings").click()
        before = self.preset_names()
        self.one("#drop-preset").click()
        self.assertEqual(self.preset_names(), before[:-1])
        self.assertEqual((self.value("temperature"), self.value("top_k")), ("0.5", "7"))
        self.one("#settings .cancel").click()
        self.reload()
        self.one("#open-settings").click()
        self.assertEqual(self.preset_names(), before[:-1])
        self.one("#settings .cancel").click()

    def test_enter_saves_the_settings(self):
        self.open()
        self.one("#open-settings").click()
        self.one("#settings [name=max_tokens]").send_keys("9", Keys.ENTER)
        self.one("#open-settings").click()
        self.assertEqual(self.value("max_tokens"), "9")
        self.browser.switch_to.active_element.send_keys(Keys.ESCAPE)

    def test_the_server_says_which_models_there_are(self):
        self.open()
        names = [model["id"] for model in json.loads(self.server.get("/v1/models"))["data"]]
        self.assertEqual([option.text for option in self.all("#model option")], names)

    def test_a_model_is_chosen_and_remembered(self):
        self.open()
        identifier = self.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": TWO_MODELS})["identifier"]
        try:
            self.reload()
            self.wait(lambda: len(self.all("#model option")) == 2)
            self.answer_with([piece("a"), *end()], [piece("b"), *end()])
            self.say("x")
            self.finish()
            self.one("#model").find_element(By.XPATH, "option[.='large']").click()
            self.say("y")
            self.finish()
            self.assertEqual(self.script("return asked.map(({ model }) => model)"), ["small", "large"])
            self.save_settings(max_tokens="7")
            self.reload()
            self.wait(lambda: len(self.all("#model option")) == 2)
            self.assertEqual(self.one("#model").get_attribute("value"), "large")
        finally:
            self.browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": identifier})
        self.reload()
        self.assertEqual(len(self.all("#model option")), 1, "what was chosen is no more: the first one serves")
