"""Mathematics on the chat page: what models write of TeX becomes MathML, and whatever else they write stays text."""
from page_testing import PageTest, conversation

# TeX, and its elements and texts in the form of S(elements).
FORMULAS = {
    r"x = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a}":
        "mrow(mi:x mo:= mfrac(mrow(mo:− mi:b mo:± msqrt(mrow(msup(mi:b mn:2) mo:− mn:4 mi:a mi:c))) mrow(mn:2 mi:a)))",
    "x^23": "mrow(msup(mi:x mn:2) mn:3)",
    "a_i^2": "msubsup(mi:a mi:i mn:2)",
    "f''": "msup(mi:f mo:′′)",
    "3.14": "mn:3.14",
    r"\sum_{i=1}^n i": "mrow(munderover(mo:∑ mrow(mi:i mo:= mn:1) mi:n) mi:i)",
    r"\int_0^1 x\,dx": "mrow(msubsup(mo:∫ mn:0 mn:1) mi:x mspace: mi:d mi:x)",
    r"\lim_{x\to 0} x": "mrow(munder(mo:lim mrow(mi:x mo:→ mn:0)) mspace: mi:x)",
    r"2\sin x": "mrow(mn:2 mspace: mi:sin mspace: mi:x)",
    r"\sqrt[3]{8}": "mroot(mn:8 mn:3)",
    r"\binom nk": "mrow(mo:( mfrac(mi:n mi:k) mo:))",
    r"\left\{ \tfrac12 \right.": "mrow(mo:{ mstyle(mfrac(mn:1 mn:2)))",
    r"\mathbb{R}^n": "msup(mi:ℝ mi:n)",
    r"\mathbf{v}": "mi:𝐯",
    r"\vec{v}": "mover(mi:v mo:→)",
    r"\underbrace{a+b}_{c}": "munder(munder(mrow(mi:a mo:+ mi:b) mo:⏟) mi:c)",
    r"\overline{z}": "mrow(mi:z)",
    r"\text{if } x": "mrow(mtext:if mi:x)",
    r"\operatorname{rank} A": "mrow(mi:rank mspace: mi:A)",
    r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}": "mrow(mo:( mtable(mtr(mtd(mn:1) mtd(mn:2)) mtr(mtd(mn:3) mtd(mn:4))) mo:))",
    r"\begin{cases} 1 & x \\ 0 & y \end{cases}": "mrow(mo:{ mtable(mtr(mtd(mn:1) mtd(mi:x)) mtr(mtd(mn:0) mtd(mi:y))))",
    r"a \\ b": "mtable(mtr(mtd(mi:a)) mtr(mtd(mi:b)))",
    r"x % a comment": "mi:x",
    r"\nosuch{x}": r"mrow(mtext:\nosuch mi:x)",
    r"\constructor": r"mtext:\constructor",
}
# Invalid TeX.
UNREADABLE = ["{", "}", "a_", "a^b^c", r"\frac{1}", r"\frac^2", r"\left( x", r"\right)", r"\left", r"\begin{matrix} 1", r"\end{matrix}",
              r"\begin{nosuch} x \end{nosuch}", r"\text{a", r"\sqrt[3", r"\limits", "{" * 100 + "}" * 100, r"\sqrt" * 100 + "x", "x " * 5001]
# Texts with and without formulas.
TEXTS = {
    "Here $x$ and $y+1$.": ["x", "y+1"],
    r"Here \(x\) is \[y\].": ["x", "y"],
    "$$\nx\n- y\n$$": ["x\n- y"],
    "It is\n\\[ x \\]\nso": ["x"],
    "- item\n  $$x$$\n- $y$": ["x", "y"],
    "| $a$ | b |\n|---|---|\n| $$c$$ | d |": ["a", "c"],
    "\\begin{align*}\nx &= y\n\\end{align*}": ["\\begin{align*}\nx &= y\n\\end{align*}"],
    "**bold $x_1$ and $y_1$**": ["x_1", "y_1"],
    "It costs $5, or $6 with tax.": [],
    "US$5 and US$6, $5-$6": [],
    "5$ and 6$": [],
    r"a \$x\$ b": [],
    "`$x$` and\n\n```sh\necho $HOME $PATH$\n```": [],
    "$HOME and $PATH": [],
    "$$\nx\n\ny\n$$": [],
    "an open $$x and \\[ y": [],
}
# Each unit is repeated as a formula.
UNITS = ["{", "a_{", "^", r"\frac", r"\sqrt[", r"\left(", r"\left(x\right)", r"\begin{matrix}", "&", r"\\", "'", "1", r"\text{", r"\text{a}", r"\big(", "%",
         "%\n", r"\foo ", "x ", r"\mathbf", r"\hat", r"\sum_a^b"]
SHAPE = """
const shape = (node) => {
  const inner = [...node.children];
  return inner.length > 0 ? `${node.localName}(${inner.map(shape).join(' ')})` : `${node.localName}:${node.textContent.trim()}`;
};
"""


class Mathematics(PageTest):
    def with_module(self, name, script, *arguments):
        return self.browser.execute_async_script(
            SHAPE + f"const done = arguments[arguments.length - 1]; import('./page/{name}.js').then(({{ renderTex, renderMarkdown }}) => {{ {script} }});",
            *arguments)

    def test_formulas_become_mathml(self):
        self.open()
        found = self.with_module("tex", "done(arguments[0].map((tex) => { const node = renderTex(tex, true);"
                                        " return node && [shape(node.firstChild.firstChild), node.querySelector('annotation').textContent]; }))", list(FORMULAS))
        for (tex, expected), result in zip(FORMULAS.items(), found):
            self.assertEqual(result, [expected, tex])

    def test_what_cannot_be_read_is_shown_as_it_was_written(self):
        self.open([conversation("x", "\n\n".join(f"\\[{tex}\\]" for tex in UNREADABLE))])
        self.assertEqual(self.with_module("tex", "done(arguments[0].map((tex) => renderTex(tex, false)))", UNREADABLE), [None] * len(UNREADABLE))
        self.assertEqual([node.text for node in self.all(".message.assistant code.math")], [f"\\[{tex}\\]" for tex in UNREADABLE])

    def test_formulas_in_texts(self):
        self.open()
        found = self.with_module("markdown", "done(arguments[0].map((text) => renderMarkdown(text)"
                                             ".flatMap((node) => [...node.querySelectorAll('annotation')]).map((node) => node.textContent)))", list(TEXTS))
        for (text, expected), result in zip(TEXTS.items(), found):
            self.assertEqual(result, expected, text)

    def test_formulas_are_drawn(self):
        wide = "+".join("x" * 30 for _ in range(20))
        self.open([conversation("x", rf"Inline $\frac{{a}}{{b}}$ and" + f"\n\n$$\\begin{{pmatrix}}1&2\\\\3&4\\end{{pmatrix}}$$\n\n$${wide}$$")])
        heights = self.script("""
            const height = (selector) => document.querySelector(selector).getBoundingClientRect().height;
            return ['.body mfrac', '.body mfrac mi', '.body mtable', '.body mtd', '.body mo[form=prefix]'].map(height);""")
        self.assertGreater(heights[0], 1.5 * heights[1], "one stands above the other")
        self.assertGreater(heights[2], 1.5 * heights[3])
        self.assertGreater(heights[4], 1.5 * heights[3], "brackets grow")
        self.assertEqual(self.script("return document.querySelector('.body annotation').checkVisibility()"), False)
        self.assertFalse(self.script("const log = document.getElementById('messages'); return log.scrollWidth > log.clientWidth"))

    def test_hostile_formulas_stay_text(self):
        hostile = r"\text{<img src=x onerror=alert(1)>} \href{javascript:alert(1)}{x} \hspace{1e9em} <script> \style{x}{y}"
        self.open([conversation("x", f"$${hostile}$$")])
        allowed = {"math", "semantics", "annotation", "mrow", "mtext", "mi", "mo", "mn", "mspace"}
        self.assertLessEqual(set(self.script("return [...document.querySelectorAll('.math *')].map((node) => node.localName)")), allowed)
        self.assertLess(float(self.one(".math mspace").get_attribute("width").removesuffix("em")), 10)
        self.assertFalse(self.script("return document.documentElement.scrollWidth > innerWidth"))

    def test_no_formula_is_much_work(self):
        self.open()
        found = self.with_module("tex", """
            let work = 0;
            const counted = (object, name) => {
              const real = object[name];
              object[name] = function (...list) { work += 1; return real.apply(this, list); };
              return () => { object[name] = real; };
            };
            const restore = [counted(document, 'createElementNS'), counted(RegExp.prototype, 'exec'), counted(Element.prototype, 'append')];
            const works = arguments[0].map((unit) => {
              work = 0;
              renderTex(unit.repeat(10000 / unit.length), true);
              return work;
            });
            restore.forEach((one) => one());
            done(works);""", UNITS)
        for unit, work in zip(UNITS, found):
            self.assertGreater(work, 0, f"{unit!r}")
            self.assertLess(work, 10 * 10000, f"{unit!r}")
