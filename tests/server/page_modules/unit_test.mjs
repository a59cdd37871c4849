// What the page's modules make of ordinary text. PAGE_FOLDER holds them.
import assert from 'node:assert/strict';
import test from 'node:test';
import { load, shape } from './modules.mjs';

const { renderMarkdown, MarkdownStream, renderTex, highlight, add, asTree, branches, path, removeTurn, removeVersion, show, Store, chatRequest,
  describeTimings, parseMetrics } = await load(process.env.PAGE_FOLDER, 'markdown', 'tex', 'highlight', 'thread', 'store', 'answer', 'api');

const ordinary = {
  'one *two* **three** ~~four~~ _five_ `six`': 'p(one em(two) strong(three) del(four) em(five) code(six))',
  '__a__ snake_case_name 2 * 3 * 4': 'p(strong(a) snake_case_name 2 * 3 * 4)',
  '**a *b* c**': 'p(strong(a em(b) c))',
  '*a **b** c*': 'p(*a strong(b) c*)',
  '``a ` b`` and `` ` ``': 'p(code(a ` b) and code(`))',
  '``a`': 'p(``a`)',
  '`a``': 'p(`a``)',
  '\\*a\\* \\`b\\`': 'p(*a* `b`)',
  '[a](http://b.c) [d](http://e.f/(g) "t") [h]( <mailto:i@j> )': 'p(a[http://b.c](a) a[http://e.f/(g)](d) a[mailto:i@j](h))',
  '[a](javascript:x) ![b](http://c.d/e.png)': 'p(a a[http://c.d/e.png](b))',
  '[a](http://b "c" d) [a](http://b c)': 'p([a](a[http://b](http://b) "c" d) [a](a[http://b](http://b) c))',
  'see https://a.b/c?d=e. And <http://f.g>': 'p(see a[https://a.b/c?d=e](https://a.b/c?d=e). And a[http://f.g](http://f.g))',
  'a  \nb\nc': 'p(abr()b\nc)',
  '# A\n## B ##\n###### C': 'h1(A)h2(B)h6(C)',
  '#no': 'p(#no)',
  'a\n\n---\n* * *\nb': 'p(a)hr()hr()p(b)',
  '- - x': 'ul(li(ul(li(x))))',
  '> a\nb\n> > c': 'blockquote(p(a\nb)blockquote(p(c)))',
  '1. a\n2. b\n   - c\n\n   d': 'ol(li(a)li(p(b)ul(li(c))p(d)))',
  '- [x] a\n- [ ] b': 'ul(li.task(input() a)li.task(input() b))',
  '| a | b |\n|---|:-:|\n| c \\| d |\n| e | f | g |': 'table(thead(tr(th(a)th.center(b)))tbody(tr(td(c | d)td.center())tr(td(e)td.center(f))))',
  'a | b\n--- | --': 'table(thead(tr(th(a)th(b)))tbody())',
  'a | b\n--- | x': 'p(a | b\n--- | x)',
  '```python\nx = 1 # y\n```\nz': 'div.code(div.row(span(python)button.copy-code.quiet.small(Copy))pre(code(x = span.number(1) span.comment(# y))))p(z)',
  '~~~\n```\n~~~': 'div.code(div.row(span()button.copy-code.quiet.small(Copy))pre(code(```)))',
  '\ta': 'p(a)',
  'a\r\nb': 'p(a\nb)',
};

test('ordinary Markdown', () => {
  for (const [text, expected] of Object.entries(ordinary)) assert.equal(shape(renderMarkdown(text)), expected, text);
});

const texts = [Object.keys(ordinary).join('\n\n'), Object.keys(ordinary).join('\n'), '\\begin{align}\nx\n\\end{align}\n\n$$\ny\n\nz\n$$', 'a\r\n\r\nb\r\n'];

test('a text that comes in pieces becomes what it is as a whole', () => {
  for (const text of texts) {
    for (const size of [1, 2, 7, 50]) {
      const body = document.createElement('div');
      const stream = new MarkdownStream(body);
      for (let at = 0; at < text.length; at += size) stream.append(text.slice(at, at + size));
      assert.equal(shape(body.childNodes), shape(renderMarkdown(text)), `pieces of ${size}`);
    }
  }
});

test('a long text is drawn in slices, and becomes what it is as a whole', () => {
  const text = Array.from({ length: 500 }, () => texts[0]).join('\n\n');
  const body = document.createElement('div');
  const stream = new MarkdownStream(body);
  stream.add(text);
  let slices = 0;
  for (; !stream.hasAll; slices++) stream.draw(20000);
  assert.ok(slices > text.length / 25000 && slices <= Math.ceil(text.length / 20000), `${slices} slices for ${text.length} characters`);
  assert.equal(shape(body.childNodes), shape(renderMarkdown(text)));
});

test('what comes of a long block is shown at once', () => {
  const body = document.createElement('div');
  const stream = new MarkdownStream(body);
  let text = '```\n';
  stream.append(text);
  for (let line = 0; line < 5000; line++) {
    const piece = `line ${line} of many\n`;
    text += piece;
    stream.append(piece);
    if (line % 100 === 0) assert.ok(body.textContent.includes(`line ${line} of many`));
  }
  stream.append('```\n\n*end* '.repeat(2000));
  assert.equal(shape(body.childNodes), shape(renderMarkdown(`${text}${'```\n\n*end* '.repeat(2000)}`)));
});

test('tables that are too wide are text, and short rows are not filled without end', () => {
  const line = (cell, count) => `|${`${cell}|`.repeat(count)}`;
  assert.equal(renderMarkdown(`${line('a', 200)}\n${line('-', 200)}\n`)[0].localName, 'table');
  const wide = `${line('a', 2500)}\n${line('-', 2500)}\n${line('b', 2500)}`;
  assert.equal(shape(renderMarkdown(wide)), `div.plain(${wide})`);
  const [ragged] = renderMarkdown(`${line('a', 200)}\n${line('-', 200)}\n${'|x\n'.repeat(1000)}`);
  const cells = ragged.childNodes[1].childNodes.reduce((sum, { childNodes }) => sum + childNodes.length, 0);
  assert.ok(cells >= 1000 && cells < 3000, `${cells} cells`);
});

test('formulas', () => {
  const tex = (source) => shape([renderTex(source, false) ?? 'none']).replace(/annotation\([^]*$/, '');
  assert.equal(tex('\\frac{a}{b}'), 'math(semantics(mfrac(mi(a)mi(b))');
  assert.equal(tex('\\text{ if  x }'), 'math(semantics(mtext(\u00a0if  x\u00a0)');
  assert.equal(tex('\\text{   }'), 'math(semantics(mtext(\u00a0)');
  assert.equal(tex('{'), 'none');
  const [array] = [renderTex('\\begin{array}{l|c r}a&b&c\\end{array}', true)];
  const cells = array.childNodes[0].childNodes[0].childNodes[0].childNodes;
  assert.deepEqual(cells.map((cell) => cell.attributes.get('class')), ['left', ' line', 'right']);
});

test('colours', () => {
  assert.equal(shape(highlight('if (x) return "a\\"b"; // c', 'js')),
    'span.keyword(if) (x) span.keyword(return) span.string("a\\"b"); span.comment(// c)');
  assert.equal(shape(highlight('SELECT 1.5', 'sql')), 'span.keyword(SELECT) span.number(1.5)');
  assert.equal(shape(highlight('if', 'nosuch')), 'if');
});

test('a conversation is a tree', () => {
  const conversation = { id: '1', messages: [], leaf: null };
  const question = add(conversation, null, { role: 'user', content: 'q' });
  const first = add(conversation, question.id, { role: 'assistant', content: 'a' });
  const second = add(conversation, question.id, { role: 'assistant', content: 'b' });
  assert.deepEqual(branches(conversation, first), [first, second]);
  assert.deepEqual(path(conversation), [question, second]);
  show(conversation, first);
  assert.deepEqual(path(conversation), [question, first]);
  removeVersion(conversation, first);
  assert.deepEqual(path(conversation), [question, second]);
  removeTurn(conversation, question);
  assert.deepEqual(conversation.messages, []);
  assert.equal(conversation.leaf, null);
  assert.deepEqual(path(asTree({ id: '2', messages: [{ role: 'user', content: 'x' }, { role: 'assistant', content: 'y' }] })).map(({ content }) => content), ['x', 'y']);
});

test('a turn is removed with all versions of its answer', () => {
  const conversation = { id: '1', messages: [], leaf: null };
  const first = add(conversation, null, { role: 'user', content: 'q' });
  const answer = add(conversation, first.id, { role: 'assistant', content: 'a' });
  const second = add(conversation, answer.id, { role: 'user', content: 'r' });
  const left = add(conversation, second.id, { role: 'assistant', content: 'b' });
  const right = add(conversation, second.id, { role: 'assistant', content: 'c' });
  const behindLeft = add(conversation, left.id, { role: 'user', content: 's' });
  const behindRight = add(conversation, right.id, { role: 'user', content: 't' });
  show(conversation, left);
  removeTurn(conversation, second);
  assert.deepEqual(conversation.messages, [first, answer, behindLeft, behindRight]);
  assert.deepEqual([behindLeft.parent, behindRight.parent], [answer.id, answer.id]);
  assert.deepEqual(path(conversation), [first, answer, behindLeft]);
  removeTurn(conversation, behindLeft);
  assert.deepEqual(path(conversation), [first, answer, behindRight]);
});

test('conversations are kept, exported and imported', () => {
  const store = new Store();
  const conversation = store.create();
  add(conversation, null, { role: 'user', content: 'hello' });
  store.save(conversation);
  assert.equal(new Store().conversations[0].messages[0].content, 'hello');
  const text = store.exportText();
  store.remove(conversation);
  assert.equal(new Store().conversations.length, 0);
  assert.equal(store.importText(text), 1);
  assert.equal(store.importText(text), 0);
  const withImage = (url) => JSON.stringify({ format: 'rocmforge-conversations', version: 1, conversations: [
    { id: url, messages: [{ role: 'user', content: '', images: [url] }] }] });
  assert.throws(() => store.importText(withImage('https://example.org/a.png')), /Conversation 1 of the file is not one/);
  assert.equal(store.importText(withImage('data:image/png;base64,AAAA')), 1);
  assert.throws(() => store.importText('{'), /This is no JSON/);
  assert.throws(() => store.importText('{}'), /not exported from this page/);
});

test('requests, figures and metrics', () => {
  assert.deepEqual(chatRequest([{ role: 'user', content: 'x', id: '1' }], { system: 's', temperature: '0', seed: '' }, 'm'),
    { model: 'm', messages: [{ role: 'system', content: 's' }, { role: 'user', content: 'x' }], temperature: 0 });
  const [image, alone] = chatRequest([{ role: 'user', content: 'x', images: ['data:a'] }, { role: 'user', content: '', images: ['data:b'] }], {}, 'm').messages;
  assert.deepEqual(image.content, [{ type: 'image_url', image_url: { url: 'data:a' } }, { type: 'text', text: 'x' }]);
  assert.deepEqual(alone.content, [{ type: 'image_url', image_url: { url: 'data:b' } }]);
  assert.deepEqual(describeTimings({ predicted_n: 1, predicted_per_second: 2 }), ['1 token', '2.0 tokens/s']);
  assert.deepEqual([...parseMetrics('# HELP a b\na{x="1"} 2\na{x="2"} 3\n')], [['a', 5]]);
});
