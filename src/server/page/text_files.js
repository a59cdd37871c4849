// Text files that are dropped or chosen become part of the message.

const mostBytes = 1 << 20;

/** The file as part of a message, or an Error that says why not. */
export async function quoteFile(file) {
  if (file.size > mostBytes) throw new Error(`${file.name} has more than 1 MiB.`);
  let text;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Error(`${file.name} is not a text file in UTF-8.`);
  }
  if (text.includes('\0')) throw new Error(`${file.name} is not a text file.`);
  const runs = text.match(/`+/g) ?? [];
  const fence = '`'.repeat(runs.reduce((most, run) => Math.max(most, run.length + 1), 3));
  return `${file.name}:\n${fence}\n${text.replace(/\n$/, '')}\n${fence}\n`;
}

/** Calls `take(files)` for what is dropped on the element or chosen with the button. */
export function acceptFiles(element, button, input, take) {
  const hasFiles = (event) => event.dataTransfer?.types.includes('Files');
  element.addEventListener('dragover', (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    element.classList.add('dropping');
  });
  element.addEventListener('dragleave', (event) => {
    if (!element.contains(event.relatedTarget)) element.classList.remove('dropping');
  });
  element.addEventListener('drop', (event) => {
    element.classList.remove('dropping');
    if (!hasFiles(event)) return;
    event.preventDefault();
    take([...event.dataTransfer.files]);
  });
  button.addEventListener('click', () => input.click());
  input.addEventListener('change', () => {
    take([...input.files]);
    input.value = '';
  });
}
