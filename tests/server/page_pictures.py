"""Pictures of the chat page, wide and narrow, light and dark: `page_test.py ROCMFORGE MODEL --pictures FOLDER`."""
import pathlib
import subprocess

from page_testing import PageTest, conversation

SIZES = {"wide": (1280, 640), "narrow": (390, 844)}
QUESTIONS = ("What is 127 + 458?", "Fill in JSON with the keys name, age, city: Maria is 34 years old and lives in Lisbon.", "Tell me a short story about a fox.")
# Not answers of the demo model: texts that a larger model may write.
WRITTEN = conversation("How do I solve a quadratic equation?", r"""With $ax^2 + bx + c = 0$ and $a \neq 0$ the roots are

$$x_{1,2} = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a}$$

| $b^2 - 4ac$ | real roots |
|---|--:|
| positive | 2 |
| zero | 1 |
| negative | 0 |

```python
from math import sqrt

def roots(a, b, c):
    d = b * b - 4 * a * c  # decides how many
    if d < 0:
        return []
    return sorted({(-b + s * sqrt(d)) / (2 * a) for s in (1, -1)})
```

- [x] `roots(1, -3, 2)` gives `[1.0, 2.0]`
- [ ] complex roots
""", id="1", title="Quadratic equations")


class Pictures(PageTest):
    """Not a test: uses the page as the tests do, and writes each picture that there can be."""
    folder = pathlib.Path()

    def runTest(self):
        self.open([WRITTEN], settings={"temperature": "0"})
        load = [PageTest.arguments[0], "load", self.server.url, "--concurrency", "6", "--requests", "240", "--prompt-tokens", "256",
                "--output-tokens", "20-300"]
        with subprocess.Popen(load, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            self.one("#new-conversation").click()
            self.say("Sort these numbers: 45, 12, 78, 3")
            self.finish()
            self.one("#new-conversation").click()
            process.wait()
        for question in QUESTIONS:
            self.say(question)
            self.finish()
        self.take("demo")
        self.all("#conversations .open")[2].click()
        self.take("written")

    def take(self, name):
        for size, (width, height) in SIZES.items():
            for scheme in ("light", "dark"):
                with self.scheme(scheme), self.screen(width, height):
                    self.wait(lambda: self.script("return innerWidth") == width)
                    self.script("document.getElementById('messages').scrollTop = 0; document.activeElement.blur()")
                    (self.folder / f"{name}_{size}_{scheme}.png").write_bytes(self.browser.get_screenshot_as_png())
