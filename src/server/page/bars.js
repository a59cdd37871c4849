// The two lines of text that come and go: the banner about the server, and the notice beside the message box.

/** A bar of a text, a button for what can be done, and maybe one that closes it. */
export class Bar {
  constructor(root) {
    this.root = root;
    this.text = root.querySelector('p');
    this.button = root.querySelector('.act');
    this.button?.addEventListener('click', () => {
      const { act } = this;
      this.hide();
      act?.();
    });
    root.querySelector('.close')?.addEventListener('click', () => this.hide());
  }

  /** `action`: [label, what it does] */
  show(text, { isBad = true, action } = {}) {
    this.text.textContent = text;
    this.root.classList.toggle('bad', isBad);
    this.root.hidden = false;
    if (!this.button) return;
    this.button.hidden = !action;
    this.button.textContent = action?.[0] ?? '';
    this.act = action?.[1];
  }

  hide() {
    this.root.hidden = true;
    this.text.textContent = '';
    this.act = undefined;
  }
}
