"""Pictures on the chat page: they are chosen, dropped or pasted, go with the question to a model that sees, and are kept."""
import pathlib

from page_testing import DemoServer, Keys, PageTest, end, piece, start_browser

VISION = pathlib.Path(__file__).resolve().parents[1] / "golden/models/vision"

# Gives the page a picture of so many pixels, drawn here, as the event "paste" or "drop".
GIVE = """
const [kind, name, type, width, height, done] = arguments;
const canvas = document.createElement('canvas');
Object.assign(canvas, { width, height });
canvas.getContext('2d').fillRect(width / 4, height / 4, width / 2, height / 2);
canvas.toBlob((blob) => {
  const data = new DataTransfer();
  data.items.add(new File([blob], name, { type }));
  const event = kind === 'paste' ? new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true })
    : new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true });
  document.getElementById(kind === 'paste' ? 'prompt' : 'messages').dispatchEvent(event);
  done(event.defaultPrevented);
}, type);
"""


class Images(PageTest):
    """With a tiny model of random weights that sees."""

    @classmethod
    def setUpClass(cls):
        cls.server = DemoServer(cls.arguments[0], str(VISION / "qwen3vl-chat.gguf"), "--mmproj", str(VISION / "mmproj-qwen3vl.gguf"))
        cls.addClassCleanup(cls.stop_server)
        cls.browser = start_browser()
        cls.addClassCleanup(cls.browser.quit)

    def give(self, kind, name, type, width, height):
        before = len(self.waiting())
        self.assertTrue(self.browser.execute_async_script(GIVE, kind, name, type, width, height))
        self.wait(lambda: len(self.waiting()) > before)

    def waiting(self):
        return [node.get_attribute("src") for node in self.all("#pictures img")]

    def shown(self):
        return [node.get_attribute("src") for node in self.all(".message.user img")]

    def sides(self, selector):
        self.wait(lambda: self.script("return document.querySelector(arguments[0]).complete", selector))
        return self.script("const image = document.querySelector(arguments[0]); return [image.naturalWidth, image.naturalHeight]", selector)

    def test_a_pasted_picture_is_answered_and_kept(self):
        self.open(settings={"temperature": "0", "max_tokens": "4"})
        self.assertFalse(self.one("#pictures").is_displayed())
        self.give("paste", "shot.png", "image/png", 40, 32)
        self.assertTrue(self.waiting()[0].startswith("data:image/png;base64,"))
        self.say("ab")
        self.finish()
        self.assertRegex(self.facts(), r"prompt of (1[2-9]|[2-9]\d) tokens", "the picture has eight of them at least")
        self.assertEqual(len(self.shown()), 1)
        self.assertEqual(self.waiting(), [])
        before = self.shown()
        self.reload()
        self.assertEqual(self.shown(), before)
        self.assertEqual(self.sides(".message.user img"), [40, 32])

    def test_what_is_sent(self):
        self.open()
        self.answer_with([piece("x"), *end()], [piece("y"), *end()], [piece("z"), *end()])
        self.give("drop", "one.png", "image/png", 40, 32)
        self.give("drop", "two.jpg", "image/jpeg", 4096, 1024)
        self.assertEqual(self.sides("#pictures li:nth-child(2) img"), [2048, 512])
        self.say("two of them")
        self.finish()
        parts = self.script("return asked[0].messages[0].content")
        self.assertEqual([part["type"] for part in parts], ["image_url", "image_url", "text"])
        self.assertEqual([part["image_url"]["url"] for part in parts[:2]], self.shown())
        self.one(".message.user .edit").click()
        self.one(".message.user textarea").send_keys(" more", Keys.ENTER)
        self.finish()
        parts = self.script("return asked[1].messages[0].content")
        self.assertEqual([part["type"] for part in parts], ["image_url", "image_url", "text"], "an edited question keeps its pictures")
        self.assertEqual(parts[2]["text"], "two of them more")
        self.give("paste", "three.png", "image/png", 8, 8)
        self.one("#send").click()
        self.finish()
        self.assertEqual([part["type"] for part in self.script("return asked[2].messages[2].content")], ["image_url"], "a picture alone")

    def test_a_picture_can_be_removed_and_waits_with_the_draft(self):
        self.open()
        self.give("paste", "one.png", "image/png", 40, 32)
        self.give("paste", "two.png", "image/png", 16, 16)
        self.one("#pictures li:first-child button").click()
        self.wait(lambda: len(self.waiting()) == 1)
        self.assertEqual(self.sides("#pictures img"), [16, 16])
        self.reload()
        self.assertEqual(self.sides("#pictures img"), [16, 16])
        self.one("#new-conversation").click()
        self.assertEqual(self.waiting(), [])
        self.all("#conversations .open")[1].click()
        self.assertEqual(len(self.waiting()), 1)

    def test_a_refused_question_gives_its_pictures_back(self):
        self.open()
        self.answer_with(["lost"])
        self.give("paste", "one.png", "image/png", 40, 32)
        self.say("what?")
        self.wait(lambda: self.prompt() == "what?")
        self.assertEqual(len(self.waiting()), 1)
        self.assertEqual(self.shown(), [])


class Blind(PageTest):
    flags = ("--no-mmproj",)

    def test_a_model_without_eyes_gets_no_pictures(self):
        self.open()
        self.assertTrue(self.browser.execute_async_script(GIVE, "paste", "shot.png", "image/png", 40, 32))
        self.wait(lambda: "sees no pictures: it was loaded without an image encoder (mmproj)" in self.notice())
        self.assertFalse(self.one("#pictures").is_displayed())

    def test_what_is_no_picture_is_refused(self):
        self.open()
        self.script("""
            const data = new DataTransfer();
            data.items.add(new File([new Uint8Array([137, 80, 78, 71])], 'broken.png', { type: 'image/png' }));
            document.getElementById('model').replaceChildren(new Option('other', 'other'));
            document.getElementById('prompt').dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));""")
        self.wait(lambda: "broken.png is no picture that this browser can read." in self.notice())
