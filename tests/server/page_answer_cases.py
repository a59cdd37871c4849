"""Answers on the chat page: they come, stop, go on in the background, and say how fast the server was."""
import json

from page_testing import By, DemoServer, Keys, PageTest, conversation, end, piece


class Answers(PageTest):
    def test_a_conversation_survives_a_reload(self):
        self.open(settings={"temperature": "0"})
        self.say("What is 127 + 458?")
        self.finish()
        self.assertIn("585", self.answers()[0])
        self.assertRegex(self.facts(), r"^\d+ tokens · .*prompt of \d+ tokens in [\d.]+ m?s$")
        self.wait(lambda: "%" in self.one("#load-cache").text)
        self.say("What is 2 + 3?")
        self.finish()
        before = self.answers()
        self.assertIn("5", before[1])
        self.reload()
        self.assertEqual(self.answers(), before)
        self.assertIn("127 + 458", self.one("#conversations .current").text)

    def test_speed_is_what_the_server_has_measured(self):
        self.open()
        self.answer_with([piece("one", timings={"predicted_n": 7, "predicted_per_second": 123.44}), None,
                          *end(timings={"predicted_n": 31, "predicted_per_second": 4567.8, "prompt_n": 20, "cache_n": 5, "prompt_ms": 340})])
        self.say("x")
        self.wait(lambda: self.facts() == "7 tokens · 123.4 tokens/s")
        self.assertTrue(self.one("#stop").is_displayed(), "the answer still comes")
        self.assertEqual(self.all(".message.assistant .retry"), [])
        self.script("release()")
        self.finish()
        self.assertEqual(self.facts(), "31 tokens · 4567.8 tokens/s · prompt of 25 tokens in 340 ms")
        self.assertTrue(self.script("return asked[0].timings_per_token"))

    def test_stop_ends_the_request_on_the_server(self):
        self.open()
        with self.slow_network():
            self.say("Tell me a story.")
            self.wait(lambda: self.answers() and self.answers()[0] != "")
            self.one("#stop").click()
            self.finish()
        self.assertRegex(self.facts(), r"^\d+ tokens? · .*stopped$")
        self.wait(lambda: self.server.metric("num_requests_running") == 0)

    def test_leaving_the_page_keeps_what_has_come_of_an_answer(self):
        self.open()
        with self.slow_network():
            self.say("Tell me a story.")
            self.wait(lambda: self.answers() and len(self.answers()[0]) > 20)
            before = self.answers()[0]
            self.browser.get("about:blank")
        self.browser.get(self.server.url + "/")
        self.wait(lambda: self.answers())
        self.assertTrue(self.answers()[0].startswith(before[:20]), self.answers())
        self.assertIn("stopped", self.facts())
        self.wait(lambda: self.server.metric("num_requests_running") == 0)

    def test_answers_go_on_while_another_conversation_is_open(self):
        self.open()
        self.answer_with([piece("first "), None, piece("answer"), *end()], [piece("second "), None, piece("answer"), *end()])
        self.say("one")
        self.wait(lambda: self.answers() == ["first"])
        self.one("#new-conversation").click()
        self.assertEqual(self.answers(), [])
        self.say("two")
        self.wait(lambda: self.answers() == ["second"])
        self.assertEqual(len(self.all("#conversations .state.answering")), 2)
        self.all("#conversations .open")[1].click()
        self.assertEqual(self.answers(), ["first"])
        self.assertTrue(self.one("#stop").is_displayed())
        self.all("#conversations .open")[0].click()
        self.script("release()")
        self.finish()
        self.assertEqual(self.answers(), ["second answer"])
        self.wait(lambda: len(self.all("#conversations .state.new")) == 1)
        self.all("#conversations .open")[1].click()
        self.assertEqual(self.answers(), ["first answer"])
        self.assertEqual(self.all("#conversations .state"), [])
        self.assertNotIn("stopped", self.facts())

    def test_a_fifth_answer_at_once_has_to_wait(self):
        self.open()
        self.answer_with(*[[piece("a"), None, *end()] for _ in range(5)])
        for number in range(4):
            self.say(f"question {number}")
            self.wait(lambda: self.answers() == ["a"])
            self.one("#new-conversation").click()
        self.say("one more")
        self.assertIn("4 answers are under way", self.notice())
        self.assertEqual(self.prompt(), "one more")
        self.script("release()")
        self.wait(lambda: len(self.all("#conversations .state.new")) == 4)
        self.one("#prompt").send_keys(Keys.ENTER)
        self.wait(lambda: self.answers() == ["a"])
        self.script("release()")
        self.finish()

    def test_real_answers_come_at_once(self):
        self.open(settings={"temperature": "0"})
        with self.slow_network():
            self.say("Tell me a story.")
            self.wait(lambda: self.answers() and self.answers()[0] != "")
            self.one("#new-conversation").click()
            self.say("What is 127 + 458?")
        self.finish()
        self.assertEqual(self.answers(), ["585"])
        self.all("#conversations .open")[1].click()
        self.finish()
        self.assertGreater(len(self.answers()[0]), 40)
        self.assertNotIn("stopped", self.facts())

    def test_what_was_cut_can_go_on(self):
        self.open()
        self.answer_with([piece("The beginning"), *end("length")], [piece(" and the end."), *end()])
        self.say("x")
        self.finish()
        self.assertIn("cut at the limit", self.facts())
        self.one(".message.assistant .continue").click()
        self.finish()
        self.assertEqual(self.answers(), ["The beginning and the end."])
        self.assertEqual(self.script("return asked[1].messages.at(-1)"), {"role": "assistant", "content": "The beginning"})
        self.assertEqual(self.all(".message.assistant .continue"), [])

    def test_reasoning_is_folded_away(self):
        self.open()
        thought = {"choices": [{"index": 0, "delta": {"reasoning_content": "Let me think."}, "finish_reason": None}]}
        self.answer_with([thought, piece("Done."), *end()])
        self.say("x")
        self.finish()
        self.assertEqual(self.answers(), ["Done."])
        self.assertFalse(self.one(".message details div").is_displayed())
        self.one(".message details summary").click()
        self.assertEqual(self.one(".message details div").text, "Let me think.")

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

    def test_retry_asks_again_and_keeps_both_answers(self):
        self.open(settings={"temperature": "0"})
        self.say("What is 2 + 3?")
        self.finish()
        first = self.answers()
        self.one(".message.assistant .retry").click()
        self.wait(lambda: self.one(".message.assistant .branches").text.split() == ["‹", "2", "/", "2", "›"])
        self.finish()
        self.assertEqual(self.answers(), first)
        self.assertEqual(len(self.all(".message")), 2)

    def test_an_edited_question_is_a_branch(self):
        self.open()
        self.answer_with([piece("old"), *end()], [piece("later"), *end()], [piece("new"), *end()])
        self.say("one")
        self.finish()
        self.say("two")
        self.finish()
        self.one(".message.user .edit").click()
        box = self.one(".message.user textarea")
        box.send_keys(" changed")
        box.send_keys(Keys.ENTER)
        self.wait(lambda: self.answers() == ["new"])
        self.finish()
        self.assertEqual(self.questions(), ["one changed"])
        self.assertEqual(self.script("return asked[2].messages"), [{"role": "user", "content": "one changed"}])
        self.one(".message.user .back").click()
        self.assertEqual(self.questions(), ["one", "two"])
        self.assertEqual(self.answers(), ["old", "later"])
        self.reload()
        self.assertEqual(self.answers(), ["old", "later"])
        self.one(".message.user .on").click()
        self.assertEqual(self.answers(), ["new"])

    def test_a_deleted_question_comes_back(self):
        self.open([conversation("one", "first", "two", "second", "three", "third")])
        self.all(".message.user .delete")[1].click()
        self.assertEqual(self.questions(), ["one", "three"])
        self.assertEqual(self.answers(), ["first", "third"])
        self.one("#notice .act").click()
        self.assertEqual(self.questions(), ["one", "two", "three"])
        self.all(".message.user .delete")[1].click()
        self.reload()
        self.assertEqual(self.answers(), ["first", "third"])
