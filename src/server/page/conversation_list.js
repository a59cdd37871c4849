// The list of conversations at the side: search, rename, delete.

const make = (name, properties = {}) => Object.assign(document.createElement(name), properties);

const titleOf = (item) => item.title || 'New conversation';

const contains = (item, words) => words.every((word) =>
  titleOf(item).toLowerCase().includes(word) || item.messages.some((message) => message.content.toLowerCase().includes(word)));

export class ConversationList {
  /** `act`: select, rename, remove. `stateOf(item)`: '', or what is to be seen of it: 'answering', 'new' or 'failed'. */
  constructor(list, search, act, stateOf) {
    Object.assign(this, { list, search, act, stateOf });
    search.addEventListener('input', () => this.show(this.items, this.current));
  }

  show(items, current) {
    this.items = items;
    this.current = current;
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = words.length > 0 ? items.filter((item) => contains(item, words)) : items;
    this.list.replaceChildren(...found.map((item) => this.row(item)));
    if (found.length === 0) this.list.append(make('li', { className: 'none', textContent: 'Nothing found' }));
  }

  row(item) {
    const row = make('li');
    const title = titleOf(item);
    const state = this.stateOf(item);
    const open = make('button', { type: 'button', className: 'open', textContent: title, title });
    row.classList.toggle('current', item === this.current);
    if (item === this.current) open.setAttribute('aria-current', 'true');
    if (state) {
      open.prepend(make('i', { className: `state ${state}` }));
      open.append(make('span', { className: 'hidden', textContent: `, ${{ answering: 'is being answered', new: 'has a new answer', failed: 'has failed' }[state]}` }));
    }
    open.addEventListener('click', () => this.act.select(item));
    const rename = make('button', { type: 'button', className: 'rename', textContent: '✎', ariaLabel: `Rename ${title}` });
    rename.addEventListener('click', () => this.rename(item, row));
    const remove = make('button', { type: 'button', className: 'remove', textContent: '✕', ariaLabel: `Delete ${title}` });
    remove.addEventListener('click', () => this.act.remove(item));
    row.append(open, rename, remove);
    return row;
  }

  rename(item, row) {
    const input = make('input', { value: titleOf(item), maxLength: 200, ariaLabel: 'Title' });
    let ended = false;
    const end = (keep) => {
      if (ended) return;
      ended = true;
      if (keep && input.value.trim() !== '') this.act.rename(item, input.value.trim());
      this.show(this.items, this.current);
    };
    input.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' && event.key !== 'Escape') return;
      event.stopPropagation();
      end(event.key === 'Enter');
    });
    input.addEventListener('blur', () => end(true));
    row.replaceChildren(input);
    input.select();
  }
}
