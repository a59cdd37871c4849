"""The chat page when something is wrong: nothing is lost, and one sees what."""
from page_testing import FAR_ADDRESS, DemoServer, Keys, PageTest, conversation, end, piece

TOO_LONG = "word " * 4000


class Trouble(PageTest):
    def ignore_complaints(self):
        """The browser writes each answer with an error status to its log."""
        self.browser.get_log("browser")

    def test_a_message_that_is_too_long_comes_back(self):
        self.open(settings={"temperature": "0"})
        self.say("What is 127 + 458?")
        self.finish()
        self.paste(TOO_LONG)
        self.one("#send").click()
        self.wait(lambda: "tokens" in self.notice())
        self.finish()
        self.assertEqual(self.prompt(), TOO_LONG.strip())
        self.assertEqual(self.questions(), ["What is 127 + 458?"])
        self.assertEqual(self.answers(), ["585"])
        self.ignore_complaints()
        self.reload()
        self.assertEqual(self.prompt(), TOO_LONG.strip(), "it is kept as what is being written")
        self.paste("What is 2 + 3?")
        self.one("#send").click()
        self.finish()
        self.wait(lambda: len(self.answers()) == 2)
        self.assertEqual(self.answers(), ["585", "5"])
        self.assertFalse(self.one("#notice").is_displayed())

    def test_a_retry_that_fails_keeps_the_answer(self):
        self.open([conversation("one", "first", TOO_LONG, "second")])
        self.all(".message.assistant .retry")[1].click()
        self.wait(lambda: "tokens" in self.notice())
        self.assertEqual(self.answers(), ["first", "second"])
        self.all(".message.user .delete")[1].click()
        self.assertEqual(self.answers(), ["first"])
        self.ignore_complaints()

    def test_what_failed_in_the_background_is_told_when_one_comes_back(self):
        self.open()
        self.answer_with([None, {"error": {"message": "out of luck"}}])
        self.say("my question")
        self.wait(lambda: self.script("return asked.length") == 1)
        self.one("#new-conversation").click()
        self.script("release()")
        self.wait(lambda: len(self.all("#conversations .state.failed")) == 1)
        self.assertFalse(self.one("#notice").is_displayed())
        self.all("#conversations .open")[1].click()
        self.assertEqual(self.notice(), "Out of luck. Your message is back in the box.")
        self.assertEqual(self.prompt(), "my question")
        self.assertEqual(self.questions(), [])

    def test_an_answer_that_breaks_off_keeps_what_has_come(self):
        self.open()
        self.answer_with([piece("half an"), None, "lost"], [piece(" answer"), *end()])
        self.say("x")
        self.wait(lambda: self.answers() == ["half an"])
        self.script("release()")
        self.finish()
        self.assertEqual(self.answers(), ["half an"])
        self.assertIn("cannot be reached", self.notice())
        self.assertIn("cannot be reached", self.one(".message .failure").text)
        self.one(".message.assistant .continue").click()
        self.finish()
        self.assertEqual(self.answers(), ["half an answer"])
        self.assertEqual(self.all(".message .failure"), [])
        self.assertFalse(self.one("#notice").is_displayed())

    def test_an_error_is_seen_on_a_phone(self):
        self.open([conversation(*["many words " * 40] * 20)])
        with self.screen(390, 844):
            self.script("document.getElementById('messages').scrollTop = 0")
            self.paste(TOO_LONG)
            self.one("#send").click()
            self.wait(lambda: "tokens" in self.notice())
            box = self.script("""
                const box = document.getElementById('notice').getBoundingClientRect();
                const middle = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
                return [box.top, box.bottom, innerHeight, document.getElementById('notice').contains(middle)];""")
            self.assertGreater(box[0], 0)
            self.assertLess(box[1], box[2])
            self.assertTrue(box[3], "nothing covers it")
            self.assertEqual(self.one("#notice").get_attribute("role"), "alert")
        self.ignore_complaints()

    def test_a_key_is_asked_for(self):
        guarded = DemoServer(*PageTest.arguments, "--api-key", "secret")
        try:
            self.open(url=guarded.url)
            self.wait(lambda: "key" in self.one("#banner").text)
            self.say("What is 2 + 3?")
            self.wait(lambda: "key" in self.notice())
            self.one("#open-settings").click()
            self.one("#settings [name=api_key]").send_keys("secret")
            self.one("#settings [name=temperature]").send_keys("0")
            self.one("#settings button[value=save]").click()
            self.wait(lambda: not self.one("#banner").is_displayed())
            self.one("#prompt").send_keys(Keys.ENTER)
            self.wait(lambda: self.answers() == ["5"])
            self.finish()
            self.wait(lambda: "%" in self.one("#load-cache").text)
            self.ignore_complaints()
        finally:
            self.browser.get("about:blank")
            guarded.stop()

    def test_a_server_that_is_gone_leaves_a_mark(self):
        own = DemoServer(*PageTest.arguments)
        try:
            self.open(url=own.url)
            self.wait(lambda: "%" in self.one("#load-cache").text)
            self.assertFalse(self.one("#banner").is_displayed())
            own.kill()
            self.wait(lambda: self.one("#banner").text.startswith("The server does not answer."))
            self.assertEqual(self.one("#banner").get_attribute("role"), "alert")
            self.say("Is anybody there?")
            self.wait(lambda: "cannot be reached" in self.notice())
            self.assertEqual(self.prompt(), "Is anybody there?")
            own = DemoServer(*PageTest.arguments, port=own.url.rsplit(":")[-1])
            self.wait(lambda: not self.one("#banner").is_displayed())
            self.wait(lambda: "%" in self.one("#load-cache").text)
            self.one("#prompt").send_keys(Keys.ENTER)
            self.wait(lambda: len(self.answers()) == 1)
            self.finish()
            self.ignore_complaints()
        finally:
            self.browser.get("about:blank")
            own.stop()

    def test_a_server_that_is_gone_is_asked_less_and_less_often(self):
        self.open()
        waits = self.browser.execute_async_script("""
            const done = arguments[0];
            import('./page/connection.js').then(async ({ Connection }) => {
              const waits = [];
              const problems = [];
              const real = [window.fetch, window.setTimeout];
              const connection = new Connection((problem) => problems.push(problem));
              window.setTimeout = (_, wait) => waits.push(wait);
              window.fetch = async () => { throw new TypeError('no connection'); };
              for (let i = 0; i < 7; i++) await connection.check();
              window.fetch = async () => new Response('{}');
              await connection.check();
              [window.fetch, window.setTimeout] = real;
              done([waits, problems]);
            });""")
        self.assertEqual(waits[0], [1000, 2000, 4000, 8000, 16000, 30000, 30000, 10000])
        self.assertEqual(waits[1], ["The server does not answer.", ""])

    def test_copying_works_without_a_secure_context(self):
        self.open([conversation("x", "to be\ncopied\n\n```\ncode\n```")], url=self.server.url.replace("127.0.0.1", FAR_ADDRESS))
        self.assertEqual(self.script("return [isSecureContext, typeof navigator.clipboard]"), [False, "undefined"])
        for button, text in ((".message.assistant .tools .copy", "to be\ncopied\n\n```\ncode\n```"), (".copy-code", "code")):
            self.one(button).click()
            self.wait(lambda: self.one(button).text == "Copied")
            self.one("#prompt").clear()
            self.one("#prompt").send_keys(Keys.CONTROL, "v")
            self.assertEqual(self.prompt(), text)
        self.assertFalse(self.one("#notice").is_displayed())

    def test_copying_that_fails_says_so(self):
        self.open([conversation("x", "to be copied")])
        self.script("document.execCommand = () => false; navigator.clipboard.writeText = async () => { throw new Error('no'); }")
        self.one(".message.assistant .copy").click()
        self.wait(lambda: "does not let the page copy" in self.notice())
        self.assertEqual(self.one(".message.assistant .copy").text, "Not copied")
