// Copying. A page that came by plain HTTP from another machine has no navigator.clipboard; a selection can be copied there.

function copyBySelection(text) {
  const before = document.activeElement;
  const area = document.createElement('textarea');
  area.className = 'hidden';
  area.readOnly = true;
  area.value = text;
  document.body.append(area);
  area.select();
  try {
    return document.execCommand('copy');
  } finally {
    area.remove();
    before?.focus({ preventScroll: true });
  }
}

/** Whether the text is on the clipboard now. Call it while a press of a button is handled. */
export async function copyText(text) {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // Not allowed, or the page is not focused: the other way may do.
    }
  }
  return copyBySelection(text);
}

/** Copies, and says on the button for a moment what became of it. */
export async function copyWith(button, text) {
  const copied = await copyText(text);
  const label = button.dataset.label ??= button.textContent;
  button.textContent = copied ? 'Copied' : 'Not copied';
  clearTimeout(Number(button.dataset.timer));
  button.dataset.timer = setTimeout(() => { button.textContent = label; }, 2000);
  return copied;
}
