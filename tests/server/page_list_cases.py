"""The list of conversations, and what goes into a browser's memory and comes out of it."""
import json
import pathlib
import tempfile

from page_testing import Keys, PageTest, conversation, end, piece

THREE = [conversation("apples", "and pears", id="13", title="Fruit"), conversation("carrots", "and beans", id="12", title="Vegetables"),
         conversation("apple trees", id="11", title="Plants")]


class Conversations(PageTest):
    def titles(self):
        return [node.text for node in self.all("#conversations .open")]

    def test_search_finds_titles_and_texts(self):
        self.open(THREE)
        self.assertEqual(self.titles(), ["Fruit", "Vegetables", "Plants"])
        for words, found in (("apple", ["Fruit", "Plants"]), ("BEANS", ["Vegetables"]), ("apple pear", ["Fruit"]), ("zebra", [])):
            self.one("#search").clear()
            self.one("#search").send_keys(words)
            self.assertEqual(self.titles(), found)
        self.assertEqual(self.one("#conversations .none").text, "Nothing found")

    def test_a_conversation_is_renamed(self):
        self.open(THREE)
        self.all("#conversations .rename")[1].click()
        self.one("#conversations input").send_keys("Greens", Keys.ENTER)
        self.assertEqual(self.titles(), ["Fruit", "Greens", "Plants"])
        self.all("#conversations .rename")[0].click()
        self.one("#conversations input").send_keys("no", Keys.ESCAPE)
        self.reload()
        self.assertEqual(self.titles(), ["Fruit", "Greens", "Plants"])

    def test_a_deleted_conversation_comes_back(self):
        self.open(THREE)
        self.all("#conversations .open")[1].click()
        self.all("#conversations .remove")[1].click()
        self.assertEqual(self.titles(), ["Fruit", "Plants"])
        self.assertEqual(self.answers(), ["and pears"])
        self.one("#notice .act").click()
        self.assertEqual(self.titles(), ["Fruit", "Vegetables", "Plants"])
        self.assertEqual(self.answers(), ["and beans"])
        self.all("#conversations .remove")[2].click()
        self.reload()
        self.assertEqual(self.titles(), ["Fruit", "Vegetables"])

    def test_what_is_exported_can_be_imported(self):
        with tempfile.TemporaryDirectory() as folder:
            self.browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": folder})
            self.open(THREE)
            self.one("#export").click()
            [path] = self.wait(lambda: list(pathlib.Path(folder).glob("conversations-*.json")))
            exported = json.loads(path.read_text())
            self.assertEqual([item["title"] for item in exported["conversations"]], ["Fruit", "Vegetables", "Plants"])
            self.open(THREE[:1])
            self.one("#import-file").send_keys(str(path))
            self.wait(lambda: "2 conversations added." in self.notice())
            self.assertEqual(self.titles(), ["Fruit", "Vegetables", "Plants"])
            self.reload()
            self.assertEqual(self.titles(), ["Fruit", "Vegetables", "Plants"])
            for text, problem in (("{", "no JSON"), ("[]", "not exported"),
                                  ('{"format": "rocmforge-conversations", "conversations": [{"id": 1}]}', "Conversation 1")):
                path.write_text(text)
                self.one("#import-file").send_keys(str(path))
                self.wait(lambda: problem in self.notice())
            self.assertEqual(self.titles(), ["Fruit", "Vegetables", "Plants"])

    def test_tabs_do_not_write_over_one_another(self):
        self.open(THREE[:1])
        first = self.browser.current_window_handle
        self.browser.switch_to.new_window("tab")
        try:
            self.browser.get(self.server.url + "/")
            self.wait_for_model()
            self.one("#new-conversation").click()
            self.answer_with([piece("from the other tab"), *end()])
            self.say("second tab")
            self.finish()
            self.browser.switch_to.window(first)
            self.wait(lambda: self.titles() == ["second tab", "Fruit"])
            self.answer_with([piece("from the first tab"), *end()])
            self.say("first tab")
            self.finish()
        finally:
            self.browser.switch_to.window(self.browser.window_handles[-1])
            self.browser.close()
            self.browser.switch_to.window(first)
        self.reload()
        self.assertEqual(self.titles(), ["second tab", "Fruit"])
        self.all("#conversations .open")[0].click()
        self.assertEqual(self.answers(), ["from the other tab"])
        self.all("#conversations .open")[1].click()
        self.assertEqual(self.answers(), ["and pears", "from the first tab"])

    def test_a_text_file_becomes_part_of_the_message(self):
        self.open()
        drop = """
            const [name, bytes] = arguments;
            const data = new DataTransfer();
            data.items.add(new File([new Uint8Array(bytes)], name));
            const event = new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true });
            document.getElementById('messages').dispatchEvent(event);
            return event.defaultPrevented;"""
        self.assertTrue(self.script(drop, "notes.md", list("a ``` b\n".encode())))
        self.wait(lambda: self.prompt() == "notes.md:\n````\na ``` b\n````\n")
        self.script(drop, "picture.png", [137, 80, 78, 71, 255, 0])
        self.wait(lambda: "picture.png is not a text file" in self.notice())
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("chosen")
            file.flush()
            self.one("#attach-file").send_keys(file.name)
            self.wait(lambda: "```\nchosen\n```" in self.prompt())
        self.assertIn("notes.md:", self.prompt())
