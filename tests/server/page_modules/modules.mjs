// The page's modules outside of a browser, with as much of a document as they use.
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

class Text {
  constructor(text) {
    this.nodeName = '#text';
    this.textContent = String(text);
  }

  remove() {
    this.parent.childNodes.splice(this.parent.childNodes.lastIndexOf(this), 1);
  }
}

class Element {
  constructor(name) {
    Object.assign(this, { localName: name, nodeName: name.toUpperCase(), className: '', childNodes: [], attributes: new Map() });
  }

  append(...nodes) {
    for (const node of nodes) this.childNodes.push(this.adopt(node));
  }

  prepend(...nodes) {
    this.childNodes.unshift(...nodes.map((node) => this.adopt(node)));
  }

  adopt(node) {
    const child = typeof node === 'object' ? node : new Text(node);
    child.parent = this;
    return child;
  }

  remove() {
    this.parent.childNodes.splice(this.parent.childNodes.lastIndexOf(this), 1);
  }

  setAttribute(name, value) {
    this.attributes.set(name, String(value));
  }

  get lastChild() {
    return this.childNodes.at(-1) ?? null;
  }

  get textContent() {
    return this.childNodes.map((node) => node.textContent).join('');
  }

  set textContent(text) {
    this.childNodes = [new Text(text)];
  }
}

const kept = new Map();
globalThis.document = { createElement: (name) => new Element(name), createElementNS: (_, name) => new Element(name) };
globalThis.localStorage = new Proxy({
  getItem: (key) => kept.get(key) ?? null,
  setItem: (key, text) => { kept.set(key, String(text)); },
  removeItem: (key) => { kept.delete(key); },
}, { ownKeys: () => [...kept.keys()], getOwnPropertyDescriptor: (_, key) => ({ value: kept.get(key), enumerable: true, configurable: true }) });

/** The modules of a folder by name. Their files end in .js, which this interpreter takes for modules only where a package says so. */
export async function load(folder, ...names) {
  const copy = mkdtempSync(join(tmpdir(), 'page-'));
  try {
    cpSync(folder, copy, { recursive: true });
    writeFileSync(join(copy, 'package.json'), '{"type": "module"}');
    return Object.assign({}, ...await Promise.all(names.map((name) => import(pathToFileURL(join(copy, `${name}.js`)).href))));
  } finally {
    rmSync(copy, { recursive: true });
  }
}

/** Nodes in short: em(a), text in place. */
export const shape = (nodes) => nodes.map((node) => {
  if (typeof node === 'string') return node;
  if (node.nodeName === '#text') return node.textContent;
  const name = node.localName + (node.className ? `.${node.className.replaceAll(' ', '.')}` : '') + (node.href ? `[${node.href}]` : '');
  return `${name}(${shape(node.childNodes)})`;
}).join('');
