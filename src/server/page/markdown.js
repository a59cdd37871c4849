// Markdown on the page. Renders a text that grows, in slices: blocks that can't change any more keep their nodes.
import { plain } from './elements.js';
import { Blocks } from './markdown_blocks.js';

export { renderMarkdown } from './markdown_blocks.js';

const cheap = 16000;  // characters of an open block that are drawn again with each piece; longer ones when they have grown by a share
const share = 1 / 8;

export class MarkdownStream {
  constructor(container) {
    this.container = container;
    this.blocks = new Blocks();
    this.settledNodes = 0;
    this.drawn = 0;     // characters behind the settled blocks that were drawn
    this.waiting = '';  // what came since
    this.hasAll = true;
  }

  /** Takes text, which the next draw() shows. */
  add(text) {
    this.blocks.add(text);
    this.waiting += text;
    this.hasAll = false;
  }

  append(text) {
    this.add(text);
    this.draw(Infinity);
  }

  /** Draws blocks of about `budget` characters: what is left of it. `hasAll` says whether all is drawn. */
  draw(budget) {
    if (this.hasAll) return budget;
    if (this.drawn > cheap && this.waiting.length < this.drawn * share) return this.drawPlain(budget);
    this.waiting = '';
    this.drawn = 0;
    this.clear();
    const { blocks } = this;
    let isBehindSettled = true;
    for (let { at } = blocks, found; (found = blocks.read(at)); at = found.end) {
      this.container.append(found.node);
      budget -= found.size;
      isBehindSettled &&= found.isSettled;
      if (isBehindSettled) {
        blocks.at = found.end;
        this.settledNodes++;
        if (budget <= 0) return 0;
      } else {
        this.drawn += found.size;
      }
    }
    this.hasAll = true;
    return Math.max(0, budget);
  }

  /** As it was written, behind what was drawn. */
  drawPlain(budget) {
    if (this.tail) this.tail.append(this.waiting.slice(this.shown));
    else this.container.append(this.tail = plain([this.waiting]));
    this.shown = this.waiting.length;
    this.hasAll = true;
    return budget;
  }

  clear() {
    this.tail = null;
    while (this.container.childNodes.length > this.settledNodes) this.container.lastChild.remove();
  }
}
